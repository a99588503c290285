/* http1_write.c -- answers: to the letter, and what must not be in them. */
#include "wire/http1.h"

#include "check.h"
#include "fail.h"

#define FIELD(name, value)                                                     \
    {                                                                          \
        {(name), sizeof(name) - 1},                                            \
        {                                                                      \
            (value), sizeof(value) - 1                                         \
        }                                                                      \
    }

#define DATE "Sun, 15 Nov 2026 07:00:00 GMT"

static bool writes(const struct sl_http1_answer *answer, const char *want)
{
    struct sl_buf out;
    bool same;

    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_buf_add(&out, SL_STR("before ")), 0);
    CHECK_EQ(sl_http1_write(&out, answer), 0);
    sl_buf_check(&out);
    CHECK(sl_str_eq((struct sl_str){out.bytes, 7}, SL_STR("before ")));
    same = sl_str_eq(sl_str_from(sl_buf_str(&out), 7), sl_str_c(want));
    if (!same)
        printf("# got: %.*s\n", SL_STR_ARG(sl_buf_str(&out)));
    sl_buf_done(&out);
    return same;
}

TEST(whole)
{
    static const struct sl_http1_field fields[] = {
        FIELD("RateLimit", "\"api\";r=4;t=12"),
        FIELD("Retry-After", "12"),
        FIELD("X-Empty", ""),
    };
    struct sl_http1_answer answer = {
        .status = 429,
        .fields = fields,
        .field_count = SL_LEN(fields),
        .content_type = SL_STR("application/problem+json"),
        .body = SL_STR("{\"status\":429}"),
        .keep_alive = true,
        .minor = 1,
        .date = SL_STR(DATE),
    };

    CASE("an answer with everything");
    CHECK(writes(&answer, "HTTP/1.1 429 Too Many Requests\r\n"
                          "Date: " DATE "\r\n"
                          "Content-Type: application/problem+json\r\n"
                          "RateLimit: \"api\";r=4;t=12\r\n"
                          "Retry-After: 12\r\n"
                          "X-Empty: \r\n"
                          "Content-Length: 14\r\n"
                          "\r\n"
                          "{\"status\":429}"));

    CASE("HEAD has the length and no body");
    answer.head = true;
    answer.field_count = 0;
    answer.date.len = 0;
    CHECK(writes(&answer, "HTTP/1.1 429 Too Many Requests\r\n"
                          "Content-Type: application/problem+json\r\n"
                          "Content-Length: 14\r\n\r\n"));
}

TEST(framing)
{
    static const struct {
        const char *what;
        struct sl_http1_answer answer;
        const char *want;
    } rows[] = {
        {"the least",
         {.status = 200, .keep_alive = true, .minor = 1},
         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"          },
        {"the last of a connection",
         {.status = 200, .minor = 1},
         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
         "Connection: close\r\n\r\n"                             },
        {"HTTP/1.0 is told that it may stay",
         {.status = 200, .keep_alive = true},
         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
         "Connection: keep-alive\r\n\r\n"                        },
        {"HTTP/1.0 is told that it may not",
         {.status = 200},
         "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
         "Connection: close\r\n\r\n"                             },
        {"204 has no body and no length",
         {.status = 204, .keep_alive = true, .minor = 1, .body = {"abc", 3}},
         "HTTP/1.1 204 No Content\r\n\r\n"                       },
        {"nor has 304",
         {.status = 304, .keep_alive = true, .minor = 1, .body = {"abc", 3}},
         "HTTP/1.1 304 Not Modified\r\n\r\n"                     },
        {"304 may be the last",
         {.status = 304, .minor = 1},
         "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"},
        {"100 says nothing else",
         {.status = 100, .body = {"abc", 3}},
         "HTTP/1.1 100 Continue\r\n\r\n"                         },
        {"a status without words",
         {.status = 299, .keep_alive = true, .minor = 1, .body = {"abc", 3}},
         "HTTP/1.1 299 \r\nContent-Length: 3\r\n\r\nabc"         },
        {"the last status",
         {.status = 999, .keep_alive = true, .minor = 1},
         "HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n"            },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].what);
        CHECK(writes(&rows[i].answer, rows[i].want));
    }
}

