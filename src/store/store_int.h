/* store_int.h -- inside the store with leases: its keys, and takes that wait.
 */
#ifndef SL_STORE_STORE_INT_H
#define SL_STORE_STORE_INT_H

#include <pthread.h>

#include "base/hash.h"
#include "store/quota_lease.h"

#define SHARDS              64 /* as many as a mask has bits */
#define SL_QUOTA_LEASES_FEW 8

/* A key with a lease. Its texts lie behind it. */
struct sl_quota_leases_key {
    struct sl_quota_leases_key *next;
    struct sl_hash128 hash;
    uint32_t limit_id;      /* as the table knows it */
    struct sl_calendar cal; /* by which its period was found... */
    sl_ns span;             /* ...or its length */
    struct sl_quota_lease lease;
    sl_ns sure; /* steady: when the last question was asked that was answered */
    bool asking;    /* a question is under way: one at a time, or the books and
                     * this node would not speak of the same ceiling... */
    sl_ns about;    /* ...of this period, by its start */
    unsigned aside; /* under way about periods that are over */
    unsigned unsettled; /* refusals that are not believed, after a reset */
    bool doubtful;      /* one was not answered: who knows what came of it */
    sl_ns held;    /* until then its cell may change by itself, since something
                    * is held; 0: nothing is */
    unsigned ends; /* l->ends, when the cell was looked at */
    bool touched;  /* since the last beat */
    struct sl_quota_leases_waiter *waiting,
        **waiting_end; /* takes, for an answer */
    uint64_t wanted;   /* by those who wait, or are about to try again */
    struct sl_str scope, id, limit;
    size_t size;
};

struct sl_quota_leases_shard {
    _Alignas(64) pthread_mutex_t lock; /* over what follows */
    struct sl_quota_leases_key **rows;
    unsigned row_count; /* a power of two */
    unsigned keys;
    struct sl_quota_leases_key
        *few[SL_QUOTA_LEASES_FEW]; /* the rows at first */
};

struct sl_quota_leases {
    struct sl_store store; /* first: the two are cast into each other */
    struct sl_quota_leases_options options;
    const struct sl_alloc *alloc;
    struct sl_quota_leases_shard *shards;
    void *piece; /* of memory that the shards lie in */
    _Atomic uint64_t asked, waited, refused, failed;
    _Atomic unsigned keys, waiting;
    _Atomic bool away; /* the books did not answer the last question */

    _Atomic unsigned ends;  /* of holds */
    _Atomic sl_ns extended; /* the last expiry of those that were */

    /* Steady: the books know that this node has lived from `since` on, without
     * a gap in which others could think that it does not, until `seen`. */
    pthread_mutex_t seeing; /* whoever writes them */
    _Atomic sl_ns since, seen;
};

/* Can what the key has not have been released since it was asked for? */
bool sl_quota_leases_is_sure(struct sl_quota_leases *l,
                             const struct sl_quota_leases_key *key, sl_ns mono);

/* ---- keys.c ---- */

/* Where a part's key is. */
struct sl_quota_leases_place {
    struct sl_hash128 hash;
    unsigned shard;
};
struct sl_quota_leases_place
sl_quota_leases_place(const struct sl_quota_leases *l,
                      const struct sl_part *part);

/* Of what is locked; NULL: there is none. */
struct sl_quota_leases_key *
sl_quota_leases_find(struct sl_quota_leases *l,
                     const struct sl_quota_leases_place *place,
                     const struct sl_part *part);

/* Make one; NULL: there is no memory, no room, or it has no name. */
struct sl_quota_leases_key *
sl_quota_leases_add(struct sl_quota_leases *l,
                    const struct sl_quota_leases_place *place,
                    const struct sl_part *part);

/* Take out those that f() says are not wanted any more. All are visited, each
 * shard under its lock. */
typedef bool sl_quota_leases_f(void *ctx, struct sl_quota_leases_key *key);
void sl_quota_leases_each(struct sl_quota_leases *l, sl_quota_leases_f *f,
                          void *ctx);

/* The one that an ask was about; its shard is locked. */
struct sl_quota_leases_key *sl_quota_leases_again(struct sl_quota_leases *l,
                                                  unsigned shard,
                                                  struct sl_hash128 hash,
                                                  uint32_t limit_id);

