/* store.h -- the contract of a store: it takes a set of cells all or nothing.
 *
 * A decision usually touches several limits: of the tenant, the user, the day.
 * They are taken together or not at all. The store makes the set one step: an
 * intent (memory), one script (Redis), conditional writes (DynamoDB).
 *
 * take() never blocks. done() is called once, either before take() returns
 * (memory) or many loop turns later. Callers handle both.
 *
 * Ownership  The take belongs to the caller; the store borrows it until done().
 *
 * Invariants (test/conform checks each by number, on every store).
 *   (1) Either every part was taken or none was.
 *   (2) The answers equal those of core/ for some serial order of the takes.
 *   (3) A part that was not taken leaves its cell as it was, corrected if its
 *       time was in the future.
 */
#ifndef SL_STORE_STORE_H
#define SL_STORE_STORE_H

#include <stdatomic.h>

#include "table/hold.h"

struct sl_loop;

/* The name of a part in a remote store. */
static inline struct sl_str sl_take_part_name(const struct sl_part *part)
{
    return part->name.len > 0 ? part->name : part->key;
}

struct sl_take {
    enum sl_take_op op;
    struct sl_part *parts;
    unsigned count;
    sl_ns now;            /* ignored by a store with its own clock */
    sl_ns deadline;       /* monotonic; 0: none */
    struct sl_loop *loop; /* of the calling thread; NULL: none, and a remote
                           * store fails */
    bool apart;           /* TAKE: a cluster may take the set in steps, visible
                           * to others, and undo them */
    bool undo;            /* REFUND: of a TAKE that no usage report knows */
    uint64_t order;       /* CHARGE and REFUND by a report: its order among the
                           * answers of the usage database; 0: unknown */

    /* TAKE with an id: the costs are held under it; see "Holds" below. */
    struct sl_hold_id hold;
    sl_ns hold_for; /* > 0 */
    uint32_t place; /* out: where the store has put the hold; passed with the
                     * id when the hold ends */

    bool allowed;   /* out: TAKE and PEEK */
    bool counted;   /* out: a refused TAKE was counted by its penalties; set by
                     * remote stores, and false before */
    int err;        /* out: 0 or SLUICE_ESTORE; then no part was taken.
                     * SLUICE_EFULL: there is no room for another hold */
    bool sent;      /* out, with an err: it may have been done. A TAKE is then
                     * refunded; other kinds stay done */
    uint32_t taken; /* out, with an err, of a combined store: bits of the parts
                     * that were done nevertheless. Those of a TAKE are refunded
                     * after done(), unless it calls keep() */
    void (*done)(struct sl_take *take);
    void *ctx; /* the caller's */
};

/* Penalties. A part of kind SL_PENALTY takes nothing, and denies during a
 * block. A remote store also counts: if a TAKE is refused, and not by a block,
 * each penalty whose limit has refused has one failure more, in the same step.
 * The answer of a penalty that is blocked by it has the end as retry_in. The
 * set says `counted` then; otherwise the caller charges the failures. */

/* Holds. A take with a hold is provisional: its costs count at once, as those
 * of any take do, until the hold ends in one of three ways.
 *
 *   settled   the actual costs are known: the rest is refunded, an excess is
 *             charged, even beyond the limit
 *   released  settled with cost 0
 *   expired   at `now` + hold_for all of it is refunded. No process need run
 *             then: any decision at that instant or later sees it
 *
 * Ending a hold that has ended changes nothing and returns how it ended, as
 * long as its record exists: until its room is needed.
 *
 * Refunds to a bucket. Since the take, the bucket has drained as if the tokens
 * were spent. A full refund could grant the same refill twice: hold 10 of 10,
 * wait for a refill, take 10, release, take 10 at the same instant. So a bucket
 * gets back at most what is certainly still used: the least of the hold's cost
 * and
 *
 *   what was used right after the take
 *   less what has drained since
 *   less the refunds to that key since
 *
 * The last term is needed for two holds: of 20, hold 10 and 10, release the
 * first, wait until 10 have drained (nothing is used now), take 10, release the
 * second. Without it those 10 would be refunded, and 20 more could be taken at
 * that instant. Every refund to a bucket counts there, REFUND too; and in
 * memory, rarely, a refund to another key (table/hold_record.h:
 * sl_refund_count). Whatever other holds refunded, the hold's own cost is
 * certainly still used, less what has drained and what REFUND has returned: if
 * that is more, it is refunded (core/hold.h).
 *
 * An expired hold is refunded as of its expiry, whenever that is found. Windows
 * and quotas get a refund while the window of the take lasts; permits and
 * levels always. A charge beyond the hold counts when it is settled.
 *
 * A step of the clock: forward, the holds whose expiry it passes end; back, no
 * hold ends early, and none lasts longer than its whole life after the step.
 *
 * Invariants. (test/conform and test/prop check each by number.)
 *   (4) At every instant, granted - settled - released - expired = held; and
 *       a hold, like any take, is granted only if it fits.
 *   (5) A hold ends once, whatever fails or is repeated.
 *   (6) A limit with holds never admits more than its bound: settled costs
 *       count at the instant of the take. */

