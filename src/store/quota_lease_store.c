/* leased.c -- a take, tried with what is leased. */
#include "store/quota_lease.h"

#include <string.h>

#include "store/store_int.h"

/* So many refusals may come from books that have not heard of a reset yet. */
#define UNSETTLED 3

static struct sl_quota_leases *of(struct sl_store *store)
{
    return (struct sl_quota_leases *)store;
}

static void on_inner(struct sl_take *take)
{
    (void)take; /* it has answered before it returned */
}

/* ---- locks: in the order of the shards, so that nobody waits in a ring ----
 */

static void lock(struct sl_quota_leases_attempt *a)
{
    for (uint64_t left = a->shards; left; left &= left - 1)
        pthread_mutex_lock(&a->l->shards[__builtin_ctzll(left)].lock);
}

static void unlock(struct sl_quota_leases_attempt *a)
{
    for (uint64_t left = a->shards; left; left &= left - 1)
        pthread_mutex_unlock(&a->l->shards[__builtin_ctzll(left)].lock);
}

/* ---- carrying out ---- */

/* What the books have been told, or will be: the cell has no part in it. */
static void leave_out(struct sl_quota_leases_attempt *a)
{
    bool back = a->take->errand == SL_TAKE_OP_REFUND;

    for (unsigned i = 0; i < a->inner.count; i++) {
        struct sl_quota_lease *lease;
        int64_t cost = (int64_t)a->take->parts[i].cost;

        if (!a->keys[i])
            continue;
        lease = &a->keys[i]->lease;
        a->parts[i].cost = 0;
        if (back && a->take->parts[i].when >= lease->start)
            lease->others -= cost;
        else if (!back && a->tries == 0) /* else the books have it by now */
            lease->others += cost;
        sl_quota_lease_retry(lease);
    }
}

/* Has a hold come to more meanwhile, so that a lease is not enough? */
static bool is_behind(const struct sl_quota_leases_attempt *a)
{
    for (unsigned i = 0; i < a->inner.count; i++)
        if (a->keys[i] && sl_quota_leases_is_capped(a, i) &&
            a->parts[i].limit != a->take->parts[i].limit &&
            a->parts[i].answer.outcome != SL_ALLOW)
            return true;
    return false;
}

static void note_hold(struct sl_quota_leases_attempt *a)
{
    sl_ns until = a->take->now + a->take->hold_for;

    if (a->take->errand != SL_TAKE_OP_TAKE)
        return;
    for (unsigned i = 0; i < a->inner.count; i++)
        if (a->keys[i] && a->keys[i]->held < until)
            a->keys[i]->held = until;
}

static void run(struct sl_quota_leases_attempt *a, enum sl_take_op errand)
{
    a->inner.errand = errand;
    sl_store_take(a->l->options.store, &a->inner);
}

/* The cells of the rest begin anew. Those of leases go on counting, since the
 * books and the answers that are on their way speak of what they have: all that
 * was used, they will be told, was not. */
static void reset(struct sl_quota_leases_attempt *a)
{
    struct sl_store_part parts[SL_PARTS];
    struct sl_take rest = a->inner;

    rest.parts = parts;
    rest.count = 0;
    for (unsigned i = 0; i < a->inner.count; i++)
        if (!(a->leased >> i & 1))
            parts[rest.count++] = a->parts[i];
    if (rest.count > 0)
        sl_store_take(a->l->options.store, &rest);
    run(a, SL_TAKE_OP_PEEK);
    a->inner.errand = SL_TAKE_OP_RESET;
    a->inner.err = rest.err ? rest.err : a->inner.err;
    for (unsigned i = 0; i < a->inner.count; i++) {
        if (!a->keys[i])
            continue;
        sl_quota_lease_reset(&a->keys[i]->lease,
                             sl_quota_leases_own(&a->parts[i]));
        a->keys[i]->unsettled = UNSETTLED;
    }
}

