/* http1.c -- requests that must be taken, in every cut. */
#include "wire/http1.h"

#include "check.h"
#include "http1_run.h"
#include "rows.h"

#define NEXT "PUT /next HTTP/1.1\r\n\r\n"

/* One byte at a time; all others are found by a cut after each byte. */
static const uint8_t bytewise[] = {1};

static bool is(struct sl_str got, struct sl_str want)
{
    if (!sl_str_eq(got, want))
        printf("# got \"%.*s\", want \"%.*s\"\n", SL_STR_ARG(got),
               SL_STR_ARG(want));
    return sl_str_eq(got, want);
}

static void check_row(const struct accepted *row, const struct run *run)
{
    const struct sl_http1 *p = &run->http1;

    CHECK_STR(p->why, NULL);
    if (!CHECK_EQ(run->result, SL_HTTP1_DONE))
        return;
    CHECK_EQ(run->taken, row->text.len);
    CHECK(is(p->method, row->method));
    CHECK(is(p->target, row->target));
    CHECK(is(p->host, row->host));
    CHECK(is(p->body, row->body));
    CHECK_EQ(p->field_count, row->fields);
    CHECK_EQ(p->keep_alive, row->keep_alive);
    CHECK_EQ(p->is_head_request, sl_str_eq(row->method, SL_STR("HEAD")));
    CHECK(!p->expect_continue);
}

TEST(accepted)
{
    for (size_t i = 0; i < SL_LEN(accepted_rows); i++) {
        const struct accepted *row = &accepted_rows[i];
        struct run run;

        CASE(row->what);
        run_whole(&run, row->text);
        check_row(row, &run);
        run_done(&run);
        run_cut(&run, row->text, &run_limits, bytewise, 1);
        check_row(row, &run);
        CHECK_EQ(run.fed, row->text.len); /* and not a byte earlier */
        run_done(&run);
    }
}

/* The text in two pieces, the first of `first` bytes. */
static void run_twice(struct run *run, struct sl_str text, size_t first)
{
    *run = (struct run){.result = SL_HTTP1_MORE};
    sl_http1_begin(&run->http1, &run_limits);
    run_feed(run, (struct sl_str){text.at, first});
    if (run->result == SL_HTTP1_MORE)
        run_feed(run, sl_str_from(text, first));
    run->taken = run->fed - (run->in.len - run->http1.used);
}

static void check_cuts(struct sl_str text)
{
    struct run whole, cut;

    run_whole(&whole, text);
    for (size_t i = 0; i <= text.len; i++) {
        run_twice(&cut, text, i);
        CHECK_STR(run_differ(&whole, &cut), NULL);
        if (cut.result == SL_HTTP1_DONE)
            CHECK(run_rest_is(&cut, text));
        run_done(&cut);
    }
    run_cut(&cut, text, &run_limits, bytewise, 1);
    CHECK_STR(run_differ(&whole, &cut), NULL);
    run_done(&whole);
    run_done(&cut);
}

TEST(cuts)
{
    CASE("every cut of every request in two, and the next one behind it");
    for (size_t i = 0; i < SL_LEN(accepted_rows); i++) {
        char text[512];
        struct sl_str row = accepted_rows[i].text;

        CHECK(row.len + sizeof(NEXT) <= sizeof(text));
        memcpy(text, row.at, row.len);
        memcpy(text + row.len, NEXT, sizeof(NEXT) - 1);
        check_cuts((struct sl_str){text, row.len + sizeof(NEXT) - 1});
    }
    for (size_t i = 0; i < SL_LEN(refused_rows); i++)
        check_cuts(refused_rows[i].text);
}

TEST(incomplete)
{
    CASE("what is not all there is never complete");
    for (size_t i = 0; i < SL_LEN(accepted_rows); i++) {
        struct sl_str text = accepted_rows[i].text;
        struct run run;

        for (size_t len = 0; len < text.len; len++) {
            run_whole(&run, (struct sl_str){text.at, len});
            CHECK_EQ(run.result, SL_HTTP1_MORE);
            run_done(&run);
        }
    }
}

