/* sluice.h -- the whole public interface of libsluice.
 *
 * A gate holds named limits and remembers who has taken how much. You ask it
 * one question, sluice_take(), and it answers at once: yes, no, or no-and-
 * here-is-when. Several limits are asked together and taken together, all or
 * none.
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
 * Ownership  What sluice_open() gives is yours until sluice_close(). Whatever
 *            you pass in is borrowed for the length of the call.
 * Threads    A gate may be shared; every call but sluice_close() is safe from
 *            any thread. Up to 128 threads, over all processes that share a
 *            state, change it at the same time; more wait for microseconds.
 * Processes  Gates of several processes may share one file, or one piece of
 *            shared memory. A process that is killed or stopped at any instant
 *            leaves nothing half done and nobody waiting. A gate does not
 *            survive fork(): open it again in the child.
 * Time       Durations and instants are nanoseconds; instants count from
 *            1970-01-01T00:00:00Z. The library never sleeps, and reads the
 *            clock that you hand in, or the system's. A reading that lags
 *            behind what others who share the state have decided at by less
 *            than half a second is judged at their time; what lags by more is
 *            a step of the clock.
 * Memory     The state has a fixed size. A decision allocates nothing and
 *            makes no system call (but what your clock makes).
 * Errors     0 is success; failures are negative enum sluice_err values, and
 *            sluice_why() has a sentence. A failed call changes nothing and
 *            leaves its outputs untouched. A refused take is not a failure.
 *
 * Caveats
 * - State belongs to a limit's name, kind and period. Another rate under the
 *   same name keeps what was used; another kind or period starts afresh.
 * - A file survives kill -9 and restart. After a crash of the machine it holds
 *   what the kernel had written by then.
 * - The file holds the secret of its fingerprints; it is made readable by its
 *   owner alone. Keys themselves are not in it.
 * - A file is opened with the size that it was made with. One of another size
 *   or version, or with damage, is renamed to PATH.damaged-N and an empty state
 *   is begun (see sluice_notice()), unless on_damage says to refuse it.
 * - Holds have a sixteenth of the state: a mebibyte has room for 140 on up to
 *   four keys and 14 on more, 64 MiB for 9,300 and 930.
 * - When the state is full, cells that owe little give way to new keys; if
 *   none does, `on_full` decides for the new key. A drained cell, a quota, a
 *   level and a permit never give way.
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
    SLUICE_ENOENT = -3, /* there is no such thing */
    SLUICE_ECONF = -4,  /* a limit's text was refused */
    SLUICE_ESTORE = -5, /* the store did not answer in time */
    SLUICE_EFULL = -6,  /* a ceiling was reached */
    SLUICE_ESYS = -7,   /* the operating system refused; see errno */
    SLUICE_EDAMAGE = -8 /* a state that cannot be used */
};

enum sluice_kind {
    SLUICE_TOKEN_BUCKET,   /* "5/min burst 8"; burst defaults to the count */
    SLUICE_LEAKY_BUCKET,   /* "5/10s queue 5"; queue defaults to the count */
    SLUICE_FIXED_WINDOW,   /* "100/hour" */
    SLUICE_SLIDING_WINDOW, /* "10/10s" */
    SLUICE_QUOTA,          /* "120/month" */
    SLUICE_CONCURRENCY,    /* "2": permits, until they are given back */
    SLUICE_LEVEL           /* "5": things that exist, until given back */
};

/* One limit. Zeros are good defaults for all but name, kind and rate. */
struct sluice_limit {
    const char *name;
    enum sluice_kind kind;
    const char *rate;         /* of plan 0 */
    const char *const *plans; /* NULL, or the rates of plans 1, 2, ... and a
                               * NULL; all with the period of plan 0 */
    int interval;             /* token bucket: refill by the period, at once */
    const char *zone;         /* quota: "Europe/Berlin"; NULL is UTC */
    unsigned anchor;          /* quota: day of the month, or weekday from 1 */
    unsigned share;           /* 1/1000 of the state kept for this limit; 0 is
                               * an equal part of one half */
};

enum sluice_on_full { SLUICE_FULL_ALLOW, SLUICE_FULL_DENY };
enum sluice_on_damage { SLUICE_DAMAGE_SET_ASIDE, SLUICE_DAMAGE_REFUSE };

