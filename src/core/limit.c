/* limit.c -- from a written rate to checked integers.
 *
 * The ranges are chosen so that no sum or product in the algorithms overflows:
 *
 *   count, capacity   < 2^32     units < 2^56 with 2^24 to a token
 *   amounts           <= 2^53    exact in a double, so in JSON and Lua too
 *   period            < 2^59 ns  1 ms to ten years
 *   full refill       < 2^61 ns  added to any instant it stays below 2^63
 */
#include "core/limit.h"

#include <inttypes.h>

#include "base/arith.h"
#include "base/hash.h"

/* In the order of enum sl_kind. */
static const struct kind {
    const char *name;
    const char *example;
    bool per;      /* a rate; otherwise a plain count */
    uint64_t most; /* the largest count */
} kinds[SL_KINDS] = {
    {"token-bucket",   "5/min burst 8", true,  SL_COUNT_MAX },
    {"token-bucket",   "5/min burst 8", true,  SL_COUNT_MAX },
    {"leaky-bucket",   "5/10s queue 5", true,  SL_COUNT_MAX },
    {"fixed-window",   "100/hour",      true,  SL_COUNT_MAX },
    {"sliding-window", "10/10s",        true,  SL_COUNT_MAX },
    {"quota",          "120/month",     true,  SL_AMOUNT_MAX},
    {"concurrency",    "2",             false, SL_COUNT_MAX },
    {"level",          "5",             false, SL_AMOUNT_MAX},
    {"penalty",        "5",             false, SL_COUNT_MAX },
};

const char *sl_kind_name(enum sl_kind kind)
{
    return kinds[kind].name;
}

static const char *noun(enum sl_kind kind)
{
    return kind == SL_PERMITS ? "concurrency limit" : kinds[kind].name;
}

static int check_form(enum sl_kind kind, const struct sl_rate *rate,
                      struct sl_diag *diag)
{
    const struct kind *k = &kinds[kind];

    if (rate->form == SL_RATE_UNLIMITED || rate->form == SL_RATE_NONE)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "\"unlimited\" and \"none\" are not limits. Leave "
                             "this limit out of the set");
    if (k->per && rate->form == SL_RATE_PLAIN)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "A %s needs a period after the count. Write it like "
            "%s",
            noun(kind), k->example);
    if (!k->per && rate->form == SL_RATE_PER)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "A %s is a count without a period. Write it like %s", noun(kind),
            k->example);
    if (rate->has_burst && kind != SL_BUCKET && kind != SL_INTERVAL)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A %s has no burst. Only a token-bucket has one",
                             noun(kind));
    if (rate->has_queue && kind != SL_LEAKY)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A %s has no queue. Only a leaky-bucket has one",
                             noun(kind));
    return 0;
}

static int check_count(enum sl_kind kind, const struct sl_rate *rate,
                       struct sl_diag *diag)
{
    if (rate->count == 0)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "A limit of 0 would always deny. Write \"none\" if "
            "the plan does not include it");
    if (rate->count > kinds[kind].most)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "%" PRIu64
                             " is too large. The maximum of a %s is %" PRIu64,
                             rate->count, noun(kind), kinds[kind].most);
    return 0;
}

/* Multiplies a number of a rate; `most` is the largest product. */
static int scale_number(uint64_t *number, uint64_t scale, uint64_t most,
                        const char *name, enum sl_kind kind,
                        struct sl_diag *diag)
{
    if (*number > most / scale)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "%s%" PRIu64 " times %" PRIu64
                             " is too large. The maximum of a %s is %" PRIu64,
                             name, *number, scale, noun(kind), most);
    *number *= scale;
    return 0;
}

static int scale_rate(struct sl_rate *rate, enum sl_kind kind, uint64_t scale,
                      struct sl_diag *diag)
{
    int err =
        scale_number(&rate->count, scale, kinds[kind].most, "", kind, diag);

