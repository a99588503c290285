/* quota.c -- quotas against the oracle. The numbers are those of the
 * invariants for quotas in src/core/window.c.
 *
 *   (1)  at most the limit in a period
 *   (2)  reset_in, and retry_in when denied, is the end of the period
 *   (3)  clock steps
 *   (4)  a changed limit, zone or anchor keeps what was used if the last take
 *        lies in the new period
 *
 * Periods are those of bounds.c, made with glibc's localtime_r() from the same
 * zone files; nothing of core/calendar.c is in them.
 */
#include "oracle/history.h"
#include "oracle/zones.h"

#include "prop.h"

static const struct labels labels = {
    .outcome = "quota (1)",
    .remaining = "quota (1) (4)",
    .retry = "quota (2), retry_in",
    .reset = "quota (2)",
    .wait = "quota: wait",
    .steps = "quota (3)",
};

/* Zones that are difficult: a date that was skipped (Apia), midnight
 * skipped by summer time (Havana, Beirut), half an hour of it (Lord Howe), two
 * hours (Troll), a quarter-hour offset (Kathmandu), Ramadan (Casablanca). */
static struct calendar {
    const char *zone;
    enum sl_unit unit;
    int every, anchor;
    struct sl_zone shifts;
    struct bounds bounds;
} calendars[] = {
    {.zone = "UTC",                 SL_UNIT_DAY,   1,  1 },
    {.zone = "America/New_York",    SL_UNIT_DAY,   1,  1 },
    {.zone = "Pacific/Apia",        SL_UNIT_DAY,   1,  1 },
    {.zone = "America/Havana",      SL_UNIT_DAY,   1,  1 },
    {.zone = "Antarctica/Troll",    SL_UNIT_DAY,   1,  1 },
    {.zone = "UTC",                 SL_UNIT_WEEK,  1,  1 },
    {.zone = "Europe/Lisbon",       SL_UNIT_WEEK,  1,  7 },
    {.zone = "Asia/Beirut",         SL_UNIT_WEEK,  1,  4 },
    {.zone = "UTC",                 SL_UNIT_MONTH, 1,  1 },
    {.zone = "UTC",                 SL_UNIT_MONTH, 1,  31},
    {.zone = "America/New_York",    SL_UNIT_MONTH, 1,  15},
    {.zone = "Australia/Lord_Howe", SL_UNIT_MONTH, 1,  30},
    {.zone = "Pacific/Apia",        SL_UNIT_MONTH, 1,  30},
    {.zone = "Africa/Casablanca",   SL_UNIT_MONTH, 3,  29},
    {.zone = "Asia/Kathmandu",      SL_UNIT_MONTH, 3,  1 },
    {.zone = "UTC",                 SL_UNIT_MONTH, 12, 6 },
    {.zone = "Asia/Tokyo",          SL_UNIT_DAY,   3,  1 },
    {.zone = "Pacific/Apia",        SL_UNIT_DAY,   3,  1 },
};

static enum sl_calendar_unit calendar_unit(enum sl_unit unit)
{
    return unit == SL_UNIT_DAY    ? SL_CALENDAR_DAY
           : unit == SL_UNIT_WEEK ? SL_CALENDAR_WEEK
                                  : SL_CALENDAR_MONTH;
}

static bool load(void)
{
    bool good = true;

    for (size_t i = 0; i < SL_LEN(calendars); i++) {
        struct calendar *c = &calendars[i];

        good = good && zones_load(c->zone, &c->shifts);
        bounds_init(&c->bounds, c->zone, calendar_unit(c->unit), c->every,
                    c->anchor);
    }
    return good;
}

static void follow(struct spec *s, const struct calendar *c)
{
    s->every = (uint64_t)c->every;
    s->unit = c->unit;
    s->period = 0;
    s->bounds = &c->bounds;
    s->zone = &c->shifts;
    s->anchor = (uint32_t)c->anchor;
}

static struct spec random_quota(struct rng *rng)
{
    struct spec s = random_spec(rng, SL_QUOTA);

    if (!rng_once_in(rng, 3)) {
        follow(&s, &calendars[rng_below(rng, SL_LEN(calendars))]);
        if (rng_once_in(rng, 2))
            s.capacity = s.count = 1 + rng_log(rng, SL_AMOUNT_MAX - 1);
    }
    return s;
}

/* (4) Move to another zone or anchor; unit and number must stay. */
static void move(struct trial *t)
{
    const struct calendar *c =
        &calendars[rng_below(&t->rng, SL_LEN(calendars))];
    struct spec s = t->spec;

    if (!s.bounds || c->unit != s.unit || (uint64_t)c->every != s.every)
        return;
    follow(&s, c);
    trial_change(t, &s);
}

static void check_wait(struct trial *t)
{
    if (t->last.outcome == SL_DENY && t->last.retry_in != t->last.reset_in)
        trial_wrong(t, labels.retry, "retry_in is not the period's end");
}

static void step(struct trial *t)
{
    if (rng_once_in(&t->rng, 16))
        move(t);
    random_step(t);
}

static bool history(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {.labels = &labels,
                                     .spec = random_quota,
                                     .most = 400,
                                     .step = step,
                                     .check = check_wait};

    return history_run(&h, seed, steps);
}

/* (1) What was admitted in the period that began at `start`. */
struct admitted {
    sl_ns start;
    uint64_t inside;
};

static void add(struct trial *t, uint64_t cost,
                const struct sl_take_result *got, void *ctx)
{
    const struct spec *s = &t->spec;
    struct admitted *a = ctx;
    sl_ns start =
        s->bounds ? bounds_start(s->bounds, t->now) : t->now / s->period;

    a->inside = start == a->start ? a->inside : 0;
    a->start = start;
    if (got->answer.outcome == SL_ALLOW)
        a->inside += cost;
    if (a->inside > s->count || got->answer.remaining != s->count - a->inside)
        trial_wrong(t, labels.outcome, "%" PRIu64 " in a period", a->inside);
}

static bool any_period(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {
        .labels = &labels, .spec = random_quota, .most = 1000, .took = add};

    return history_forward(&h, seed, steps, &(struct admitted){.start = -1});
}

static void finish(uint64_t steps)
{
    (void)steps;
    for (size_t i = 0; i < SL_LEN(calendars); i++) {
        sl_zone_done(&calendars[i].shifts, &sl_alloc_libc);
        bounds_done(&calendars[i].bounds);
    }
}

const struct property prop_quota = {
    .name = "quota",
    .steps = 3000000,
    .cases = {{"quota (1) (2) (3) (4) histories agree with the oracle",
               history},
              {"quota (1) a period admits the limit", any_period}},
    .open = load,
    .finish = finish,
};
