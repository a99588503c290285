/* resp_reply.c -- replies of the Redis protocol, read and written. */
#include "check.h"
#include "fail.h"
#include "resp_run.h"

/* A reply as one line: types, texts, counts. */
static void print_values(struct sl_str rest, char *out, size_t size)
{
    static const char names[] = "+-:$_,#(!=*%~>|";
    size_t len = 0;

    out[0] = '\0';
    while (rest.len > 0 && len < size) {
        struct sl_resp_value v = sl_resp_next(&rest);

        len += (size_t)snprintf(out + len, size - len, "%s%c%.*s%s",
                                len > 0 ? " " : "", names[v.type],
                                SL_STR_ARG(v.format), v.format.len ? ":" : "");
        if (v.type == SL_RESP_INTEGER || v.type == SL_RESP_BOOLEAN)
            len +=
                (size_t)snprintf(out + len, size - len, "%" PRId64, v.integer);
        else if (v.type >= SL_RESP_ARRAY)
            len += (size_t)snprintf(out + len, size - len, "%zu", v.count);
        else
            len += (size_t)snprintf(out + len, size - len, "%.*s",
                                    SL_STR_ARG(v.text));
    }
}

static const struct taken {
    const char *bytes;
    const char *values;
    size_t used; /* 0: all */
} taken[] = {
#define TAKEN(bytes, values, used) {bytes, values, used},
#define REFUSED(bytes)
#include "replies.def"
};

static const char *const refused[] = {
#define TAKEN(bytes, values, used)
#define REFUSED(bytes) bytes,
#include "replies.def"
};

TEST(taken)
{
    CASE("every type is taken, in whatever pieces it comes");
    for (size_t i = 0; i < SL_LEN(taken); i++)
        for (size_t step = 1; step < 60; step += step < 4 ? 1 : 17) {
            struct sl_str text = sl_str_c(taken[i].bytes);
            size_t used = taken[i].used ? taken[i].used : text.len;
            struct sl_resp_reply r;
            struct resp_run run = run_reply(&r, SL_RESP_REPLY, text, step);
            struct sl_str rest = {run.bytes, used};
            char got[256];

            if (!CHECK_EQ(run.result, SL_RESP_DONE)) {
                printf("# of %zu: %s\n", i, taken[i].bytes);
                free(run.bytes);
                continue;
            }
            CHECK_EQ(r.used, used);
            print_values(rest, got, sizeof(got));
            CHECK_STR(got, taken[i].values);
            sl_resp_skip(&rest);
            CHECK_EQ(rest.len, 0);
            free(run.bytes);
        }
}

TEST(refused)
{
    CASE("and nothing else");
    for (size_t i = 0; i < SL_LEN(refused); i++)
        for (size_t step = 1; step < 40; step += 9) {
            struct sl_resp_reply r;
            struct resp_run run =
                run_reply(&r, SL_RESP_REPLY, sl_str_c(refused[i]), step);

            if (!CHECK_EQ(run.result, SL_RESP_REFUSED))
                printf("# of %zu: %s\n", i, refused[i]);
            CHECK(r.why != NULL);
            CHECK_EQ(
                sl_resp_reply_read(&r, (struct sl_str){run.bytes, run.len}),
                SL_RESP_REFUSED);
            free(run.bytes);
        }
}

static enum sl_resp_result nest(unsigned depth)
{
    struct sl_resp_reply r;
    struct resp_run run;
    struct sl_buf text;

    sl_buf_init(&text, 4096, &sl_alloc_libc);
    for (unsigned i = 0; i < depth; i++)
        CHECK_EQ(sl_buf_add(&text, SL_STR("*1\r\n")), 0);
    CHECK_EQ(sl_buf_add(&text, SL_STR(":1\r\n")), 0);
    run = run_reply(&r, SL_RESP_REPLY, sl_buf_str(&text), 7);
    free(run.bytes);
    sl_buf_done(&text);
    return run.result;
}