    if (!err && rate->has_burst)
        err = scale_number(&rate->burst, scale, SL_COUNT_MAX, "A burst of ",
                           kind, diag);
    if (!err && rate->has_queue)
        err = scale_number(&rate->queue, scale, SL_COUNT_MAX, "A queue of ",
                           kind, diag);
    return err;
}

/* False: `unit` is not of a calendar. */
static bool calendar_unit(enum sl_unit unit, enum sl_calendar_unit *ret)
{
    static const enum sl_unit units[] = {
        [SL_CALENDAR_DAY] = SL_UNIT_DAY,
        [SL_CALENDAR_WEEK] = SL_UNIT_WEEK,
        [SL_CALENDAR_MONTH] = SL_UNIT_MONTH,
    };

    for (*ret = SL_CALENDAR_DAY; *ret <= SL_CALENDAR_MONTH; ++*ret)
        if (units[*ret] == unit)
            return true;
    return false;
}

static int init_calendar(struct sl_limit *limit, const struct sl_rate *rate,
                         const struct sl_limit_options *options,
                         struct sl_diag *diag)
{
    static const struct {
        uint32_t anchor; /* the largest */
        uint32_t every;  /* ten years */
    } most[] = {
        [SL_CALENDAR_DAY] = {1,  3653},
        [SL_CALENDAR_WEEK] = {7,  521 },
        [SL_CALENDAR_MONTH] = {31, 120 },
    };
    uint32_t anchor = options->anchor ? options->anchor : 1;
    enum sl_calendar_unit unit = limit->cal.unit;

    if (unit == SL_CALENDAR_DAY && anchor > 1)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A period in days has no anchor. Only weeks and "
                             "months have one");
    if (anchor > most[unit].anchor)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "The anchor of a period in %ss must be between 1 and "
            "%" PRIu32 ", not %" PRIu32,
            sl_unit_name(rate->unit), most[unit].anchor, anchor);
    if (rate->every > most[unit].every)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A period of %" PRIu64
                             " %ss is longer than ten years",
                             rate->every, sl_unit_name(rate->unit));
    limit->calendar = true;
    limit->cal.every = (uint32_t)rate->every;
    limit->cal.anchor = anchor;
    limit->cal.zone = options->zone ? options->zone : &sl_zone_utc;
    return 0;
}

static int init_period(struct sl_limit *limit, const struct sl_rate *rate,
                       struct sl_diag *diag)
{
    uint64_t length = (uint64_t)sl_unit_length(rate->unit);
    uint64_t period = sl_mul_sat(rate->every, length);

    if (rate->unit == SL_UNIT_WEEK || rate->unit == SL_UNIT_MONTH)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "A %s has no periods in %ss. Use a quota, or write "
            "days",
            sl_kind_name(limit->kind), sl_unit_name(rate->unit));
    if (period > (uint64_t)SL_PERIOD_MAX)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A period of %" PRIu64
                             "%s is longer than ten years",
                             rate->every, sl_unit_name(rate->unit));
    /* A token every 10 ns: rate->count / period > SL_RATE_MAX / SL_S. */
    if (limit->kind != SL_QUOTA &&
        rate->count > period / ((uint64_t)SL_S / SL_RATE_MAX))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "%" PRIu64 "/%" PRIu64 "%s is faster than %" PRIu64 " per second",
            rate->count, rate->every, sl_unit_name(rate->unit), SL_RATE_MAX);
    limit->period = (sl_ns)period;
    return 0;
}

static int init_capacity(struct sl_limit *limit, const struct sl_rate *rate,
                         struct sl_diag *diag)
{
    uint64_t queue = rate->has_queue ? rate->queue : rate->count;

