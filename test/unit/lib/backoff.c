/* backoff.c -- how long a refused client waits, from outside. */
#include <sluice_backoff.h>

#include "check.h"

#define LEN(array) (sizeof(array) / sizeof((array)[0]))
#define MS         INT64_C(1000000)
#define S          (1000 * MS)
#define NOW        (INT64_C(1794700800) * S) /* 2026-11-15T00:00:00Z */

/* A row that is too wide for columns. */
#define ROW(...)                                                               \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

/* The first wait, without a random part. */
static const struct {
    const char *why, *retry_after, *reset;
    int64_t want;
} told[] = {
    ROW("nothing is said", NULL, NULL, 500 * MS),
    ROW("nothing in words", "", "", 500 * MS),
    ROW("seconds", "12", NULL, 12 * S),
    ROW("blanks around them", " 12\t", NULL, 12 * S),
    ROW("zeros before them", "012", NULL, 12 * S),
    ROW("a fraction is one more", "1.001", NULL, 2 * S),
    ROW("a fraction of nothing", "7.0", NULL, 7 * S),
    ROW("at once is our own wait", "0", NULL, 500 * MS),
    ROW("a date", "Sun, 15 Nov 2026 00:00:12 GMT", NULL, 12 * S),
    ROW("a date of RFC 850", "Sunday, 15-Nov-26 00:01:00 GMT", NULL, 60 * S),
    ROW("a date of asctime", "Sun Nov 15 00:00:01 2026", NULL, 1 * S),
    ROW("a date behind us", "Sat, 14 Nov 2026 23:59:59 GMT", NULL, 500 * MS),
    ROW("no number", "soon", NULL, 500 * MS),
    ROW("below zero", "-5", NULL, 500 * MS),
    ROW("two of them", "5, 5", NULL, 500 * MS),
    ROW("the longest", "900", NULL, 900 * S),
    ROW("reset as an instant", NULL, "1794700809", 9 * S),
    ROW("reset as a span", NULL, "9", 9 * S),
    ROW("reset behind us", NULL, "1794700700", 500 * MS),
    ROW("reset that is 2001", NULL, "1000000000", 500 * MS),
    ROW("reset in milliseconds is not understood", NULL, "1794700809000",
        500 * MS),
    ROW("reset as a date is not, either", NULL, "Sun, 15 Nov 2026 00:00:12 GMT",
        500 * MS),
    ROW("both: Retry-After counts", "3", "1794700809", 3 * S),
    ROW("both: one that is none does not", "soon", "1794700809", 9 * S),
};

static void test_told(void)
{
    for (size_t i = 0; i < LEN(told); i++) {
        struct sluice_backoff backoff = {0};
        struct sluice_refusal refusal = {429, told[i].retry_after,
                                         told[i].reset};
        int64_t wait = -7;

        CASE(told[i].why);
        CHECK_EQ(sluice_backoff_next(&backoff, &refusal, NOW, 0, &wait), 0);
        CHECK_EQ(wait, told[i].want);
        CHECK_EQ(sluice_backoff_next(&backoff, &refusal, NOW, 0, &wait), 0);
        CHECK_EQ(backoff.refused, 2);
    }
}

/* All attempts of one call. */
static void check_course(struct sluice_backoff backoff, const char *retry_after,
                         uint64_t random, const int64_t *want, unsigned waits)
{
    struct sluice_refusal refusal = {503, retry_after, NULL};
    int64_t wait = -7;

    for (unsigned i = 0; i < waits; i++) {
        CHECK_EQ(sluice_backoff_next(&backoff, &refusal, NOW, random, &wait),
                 0);
        CHECK_EQ(wait, want[i]);
        CHECK_EQ(backoff.refused, i + 1);
    }
    wait = -7;
    CHECK_EQ(sluice_backoff_next(&backoff, &refusal, NOW, random, &wait),
             SLUICE_EFULL);
    CHECK_EQ(wait, -7);
    CHECK_EQ(backoff.refused, waits);
}