/* Is something else left to be judged? */
static bool carry_out(struct sl_quota_leases_attempt *a)
{
    enum sl_take_op errand = a->take->errand;

    if (errand == SL_TAKE_OP_CHARGE || errand == SL_TAKE_OP_REFUND)
        leave_out(a);
    if (errand == SL_TAKE_OP_RESET)
        reset(a);
    else
        run(a, errand);
    if (errand == SL_TAKE_OP_TAKE && !a->inner.err && !a->inner.allowed &&
        is_behind(a)) {
        for (unsigned i = 0; i < a->inner.count; i++)
            if (a->keys[i] && sl_quota_leases_is_capped(a, i))
                a->keys[i]->lease.own = SL_AMOUNT_MAX; /* look again */
        return false;
    }
    if (!sl_hold_id_is_none(a->take->hold))
        note_hold(a);
    sl_quota_leases_answer(a);
    return true;
}

/* Nothing is taken, and everybody says how it stands. */
static void refuse(struct sl_quota_leases_attempt *a)
{
    for (unsigned i = 0; i < a->inner.count; i++)
        if (a->keys[i] && a->parts[i].limit == &a->limits[i])
            sl_quota_leases_open_limit(&a->limits[i]);
    run(a, SL_TAKE_OP_PEEK);
    sl_quota_leases_answer(a);
    a->take->allowed = false;
}

/* ---- more, before it is needed ---- */

static void think_ahead(struct sl_quota_leases_attempt *a)
{
    if (a->take->errand != SL_TAKE_OP_TAKE || !a->take->allowed ||
        !a->take->loop)
        return;
    for (unsigned i = 0; i < a->inner.count; i++) {
        struct sl_quota_leases_key *k = a->keys[i];
        struct sl_quota_leases_need need = {
            .key = k,
            .shard = a->places[i].shard,
            .now = a->take->now,
            .steady = a->steady,
        };

        if (!k || !sl_quota_leases_is_capped(a, i) || k->asking ||
            !sl_quota_lease_is_low(&k->lease))
            continue;
        need.cap = a->take->parts[i].limit->capacity;
        need.want = sl_quota_lease_shortfall(
            &k->lease, sl_quota_lease_unspent(&k->lease) + 1, &need.least);
        if (sl_quota_lease_is_refused(&k->lease,
                                      sl_quota_lease_unspent(&k->lease) + 1,
                                      need.cap, a->steady))
            continue;
        (void)!sl_quota_leases_prepare(a->l, &need, 0, &a->outbox);
    }
}

/* ---- a take ---- */

/* The clock is read first: it waits for whatever is being fetched. */
static void prepare(struct sl_quota_leases_attempt *a)
{
    a->steady = sl_quota_leases_steady(&a->l->store);
    a->inner = *a->take;
    a->inner.parts = a->parts;
    a->inner.done = on_inner;
    a->inner.err = 0;
    a->shards = 0;
    a->leased = sl_quota_leases_parts(a->take);
    a->outbox = NULL;
    for (unsigned i = 0; i < a->inner.count; i++) {
        a->parts[i] = a->take->parts[i];
        a->keys[i] = NULL;
        if (!(a->leased >> i & 1))
            continue;
        a->places[i] = sl_quota_leases_place(a->l, &a->parts[i]);
        a->parts[i].print = a->take->parts[i].print = a->places[i].hash;
        sl_store_prefetch(a->l->options.store, &a->parts[i]);
        a->shards |= UINT64_C(1) << a->places[i].shard;
    }
}

static void fail(struct sl_take *take)
{
    take->err = SLUICE_ESTORE;
    take->sent = false;
    take->allowed = false;
}

static enum sl_quota_leases_way decide(struct sl_quota_leases_attempt *a,
                                       struct sl_quota_leases_need *need)
{
    enum sl_quota_leases_way way = sl_quota_leases_judge(a, need);

    if (way == SL_QUOTA_LEASES_GO && !carry_out(a)) {
        way = sl_quota_leases_judge(a, need); /* with what the cells have now */
        if (way == SL_QUOTA_LEASES_GO && !carry_out(a))
            way = SL_QUOTA_LEASES_FAIL;
    }
    if (way == SL_QUOTA_LEASES_REFUSE)
        refuse(a);
    return way;
}

