/* claims.h -- what the tests of leases share: claims, and a node that comes
 * back. */
#ifndef TEST_CLAIMS_H
#define TEST_CLAIMS_H

#include "books.h"
#include "registry/usage_db.h"

static inline struct sl_usage_lease_claim claim(const char *node, uint64_t want,
                                                uint64_t least)
{
    return (struct sl_usage_lease_claim){.node = sl_str_c(node),
                                         .scope = S("org"),
                                         .id = S("acme"),
                                         .limit = S("minutes"),
                                         .start = DAY_0,
                                         .at = DAY_0 + SL_HOUR,
                                         .cap = 100,
                                         .want = want,
                                         .least = least};
}

static inline void carry(struct world *w, struct sl_usage_lease_claim *c)
{
    struct sl_job job;

    sl_job_init(&job, SL_JOB_LEASE, &sl_alloc_libc);
    job.claim = c;
    job.change_count = 1;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
}

static inline uint64_t lease(struct world *w, const char *node, uint64_t want,
                             uint64_t least)
{
    struct sl_usage_lease_claim c = claim(node, want, least);

    carry(w, &c);
    return c.granted;
}

static inline void hand_back(struct world *w, const char *node, uint64_t units)
{
    struct sl_usage_lease_claim c = claim(node, 0, 0);

    c.give_back = units;
    carry(w, &c);
}

/* How it stands, as the node sees it. */
static inline struct sl_usage_lease_claim look(struct world *w,
                                               const char *node)
{
    struct sl_usage_lease_claim c = claim(node, 0, 0);

    c.ceiling = 77;
    carry(w, &c);
    return c;
}

static inline void spend(struct world *w, const char *node, int64_t amount)
{
    struct sl_usage_entry u = report("acme", amount, "");

    u.node = sl_str_c(node);
    CHECK_EQ(put(w, &u, 1), SL_JOB_DONE);
}

/* It lives. */
static inline void beat(struct world *w, const char *node, sl_ns at)
{
    struct sl_usage_lease_claim c = {.node = sl_str_c(node), .at = at};

    carry(w, &c);
}

/* ---- coming back ---- */

struct back {
    uint64_t own;
    uint64_t held;
    unsigned rows;
    sl_ns seen;
};

static inline uint64_t on_lease(void *ctx, const struct sl_usage_lease_row *row,
                                uint64_t *held, sl_ns *at)
{
    struct back *b = ctx;
    uint64_t ceiling = row->base + row->spent + row->leased;

    b->rows++;
    b->seen = row->seen;
    *held = b->held;
    *at = DAY_0 + SL_HOUR;
    return ceiling > b->own ? ceiling - b->own : 0;
}

#endif