/* One limit of a hold. */
struct sl_held_part {
    const struct sl_limit_binding *binding; /* out: one of `limits`; NULL: its
                                             * limit no longer exists, and was
                                             * settled nevertheless */
    uint64_t held;                          /* out: taken by the hold */
    uint64_t cost;                          /* out: SETTLE: the actual cost */
    struct sl_answer answer; /* out: a peek afterwards, by the numbers of the
                              * take */
    bool over;               /* out: the actual cost exceeds the limit */
    bool elsewhere; /* out: units of a leased quota that are not held in the
                     * table of this process */
    bool no_answer; /* out: `answer` is not known */
};

/* The actual cost of one limit. */
struct sl_actual {
    const struct sl_limit_binding *of;
    uint64_t cost;
};

struct sl_hold_call {
    enum sl_hold_action op;
    struct sl_hold_id id;
    uint32_t place; /* the take's */
    const struct sl_limit_binding
        *limits; /* of the policy, for held_part.binding */
    unsigned limits_count;
    bool release;                   /* SETTLE: nothing was used */
    bool as_held;                   /* SETTLE: limits not in `actual` cost what
                                     * was held, not `cost` */
    uint64_t cost;                  /* SETTLE: actual cost of all limits... */
    const struct sl_actual *actual; /* ...except these */
    unsigned actual_count;
    sl_ns hold_for; /* EXTEND */
    sl_ns now;
    sl_ns deadline;
    struct sl_loop *loop;
    enum sl_hold_state state;            /* out: before the call */
    sl_ns expires_in;                    /* out: HELD, after EXTEND or LOOK */
    struct sl_held_part parts[SL_PARTS]; /* out: if HELD */
    unsigned count;
    int err; /* out: 0 or SLUICE_ESTORE */
    void (*done)(struct sl_hold_call *call);
    void *ctx;
};

struct sl_store;

struct sl_store_calls {
    /* NULL, as tighten: the store knows limits only by the names of keys. */
    int (*bind)(struct sl_store *store, struct sl_limit_binding *limits,
                unsigned count, struct sl_diag *diag);
    /* The strictest numbers of a bound limit have become stricter. */
    int (*tighten)(struct sl_store *store, const struct sl_limit_binding *limit,
                   const struct sl_limit *strictest);
    void (*take)(struct sl_store *store, struct sl_take *take);
    void (*close)(struct sl_store *store);
    /* Many independent takes, in this order for a common key. NULL: they are
     * taken one after the other. */
    void (*take_many)(struct sl_store *store, struct sl_take *const *takes,
                      unsigned count);
    /* Called within the done() of a TAKE of this loop that has failed with
     * `sent` or `taken`: the caller goes on as if it was taken. What was taken
     * is not refunded. NULL: takes never fail. */
    void (*keep)(struct sl_store *store, struct sl_loop *loop);
    /* How long after a failed take of this loop a retry is useful. NULL: takes
     * never fail. */
    sl_ns (*retry_in)(const struct sl_store *store, const struct sl_loop *loop);
    /* A take with this part will follow: prefetch its memory. The part has a
     * fingerprint. NULL: nothing to prefetch. */
    void (*expect)(struct sl_store *store, const struct sl_part *part);
    /* Ends, extends or peeks at a hold. NULL: the store has no holds. */
    void (*hold)(struct sl_store *store, struct sl_hold_call *call);
};

