/* judge.c -- how far a take may go: with what is leased, or after asking. */
#include "store/store_int.h"

/* So often somebody else may have been faster. */
#define TRIES 16

/* ---- which parts ---- */

/* What is carried to a limit by one take and not by another would be in its
 * cell, and in no lease: such a limit is leased to nobody. */
static bool is_leased(const struct sl_take *take, unsigned i)
{
    const struct sl_store_part *part = &take->parts[i];

    return part->whose && part->of->strictest.kind == SL_QUOTA &&
           !part->of->carried && !part->carried &&
           (i == 0 || !part[-1].carried);
}

uint32_t sl_quota_leases_parts(const struct sl_take *take)
{
    uint32_t bits = 0;

    if (take->errand == SL_TAKE_OP_EACH)
        return 0;
    for (unsigned i = 0; i < take->count; i++)
        bits |= (uint32_t)is_leased(take, i) << i;
    return bits;
}

/* ---- the table ---- */

static void on_inner(struct sl_take *take)
{
    (void)take; /* it has answered before it returned */
}

/* What the cell of a part has now. */
static uint64_t look_own(struct sl_quota_leases_attempt *a, unsigned i)
{
    struct sl_limit open = *a->take->parts[i].limit;
    struct sl_store_part part = a->take->parts[i];
    struct sl_take look = {.errand = SL_TAKE_OP_PEEK,
                           .parts = &part,
                           .count = 1,
                           .now = a->take->now,
                           .done = on_inner};

    sl_quota_leases_open_limit(&open);
    part.limit = &open;
    part.cost = 0;
    sl_store_take(a->l->options.store, &look);
    return sl_quota_leases_own(&part);
}

/* ---- periods ---- */

static struct sl_period period_of(const struct sl_limit *limit, sl_ns now)
{
    sl_ns start;

    if (limit->calendar)
        return sl_calendar_period(&limit->cal, now);
    start = now - now % limit->period;
    return (struct sl_period){start, start + limit->period};
}

/* A reading that is a little late is judged as the cell judges it. */
static bool is_current(const struct sl_quota_leases_key *k,
                       const struct sl_limit *limit, sl_ns now)
{
    const struct sl_calendar *c = &limit->cal;

    if (k->span != (limit->calendar ? 0 : limit->period) ||
        (limit->calendar &&
         (k->cal.unit != c->unit || k->cal.every != c->every ||
          k->cal.anchor != c->anchor || k->cal.zone != c->zone)))
        return false;
    return now < k->lease.end && now >= k->lease.start - SL_JITTER;
}

/* What is left of the period that is over. If it can't be told now, the books
 * find out when the node comes back: nobody misses it. */
static void give_back(struct sl_quota_leases_attempt *a, unsigned i,
                      struct sl_quota_leases_key *k)
{
    struct sl_quota_leases_need need = {
        .key = k,
        .shard = a->places[i].shard,
        .now = a->take->now,
        .steady = a->steady,
    };
    uint64_t units = sl_quota_lease_surplus(&k->lease, true);

    if (units > 0 && !k->asking && a->take->loop)
        (void)!sl_quota_leases_prepare(a->l, &need, units, &a->outbox);
}

/* Another period begins: nobody waits for what is under way about the last. */
static void turn_over(struct sl_quota_leases_key *k, sl_ns start)
{
    if (!k->asking || k->about >= start)
        return;
    k->asking = false;
    k->aside++;
}

/* Of a period before the one its key is in, which it can't go back to yet? */
static bool is_late(const struct sl_quota_leases_key *k, sl_ns now)
{
    return now < k->lease.start - SL_JITTER;
}

/* The key of a part, in its period. NULL: there is no room. It stays where it
 * is while something is being given back of a period before. */
static struct sl_quota_leases_key *key_of(struct sl_quota_leases_attempt *a,
                                          unsigned i)
{
    const struct sl_store_part *part = &a->take->parts[i];
    struct sl_quota_leases_key *k =
        sl_quota_leases_find(a->l, &a->places[i], part);
    struct sl_period p;

    if (k && is_current(k, part->limit, a->take->now))
        return k;
    p = period_of(part->limit, a->take->now);
    if (k && k->lease.start == p.start)
        return k; /* it is called otherwise now */
    if (k && k->aside > 0 && is_late(k, a->take->now))
        return k;
    if (!k)
        k = sl_quota_leases_add(a->l, &a->places[i], part);
    else
        give_back(a, i, k);
    if (!k)
        return NULL;
    turn_over(k, p.start);
    k->cal = part->limit->cal;
    k->span = part->limit->calendar ? 0 : part->limit->period;
    sl_quota_lease_begin(&k->lease, p.start, p.end, look_own(a, i));
    return k;
}

/* ---- judging ---- */

static enum sl_quota_leases_way wait_for(struct sl_quota_leases_attempt *a,
                                         unsigned i, uint64_t cost,
                                         struct sl_quota_leases_need *need)
{
    const struct sl_store_part *part = &a->take->parts[i];