/* How to open a gate. Zeros are good defaults for all but the limits. */
struct sluice_options {
    const struct sluice_limit *limits;
    size_t limit_count;

    const char *path; /* state in this file; NULL is in memory */
    void *memory;     /* or state in this memory, 64-byte aligned, zeroed before
                       * its first use */
    size_t size;      /* of the state in bytes: 1 MiB to 1 TiB; 0 is 64 MiB, but
                       * memory that is handed in needs its size */
    enum sluice_on_full on_full;
    enum sluice_on_damage on_damage;

    /* The clock: wall time in ns. NULL is the system's, read at each call and
     * advanced steadily between steps. */
    int64_t (*now)(void *ctx);
    void *now_ctx;

    /* Memory for the gate itself, not for the state: new (old NULL), resized,
     * or given back (new_size 0). NULL is malloc and friends. */
    void *(*resize)(void *ctx, void *old, size_t old_size, size_t new_size);
    void *resize_ctx;
};

enum sluice_outcome {
    SLUICE_ALLOW,
    SLUICE_DENY, /* not now */
    SLUICE_NEVER /* the cost is more than the limit can ever hold */
};

/* What a limit says. Spans count from the instant of the decision. */
struct sluice_answer {
    enum sluice_outcome outcome;
    uint64_t limit;      /* the configured count */
    uint64_t capacity;   /* the most that can be taken at once */
    uint64_t remaining;  /* what is left */
    int64_t retry_in_ns; /* DENY: the soonest that the same take passes; -1 if
                          * no clock will help, and when not denied */
    int64_t
        reset_in_ns; /* until nothing is owed, or the period ends; -1 none */
    int64_t wait_ns; /* leaky bucket, ALLOW: how long to hold it back */
    int untracked;   /* the state is full: on_full decided */
};

/* One question of a set. */
struct sluice_part {
    unsigned limit; /* which of the options' limits */
    unsigned plan;  /* which of its rates */
    const void *key;
    size_t key_len;
    uint64_t cost;               /* 0 looks without taking */
    int64_t taken_at_ns;         /* give_back: when that was taken; 0 = now */
    struct sluice_answer answer; /* out */
};

struct sluice_verdict {
    enum sluice_outcome outcome; /* ALLOW if every part allows; NEVER if any
                                  * part never will */
    unsigned by;                 /* not allowed: the first part that refused */
    int64_t retry_in_ns; /* DENY: the largest of the parts'; -1 if none has
                          * one */
};

/* Open a gate. On success *ret is yours. */
int sluice_open(const struct sluice_options *options, struct sluice **ret);

/* Close a gate that no thread uses any more. NULL is allowed. Always returns
 * NULL, so that `gate = sluice_close(gate);` leaves no dangling pointer. */
struct sluice *sluice_close(struct sluice *gate);

/* What there is to say about the opening, or NULL: that a damaged file was set
 * aside, and under which name. Valid until sluice_close(). */
const char *sluice_notice(const struct sluice *gate);

/* Take a set of 1 to SLUICE_PARTS_MAX parts, all or none. Parts of the same
 * limit and key are merged: their costs add up, and the plan and the instant
 * of the first count for all. If the set is refused, parts that would have
 * passed answer ALLOW and show what is there. */
int sluice_take(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret);

/* What sluice_take() would say now; takes nothing. A key that has no place in
 * the state yet is judged as if there were one. */
int sluice_look(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret);

/* Decide any number of parts, each for itself; the outcomes are in their
 * answers. Much faster than one by one when the state does not fit the
 * processor's cache. */
int sluice_take_batch(struct sluice *gate, struct sluice_part *parts,
                      size_t count);

/* Give `cost` back on every part, never above full. What was taken in a window
 * or period that is over has come back by itself. */
int sluice_give_back(struct sluice *gate, struct sluice_part *parts,
                     size_t count);

/* Charge `cost` on every part whatever the limits say; beyond the capacity it
 * is a debt. */
int sluice_charge(struct sluice *gate, struct sluice_part *parts, size_t count);

/* Forget what a key owes. Holds on it have nothing to give back any more. */
int sluice_reset(struct sluice *gate, unsigned limit, const void *key,
                 size_t key_len);