TEST(pipeline)
{
    static const char text[] = GET HOST "\r\n" CHUNKED "3\r\nabc\r\n0\r\n\r\n"
                                        "PUT /x HTTP/1.1\r\n" HOST "\r\n";
    static const char *const methods[] = {"GET", "POST", "PUT"};
    struct sl_buf in;
    struct sl_http1 p;

    CASE("requests one behind the other, from one buffer");
    sl_buf_init(&in, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_buf_add(&in, sl_str_c(text)), 0);
    for (size_t i = 0; i < SL_LEN(methods); i++) {
        sl_http1_begin(&p, &run_limits);
        CHECK_EQ(sl_http1_read(&p, &in), SL_HTTP1_DONE);
        CHECK_EQ(sl_http1_read(&p, &in), SL_HTTP1_DONE); /* still */
        CHECK(is(p.method, sl_str_c(methods[i])));
        CHECK(is(p.body, i == 1 ? SL_STR("abc") : SL_STR("")));
        sl_buf_drop(&in, p.used);
    }
    CHECK_EQ(in.len, 0);
    sl_http1_begin(&p, &run_limits);
    CHECK_EQ(sl_http1_read(&p, &in), SL_HTTP1_MORE);
    sl_buf_done(&in);
}

TEST(fields)
{
    static const char text[] = GET HOST "A: 1\r\nX-Long-Name:  two words \r\n"
                                        "a: 3\r\nEmpty:\r\n\r\n";
    struct run run;
    unsigned count = 7;

    run_whole(&run, sl_str_c(text));
    CASE("a field is found whatever its case, and counted");
    CHECK(is(sl_http1_field(&run.http1, SL_STR("a"), &count), SL_STR("1")));
    CHECK_EQ(count, 2);
    CHECK(is(sl_http1_field(&run.http1, SL_STR("x-LONG-name"), NULL),
             SL_STR("two words")));

    CASE("an empty field is not a missing one");
    CHECK(sl_http1_field(&run.http1, SL_STR("empty"), &count).at != NULL);
    CHECK_EQ(count, 1);
    CHECK(sl_http1_field(&run.http1, SL_STR("empt"), &count).at == NULL);
    CHECK_EQ(count, 0);
    CHECK(sl_http1_field(&run.http1, SL_STR("none"), NULL).at == NULL);

    CASE("names and values are as they were sent");
    CHECK(is(run.http1.fields[2].name, SL_STR("X-Long-Name")));
    CHECK(is(run.http1.fields[2].value, SL_STR("two words")));
    run_done(&run);
}

/* Say what the reader says of a head, and then of its body. */
static void check_expect(const char *head, bool at_head)
{
    struct run run = {.result = SL_HTTP1_MORE};

    sl_http1_begin(&run.http1, &run_limits);
    run_feed(&run, sl_str_c(head));
    CHECK_EQ(run.http1.expect_continue, at_head);
    if (run.result == SL_HTTP1_MORE) {
        run_feed(&run, SL_STR("1\r"));
        CHECK(!run.http1.expect_continue);
    }
    run_done(&run);
}

TEST(expect)
{
    CASE("100 is waited for while none of the body is here");
    check_expect(POST HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
                 true);
    check_expect(POST HOST "Expect: 100-continue\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n",
                 true);
    CASE("and not otherwise");
    check_expect(POST HOST "Content-Length: 2\r\n\r\n", false);
    check_expect(POST HOST "Expect: 100-continue\r\n", false);
    check_expect(POST HOST "Expect: 100-continue\r\n\r\n", false);
    check_expect(POST HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\na",
                 false);
    check_expect("POST / HTTP/1.0\r\nExpect: 100-continue\r\n"
                 "Content-Length: 2\r\n\r\n",
                 false);
}

/* A body in chunks of one byte, read a piece at a time from a buffer that has
 * just the promised room. */
TEST(room)
{
    static const struct sl_http1_limits limits = {100, 100, 5000};
    struct sl_buf in;
    struct sl_http1 p;
    enum sl_http1_result r = SL_HTTP1_MORE;

    CASE("framing takes no room: a body may be as long in small chunks");
    sl_buf_init(&in, SL_HTTP1_CEILING(limits), &sl_alloc_libc);
    sl_http1_begin(&p, &limits);
    CHECK_EQ(sl_buf_add(&in, SL_STR(CHUNKED)), 0);
    for (unsigned i = 0; i < 5000 && r == SL_HTTP1_MORE; i++) {
        CHECK_EQ(sl_buf_add(&in, SL_STR("1\r\nx\r\n")), 0);
        r = sl_http1_read(&p, &in);
        sl_buf_check(&in);
    }
    CHECK_EQ(r, SL_HTTP1_MORE);
    CHECK_EQ(sl_buf_add(&in, SL_STR("0\r\n\r\nrest")), 0);
    CHECK_EQ(sl_http1_read(&p, &in), SL_HTTP1_DONE);
    CHECK_EQ(p.body.len, 5000);
    CHECK_EQ(in.len - p.used, 4);
    for (size_t i = 0; i < p.body.len; i++)
        CHECK_EQ(p.body.at[i], 'x');
    sl_buf_done(&in);
}

CHECK_MAIN()
