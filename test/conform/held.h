/* held.h -- what is held of one key, as a model has it that knows nothing of
 * scripts. */
#ifndef SL_CONFORM_HELD_H
#define SL_CONFORM_HELD_H

#include <stdio.h>

#include "rng.h"
#include "store/redis/redis.h"

#define NODES 2
#define STEPS 700

struct held {
    struct sl_hold_id id;
    uint32_t place;
    unsigned node;
    uint64_t cost, kept; /* what of it counts: all, or what it was settled to */
    sl_ns taken, expires;
    enum sl_hold_state state; /* HELD also when it has expired */
};

struct extra {
    sl_ns at;
    uint64_t cost;
};

struct world {
    struct sl_loop *loop;
    struct sl_redis_url where;
    struct sl_store *nodes[NODES];
    struct rng rng;
    uint64_t seed, ids;
    struct sl_limit limit;
    struct sl_limit_binding stored;
    char key[64];
    sl_ns now;
    struct held list[STEPS]; /* plain takes are settled holds */
    unsigned count;
    struct extra extras[STEPS]; /* charged beyond a hold */
    unsigned extra_count;
    bool done, good;
    bool as_held; /* what is settled came to what was held */
};

static inline bool is_live(const struct world *w, const struct held *h)
{
    return h->state == SL_HOLD_HELD && h->expires > w->now;
}

/* What of it counts by now. */
static inline uint64_t counts(const struct world *w, const struct held *h)
{
    if (h->state == SL_HOLD_HELD)
        return is_live(w, h) ? h->cost : 0;
    return h->kept;
}

static inline bool same_window(const struct world *w, sl_ns a)
{
    sl_ns period = w->limit.period;

    return period == 0 || a / period == w->now / period;
}

static inline uint64_t used(const struct world *w)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < w->count; i++)
        if (same_window(w, w->list[i].taken))
            sum += counts(w, &w->list[i]);
    for (unsigned i = 0; i < w->extra_count; i++)
        if (same_window(w, w->extras[i].at))
            sum += w->extras[i].cost;
    return sum;
}

/* When enough permits have expired; SL_NS_NONE if that is never. */
static inline sl_ns soonest(const struct world *w, uint64_t cost)
{
    sl_ns best = SL_NS_NONE;

    for (unsigned i = 0; i < w->count; i++) {
        sl_ns at = w->list[i].expires;
        uint64_t freed = 0;

        if (!is_live(w, &w->list[i]))
            continue;
        for (unsigned k = 0; k < w->count; k++)
            if (is_live(w, &w->list[k]) && w->list[k].expires <= at)
                freed += w->list[k].cost;
        if (used(w) - freed + cost <= w->limit.capacity &&
            (best == SL_NS_NONE || at - w->now < best))
            best = at - w->now;
    }
    return best;
}

static inline bool is_exact(const struct world *w)
{
    return w->limit.kind == SL_PERMITS || w->limit.kind == SL_LEVEL ||
           w->limit.kind == SL_FIXED || w->limit.kind == SL_QUOTA;
}

static inline void judge_take(struct world *w, uint64_t cost, bool allowed,
                              const struct sl_answer *answer)
{
    uint64_t was = used(w), capacity = w->limit.capacity;
    uint64_t is = was + (allowed ? cost : 0);

    if (!is_exact(w))
        return;
    if (allowed != (was + cost <= capacity) ||
        answer->remaining != (is < capacity ? capacity - is : 0)) {
        printf("# seed %u: %u of %u used, %u asked, allowed %d, remaining %u\n",
               (unsigned)w->seed, (unsigned)was, (unsigned)capacity,
               (unsigned)cost, allowed, (unsigned)answer->remaining);
        w->good = false; /* (4) */
    }
    if (!allowed && w->limit.kind == SL_PERMITS && cost <= capacity &&
        answer->retry_in != soonest(w, cost)) {
        printf("# seed %u: retry %lld, not %lld\n", (unsigned)w->seed,
               (long long)answer->retry_in, (long long)soonest(w, cost));
        w->good = false;
    }
}

#endif
