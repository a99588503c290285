/* leased_db.h -- the usage database of one quota, as a few numbers: what the
 * SQL does with its rows of leases. */
#ifndef SL_PROP_LEASED_DB_H
#define SL_PROP_LEASED_DB_H

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
    uint64_t base, spent, leased;
};

struct usage_db {
    uint64_t cap, used, leased;
    struct row rows[NODES];
    sl_ns seen[NODES]; /* by its own clock, */
    sl_ns skew[NODES]; /* which differs by so much from the others' */
};

static inline void reduce(struct usage_db *b, unsigned node, uint64_t units)
{
    b->rows[node].leased -= units;
    b->leased -= units;
    if (b->rows[node].leased == 0)
        b->rows[node] = (struct row){.there = false};
}

static inline uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t portion(uint64_t left, uint64_t want, uint64_t need)
{
    uint64_t share = left / 4;

    if (share > want)
        return want;
    return share > need ? share : least_of(need, left);
}

/* An operator releases the lease of a node that will not come back. */
static inline void release(struct usage_db *b, unsigned node, sl_ns now)
{
    if (b->rows[node].there && now - b->seen[node] > SL_QUOTA_LEASE_ALIVE)
        reduce(b, node, b->rows[node].leased);
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
    uint64_t granted = 0;

    if (ask->alive)
        see(b, node, sent);
    if (ask->give > 0) {
        if (row->there)
            reduce(b, node, least_of(ask->give, row->leased));
        return;
    }
    if (ask->want > 0 && (row->there || !ask->has) &&
        b->used + b->leased + ask->least <= ask->cap)
        granted = portion(ask->cap - b->used - b->leased, ask->want, ask->need);
    if (granted > 0 && !row->there) {
        *row = (struct row){.there = true, .base = ask->ceiling};
        see(b, node, sent);
    }
    row->leased += granted;
    b->leased += granted;
    if (granted > 0)
        CHECK(b->used + b->leased <= b->cap); /* (1) */
    ask->terms = (struct sl_quota_lease_terms){
        .found = row->there,
        .granted = granted,
        .used = b->used,
        .base = row->there ? row->base : ask->ceiling,
        .spent = row->spent,
        .leased = row->leased,
    };
}

static inline void record(struct usage_db *b, unsigned node, uint64_t amount)
{
    struct row *row = &b->rows[node];

    b->used += amount;
    if (!row->there || amount == 0)
        return;
    row->spent += amount;
    reduce(b, node, least_of(amount, row->leased));
}

/* The table of a killed node was found, with `cell` units used. Its lease ends:
 * what it has spent of it is recorded, the rest comes back. */
static inline void recover(struct usage_db *b, unsigned node, uint64_t cell)
{
    struct row *row = &b->rows[node];
    uint64_t left;

    if (!row->there)
        return;
    left = sl_quota_lease_left(row->base, row->spent, row->leased, cell);
    record(b, node, row->leased - left);
    if (row->there)
        reduce(b, node, left);
}

#endif
