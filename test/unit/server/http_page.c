/* http_page.c -- what docs/reference/http.md shows is what happens.
 *
 *     unit-doors-http_page http.md          compare
 *     unit-doors-http_page http.md print    print the page as it should be
 *
 * Each block of sh is one line of curl; the block behind it is the answer: of
 * `curl -i` the whole, otherwise the body. Bodies are cut into lines on the
 * page; a line that begins with blanks goes on where the one before it ended.
 */
#include "asked.h"

#define NOON INT64_C(1794744000) /* 2026-11-15T12:00:00Z */
#define DATE "Sun, 15 Nov 2026 12:00:00 GMT"

struct curl {
    char method[16], target[256], fields[1024], body[1024];
    bool whole; /* -i */
};

static char page[65536];

static void read_page(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(page, 1, sizeof(page) - 1, file) : 0;

    if (file)
        fclose(file);
    page[len] = '\0';
    if (len == 0 || len == sizeof(page) - 1) {
        printf("Bail out! %s can't be read\n", path);
        exit(1);
    }
}

/* ---- curl ---- */

/* The next word, which may stand in single quotes. */
static const char *next_word(const char *at, char *out, size_t size)
{
    const char *end;

    at += strspn(at, " ");
    if (*at == '\'')
        end = strchr(++at, '\'');
    else
        end = at + strcspn(at, " \n");
    snprintf(out, size, "%.*s", (int)(end - at), at);
    return *end == '\'' ? end + 1 : end;
}

static void read_curl(const char *at, struct curl *ret)
{
    char word[1024];
    size_t len;

    memset(ret, 0, sizeof(*ret));
    snprintf(ret->method, sizeof(ret->method), "GET");
    at = next_word(at, word, sizeof(word));
    CHECK_STR(word, "curl");
    while (*at && *at != '\n') {
        at = next_word(at, word, sizeof(word));
        if (strcmp(word, "-i") == 0) {
            ret->whole = true;
        } else if (strcmp(word, "-d") == 0) {
            at = next_word(at, ret->body, sizeof(ret->body));
            snprintf(ret->method, sizeof(ret->method), "POST");
        } else if (strcmp(word, "-H") == 0) {
            at = next_word(at, word, sizeof(word));
            len = strlen(ret->fields);
            snprintf(ret->fields + len, sizeof(ret->fields) - len, "%s\r\n",
                     word);
        } else {
            CHECK(strncmp(word, "http://localhost:8080/", 22) == 0);
            snprintf(ret->target, sizeof(ret->target), "%.200s", word + 21);
        }
    }
}

/* ---- answers ---- */

/* The answer as curl prints it, without CRs. */
static const char *answer(struct asked *a, const struct curl *curl)
{
    char line[300];
    struct sl_http1_answer out;
    size_t len = 0;

    snprintf(line, sizeof(line), "%s %s", curl->method, curl->target);
    asked_send(a, line, curl->fields, sl_str_c(curl->body));
    if (!curl->whole)
        return asked_body(a);
    out = (struct sl_http1_answer){
        .status = a->call->status,
        .fields = a->call->fields,
        .field_count = a->call->field_count,
        .content_type = a->call->content_type,
        .body = a->call->body,
        .keep_alive = true,
        .minor = 1,
        .date = SL_STR(DATE),
    };
    sl_buf_clear(&a->text);
    CHECK_EQ(sl_http1_write(&a->text, &out), 0);
    for (size_t i = 0; i < a->text.len; i++)
        if (a->text.bytes[i] != '\r')
            a->text.bytes[len++] = a->text.bytes[i];
    while (len > 0 && a->text.bytes[len - 1] == '\n')
        len--; /* of a head without a body */
    a->text.len = len;
    return asked_text(a, sl_buf_str(&a->text));
}

/* A block of the page with its lines joined. */
static const char *join(struct asked *a, const char *from, const char *end)
{
    sl_buf_clear(&a->text);
    for (; from < end; from++) {
        if (*from == '\n' && (from[1] == ' ' || from + 1 == end))
            from += strspn(from + 1, " ");
        else
            CHECK_EQ(sl_buf_add(&a->text, (struct sl_str){from, 1}), 0);
    }
    return asked_text(a, sl_buf_str(&a->text));
}

/* Cut where a line becomes too long: behind a comma that parts two members,
 * which is followed by a quote or a bracket. */
static void print_cut(const char *text)
{
    const char *body = strstr(text, "\n\n");
    const char *from = body ? body + 2 : *text == '{' ? text : "";
    int column = 0;

    printf("%.*s", (int)(*from ? from - text : (long)strlen(text)), text);
    for (; *from; from++) {
        putchar(*from);
        column++;
        if (*from == ',' && column > 40 && strchr("\"{", from[1]) &&
            (from[-1] != '"' || from[-2] != '\\')) {
            printf("\n ");
            column = 1;
        }
    }
    putchar('\n');
}

/* ---- the page ---- */

static const char *find(const char *text, const char *from)
{
    const char *found = from ? strstr(from, text) : NULL;

    return found ? found + strlen(text) : NULL;
}

static void open_by_page(struct asked *a)
{
    const char *from = find("```yaml\n", page), *end = find("```", from);
    static char policy[4096];

    if (!from || !end) {
        printf("Bail out! the page has no policy\n");
        exit(1);
    }
    snprintf(policy, sizeof(policy), "%.*s", (int)(end - 3 - from), from);
    asked_open(a, policy);
    a->worker.still = NOON * SL_S;
}

static void compare(struct asked *a)
{
    const char *at = page, *from, *end;
    static char line[2048];
    struct curl curl;

    while ((at = find("\n```sh\n", at)) != NULL) {
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
        CASE(asked_text(a, sl_str_c(line)));
        read_curl(at, &curl);
        from = find(curl.whole ? "\n```\n```http\n" : "\n```\n```json\n", at);
        end = from ? strstr(from - 1, "\n```\n") : NULL;
        if (!CHECK(end != NULL))
            return;
        CHECK_STR(answer(a, &curl), join(a, from, end));
    }
}

static void print(struct asked *a)
{
    const char *at = page, *done = page, *from;
    struct curl curl;

    while ((at = find("\n```sh\n", at)) != NULL) {
        read_curl(at, &curl);
        from = find(curl.whole ? "\n```\n```http\n" : "\n```\n```json\n", at);
        if (!from)
            break;
        printf("%.*s", (int)(from - done), done);
        print_cut(answer(a, &curl));
        done = strstr(from - 1, "\n```\n") + 1;
    }
    printf("%s", done);
}

int main(int argc, char **argv)
{
    struct asked a;
    int result;

    if (argc < 2)
        return 2;
    read_page(argv[1]);
    open_by_page(&a);
    if (argc > 2)
        print(&a);
    else
        compare(&a);
    result = argc > 2 ? 0 : CHECK_DONE(); /* the page names the cases */
    asked_close(&a);
    return result;
}
