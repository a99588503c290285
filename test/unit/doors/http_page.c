/* http_page.c -- what docs/reference/http.md shows is what happens.
 *
 *     unit-doors-http_page http.md          compare
 *     unit-doors-http_page http.md print    print the page as it should be
 *
 * Each block of sh is one line of curl; the block behind it is the answer: of
 * `curl -i` the whole, otherwise the body. Bodies are cut into lines on the
 * page; a line that begins with blanks goes on where the one before it ended.
 */
#include "serve.h"

#define NOON INT64_C(1794744000) /* 2026-11-15T12:00:00Z */

struct curl {
    char method[16], target[256], fields[1024], body[1024];
    bool whole; /* -i */
};

static char page[65536];
static struct served s;
static struct sl_arena texts;

static const char *keep(const char *text, size_t len)
{
    const char *copy = sl_arena_copy(&texts, (struct sl_str){text, len});

    return copy ? copy : "(no memory)";
}

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
static const char *answer(const struct curl *curl)
{
    int fd = call(&s);
    char text[4096];
    const char *from;
    size_t len = 0;

    snprintf(text, sizeof(text),
             "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: "
             "%zu\r\n\r\n%s",
             curl->method, curl->target, curl->fields, strlen(curl->body),
             curl->body);
    say(fd, text);
    for (int i = 0; i < 4; i++)
        turn(&s);
    sl_buf_clear(&s.got);
    CHECK(take_in(&s, fd));
    close(fd);
    from = curl->whole ? s.got.bytes : strstr(s.got.bytes, "\r\n\r\n") + 4;
    for (; *from; from++)
        if (*from != '\r')
            s.got.bytes[len++] = *from;
    while (len > 0 && s.got.bytes[len - 1] == '\n')
        len--; /* of a head without a body */
    return keep(s.got.bytes, len);
}

/* A block of the page with its lines joined. */
static const char *join(const char *from, const char *end)
{
    char *to = sl_arena_take(&texts, (size_t)(end - from) + 1);
    size_t len = 0;

    if (!to)
        return "(no memory)";
    for (; from < end; from++) {
        if (*from == '\n' && (from[1] == ' ' || from + 1 == end))
            from += strspn(from + 1, " ");
        else
            to[len++] = *from;
    }
    to[len] = '\0';
    return to;
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

static void open_by_page(void)
{
    const char *from = find("```yaml\n", page), *end = find("```", from);
    static char policy[4096];

    if (!from || !end) {
        printf("Bail out! the page has no policy\n");
        exit(1);
    }
    snprintf(policy, sizeof(policy), "%.*s", (int)(end - 3 - from), from);
    serve_begin(&s, NOON * SL_S);
    rig_open(&s.rig, policy);
    serve_http(&s, 10);
    sl_arena_init(&texts, 1 << 20, &sl_alloc_libc);
}

static void compare(void)
{
    const char *at = page, *from, *end;
    static char line[2048];
    struct curl curl;

    while ((at = find("\n```sh\n", at)) != NULL) {
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
        CASE(keep(line, strlen(line)));
        read_curl(at, &curl);
        from = find(curl.whole ? "\n```\n```http\n" : "\n```\n```json\n", at);
        end = from ? strstr(from - 1, "\n```\n") : NULL;
        if (!CHECK(end != NULL))
            return;
        CHECK_STR(answer(&curl), join(from, end));
    }
}

static void print(void)
{
    const char *at = page, *done = page, *from;
    struct curl curl;

    while ((at = find("\n```sh\n", at)) != NULL) {
        read_curl(at, &curl);
        from = find(curl.whole ? "\n```\n```http\n" : "\n```\n```json\n", at);
        if (!from)
            break;
        printf("%.*s", (int)(from - done), done);
        print_cut(answer(&curl));
        done = strstr(from - 1, "\n```\n") + 1;
    }
    printf("%s", done);
}

int main(int argc, char **argv)
{
    int result;

    if (argc < 2)
        return 2;
    read_page(argv[1]);
    open_by_page();
    if (argc > 2)
        print();
    else
        compare();
    result = argc > 2 ? 0 : CHECK_DONE(); /* the page names the cases */
    sl_arena_done(&texts);
    sl_http_worker_close(&s.worker);
    rig_close(&s.rig);
    serve_end(&s);
    return result;
}
