/* resp_command.c -- commands of the Redis protocol: what is taken, what is
 * refused, and that neither depends on how the bytes come. */
#include "check.h"
#include "fail.h"
#include "resp_run.h"

#define MOST_ARGS 8

/* ---- taken ---- */

static const struct taken {
    const char *bytes;
    size_t used; /* 0: all of them */
    unsigned count;
    const char *args[MOST_ARGS];
} taken[] = {
#define TAKEN(bytes, used, count, ...) {bytes, used, count, {__VA_ARGS__}},
#define REFUSED(bytes, at, why)
#include "commands.def"
};

TEST(taken)
{
    CASE("arrays and lines are taken, in whatever pieces they come");
    for (size_t i = 0; i < SL_LEN(taken); i++)
        for (size_t step = 1; step < 70; step += step < 4 ? 1 : 13) {
            struct sl_resp_command c;
            struct sl_str text = sl_str_c(taken[i].bytes);
            size_t used = taken[i].used ? taken[i].used : text.len;
            struct resp_run run = run_command(&c, text, step);

            if (!CHECK_EQ(run.result, SL_RESP_DONE) ||
                !CHECK_EQ(c.count, taken[i].count))
                printf("# of %zu: %s\n", i, taken[i].bytes);
            CHECK_EQ(c.used, used);
            for (unsigned k = 0; k < c.count; k++)
                CHECK(sl_str_eq(c.args[k], sl_str_c(taken[i].args[k])));
            CHECK_EQ(c.is_inline, taken[i].bytes[0] != '*');
            free(run.bytes);
        }
}

/* ---- refused ---- */

static const struct refused {
    const char *bytes;
    size_t at; /* refused when so many bytes are there; 0: all */
    const char *why;
} refused[] = {
#define TAKEN(bytes, used, count, ...)
#define REFUSED(bytes, at, why) {bytes, at, why},
#include "commands.def"
};

TEST(refused)
{
    CASE("what could be read otherwise is refused, as early as it shows");
    for (size_t i = 0; i < SL_LEN(refused); i++)
        for (size_t step = 1; step < 40; step += 7) {
            struct sl_resp_command c;
            struct sl_str text = sl_str_c(refused[i].bytes);
            size_t at = refused[i].at ? refused[i].at : text.len;
            struct resp_run run = run_command(&c, text, step);

            if (!CHECK_EQ(run.result, SL_RESP_REFUSED))
                printf("# of %zu: %s\n", i, refused[i].bytes);
            CHECK_STR(c.why, refused[i].why);
            if (step == 1)
                CHECK_EQ(run.len, at);
            if (run.bytes)
                CHECK_EQ(sl_resp_command_read(&c, run.bytes, run.len),
                         SL_RESP_REFUSED);
            free(run.bytes);
        }

    CASE("a NUL on a line");
    struct sl_resp_command c;
    struct resp_run run =
        run_command(&c, (struct sl_str){"PI\0NG\r\n", 7}, 100);

    CHECK_EQ(run.result, SL_RESP_REFUSED);
    free(run.bytes);
}

/* ---- ceilings ---- */

static void check_line(size_t len, bool is_taken)
{
    char *text = malloc(len + 1);
    struct sl_resp_command c;
    struct resp_run run;

    if (!text)
        abort();
    memset(text, 'a', len);
    text[len] = '\n';
    run = run_command(&c, (struct sl_str){text, len + 1}, 1000);
    CHECK_EQ(run.result, is_taken ? SL_RESP_DONE : SL_RESP_REFUSED);
    free(run.bytes);
    free(text);
}

/* A command of `count` arguments of `len` bytes each. */
static enum sl_resp_result try_args(unsigned count, size_t len)
{
    struct sl_str args[SL_RESP_ARGS];
    struct sl_resp_command c;
    struct resp_run run;
    struct sl_buf out;
    char *text = calloc(1, len + 1);

    sl_buf_init(&out, 8 << 20, &sl_alloc_libc);
    for (unsigned i = 0; i < count; i++)
        args[i] = (struct sl_str){text, len};
    CHECK_EQ(sl_resp_command_write(&out, args, count), 0);
    run = run_command(&c, sl_buf_str(&out), 5000);
    if (run.result == SL_RESP_DONE) {
        CHECK_EQ(c.count, count);
        CHECK_EQ(c.used, out.len);
    }
    free(run.bytes);
    free(text);
    sl_buf_done(&out);
    return run.result;
}

TEST(ceilings)
{
    CASE("a line has an end");
    check_line(SL_RESP_INLINE - 1, true);
    check_line(SL_RESP_INLINE, false);
    check_line(SL_RESP_INLINE * 10, false);

    CASE("arguments are 64 of 64 KB, and 128 KB together");
    CHECK_EQ(try_args(64, 0), SL_RESP_DONE);
    CHECK_EQ(try_args(64, 1000), SL_RESP_DONE);
    CHECK_EQ(try_args(1, SL_RESP_BULK), SL_RESP_DONE);
    CHECK_EQ(try_args(2, SL_RESP_BULK - 20), SL_RESP_DONE);
    CHECK_EQ(try_args(2, SL_RESP_BULK), SL_RESP_REFUSED);
    CHECK_EQ(try_args(64, 3000), SL_RESP_REFUSED);

    CASE("too many words on a line");
    char words[SL_RESP_ARGS * 2 + 4];
    struct sl_resp_command c;
    struct resp_run run;

    for (size_t i = 0; i < sizeof(words); i++)
        words[i] = i % 2 ? ' ' : 'a';
    words[sizeof(words) - 1] = '\n';
    run = run_command(&c, (struct sl_str){words, sizeof(words)}, 1000);
    CHECK_EQ(run.result, SL_RESP_REFUSED);
    free(run.bytes);
}

TEST(write)
{
    static const struct sl_str args[] = {
        {"a",    1},
        {NULL,   0},
        {"\r\n", 2},
    };
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_buf out;

    CASE("a command is written as it is read");
    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_resp_command_write(&out, args, 3), 0);
    CHECK(sl_str_eq(sl_buf_str(&out),
                    SL_STR("*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\n\r\n\r\n")));
    sl_buf_done(&out);

    CASE("without memory, or room, nothing is written");
    sl_buf_init(&out, 4096, &alloc);
    CHECK_EQ(sl_resp_command_write(&out, args, 3), SLUICE_ENOMEM);
    CHECK_EQ(out.len, 0);
    sl_buf_done(&out);
    fail_check(&f);
    sl_buf_init(&out, 16, &sl_alloc_libc);
    CHECK_EQ(sl_resp_command_write(&out, args, 3), SLUICE_EFULL);
    CHECK_EQ(out.len, 0);
    sl_buf_done(&out);
}

CHECK_MAIN()
