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
#ifndef SL_STORE_STORE_H
#define SL_STORE_STORE_H

#include <stdatomic.h>

#include "table/hold.h"

struct sl_loop;
struct sl_limit_view;

enum sl_take_op {
    SL_TAKE_OP_TAKE, /* all or none; cost 0 looks */
    SL_TAKE_OP_PEEK, /* what a take would say */
    SL_TAKE_OP_EACH, /* every part for itself: shadows and candidates */
    SL_TAKE_OP_CHARGE,
    SL_TAKE_OP_REFUND,
    SL_TAKE_OP_RESET,
};

/* A limit as stores know it: all plans of it share its shape. It is bound
 * before its first take and outlives the last one. */
struct sl_limit_binding {
    const char *name;          /* state belongs to it */
    struct sl_limit strictest; /* the smallest count and capacity of all */
    enum sl_on_full on_full;
    uint32_t share; /* of the table that is kept for it, in 1/1000; 0: an equal
                     * part of the half that limits bound together have */
    unsigned lease; /* percent of a capacity that a shared store may hand out
                     * in advance; 0: nothing */
    bool carried;   /* what some takes carry counts against it */
    struct sl_table_limit table; /* the memory store's own */
};

struct sl_store_part {
    const struct sl_limit_binding *of;
    const struct sl_limit *limit; /* the numbers that apply */
    struct sl_str key;            /* bytes that nothing else is called by */
    struct sl_str name;           /* for shared stores; may be empty */
    uint64_t cost;
    sl_ns when;              /* GIVE_BACK: when that was taken */
    bool carried;            /* TAKE, LOOK and EACH, of cost 0: what its key
                              * has used counts against the next part, too;
                              * see "Carrying" in table.h */
    struct sl_hash128 print; /* of the key, as the table knows it, if
                              * somebody has made it; zeros: nobody has */
    const struct sl_limit_view
        *whose;              /* for those above stores: who it is; NULL:
                              * nobody says, or it does not count */
    struct sl_answer answer; /* out */
    bool untracked;          /* out: there was no room for the key */
};

/* What a part is called in a store that is shared. */
static inline struct sl_str sl_take_part_name(const struct sl_store_part *part)
{
    return part->name.len > 0 ? part->name : part->key;
}

struct sl_take {
    enum sl_take_op errand;
    struct sl_store_part *parts;
    unsigned count;
    sl_ns now;            /* used unless the store has a clock of its own */
    sl_ns deadline;       /* steady; 0: none */
    struct sl_loop *loop; /* of the thread that asks; NULL: it has none, and a
                           * store that is elsewhere fails */
    bool apart;           /* TAKE: where a store has to, it may be taken in
                           * steps that others see, and undone */

    /* TAKE: if the id is not none, what is taken is held under it; see "Holds"
     * below. */
    struct sl_hold_id hold;
    sl_ns hold_for; /* how long, > 0 */
    uint32_t firm;  /* bits: parts that are not held, but taken for good */
    uint32_t place; /* out: where the store has put the hold; to be told with
                     * the id when it ends */

    bool allowed; /* out: TAKE and LOOK */
    int err;      /* out: 0 or SLUICE_ESTORE; then no part was taken.
                   * SLUICE_EFULL: there is no room for another hold */
    bool sent;    /* out, of an err: nobody knows whether it arrived, and if so
                   * it is given back; what can't be (all but TAKE) stays
                   * done */
    void (*done)(struct sl_take *take);
    void *ctx; /* the caller's */
};

/* Holds. A take with a hold is provisional: its costs count at once, as those
 * of any take do, until the hold ends in one of three ways.
 *
 *   settled   the actual costs are known: less is given back, more is charged,
 *             even beyond the limit
 *   released  settled with nothing
 *   expired   at the instant `now` + hold_for all of it is given back; nobody
 *             need be there: whoever decides at that instant or later finds
 *             it done
 *
 * Ending a hold that has ended changes nothing and tells how it had ended, for
 * as long as that is remembered: until its room is needed.
 *
 * What a bucket gets back. Since the hold was taken the bucket has drained as
 * if those tokens were spent. Giving all of them back could hand out the same
 * refill twice: hold 10 of 10, wait for a refill, take 10, release, take 10 at
 * the same instant. So a bucket gets back at most what is surely still used of
 * it: the least of the hold's cost and
 *
 *   what was used right after the take
 *   less what has drained since
 *   less what others have given back to that key since
 *
 * The last is needed as soon as there are two: of 20, hold 10 and 10, release
 * the first, wait until 10 have drained (nothing is used now), take 10, release
 * the second. Without it those 10 would come back, and 20 more could be had at
 * that instant. Every giving back to a bucket counts there, GIVE_BACK too; and
 * in memory, rarely, one to another key (table/hold_record.h: sl_refund_count).
 * But whatever other holds gave back, the hold's own cost is surely still used,
 * less what has drained and what GIVE_BACK has given: if that is more, it is
 * what comes back (core/hold.h).
 *
 * An expired hold is given back as of its expiry, whenever that is found.
 * Windows and quotas get it back while the window of the take lasts; permits
 * and levels always. What a settlement charges beyond the hold counts when it
 * is settled.
 *
 * A step of the clock: forward, holds end whose expiry it passes; back, none
 * ends early, and none lasts longer than its whole life after the step.
 *
 * Invariants. (test/conform and test/prop check each by number.)
 *   (4) At every instant, granted - settled - released - expired = held; and
 *       a hold, like any take, is granted only if it fits.
 *   (5) A hold ends once, whoever comes, dies or comes again.
 *   (6) A limit with holds never admits more than its bound: what was held and
 *       settled counts at the instant of its take. */

