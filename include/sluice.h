/* sluice.h -- the whole public interface of libsluice.
 *
 * A gate has named limits and stores how much each key has used of them.
 * sluice_take() answers at once: allowed, denied, or denied with the time of
 * the next chance. Several limits are taken together, all or none.
 *
 *     struct sluice_limit limits[] = {
 *         {.name = "per-user", .kind = SLUICE_TOKEN_BUCKET,
 *          .rate = "5/min burst 8"},
 *         {.name = "per-team", .kind = SLUICE_QUOTA, .rate = "10k/month"},
 *     };
 *     struct sluice_options options = {.limits = limits, .limit_count = 2};
 *     struct sluice *gate;
 *
 *     if (sluice_open(&options, &gate))
 *         errx(1, "%s", sluice_why());
 *
 *     struct sluice_part parts[] = {
 *         {.limit = 0, .key = "ann", .key_len = 3, .cost = 1},
 *         {.limit = 1, .key = "acme", .key_len = 4, .cost = 1},
 *     };
 *     struct sluice_verdict verdict;
 *
 *     if (sluice_take(gate, parts, 2, &verdict))
 *         errx(1, "%s", sluice_why());
 *     if (verdict.outcome != SLUICE_ALLOW)
 *         printf("%s: come back in %lld ns\n", limits[parts[verdict.by].limit]
 *                .name, (long long)verdict.retry_in_ns);
 *
 * Ownership  The gate of sluice_open() is yours until sluice_close(). Arguments
 *            are borrowed for the length of the call.
 * Threads    A gate may be shared; every call but sluice_close() is safe from
 *            any thread. Up to 128 threads, over all processes that share a
 *            state, change it at the same time; more wait for microseconds.
 * Processes  Gates of several processes may share one file, or one piece of
 *            shared memory. A process that is killed or stopped at any instant
 *            leaves no change incomplete and blocks no other process. A gate
 *            does not survive fork(): open it again in the child.
 * Time       Durations and instants are nanoseconds; instants count from
 *            1970-01-01T00:00:00Z. The library never sleeps. It reads the clock
 *            of the options, or the system's. A reading that lags behind the
 *            latest decision on the state by less than half a second is judged
 *            at the time of that decision. A larger lag is a clock step.
 * Memory     The state has a fixed size. A decision allocates nothing and
 *            makes no system call (except those of your clock).
 * Errors     0 is success; failures are negative enum sluice_err values, and
 *            sluice_why() has a sentence. A failed call changes nothing and
 *            leaves its outputs untouched. A denied take is not a failure.
 *
 * Caveats
 * - State belongs to a limit's name, kind and period. Another rate under the
 *   same name keeps the usage; another kind or period starts from zero.
 * - A file survives kill -9 and restart. After a crash of the machine it has
 *   what the kernel had written by then.
 * - The file has the secret of its fingerprints, and only its owner can read
 * it. Keys themselves are not in it.
 * - A file is opened with the size that it was created with. A file of another
 *   size or version, or a damaged one, is renamed to PATH.damaged-N and an
 * empty state is created (see sluice_notice()), unless on_damage refuses it.
 * - Holds have a sixteenth of the state: a mebibyte has room for 140 on up to
 *   four keys and 14 on more, 64 MiB for 9,300 and 930.
 * - When the state is full, new keys replace cells with little usage; if there
 * is none, `on_full` decides. Drained cells, quotas, levels and permits are
 * never replaced.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_PARTS_MAX 16 /* in one set */

struct sluice; /* a gate; opaque */

enum sluice_err {
    SLUICE_OK = 0,
    SLUICE_EINVAL = -1, /* the caller broke the contract above */
    SLUICE_ENOMEM = -2, /* memory ran out */
    SLUICE_ENOENT = -3, /* an unknown name or number */
    SLUICE_ECONF = -4,  /* invalid text of a limit */
    SLUICE_ESTORE = -5, /* the store did not answer in time */
    SLUICE_EFULL = -6,  /* a maximum was reached */
    SLUICE_ESYS = -7,   /* a system call failed; see errno */
    SLUICE_EDAMAGE = -8 /* a state that cannot be used */
};

enum sluice_kind {
    SLUICE_TOKEN_BUCKET,   /* "5/min burst 8"; burst defaults to the count */
    SLUICE_LEAKY_BUCKET,   /* "5/10s queue 5"; queue defaults to the count */
    SLUICE_FIXED_WINDOW,   /* "100/hour" */
    SLUICE_SLIDING_WINDOW, /* "10/10s" */
    SLUICE_QUOTA,          /* "120/month" */
    SLUICE_CONCURRENCY,    /* "2": permits, until refunded */
    SLUICE_LEVEL           /* "5": things that exist, until refunded */
};