    if (a->blind || !a->take->loop || a->tries > TRIES)
        return SL_QUOTA_LEASES_FAIL;
    *need = (struct sl_quota_leases_need){.key = a->keys[i],
                                          .shard = a->places[i].shard,
                                          .cap = part->limit->capacity,
                                          .cost = cost,
                                          .now = a->take->now,
                                          .steady = a->steady};
    if (cost > 0)
        need->want =
            sl_quota_lease_shortfall(&a->keys[i]->lease, cost, &need->least);
    return SL_QUOTA_LEASES_WAIT;
}

/* Nobody is kept back by the books: only what is shown would be better. */
static enum sl_quota_leases_way judge_open(struct sl_quota_leases_attempt *a,
                                           unsigned i,
                                           struct sl_quota_leases_need *need)
{
    if (a->keys[i]->lease.known)
        return SL_QUOTA_LEASES_GO;
    return wait_for(a, i, 0, need) == SL_QUOTA_LEASES_WAIT
               ? SL_QUOTA_LEASES_WAIT
               : SL_QUOTA_LEASES_GO;
}

static enum sl_quota_leases_way judge_capped(struct sl_quota_leases_attempt *a,
                                             unsigned i,
                                             struct sl_quota_leases_need *need)
{
    struct sl_store_part *part = &a->parts[i];
    struct sl_quota_lease *lease = &a->keys[i]->lease;
    uint64_t cap = part->limit->capacity, room;

    if (!lease->known ||
        (sl_quota_lease_unspent(lease) > 0 &&
         !sl_quota_leases_is_sure(a->l, a->keys[i], a->steady)))
        return wait_for(a, i, part->cost, need);
    room = sl_quota_lease_room(lease, cap);
    if (lease->own + part->cost > room) {
        lease->own = look_own(a, i);
        if (lease->own + part->cost > room) {
            if (!sl_quota_lease_is_refused(lease, part->cost, cap, a->steady))
                return wait_for(a, i, part->cost, need);
            a->refuser = (int)i;
            return SL_QUOTA_LEASES_REFUSE;
        }
    }
    a->limits[i].count = a->limits[i].capacity = room;
    return SL_QUOTA_LEASES_GO;
}

bool sl_quota_leases_is_capped(const struct sl_quota_leases_attempt *a,
                               unsigned i)
{
    const struct sl_store_part *part = &a->take->parts[i];

    return a->take->errand == SL_TAKE_OP_TAKE && part->cost > 0 &&
           part->limit->capacity < SL_AMOUNT_MAX;
}

/* Without a lease: the books are told of it all the same. */
static enum sl_quota_leases_way go_without(struct sl_quota_leases_attempt *a,
                                           unsigned i)
{
    if (sl_quota_leases_is_capped(a, i))
        return SL_QUOTA_LEASES_FAIL;
    if (a->take->errand == SL_TAKE_OP_CHARGE ||
        a->take->errand == SL_TAKE_OP_REFUND)
        a->parts[i].cost = 0;
    return SL_QUOTA_LEASES_GO;
}

static enum sl_quota_leases_way judge_part(struct sl_quota_leases_attempt *a,
                                           unsigned i,
                                           struct sl_quota_leases_need *need)
{
    struct sl_store_part *part = &a->parts[i];
    enum sl_quota_leases_way way = SL_QUOTA_LEASES_GO;

    part->limit = a->take->parts[i].limit;
    a->keys[i] = key_of(a, i);
    if (a->keys[i] && is_late(a->keys[i], a->take->now)) {
        if (sl_quota_leases_is_capped(a, i))
            return wait_for(a, i, 0, need);
        a->keys[i] = NULL;
    }
    if (!a->keys[i])
        return go_without(a, i);
    /* Who only looks has no use for what is leased. */
    a->keys[i]->touched |= sl_quota_leases_is_capped(a, i);
    if (sl_quota_leases_is_capped(a, i) && part->cost > part->limit->capacity)
        return SL_QUOTA_LEASES_GO; /* never: the table says so */
    a->limits[i] = *part->limit;
    sl_quota_leases_open_limit(&a->limits[i]);
    if (a->refuser < 0)
        way = sl_quota_leases_is_capped(a, i) ? judge_capped(a, i, need)
                                              : judge_open(a, i, need);
    part->limit = &a->limits[i];
    return way;
}

enum sl_quota_leases_way
sl_quota_leases_judge(struct sl_quota_leases_attempt *a,
                      struct sl_quota_leases_need *need)
{
    enum sl_quota_leases_way way;

    a->refuser = -1;
    for (unsigned i = 0; i < a->inner.count; i++) {
        if (!(a->leased >> i & 1))
            continue;
        way = judge_part(a, i, need);
        if (way == SL_QUOTA_LEASES_WAIT || way == SL_QUOTA_LEASES_FAIL)
            return way;
    }
    return a->refuser < 0 ? SL_QUOTA_LEASES_GO : SL_QUOTA_LEASES_REFUSE;
}
