/* limit.c -- what sl_limit_init() accepts and refuses, and shapes. */
#include "takes.h"
#include "when.h"

static void accepted(void)
{
    static const struct {
        const char *text;
        enum sl_kind kind;
        uint64_t count, capacity;
        sl_ns period;
    } rows[] = {
        ROW("5/min burst 8", SL_BUCKET, 5, 8, SL_MIN),
        ROW("5/min", SL_BUCKET, 5, 5, SL_MIN),
        ROW("30/5m", SL_BUCKET, 30, 30, 5 * SL_MIN),
        ROW("10/24h", SL_BUCKET, 10, 10, SL_DAY),
        ROW("50/day", SL_BUCKET, 50, 50, SL_DAY),
        ROW("1/ms burst 1", SL_BUCKET, 1, 1, SL_MS),
        ROW("100000/ms", SL_BUCKET, 100000, 100000, SL_MS),
        ROW("100M/s", SL_BUCKET, 100000000, 100000000, SL_S),
        ROW("1/3653d burst 7", SL_BUCKET, 1, 7, 3653 * SL_DAY),
        ROW("15625/16777216ms burst 2147483648", SL_BUCKET, 15625, 2147483648,
            16777216 * SL_MS), /* refills in 2^61 ns exactly */
        ROW("4294967295/min burst 4294967295", SL_BUCKET, SL_COUNT_MAX,
            SL_COUNT_MAX, SL_MIN),
        ROW("5/min burst 8", SL_INTERVAL, 5, 8, SL_MIN),
        ROW("5/10s queue 5", SL_LEAKY, 5, 6, 10 * SL_S),
        ROW("5/10s queue 0", SL_LEAKY, 5, 1, 10 * SL_S),
        ROW("5/10s", SL_LEAKY, 5, 6, 10 * SL_S),
        ROW("100/hour", SL_FIXED, 100, 100, SL_HOUR),
        ROW("10/10s", SL_SLIDING, 10, 10, 10 * SL_S),
        ROW("10/5h", SL_QUOTA, 10, 10, 5 * SL_HOUR),
        ROW("2", SL_PERMITS, 2, 2, 0),
        ROW("4294967295", SL_PERMITS, SL_COUNT_MAX, SL_COUNT_MAX, 0),
        ROW("9007199254740992", SL_LEVEL, SL_AMOUNT_MAX, SL_AMOUNT_MAX, 0),
    };

    CASE("limits that are accepted");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_limit limit = limit_of(rows[i].kind, rows[i].text);
        bool good = CHECK_EQ(limit.kind, rows[i].kind);

        good &= CHECK_EQ(limit.count, rows[i].count);
        good &= CHECK_EQ(limit.capacity, rows[i].capacity);
        good &= CHECK_EQ(limit.period, rows[i].period);
        good &= CHECK(!limit.calendar);
        if (!good)
            printf("# in the row: %s\n", rows[i].text);
    }
}

static void derived(void)
{
    struct sl_limit_options us = {.quantum = SL_QUANTUM_US};
    struct sl_limit limit = limit_of(SL_BUCKET, "5/min burst 8");

    CASE("what is derived: 5 us are a grain of a minute");
    CHECK_EQ(limit.tick, 1);
    CHECK_EQ(limit.span, SL_MIN);
    CHECK_EQ(limit.grain, 5 * SL_US);
    CHECK_EQ(limit.token, 12000000);
    CHECK_EQ(limit.room, 96000000);
    limit = rate_with(SL_BUCKET, "5/min burst 8", &us);
    CHECK_EQ(limit.tick, 1000);
    CHECK_EQ(limit.span, 60000000);
    CHECK_EQ(limit.grain, 50);
    CHECK_EQ(limit.token, 1200000);
    CHECK_EQ(limit.room, 9600000);
}

