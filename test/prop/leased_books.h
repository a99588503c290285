/* leased_books.h -- books of one quota, as a few numbers: what the SQL does. */
#ifndef LEASED_BOOKS_H
#define LEASED_BOOKS_H

#include "check.h"
#include "store/lease/leased.h"

#define NODES 3

struct row {
    bool there;
    uint64_t base, spent, leased;
};

struct books {
    uint64_t cap, used, leased;
    struct row rows[NODES];
};

static inline void reduce(struct books *b, unsigned node, uint64_t units)
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

static inline void claim(struct books *b, unsigned node,
                         struct sl_lease_ask *ask)
{
    struct row *row = &b->rows[node];
    uint64_t granted = 0;

    if (ask->give > 0) {
        if (row->there)
            reduce(b, node, least_of(ask->give, row->leased));
        return;
    }
    if (ask->want > 0 && b->used + b->leased + ask->least <= ask->cap)
        granted = portion(ask->cap - b->used - b->leased, ask->want, ask->need);
    if (granted > 0 && !row->there)
        *row = (struct row){.there = true, .base = ask->ceiling};
    row->leased += granted;
    b->leased += granted;
    if (granted > 0)
        CHECK(b->used + b->leased <= b->cap); /* (1) */
    ask->terms = (struct sl_lease_terms){
        .granted = granted,
        .used = b->used,
        .base = row->there ? row->base : ask->ceiling,
        .spent = row->spent,
        .own = row->leased,
    };
}

static inline void record(struct books *b, unsigned node, uint64_t amount)
{
    struct row *row = &b->rows[node];

    b->used += amount;
    if (!row->there || amount == 0)
        return;
    row->spent += amount;
    reduce(b, node, least_of(amount, row->leased));
}

#endif