/* Holds. A hold takes provisionally: what is taken counts at once, until the
 * hold is settled (with what it came to), released (with nothing) or expires,
 * which is released by nobody. A permit is a hold of 1 on a concurrency limit;
 * the tokens of an answer that is still to come are a hold on a bucket or a
 * quota.
 *
 * What comes back: of windows and quotas all that was not used, while the
 * window of the take lasts; of permits and levels always; of buckets what is
 * surely still used of it, for they drain meanwhile. What is settled for more
 * is charged, even beyond the limit.
 *
 * A hold belongs to the state, not to the gate: it survives its maker, and
 * whoever knows its id may end it. A hold ends once; what comes later changes
 * nothing and is told how it had ended, as long as that is remembered: until
 * the room is needed. Expired holds are given back as of their expiry, when
 * the next decision is made. */
struct sluice_hold_id {
    uint64_t w[2]; /* random; never zeros */
};

enum sluice_hold_state {
    SLUICE_HOLD_UNKNOWN, /* never was, or is forgotten */
    SLUICE_HOLD_HELD,    /* it was held until this call, or still is */
    SLUICE_HOLD_SETTLED, /* it had been settled before... */
    SLUICE_HOLD_RELEASED,
    SLUICE_HOLD_EXPIRED
};

/* What a hold came to on one limit. */
struct sluice_settlement {
    unsigned limit; /* which of the options' limits */
    uint64_t cost;
    int over; /* out: that is more than the limit has; it was charged all the
               * same */
    struct sluice_answer answer; /* out: a look afterwards, by the numbers of
                                  * the take */
};

/* Take a set as sluice_take() does and hold it for `for_ns`. If the verdict is
 * ALLOW, *id is its hold; if not, nothing is held and *id is zeros.
 * SLUICE_EFULL if the state has no room for another hold. */
int sluice_hold(struct sluice *gate, struct sluice_part *parts, size_t count,
                int64_t for_ns, struct sluice_hold_id *id,
                struct sluice_verdict *ret);

/* Settle a hold: it came to `costs`, each limit named once at most. Limits that
 * are not named came to what was held, but permits come back. What is `out` in
 * them is told if *ret becomes HELD. */
int sluice_settle(struct sluice *gate, struct sluice_hold_id id,
                  struct sluice_settlement *costs, size_t count,
                  enum sluice_hold_state *ret);

/* Nothing of it was used. */
int sluice_release(struct sluice *gate, struct sluice_hold_id id,
                   enum sluice_hold_state *ret);

/* It expires `for_ns` from now, whatever it was before: a heartbeat. */
int sluice_extend(struct sluice *gate, struct sluice_hold_id id, int64_t for_ns,
                  enum sluice_hold_state *ret);

/* Called for every key in the state that belongs to one of the gate's limits:
 * keys show as fingerprints, and `answer` as a look by plan 0. Return 0 to go
 * on. Keys that come and go meanwhile may or may not be seen. */
typedef int sluice_each_f(void *ctx, unsigned limit, uint64_t fingerprint,
                          const struct sluice_answer *answer);

/* Returns 0, or what the function returned to stop. */
int sluice_each(struct sluice *gate, sluice_each_f *each, void *ctx);

/* Since the state was made, over all processes. */
struct sluice_stats {
    uint64_t takes;    /* sets decided: takes, looks and corrections */
    uint64_t denied;   /* of them refused */
    uint64_t inserted; /* keys that found a place */
    uint64_t evicted;  /* keys that still owed a little and gave way */
    uint64_t full;     /* keys that found no place */
    uint64_t helped;   /* changes completed for somebody who had stopped */
    uint64_t undone;   /* changes undone for somebody who had stopped */
    uint64_t places;   /* for keys */
    uint64_t occupied; /* of them */
    uint64_t bytes;    /* of the state */
    uint64_t expired;  /* holds that expired */
    uint64_t hold_places;
    uint64_t held; /* holds that are out */
};

int sluice_stats(struct sluice *gate, struct sluice_stats *ret);

/* The most recent failure on this thread as one English sentence. Never NULL;
 * valid until the next failure on this thread. */
const char *sluice_why(void);

/* "0.1.0" */
const char *sluice_version(void);

#ifdef __cplusplus
}
#endif

#endif