static void test_courses(void)
{
    static const int64_t least[] = {500 * MS, 1 * S, 2 * S, 4 * S, 8 * S};
    static const int64_t most[] = {1 * S, 2 * S, 4 * S, 8 * S, 16 * S};
    static const int64_t half[] = {750 * MS, 1500 * MS, 3 * S, 6 * S, 12 * S};
    static const int64_t after[] = {12500 * MS, 13 * S, 14 * S, 16 * S, 20 * S};
    static const int64_t capped[] = {1 * S,  2 * S,  4 * S,  8 * S, 16 * S,
                                     30 * S, 30 * S, 30 * S, 30 * S};
    static const int64_t small[] = {3 * MS, 3 * MS};
    const struct sluice_backoff preset = {0};

    CASE("five waits of our own, each twice the one before");
    check_course(preset, NULL, 0, least, 5);
    CASE("the random part is as much again");
    check_course(preset, NULL, UINT64_MAX, most, 5);
    CASE("half of the chance is half of it");
    check_course(preset, NULL, UINT64_C(1) << 63, half, 5);
    CASE("behind what the server says, too");
    check_course(preset, "12", UINT64_MAX, after, 5);
    CASE("no wait of our own passes the cap");
    check_course((struct sluice_backoff){.attempts = 10}, NULL, UINT64_MAX,
                 capped, 9);
    CASE("other numbers");
    check_course((struct sluice_backoff){.attempts = 3,
                                         .base_ns = 2 * MS,
                                         .cap_ns = 3 * MS},
                 NULL, UINT64_MAX, small, 2);
    CASE("one attempt is no other");
    check_course((struct sluice_backoff){.attempts = 1}, NULL, 0, NULL, 0);
}

static void refuses(const char *name, struct sluice_backoff *backoff,
                    const struct sluice_refusal *refusal, int64_t now, int err,
                    const char *why)
{
    int64_t wait = -7;

    CASE(name);
    CHECK_EQ(sluice_backoff_next(backoff, refusal, now, 0, &wait), err);
    CHECK_EQ(wait, -7);
    CHECK_STR(sluice_why(), why);
    if (backoff)
        CHECK(backoff->refused == 0 || backoff->refused == 5);
}

static void test_refusals(void)
{
    struct sluice_backoff fresh = {0}, spent = {.refused = 5};
    struct sluice_backoff past = {.cap_ns = -1};
    struct sluice_backoff patient = {.longest_ns = 3600 * S};
    const struct sluice_refusal plain = {.status = 429};
    const struct sluice_refusal day = {429, "86400", NULL};
    const struct sluice_refusal far = {503, NULL, "99999999999"};
    const struct sluice_refusal huge = {503, "99999999999999999999", NULL};
    const struct sluice_refusal gone = {.status = 404};

    refuses("the sixth attempt", &spent, &plain, NOW, SLUICE_EFULL,
            "the server answered 429 to the last of 6 attempts");
    refuses("a day", &fresh, &day, NOW, SLUICE_EFULL,
            "the server answered 429 and asks to wait 86400 s; the longest "
            "wait is 900 s");
    refuses("a day, for who waits an hour", &patient, &day, NOW, SLUICE_EFULL,
            "the server answered 429 and asks to wait 86400 s; the longest "
            "wait is 3600 s");
    refuses("more than 64 bits", &fresh, &huge, NOW, SLUICE_EFULL,
            "the server answered 503 and asks to wait 9223372036 s; the "
            "longest wait is 900 s");
    refuses("the year 5138", &fresh, &far, NOW, SLUICE_EFULL,
            "the server answered 503 and asks to wait 7428671236 s; the "
            "longest wait is 900 s");
    refuses("another status", &fresh, &gone, NOW, SLUICE_EINVAL,
            "the server answered 404, and only 429 and 503 are asked again");
    refuses("no backoff", NULL, &plain, NOW, SLUICE_EINVAL,
            "there is no backoff");
    refuses("no refusal", &fresh, NULL, NOW, SLUICE_EINVAL,
            "there is no refusal");
    refuses("before 1970", &fresh, &plain, -1, SLUICE_EINVAL,
            "a time of a backoff is negative");
    refuses("a cap below zero", &past, &plain, NOW, SLUICE_EINVAL,
            "a time of a backoff is negative");
    CASE("no place for the wait");
    CHECK_EQ(sluice_backoff_next(&fresh, &plain, NOW, 0, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "there is no place for the wait");
}

static void test_statuses(void)
{
    CASE("429 and 503 are asked again, and no other");
    for (int status = -1; status < 1000; status++)
        CHECK_EQ(sluice_backoff_retries(status),
                 status == 429 || status == 503);
}

int main(void)
{
    test_told();
    test_courses();
    test_refusals();
    test_statuses();
    return CHECK_DONE();
}