    limit->capacity = rate->count;
    if (rate->has_burst)
        limit->capacity = rate->burst;
    else if (limit->kind == SL_LEAKY)
        limit->capacity = sl_add_sat(queue, 1);
    if (!sl_is_bucket(limit->kind))
        return 0;
    if (limit->capacity == 0)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A burst of 0 would always deny. Write at least "
                             "\"burst 1\"");
    if (limit->capacity > SL_COUNT_MAX)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "A %s of %" PRIu64
                             " is too large. The maximum of a "
                             "%s is %" PRIu64,
                             limit->kind == SL_LEAKY ? "queue" : "burst",
                             limit->kind == SL_LEAKY ? queue : limit->capacity,
                             sl_kind_name(limit->kind), SL_COUNT_MAX);
    if (sl_muldiv_up(limit->capacity, (uint64_t)limit->period, limit->count) >
        (uint64_t)SL_REFILL_MAX)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "%" PRIu64
                             " would take more than 73 years to refill "
                             "at this rate",
                             limit->capacity);
    return 0;
}

void sl_limit_derive(struct sl_limit *limit)
{
    bool fine = limit->quantum == SL_QUANTUM_NS;
    uint64_t most = UINT64_C(1) << (fine ? 24 : 21);

    limit->tick = fine ? 1 : SL_US;
    limit->span = (uint64_t)(limit->period / limit->tick);
    if (!sl_is_bucket(limit->kind))
        return;
    limit->grain = 1;
    for (unsigned i = 0; (limit->span - 1) / limit->grain >= most; i++)
        limit->grain = i % 3 == 1 ? limit->grain / 2 * 5 : limit->grain * 2;
    /* Rounded up for periods such as 1234567891ms: slower, never faster. */
    limit->token = (limit->span + limit->grain - 1) / limit->grain;
    limit->room = limit->capacity * limit->token;
}

int sl_limit_init(struct sl_limit *ret, enum sl_kind kind,
                  const struct sl_rate *written,
                  const struct sl_limit_options *options, struct sl_diag *diag)
{
    static const struct sl_limit_options defaults;
    struct sl_limit limit = {.kind = kind};
    struct sl_rate rate = *written;
    int err;

    if (!options)
        options = &defaults;
    limit.quantum = options->quantum;
    limit.unit = options->unit;
    err = check_form(kind, &rate, diag);
    if (!err)
        err = check_count(kind, &rate, diag);
    if (!err && options->scale > 1)
        err = scale_rate(&rate, kind, options->scale, diag);
    limit.count = rate.count;
    if (!err && kinds[kind].per) {
        if (kind == SL_QUOTA && calendar_unit(rate.unit, &limit.cal.unit))
            err = init_calendar(&limit, &rate, options, diag);
        else
            err = init_period(&limit, &rate, diag);
    }
    if (!err)
        err = init_capacity(&limit, &rate, diag);
    if (err)
        return err;
    sl_limit_derive(&limit);
    *ret = limit;
    return 0;
}

struct sl_limit sl_limit_penalty(const struct sl_penalty_rate *rate,
                                 enum sl_quantum quantum)
{
    struct sl_limit limit = {
        .kind = SL_PENALTY,
        .quantum = quantum,
        .count = rate->after,
        .capacity = rate->after,
        .period = rate->most,
        .penalty = {rate->block, rate->growth},
        .grain = (uint64_t)rate->within,
    };

    sl_limit_derive(&limit);
    return limit;
}

struct sl_period sl_limit_period(const struct sl_limit *limit, sl_ns now)
{
    sl_ns span = SL_DAY, start;

    if (limit->kind == SL_QUOTA && limit->calendar)
        return sl_calendar_period(&limit->cal, now);
    if (limit->kind == SL_QUOTA && limit->period > 0)
        span = limit->period;
    start = now - now % span;
    return (struct sl_period){start, start + span};
}