static void scaled(void)
{
    static const struct {
        const char *text;
        enum sl_kind kind;
        uint64_t scale, count, capacity; /* count 0: refused */
        const char *why;
    } rows[] = {
        ROW("120/month", SL_QUOTA, 60, 7200, 7200, ""),
        ROW("120/month", SL_QUOTA, 1, 120, 120, ""),
        ROW("5/min burst 8", SL_BUCKET, 60, 300, 480, ""),
        ROW("5/min", SL_INTERVAL, 60, 300, 300, ""),
        ROW("100/hour", SL_FIXED, 10, 1000, 1000, ""),
        ROW("10/10s", SL_SLIDING, 10, 100, 100, ""),
        ROW("5", SL_LEVEL, 1000000000, 5000000000, 5000000000, ""),
        ROW("9007199/month", SL_QUOTA, 1000000000, 9007199000000000,
            9007199000000000, ""),
        ROW("9007200/month", SL_QUOTA, 1000000000, 0, 0,
            "9007200 times 1000000000 is too large. The maximum of a quota is "
            "9007199254740992"),
        ROW("18446744073709551615", SL_LEVEL, 2, 0, 0,
            "18446744073709551615 is too large. The maximum of a level is "
            "9007199254740992"),
        ROW("5/hour", SL_FIXED, 1000000000, 0, 0,
            "5 times 1000000000 is too large. The maximum of a fixed-window is "
            "4294967295"),
        ROW("4/min burst 5", SL_BUCKET, 1000000000, 0, 0,
            "A burst of 5 times 1000000000 is too large. The maximum of a "
            "token-bucket is 4294967295"),
    };

    CASE("the numbers of a rate are multiplied by the scale");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_limit_options options = {.scale = rows[i].scale};
        struct sl_limit limit = {.count = 0};
        struct sl_diag diag = {.sentence = ""};
        struct sl_rate rate;
        bool good =
            CHECK_EQ(sl_parse_rate(sl_str_c(rows[i].text), &rate, NULL), 0);

        good &= CHECK_EQ(
            sl_limit_init(&limit, rows[i].kind, &rate, &options, &diag),
            rows[i].count > 0 ? 0 : SLUICE_ECONF);
        good &= CHECK_EQ(limit.count, rows[i].count);
        good &= CHECK_EQ(limit.capacity, rows[i].capacity);
        good &= CHECK_STR(diag.sentence, rows[i].why);
        if (!good)
            printf("# in the row: %s\n", rows[i].text);
    }
}

static void units(void)
{
    static const struct sl_limit_options seconds = {.scale = 60, .unit = 77};
    struct sl_limit plain, scaled;
    struct sl_diag diag;
    struct sl_rate rate;

    CASE("a unit with a scale is a number, and part of the shape");
    CHECK_EQ(sl_unit_mark(1, SL_STR("seconds")), 0);
    CHECK_EQ(sl_unit_mark(0, SL_STR("")), 0);
    CHECK_EQ(sl_unit_mark_scale(0), 1);
    CHECK_EQ(sl_unit_mark_scale(sl_unit_mark(60, SL_STR("seconds"))), 60);
    CHECK_EQ(sl_unit_mark_scale(sl_unit_mark(SL_AMOUNT_MAX, SL_STR("b"))),
             SL_AMOUNT_MAX);
    CHECK(sl_unit_mark(60, SL_STR("seconds")) !=
          sl_unit_mark(60, SL_STR("frames")));
    CHECK(sl_unit_mark(2, SL_STR("")) != 0);
    CHECK_EQ(sl_parse_rate(SL_STR("2/month"), &rate, NULL), 0);
    CHECK_EQ(sl_limit_init(&plain, SL_QUOTA, &rate, NULL, &diag), 0);
    CHECK_EQ(sl_limit_init(&scaled, SL_QUOTA, &rate, &seconds, &diag), 0);
    CHECK(sl_limit_shape(&plain) != sl_limit_shape(&scaled));
    scaled.unit = 0;
    CHECK_EQ(sl_limit_shape(&plain), sl_limit_shape(&scaled));

    CASE("the message names both units");
    CHECK_EQ(sl_unit_refuse(
                 &diag, "the usage database", SL_STR("talk"),
                 &(struct sl_unit_name){60, SL_STR("seconds")},
                 &(struct sl_unit_name){
                     SL_AMOUNT_MAX, SL_STR("seconds_of_processor_time_used")}),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence,
              "Limit \"talk\" is counted in units of 60 seconds in the usage "
              "database, and in units of 9007199254740992 "
              "seconds_of_processor_tim in the new policy. Write `unit` as "
              "before, or give the limit another name and import its usage");
}

