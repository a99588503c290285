/* hold_history_model.c -- holds by core/, one after the other. The contract is
 * in history.h. */
#include "hold_history.h"

#include "base/arith.h"

/* One key of a hold ends for `cost` at `at`. */
static void end_part(struct hold_history *l, const struct hold *h,
                     const struct held *p, uint64_t cost, sl_ns at)
{
    const struct sl_limit *limit = &l->judged[p->limit];
    struct sl_cell *cell = cell_of(l, p), next;
    struct sl_since since = {h->taken, at, 0};
    struct sl_refunds *all = &l->returned[p->limit][p->key];
    struct sl_refunds returned = {all->all - p->returned.all,
                                  all->unheld - p->returned.unheld};
    struct sl_hold_snapshot mark = p->mark;

    if (cost > p->cost)
        *cell = sl_adjust(limit, *cell, (int64_t)(cost - p->cost), at, at).next;
    if (cost >= p->cost || p->gone)
        return;
    if (sl_is_bucket(limit->kind))
        mark = sl_hold_snapshot_reduce(limit, &p->mark, p->cost, &returned);
    next = sl_hold_refund(limit, *cell, p->cost - cost, &mark, &since);
    if (sl_is_bucket(limit->kind))
        all->all += sl_sub_floor(sl_units_used(limit, *cell, at), next.w[1]);
    *cell = next;
}

void hold_history_end(struct hold_history *l, struct hold *h, uint64_t cost,
                      sl_ns at, enum sl_hold_state state)
{
    for (unsigned i = 0; i < h->count; i++)
        end_part(l, h, &h->part[i], state == SL_HOLD_SETTLED ? cost : 0, at);
    h->state = state;
}

/* The first of those that are held; NULL if there is none. */
static struct hold *first_of(struct hold_history *l)
{
    struct hold *first = NULL;

    for (unsigned i = 0; i < l->count; i++) {
        struct hold *h = &l->hold[i];

        if (h->state == SL_HOLD_HELD && (!first || h->expires < first->expires))
            first = h;
    }
    return first;
}

void hold_history_expire(struct hold_history *l)
{
    struct hold *first;

    while ((first = first_of(l)) && first->expires <= l->conform->now)
        hold_history_end(l, first, 0, first->expires, SL_HOLD_EXPIRED);
}

bool hold_history_judge(struct hold_history *l, const struct held *held,
                        unsigned count, struct sl_answer *want)
{
    bool allowed = true;

    for (unsigned i = 0; i < count; i++) {
        want[i] = sl_take(&l->judged[held[i].limit], *cell_of(l, &held[i]),
                          held[i].cost, l->conform->now)
                      .answer;
        allowed =
            allowed && (want[i].outcome == SL_ALLOW || is_vague(l, &held[i]));
    }
    return allowed;
}

void hold_history_take(struct hold_history *l, struct held *held,
                       unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct sl_limit *limit = &l->judged[held[i].limit];
        struct sl_cell *cell = cell_of(l, &held[i]);

        *cell = sl_take(limit, *cell, held[i].cost, l->conform->now).next;
        held[i].mark = sl_hold_snapshot_of(limit, *cell);
        held[i].returned = l->returned[held[i].limit][held[i].key];
    }
}

void hold_history_back(struct hold_history *l, const struct held *p, sl_ns when)
{
    const struct sl_limit *limit = &l->judged[p->limit];
    struct sl_refunds *all = &l->returned[p->limit][p->key];
    struct sl_cell *cell = cell_of(l, p), next;
    sl_ns now = l->conform->now;

    next = sl_adjust(limit, *cell, -(int64_t)p->cost, when, now).next;
    if (sl_is_bucket(limit->kind)) {
        uint64_t back =
            sl_sub_floor(sl_units_used(limit, *cell, now), next.w[1]);

        all->all += back;
        all->unheld += back;
    }
    *cell = next;
}

/* Called for every part of the key that is held. */
static void forget(struct hold_history *l, unsigned limit, unsigned key)
{
    for (unsigned i = 0; i < l->count; i++)
        for (unsigned k = 0; k < l->hold[i].count; k++) {
            struct held *p = &l->hold[i].part[k];

            if (p->limit == limit && p->key == key)
                p->gone = true;
        }
}

void hold_history_reset(struct hold_history *l, const struct held *p)
{
    *cell_of(l, p) = sl_cell_of(0, 0);
    l->vague[p->limit][p->key] = false;
    forget(l, p->limit, p->key);
}

static bool has_key(const struct hold_history *l, const struct hold *h)
{
    for (unsigned i = 0; i < h->count; i++)
        if (!h->part[i].gone && !is_vague(l, &h->part[i]))
            return true;
    return false;
}

/* A store that looks at keys alone never learns that a hold without any lasts
 * too long, or has expired: that one is not asked for again. */
void hold_history_step(struct hold_history *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        struct hold *h = &l->hold[i];
        sl_ns most = l->conform->now + h->life;

        if (!has_key(l, h)) {
            h->state = SL_HOLD_UNKNOWN;
            h->count = 0;
        }
        if (h->state != SL_HOLD_HELD)
            continue;
        if (h->expires > most)
            h->expires = most;
        for (unsigned k = 0; k < h->count; k++)
            if (l->judged[h->part[k].limit].kind < SL_PERMITS)
                l->vague[h->part[k].limit][h->part[k].key] = true;
    }
}

/* The cost that is held of a key by a hold. */
static uint64_t held_of(const struct hold *h, const struct held *p)
{
    for (unsigned i = 0; h->state == SL_HOLD_HELD && i < h->count; i++)
        if (h->part[i].limit == p->limit && h->part[i].key == p->key &&
            !h->part[i].gone)
            return h->part[i].cost;
    return 0;
}

sl_ns hold_history_retry(const struct hold_history *l, const struct held *p)
{
    uint64_t out = l->cell[p->limit][p->key].w[1];
    sl_ns after = 0;

    for (;;) {
        const struct hold *next = NULL;

        for (unsigned i = 0; i < l->count; i++)
            if (l->hold[i].expires > after && held_of(&l->hold[i], p) > 0 &&
                (!next || l->hold[i].expires < next->expires))
                next = &l->hold[i];
        if (!next)
            return SL_NS_NONE;
        after = next->expires;
        out -= held_of(next, p);
        if (out + p->cost <= l->judged[p->limit].capacity)
            return after - l->conform->now;
    }
}