void sl_quota_leases_try(struct sl_quota_leases *l, struct sl_take *take,
                         unsigned tries, sl_ns until, bool blind)
{
    struct sl_quota_leases_attempt a;
    struct sl_loop *loop = take->loop;
    struct sl_quota_leases_waiter *waiter = NULL;
    struct sl_quota_leases_need need;
    enum sl_quota_leases_way way;

    a.l = l;
    a.take = take;
    a.tries = tries;
    a.blind = blind;
    prepare(&a);
    lock(&a);
    way = decide(&a, &need);
    if (way == SL_QUOTA_LEASES_WAIT &&
        sl_quota_leases_prepare(l, &need, 0, &a.outbox))
        waiter = sl_quota_leases_wait(l, &need, take, tries, until);
    if (way == SL_QUOTA_LEASES_WAIT && !waiter)
        way = SL_QUOTA_LEASES_FAIL;
    if (way == SL_QUOTA_LEASES_GO)
        think_ahead(&a);
    unlock(&a);
    if (way == SL_QUOTA_LEASES_FAIL) {
        atomic_fetch_add(&l->failed, 1);
        fail(take);
    }
    if (waiter)
        sl_quota_leases_watch(waiter);
    sl_quota_leases_send(a.outbox, loop);
    if (way != SL_QUOTA_LEASES_WAIT)
        take->done(take);
}

/* ---- the store ---- */

static void take(struct sl_store *store, struct sl_take *take)
{
    if (sl_quota_leases_parts(take) == 0)
        sl_store_take(of(store)->options.store, take);
    else
        sl_quota_leases_try(of(store), take, 0, 0, false);
}

static void take_many(struct sl_store *store, struct sl_take *const *takes,
                      unsigned count)
{
    for (unsigned i = 0, run; i < count; i += run) {
        for (run = 0;
             i + run < count && sl_quota_leases_parts(takes[i + run]) == 0;)
            run++;
        if (run > 0) {
            sl_store_take_many(of(store)->options.store, takes + i, run);
        } else {
            take(store, takes[i]);
            run = 1;
        }
    }
}

static int bind(struct sl_store *store, struct sl_limit_binding *limits,
                unsigned count, struct sl_diag *diag)
{
    return sl_store_bind(of(store)->options.store, limits, count, diag);
}

static int tighten(struct sl_store *store, const struct sl_limit_binding *limit,
                   const struct sl_limit *strictest)
{
    return sl_store_set_strictest(of(store)->options.store, limit, strictest);
}

/* Nobody says whose it is: all that are held are looked at again, afterwards.
 */
static void hold(struct sl_store *store, struct sl_hold_call *call)
{
    struct sl_quota_leases *l = of(store);
    bool ends = call->errand == SL_HOLD_SETTLE;
    sl_ns until = call->now + call->hold_for;

    if (call->errand == SL_HOLD_EXTEND && atomic_load(&l->extended) < until)
        atomic_store(&l->extended, until);
    sl_store_hold(l->options.store, call);
    if (ends)
        atomic_fetch_add(&l->ends, 1);
}

static void close_leased(struct sl_store *store)
{
    struct sl_quota_leases *l = of(store);

    sl_quota_leases_free_shards(l);
    sl_store_close(l->options.store);
    sl_alloc_free(l->alloc, l, sizeof(*l));
}

static const struct sl_store_calls calls = {
    .bind = bind,
    .tighten = tighten,
    .take = take,
    .close = close_leased,
    .take_many = take_many,
    .hold = hold,
};

int sl_quota_leases_open(const struct sl_quota_leases_options *options,
                         struct sl_store **ret)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_quota_leases *l = sl_alloc_new(alloc, sizeof(*l));

    if (!l)
        return SLUICE_ENOMEM;
    memset(l, 0, sizeof(*l));
    l->options = *options;
    l->alloc = alloc;
    if (sl_quota_leases_make_shards(l)) {
        sl_alloc_free(alloc, l, sizeof(*l));
        return SLUICE_ENOMEM;
    }
    l->store.calls = &calls;
    l->store.secret = options->store->secret;
    *ret = &l->store;
    return 0;
}