/* One limit. Zeros are defaults, except for name, kind and rate. */
struct sluice_limit {
    const char *name;
    enum sluice_kind kind;
    const char *rate;         /* of plan 0 */
    const char *const *plans; /* NULL, or the rates of plans 1, 2, ... and a
                               * NULL; all with the period of plan 0 */
    int interval;             /* token bucket: refill once per period */
    const char *zone;         /* quota: "Europe/Berlin"; NULL is UTC */
    unsigned anchor;          /* quota: day of the month, or weekday from 1 */
    unsigned share;           /* 1/1000 of the state kept for this limit; 0 is
                               * an equal part of one half, lent while idle */
};

enum sluice_on_full { SLUICE_FULL_ALLOW, SLUICE_FULL_DENY };
enum sluice_on_damage { SLUICE_DAMAGE_SET_ASIDE, SLUICE_DAMAGE_REFUSE };

/* Zeros are defaults, except for the limits. */
struct sluice_options {
    const struct sluice_limit *limits;
    size_t limit_count;

    const char *path; /* file of the state; NULL: in memory */
    void *memory;     /* or memory of the state, 64-byte aligned, zeroed before
                       * its first use */
    size_t size;      /* of the state in bytes: 1 MiB to 1 TiB; 0: 64 MiB.
                       * `memory` needs a size */
    enum sluice_on_full on_full;
    enum sluice_on_damage on_damage;

    /* The clock: wall time in ns. NULL is the system's, read at each call, at
     * most 20 us off. */
    int64_t (*now)(void *ctx);
    void *now_ctx;

    /* Allocates (old NULL), resizes or frees (new_size 0) memory of the gate,
     * not of the state. NULL: malloc, realloc and free. */
    void *(*resize)(void *ctx, void *old, size_t old_size, size_t new_size);
    void *resize_ctx;
};

enum sluice_outcome {
    SLUICE_ALLOW,
    SLUICE_DENY,
    SLUICE_NEVER /* the cost exceeds the capacity */
};

/* The answer of a limit. Durations count from the decision. */
struct sluice_answer {
    enum sluice_outcome outcome;
    uint64_t limit;    /* the configured count */
    uint64_t capacity; /* at most taken at once */
    uint64_t remaining;
    int64_t retry_in_ns; /* DENY: until the same take passes; -1 if time does
                          * not help, and if not denied */
    int64_t
        reset_in_ns; /* until nothing is owed, or the period ends; -1 none */
    int64_t wait_ns; /* leaky bucket, ALLOW: how long to delay it */
    int untracked;   /* the state is full: on_full decided */
};

/* One limit and key of a set. */
struct sluice_part {
    unsigned limit; /* which of the options' limits */
    unsigned plan;  /* which of its rates */
    const void *key;
    size_t key_len;
    uint64_t cost;               /* 0: a peek */
    int64_t taken_at_ns;         /* give_back: when it was taken; 0: now */
    struct sluice_answer answer; /* out */
};

struct sluice_verdict {
    enum sluice_outcome outcome; /* ALLOW if every part allows; NEVER if any
                                  * part never will */
    unsigned by;                 /* not allowed: the first part that denies */
    int64_t retry_in_ns; /* DENY: the largest of the parts'; -1 if none has
                          * one */
};

/* Opens a gate. On success *ret is yours. */
int sluice_open(const struct sluice_options *options, struct sluice **ret);

/* Closes a gate that no thread uses any more. NULL is allowed. Returns NULL, so
 * that `gate = sluice_close(gate);` leaves no dangling pointer. */
struct sluice *sluice_close(struct sluice *gate);

/* A message that a damaged file was set aside, with its new name; or NULL.
 * Valid until sluice_close(). */
const char *sluice_notice(const struct sluice *gate);

/* Takes a set of 1 to SLUICE_PARTS_MAX parts, all or none. Parts of the same
 * limit and key are merged: their costs add up, and the plan and the time of
 * the first are used. If the set is denied, parts that would have passed answer
 * ALLOW and show their state. */
int sluice_take(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret);

/* The answer that sluice_take() would give now; takes nothing. A key without a
 * place in the state is judged as if it had one. */
int sluice_look(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret);

/* Takes any number of parts, each on its own; the outcomes are in their
 * answers. Much faster than one by one if the state does not fit the
 * processor's cache. */
