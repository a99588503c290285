/* retry.c -- the schedule of attempts. */
#include "webhook/retry.h"

#include "check.h"
#include "rng.h"

static const sl_ns schedule[] = {5 * SL_S, 30 * SL_S, 2 * SL_MIN, 10 * SL_MIN,
                                 SL_HOUR};

static struct sl_retry judge(struct sl_attempt a)
{
    struct sl_retry ret;

    sl_retry_judge(&a, &ret);
    return ret;
}

TEST(jitter)
{
    struct rng rng = {.state = 21};
    bool below = false, above = false;

    CASE("(1) a delay differs by 20 % at most, both ways");
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < 2000; k++) {
            struct sl_retry r =
                judge((struct sl_attempt){.status = 500,
                                          .retry_after = SL_NS_NONE,
                                          .before = i,
                                          .random = rng_next(&rng)});
            sl_ns d = schedule[i];

            CHECK_EQ(r.result, SL_ATTEMPT_RETRY);
            CHECK(r.retry_in >= d * 8 / 10 && r.retry_in <= d * 12 / 10);
            below |= r.retry_in < d * 85 / 100;
            above |= r.retry_in > d * 115 / 100;
            CHECK_EQ(r.slow, 0);
        }
    CHECK(below && above);
}

TEST(retry_after)
{
    static const struct {
        sl_ns says, is;
    } rows[] = {
        {0,           30 * SL_S},
        {SL_S,        30 * SL_S},
        {30 * SL_S,   30 * SL_S},
        {31 * SL_S,   31 * SL_S},
        {59 * SL_S,   59 * SL_S},
        {60 * SL_S,   60 * SL_S},
        {61 * SL_S,   60 * SL_S},
        {2 * SL_HOUR, 60 * SL_S},
    };

    CASE("(2) Retry-After is honoured within [delay, 2 * delay]");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_retry r =
            judge((struct sl_attempt){.status = 503,
                                      .retry_after = rows[i].says,
                                      .before = 1,
                                      .random = 12345});

        CHECK_EQ(r.retry_in, rows[i].is);
    }
}

TEST(last)
{
    CASE("(3) the sixth failure is the last");
    for (unsigned i = 0; i < 8; i++)
        CHECK_EQ(judge((struct sl_attempt){.status = 400,
                                           .retry_after = SL_NS_NONE,
                                           .before = i})
                     .result,
                 i < 5 ? SL_ATTEMPT_RETRY : SL_ATTEMPT_DEAD);
    CHECK_EQ(sl_retry_delay(0), 0);
    CHECK_EQ(sl_retry_delay(6), SL_NS_NONE);
}

TEST(disable)
{
    CASE("(4) 20 failures in a row and 410 disable, nothing else does");
    for (int status = 0; status < 600; status += status < 100 ? 100 : 1)
        for (unsigned failures = 0; failures < 25; failures++) {
            struct sl_retry r =
                judge((struct sl_attempt){.status = status,
                                          .retry_after = SL_NS_NONE,
                                          .failures = failures});
            bool good = status / 100 == 2;

            CHECK((r.disable != NULL) ==
                  (!good && (failures >= 19 || status == 410)));
            CHECK_EQ(r.failures, good ? 0 : failures + 1);
            CHECK((r.result == SL_ATTEMPT_DELIVERED) == good);
        }
}

TEST(slow)
{
    CASE("(5) 429, 502, 504 and time-outs slow the endpoint down");
    for (int status = 100; status < 600; status++) {
        struct sl_attempt a = {.status = status, .retry_after = SL_NS_NONE};
        bool slow = status == 429 || status == 502 || status == 504;

        CHECK((judge(a).slow > 0) == slow);
    }
    for (unsigned i = 0; i < 7; i++) {
        struct sl_retry r = judge((struct sl_attempt){
            .timed_out = true, .retry_after = SL_NS_NONE, .before = i});

        CHECK(r.slow > 0 && r.slow <= SL_MIN);
    }
    CHECK_EQ(judge((struct sl_attempt){
                       .status = 429, .retry_after = 9 * SL_MIN, .before = 3})
                 .slow,
             9 * SL_MIN);
    CHECK_EQ(judge((struct sl_attempt){
                       .status = 429, .retry_after = 61 * SL_S, .before = 4})
                 .slow,
             61 * SL_S);
    CHECK_EQ(judge((struct sl_attempt){
                       .status = 429, .retry_after = 2 * SL_HOUR, .before = 4})
                 .slow,
             SL_HOUR);
    for (unsigned i = 0; i < 6; i++)
        for (sl_ns after = SL_S; after < 3 * SL_HOUR; after += 7 * SL_S) {
            struct sl_retry r = judge((struct sl_attempt){
                .status = 429, .retry_after = after, .before = i});

            CHECK(r.slow > 0 && r.slow <= SL_HOUR && r.slow <= after);
            CHECK(r.slow <= (i < 5 ? r.retry_in : SL_MIN));
        }
    CHECK_EQ(judge((struct sl_attempt){.status = 200,
                                       .timed_out = true,
                                       .retry_after = SL_NS_NONE})
                 .result,
             SL_ATTEMPT_RETRY);
}

TEST(reading)
{
    sl_ns now = INT64_C(784111777) * SL_S; /* 06 Nov 1994 08:49:37 */

    CASE("Retry-After is seconds or a date");
    CHECK_EQ(sl_retry_after_read(SL_STR("120"), now), 120 * SL_S);
    CHECK_EQ(sl_retry_after_read(SL_STR(" 0 "), now), 0);
    CHECK_EQ(sl_retry_after_read(SL_STR("99999999999"), now), 2 * SL_HOUR);
    CHECK_EQ(sl_retry_after_read(SL_STR("Sun, 06 Nov 1994 08:49:47 GMT"), now),
             10 * SL_S);
    CHECK_EQ(sl_retry_after_read(SL_STR("Sun, 06 Nov 1994 08:49:27 GMT"), now),
             0);
    CHECK_EQ(sl_retry_after_read(SL_STR("Sun, 06 Nov 2094 08:49:27 GMT"), now),
             2 * SL_HOUR);
    CHECK_EQ(sl_retry_after_read(SL_STR(""), now), SL_NS_NONE);
    CHECK_EQ(sl_retry_after_read(SL_STR("-1"), now), SL_NS_NONE);
    CHECK_EQ(sl_retry_after_read(SL_STR("soon"), now), SL_NS_NONE);
    CHECK_EQ(sl_retry_after_read(SL_STR("Sun, 06 Nov 1994 08:49:37 GMTx"), now),
             SL_NS_NONE);
}

TEST(classes)
{
    static const struct {
        int status;
        bool timed_out;
        const char *is;
    } rows[] = {
        {200, false, "success"    },
        {204, false, "success"    },
        {301, false, "redirect"   },
        {400, false, "error"      },
        {410, false, "gone"       },
        {429, false, "slow"       },
        {500, false, "error"      },
        {502, false, "slow"       },
        {200, true,  "timeout"    },
        {0,   true,  "timeout"    },
        {0,   false, "unreachable"},
    };

    CASE("each attempt has a class");
    for (size_t i = 0; i < SL_LEN(rows); i++)
        CHECK_STR(
            sl_attempt_class(&(struct sl_attempt){
                .status = rows[i].status, .timed_out = rows[i].timed_out}),
            rows[i].is);
}

CHECK_MAIN()
