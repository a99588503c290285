/* asking.c -- questions to the books: sent, waited for, answered; and what is
 * not needed, given back.
 *
 * A take that waits belongs to its errand until it is answered or late. An
 * errand lives until the books have answered: what they grant to somebody who
 * has gone stays in the lease. */
#include <stdatomic.h>
#include <string.h>

#include "net/loop.h"
#include "store/lease/inner.h"

#define WAITING_MOST 16384

/* Beyond so many keys those whose units are held are forgotten, too. */
#define HELD_MOST (SL_LEASES_MOST / 4 * 3)

struct sl_leased_errand {
    struct sl_lease_ask ask; /* first: the two are cast into each other */
    struct sl_leased *l;
    struct sl_leased_errand *next; /* of the outbox */
    struct sl_hash128 hash;
    uint32_t limit_id;
    unsigned shard;
    uint64_t cost;
    unsigned epoch;
    bool alone;           /* when it was made nothing else was on its way */
    bool ahead;           /* before it is needed */
    struct sl_take *take; /* or NULL: nobody waits any more */
    unsigned tries;
    struct sl_timer *timer; /* or NULL */
    size_t size;
    char texts[];
};

/* ---- making ---- */

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

bool sl_leased_prepare(struct sl_leased *l, const struct sl_leased_need *need,
                       uint64_t give, struct sl_leased_errand **outbox)
{
    struct sl_leased_key *k = need->key;
    size_t size = sizeof(struct sl_leased_errand) + k->scope.len + k->id.len +
                  k->limit.len;
    struct sl_leased_errand *e = NULL;
    char *at;

    if (atomic_load(&l->waiting) < WAITING_MOST)
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
    e->take = need->take;
    e->tries = need->tries;
    e->ahead = !need->take && need->want > 0;
    e->ask = (struct sl_lease_ask){
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
    };
    e->alone = k->asking++ == 0;
    e->epoch = ++k->epoch;
    e->next = *outbox;
    *outbox = e;
    atomic_fetch_add(&l->waiting, 1);
    return true;
}

static void free_errand(struct sl_leased_errand *e)
{
    sl_timer_free(e->timer);
    atomic_fetch_sub(&e->l->waiting, 1);
    sl_alloc_free(e->l->alloc, e, e->size);
}

/* ---- answers ---- */

/* Nobody has a use for it: the period is over, or the key was forgotten. */
static void return_grant(const struct sl_leased_errand *e,
                         struct sl_leased_errand **outbox)
{
    struct sl_leased_key gone = {.hash = e->hash,
                                 .limit_id = e->limit_id,
                                 .scope = e->ask.scope,
                                 .id = e->ask.id,
                                 .limit = e->ask.limit,
                                 .lease = {.start = e->ask.start}};
    struct sl_leased_need need = {
        .key = &gone, .shard = e->shard, .now = e->ask.now};

    (void)!sl_leased_prepare(e->l, &need, e->ask.terms.granted, outbox);
}

static void land_locked(struct sl_leased_errand *e,
                        struct sl_leased_errand **outbox)
{
    struct sl_leased_key *k =
        sl_leased_again(e->l, e->shard, e->hash, e->limit_id);
    bool same = k && k->lease.start == e->ask.start;
    bool alone = k && e->alone && k->epoch == e->epoch;

    atomic_store(&e->l->away, e->ask.err != 0);
    if (k && k->asking > 0)
        k->asking--;
    if (k && e->ahead)
        k->ahead = false;
    if (same && e->ask.err && e->ask.unsure)
        k->doubtful = true;
    else if (same && e->ask.err)
        sl_lease_keep(&k->lease, e->ask.give);
    if (e->ask.err || e->ask.give > 0)
        return;
    if (same && alone)
        k->doubtful = false;
    if (same)
        sl_lease_land(&k->lease, &e->ask.terms, alone, e->cost, e->ask.cap,
                      sl_loop_steady(e->ask.loop));
    else if (e->ask.terms.granted > 0)
        return_grant(e, outbox);
    if (e->ask.least > 0 && e->ask.terms.granted == 0)
        atomic_fetch_add(&e->l->refused, 1);
}

static void on_answer(struct sl_lease_ask *ask)
{
    struct sl_leased_errand *e = (struct sl_leased_errand *)ask;
    struct sl_leased_errand *outbox = NULL;
    struct sl_leased *l = e->l;
    struct sl_take *take = e->take;
    unsigned tries = e->tries + 1;
    bool failed = ask->err != 0;
    struct sl_loop *loop = ask->loop;

    pthread_mutex_lock(&l->shards[e->shard].lock);
    land_locked(e, &outbox);
    pthread_mutex_unlock(&l->shards[e->shard].lock);
    free_errand(e);
    sl_leased_send(outbox, loop);
    /* Without the books, what was to be given back may be enough. */
    if (take)
        sl_leased_try(l, take, tries, failed);
}