struct sl_store {
    const struct sl_store_calls *calls;
    struct sl_hash_key secret; /* for fingerprints of callers; constant */
    _Atomic(const struct sl_hash_key *) found; /* replaces it; NULL: not yet */
    bool wants_names;        /* a remote store: parts need a name */
    bool in_slots;           /* a cluster: all names of a set have the same
                              * text in braces, which determines the slot */
    _Atomic bool in_steps;   /* no transactions: a set is taken in journaled
                              * steps; other ops have one part each */
    struct sl_store *remote; /* of a combined store: it has the secret and
                              * `in_steps`; NULL: this store itself */
    bool quotas_here;        /* leased quotas are not in `remote` */
};

/* The store that has the parts outside of this process. */
static inline const struct sl_store *
sl_store_remote(const struct sl_store *store)
{
    return store->remote ? store->remote : store;
}

/* Is the part in the table of a combined store, and not in its remote store? */
static inline bool sl_store_has_here(const struct sl_store *store,
                                     const struct sl_part *part)
{
    return store->quotas_here && part->binding->quota_leased;
}

/* The current secret. From any thread. */
static inline const struct sl_hash_key *
sl_store_secret(const struct sl_store *store)
{
    const struct sl_hash_key *found = atomic_load_explicit(
        &sl_store_remote(store)->found, memory_order_acquire);

    return found ? found : &store->secret;
}

/* Registers the limits of a policy. A limit whose strictest capacity is 0 has
 * no numbers and is skipped. SLUICE_EFULL: the store has too many. */
SL_MUST_USE static inline int sl_store_bind(struct sl_store *store,
                                            struct sl_limit_binding *limits,
                                            unsigned count,
                                            struct sl_diag *diag)
{
    return store->calls->bind ? store->calls->bind(store, limits, count, diag)
                              : 0;
}

SL_MUST_USE static inline int
sl_store_set_strictest(struct sl_store *store,
                       const struct sl_limit_binding *limit,
                       const struct sl_limit *strictest)
{
    return store->calls->tighten
               ? store->calls->tighten(store, limit, strictest)
               : 0;
}

static inline void sl_store_take(struct sl_store *store, struct sl_take *take)
{
    store->calls->take(store, take);
}

/* As sl_store_take() for each; the store may overlap them. */
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

static inline void sl_store_prefetch(struct sl_store *store,
                                     const struct sl_part *part)
{
    if (store->calls->expect)
        store->calls->expect(store, part);
}

/* done() is called once, before this returns or later. */
static inline void sl_store_hold(struct sl_store *store,
                                 struct sl_hold_call *call)
{
    store->calls->hold(store, call);
}

/* NULL is allowed. */
static inline void sl_store_close(struct sl_store *store)
{
    if (store)
        store->calls->close(store);
}

/* The memory store: a table on the heap, or in the file at `path`. Zeros are
 * defaults. */
struct sl_memory_options {
    const char *path; /* a file, or: */
    void *memory;     /* of the caller, `size` bytes, 64-byte aligned, zeros at
                       * first; opened by one process first */
    uint64_t size;    /* 0: 64 MiB. A file that is there keeps its size: an
                       * empty one would give every client a fresh allowance */
    const struct sl_alloc *alloc;
    /* The clock of `now` in takes, read again if a take seems to be in the
     * past. NULL: the system's wall clock. */
    sl_ns (*now)(void *ctx);
    void *now_ctx;
};

SL_MUST_USE int sl_memory_open(const struct sl_memory_options *options,
                               struct sl_store **ret, struct sl_diag *diag);

/* A message for the log: a damaged file was moved aside, or a file has another
 * size than `size`; "": none. */
const char *sl_memory_notice(const struct sl_store *store);

/* The table itself, for views and metrics. */
struct sl_table *sl_memory_table(struct sl_store *store);

#endif