static void grains(void)
{
    static const struct {
        const char *text;
        enum sl_quantum quantum;
        uint64_t grain, token;
    } rows[] = {
        {"1/ms",         SL_QUANTUM_NS, 1,           1000000 },
        {"1/s",          SL_QUANTUM_NS, 100,         10000000},
        {"1/h",          SL_QUANTUM_NS, 500000,      7200000 },
        {"1/day",        SL_QUANTUM_NS, 10000000,    8640000 },
        {"1/16777216ms", SL_QUANTUM_NS, 1000000,     16777216},
        {"1/16777217ms", SL_QUANTUM_NS, 2000000,     8388609 },
        {"1/3653d",      SL_QUANTUM_NS, 20000000000, 15780960},
        {"1/ms",         SL_QUANTUM_US, 1,           1000    },
        {"1/s",          SL_QUANTUM_US, 1,           1000000 },
        {"1/2097152ms",  SL_QUANTUM_US, 1000,        2097152 },
        {"1/2097153ms",  SL_QUANTUM_US, 2000,        1048577 },
        {"1/3653d",      SL_QUANTUM_US, 200000000,   1578096 },
    };

    CASE("grains and units, and a limit made again from its numbers");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_limit_options options = {.quantum = rows[i].quantum};
        struct sl_limit limit = rate_with(SL_BUCKET, rows[i].text, &options);
        struct sl_limit again = limit;
        bool good = CHECK_EQ(limit.grain, rows[i].grain);

        good &= CHECK_EQ(limit.token, rows[i].token);
        again.tick = 0;
        again.span = again.grain = again.token = again.room = 0;
        sl_limit_derive(&again);
        good &= CHECK_EQ(again.tick, limit.tick);
        good &= CHECK_EQ(again.span, limit.span);
        good &= CHECK_EQ(again.grain, limit.grain);
        good &= CHECK_EQ(again.token, limit.token);
        good &= CHECK_EQ(again.room, limit.room);
        if (!good)
            printf("# in the row: %s\n", rows[i].text);
    }
}

static void calendars(void)
{
    struct sl_limit_options options = {.zone = &new_york, .anchor = 15};
    struct sl_limit limit = rate_with(SL_QUOTA, "120/3month", &options);

    CASE("quotas by the day, the week and the month follow a calendar");
    CHECK(limit.calendar);
    CHECK_EQ(limit.period, 0);
    CHECK_EQ(limit.cal.unit, SL_CALENDAR_MONTH);
    CHECK_EQ(limit.cal.every, 3);
    CHECK_EQ(limit.cal.anchor, 15);
    CHECK(limit.cal.zone == &new_york);
    limit = limit_of(SL_QUOTA, "100/day");
    CHECK(limit.calendar);
    CHECK_EQ(limit.cal.unit, SL_CALENDAR_DAY);
    CHECK_EQ(limit.cal.anchor, 1);
    CHECK(limit.cal.zone == &sl_zone_utc);
    limit = limit_of(SL_QUOTA, "5/120month");
    CHECK_EQ(limit.cal.every, 120);
    limit = limit_of(SL_QUOTA, "5/3653day");
    CHECK_EQ(limit.cal.every, 3653);
    options = (struct sl_limit_options){.anchor = 7};
    limit = rate_with(SL_QUOTA, "9007199254740992/week", &options);
    CHECK_EQ(limit.count, SL_AMOUNT_MAX);
    CHECK_EQ(limit.cal.unit, SL_CALENDAR_WEEK);
    CHECK_EQ(limit.cal.anchor, 7);
}

