/* waiting.c -- takes that wait for an answer of the books.
 *
 * One question at a time is under way about a key, whoever asked it; all who
 * need units of that key wait for its answer, in the order in which they came,
 * and try again. Who is still short then asks for himself, and for those who
 * wait behind him.
 *
 *     sl_quota_leases_wait --> key->waiting --take_out--> wake --> tries again
 *                             |                       |
 *                             +-- on_late: too late --+--> tries blindly
 *
 * A waiter belongs to the thread of its take: answers may land on another, and
 * are posted. */
#include <stdatomic.h>
#include <string.h>

#include "base/arith.h"
#include "net/loop.h"
#include "store/store_int.h"

#define WAITING_MOST 16384

/* Whoever was late while he was being woken. */
#define LATER (10 * SL_MS)

struct sl_quota_leases_waiter {
    struct sl_quota_leases_waiter
        *next; /* of the key; later, of those to be woken */
    struct sl_quota_leases *l;
    struct sl_take *take;
    struct sl_timer *timer; /* or NULL */
    struct sl_hash128 hash;
    uint32_t limit_id;
    unsigned shard, tries;
    sl_ns until; /* steady: however often it tries, it waits only once */
    uint64_t cost;
    bool out;   /* of the key's list: it is woken soon */
    bool blind; /* the books did not answer, or too late */
};

static void put_last(struct sl_quota_leases_key *k,
                     struct sl_quota_leases_waiter *w)
{
    w->next = NULL;
    *k->waiting_end = w;
    k->waiting_end = &w->next;
}

static void unlink_locked(struct sl_quota_leases_waiter *w)
{
    struct sl_quota_leases_key *k =
        sl_quota_leases_again(w->l, w->shard, w->hash, w->limit_id);
    struct sl_quota_leases_waiter **at = k ? &k->waiting : NULL;

    while (at && *at && *at != w)
        at = &(*at)->next;
    if (!at || !*at)
        return;
    *at = w->next;
    if (!w->next)
        k->waiting_end = at;
}

struct sl_quota_leases_waiter *
sl_quota_leases_wait(struct sl_quota_leases *l,
                     const struct sl_quota_leases_need *need,
                     struct sl_take *take, unsigned tries, sl_ns until)
{
    struct sl_quota_leases_waiter *w = NULL;

    if (atomic_load(&l->waiting) < WAITING_MOST)
        w = sl_alloc_new(l->alloc, sizeof(*w));
    if (!w)
        return NULL;
    *w = (struct sl_quota_leases_waiter){.l = l,
                                         .take = take,
                                         .hash = need->key->hash,
                                         .limit_id = need->key->limit_id,
                                         .shard = need->shard,
                                         .tries = tries,
                                         .until = until,
                                         .cost = need->cost};
    put_last(need->key, w);
    need->key->wanted = sl_add_sat(need->key->wanted, w->cost);
    atomic_fetch_add(&l->waiting, 1);
    atomic_fetch_add(&l->waited, 1);
    return w;
}

/* ---- trying again ---- */

/* It no longer counts among those who wait. */
static void leave(struct sl_quota_leases_waiter *w)
{
    struct sl_quota_leases_shard *shard = &w->l->shards[w->shard];
    struct sl_quota_leases_key *k;

    pthread_mutex_lock(&shard->lock);
    k = sl_quota_leases_again(w->l, w->shard, w->hash, w->limit_id);
    if (k)
        k->wanted = sl_sub_floor(k->wanted, w->cost);
    pthread_mutex_unlock(&shard->lock);
}

static void on_wake(void *ctx)
{
    struct sl_quota_leases_waiter *w = ctx;
    struct sl_quota_leases *l = w->l;
    struct sl_take *take = w->take;
    unsigned tries = w->tries + 1;
    sl_ns until = w->until;
    bool blind = w->blind;

    leave(w);
    sl_timer_free(w->timer);
    atomic_fetch_sub(&l->waiting, 1);
    sl_alloc_free(l->alloc, w, sizeof(*w));
    sl_quota_leases_try(l, take, tries, until, blind);
}

/* Too late, on the take's own thread. Whoever was taken out is woken soon; or
 * was put back, and is found here the next time. */
static void on_late(void *ctx)
{
    struct sl_quota_leases_waiter *w = ctx;
    struct sl_quota_leases_shard *shard = &w->l->shards[w->shard];
    bool out;

    pthread_mutex_lock(&shard->lock);
    out = w->out;
    if (!out)
        unlink_locked(w);
    w->out = w->blind = true;
    pthread_mutex_unlock(&shard->lock);
    if (!out)
        on_wake(w);
    else if (w->timer)
        sl_timer_start(w->timer, LATER);
}

void sl_quota_leases_watch(struct sl_quota_leases_waiter *w)
{
    struct sl_loop *loop = w->take->loop;
    sl_ns now = sl_loop_mono(loop), after;

    if (w->until == 0)
        w->until = w->take->deadline > 0
                       ? w->take->deadline
                       : sl_ns_add_sat(now, w->l->options.patience);
    after = w->until - now;
    if (sl_timer_new(loop, on_late, w, &w->timer)) {
        on_late(w); /* nobody would tell it */
        return;
    }
    sl_timer_start(w->timer, after > 0 ? after : 0);
}

struct sl_quota_leases_waiter *
sl_quota_leases_take_out(struct sl_quota_leases_key *k, bool blind)
{
    struct sl_quota_leases_waiter *first = k->waiting;

    for (struct sl_quota_leases_waiter *w = first; w; w = w->next) {
        w->out = true;
        w->blind |= blind;
    }
    k->waiting = NULL;
    k->waiting_end = &k->waiting;
    return first;
}

/* There is no memory to tell its thread: it waits until it is late, or for
 * another answer. */
static void put_back(struct sl_quota_leases_waiter *w)
{
    struct sl_quota_leases_shard *shard = &w->l->shards[w->shard];
    struct sl_quota_leases_key *k;

    pthread_mutex_lock(&shard->lock);
    k = sl_quota_leases_again(w->l, w->shard, w->hash, w->limit_id);
    w->out = false;
    if (k)
        put_last(k, w);
    pthread_mutex_unlock(&shard->lock);
}

void sl_quota_leases_wake(struct sl_quota_leases_waiter *first,
                          struct sl_loop *loop)
{
    for (struct sl_quota_leases_waiter *w = first, *next; w; w = next) {
        next = w->next;
        if (w->take->loop == loop)
            on_wake(w);
        else if (sl_loop_post(w->take->loop, on_wake, w))
            put_back(w);
    }
}
