/* holding.h -- a store with holds whose every fault can be called for.
 *
 * The memory store takes and gives back; the holds are a list in here. What a
 * real store does about buckets that have drained meanwhile is not its
 * business: its tests hold windows, quotas and permits.
 */
#ifndef SL_TEST_HOLDING_H
#define SL_TEST_HOLDING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define HOLDING_MOST 64

struct holding_record {
    struct sl_hold_id id;
    enum sl_hold_state state;
    sl_ns taken, expires;
    struct sl_held_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS];
    char keys[SL_PARTS][256];
    size_t key_lens[SL_PARTS];
    unsigned count;
};

struct holding {
    struct sl_store store; /* first */
    struct sl_store *inner;
    bool full;      /* there is no room for a hold */
    bool fails;     /* ending a hold gets no answer */
    bool late;      /* the same, until holding_answer() */
    uint32_t place; /* where holds are, as it is told */
    struct sl_hold_call *waiting;
    struct holding_record list[HOLDING_MOST];
    unsigned count;
};

static inline void holding_taken(struct sl_take *take)
{
    (void)take;
}

/* Give back or charge one part. */
static inline void holding_move(struct holding *h, struct holding_record *r,
                                unsigned i, enum sl_take_op op, uint64_t cost,
                                sl_ns now)
{
    struct sl_part part = {
        .binding = r->parts[i].binding,
        .limit = &r->limits[i],
        .key = {r->keys[i], r->key_lens[i]},
        .cost = cost,
        .taken_at = r->taken,
    };
    struct sl_take take = {.op = op,
                           .parts = &part,
                           .count = 1,
                           .now = now,
                           .done = holding_taken};

    h->inner->calls->take(h->inner, &take);
    r->parts[i].answer = part.answer;
}

static inline void holding_end(struct holding *h, struct holding_record *r,
                               unsigned i, uint64_t cost, sl_ns now)
{
    struct sl_held_part *p = &r->parts[i];

    p->cost = cost;
    if (cost < p->held)
        holding_move(h, r, i, SL_TAKE_OP_REFUND, p->held - cost, now);
    else
        holding_move(h, r, i, SL_TAKE_OP_CHARGE, cost - p->held, now);
    p->over = p->answer.outcome != SL_ALLOW;
}

static inline void holding_expire(struct holding *h, sl_ns now)
{
    for (unsigned k = 0; k < h->count; k++) {
        struct holding_record *r = &h->list[k];

        if (r->state != SL_HOLD_HELD || r->expires > now)
            continue;
        for (unsigned i = 0; i < r->count; i++)
            holding_end(h, r, i, 0, now);
        r->state = SL_HOLD_EXPIRED;
    }
}

static inline void holding_keep(struct holding *h, const struct sl_take *take)
{
    struct holding_record *r = &h->list[h->count++];

    *r = (struct holding_record){.id = take->hold,
                                 .state = SL_HOLD_HELD,
                                 .taken = take->now,
                                 .expires = take->now + take->hold_for};
    for (unsigned i = 0; i < take->count; i++) {
        const struct sl_part *part = &take->parts[i];

        if (part->not_held || part->key.len > sizeof(r->keys[0]))
            continue;
        r->parts[r->count].binding = part->binding;
        r->parts[r->count].held = part->cost;
        r->limits[r->count] = *part->limit;
        memcpy(r->keys[r->count], part->key.at, part->key.len);
        r->key_lens[r->count++] = part->key.len;
    }
}

static inline void holding_take(struct sl_store *store, struct sl_take *take)
{
    struct holding *h = (struct holding *)store;
    void (*done)(struct sl_take *) = take->done;
    struct sl_hold_id id = take->hold;
    bool holds = !sl_hold_id_is_none(id);

    holding_expire(h, take->now);
    if (holds && (h->full || h->count == HOLDING_MOST)) {
        take->err = SLUICE_EFULL;
        done(take);
        return;
    }
    take->done = holding_taken;
    take->hold = (struct sl_hold_id){
        {0, 0}
    };
    h->inner->calls->take(h->inner, take);
    take->hold = id;
    if (holds && take->allowed && !take->err) {
        holding_keep(h, take);
        take->place = h->place;
    }
    take->done = done;
    done(take);
}

static inline uint64_t holding_cost(const struct sl_hold_call *call,
                                    const struct sl_held_part *part)
{
    if (call->release)
        return 0;
    for (unsigned i = 0; i < call->actual_count; i++)
        if (call->actual[i].of == part->binding)
            return call->actual[i].cost;
    return call->as_held ? part->held : call->cost;
}

static inline void holding_do(struct holding *h, struct sl_hold_call *call,
                              struct holding_record *r)
{
    call->state = r->state;
    if (r->state != SL_HOLD_HELD)
        return;
    if (call->op == SL_HOLD_EXTEND)
        r->expires = call->now + call->hold_for;
    for (unsigned i = 0; i < r->count; i++)
        holding_move(h, r, i, SL_TAKE_OP_PEEK, 0, call->now);
    if (call->op == SL_HOLD_SETTLE) {
        for (unsigned i = 0; i < r->count; i++)
            holding_end(h, r, i, holding_cost(call, &r->parts[i]), call->now);
        r->state = call->release ? SL_HOLD_RELEASED : SL_HOLD_SETTLED;
    }
    call->expires_in = r->expires - call->now;
    call->count = r->count;
    memcpy(call->parts, r->parts, sizeof(call->parts));
}

static inline void holding_answer(struct holding *h)
{
    struct sl_hold_call *call = h->waiting;

    h->waiting = NULL;
    holding_expire(h, call->now);
    call->state = SL_HOLD_UNKNOWN;
    call->err = h->fails ? SLUICE_ESTORE : 0;
    for (unsigned k = 0; k < h->count && !h->fails; k++)
        if (h->list[k].id.w[0] == call->id.w[0] &&
            h->list[k].id.w[1] == call->id.w[1] && call->place == h->place)
            holding_do(h, call, &h->list[k]);
    call->done(call);
}

static inline void holding_hold(struct sl_store *store,
                                struct sl_hold_call *call)
{
    struct holding *h = (struct holding *)store;

    h->waiting = call;
    if (!h->late)
        holding_answer(h);
}

static inline int holding_bind(struct sl_store *store,
                               struct sl_limit_binding *limits, unsigned count,
                               struct sl_diag *diag)
{
    struct sl_store *inner = ((struct holding *)store)->inner;

    return inner->calls->bind(inner, limits, count, diag);
}

static inline int holding_tighten(struct sl_store *store,
                                  const struct sl_limit_binding *limit,
                                  const struct sl_limit *strictest)
{
    struct sl_store *inner = ((struct holding *)store)->inner;

    return inner->calls->tighten(inner, limit, strictest);
}

static inline void holding_close(struct sl_store *store)
{
    sl_store_close(((struct holding *)store)->inner);
}

static const struct sl_store_calls holding_calls = {
    .bind = holding_bind,
    .tighten = holding_tighten,
    .take = holding_take,
    .close = holding_close,
    .hold = holding_hold,
};

/* Over the memory store; `memory` as of sl_memory_open(). */
static inline void holding_open(struct holding *h,
                                const struct sl_memory_options *memory)
{
    struct sl_diag diag = {.sentence = ""};

    memset(h, 0, sizeof(*h));
    if (sl_memory_open(memory, &h->inner, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
    h->store.calls = &holding_calls;
    h->store.secret = h->inner->secret;
}

#endif
