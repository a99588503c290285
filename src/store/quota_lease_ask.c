/* quota_lease_ask.c -- questions to the usage database, their answers, and
 * takes that wait for them.
 *
 * One question at a time is in flight about a key and its period. So each
 * answer tells how far the cell may go, whatever happened to earlier ones.
 *
 * All takes that need units of a key wait for the answer, in the order in which
 * they came, and try again. A take that is still short then asks for itself and
 * the takes behind it.
 *
 *     sl_quota_waiter_new --> key->waiting --take_out--> wake --> tries again
 *                                 |                        |
 *                                 +--- on_late: too late --+--> tries blindly
 *
 * A waiter belongs to the thread of its take. Answers may arrive on another
 * thread, and are posted.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/arith.h"
#include "base/clock.h"
#include "net/loop.h"
#include "store/quota_lease_int.h"

/* With more keys, those with holds are removed, too. */
#define HELD_MOST (SL_LEASES_MOST / 4 * 3)

#define WAITING_MOST 16384
#define LATER        (10 * SL_MS) /* a waiter that is late while it is woken */

struct sl_quota_job {
    struct sl_quota_ask ask; /* first */
    struct sl_quota_leases *l;
    struct sl_quota_job *next; /* of the outbox */
    struct sl_hash128 hash;
    uint32_t limit_id;
    unsigned shard;
    uint64_t cost;
    sl_ns asked; /* monotonic */
    size_t size;
    char texts[];
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- is this node known to be alive? ---- */

sl_ns sl_quota_leases_mono(struct sl_store *store)
{
    struct sl_quota_leases *l = (struct sl_quota_leases *)store;

    return l->options.mono ? l->options.mono(l->options.ctx) : sl_clock_mono();
}

void sl_quota_leases_seen(struct sl_store *store, sl_ns at)
{
    struct sl_quota_leases *l = (struct sl_quota_leases *)store;

    pthread_mutex_lock(&l->seeing);
    if (at - atomic_load(&l->seen) > SL_QUOTA_LEASE_TRUST)
        atomic_store(&l->since, at);
    if (at > atomic_load(&l->seen))
        atomic_store(&l->seen, at);
    pthread_mutex_unlock(&l->seeing);
}

/* `seen` is read first: a reader of a new `seen` also finds its `since`. */
bool sl_quota_key_is_sure(struct sl_quota_leases *l,
                          const struct sl_quota_key *k, sl_ns mono)
{
    sl_ns seen = atomic_load(&l->seen);

    return mono - seen <= SL_QUOTA_LEASE_TRUST &&
           k->sure >= atomic_load(&l->since);
}

/* Should questions report that this node is alive? */
static bool is_unseen(struct sl_quota_leases *l, sl_ns mono)
{
    return mono - atomic_load(&l->seen) > SL_QUOTA_LEASE_TRUST / 2;
}

/* ---- questions ---- */

bool sl_quota_job_add(struct sl_quota_leases *l,
                      const struct sl_quota_need *need, uint64_t give,
                      struct sl_quota_job **outbox)
{
    struct sl_quota_key *k = need->key;
    size_t size =
        sizeof(struct sl_quota_job) + k->scope.len + k->id.len + k->limit.len;
    struct sl_quota_job *e;
    char *at;