SL_MUST_USE int sl_quota_leases_make_shards(struct sl_quota_leases *l);
void sl_quota_leases_free_shards(struct sl_quota_leases *l);

/* ---- judge.c, answer.c, leased.c: one take ---- */

enum sl_quota_leases_way {
    SL_QUOTA_LEASES_GO,
    SL_QUOTA_LEASES_REFUSE, /* the books have nothing left */
    SL_QUOTA_LEASES_WAIT,   /* ask them */
    SL_QUOTA_LEASES_FAIL,   /* they can't be asked */
};

/* What the books are to be asked. */
struct sl_quota_leases_need {
    struct sl_quota_leases_key *key; /* locked */
    unsigned shard;
    uint64_t cap, cost, want, least;
    sl_ns now, mono;
};

struct sl_quota_leases_job;
struct sl_quota_leases_waiter;

struct sl_quota_leases_attempt {
    struct sl_quota_leases *l;
    struct sl_take *take;
    struct sl_take inner; /* what the table is asked */
    struct sl_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS]; /* of those that are leased */
    struct sl_quota_leases_place places[SL_PARTS];
    struct sl_quota_leases_key *keys[SL_PARTS]; /* NULL: it is not leased */
    uint32_t leased;                            /* bits: which are */
    uint64_t shards;                            /* bits: which are locked */
    unsigned tries;
    bool blind; /* the books did not answer; it goes without where it can */
    sl_ns mono;
    int refuser;                        /* part; -1: none */
    struct sl_quota_leases_job *outbox; /* to be sent when nothing is locked */
};

/* Which parts of a take are leased, as bits. */
uint32_t sl_quota_leases_parts(const struct sl_take *take);

/* Is it refused if too little is left? */
bool sl_quota_leases_is_capped(const struct sl_quota_leases_attempt *a,
                               unsigned i);

/* Every cell can be read by such a limit, however full. */
static inline void sl_quota_leases_open_limit(struct sl_limit *limit)
{
    limit->count = limit->capacity = SL_AMOUNT_MAX;
}

/* What the cell had, by the answer. */
static inline uint64_t sl_quota_leases_own(const struct sl_part *part)
{
    return part->limit->capacity - part->answer.remaining;
}

/* Find the keys of all parts, and how far each may go. */
enum sl_quota_leases_way
sl_quota_leases_judge(struct sl_quota_leases_attempt *a,
                      struct sl_quota_leases_need *need);

/* From the cells of this node to the limits of all. */
void sl_quota_leases_answer(struct sl_quota_leases_attempt *a);

/* Try it; `tries` so often it was tried before, and `until` then it waits, by
 * its loop; 0: it has not waited. */
void sl_quota_leases_try(struct sl_quota_leases *l, struct sl_take *take,
                         unsigned tries, sl_ns until, bool blind);

/* ---- asking.c ---- */

/* Put a question to the books into the outbox, unless one is under way about
 * this key. False: there is no memory. */
SL_MUST_USE bool
sl_quota_leases_prepare(struct sl_quota_leases *l,
                        const struct sl_quota_leases_need *need, uint64_t give,
                        struct sl_quota_leases_job **outbox);
void sl_quota_leases_send(struct sl_quota_leases_job *outbox,
                          struct sl_loop *loop);

/* ---- waiting.c ---- */

/* The take waits for the answer to what was asked about need->key. NULL: there
 * is no memory, or too many wait. */
struct sl_quota_leases_waiter *
sl_quota_leases_wait(struct sl_quota_leases *l,
                     const struct sl_quota_leases_need *need,
                     struct sl_take *take, unsigned tries, sl_ns until);

/* Nothing is locked any more: from now on it may be late. */
void sl_quota_leases_watch(struct sl_quota_leases_waiter *waiter);

/* An answer is there: take those out who wait for it; the shard is locked.
 * Later, when nothing is, they try again, each on its loop. */
struct sl_quota_leases_waiter *
sl_quota_leases_take_out(struct sl_quota_leases_key *key, bool blind);
void sl_quota_leases_wake(struct sl_quota_leases_waiter *first,
                          struct sl_loop *loop);

#endif
