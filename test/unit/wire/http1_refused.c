/* http1_refused.c -- requests that are refused: the ambiguous, the broken and
 * the too long. */
#include "wire/http1.h"

#include "check.h"
#include "http1_run.h"
#include "rows.h"

static const uint8_t bytewise[] = {1};

static void check_refused(const struct run *run, int status)
{
    const struct sl_http1 *p = &run->http1;

    if (!CHECK_EQ(run->result, SL_HTTP1_REFUSED))
        return;
    CHECK_EQ(p->status, status);
    CHECK(p->why && strlen(p->why) > 10);
    CHECK(!p->keep_alive);
    CHECK(!p->expect_continue);
}

TEST(table)
{
    for (size_t i = 0; i < SL_LEN(refused_rows); i++) {
        const struct refused *row = &refused_rows[i];
        struct run run;

        CASE(row->what);
        run_whole(&run, row->text);
        check_refused(&run, row->status);
        run_done(&run);
        run_cut(&run, row->text, &run_limits, bytewise, 1);
        check_refused(&run, row->status);

        /* It stays so, whatever comes. */
        run_feed(&run, SL_STR("\r\n\r\n" GET HOST "\r\n"));
        check_refused(&run, row->status);
        run_done(&run);
    }
}

/* ---- bytes, one by one ---- */

/* The status of `before`, a byte and `behind`; 0 if it was taken. */
static int try_byte(const char *before, int byte, const char *behind)
{
    char text[256];
    size_t len = strlen(before), more = strlen(behind);
    struct run run;
    int status;

    memcpy(text, before, len);
    text[len] = (char)byte;
    memcpy(text + len + 1, behind, more);
    run_whole(&run, (struct sl_str){text, len + 1 + more});
    CHECK(run.result != SL_HTTP1_MORE);
    status = run.http1.status;
    run_done(&run);
    return status;
}

#define CHECK_BYTE(before, byte, behind, status)                               \
    do {                                                                       \
        if (!CHECK_EQ(try_byte(before, byte, behind), status))                 \
            printf("# with byte %d\n", byte);                                  \
    } while (0)

static bool in(int byte, const char *set)
{
    return byte > 0 && strchr(set, byte) != NULL;
}

TEST(bytes)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    CASE("each byte in the method, the target, a name, a value");
    for (int c = 0; c < 256; c++) {
        bool seen = c > 0x20 && c < 0x7f;
        bool text = c == '\t' || (c >= 0x20 && c != 0x7f);
        int value = text ? 0 : 400;

        CHECK_BYTE("G", c, "T / HTTP/1.1\r\n" HOST "\r\n",
                   in(c, token) ? 0 : 400);
        CHECK_BYTE("GET /a", c, "b HTTP/1.1\r\n" HOST "\r\n",
                   seen && c != '#' ? 0 : 400);
        CHECK_BYTE(GET HOST "A", c, "B: c\r\n\r\n",
                   in(c, token) || c == ':' ? 0 : 400);
        CHECK_BYTE(GET HOST "A: b", c, "c\r\n\r\n", value);
        CHECK_BYTE(GET HOST "A: b", c, "c01234567890123\r\n\r\n", value);
        CHECK_BYTE(GET HOST "A: b012345678901", c, "4567\r\n\r\n", value);
    }

    CASE("each byte in Host, a length, a chunk's size");
    for (int c = 0; c < 256; c++) {
        bool host = in(c, token) ? !in(c, "#^`|%") : in(c, "()=;: \t");

        CHECK_BYTE(GET "Host: a", c, "\r\n\r\n", host ? 0 : 400);
        CHECK_BYTE(POST HOST "Content-Length: 1", c,
                   "\r\n\r\n0123456789012345678",
                   in(c, "0123456789 ") ? 0 : 400);
        CHECK_BYTE(CHUNKED, c, "\r\n012345678901234\r\n0\r\n\r\n",
                   in(c, "fF") ? 0 : 400);
    }
}

/* ---- limits ---- */

/* A text that repeats itself. */
struct longer {
    char *text;
    size_t len;
};

static void add(struct longer *t, const char *piece, unsigned times)
{
    size_t len = strlen(piece);

    t->text = realloc(t->text, t->len + len * times + 1);
    if (!t->text)
        abort();
    while (times-- > 0) {
        memcpy(t->text + t->len, piece, len);
        t->len += len;
    }
}

/* What becomes of it, at once and bytewise; 0 if it was taken. */
static int judge(struct longer *t, const struct sl_http1_limits *limits)
{
    struct sl_str text = {t->text, t->len};
    struct run whole, cut;
    int status;

    run_cut(&whole, text, limits, NULL, 0);
    run_cut(&cut, text, limits, bytewise, 1);
    CHECK_STR(run_differ(&whole, &cut), NULL);
    CHECK(whole.result != SL_HTTP1_MORE);
    CHECK(cut.in.len <= SL_HTTP1_CEILING(*limits));
    status = whole.http1.status;
    run_done(&whole);
    run_done(&cut);
    free(t->text);
    *t = (struct longer){NULL, 0};
    return status;
}

