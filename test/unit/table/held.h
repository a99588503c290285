/* held.h -- holds in the tests of the table. */
#ifndef SL_UNIT_TABLE_HELD_H
#define SL_UNIT_TABLE_HELD_H

#include "rig.h"
#include "table/hold.h"

/* Ids that look random and come again in every run. */
static inline struct sl_hold_id id_of(uint64_t number)
{
    uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t y = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);

    return (struct sl_hold_id){
        {y ^ y >> 32, (x ^ x >> 31) * UINT64_C(0x94d049bb133111eb)}
    };
}

static inline enum sl_set_result hold_set(struct sl_table *table,
                                          struct sl_part *parts, unsigned count,
                                          uint64_t number, sl_ns life,
                                          sl_ns now)
{
    return sl_table_hold(table, parts, count, id_of(number), life, now, true);
}

static inline enum sl_set_result hold_at(struct sl_table *table,
                                         const struct sl_limit_binding *of,
                                         const char *key, uint64_t cost,
                                         uint64_t number, sl_ns life, sl_ns now)
{
    struct sl_part part = part_of(of, key, cost);

    return hold_set(table, &part, 1, number, life, now);
}

/* The limits that a test knows, and what a hold comes to. */
struct numbers {
    const struct sl_limit_binding *limits;
    unsigned count;
    uint64_t cost; /* UINT64_MAX: what was held */
};

static inline const struct sl_limit *numbers_of(void *ctx, uint32_t id,
                                                uint64_t held, uint64_t *cost)
{
    const struct numbers *n = ctx;

    *cost = n->cost == UINT64_MAX ? held : n->cost;
    for (unsigned i = 0; i < n->count; i++)
        if (n->limits[i].id == id)
            return &n->limits[i].strictest;
    return NULL;
}

static inline struct sl_hold_result deed_of(enum sl_hold_action op,
                                            uint64_t number, struct numbers *n)
{
    return (struct sl_hold_result){
        .op = op, .id = id_of(number), .numbers = numbers_of, .ctx = n};
}

static inline enum sl_hold_state settle_at(struct sl_table *table,
                                           const struct sl_limit_binding *limit,
                                           uint64_t number, uint64_t cost,
                                           sl_ns now)
{
    struct numbers n = {limit, limit != NULL, cost};
    struct sl_hold_result deed = deed_of(SL_HOLD_SETTLE, number, &n);

    CHECK_EQ(sl_table_end(table, &deed, now, true), SL_SET_ALLOW);
    return deed.state;
}

static inline enum sl_hold_state release_at(struct sl_table *table,
                                            uint64_t number, sl_ns now)
{
    struct numbers n = {NULL, 0, 0};
    struct sl_hold_result deed = deed_of(SL_HOLD_SETTLE, number, &n);

    deed.release = true;
    CHECK_EQ(sl_table_end(table, &deed, now, true), SL_SET_ALLOW);
    return deed.state;
}

static inline enum sl_hold_state
extend_at(struct sl_table *table, uint64_t number, sl_ns life, sl_ns now)
{
    struct numbers n = {NULL, 0, 0};
    struct sl_hold_result deed = deed_of(SL_HOLD_EXTEND, number, &n);

    deed.life = life;
    CHECK_EQ(sl_table_end(table, &deed, now, true), SL_SET_ALLOW);
    if (deed.state == SL_HOLD_HELD)
        CHECK_EQ(deed.expires_in, life);
    return deed.state;
}

static inline enum sl_hold_state state_at(struct sl_table *table,
                                          uint64_t number, sl_ns now)
{
    struct numbers n = {NULL, 0, 0};
    struct sl_hold_result deed = deed_of(SL_HOLD_LOOK, number, &n);

    CHECK_EQ(sl_table_end(table, &deed, now, true), SL_SET_ALLOW);
    return deed.state;
}

/* What a key has used at `now`. */
static inline uint64_t used_at(struct sl_table *table,
                               const struct sl_limit_binding *of,
                               const char *key, sl_ns now)
{
    struct sl_part part = part_of(of, key, 0);

    part.op = SL_TAKE_OP_PEEK;
    if (sl_table_decide(table, &part, 1, now, true) != SL_SET_ALLOW)
        abort();
    return part.answer.capacity - part.answer.remaining;
}

static inline uint64_t held_now(struct sl_table *table)
{
    struct sl_hold_stats stats;

    sl_table_hold_stats(table, &stats);
    return stats.held;
}

#endif