sl_ns sl_limit_edge(const struct sl_limit *limit, sl_ns at)
{
    struct sl_period p;

    if (limit->calendar) {
        p = sl_calendar_period(&limit->cal, at);
    } else if (limit->period > 0 && limit->kind != SL_BUCKET &&
               limit->kind != SL_LEAKY && limit->kind != SL_PENALTY) {
        p.start = at - at % limit->period;
        p.end = p.start <= SL_NS_MAX - limit->period ? p.start + limit->period
                                                     : p.start;
    } else {
        return at;
    }
    return at - p.start < p.end - at ? p.start : p.end;
}

int64_t sl_limit_last_day(const struct sl_limit *limit, sl_ns end)
{
    int64_t second = (end - 1) / SL_S;

    if (limit->kind == SL_QUOTA && limit->calendar)
        second += sl_zone_offset(limit->cal.zone, second);
    return sl_floor_div(second, SL_DAY / SL_S);
}

/* ---- units with a scale ---- */

#define MARK_HASH 11 /* bits */

uint64_t sl_unit_mark(uint64_t scale, struct sl_str counted)
{
    static const struct sl_hash_key key = {UINT64_C(0x736c75696365), 1};
    uint64_t hash = sl_hash64(&key, counted) >> (64 - MARK_HASH);

    return scale > 1 ? (scale - 1) << MARK_HASH | hash : 0;
}

uint64_t sl_unit_mark_scale(uint64_t mark)
{
    return (mark >> MARK_HASH) + 1;
}

/* The parts of its name: "units of ", "60", " ", "seconds". */
struct unit_parts {
    const char *word, *gap, *name;
    char digits[SL_DIGITS];
    int digits_len, name_len;
};

static struct unit_parts parts_of(const struct sl_unit_name *unit)
{
    struct unit_parts parts = {.word = "plain units", .gap = "", .name = ""};

    if (unit->scale <= 1)
        return parts;
    parts.word = "units of ";
    parts.digits_len = (int)sl_digits(unit->scale, parts.digits);
    parts.gap = unit->counted.len > 0 ? " " : "";
    if (unit->counted.len > 0)
        parts.name = unit->counted.at;
    parts.name_len = unit->counted.len < 24 ? (int)unit->counted.len : 24;
    return parts;
}

#define PARTS "%s%.*s%s%.*s"
#define PARTS_ARG(p)                                                           \
    (p).word, (p).digits_len, (p).digits, (p).gap, (p).name_len, (p).name

int sl_unit_refuse(struct sl_diag *diag, const char *where, struct sl_str limit,
                   const struct sl_unit_name *old,
                   const struct sl_unit_name *new)
{
    struct unit_parts was = parts_of(old), is = parts_of(new);

    return sl_diag_error(diag, SLUICE_ECONF,
                         "Limit \"%.*s\" is counted in " PARTS
                         " in %s, and in " PARTS
                         " in the new policy. Write `unit` as before, or give "
                         "the limit another name and import its usage",
                         limit.len < 40 ? (int)limit.len : 40, limit.at,
                         PARTS_ARG(was), where, PARTS_ARG(is));
}

/* Bits 56..59 the kind, 55 the quantum, 54 a calendar; below them the
 * calendar's unit and number, or the period in milliseconds (below 2^39). Of a
 * penalty, bits 29..53 are `within` and those below `most`, in seconds. */
uint64_t sl_limit_shape(const struct sl_limit *limit)
{
    enum sl_kind kind = limit->kind == SL_INTERVAL ? SL_BUCKET : limit->kind;
    uint64_t shape = (uint64_t)kind << 56 | (uint64_t)limit->quantum << 55;

    if (limit->calendar)
        shape |= UINT64_C(1) << 54 | (uint64_t)limit->cal.unit << 32 |
                 limit->cal.every;
    else if (kind == SL_PENALTY)
        shape |= limit->grain / (uint64_t)SL_S << 29 |
                 (uint64_t)(limit->period / SL_S);
    else
        shape |= (uint64_t)(limit->period / SL_MS);
    return shape ^ limit->unit * UINT64_C(0x9e3779b97f4a7c15);
}
