/* store.h -- where cells live, and the only thing a store must be able to do.
 *
 * A decision usually touches several limits: the tenant's, the user's, the
 * day's. They are taken together or not at all, so the unit of work is a set,
 * and the store is where the set becomes one step: an intent (memory), one
 * script (Redis), one statement (PostgreSQL), conditional writes (DynamoDB).
 *
 * One shape serves both worlds. take() never blocks; done() is called once,
 * perhaps before take() returns (memory), perhaps many loop turns later.
 * Callers must be ready for both.
 *
 * Ownership  The take belongs to the caller; the store borrows it until done().
 *
 * Invariants (test/conform checks each by number, on every store).
 *   (1) Either every part was taken or none was.
 *   (2) The answers equal those of core/ for some serial order of the takes.
 *   (3) A part that was not taken leaves its cell as it was, healed if its
 *       clock had run ahead.
 */
#ifndef SL_STORE_H
#define SL_STORE_H

#include "table/table.h"

struct sl_loop;

enum sl_errand {
    SL_ERRAND_TAKE, /* all or none; cost 0 looks */
    SL_ERRAND_LOOK, /* what a take would say */
    SL_ERRAND_EACH, /* every part for itself: shadows and candidates */
    SL_ERRAND_CHARGE,
    SL_ERRAND_GIVE_BACK,
    SL_ERRAND_RESET,
};

/* A limit as stores know it: all plans of it share its shape. It is bound
 * before its first take and outlives the last one. */
struct sl_stored {
    const char *name;          /* state belongs to it */
    struct sl_limit strictest; /* the smallest count and capacity of all */
    enum sl_on_full on_full;
    uint32_t share; /* of the table that is kept for it, in 1/1000; 0: an equal
                     * part of the half that limits bound together have */
    struct sl_table_limit table; /* the memory store's own */
};

struct sl_take_part {
    const struct sl_stored *of;
    const struct sl_limit *limit; /* the numbers that apply */
    struct sl_str key;            /* bytes that nothing else is called by */
    struct sl_str name;           /* for shared stores; may be empty */
    uint64_t cost;
    sl_ns when;              /* GIVE_BACK: when that was taken */
    bool carried;            /* TAKE, LOOK and EACH, of cost 0: what its key
                              * has used counts against the next part, too;
                              * see "Carrying" in table.h */
    struct sl_answer answer; /* out */
    bool untracked;          /* out: there was no room for the key */
};

struct sl_take {
    enum sl_errand errand;
    struct sl_take_part *parts;
    unsigned count;
    sl_ns now;            /* used unless the store has a clock of its own */
    sl_ns deadline;       /* steady; 0: none */
    struct sl_loop *loop; /* of the thread that asks; NULL: it has none, and a
                           * store that is elsewhere fails */
    bool allowed;         /* out: TAKE and LOOK */
    int err;              /* out: 0 or SLUICE_ESTORE; then no part was taken */
    void (*done)(struct sl_take *take);
    void *ctx; /* the caller's */
};

struct sl_store;

struct sl_store_calls {
    int (*bind)(struct sl_store *store, struct sl_stored *limits,
                unsigned count, struct sl_diag *diag);
    /* The strictest numbers of a limit that is bound have become stricter. */
    int (*tighten)(struct sl_store *store, const struct sl_stored *limit,
                   const struct sl_limit *strictest);
    void (*take)(struct sl_store *store, struct sl_take *take);
    void (*close)(struct sl_store *store);
    /* Many takes, each for itself, in this order where they meet; or NULL if
     * one after the other is as good. */
    void (*take_many)(struct sl_store *store, struct sl_take *const *takes,
                      unsigned count);
};

struct sl_store {
    const struct sl_store_calls *calls;
    struct sl_hash_key secret; /* for fingerprints of callers */
};

/* Make the limits of a policy known; those whose strictest capacity is 0 have
 * no numbers and are passed over. SLUICE_EFULL if the store knows too many. */
SL_MUST_USE static inline int sl_store_bind(struct sl_store *store,
                                            struct sl_stored *limits,
                                            unsigned count,
                                            struct sl_diag *diag)
{
    return store->calls->bind(store, limits, count, diag);
}

SL_MUST_USE static inline int sl_store_tighten(struct sl_store *store,
                                               const struct sl_stored *limit,
                                               const struct sl_limit *strictest)
{
    return store->calls->tighten(store, limit, strictest);
}

static inline void sl_store_take(struct sl_store *store, struct sl_take *take)
{
    store->calls->take(store, take);
}

/* Each take is done as by sl_store_take(); waits are overlapped. */
static inline void sl_store_take_many(struct sl_store *store,
                                      struct sl_take *const *takes,
                                      unsigned count)
{
    if (store->calls->take_many) {
        store->calls->take_many(store, takes, count);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        store->calls->take(store, takes[i]);
}

/* NULL is allowed. */
static inline void sl_store_close(struct sl_store *store)
{
    if (store)
        store->calls->close(store);
}

/* The memory store: a table on the heap, or in the file at `path`. Zeros are
 * good defaults. */
struct sl_memory_options {
    const char *path;
    uint64_t size; /* 0: 64 MiB */
    const struct sl_alloc *alloc;
    /* The clock of the takes' `now`, read again when a take seems to come from
     * the past. NULL: the system's wall clock. */
    sl_ns (*now)(void *ctx);
    void *now_ctx;
};

SL_MUST_USE int sl_memory_open(const struct sl_memory_options *options,
                               struct sl_store **ret, struct sl_diag *diag);

/* What there is to say about the opening, or "": that a damaged file was set
 * aside. */
const char *sl_memory_notice(const struct sl_store *store);

/* The table itself, for those who look at it or measure it. */
struct sl_table *sl_memory_table(struct sl_store *store);

#endif
