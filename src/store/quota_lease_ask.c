/* quota_lease_ask.c -- questions to the books: sent and answered; and what is
 * not needed, given back.
 *
 * One question at a time is under way about a key and its period. So each
 * answer says how far the cell may go, whatever became of those before it. What
 * is said about a period that is over keeps nobody waiting; a thread whose
 * clock is still there waits until it was heard. */
#include <stdatomic.h>
#include <string.h>

#include "base/arith.h"
#include "base/clock.h"
#include "net/loop.h"
#include "store/store_int.h"

/* Beyond so many keys those whose units are held are forgotten, too. */
#define HELD_MOST (SL_LEASES_MOST / 4 * 3)

struct sl_quota_leases_job {
    struct sl_quota_ask ask; /* first: the two are cast into each other */
    struct sl_quota_leases *l;
    struct sl_quota_leases_job *next; /* of the outbox */
    struct sl_hash128 hash;
    uint32_t limit_id;
    unsigned shard;
    uint64_t cost;
    sl_ns asked; /* steady */
    size_t size;
    char texts[];
};

static struct sl_str put_text(char **at, struct sl_str text)
{
    struct sl_str copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- is this node known to live? ---- */

sl_ns sl_quota_leases_steady(struct sl_store *store)
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

/* `seen` is read first: whoever finds a new one finds its `since`, too. */
bool sl_quota_leases_is_sure(struct sl_quota_leases *l,
                             const struct sl_quota_leases_key *k, sl_ns mono)
{
    sl_ns seen = atomic_load(&l->seen);

    return mono - seen <= SL_QUOTA_LEASE_TRUST &&
           k->sure >= atomic_load(&l->since);
}

/* Soon: then each question says that it does. */
static bool is_forgotten(struct sl_quota_leases *l, sl_ns mono)
{
    return mono - atomic_load(&l->seen) > SL_QUOTA_LEASE_TRUST / 2;
}

/* ---- making ---- */

bool sl_quota_leases_prepare(struct sl_quota_leases *l,
                             const struct sl_quota_leases_need *need,
                             uint64_t give, struct sl_quota_leases_job **outbox)
{
    struct sl_quota_leases_key *k = need->key;
    size_t size = sizeof(struct sl_quota_leases_job) + k->scope.len +
                  k->id.len + k->limit.len;
    struct sl_quota_leases_job *e;
    char *at;

    if (k->asking)
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
        .scope = put_text(&at, k->scope),
        .id = put_text(&at, k->id),
        .limit = put_text(&at, k->limit),
        .start = k->lease.start,
        .now = need->now,
        .cap = need->cap,
        .want = need->want,
        .least = need->least,
        .ceiling = larger(k->lease.ceiling, k->lease.own),
        .give = give,
        .has = sl_quota_lease_unspent(&k->lease) > 0,
        .lives = give == 0 && is_forgotten(l, need->mono),
    };
    if (need->least > 0) {
        e->ask.need = sl_add_sat(need->least, k->wanted);
        e->ask.want = larger(need->want, e->ask.need);
    }
    k->asking = true;
    k->about = k->lease.start;
    e->next = *outbox;
    *outbox = e;
    return true;
}

/* ---- answers ---- */

/* A hold has come to less, or more, or to an end. */
static void look_again(struct sl_quota_leases *l, struct sl_quota_leases_key *k,
                       sl_ns now)
{
    struct sl_quota_lessor *lender = l->options.lender;
    struct sl_quota_ask who = {.scope = k->scope,
                               .id = k->id,
                               .limit = k->limit,
                               .start = k->lease.start,
                               .now = now};
    unsigned ends = atomic_load(&l->ends);
    bool over = now >= k->held && now >= atomic_load(&l->extended);
    uint64_t own;

    if (k->held == 0 || (ends == k->ends && !over))
        return;
    k->ends = ends;
    if (lender->own && now < k->lease.end && lender->own(lender, &who, &own))
        k->lease.own = own;
    if (over)
        k->held = 0;
}

/* Nobody has a use for it: the period is over. */
static void return_grant(const struct sl_quota_leases_job *e,
                         struct sl_quota_leases_key *k,
                         struct sl_quota_leases_job **outbox)
{
    struct sl_quota_leases_key over = {.hash = e->hash,
                                       .limit_id = e->limit_id,
                                       .scope = e->ask.scope,
                                       .id = e->ask.id,
                                       .limit = e->ask.limit,
                                       .lease = {.start = e->ask.start}};
    struct sl_quota_leases_need need = {
        .key = &over, .shard = e->shard, .now = e->ask.now};

    if (!sl_quota_leases_prepare(e->l, &need, e->ask.terms.granted, outbox))
        return;
    if (e->ask.start < k->lease.start) {
        k->aside++;
    } else { /* a clock has stepped back */
        k->asking = true;
        k->about = e->ask.start;
    }
}

static void land_locked(struct sl_quota_leases_job *e,
                        struct sl_quota_leases_key *k,
                        struct sl_quota_leases_job **outbox)
{
    bool same = k->lease.start == e->ask.start;
    struct sl_quota_lease_wish wish = {.cost = e->cost,
                                       .least = e->ask.least,
                                       .cap = e->ask.cap,
                                       .has = e->ask.has};

