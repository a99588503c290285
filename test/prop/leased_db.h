/* leased_db.h -- the usage database of one quota, as a few numbers: what the
 * SQL does with its rows of leases. */
#ifndef SL_PROP_LEASED_DB_H
#define SL_PROP_LEASED_DB_H

#include "base/arith.h"
#include "prop.h"
#include "store/quota_lease.h"

#define NODES 3

/* The random numbers of the current episode. */
static struct rng chance;

static inline uint64_t any(uint64_t below)
{
    return rng_below(&chance, below);
}

struct row {
    bool there;
    uint64_t base, spent, leased, freed;
};

struct usage_db {
    uint64_t cap, used, leased;
    uint64_t overshoot; /* units recorded that were freed */
    struct row rows[NODES];
    sl_ns seen[NODES]; /* by its own clock, */
    sl_ns skew[NODES]; /* which differs by so much from the others' */
};

static inline void reduce(struct usage_db *b, unsigned node, uint64_t units)
{
    struct row *row = &b->rows[node];

    row->leased -= units;
    b->leased -= units;
    if (row->leased == 0 && row->freed == 0)
        *row = (struct row){.there = false};
}

static inline uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t portion(const struct usage_db *b, uint64_t cap,
                               uint64_t want, uint64_t need)
{
    uint64_t left = cap - b->used - b->leased, share = left / 4;

    uint64_t out = least_of(left / 2, cap / 20);

    out = out > cap / 100 ? out : cap / 100;
    share = least_of(share, sl_sub_floor(out, b->leased));
    if (left < need)
        return left;
    return share <= need ? need : least_of(share, want);
}

/* The node is gone. */
static inline void free_lease(struct usage_db *b, unsigned node)
{
    struct row *row = &b->rows[node];
    uint64_t units = row->leased;

    row->freed += units;
    if (units > 0)
        reduce(b, node, units);
}

static inline void see(struct usage_db *b, unsigned node, sl_ns at)
{
    b->seen[node] = at + b->skew[node];
}

/* It was sent at `sent`. */
static inline void claim(struct usage_db *b, unsigned node,
                         struct sl_quota_ask *ask, sl_ns sent)
{
    struct row *row = &b->rows[node];
    uint64_t granted = 0, left = sl_sub_floor(ask->cap, b->used + b->leased);

    if (ask->alive)
        see(b, node, sent);
    if (ask->give > 0) {
        if (row->there)
            reduce(b, node, least_of(ask->give, row->leased));
        return;
    }
    if (ask->want > 0 && (row->leased > 0 || !ask->has) &&
        b->used + b->leased + ask->least <= ask->cap)
        granted = portion(b, ask->cap, ask->want, ask->need);
    if (granted > 0 && row->leased == 0)
        see(b, node, sent);
    if (granted > 0 && !row->there)
        *row = (struct row){.there = true, .base = ask->ceiling};
    if (granted > 0)
        row->freed = least_of(
            row->freed, sl_sub_floor(ask->ceiling, row->base + row->spent));
    row->leased += granted;
    b->leased += granted;
    if (granted > 0)
        CHECK(b->used + b->leased <= b->cap); /* (1) */
    if (granted > ask->need)                  /* (6) */
        CHECK(b->leased <= least_of(left / 2, ask->cap / 20) ||
              b->leased <= ask->cap / 100);
    ask->terms = (struct sl_quota_lease_terms){
        .found = row->leased > 0,
        .no_row = !row->there,
        .granted = granted,
        .used = b->used,
        .base = row->leased > 0 ? row->base : ask->ceiling,
        .spent = row->leased > 0 ? row->spent + row->freed : 0,
        .leased = row->leased,
    };
}

static inline void record(struct usage_db *b, unsigned node, uint64_t amount)
{
    struct row *row = &b->rows[node];

    uint64_t over = least_of(amount, row->freed);

    b->used += amount;
    if (!row->there || amount == 0)
        return;
    row->spent += amount;
    row->freed -= over;
    b->overshoot += over;
    reduce(b, node, least_of(amount - over, row->leased));
}

/* The table of a killed node was found, with `cell` units used. Its lease ends:
 * what it has spent of it is recorded, the rest comes back. */
static inline void recover(struct usage_db *b, unsigned node, uint64_t cell)
{
    struct row *row = &b->rows[node];
    uint64_t units = row->leased + row->freed, taken;

    if (!row->there)
        return;
    taken = units - sl_quota_lease_left(row->base, row->spent, units, cell);
    row->freed = least_of(row->freed, taken);
    reduce(b, node, row->leased - (taken - row->freed));
    if (taken > 0)
        record(b, node, taken);
}

#endif
