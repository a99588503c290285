/* throttle.c -- redis-cell's answers, by a model of redis-cell.
 *
 * The model is its arithmetic written down again, in 128 bits: one arrival
 * time per key and nothing else. Histories have few keys, numbers that change
 * from question to question, looks, refunds, and a clock that goes forward by
 * anything from a nanosecond to years.
 *
 *   (1)  every answer is the model's: limited, remaining, retry, reset
 *   (2)  a refund lowers what is owed by its tokens, and never below nothing
 *   (3)  what was refused, and a look, change nothing
 *   (4)  asked in batches of any size or one by one, the answers are the same
 */
#include "engine/throttle.h"

#include "asking.h"
#include "prop.h"

#define KEYS  4
#define BATCH 7

__extension__ typedef __int128 wide;

/* ---- the model ---- */

struct want {
    bool limited;
    uint64_t remaining;
    sl_ns retry_in, reset_in;
};

/* What is stored of a key: when it will owe nothing. */
static struct want model(wide *tat, const struct sl_throttle *t)
{
    wide now = t->now, T = t->interval, tau = T * (wide)t->capacity;
    wide inc = T * t->quantity, from = *tat > now ? *tat : now;
    wide new = from + inc, ttl;
    struct want w = {.retry_in = SL_NS_NONE};

    if (t->quantity < 0) { /* (2) */
        *tat = new > now ? new : now;
    } else if (now < new - tau) { /* (3) */
        w.limited = true;
        if (inc <= tau)
            w.retry_in = (sl_ns)(new - tau - now);
    } else {
        *tat = new;
    }
    ttl = *tat > now ? *tat - now : 0;
    w.reset_in = (sl_ns)ttl;
    w.remaining = tau > ttl ? (uint64_t)((tau - ttl) / T) : 0;
    return w;
}

/* ---- histories ---- */

/* Small, round, or anything up to `most`. */
static int64_t pick(struct rng *rng, int64_t most)
{
    static const int64_t round[] = {1,  2,   5,    10,    30,
                                    60, 100, 1000, 86400, 1000000};
    int64_t n;

    switch (rng_below(rng, 3)) {
    case 0:
        n = (int64_t)rng_between(rng, 1, 20);
        break;
    case 1:
        n = round[rng_below(rng, SL_LEN(round))];
        break;
    default:
        n = (int64_t)rng_between(rng, 1, (uint64_t)most) >> rng_below(rng, 30);
        break;
    }
    return n < 1 ? 1 : n < most ? n : most;
}

static int64_t pick_quantity(struct rng *rng, uint64_t capacity)
{
    switch (rng_below(rng, 8)) {
    case 0:
        return 0;
    case 1:
        return -(int64_t)rng_below(rng, capacity + 2);
    case 2:
        return (int64_t)capacity;
    case 3:
        return (int64_t)capacity + 1;
    case 4:
        return rng_once_in(rng, 2) ? INT64_MAX : INT64_MIN;
    case 5:
        return (int64_t)rng_below(rng, capacity + 1);
    default:
        return 1;
    }
}

static sl_ns pick_step(struct rng *rng, const struct sl_throttle *t)
{
    switch (rng_below(rng, 6)) {
    case 0:
        return 0;
    case 1:
        return (sl_ns)rng_below(rng, 3);
    case 2:
        return t->interval;
    case 3:
        return (sl_ns)rng_below(rng, (uint64_t)t->interval + 1);
    case 4:
        return (sl_ns)rng_below(rng, 3) * SL_S;
    default:
        return (sl_ns)(rng_next(rng) >> (12 + rng_below(rng, 40)));
    }
}

/* Numbers that the bounds allow; most of the time those of last time. */
static void choose(struct rng *rng, struct sl_throttle *t)
{
    struct sl_diag diag = {.sentence = ""};

    while (t->capacity == 0 || rng_once_in(rng, 4))
        if (sl_throttle_set(t, pick(rng, UINT32_MAX), pick(rng, INT32_MAX),
                            pick(rng, 300000000), &diag) == 0)
            break;
    t->quantity = pick_quantity(rng, t->capacity);
}

static const char *const keys[KEYS] = {"ann", "bob", "", "ann "};

static bool judge(const struct sl_throttle *t, const struct want *w,
                  uint64_t step)
{
    if (t->err == 0 && t->limited == w->limited &&
        t->remaining == w->remaining && t->retry_in == w->retry_in &&
        t->reset_in == w->reset_in)
        return true;
    printf("# step %" PRIu64 ": capacity %" PRIu64 " interval %" PRId64
           " quantity %" PRId64 " at %" PRId64 "\n"
           "#   got  %d limited %d remaining %" PRIu64 " retry %" PRId64
           " reset %" PRId64 "\n"
           "#   want %d limited %d remaining %" PRIu64 " retry %" PRId64
           " reset %" PRId64 "\n",
           step, t->capacity, t->interval, t->quantity, t->now, t->err,
           t->limited, t->remaining, t->retry_in, t->reset_in, 0, w->limited,
           w->remaining, w->retry_in, w->reset_in);
    return false;
}

/* ---- episodes ---- */

static const char policy[] = "sluice: 1\n"
                             "limits:\n"
                             "  a: { kind: token-bucket, rate: 5/min }\n"
                             "default: [a]\n";

static unsigned answered;

static void on_done(struct sl_throttle *t)
{
    (void)t;
    answered++;
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct rig rig;
    struct sl_throttles throttles;
    struct sl_throttle all[BATCH] = {{.key = {NULL, 0}}};
    struct sl_throttle *asked[BATCH];
    wide tats[KEYS] = {0};
    sl_ns now = (sl_ns)(rng_next(&rng) >> (3 + rng_below(&rng, 30)));
    bool good = true;

    rig_open(&rig, policy);
    sl_throttles_init(&throttles, rig.engine, NULL);
    for (unsigned round = 0; round < 60 && good; round++) {
        unsigned count = 1 + (unsigned)rng_below(&rng, BATCH);
        unsigned which[BATCH];

        for (unsigned i = 0; i < count; i++) {
            struct sl_throttle *t = asked[i] = &all[i];

            choose(&rng, t);
            which[i] = (unsigned)rng_below(&rng, KEYS);
            t->key = sl_str_c(keys[which[i]]);
            t->now = now;
            t->done = on_done;
        }
        answered = 0;
        rig.now = now;
        sl_throttle_take(&throttles, asked, count); /* (4) */
        good = answered == count;
        for (unsigned i = 0; i < count && good; i++) {
            struct want w = model(&tats[which[i]], asked[i]);

            good = judge(asked[i], &w, *steps);
            ++*steps;
        }
        now += pick_step(&rng, asked[0]);
        if (now >= SL_TIME_END / 2)
            break;
    }
    rig_close(&rig);
    return good;
}

const struct property prop_throttle = {
    .name = "throttle",
    .steps = 200000,
    .cases = {{"answers are redis-cell's", episode}},
};
