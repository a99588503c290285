/* check.h -- compares, prints file and line of a difference, goes on, and
 * answers TAP.
 *
 * A test program is a list of tests, which run in the order in which they are
 * written:
 *
 *     TEST(name)
 *     {
 *         CASE("what is being shown");
 *         CHECK(...);
 *     }
 *
 *     CHECK_MAIN()
 *
 * Each case becomes one TAP line; it fails if any check since the last CASE
 * failed. A program with a main() of its own calls RUN_TESTS(), and ends with
 * `return CHECK_DONE();`.
 */
#ifndef SL_CHECK_H
#define SL_CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* One for the program: several files of a test count in the same one. */
extern struct check_state {
    const char *name;
    unsigned cases, failed;
    bool bad; /* a check of the current case failed */
} check_state;

__attribute__((weak)) struct check_state check_state;

static inline void check_close(void)
{
    if (!check_state.name)
        return;
    check_state.cases++;
    check_state.failed += check_state.bad;
    printf("%sok %u - %s\n", check_state.bad ? "not " : "", check_state.cases,
           check_state.name);
    check_state.name = NULL;
    check_state.bad = false;
}

/* The name must outlive the case. */
#define CASE(what) (check_close(), check_state.name = (what))

static inline bool check_that(bool good, const char *file, int line,
                              const char *text)
{
    if (!good) {
        printf("# %s:%d: not true: %s\n", file, line, text);
        check_state.bad = true;
    }
    return good;
}

static inline bool check_eq(int64_t got, int64_t want, const char *file,
                            int line, const char *text)
{
    if (got != want) {
        printf("# %s:%d: %s: got %" PRId64 ", want %" PRId64 "\n", file, line,
               text, got, want);
        check_state.bad = true;
    }
    return got == want;
}

static inline bool check_str(const char *got, const char *want,
                             const char *file, int line, const char *text)
{
    bool same = got && want ? strcmp(got, want) == 0 : got == want;

    if (!same) {
        printf("# %s:%d: %s:\n#   got  %s\n#   want %s\n", file, line, text,
               got ? got : "(null)", want ? want : "(null)");
        check_state.bad = true;
    }
    return same;
}

/* Each is also an expression: true if the check held. */
#define CHECK(cond) check_that((cond), __FILE__, __LINE__, #cond)
#define CHECK_EQ(got, want)                                                    \
    check_eq((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want) check_str((got), (want), __FILE__, __LINE__, #got)

static inline int check_done(void)
{
    check_close();
    printf("1..%u\n", check_state.cases);
    return check_state.failed || !check_state.cases;
}

#define CHECK_DONE() check_done()

struct check_test {
    void (*run)(void *ctx);
    int line;
    struct check_test *next;
};

static struct check_test *check_tests; /* by line */

static inline void check_add(struct check_test *test)
{
    struct check_test **at = &check_tests;

    while (*at && (*at)->line < test->line)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

/* The names are pasted and not passed on, since some of them are macros. */
#define CHECK_ADD(add, run)                                                    \
    __attribute__((constructor)) static void add(void)                         \
    {                                                                          \
        static struct check_test test = {run, __LINE__, NULL};                 \
                                                                               \
        check_add(&test);                                                      \
    }

#define TEST(name)                                                             \
    static void test_##name(void);                                             \
    static void run_##name(void *ctx)                                          \
    {                                                                          \
        (void)ctx;                                                             \
        test_##name();                                                         \
    }                                                                          \
    CHECK_ADD(add_##name, run_##name)                                          \
    static void test_##name(void)

/* A test that is given what the tests share: TEST_WITH(name, struct x *x). */
#define TEST_WITH(name, parameter)                                             \
    static void test_##name(parameter);                                        \
    static void run_##name(void *ctx)                                          \
    {                                                                          \
        test_##name(ctx);                                                      \
    }                                                                          \
    CHECK_ADD(add_##name, run_##name)                                          \
    static void test_##name(parameter)

static inline void check_run(void *ctx)
{
    for (struct check_test *test = check_tests; test; test = test->next)
        test->run(ctx);
}

#define RUN_TESTS()         check_run(NULL)
#define RUN_TESTS_WITH(ctx) check_run(ctx)

#define CHECK_MAIN()                                                           \
    int main(void)                                                             \
    {                                                                          \
        RUN_TESTS();                                                           \
        return CHECK_DONE();                                                   \
    }

#endif
