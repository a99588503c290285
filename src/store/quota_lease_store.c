/* quota_lease_store.c -- a take, tried with what is leased. */
#include <stdatomic.h>
#include <string.h>

#include "store/quota_lease.h"
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
    bool back = a->take->op == SL_TAKE_OP_REFUND;

    for (unsigned i = 0; i < a->inner.count; i++) {
        struct sl_quota_lease *lease;
        int64_t cost = (int64_t)a->take->parts[i].cost;

        if (!a->keys[i])
            continue;
        lease = &a->keys[i]->lease;
        a->parts[i].cost = 0;
        if (back && a->take->parts[i].taken_at >= lease->start)
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

    if (a->take->op != SL_TAKE_OP_TAKE)
        return;
    for (unsigned i = 0; i < a->inner.count; i++)
        if (a->keys[i] && a->keys[i]->held < until)
            a->keys[i]->held = until;
}

static void run(struct sl_quota_leases_attempt *a, enum sl_take_op op)
{
    a->inner.op = op;
    sl_store_take(a->l->options.store, &a->inner);
}

/* The cells of the rest begin anew. Those of leases go on counting, since the
 * books and the answers that are on their way speak of what they have: all that
 * was used, they will be told, was not. */
static void reset(struct sl_quota_leases_attempt *a)
{
    struct sl_part parts[SL_PARTS];
    struct sl_take rest = a->inner;

    rest.parts = parts;
    rest.count = 0;
    for (unsigned i = 0; i < a->inner.count; i++)
        if (!(a->leased >> i & 1))
            parts[rest.count++] = a->parts[i];
    if (rest.count > 0)
        sl_store_take(a->l->options.store, &rest);
    run(a, SL_TAKE_OP_PEEK);
    a->inner.op = SL_TAKE_OP_RESET;
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
    enum sl_take_op op = a->take->op;

    if (op == SL_TAKE_OP_CHARGE || op == SL_TAKE_OP_REFUND)
        leave_out(a);
    if (op == SL_TAKE_OP_RESET)
        reset(a);
    else
        run(a, op);
    if (op == SL_TAKE_OP_TAKE && !a->inner.err && !a->inner.allowed &&
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
    if (a->take->op != SL_TAKE_OP_TAKE || !a->take->allowed || !a->take->loop)
        return;
    for (unsigned i = 0; i < a->inner.count; i++) {
        struct sl_quota_leases_key *k = a->keys[i];
        struct sl_quota_leases_need need = {
            .key = k,
            .shard = a->places[i].shard,
            .now = a->take->now,
            .mono = a->mono,
        };

        if (!k || !sl_quota_leases_is_capped(a, i) || k->asking ||
            !sl_quota_lease_is_low(&k->lease))
            continue;
        need.cap = a->take->parts[i].limit->capacity;
        need.want = sl_quota_lease_shortfall(
            &k->lease, sl_quota_lease_unspent(&k->lease) + 1, &need.least);
        if (sl_quota_lease_is_refused(&k->lease,
                                      sl_quota_lease_unspent(&k->lease) + 1,
                                      need.cap, a->mono))
            continue;
        (void)!sl_quota_leases_prepare(a->l, &need, 0, &a->outbox);
    }
}

/* ---- a take ---- */

/* The clock is read first: it waits for whatever is being fetched. */
static void prepare(struct sl_quota_leases_attempt *a)
{
    a->mono = sl_quota_leases_steady(&a->l->store);
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
        a->parts[i].fingerprint = a->take->parts[i].fingerprint =
            a->places[i].hash;
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
    bool ends = call->op == SL_HOLD_SETTLE;
    sl_ns until = call->now + call->hold_for;

    if (call->op == SL_HOLD_EXTEND && atomic_load(&l->extended) < until)
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

/* ---- how far a take may go: with what is leased, or after asking. */

/* So often somebody else may have been faster. */
#define TRIES 16

/* ---- which parts ---- */

/* What is carried to a limit by one take and not by another would be in its
 * cell, and in no lease: such a limit is leased to nobody. */
static bool is_leased(const struct sl_take *take, unsigned i)
{
    const struct sl_part *part = &take->parts[i];

    return part->view && part->binding->strictest.kind == SL_QUOTA &&
           !part->binding->carried && !part->carried &&
           (i == 0 || !part[-1].carried);
}

uint32_t sl_quota_leases_parts(const struct sl_take *take)
{
    uint32_t bits = 0;

    if (take->op == SL_TAKE_OP_EACH)
        return 0;
    for (unsigned i = 0; i < take->count; i++)
        bits |= (uint32_t)is_leased(take, i) << i;
    return bits;
}

/* ---- the table ---- */

/* What the cell of a part has now. */
static uint64_t look_own(struct sl_quota_leases_attempt *a, unsigned i)
{
    struct sl_limit open = *a->take->parts[i].limit;
    struct sl_part part = a->take->parts[i];
    struct sl_take look = {.op = SL_TAKE_OP_PEEK,
                           .parts = &part,
                           .count = 1,
                           .now = a->take->now,
                           .done = on_inner};

    sl_quota_leases_open_limit(&open);
    part.limit = &open;
    part.cost = 0;
    sl_store_take(a->l->options.store, &look);
    return sl_quota_leases_own(&part);
}

/* ---- periods ---- */

static struct sl_period period_of(const struct sl_limit *limit, sl_ns now)
{
    sl_ns start;

    if (limit->calendar)
        return sl_calendar_period(&limit->cal, now);
    start = now - now % limit->period;
    return (struct sl_period){start, start + limit->period};
}

/* A reading that is a little late is judged as the cell judges it. */
static bool is_current(const struct sl_quota_leases_key *k,
                       const struct sl_limit *limit, sl_ns now)
{
    const struct sl_calendar *c = &limit->cal;

    if (k->span != (limit->calendar ? 0 : limit->period) ||
        (limit->calendar &&
         (k->cal.unit != c->unit || k->cal.every != c->every ||
          k->cal.anchor != c->anchor || k->cal.zone != c->zone)))
        return false;
    return now < k->lease.end && now >= k->lease.start - SL_JITTER;
}

/* What is left of the period that is over. If it can't be told now, the books
 * find out when the node comes back: nobody misses it. */
static void give_back(struct sl_quota_leases_attempt *a, unsigned i,
                      struct sl_quota_leases_key *k)
{
    struct sl_quota_leases_need need = {
        .key = k,
        .shard = a->places[i].shard,
        .now = a->take->now,
        .mono = a->mono,
    };
    uint64_t units = sl_quota_lease_surplus(&k->lease, true);

    if (units > 0 && !k->asking && a->take->loop)
        (void)!sl_quota_leases_prepare(a->l, &need, units, &a->outbox);
}

/* Another period begins: nobody waits for what is under way about the last. */
static void turn_over(struct sl_quota_leases_key *k, sl_ns start)
{
    if (!k->asking || k->about >= start)
        return;
    k->asking = false;
    k->aside++;
}

/* Of a period before the one its key is in, which it can't go back to yet? */
static bool is_late(const struct sl_quota_leases_key *k, sl_ns now)
{
    return now < k->lease.start - SL_JITTER;
}

/* The key of a part, in its period. NULL: there is no room. It stays where it
 * is while something is being given back of a period before. */
static struct sl_quota_leases_key *key_of(struct sl_quota_leases_attempt *a,
                                          unsigned i)
{
    const struct sl_part *part = &a->take->parts[i];
    struct sl_quota_leases_key *k =
        sl_quota_leases_find(a->l, &a->places[i], part);
    struct sl_period p;

    if (k && is_current(k, part->limit, a->take->now))
        return k;
    p = period_of(part->limit, a->take->now);
    if (k && k->lease.start == p.start)
        return k; /* it is called otherwise now */
    if (k && k->aside > 0 && is_late(k, a->take->now))
        return k;
    if (!k)
        k = sl_quota_leases_add(a->l, &a->places[i], part);
    else
        give_back(a, i, k);
    if (!k)
        return NULL;
    turn_over(k, p.start);
    k->cal = part->limit->cal;
    k->span = part->limit->calendar ? 0 : part->limit->period;
    sl_quota_lease_begin(&k->lease, p.start, p.end, look_own(a, i));
    return k;
}

/* ---- judging ---- */

static enum sl_quota_leases_way wait_for(struct sl_quota_leases_attempt *a,
                                         unsigned i, uint64_t cost,
                                         struct sl_quota_leases_need *need)
{
    const struct sl_part *part = &a->take->parts[i];

    if (a->blind || !a->take->loop || a->tries > TRIES)
        return SL_QUOTA_LEASES_FAIL;
    *need = (struct sl_quota_leases_need){.key = a->keys[i],
                                          .shard = a->places[i].shard,
                                          .cap = part->limit->capacity,
                                          .cost = cost,
                                          .now = a->take->now,
                                          .mono = a->mono};
    if (cost > 0)
        need->want =
            sl_quota_lease_shortfall(&a->keys[i]->lease, cost, &need->least);
    return SL_QUOTA_LEASES_WAIT;
}

/* Nobody is kept back by the books: only what is shown would be better. */
static enum sl_quota_leases_way judge_open(struct sl_quota_leases_attempt *a,
                                           unsigned i,
                                           struct sl_quota_leases_need *need)
{
    if (a->keys[i]->lease.known)
        return SL_QUOTA_LEASES_GO;
    return wait_for(a, i, 0, need) == SL_QUOTA_LEASES_WAIT
               ? SL_QUOTA_LEASES_WAIT
               : SL_QUOTA_LEASES_GO;
}

static enum sl_quota_leases_way judge_capped(struct sl_quota_leases_attempt *a,
                                             unsigned i,
                                             struct sl_quota_leases_need *need)
{
    struct sl_part *part = &a->parts[i];
    struct sl_quota_lease *lease = &a->keys[i]->lease;
    uint64_t cap = part->limit->capacity, room;

    if (!lease->known || (sl_quota_lease_unspent(lease) > 0 &&
                          !sl_quota_leases_is_sure(a->l, a->keys[i], a->mono)))
        return wait_for(a, i, part->cost, need);
    room = sl_quota_lease_room(lease, cap);
    if (lease->own + part->cost > room) {
        lease->own = look_own(a, i);
        if (lease->own + part->cost > room) {
            if (!sl_quota_lease_is_refused(lease, part->cost, cap, a->mono))
                return wait_for(a, i, part->cost, need);
            a->refuser = (int)i;
            return SL_QUOTA_LEASES_REFUSE;
        }
    }
    a->limits[i].count = a->limits[i].capacity = room;
    return SL_QUOTA_LEASES_GO;
}

bool sl_quota_leases_is_capped(const struct sl_quota_leases_attempt *a,
                               unsigned i)
{
    const struct sl_part *part = &a->take->parts[i];

    return a->take->op == SL_TAKE_OP_TAKE && part->cost > 0 &&
           part->limit->capacity < SL_AMOUNT_MAX;
}

/* Without a lease: the books are told of it all the same. */
static enum sl_quota_leases_way go_without(struct sl_quota_leases_attempt *a,
                                           unsigned i)
{
    if (sl_quota_leases_is_capped(a, i))
        return SL_QUOTA_LEASES_FAIL;
    if (a->take->op == SL_TAKE_OP_CHARGE || a->take->op == SL_TAKE_OP_REFUND)
        a->parts[i].cost = 0;
    return SL_QUOTA_LEASES_GO;
}

static enum sl_quota_leases_way judge_part(struct sl_quota_leases_attempt *a,
                                           unsigned i,
                                           struct sl_quota_leases_need *need)
{
    struct sl_part *part = &a->parts[i];
    enum sl_quota_leases_way way = SL_QUOTA_LEASES_GO;

    part->limit = a->take->parts[i].limit;
    a->keys[i] = key_of(a, i);
    if (a->keys[i] && is_late(a->keys[i], a->take->now)) {
        if (sl_quota_leases_is_capped(a, i))
            return wait_for(a, i, 0, need);
        a->keys[i] = NULL;
    }
    if (!a->keys[i])
        return go_without(a, i);
    /* Who only looks has no use for what is leased. */
    a->keys[i]->touched |= sl_quota_leases_is_capped(a, i);
    if (sl_quota_leases_is_capped(a, i) && part->cost > part->limit->capacity)
        return SL_QUOTA_LEASES_GO; /* never: the table says so */
    a->limits[i] = *part->limit;
    sl_quota_leases_open_limit(&a->limits[i]);
    if (a->refuser < 0)
        way = sl_quota_leases_is_capped(a, i) ? judge_capped(a, i, need)
                                              : judge_open(a, i, need);
    part->limit = &a->limits[i];
    return way;
}

enum sl_quota_leases_way
sl_quota_leases_judge(struct sl_quota_leases_attempt *a,
                      struct sl_quota_leases_need *need)
{
    enum sl_quota_leases_way way;

    a->refuser = -1;
    for (unsigned i = 0; i < a->inner.count; i++) {
        if (!(a->leased >> i & 1))
            continue;
        way = judge_part(a, i, need);
        if (way == SL_QUOTA_LEASES_WAIT || way == SL_QUOTA_LEASES_FAIL)
            return way;
    }
    return a->refuser < 0 ? SL_QUOTA_LEASES_GO : SL_QUOTA_LEASES_REFUSE;
}

/* ---- what all nodes have used, from what the cells of this one say. */

/* Nodes give back what they do not need within this. */
#define COMES_BACK (2 * SL_S)

static bool fits(const struct sl_quota_lease *lease, uint64_t cost,
                 uint64_t cap)
{
    uint64_t used = sl_quota_lease_used(lease);

    return cost == 0 || (used <= cap && cost <= cap - used);
}

static void deny(struct sl_quota_leases_attempt *a, unsigned i,
                 struct sl_answer *answer)
{
    const struct sl_quota_lease *lease = &a->keys[i]->lease;

    answer->outcome = SL_DENY;
    answer->retry_in = answer->reset_in;
    if (a->refuser != (int)i)
        return;
    /* Not to be had, whoever has it. */
    if (answer->remaining > sl_quota_lease_unspent(lease))
        answer->remaining = sl_quota_lease_unspent(lease);
    /* It would fit, if nodes gave back what they have. */
    if (fits(lease, a->take->parts[i].cost, answer->capacity) &&
        answer->retry_in > COMES_BACK)
        answer->retry_in = COMES_BACK;
}

/* From the cell of this node to the limit of all. */
static void translate(struct sl_quota_leases_attempt *a, unsigned i)
{
    struct sl_part *out = &a->take->parts[i];
    struct sl_quota_lease *lease = &a->keys[i]->lease;
    struct sl_answer answer = a->parts[i].answer;
    uint64_t cap = out->limit->capacity, used;
    bool taken = a->inner.op == SL_TAKE_OP_TAKE;

    if (a->parts[i].limit != out->limit)
        lease->own = sl_quota_leases_own(&a->parts[i]);
    if (taken && a->inner.allowed && out->cost > 0)
        sl_quota_lease_spent(lease, out->cost, lease->own, a->take->now);
    used = sl_quota_lease_used(lease);
    answer.limit = out->limit->count;
    answer.capacity = cap;
    answer.remaining = used < cap ? cap - used : 0;
    if (answer.outcome != SL_NEVER && out->cost > cap)
        answer.outcome = SL_NEVER;
    else if (a->refuser == (int)i ||
             (!taken && a->inner.op == SL_TAKE_OP_PEEK &&
              !fits(lease, out->cost, cap)))
        deny(a, i, &answer);
    out->answer = answer;
}

void sl_quota_leases_answer(struct sl_quota_leases_attempt *a)
{
    struct sl_take *take = a->take;

    take->err = a->inner.err;
    take->allowed = a->inner.allowed;
    take->place = a->inner.place;
    for (unsigned i = 0; !take->err && i < a->inner.count; i++) {
        take->parts[i].untracked = a->parts[i].untracked;
        if (a->keys[i])
            translate(a, i);
        else
            take->parts[i].answer = a->parts[i].answer;
    }
    if (a->inner.op != SL_TAKE_OP_PEEK)
        return;
    for (unsigned i = 0; i < a->inner.count; i++)
        if (take->parts[i].answer.outcome != SL_ALLOW)
            take->allowed = false;
}

/* ---- the keys that have a lease, in shards with a lock each. */

#define ID_MOST 4096

static struct sl_quota_leases_key **
row_of(const struct sl_quota_leases *l, unsigned shard, struct sl_hash128 hash)
{
    const struct sl_quota_leases_shard *s = &l->shards[shard];

    return &s->rows[hash.lo & (s->row_count - 1)];
}

struct sl_quota_leases_place
sl_quota_leases_place(const struct sl_quota_leases *l,
                      const struct sl_part *part)
{
    struct sl_quota_leases_place place = {
        .hash = sl_table_fingerprint(part->binding, part->key)};

    place.shard = (unsigned)(place.hash.hi % SHARDS);
    __builtin_prefetch(&l->shards[place.shard]);
    return place;
}

struct sl_quota_leases_key *sl_quota_leases_again(struct sl_quota_leases *l,
                                                  unsigned shard,
                                                  struct sl_hash128 hash,
                                                  uint32_t limit_id)
{
    struct sl_quota_leases_key *k = *row_of(l, shard, hash);

    while (k && (k->limit_id != limit_id || k->hash.lo != hash.lo ||
                 k->hash.hi != hash.hi))
        k = k->next;
    return k;
}

struct sl_quota_leases_key *
sl_quota_leases_find(struct sl_quota_leases *l,
                     const struct sl_quota_leases_place *place,
                     const struct sl_part *part)
{
    return sl_quota_leases_again(l, place->shard, place->hash,
                                 part->binding->id);
}

static struct sl_str put_text(char **at, struct sl_str text)
{
    struct sl_str copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static struct sl_quota_leases_key *new_key(struct sl_quota_leases *l,
                                           struct sl_str scope,
                                           struct sl_str id,
                                           struct sl_str limit)
{
    size_t size =
        sizeof(struct sl_quota_leases_key) + scope.len + id.len + limit.len;
    struct sl_quota_leases_key *k = sl_alloc_new(l->alloc, size);
    char *at;

    if (!k)
        return NULL;
    memset(k, 0, sizeof(*k));
    at = (char *)(k + 1);
    k->size = size;
    k->waiting_end = &k->waiting;
    k->scope = put_text(&at, scope);
    k->id = put_text(&at, id);
    k->limit = put_text(&at, limit);
    return k;
}

/* As many rows as keys, so that few keys need few lines of the cache. Without
 * memory they stay as they are, and are longer. */
static void grow(struct sl_quota_leases *l, struct sl_quota_leases_shard *s)
{
    unsigned count = 2 * s->row_count, old_count = s->row_count;
    struct sl_quota_leases_key **old = s->rows;
    struct sl_quota_leases_key **rows =
        sl_alloc_new(l->alloc, count * sizeof(struct sl_quota_leases_key *));

    if (!rows)
        return;
    memset(rows, 0, count * sizeof(struct sl_quota_leases_key *));
    for (unsigned i = 0; i < old_count; i++)
        for (struct sl_quota_leases_key *k = old[i], *next; k; k = next) {
            struct sl_quota_leases_key **row = &rows[k->hash.lo & (count - 1)];

            next = k->next;
            k->next = *row;
            *row = k;
        }
    s->rows = rows;
    s->row_count = count;
    if (old != s->few)
        sl_alloc_free(l->alloc, old,
                      old_count * sizeof(struct sl_quota_leases_key *));
}

static void add_key(struct sl_quota_leases *l, unsigned shard,
                    struct sl_quota_leases_key *k)
{
    struct sl_quota_leases_shard *s = &l->shards[shard];
    struct sl_quota_leases_key **row;

    if (s->keys++ >= s->row_count)
        grow(l, s);
    row = row_of(l, shard, k->hash);
    k->next = *row;
    *row = k;
    atomic_fetch_add(&l->keys, 1);
}

struct sl_quota_leases_key *
sl_quota_leases_add(struct sl_quota_leases *l,
                    const struct sl_quota_leases_place *place,
                    const struct sl_part *part)
{
    struct sl_quota_leases_key *k = NULL;
    struct sl_str scope;
    struct sl_buf id;

    if (atomic_load(&l->keys) >= SL_LEASES_MOST)
        return NULL;
    sl_buf_init(&id, ID_MOST, l->alloc);
    if (l->options.lender->name(l->options.lender, part, &scope, &id))
        k = new_key(l, scope, sl_buf_str(&id), sl_str_c(part->binding->name));
    sl_buf_done(&id);
    if (!k)
        return NULL;
    k->hash = place->hash;
    k->limit_id = part->binding->id;
    add_key(l, place->shard, k);
    return k;
}

/* ---- all of them ---- */

static void visit_row(struct sl_quota_leases *l,
                      struct sl_quota_leases_shard *shard, unsigned row,
                      sl_quota_leases_f *f, void *ctx)
{
    struct sl_quota_leases_key **at = &shard->rows[row];

    while (*at) {
        struct sl_quota_leases_key *k = *at;

        if (!f(ctx, k)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        sl_alloc_free(l->alloc, k, k->size);
        shard->keys--;
        atomic_fetch_sub(&l->keys, 1);
    }
}

void sl_quota_leases_each(struct sl_quota_leases *l, sl_quota_leases_f *f,
                          void *ctx)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        struct sl_quota_leases_shard *shard = &l->shards[i];

        pthread_mutex_lock(&shard->lock);
        for (unsigned row = 0; row < shard->row_count; row++)
            visit_row(l, shard, row, f, ctx);
        pthread_mutex_unlock(&shard->lock);
    }
}

/* ---- life ---- */

#define ALIGN      _Alignof(struct sl_quota_leases_shard)
#define SHARD_PART (SHARDS * sizeof(struct sl_quota_leases_shard) + ALIGN)

int sl_quota_leases_make_shards(struct sl_quota_leases *l)
{
    char *at = sl_alloc_new(l->alloc, SHARD_PART);

    if (!at)
        return SLUICE_ENOMEM;
    l->piece = at;
    pthread_mutex_init(&l->seeing, NULL);
    memset(at, 0, SHARD_PART);
    at += (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
    l->shards = (void *)at;
    for (unsigned i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&l->shards[i].lock, NULL);
        l->shards[i].rows = l->shards[i].few;
        l->shards[i].row_count = SL_QUOTA_LEASES_FEW;
    }
    return 0;
}

static bool always(void *ctx, struct sl_quota_leases_key *key)
{
    (void)ctx;
    (void)key;
    return true;
}

void sl_quota_leases_free_shards(struct sl_quota_leases *l)
{
    if (!l->piece)
        return;
    sl_quota_leases_each(l, always, NULL);
    for (unsigned i = 0; i < SHARDS; i++) {
        struct sl_quota_leases_shard *s = &l->shards[i];

        if (s->rows != s->few)
            sl_alloc_free(l->alloc, s->rows,
                          s->row_count * sizeof(struct sl_quota_leases_key *));
        pthread_mutex_destroy(&s->lock);
    }
    pthread_mutex_destroy(&l->seeing);
    sl_alloc_free(l->alloc, l->piece, SHARD_PART);
    l->piece = NULL;
}