static const struct sl_http1_limits small = {
    .line = 50, .head = 100, .body = 9};

TEST(line_and_head)
{
    struct longer t = {NULL, 0};

    CASE("a request line of as many bytes as may be, and one more");
    add(&t, "GET /", 1);
    add(&t, "x", 50 - 16);
    add(&t, " HTTP/1.1\r\n" HOST "\r\n", 1);
    CHECK_EQ(judge(&t, &small), 0);
    add(&t, "GET /", 1);
    add(&t, "x", 50 - 15);
    add(&t, " HTTP/1.1\r\n" HOST "\r\n", 1);
    CHECK_EQ(judge(&t, &small), 414);

    CASE("a head of as many bytes as may be, and one more");
    add(&t, GET HOST "A:", 1);
    add(&t, "x", 100 - 31);
    add(&t, "\r\n\r\n", 1);
    CHECK_EQ(judge(&t, &small), 0);
    add(&t, GET HOST "A:", 1);
    add(&t, "x", 100 - 30);
    add(&t, "\r\n\r\n", 1);
    CHECK_EQ(judge(&t, &small), 431);

    CASE("it is too long as soon as the last byte allowed is not its end");
    add(&t, "GET /", 1);
    add(&t, "x", 50 - 5);
    CHECK_EQ(judge(&t, &small), 414);
    add(&t, GET HOST "A:", 1);
    add(&t, "x", 100 - 27);
    CHECK_EQ(judge(&t, &small), 431);
    add(&t, CHUNKED "0\r\nA:", 1);
    add(&t, "x", 100 - 2);
    CHECK_EQ(judge(&t, &small), 431);

    CASE("a head that may be shorter than its first line");
    add(&t, GET HOST "\r\n", 1);
    CHECK_EQ(judge(&t, &(struct sl_http1_limits){50, 10, 9}), 414);

    CASE("what is wrong before it gets too long is what counts");
    add(&t, "GET /\001", 1);
    add(&t, "x", 100);
    CHECK_EQ(judge(&t, &small), 400);
}

TEST(usual_limits)
{
    struct longer t = {NULL, 0};

    CASE("64 KiB in a field");
    add(&t, GET HOST "A: ", 1);
    add(&t, "x", 64 << 10);
    CHECK_EQ(judge(&t, &run_limits), 431);

    CASE("64 KiB in a name");
    add(&t, GET HOST, 1);
    add(&t, "x", 64 << 10);
    CHECK_EQ(judge(&t, &run_limits), 431);

    CASE("64 KiB of target");
    add(&t, "GET /", 1);
    add(&t, "x", 64 << 10);
    CHECK_EQ(judge(&t, &run_limits), 414);

    CASE("10,000 fields, and 101, but not 100");
    add(&t, GET HOST, 1);
    add(&t, "A: b\r\n", 10000);
    CHECK_EQ(judge(&t, &run_limits), 431);
    add(&t, GET HOST, 1);
    add(&t, "A: b\r\n", 100);
    add(&t, "\r\n", 1);
    CHECK_EQ(judge(&t, &run_limits), 431);
    add(&t, GET HOST, 1);
    add(&t, "A: b\r\n", 99);
    add(&t, "\r\n", 1);
    CHECK_EQ(judge(&t, &run_limits), 0);
}

TEST(body_limits)
{
    struct longer t = {NULL, 0};

    CASE("a body of as many bytes as may be, and one more");
    add(&t, POST HOST "Content-Length: 9\r\n\r\n123456789", 1);
    CHECK_EQ(judge(&t, &small), 0);
    add(&t, POST HOST "Content-Length: 10\r\n\r\n", 1);
    CHECK_EQ(judge(&t, &small), 413);

    CASE("the same in chunks");
    add(&t, CHUNKED "4\r\n1234\r\n5\r\n12345\r\n0\r\n\r\n", 1);
    CHECK_EQ(judge(&t, &small), 0);
    add(&t, CHUNKED "4\r\n1234\r\n6\r\n123456\r\n0\r\n\r\n", 1);
    CHECK_EQ(judge(&t, &small), 413);
    add(&t, CHUNKED, 1);
    add(&t, "1\r\na\r\n", 10);
    CHECK_EQ(judge(&t, &small), 413);

    CASE("trailers of as many bytes as may be, and one more");
    add(&t, CHUNKED "1\r\na\r\n0\r\nA: ", 1);
    add(&t, "x", 50 - 5);
    add(&t, "\r\nB: ", 1);
    add(&t, "y", 50 - 7);
    add(&t, "\r\n\r\n", 1);
    CHECK_EQ(judge(&t, &small), 0);
    add(&t, CHUNKED "1\r\na\r\n0\r\nA: ", 1);
    add(&t, "x", 50 - 5);
    add(&t, "\r\nB: ", 1);
    add(&t, "y", 50 - 6);
    add(&t, "\r\n\r\n", 1);
    CHECK_EQ(judge(&t, &small), 431);
    add(&t, CHUNKED "0\r\n", 1);
    add(&t, "a:\r\n", 1000);
    CHECK_EQ(judge(&t, &small), 431);
}

CHECK_MAIN()