/* One limit of a hold. */
struct sl_held_part {
    const struct sl_limit_binding
        *of;                 /* out: one of `limits`; NULL: its limit is no
                              * longer there, and was settled all the same */
    uint64_t held;           /* out: what the hold took */
    uint64_t cost;           /* out: SETTLE: what it came to */
    struct sl_answer answer; /* out: a look afterwards, by the numbers of
                              * the take */
    bool over;               /* out: it came to more than the limit has */
};

/* The actual cost of one limit. */
struct sl_actual {
    const struct sl_limit_binding *of;
    uint64_t cost;
};

struct sl_hold_call {
    enum sl_hold_action errand;
    struct sl_hold_id id;
    uint32_t place; /* the take's */
    const struct sl_limit_binding
        *limits; /* those of the policy, to be named */
    unsigned limits_count;
    bool release;                   /* SETTLE: nothing was used */
    bool as_held;                   /* SETTLE: what `actual` does not name came
                                     * to what was held, not to `cost` */
    uint64_t cost;                  /* SETTLE: what it came to, for all... */
    const struct sl_actual *actual; /* ...but these */
    unsigned actual_count;
    sl_ns hold_for; /* EXTEND */
    sl_ns now;
    sl_ns deadline;
    struct sl_loop *loop;
    enum sl_hold_state state;            /* out: what was found */
    sl_ns expires_in;                    /* out: HELD, after EXTEND or LOOK */
    struct sl_held_part parts[SL_PARTS]; /* out: of HELD */
    unsigned count;
    int err; /* out: 0 or SLUICE_ESTORE */
    void (*done)(struct sl_hold_call *call);
    void *ctx;
};

struct sl_store;

struct sl_store_calls {
    /* NULL, like tighten: limits are known by the names of their keys alone. */
    int (*bind)(struct sl_store *store, struct sl_limit_binding *limits,
                unsigned count, struct sl_diag *diag);
    /* The strictest numbers of a limit that is bound have become stricter. */
    int (*tighten)(struct sl_store *store, const struct sl_limit_binding *limit,
                   const struct sl_limit *strictest);
    void (*take)(struct sl_store *store, struct sl_take *take);
    void (*close)(struct sl_store *store);
    /* Many takes, each for itself, in this order where they meet; or NULL if
     * one after the other is as good. */
    void (*take_many)(struct sl_store *store, struct sl_take *const *takes,
                      unsigned count);
    /* Within the done() of a TAKE of this loop that has failed and was sent:
     * whoever asked went on as if it had been taken. If it was, it is not given
     * back. NULL if nothing fails. */
    void (*keep)(struct sl_store *store, struct sl_loop *loop);
    /* How long after a take of this loop has failed it may be worth another
     * try; or NULL if the store never fails. */
    sl_ns (*retry_in)(const struct sl_store *store, const struct sl_loop *loop);
    /* A take with the part, whose print was made, comes soon: begin to fetch
     * what it needs. NULL if there is nothing to fetch. */
    void (*expect)(struct sl_store *store, const struct sl_store_part *part);
    /* End, extend or look at a hold; NULL if the store has none. */
    void (*hold)(struct sl_store *store, struct sl_hold_call *call);
};

struct sl_store {
    const struct sl_store_calls *calls;
    struct sl_hash_key secret; /* for fingerprints of callers; never changed
                                * while others may read it... */
    _Atomic(const struct sl_hash_key *) found; /* ...by which it was replaced;
                                                * NULL: it was not */
    bool wants_names;      /* it is shared: parts have a name, too */
    bool in_slots;         /* a cluster: the names of a set have the same
                            * text in braces, which says where it lies */
    _Atomic bool in_steps; /* it can't take several rows at once: a set that
                            * may not be taken in steps fails */
};

/* The secret as it is now. From any thread. */
static inline const struct sl_hash_key *
sl_store_secret(const struct sl_store *store)
{
    const struct sl_hash_key *found =
        atomic_load_explicit(&store->found, memory_order_acquire);

    return found ? found : &store->secret;
}

/* Make the limits of a policy known; those whose strictest capacity is 0 have
 * no numbers and are passed over. SLUICE_EFULL if the store knows too many. */
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

static inline void sl_store_prefetch(struct sl_store *store,
                                     const struct sl_store_part *part)
{
    if (store->calls->expect)
        store->calls->expect(store, part);
}

/* As sl_store_take(): done() is called once, perhaps before this returns. */
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