/* ---- sending ---- */

/* Whoever asked is told, and the answer stays in the lease. */
static void on_late(void *ctx)
{
    struct sl_leased_errand *e = ctx;
    struct sl_take *take = e->take;

    e->take = NULL;
    if (take)
        sl_leased_try(e->l, take, e->tries + 1, true);
}

static bool start_timer(struct sl_leased_errand *e, struct sl_loop *loop)
{
    sl_ns after = e->l->options.patience;

    if (e->take->deadline > 0)
        after = e->take->deadline - sl_loop_steady(loop);
    if (sl_timer_new(loop, on_late, e, &e->timer))
        return false;
    sl_timer_start(e->timer, after > 0 ? after : 0);
    return true;
}

void sl_leased_send(struct sl_leased_errand *outbox, struct sl_loop *loop)
{
    for (struct sl_leased_errand *e = outbox, *next; e; e = next) {
        next = e->next;
        e->ask.loop = loop;
        e->ask.done = on_answer;
        atomic_fetch_add(&e->l->asked, 1);
        if (e->take)
            atomic_fetch_add(&e->l->waited, 1);
        if (e->take && !start_timer(e, loop)) {
            e->ask.err = SLUICE_ENOMEM;
            on_answer(&e->ask);
            continue;
        }
        e->l->options.lender->ask(e->l->options.lender, &e->ask);
    }
}

/* ---- now and then ---- */

struct beat {
    struct sl_leased *l;
    struct sl_leased_errand *outbox;
    sl_ns now;
    bool all;
    bool away; /* nothing goes back; one question finds out if they answer */
};

/* A hold has come to less, or more, or to an end. */
static void look_again(struct beat *b, struct sl_leased_key *k)
{
    struct sl_lender *lender = b->l->options.lender;
    struct sl_lease_ask who = {.scope = k->scope,
                               .id = k->id,
                               .limit = k->limit,
                               .start = k->lease.start,
                               .now = b->now};
    uint64_t own;

    if (k->held && lender->own && b->now < k->lease.end &&
        lender->own(lender, &who, &own))
        k->lease.own = own;
}

/* Is the key to be forgotten? Not while the books are being asked about it, nor
 * while something that is held may come back, if there is room. */
static bool is_over(const struct beat *b, const struct sl_leased_key *k)
{
    return k->asking == 0 && !k->doubtful &&
           (!k->held || b->now >= k->lease.end ||
            atomic_load(&b->l->keys) > HELD_MOST);
}

static bool trim(void *ctx, struct sl_leased_key *k)
{
    struct beat *b = ctx;
    bool idle = b->all || !k->touched;
    struct sl_leased_need need = {
        .key = k, .shard = (unsigned)(k->hash.hi % SHARDS), .now = b->now};
    uint64_t units;

    look_again(b, k);
    if (b->away) {
        if (!b->outbox && k->asking == 0)
            (void)!sl_leased_prepare(b->l, &need, 0, &b->outbox);
        return false;
    }
    if (k->doubtful && k->asking == 0 && !b->all) {
        (void)!sl_leased_prepare(b->l, &need, 0, &b->outbox);
        return false;
    }
    units = sl_lease_trim(&k->lease, idle);
    k->touched = false;
    if (units == 0)
        return idle && is_over(b, k);
    if (!sl_leased_prepare(b->l, &need, units, &b->outbox))
        sl_lease_keep(&k->lease, units);
    return false;
}

void sl_leased_beat(struct sl_store *store, struct sl_loop *loop, sl_ns now)
{
    struct beat b = {.l = (struct sl_leased *)store, .now = now};

    b.away = atomic_load(&b.l->away);
    sl_leased_each(b.l, trim, &b);
    sl_leased_send(b.outbox, loop);
}

void sl_leased_drain(struct sl_store *store, struct sl_loop *loop, sl_ns now)
{
    struct beat b = {.l = (struct sl_leased *)store, .now = now, .all = true};

    sl_leased_each(b.l, trim, &b);
    sl_leased_send(b.outbox, loop);
}

/* ---- counts ---- */

static bool add_up(void *ctx, struct sl_leased_key *k)
{
    *(uint64_t *)ctx += sl_lease_unspent(&k->lease);
    return false;
}

void sl_leased_count(struct sl_store *store, struct sl_leased_counts *ret)
{
    struct sl_leased *l = (struct sl_leased *)store;

    *ret = (struct sl_leased_counts){
        .asked = atomic_load(&l->asked),
        .waited = atomic_load(&l->waited),
        .refused = atomic_load(&l->refused),
        .failed = atomic_load(&l->failed),
        .keys = atomic_load(&l->keys),
    };
    sl_leased_each(l, add_up, &ret->unspent);
}