static enum sl_resp_result limited(const char *text, size_t most)
{
    struct sl_resp_reply r;
    struct resp_run run = run_reply(&r, most, sl_str_c(text), 1);

    free(run.bytes);
    return run.result;
}

TEST(ceilings)
{
    CASE("arrays in arrays have a bottom");
    CHECK_EQ(nest(SL_RESP_DEPTH), SL_RESP_DONE);
    CHECK_EQ(nest(SL_RESP_DEPTH + 1), SL_RESP_REFUSED);
    CHECK_EQ(nest(500), SL_RESP_REFUSED);

    CASE("a reply is no longer than it may be");
    CHECK_EQ(limited("+abc\r\n", 6), SL_RESP_DONE);
    CHECK_EQ(limited("+abc\r\n", 5), SL_RESP_REFUSED);
    CHECK_EQ(limited(":-12\r\n", 6), SL_RESP_DONE);
    CHECK_EQ(limited(":-12\r\n", 5), SL_RESP_REFUSED);
    CHECK_EQ(limited("$3\r\nabc\r\n", 9), SL_RESP_DONE);
    CHECK_EQ(limited("$3\r\nabc\r\n", 8), SL_RESP_REFUSED);
    CHECK_EQ(limited("*2\r\n_\r\n_\r\n", 10), SL_RESP_DONE);
    CHECK_EQ(limited("*2\r\n_\r\n_\r\n", 9), SL_RESP_REFUSED);
    CHECK_EQ(limited("*400000\r\n", SL_RESP_REPLY), SL_RESP_REFUSED);
    CHECK_EQ(limited("$1048576\r\n", SL_RESP_REPLY), SL_RESP_REFUSED);

    CASE("what is no reply is walked over, too");
    struct sl_str rest = SL_STR("*5\r\nrubbish");

    sl_resp_skip(&rest);
    CHECK_EQ(rest.len, 0);
}

/* ---- writing ---- */

static int write_all(struct sl_buf *out, unsigned version)
{
    static const int64_t five[] = {0, 16, 15, -1, INT64_MIN};
    int err = sl_resp_write_simple(out, SL_STR("O\r\nK"));

    if (!err)
        err = sl_resp_write_error(out, SL_STR("ERR a\nb"));
    if (!err)
        err = sl_resp_write_integer(out, -5);
    if (!err)
        err = sl_resp_write_string(out, SL_STR("a\r\n"));
    if (!err)
        err = sl_resp_write_nil(out, version);
    if (!err)
        err = sl_resp_write_map(out, version, 1);
    if (!err)
        err = sl_resp_write_integer(out, 1);
    if (!err)
        err = sl_resp_write_integer(out, 0);
    if (!err)
        err = sl_resp_write_verbatim(out, version, "txt", SL_STR("v"));
    if (!err)
        err = sl_resp_write_array(out, 0);
    return err ? err : sl_resp_write_integers(out, five, 5);
}

static void check_written(unsigned version, const char *want)
{
    struct sl_buf out;
    char got[512];

    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(write_all(&out, version), 0);
    print_values(sl_buf_str(&out), got, sizeof(got));
    CHECK_STR(got, want);
    sl_buf_done(&out);
}

TEST(write)
{
    CASE("what is written is read, in either version");
    check_written(2, "+O  K -ERR a b :-5 $a\r\n _ *2 :1 :0 $v *0 *5 :0 :16 "
                     ":15 :-1 :-9223372036854775808");
    check_written(3, "+O  K -ERR a b :-5 $a\r\n _ %2 :1 :0 =txt:v *0 *5 :0 "
                     ":16 :15 :-1 :-9223372036854775808");

    CASE("without memory each says so");
    for (unsigned nth = 1; nth < 20; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf out;
        int err;

        sl_buf_init(&out, 4096, &alloc);
        err = write_all(&out, 3);
        CHECK(err == 0 || err == SLUICE_ENOMEM);
        CHECK_EQ(err == 0, f.calls < nth);
        sl_buf_done(&out);
        fail_check(&f);
    }
}

CHECK_MAIN()
