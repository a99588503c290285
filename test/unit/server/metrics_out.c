/* metrics_out.c -- what docs/reference/http.md and resp.md show is what
 * happens.
 *
 *     unit-doors-page http.md          compare
 *     unit-doors-page http.md print    print the page as it should be
 *
 * The block of yaml is the policy. A block of sh with curl is a request, and
 * the block behind it the answer: of `curl -i` the whole, otherwise the body,
 * cut into lines; a line that begins with a blank goes on where the one before
 * it ended. In a block of redis, a line behind "> " is a command, and the lines
 * below it are what redis-cli prints of its reply; "# +2s" lets time pass. The
 * table of commands is that of commands.def.
 */
#include <stdarg.h>

#include "base/parse.h"
#include "server/resp/resp_int.h"
#include "servers.h"

#define NOON (INT64_C(1794744000) * SL_S) /* 2026-11-15T12:00:00Z */

static char page[65536];
static struct sl_buf out;
static int resp = -1; /* a connection */

static void add(struct sl_str text)
{
    if (sl_buf_add(&out, text))
        abort();
}

static void addf(const char *fmt, ...) SL_PRINTF(1, 2);

static void addf(const char *fmt, ...)
{
    char line[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    add(sl_str_c(line));
}

static void read_page(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(page, 1, sizeof(page) - 1, file) : 0;

    if (file)
        fclose(file);
    must(len == 0 || len == sizeof(page) - 1, path, NULL);
}

static void set_time(sl_ns now)
{
    s.rig.now = now;
    sl_clock_set(&s.clock, now);
}

/* The policy of the page, for the requests that follow it; time goes on. */
static void open_policy(const char *from)
{
    static char text[4096];
    const char *end = strstr(from, "```\n");
    sl_ns now = s.rig.now;

    snprintf(text, sizeof(text), "%.*s", (int)(end ? end - from : 0), from);
    if (resp >= 0)
        close(resp);
    close_servers();
    open_servers(text, false);
    set_time(now);
    resp = come(sl_server_accept, &servers.resp_worker, LOCAL);
}

/* What comes on a connection is in s.got. */
static void exchange(int fd, struct sl_str text)
{
    CHECK_EQ(send(fd, text.at, text.len, MSG_NOSIGNAL), text.len);
    for (int i = 0; i < 4; i++)
        turn(&s);
    sl_buf_clear(&s.got);
    CHECK(take_in(&s, fd));
}

/* ---- curl ---- */

struct curl {
    char method[16], target[256], fields[1024], body[1024];
    bool is_there, whole; /* -i */
};

/* The next word, which may stand in single quotes. */
static const char *next_word(const char *at, char *word, size_t size)
{
    const char *end;

    at += strspn(at, " ");
    end = *at == '\'' ? strchr(++at, '\'') : at + strcspn(at, " \n");
    snprintf(word, size, "%.*s", (int)(end - at), at);
    return *end == '\'' ? end + 1 : end;
}

static void read_curl(const char *at, struct curl *ret)
{
    char word[1024];

    *ret = (struct curl){.method = "GET", .is_there = true};
    at = next_word(at, word, sizeof(word));
    while (*at && *at != '\n') {
        at = next_word(at, word, sizeof(word));
        if (strcmp(word, "-i") == 0) {
            ret->whole = true;
        } else if (strcmp(word, "-d") == 0) {
            at = next_word(at, ret->body, sizeof(ret->body));
            snprintf(ret->method, sizeof(ret->method), "POST");
        } else if (strcmp(word, "-H") == 0) {
            size_t len = strlen(ret->fields);

            at = next_word(at, word, sizeof(word));
            snprintf(ret->fields + len, sizeof(ret->fields) - len, "%s\r\n",
                     word);
        } else {
            CHECK(strncmp(word, "http://localhost:8080/", 22) == 0);
            snprintf(ret->target, sizeof(ret->target), "%.200s", word + 21);
        }
    }
}

/* A body is cut where a line becomes too long: behind a comma that parts two
 * members, which is followed by a quote or a brace. */
static void add_body(const char *from)
{
    int column = 0;

    for (; *from; from++) {
        add((struct sl_str){from, 1});
        column++;
        if (*from == ',' && column > 40 && strchr("\"{", from[1]) &&
            (from[-1] != '"' || from[-2] != '\\')) {
            add(SL_STR("\n "));
            column = 1;
        }
    }
}

/* The answer as curl prints it, without CRs. */
static void run_curl(const struct curl *curl)
{
    int fd = call(&s);
    char text[4096];
    const char *body;
    int len = snprintf(text, sizeof(text),
                       "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: "
                       "%zu\r\n\r\n%s",
                       curl->method, curl->target, curl->fields,
                       strlen(curl->body), curl->body);

    exchange(fd, (struct sl_str){text, (size_t)len});
    close(fd);
    body = strstr(s.got.bytes, "\r\n\r\n");
    for (const char *at = s.got.bytes; curl->whole && at < body; at++)
        if (*at != '\r')
            add((struct sl_str){at, 1});
    if (body)
        addf("%s", curl->whole && body[4] ? "\n\n" : "");
    if (body && (body[4] == '{' || body[4] == '['))
        add_body(body + 4);
    else if (body)
        addf("%s", body + 4);
    add(SL_STR("\n"));
}

/* ---- redis-cli ---- */

static void print_value(struct sl_str *rest)
{
    struct sl_resp_value v = sl_resp_next(rest);

    if (v.type == SL_RESP_SIMPLE) {
        addf("%.*s\n", SL_STR_ARG(v.text));
    } else if (v.type == SL_RESP_ERROR) {
        addf("(error) %.*s\n", SL_STR_ARG(v.text));
    } else if (v.type == SL_RESP_INTEGER) {
        addf("(integer) %" PRId64 "\n", v.integer);
    } else if (v.type == SL_RESP_NIL) {
        add(SL_STR("(nil)\n"));
    } else if (v.type == SL_RESP_ARRAY) {
        for (size_t i = 0; i < v.count; i++) {
            addf("%*zu) ", v.count > 9 ? 2 : 1, i + 1);
            print_value(rest);
        }
    } else if (v.text.len > 0 && memchr(v.text.at, '\n', v.text.len)) {
        add(v.text); /* lines for people */
    } else {
        add(SL_STR("\""));
        for (size_t i = 0; i < v.text.len; i++)
            addf("%s%c", strchr("\"\\", v.text.at[i]) ? "\\" : "",
                 v.text.at[i]);
        add(SL_STR("\"\n"));
    }
}

/* Anything but commands and time is a reply, and comes anew. */
static void run_redis(struct sl_str line)
{
    struct sl_str rest;
    sl_ns span;

    if (line.len > 3 && memcmp(line.at, "# +", 3) == 0) {
        CHECK_EQ(sl_parse_duration(sl_str_from(line, 3), &span, NULL), 0);
        set_time(s.rig.now + span);
    } else if (line.len <= 2 || memcmp(line.at, "> ", 2) != 0) {
        return;
    }
    addf("%.*s\n", SL_STR_ARG(line));
    if (line.at[0] == '#')
        return;
    line = sl_str_from(line, 2);
    CHECK_EQ(send(resp, line.at, line.len, MSG_NOSIGNAL), line.len);
    exchange(resp, SL_STR("\r\n"));
    rest = sl_buf_str(&s.got);
    while (rest.len > 0)
        print_value(&rest);
}

static void print_commands(void)
{
    add(SL_STR("|---|---|---|\n"));
    for (unsigned i = 0; i < sl_resp_row_count; i++) {
        const struct sl_resp_row *row = &sl_resp_rows[i];
        char words[32];

        if (row->most == row->least)
            snprintf(words, sizeof(words), "%u", row->least - 1);
        else if (row->most == SL_RESP_ARGS)
            snprintf(words, sizeof(words), "%u and more", row->least - 1);
        else
            snprintf(words, sizeof(words), "%u to %u", row->least - 1,
                     row->most - 1);
        addf("| `%s`%s | %s | %s |\n", row->name, row->is_public ? "*" : "",
             words, row->summary);
    }
}

/* ---- the page ---- */

static bool is(struct sl_str line, const char *text)
{
    return sl_str_eq(line, sl_str_c(text));
}

static void make_page(void)
{
    enum { PLAIN, REDIS, TABLE, ANSWER } in = PLAIN;
    struct curl curl = {.is_there = false};

    for (const char *at = page; *at;) {
        struct sl_str line = {at, strcspn(at, "\n")};

        at += line.len + (at[line.len] == '\n');
        if (in == REDIS && !is(line, "```")) {
            run_redis(line);
            continue;
        }
        if ((in == TABLE && line.len > 0) || (in == ANSWER && !is(line, "```")))
            continue;
        in = is(line, "```redis") ? REDIS : PLAIN;
        addf("%.*s\n", SL_STR_ARG(line));
        if (is(line, "```yaml"))
            open_policy(at);
        if (is(line, "```sh") && strncmp(at, "curl ", 5) == 0)
            read_curl(at, &curl);
        if (curl.is_there && (is(line, "```json") || is(line, "```http"))) {
            run_curl(&curl);
            curl.is_there = false;
            in = ANSWER;
        }
        if (is(line, "| command | words | |")) {
            print_commands();
            in = TABLE;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    read_page(argv[1]);
    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    open_policy("sluice: 1\ndefault: []\n```\n"); /* until the page has one */
    if (strstr(page, "noon on 15 November 2026"))
        set_time(NOON);
    make_page();
    close(resp);
    close_servers();
    add((struct sl_str){"", 1});
    if (argc > 2) {
        printf("%s", out.bytes);
        return 0;
    }
    CASE("the page shows what happens");
    CHECK_STR(page, out.bytes);
    sl_buf_done(&out);
    return CHECK_DONE();
}
