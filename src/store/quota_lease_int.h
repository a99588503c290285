/* quota_lease_int.h -- what the files of quota leases share: keys, questions to
 * the usage database, and takes that wait for answers. */
#ifndef SL_STORE_QUOTA_LEASE_INT_H
#define SL_STORE_QUOTA_LEASE_INT_H

#include <pthread.h>

#include "base/hash.h"
#include "store/quota_lease.h"

#define SHARDS            64 /* bits of a mask */
#define SL_QUOTA_ROWS_FEW 8

/* A key with a lease. Its texts lie behind it. */
struct sl_quota_key {
    struct sl_quota_key *next;
    struct sl_hash128 hash;
    uint32_t limit_id; /* of the table */
    bool pending;      /* a question is in flight: one at a time, so that the
                        * usage database and this node agree on the ceiling */
    bool touched;      /* since the last heartbeat */
    bool uncertain;    /* a question got no answer */
    sl_ns sure; /* monotonic: when the last answered question was asked */
    struct sl_calendar cal; /* of its period... */
    sl_ns span;             /* ...or its length */
    struct sl_quota_lease lease;
    sl_ns pending_start;  /* the start of its period */
    unsigned old_pending; /* questions in flight about earlier periods */
    unsigned unsettled;   /* refusals to ignore after a reset */
    sl_ns held;    /* until then holds may change its cell; 0: there are none */
    unsigned ends; /* l->ends when the cell was read */
    bool asked;    /* whether its cell can be emptied */
    struct sl_quota_waiter *waiting, **waiting_end;
    uint64_t wanted; /* by waiters, and by takes that try again */
    struct sl_str scope, id, limit;
    size_t size;
};

struct sl_quota_shard {
    _Alignas(64) pthread_mutex_t lock; /* of all below */
    struct sl_quota_key **rows;
    unsigned row_count; /* a power of two */
    unsigned keys;
    struct sl_quota_key *few[SL_QUOTA_ROWS_FEW]; /* the rows at first */
};

struct sl_quota_leases {
    struct sl_store store; /* first */
    struct sl_quota_leases_options options;
    const struct sl_alloc *alloc;
    struct sl_quota_shard *shards;
    void *piece; /* the allocation of the shards */
    _Atomic uint64_t asked, waited, refused, failed;
    _Atomic unsigned keys, waiting;
    _Atomic bool away; /* the usage database did not answer the last question */

    _Atomic unsigned ends;  /* of holds */
    _Atomic sl_ns extended; /* the last expiry of extended holds */

    /* Monotonic: the usage database knows that this node was alive from `since`
     * to `seen`, without a gap in which its leases could be released. */
    pthread_mutex_t seeing; /* of writers */
    _Atomic sl_ns since, seen;
};

/* A question to be asked. */
struct sl_quota_need {
    struct sl_quota_key *key; /* locked */
    unsigned shard;
    uint64_t cap, cost, want, least;
    sl_ns now, mono;
};

struct sl_quota_job;
struct sl_quota_waiter;

/* ---- quota_lease_store.c ---- */

/* Finds a key; its shard is locked. */
struct sl_quota_key *sl_quota_key_find(struct sl_quota_leases *l,
                                       unsigned shard, struct sl_hash128 hash,
                                       uint32_t limit_id);

/* Visits all keys, each shard under its lock. Removes the keys for which f()
 * returns true. */
typedef bool sl_quota_key_f(void *ctx, struct sl_quota_key *key);
void sl_quota_key_each(struct sl_quota_leases *l, sl_quota_key_f *f, void *ctx);

/* Copies a text to *at and moves *at behind it. */
struct sl_str sl_quota_text_copy(char **at, struct sl_str text);

/* Tries a take that was tried `tries` times. It waits until `until`, by its
 * loop; 0: it has not waited. */
void sl_quota_leases_try(struct sl_quota_leases *l, struct sl_take *take,
                         unsigned tries, sl_ns until, bool blind);

/* ---- quota_lease_ask.c ---- */

/* Can the key's units not have been released since they were asked for? */
bool sl_quota_key_is_sure(struct sl_quota_leases *l,
                          const struct sl_quota_key *key, sl_ns mono);

/* Adds a question to the outbox, unless one is pending about this key. Returns
 * false without memory. */
SL_MUST_USE bool sl_quota_job_add(struct sl_quota_leases *l,
                                  const struct sl_quota_need *need,
                                  uint64_t give, struct sl_quota_job **outbox);
void sl_quota_job_send(struct sl_quota_job *outbox, struct sl_loop *loop);

/* The take waits for the answer about need->key. NULL: no memory, or too many
 * wait. */
struct sl_quota_waiter *sl_quota_waiter_new(struct sl_quota_leases *l,
                                            const struct sl_quota_need *need,
                                            struct sl_take *take,
                                            unsigned tries, sl_ns until);

/* Starts the deadline. Nothing is locked. */
void sl_quota_waiter_watch(struct sl_quota_waiter *waiter);

#endif
