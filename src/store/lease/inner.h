/* inner.h -- inside the store with leases: its keys, and takes that wait. */
#ifndef SL_LEASED_INNER_H
#define SL_LEASED_INNER_H

#include <pthread.h>

#include "base/hash.h"
#include "store/lease/leased.h"

#define SHARDS        64 /* as many as a mask has bits */
#define SL_LEASED_FEW 8

/* A key with a lease. Its texts lie behind it. */
struct sl_leased_key {
    struct sl_leased_key *next;
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
    struct sl_leased_waiter *waiting, **waiting_end; /* takes, for an answer */
    uint64_t wanted; /* by those who wait, or are about to try again */
    struct sl_str scope, id, limit;
    size_t size;
};

struct sl_leased_shard {
    _Alignas(64) pthread_mutex_t lock; /* over what follows */
    struct sl_leased_key **rows;
    unsigned row_count; /* a power of two */
    unsigned keys;
    struct sl_leased_key *few[SL_LEASED_FEW]; /* the rows at first */
};

struct sl_leased {
    struct sl_store store; /* first: the two are cast into each other */
    struct sl_leased_options options;
    const struct sl_alloc *alloc;
    struct sl_leased_shard *shards;
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
bool sl_leased_is_sure(struct sl_leased *l, const struct sl_leased_key *key,
                       sl_ns steady);

/* ---- keys.c ---- */

/* Where a part's key is. */
struct sl_leased_place {
    struct sl_hash128 hash;
    unsigned shard;
};
struct sl_leased_place sl_leased_place(const struct sl_leased *l,
                                       const struct sl_take_part *part);

/* Of what is locked; NULL: there is none. */
struct sl_leased_key *sl_leased_find(struct sl_leased *l,
                                     const struct sl_leased_place *place,
                                     const struct sl_take_part *part);

/* Make one; NULL: there is no memory, no room, or it has no name. */
struct sl_leased_key *sl_leased_add(struct sl_leased *l,
                                    const struct sl_leased_place *place,
                                    const struct sl_take_part *part);

/* Take out those that f() says are not wanted any more. All are visited, each
 * shard under its lock. */
typedef bool sl_leased_f(void *ctx, struct sl_leased_key *key);
void sl_leased_each(struct sl_leased *l, sl_leased_f *f, void *ctx);

/* The one that an ask was about; its shard is locked. */
struct sl_leased_key *sl_leased_again(struct sl_leased *l, unsigned shard,
                                      struct sl_hash128 hash,
                                      uint32_t limit_id);

SL_MUST_USE int sl_leased_make_shards(struct sl_leased *l);
void sl_leased_free_shards(struct sl_leased *l);

/* ---- judge.c, answer.c, leased.c: one take ---- */

enum sl_leased_way {
    SL_LEASED_GO,
    SL_LEASED_REFUSE, /* the books have nothing left */
    SL_LEASED_WAIT,   /* ask them */
    SL_LEASED_FAIL,   /* they can't be asked */
};

/* What the books are to be asked. */
struct sl_leased_need {
    struct sl_leased_key *key; /* locked */
    unsigned shard;
    uint64_t cap, cost, want, least;
    sl_ns now, steady;
};

struct sl_leased_errand;
struct sl_leased_waiter;

struct sl_leased_attempt {
    struct sl_leased *l;
    struct sl_take *take;
    struct sl_take inner; /* what the table is asked */
    struct sl_take_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS]; /* of those that are leased */
    struct sl_leased_place places[SL_PARTS];
    struct sl_leased_key *keys[SL_PARTS]; /* NULL: it is not leased */
    uint32_t leased;                      /* bits: which are */
    uint64_t shards;                      /* bits: which are locked */
    unsigned tries;
    bool blind; /* the books did not answer; it goes without where it can */
    sl_ns steady;
    int refuser;                     /* part; -1: none */
    struct sl_leased_errand *outbox; /* to be sent when nothing is locked */
};

/* Which parts of a take are leased, as bits. */
uint32_t sl_leased_parts(const struct sl_take *take);

/* Is it refused if too little is left? */
bool sl_leased_is_capped(const struct sl_leased_attempt *a, unsigned i);

/* Every cell can be read by such a limit, however full. */
static inline void sl_leased_open_limit(struct sl_limit *limit)
{
    limit->count = limit->capacity = SL_AMOUNT_MAX;
}

/* What the cell had, by the answer. */
static inline uint64_t sl_leased_own(const struct sl_take_part *part)
{
    return part->limit->capacity - part->answer.remaining;
}

/* Find the keys of all parts, and how far each may go. */
enum sl_leased_way sl_leased_judge(struct sl_leased_attempt *a,
                                   struct sl_leased_need *need);

/* From the cells of this node to the limits of all. */
void sl_leased_answer(struct sl_leased_attempt *a);

/* Try it; `tries` so often it was tried before, and `until` then it waits, by
 * its loop; 0: it has not waited. */
void sl_leased_try(struct sl_leased *l, struct sl_take *take, unsigned tries,
                   sl_ns until, bool blind);

/* ---- asking.c ---- */

/* Put a question to the books into the outbox, unless one is under way about
 * this key. False: there is no memory. */
SL_MUST_USE bool sl_leased_prepare(struct sl_leased *l,
                                   const struct sl_leased_need *need,
                                   uint64_t give,
                                   struct sl_leased_errand **outbox);
void sl_leased_send(struct sl_leased_errand *outbox, struct sl_loop *loop);

/* ---- waiting.c ---- */

/* The take waits for the answer to what was asked about need->key. NULL: there
 * is no memory, or too many wait. */
struct sl_leased_waiter *sl_leased_wait(struct sl_leased *l,
                                        const struct sl_leased_need *need,
                                        struct sl_take *take, unsigned tries,
                                        sl_ns until);

/* Nothing is locked any more: from now on it may be late. */
void sl_leased_watch(struct sl_leased_waiter *waiter);

/* An answer is there: take those out who wait for it; the shard is locked.
 * Later, when nothing is, they try again, each on its loop. */
struct sl_leased_waiter *sl_leased_take_out(struct sl_leased_key *key,
                                            bool blind);
void sl_leased_wake(struct sl_leased_waiter *first, struct sl_loop *loop);

#endif