/* The words are those that the sentence cannot do without. */
static const struct {
    const char *text;
    enum sl_kind kind;
    const char *word;
    uint32_t anchor;
} refusals[] = {
    {"0/s",                               SL_BUCKET,  "0",                0 },
    {"0/s burst 5",                       SL_BUCKET,  "0",                0 },
    {"0",                                 SL_PERMITS, "0",                0 },
    {"0/month",                           SL_QUOTA,   "0",                0 },
    {"5/min burst 0",                     SL_BUCKET,  "burst",            0 },
    {"4294967296/h",                      SL_BUCKET,  "4294967296",       0 },
    {"4294967296/h",                      SL_FIXED,   "4294967296",       0 },
    {"4294967296",                        SL_PERMITS, "4294967296",       0 },
    {"9007199254740993",                  SL_LEVEL,   "9007199254740993", 0 },
    {"9007199254740993/month",            SL_QUOTA,   "9007199254740993", 0 },
    {"1/s burst 4294967296",              SL_BUCKET,  "4294967296",       0 },
    {"1/s queue 4294967295",              SL_LEAKY,   "queue",            0 },
    {"1/3654d",                           SL_BUCKET,  "ten years",        0 },
    {"1/3654d",                           SL_FIXED,   "ten years",        0 },
    {"1/18446744073709551615d",           SL_BUCKET,  "ten years",        0 },
    {"100000001/s",                       SL_BUCKET,  "100000000",        0 },
    {"100001/ms",                         SL_FIXED,   "100000000",        0 },
    {"1/3653d burst 8",                   SL_BUCKET,  "73 years",         0 },
    {"15625/16777216ms burst 2147483649", SL_BUCKET,  "73 years",         0 },
    {"5/121month",                        SL_QUOTA,   "ten years",        0 },
    {"5/522week",                         SL_QUOTA,   "ten years",        0 },
    {"5/3654day",                         SL_QUOTA,   "ten years",        0 },
    {"5/4294967297day",                   SL_QUOTA,   "ten years",        0 },
    {"5/87673h",                          SL_QUOTA,   "ten years",        0 },
    {"18446744073709551615/s",            SL_BUCKET,  "4294967295",       0 },
    {"5/min queue 0",                     SL_FIXED,   "queue",            0 },
    {"5/min queue 5",                     SL_BUCKET,  "queue",            0 },
    {"5/min burst 5",                     SL_LEAKY,   "burst",            0 },
    {"5/min burst 5",                     SL_FIXED,   "burst",            0 },
    {"5/min burst 5",                     SL_SLIDING, "burst",            0 },
    {"5/month burst 5",                   SL_QUOTA,   "burst",            0 },
    {"5/month queue 5",                   SL_QUOTA,   "queue",            0 },
    {"5/week",                            SL_BUCKET,  "week",             0 },
    {"5/month",                           SL_SLIDING, "month",            0 },
    {"5",                                 SL_BUCKET,  "period",           0 },
    {"5",                                 SL_QUOTA,   "period",           0 },
    {"5/min",                             SL_PERMITS, "count without",    0 },
    {"5/min",                             SL_LEVEL,   "count without",    0 },
    {"5/month",                           SL_QUOTA,   "anchor",           32},
    {"5/week",                            SL_QUOTA,   "anchor",           8 },
    {"5/day",                             SL_QUOTA,   "anchor",           2 },
};

static void refused(void)
{
    CASE("limits that are refused, with a sentence");
    for (size_t i = 0; i < SL_LEN(refusals); i++) {
        struct sl_limit_options options = {.anchor = refusals[i].anchor};
        struct sl_limit limit = {.count = 42};
        struct sl_diag diag = {.line = 0};
        struct sl_rate rate;
        bool good;

        good = CHECK_EQ(sl_parse_rate(sl_str_c(refusals[i].text), &rate, &diag),
                        0) &&
               CHECK_EQ(sl_limit_init(&limit, refusals[i].kind, &rate, &options,
                                      &diag),
                        SLUICE_ECONF) &&
               CHECK(diag.sentence[0]) &&
               CHECK(strstr(diag.sentence, refusals[i].word));
        good &= CHECK_EQ(limit.count, 42);
        if (!good)
            printf("# %s as %s: %s\n", refusals[i].text,
                   sl_kind_name(refusals[i].kind), diag.sentence);
        CHECK_EQ(sl_limit_init(&limit, refusals[i].kind, &rate, &options, NULL),
                 SLUICE_ECONF);
    }
}