/* Each of these must not be in an answer. */
static const struct sl_http1_field unfit[] = {
    FIELD("A", "b\r\nC: d"),
    FIELD("A", "b\nC: d"),
    FIELD("A", "b\rC: d"),
    FIELD("A", "\r\n\r\nbody"),
    FIELD("A", "a long value, and then\r\n"),
    FIELD("A", "a long value, and then\0more of it"),
    FIELD("A", "\0"),
    FIELD("A", "\033[2J"),
    FIELD("A", "\177"),
    FIELD("A\r\nB", "c"),
    FIELD("A: b\r\nC", "d"),
    FIELD("A b", "c"),
    FIELD("A:", "b"),
    FIELD("", "a"),
    FIELD("\303\244", "b"),
    FIELD("Content-Length", "7"),
    FIELD("content-LENGTH", "7"),
    FIELD("Transfer-Encoding", "chunked"),
    FIELD("transfer-encoding", "chunked"),
    FIELD("Connection", "upgrade"),
};

TEST(unfit)
{
    static const struct sl_http1_field fit[] = {
        FIELD("A", "b\tc \303\244, \"d\""),
        FIELD("!#$%&'*+-.^_`|~", "b"),
        FIELD("Content-Language", "en"),
        FIELD("Content-Lengthy", "e"),
    };
    struct sl_http1_answer answer = {
        .status = 200, .keep_alive = true, .minor = 1};

    CASE("a field that would break the answer is left out");
    answer.field_count = 1;
    for (size_t i = 0; i < SL_LEN(unfit); i++) {
        answer.fields = &unfit[i];
        CHECK(writes(&answer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    }

    CASE("the others stay");
    answer.fields = fit;
    answer.field_count = SL_LEN(fit);
    CHECK(writes(&answer, "HTTP/1.1 200 OK\r\nA: b\tc \303\244, \"d\"\r\n"
                          "!#$%&'*+-.^_`|~: b\r\nContent-Language: en\r\n"
                          "Content-Lengthy: e\r\nContent-Length: 0\r\n\r\n"));

    CASE("so it is with the date and the type");
    answer.field_count = 0;
    answer.date = SL_STR("x\r\nA: b");
    answer.content_type = SL_STR("text/plain\nA: b");
    CHECK(writes(&answer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
}

/* By the letter of RFC 9110, 5.6.2 and 5.5. */
static bool allows(bool name, int c)
{
    if (!name)
        return c == '\t' || (c >= 0x20 && c != 0x7f);
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Is a field of this name and value written? */
static bool is_written(struct sl_buf *out, struct sl_str name,
                       struct sl_str value)
{
    struct sl_http1_field field = {name, value};
    struct sl_http1_answer answer = {
        .status = 200, .fields = &field, .field_count = 1, .minor = 1};
    size_t without = sizeof("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
                            "Connection: close\r\n\r\n") -
                     1;

    sl_buf_clear(out);
    CHECK_EQ(sl_http1_write(out, &answer), 0);
    CHECK(out->len == without ||
          out->len == without + name.len + value.len + 4);
    return out->len > without;
}

/* Does the reader accept it? */
static bool is_read(struct sl_buf *in, struct sl_str name, struct sl_str value)
{
    static const struct sl_http1_limits limits = {8192, 16384, 1024};
    static struct sl_http1 parser;

    sl_buf_clear(in);
    CHECK_EQ(sl_buf_addf(in, "GET / HTTP/1.1\r\nHost: a\r\n"), 0);
    CHECK_EQ(sl_buf_add(in, name), 0);
    CHECK_EQ(sl_buf_add(in, SL_STR(": ")), 0);
    CHECK_EQ(sl_buf_add(in, value), 0);
    CHECK_EQ(sl_buf_add(in, SL_STR("\r\n\r\n")), 0);
    sl_http1_begin(&parser, &limits);
    return sl_http1_read(&parser, in) == SL_HTTP1_DONE;
}

/* Every byte at every place of texts that are shorter than a register, as long,
 * and longer; CR and LF end a line for the reader. */
TEST(every_byte)
{
    static const size_t lens[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33};
    unsigned wrong = 0;
    struct sl_buf buf;
    char text[33];

    CASE("reader and writer allow the same bytes at every place");
    sl_buf_init(&buf, 16384, &sl_alloc_libc);
    for (size_t l = 0; l < SL_LEN(lens); l++)
        for (size_t at = 0; at < lens[l]; at++)
            for (int i = 0; i < 512; i++) {
                bool name = i < 256;
                int c = i & 255;
                struct sl_str odd = {text, lens[l]};
                struct sl_str names = name ? odd : SL_STR("n");
                struct sl_str value = name ? SL_STR("v") : odd;

                memset(text, 'x', sizeof(text));
                text[at] = (char)c;
                wrong += is_written(&buf, names, value) != allows(name, c);
                if (c != '\r' && c != '\n' && c != ':')
                    wrong += is_read(&buf, names, value) != allows(name, c);
            }
    CHECK_EQ(wrong, 0);
    sl_buf_done(&buf);
}

TEST(reasons)
{
    static const int known[] = {
        100, 101, 200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303,
        304, 305, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408,
        409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 425, 426,
        428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 507, 511};

    CASE("words for a status");
    CHECK_STR(sl_http1_reason(200), "200 OK");
    CHECK_STR(sl_http1_reason(431), "431 Request Header Fields Too Large");
    for (size_t i = 0; i < SL_LEN(known); i++) {
        const char *reason = sl_http1_reason(known[i]);

        CHECK_EQ(strtol(reason, NULL, 10), known[i]);
        CHECK(strlen(reason) > 5 && strlen(reason) < 40 && reason[3] == ' ');
    }

    CASE("no words for what is none");
    CHECK_STR(sl_http1_reason(299), "");
    CHECK_STR(sl_http1_reason(99), "");
    CHECK_STR(sl_http1_reason(512), "");
    CHECK_STR(sl_http1_reason(-1), "");
}

TEST(failures)
{
    struct sl_http1_answer answer = {.status = 200, .body = SL_STR("body")};
    int err = SLUICE_ENOMEM;
    struct sl_buf out;
    unsigned n;

    CASE("with the nth allocation failing: ENOMEM, nothing written, no leak");
    for (n = 1; err; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);

        sl_buf_init(&out, 1000, &alloc);
        err = sl_http1_write(&out, &answer);
        CHECK(!err || err == SLUICE_ENOMEM);
        CHECK_EQ(out.len == 0, err != 0);
        CHECK_EQ(f.calls, 1); /* room is reserved once */
        sl_buf_done(&out);
        fail_check(&f);
    }
    CHECK_EQ(n, 3);

    CASE("an answer that passes the ceiling is not written");
    sl_buf_init(&out, 1000, &sl_alloc_libc);
    answer.body = (struct sl_str){"", 1000};
    CHECK_EQ(sl_http1_write(&out, &answer), SLUICE_EFULL);
    CHECK_EQ(out.len, 0);

    CASE("a status of other than three digits is a mistake of the caller");
    answer.body.len = 0;
    for (size_t i = 0; i < 4; i++) {
        answer.status = (int[]){99, 1000, 0, -200}[i];
        CHECK_EQ(sl_http1_write(&out, &answer), SLUICE_EINVAL);
    }
    CHECK_EQ(out.len, 0);
    sl_buf_done(&out);
}

CHECK_MAIN()