int sluice_take_batch(struct sluice *gate, struct sluice_part *parts,
                      size_t count);

/* Refunds `cost` to every part, never above full. Usage of a window or period
 * that is over is not refunded. */
int sluice_give_back(struct sluice *gate, struct sluice_part *parts,
                     size_t count);

/* Charges `cost` to every part, even beyond the capacity. */
int sluice_charge(struct sluice *gate, struct sluice_part *parts, size_t count);

/* Clears the usage of a key. Its holds are not refunded to it any more. */
int sluice_reset(struct sluice *gate, unsigned limit, const void *key,
                 size_t key_len);

/* Holds. A hold takes provisionally: its costs count at once, until the hold is
 * settled (with the actual costs), released (with none) or expires (as
 * released). A permit is a hold of 1 on a concurrency limit; the tokens of an
 * answer that is still to come are a hold on a bucket or a quota.
 *
 * Refunds: windows and quotas get back what was not used while the window of
 * the take lasts; permits and levels always; buckets what is certainly still
 * used of it, because they drain meanwhile. A higher actual cost is charged,
 * even beyond the limit.
 *
 * A hold belongs to the state, not to the gate: it survives its process, and
 * any caller with its id may end it. A hold ends once. Later calls change
 * nothing and return how it ended, until its room is needed. Expired holds are
 * refunded as of their expiry, at the next decision. */
struct sluice_hold_id {
    uint64_t w[2]; /* random; never zeros */
};

enum sluice_hold_state {
    SLUICE_HOLD_UNKNOWN, /* never existed, or no longer stored */
    SLUICE_HOLD_HELD,    /* held until this call, or still held */
    SLUICE_HOLD_SETTLED, /* ended before this call... */
    SLUICE_HOLD_RELEASED,
    SLUICE_HOLD_EXPIRED
};

/* The actual cost of a hold on one limit. */
struct sluice_settlement {
    unsigned limit; /* which of the options' limits */
    uint64_t cost;
    int over; /* out: it exceeds the limit, and was charged */
    struct sluice_answer answer; /* out: a peek afterwards, by the numbers of
                                  * the take */
};

/* Takes a set as sluice_take() does and holds it for `for_ns`. *id is the hold,
 * or zeros if the set is denied. SLUICE_EFULL: no room for another hold. */
int sluice_hold(struct sluice *gate, struct sluice_part *parts, size_t count,
                int64_t for_ns, struct sluice_hold_id *id,
                struct sluice_verdict *ret);

/* Settles a hold with `costs`, each limit at most once. Other limits cost what
 * was held, but permits are refunded. The out members are set if *ret is HELD.
 */
int sluice_settle(struct sluice *gate, struct sluice_hold_id id,
                  struct sluice_settlement *costs, size_t count,
                  enum sluice_hold_state *ret);

/* Refunds all of it. */
int sluice_release(struct sluice *gate, struct sluice_hold_id id,
                   enum sluice_hold_state *ret);

/* The hold expires `for_ns` from now. */
int sluice_extend(struct sluice *gate, struct sluice_hold_id id, int64_t for_ns,
                  enum sluice_hold_state *ret);

/* Called for every key of the gate's limits: its fingerprint, and a peek by
 * plan 0. Return 0 to continue. Keys that are added or removed meanwhile may be
 * missed. */
typedef int sluice_each_f(void *ctx, unsigned limit, uint64_t fingerprint,
                          const struct sluice_answer *answer);

/* Returns 0, or the value that stopped it. */
int sluice_each(struct sluice *gate, sluice_each_f *each, void *ctx);

/* Since the state was created, over all processes. */
struct sluice_stats {
    uint64_t takes;    /* sets decided: takes, peeks and corrections */
    uint64_t denied;   /* sets denied */
    uint64_t inserted; /* new keys that got a place */
    uint64_t evicted;  /* replaced keys with little usage */
    uint64_t full;     /* new keys without a place */
    uint64_t helped;   /* changes completed for a stopped thread */
    uint64_t undone;   /* changes undone for a stopped thread */
    uint64_t places;   /* for keys */
    uint64_t occupied; /* places in use */
    uint64_t bytes;    /* of the state */
    uint64_t expired;  /* holds that expired */
    uint64_t hold_places;
    uint64_t held; /* holds now */
};

int sluice_stats(struct sluice *gate, struct sluice_stats *ret);

/* The last failure on this thread as one English sentence. Never NULL; valid
 * until the next failure on this thread. */
const char *sluice_why(void);

/* "0.1.0" */
const char *sluice_version(void);

#ifdef __cplusplus
}
#endif

#endif