    if (same && e->ask.err && e->ask.unsure)
        k->doubtful = true;
    else if (same && e->ask.err)
        sl_quota_lease_keep(&k->lease, e->ask.give);
    if (e->ask.err || e->ask.give > 0)
        return;
    if (e->ask.lives)
        sl_quota_leases_seen(&e->l->store, e->asked);
    if (same) {
        k->doubtful = false;
        k->sure = e->asked;
        look_again(e->l, k, e->ask.now);
    }
    if (same)
        sl_quota_lease_granted(&k->lease, &e->ask.terms, &wish,
                               sl_quota_leases_steady(&e->l->store));
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
    struct sl_quota_leases_job *e = (struct sl_quota_leases_job *)ask;
    struct sl_quota_leases_job *outbox = NULL;
    struct sl_quota_leases_waiter *waiters = NULL;
    struct sl_quota_leases *l = e->l;
    struct sl_loop *loop = ask->loop;
    struct sl_quota_leases_key *k;

    atomic_store(&l->away, ask->err != 0);
    pthread_mutex_lock(&l->shards[e->shard].lock);
    k = sl_quota_leases_again(l, e->shard, e->hash, e->limit_id);
    if (k) {
        if (k->aside > 0 && ask->start < k->lease.start)
            k->aside--;
        else
            k->asking = false;
        land_locked(e, k, &outbox);
        /* Without the books, what was to be given back may be enough. */
        if (!k->asking || k->about == ask->start)
            waiters = sl_quota_leases_take_out(k, ask->err != 0);
    }
    pthread_mutex_unlock(&l->shards[e->shard].lock);
    sl_alloc_free(l->alloc, e, e->size);
    sl_quota_leases_send(outbox, loop);
    sl_quota_leases_wake(waiters, loop);
}

void sl_quota_leases_send(struct sl_quota_leases_job *outbox,
                          struct sl_loop *loop)
{
    for (struct sl_quota_leases_job *e = outbox, *next; e; e = next) {
        next = e->next;
        e->ask.loop = loop;
        e->ask.done = on_answer;
        atomic_fetch_add(&e->l->asked, 1);
        e->l->options.lender->ask(e->l->options.lender, &e->ask);
    }
}

/* ---- now and then ---- */

struct beat {
    struct sl_quota_leases *l;
    struct sl_quota_leases_job *outbox;
    sl_ns now, mono;
    bool all;
    bool away; /* nothing goes back; one question finds out if they answer */
};

/* Is the key to be forgotten? Not while the books are being asked about it, nor
 * while something that is held may come back, if there is room. */
static bool is_over(const struct beat *b, const struct sl_quota_leases_key *k)
{
    return !k->asking && k->aside == 0 && !k->waiting && k->wanted == 0 &&
           !k->doubtful &&
           (k->held == 0 || b->now >= k->lease.end ||
            atomic_load(&b->l->keys) > HELD_MOST);
}

static bool trim(void *ctx, struct sl_quota_leases_key *k)
{
    struct beat *b = ctx;
    bool idle = b->all || !k->touched;
    struct sl_quota_leases_need need = {
        .key = k,
        .shard = (unsigned)(k->hash.hi % SHARDS),
        .now = b->now,
        .mono = b->mono,
    };
    uint64_t units;

    look_again(b->l, k, b->now);
    if (b->all)
        k->asking = false; /* nobody takes any more, whatever is granted */
    if (k->asking)
        return false;
    if (b->away) {
        if (!b->outbox)
            (void)!sl_quota_leases_prepare(b->l, &need, 0, &b->outbox);
        return false;
    }
    if (k->doubtful && !b->all) {
        (void)!sl_quota_leases_prepare(b->l, &need, 0, &b->outbox);
        return false;
    }
    units = sl_quota_lease_surplus(&k->lease, idle);
    k->touched = false;
    if (units == 0)
        return idle && is_over(b, k);
    if (!sl_quota_leases_prepare(b->l, &need, units, &b->outbox))
        sl_quota_lease_keep(&k->lease, units);
    return false;
}

void sl_quota_leases_heartbeat(struct sl_store *store, struct sl_loop *loop,
                               sl_ns now)
{
    struct beat b = {.l = (struct sl_quota_leases *)store,
                     .now = now,
                     .mono = sl_quota_leases_steady(store)};

    b.away = atomic_load(&b.l->away);
    sl_quota_leases_each(b.l, trim, &b);
    sl_quota_leases_send(b.outbox, loop);
}

void sl_quota_leases_drain(struct sl_store *store, struct sl_loop *loop,
                           sl_ns now)
{
    struct beat b = {.l = (struct sl_quota_leases *)store,
                     .now = now,
                     .mono = sl_quota_leases_steady(store),
                     .all = true};

    sl_quota_leases_each(b.l, trim, &b);
    sl_quota_leases_send(b.outbox, loop);
}

/* ---- counts ---- */

static bool add_up(void *ctx, struct sl_quota_leases_key *k)
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
    sl_quota_leases_each(l, add_up, &ret->unspent);
}

/* ---- takes that wait for an answer of the books.
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