/* The reader of plans handles these two words before. */
static void words(void)
{
    static const char *const texts[] = {"unlimited", "none"};

    CASE("unlimited and none are no limits");
    for (int kind = 0; kind < SL_PENALTY; kind++)
        for (size_t i = 0; i < SL_LEN(texts); i++) {
            struct sl_limit_options options = {.anchor = 0};
            struct sl_diag diag = {.line = 0};
            struct sl_limit limit;
            struct sl_rate rate;

            CHECK_EQ(sl_parse_rate(sl_str_c(texts[i]), &rate, &diag), 0);
            CHECK_EQ(sl_limit_init(&limit, (enum sl_kind)kind, &rate, &options,
                                   &diag),
                     SLUICE_EINVAL);
            CHECK(strstr(diag.sentence, texts[i]));
        }
}

static uint64_t shape(enum sl_kind kind, const char *text,
                      struct sl_limit_options options)
{
    struct sl_limit limit = rate_with(kind, text, &options);

    return sl_limit_shape(&limit);
}

static void shapes(void)
{
    struct sl_limit_options ns = {.quantum = SL_QUANTUM_NS};
    struct sl_limit_options us = {.quantum = SL_QUANTUM_US};
    struct sl_limit_options ny = {.zone = &new_york, .anchor = 15};
    uint64_t all[] = {
        shape(SL_BUCKET, "5/min", ns),  shape(SL_BUCKET, "5/min", us),
        shape(SL_BUCKET, "5/h", ns),    shape(SL_LEAKY, "5/min queue 1", ns),
        shape(SL_FIXED, "5/min", ns),   shape(SL_SLIDING, "5/min", ns),
        shape(SL_SLIDING, "5/min", us), shape(SL_QUOTA, "5/min", ns),
        shape(SL_QUOTA, "5/day", ns),   shape(SL_QUOTA, "5/week", ns),
        shape(SL_QUOTA, "5/month", ns), shape(SL_QUOTA, "5/3month", ns),
        shape(SL_QUOTA, "5/month", us), shape(SL_QUOTA, "5/24h", ns),
        shape(SL_PERMITS, "5", ns),     shape(SL_LEVEL, "5", ns),
        shape(SL_QUOTA, "5/7day", ns),  shape(SL_BUCKET, "5/2min", ns),
        shape(SL_FIXED, "5/61s", ns),
    };

    CASE("shapes that must stay apart do");
    for (size_t i = 0; i < SL_LEN(all); i++)
        for (size_t k = 0; k < i; k++)
            if (!CHECK(all[i] != all[k]))
                printf("# rows %zu and %zu\n", i, k);
    CASE("shapes that may read each other's cells are one");
    CHECK_EQ(shape(SL_BUCKET, "9/min burst 99", ns), all[0]);
    CHECK_EQ(shape(SL_BUCKET, "9/60s", ns), all[0]);
    CHECK_EQ(shape(SL_INTERVAL, "5/min", ns), all[0]);
    CHECK_EQ(shape(SL_LEAKY, "7/min queue 9", ns), all[3]);
    CHECK_EQ(shape(SL_QUOTA, "9/month", ny), all[10]);
    CHECK_EQ(shape(SL_LEVEL, "6", ns), all[15]);
}

static void names(void)
{
    CASE("kinds are named as in a policy");
    CHECK_STR(sl_kind_name(SL_BUCKET), "token-bucket");
    CHECK_STR(sl_kind_name(SL_INTERVAL), "token-bucket");
    CHECK_STR(sl_kind_name(SL_LEAKY), "leaky-bucket");
    CHECK_STR(sl_kind_name(SL_FIXED), "fixed-window");
    CHECK_STR(sl_kind_name(SL_SLIDING), "sliding-window");
    CHECK_STR(sl_kind_name(SL_QUOTA), "quota");
    CHECK_STR(sl_kind_name(SL_PERMITS), "concurrency");
    CHECK_STR(sl_kind_name(SL_LEVEL), "level");
}

int main(void)
{
    accepted();
    derived();
    scaled();
    units();
    grains();
    calendars();
    refused();
    words();
    shapes();
    names();
    return CHECK_DONE();
}
