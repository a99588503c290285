/* backoff.c -- how long a refused client waits, from outside. */
#include <sluice_backoff.h>

#include <stdlib.h>

#include "check.h"

#define MS  INT64_C(1000000)
#define S   (1000 * MS)
#define NOW (INT64_C(1794700800) * S) /* 2026-11-15T00:00:00Z */

/* One line of the vectors, cut at its bars. */
struct vector {
    char *why, *retry_after, *reset, *want;
};

static char *field(char **rest)
{
    char *text = *rest, *bar = strchr(text, '|');

    *rest = bar ? bar + 1 : text + strlen(text);
    if (bar)
        *bar = '\0';
    return strcmp(text, "-") == 0 ? NULL : text;
}

static void check_vector(const struct vector *v)
{
    struct sluice_backoff backoff = {0};
    struct sluice_refusal refusal = {429, v->retry_after, v->reset};
    int64_t wait = -7;
    bool given_up = strcmp(v->want, "gives up") == 0;
    int err = sluice_backoff_next(&backoff, &refusal, NOW, 0, &wait);

    printf("# %s\n", v->why);
    CHECK_EQ(err, given_up ? SLUICE_EFULL : 0);
    CHECK_EQ(wait, given_up ? -7 : strtoll(v->want, NULL, 10) * MS);
    CHECK_EQ(backoff.refused, given_up ? 0 : 1);
}

/* What servers say: test/data/backoff.txt, which the other half reads too. */
static void test_vectors(const char *path)
{
    char line[256];
    unsigned count = 0;
    FILE *file = fopen(path, "r");

    CASE("the vectors");
    if (!CHECK(file != NULL))
        return;
    while (fgets(line, sizeof(line), file)) {
        char *rest = line;
        struct vector v;

        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#')
            continue;
        v.why = field(&rest);
        v.retry_after = field(&rest);
        v.reset = field(&rest);
        v.want = field(&rest);
        check_vector(&v);
        count++;
    }
    fclose(file);
    CHECK(count >= 40);
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

TEST(courses)
{
    static const int64_t least[] = {500 * MS, 1 * S, 2 * S, 4 * S, 8 * S};
    static const int64_t most[] = {1 * S, 2 * S, 4 * S, 8 * S, 16 * S};
    static const int64_t half[] = {750 * MS, 1500 * MS, 3 * S, 6 * S, 12 * S};
    static const int64_t after[] = {12500 * MS, 13 * S, 14 * S, 16 * S, 20 * S};
    static const int64_t capped[] = {1 * S,  2 * S,  4 * S,  8 * S, 16 * S,
                                     30 * S, 30 * S, 30 * S, 30 * S};
    static const int64_t nine[] = {9 * S, 9 * S, 9 * S, 9 * S, 9 * S};
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
    CASE("V12: six refusals that name a date are five waits and an error");
    check_course(preset, "Sun, 15 Nov 2026 00:00:09 GMT", 0, nine, 5);
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

TEST(refusals)
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
            "the server answered 429 and asks to wait 86400 s; the maximum "
            "wait is 900 s");
    refuses("a day, with a longest wait of an hour", &patient, &day, NOW,
            SLUICE_EFULL,
            "the server answered 429 and asks to wait 86400 s; the maximum "
            "wait is 3600 s");
    refuses("more than 64 bits", &fresh, &huge, NOW, SLUICE_EFULL,
            "the server answered 503 and asks to wait 9223372036 s; the "
            "maximum wait is 900 s");
    refuses("the year 5138", &fresh, &far, NOW, SLUICE_EFULL,
            "the server answered 503 and asks to wait 7428671236 s; the "
            "maximum wait is 900 s");
    refuses("another status", &fresh, &gone, NOW, SLUICE_EINVAL,
            "the server answered 404; only 429 and 503 are retried");
    refuses("no backoff", NULL, &plain, NOW, SLUICE_EINVAL, "backoff is NULL");
    refuses("no refusal", &fresh, NULL, NOW, SLUICE_EINVAL, "refusal is NULL");
    refuses("before 1970", &fresh, &plain, -1, SLUICE_EINVAL,
            "a time in the backoff is negative");
    refuses("a cap below zero", &past, &plain, NOW, SLUICE_EINVAL,
            "a time in the backoff is negative");
    CASE("no result");
    CHECK_EQ(sluice_backoff_next(&fresh, &plain, NOW, 0, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "result is NULL");
}

TEST(statuses)
{
    CASE("429 and 503 are asked again, and no other");
    for (int status = -1; status < 1000; status++)
        CHECK_EQ(sluice_backoff_retries(status),
                 status == 429 || status == 503);
}

int main(int argc, char **argv)
{
    test_vectors(argc > 1 ? argv[1] : "");
    RUN_TESTS();
    return CHECK_DONE();
}