    if (k->pending)
        return true;
    e = sl_alloc_new(l->alloc, size);
    if (!e)
        return false;
    memset(e, 0, sizeof(*e));
    at = e->texts;
    e->size = size;
    e->l = l;
    e->hash = k->hash;
    e->limit_id = k->limit_id;
    e->shard = need->shard;
    e->cost = need->cost;
    e->asked = need->mono;
    e->ask = (struct sl_quota_ask){
        .scope = sl_quota_text_copy(&at, k->scope),
        .id = sl_quota_text_copy(&at, k->id),
        .limit = sl_quota_text_copy(&at, k->limit),
        .start = k->lease.start,
        .now = need->now,
        .cap = need->cap,
        .want = need->want,
        .least = need->least,
        .ceiling = larger(k->lease.ceiling, k->lease.count),
        .give = give,
        .has = sl_quota_lease_unspent(&k->lease) > 0,
        .alive = give == 0 && is_unseen(l, need->mono),
        .behind =
            need->want > 0 && sl_quota_lease_is_behind(&k->lease, need->cap),
    };
    if (need->least > 0) {
        e->ask.need = sl_add_sat(need->least, k->wanted);
        e->ask.want = larger(need->want, e->ask.need);
    }
    k->pending = true;
    k->pending_start = k->lease.start;
    e->next = *outbox;
    *outbox = e;
    return true;
}

/* ---- waiters ---- */

struct sl_quota_waiter {
    struct sl_quota_waiter *next; /* of the key; later, of those to be woken */
    struct sl_quota_leases *l;
    struct sl_take *take;
    struct sl_timer *timer; /* or NULL */
    struct sl_hash128 hash;
    uint32_t limit_id;
    unsigned shard, tries;
    sl_ns until; /* monotonic: of all its attempts */
    uint64_t cost;
    bool out;   /* removed from the key's list: it is woken soon */
    bool blind; /* the usage database did not answer in time */
};

static void put_last(struct sl_quota_key *k, struct sl_quota_waiter *w)
{
    w->next = NULL;
    *k->waiting_end = w;
    k->waiting_end = &w->next;
}

static void unlink_locked(struct sl_quota_waiter *w)
{
    struct sl_quota_key *k =
        sl_quota_key_find(w->l, w->shard, w->hash, w->limit_id);
    struct sl_quota_waiter **at = k ? &k->waiting : NULL;

    while (at && *at && *at != w)
        at = &(*at)->next;
    if (!at || !*at)
        return;
    *at = w->next;
    if (!w->next)
        k->waiting_end = at;
}

struct sl_quota_waiter *sl_quota_waiter_new(struct sl_quota_leases *l,
                                            const struct sl_quota_need *need,
                                            struct sl_take *take,
                                            unsigned tries, sl_ns until)
{
    struct sl_quota_waiter *w = NULL;

    if (atomic_load(&l->waiting) < WAITING_MOST)
        w = sl_alloc_new(l->alloc, sizeof(*w));
    if (!w)
        return NULL;
    *w = (struct sl_quota_waiter){.l = l,
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

/* It no longer counts in `wanted`. */
static void leave(struct sl_quota_waiter *w)
{
    struct sl_quota_shard *shard = &w->l->shards[w->shard];
    struct sl_quota_key *k;

    pthread_mutex_lock(&shard->lock);
    k = sl_quota_key_find(w->l, w->shard, w->hash, w->limit_id);
    if (k)
        k->wanted = sl_sub_floor(k->wanted, w->cost);
    pthread_mutex_unlock(&shard->lock);
}

static void on_wake(void *ctx)
{
    struct sl_quota_waiter *w = ctx;
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

/* The deadline, on the take's own thread. A waiter that was taken out is woken
 * soon, or was put back and is found here the next time. */
static void on_late(void *ctx)
{
    struct sl_quota_waiter *w = ctx;
    struct sl_quota_shard *shard = &w->l->shards[w->shard];
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

void sl_quota_waiter_watch(struct sl_quota_waiter *w)
{
    struct sl_loop *loop = w->take->loop;
    sl_ns now = sl_loop_mono(loop), after;

    if (w->until == 0)
        w->until = w->take->deadline > 0
                       ? w->take->deadline
                       : sl_ns_add_sat(now, w->l->options.patience);
    after = w->until - now;
    if (sl_timer_new(loop, on_late, w, &w->timer)) {
        on_late(w); /* there would be no deadline */
        return;
    }
    sl_timer_start(w->timer, after > 0 ? after : 0);
}

static struct sl_quota_waiter *take_out(struct sl_quota_key *k, bool blind)
{
    struct sl_quota_waiter *first = k->waiting;

    for (struct sl_quota_waiter *w = first; w; w = w->next) {
        w->out = true;
        w->blind |= blind;
    }
    k->waiting = NULL;
    k->waiting_end = &k->waiting;
    return first;
}

/* Its thread can't be notified without memory: it waits for its deadline or for
 * another answer. */
static void put_back(struct sl_quota_waiter *w)
{
    struct sl_quota_shard *shard = &w->l->shards[w->shard];
    struct sl_quota_key *k;

    pthread_mutex_lock(&shard->lock);
    k = sl_quota_key_find(w->l, w->shard, w->hash, w->limit_id);
    w->out = false;
    if (k)
        put_last(k, w);
    pthread_mutex_unlock(&shard->lock);
}

static void wake(struct sl_quota_waiter *first, struct sl_loop *loop)
{
    for (struct sl_quota_waiter *w = first, *next; w; w = next) {
        next = w->next;
        if (w->take->loop == loop)
            on_wake(w);
        else if (sl_loop_post(w->take->loop, on_wake, w))
            put_back(w);
    }
}

/* ---- answers ---- */

static struct sl_quota_ask name_of(const struct sl_quota_key *k, sl_ns now)
{
    return (struct sl_quota_ask){.scope = k->scope,
                                 .id = k->id,
                                 .limit = k->limit,
                                 .start = k->lease.start,
                                 .now = now};
}

/* Reads the cell again if holds may have changed it. */
static void read_cell(struct sl_quota_leases *l, struct sl_quota_key *k,
                      sl_ns now)
{
    struct sl_quota_lessor *lessor = l->options.lessor;
    struct sl_quota_ask who = name_of(k, now);
    unsigned ends = atomic_load(&l->ends);
    bool over = now >= k->held && now >= atomic_load(&l->extended);
    uint64_t count;

    if (k->held == 0 || (ends == k->ends && !over))
        return;
    k->ends = ends;
    if (lessor->count && now < k->lease.end &&
        lessor->count(lessor, &who, &count))
        k->lease.count = count;
    if (over)
        k->held = 0;
}

/* Returns a grant for a period that is over. */
static void return_grant(const struct sl_quota_job *e, struct sl_quota_key *k,
                         struct sl_quota_job **outbox)
{
    struct sl_quota_key over = {.hash = e->hash,
                                .limit_id = e->limit_id,
                                .scope = e->ask.scope,
                                .id = e->ask.id,
                                .limit = e->ask.limit,
                                .lease = {.start = e->ask.start}};
    struct sl_quota_need need = {
        .key = &over, .shard = e->shard, .now = e->ask.now};

    if (!sl_quota_job_add(e->l, &need, e->ask.terms.granted, outbox))
        return;
    if (e->ask.start < k->lease.start) {
        k->old_pending++;
    } else { /* a clock has stepped back */
        k->pending = true;
        k->pending_start = e->ask.start;
    }
}

static void land_locked(struct sl_quota_job *e, struct sl_quota_key *k,
                        struct sl_quota_job **outbox)
{
    bool same = k->lease.start == e->ask.start;
    struct sl_quota_lease_wish wish = {.cost = e->cost,
                                       .least = e->ask.least,
                                       .cap = e->ask.cap,
                                       .has = e->ask.has};

    if (same && e->ask.err && e->ask.uncertain)
        k->uncertain = true;
    else if (same && e->ask.err)
        sl_quota_lease_keep(&k->lease, e->ask.give);
    if (e->ask.err || e->ask.give > 0)
        return;
    if (e->ask.alive)
        sl_quota_leases_seen(&e->l->store, e->asked);
    if (same) {
        k->uncertain = false;
        k->sure = e->asked;
        read_cell(e->l, k, e->ask.now);
    }
    if (same)
        sl_quota_lease_granted(&k->lease, &e->ask.terms, &wish,
                               sl_quota_leases_mono(&e->l->store));
    else if (e->ask.terms.granted > 0)
        return_grant(e, k, outbox);
    if (same && k->lease.refused_until > 0 && k->unsettled > 0) {
        k->unsettled--;
        sl_quota_lease_retry(&k->lease);
    }
    if (e->ask.least > 0 && e->ask.terms.granted == 0)
        atomic_fetch_add(&e->l->refused, 1);
}

static void on_answer(struct sl_quota_ask *ask)
{
    struct sl_quota_job *e = (struct sl_quota_job *)ask;
    struct sl_quota_job *outbox = NULL;
    struct sl_quota_waiter *waiters = NULL;
    struct sl_quota_leases *l = e->l;
    struct sl_loop *loop = ask->loop;
    struct sl_quota_key *k;

    atomic_store(&l->away, ask->err != 0);
    pthread_mutex_lock(&l->shards[e->shard].lock);
    k = sl_quota_key_find(l, e->shard, e->hash, e->limit_id);
    if (k) {
        if (k->old_pending > 0 && ask->start < k->lease.start)
            k->old_pending--;
        else
            k->pending = false;
        land_locked(e, k, &outbox);
        /* Without an answer, units that were to be returned may be enough. */
        if (!k->pending || k->pending_start == ask->start)
            waiters = take_out(k, ask->err != 0);
    }
    pthread_mutex_unlock(&l->shards[e->shard].lock);
    sl_alloc_free(l->alloc, e, e->size);
    sl_quota_job_send(outbox, loop);
    wake(waiters, loop);
}

void sl_quota_job_send(struct sl_quota_job *outbox, struct sl_loop *loop)
{
    for (struct sl_quota_job *e = outbox, *next; e; e = next) {
        next = e->next;
        e->ask.loop = loop;
        e->ask.done = on_answer;
        atomic_fetch_add(&e->l->asked, 1);
        e->l->options.lessor->ask(e->l->options.lessor, &e->ask);
    }
}

/* ---- heartbeat ---- */

struct beat {
    struct sl_quota_leases *l;
    struct sl_quota_job *outbox;
    sl_ns now, mono;
    bool all;
    bool away; /* nothing is returned; one question tests the database */
};

/* May the key be removed? Not while a question is in flight, nor while held
 * units may come back, if there is room. */
static bool is_over(const struct beat *b, const struct sl_quota_key *k)
{
    return !k->pending && k->old_pending == 0 && !k->waiting &&
           k->wanted == 0 && !k->uncertain &&
           (k->held == 0 || b->now >= k->lease.end ||
            atomic_load(&b->l->keys) > HELD_MOST);
}

/* The cell of a level counts all that was ever taken here, and the end of no
 * period empties it. So it is emptied when nothing is leased any more, which
 * the usage database is asked once. Returns false while it is. */
static bool empty_cell(struct beat *b, struct sl_quota_key *k,
                       const struct sl_quota_need *need)
{
    struct sl_quota_lessor *lessor = b->l->options.lessor;
    struct sl_quota_ask who = name_of(k, b->now);

    if (k->lease.end != SL_NS_MAX || k->lease.count == 0 || b->all ||
        !lessor->empty)
        return true;
    if (sl_quota_lease_is_known(&k->lease)) {
        lessor->empty(lessor, &who);
        return true;
    }
    if (k->asked)
        return true;
    k->asked = sl_quota_job_add(b->l, need, 0, &b->outbox);
    return !k->asked;
}

static bool trim(void *ctx, struct sl_quota_key *k)
{
    struct beat *b = ctx;
    bool idle = b->all || !k->touched;
    struct sl_quota_need need = {
        .key = k,
        .shard = (unsigned)(k->hash.hi % SHARDS),
        .now = b->now,
        .mono = b->mono,
    };
    uint64_t units;

    read_cell(b->l, k, b->now);
    if (b->all)
        k->pending = false; /* there are no more takes */
    if (k->pending)
        return false;
    if (b->away) {
        if (!b->outbox)
            (void)!sl_quota_job_add(b->l, &need, 0, &b->outbox);
        return false;
    }
    if (k->uncertain && !b->all) {
        (void)!sl_quota_job_add(b->l, &need, 0, &b->outbox);
        return false;
    }
    units = sl_quota_lease_surplus(&k->lease, idle);
    k->touched = false;
    k->asked = k->asked && idle;
    if (units == 0)
        return idle && is_over(b, k) && empty_cell(b, k, &need);
    if (!sl_quota_job_add(b->l, &need, units, &b->outbox))
        sl_quota_lease_keep(&k->lease, units);
    return false;
}

static void beat(struct sl_store *store, struct sl_loop *loop, sl_ns now,
                 bool all)
{
    struct beat b = {.l = (struct sl_quota_leases *)store,
                     .now = now,
                     .mono = sl_quota_leases_mono(store),
                     .all = all};

    b.away = !all && atomic_load(&b.l->away);
    sl_quota_key_each(b.l, trim, &b);
    sl_quota_job_send(b.outbox, loop);
}

void sl_quota_leases_heartbeat(struct sl_store *store, struct sl_loop *loop,
                               sl_ns now)
{
    beat(store, loop, now, false);
}

void sl_quota_leases_drain(struct sl_store *store, struct sl_loop *loop,
                           sl_ns now)
{
    beat(store, loop, now, true);
}

static bool add_up(void *ctx, struct sl_quota_key *k)
{
    *(uint64_t *)ctx += sl_quota_lease_unspent(&k->lease);
    return false;
}

void sl_quota_leases_count(struct sl_store *store,
                           struct sl_quota_leases_counts *ret)
{
    struct sl_quota_leases *l = (struct sl_quota_leases *)store;

    *ret = (struct sl_quota_leases_counts){
        .asked = atomic_load(&l->asked),
        .waited = atomic_load(&l->waited),
        .refused = atomic_load(&l->refused),
        .failed = atomic_load(&l->failed),
        .keys = atomic_load(&l->keys),
    };
    sl_quota_key_each(l, add_up, &ret->unspent);
}
