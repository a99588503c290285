/* combined.c -- takes and holds over the table of this process and a remote
 * store. */
#include "store/combined.h"

#include <pthread.h>
#include <string.h>

#include "net/loop.h"

#define POOLS 16 /* of ops; a loop always uses the same one */
#define SPARE 64 /* ops that a pool keeps */

/* Bits of the place of a hold. Places of remote stores are below them. */
#define PLACE_HERE                                                             \
    UINT32_C(0x80000000)                /* the table has some of its parts...  \
                                         */
#define PLACE_ONLY UINT32_C(0x40000000) /* ...and the remote store has none */
#define PLACES     (PLACE_HERE | PLACE_ONLY)

/* A take with parts in both stores, or the end of a hold. */
struct op {
    struct op *next; /* of the pool */
    struct combined *c;
    struct pool *pool;

    struct sl_take *whole;
    struct sl_take local, remote;
    struct sl_part here[SL_PARTS];  /* of the table */
    struct sl_part there[SL_PARTS]; /* of the remote store, with copies */
    unsigned of_here[SL_PARTS], of_there[SL_PARTS]; /* index in `whole` */
    uint32_t copies;                                /* bits of `there` */
    struct sl_limit limits[SL_PARTS];               /* of the copies */
    bool kept;
    /* The parts outlive their policy and the caller's take. */
    struct sl_limit_binding bindings[SL_PARTS];
    struct sl_limit numbers[SL_PARTS];

    struct sl_hold_call *call;
    struct sl_hold_call inner;
};

struct pool {
    _Alignas(64) pthread_mutex_t lock;
    struct op *spare;
    unsigned count;
};

struct combined {
    struct sl_store store; /* first */
    struct sl_store_calls calls;
    struct sl_combined_options options;
    const struct sl_alloc *alloc;
    struct pool *pools;
    void *piece; /* the allocation of the pools */
};

#define ALIGN _Alignof(struct pool)
#define PIECE (POOLS * sizeof(struct pool) + ALIGN)

/* The failed take whose done() runs on this thread; for keep(). */
static _Thread_local struct op *answering;

static struct combined *of(struct sl_store *store)
{
    return (struct combined *)store;
}

/* ---- ops ---- */

static struct op *new_op(struct combined *c, const struct sl_loop *loop)
{
    struct pool *pool = &c->pools[(uintptr_t)loop / 64 % POOLS];
    struct op *op;

    pthread_mutex_lock(&pool->lock);
    op = pool->spare;
    if (op) {
        pool->spare = op->next;
        pool->count--;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!op)
        op = sl_alloc_new(c->alloc, sizeof(*op));
    if (!op)
        return NULL;
    op->c = c;
    op->pool = pool;
    return op;
}

static void free_op(struct op *op)
{
    struct pool *pool = op->pool;
    bool keeps;

    pthread_mutex_lock(&pool->lock);
    keeps = pool->count < SPARE;
    if (keeps) {
        op->next = pool->spare;
        pool->spare = op;
        pool->count++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keeps)
        sl_alloc_free(op->c->alloc, op, sizeof(*op));
}

/* ---- parts ---- */

static uint32_t all_parts(const struct sl_take *take)
{
    return (UINT32_C(1) << take->count) - 1;
}

/* The parts that are in the table, as bits. */
static uint32_t parts_here(const struct sl_take *take)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < take->count; i++)
        bits |= (uint32_t)take->parts[i].binding->quota_leased << i;
    return bits;
}

static bool is_hold(const struct sl_take *take)
{
    return take->op == SL_TAKE_OP_TAKE && !sl_hold_id_is_none(take->hold);
}

static bool is_held(const struct sl_take *take, const struct sl_part *part)
{
    return is_hold(take) && part->cost > 0 && !part->not_held;
}

/* Does the remote store get a copy of the part? In a cluster the names of a
 * route that may be split can be in other slots. */
static bool has_copy(const struct op *op, const struct sl_part *part)
{
    if (op->c->options.twice)
        return true;
    return is_held(op->whole, part) &&
           (!op->c->options.remote->in_slots || !op->whole->apart);
}

static void add_there(struct op *op, unsigned i)
{
    op->of_there[op->remote.count] = i;
    op->there[op->remote.count] = op->whole->parts[i];
    op->there[op->remote.count++].penalty_of = 0; /* the caller counts */
}

static void add_copy(struct op *op, unsigned i)
{
    struct sl_limit *limit = &op->limits[op->remote.count];
    struct sl_part *copy = &op->there[op->remote.count];

    op->copies |= UINT32_C(1) << op->remote.count;
    add_there(op, i);
    if (op->c->options.twice)
        return;
    *limit = *copy->limit;
    limit->count = limit->capacity = SL_AMOUNT_MAX;
    sl_limit_derive(limit);
    copy->limit = limit;
}

static void divide(struct op *op, uint32_t here)
{
    const struct sl_take *whole = op->whole;
    bool held = false;

    op->local.count = op->remote.count = 0;
    op->copies = 0;
    for (unsigned i = 0; i < whole->count; i++) {
        if (!(here >> i & 1)) {
            add_there(op, i);
            continue;
        }
        op->of_here[op->local.count] = i;
        op->here[op->local.count++] = whole->parts[i];
        held |= is_held(whole, &whole->parts[i]);
        if (has_copy(op, &whole->parts[i]))
            add_copy(op, i);
    }
    if (!held)
        op->local.hold = (struct sl_hold_id){
            {0, 0}
        };
}

static void drop_copies(struct op *op)
{
    unsigned count = op->remote.count;

    op->remote.count = 0;
    for (unsigned i = 0; i < count; i++) {
        if (op->copies >> i & 1)
            continue;
        op->of_there[op->remote.count] = op->of_there[i];
        op->there[op->remote.count++] = op->there[i];
    }
    op->copies = 0;
}

/* Does the remote store get nothing but copies that have no limit? */
static bool has_only_copies(const struct op *op)
{
    return !op->c->options.twice && op->copies == all_parts(&op->remote);
}

/* Copies what undoing needs of the parts in the table. */
static void remember(struct op *op)
{
    for (unsigned i = 0; i < op->local.count; i++) {
        op->bindings[i] = *op->here[i].binding;
        op->numbers[i] = *op->here[i].limit;
    }
}

/* ---- the table: it answers at once, except for a first take ---- */

static void on_local_now(struct sl_take *take)
{
    (void)take;
}

static void on_hold_now(struct sl_hold_call *call)
{
    (void)call;
}

/* Ends the hold in the table: it is released, or all of it is used. */
static void end_hold(struct op *op, bool release)
{
    op->inner = (struct sl_hold_call){.op = SL_HOLD_SETTLE,
                                      .id = op->local.hold,
                                      .limits = op->bindings,
                                      .limits_count = op->local.count,
                                      .release = release,
                                      .as_held = !release,
                                      .now = op->local.now,
                                      .done = on_hold_now};
    sl_store_hold(op->c->options.local, &op->inner);
}

/* Refunds the take in the table, after remember(). The caller's take may be
 * gone. (3) */
static void undo(struct op *op)
{
    struct sl_take back = op->local;
    struct sl_part parts[SL_PARTS];

    if (is_hold(&op->local))
        end_hold(op, true);
    back.op = SL_TAKE_OP_REFUND;
    back.undo = true;
    back.loop = NULL;
    back.parts = parts;
    back.count = 0;
    back.done = on_local_now;
    back.hold = (struct sl_hold_id){
        {0, 0}
    };
    for (unsigned i = 0; i < op->local.count; i++) {
        struct sl_part *part = &parts[back.count];

        if (is_held(&op->local, &op->here[i]) || op->here[i].unleased ||
            op->here[i].cost == 0)
            continue;
        *part = op->here[i];
        part->binding = &op->bindings[i];
        part->limit = &op->numbers[i];
        part->view = NULL;
        back.count++;
    }
    if (back.count > 0)
        sl_store_take(op->c->options.local, &back);
}

/* The set was denied elsewhere: the parts in the table show their state. */
static void show_state(struct op *op)
{
    struct sl_take look = op->local;

    look.op = SL_TAKE_OP_PEEK;
    look.loop = NULL;
    look.done = on_local_now;
    for (unsigned i = 0; i < look.count; i++) {
        look.parts[i].cost = 0;
        look.parts[i].on_report = false;
    }
    sl_store_take(op->c->options.local, &look);
}

/* ---- answers ---- */

static void copy_answer(struct sl_part *to, const struct sl_part *from)
{
    to->answer = from->answer;
    to->untracked = from->untracked;
    to->unleased = from->unleased;
    to->fingerprint = from->fingerprint;
}

/* Is the remote store's answer about a copy stricter than that of the table?
 */
static bool is_stricter(const struct op *op, unsigned i)
{
    const struct sl_answer *here = &op->whole->parts[op->of_there[i]].answer;
    const struct sl_answer *there = &op->there[i].answer;

    return op->c->options.twice && here->outcome == SL_ALLOW &&
           (there->outcome != SL_ALLOW || there->remaining < here->remaining);
}

static void finish(struct op *op, bool allowed, int err)
{
    struct sl_take *whole = op->whole;

    for (unsigned i = 0; !err && i < op->local.count; i++)
        copy_answer(&whole->parts[op->of_here[i]], &op->here[i]);
    for (unsigned i = 0; !err && i < op->remote.count; i++)
        if (!(op->copies >> i & 1) || is_stricter(op, i))
            copy_answer(&whole->parts[op->of_there[i]], &op->there[i]);
    whole->allowed = allowed;
    whole->err = err;
    free_op(op);
    whole->done(whole);
}

/* Everything was taken. */
static void finish_allowed(struct op *op, bool in_remote)
{
    uint32_t place = in_remote ? op->remote.place : PLACE_ONLY;

    if (is_hold(&op->local))
        op->whole->place = place | PLACE_HERE;
    else
        op->whole->place = op->remote.place;
    finish(op, true, 0);
}

/* Denied by the table, and the remote store does not show its numbers: they
 * are shown as if nothing was used. */
static void show_unused(struct op *op)
{
    for (unsigned i = 0; i < op->remote.count; i++)
        op->there[i].answer =
            (struct sl_answer){.outcome = SL_ALLOW,
                               .limit = op->there[i].limit->count,
                               .capacity = op->there[i].limit->capacity,
                               .remaining = op->there[i].limit->capacity};
}

/* The remote store has failed, or its answer is unknown. The caller decides
 * about the parts in the table. If they count twice, they have failed, too. */
static void fail(struct op *op)
{
    struct sl_take *whole = op->whole;
    struct op *before = answering;
    bool is_take = whole->op == SL_TAKE_OP_TAKE;
    bool has_taken = whole->op != SL_TAKE_OP_PEEK && !op->c->options.twice;

    remember(op);
    whole->allowed = false;
    whole->err = op->remote.err;
    whole->sent = op->remote.sent;
    whole->taken = 0;
    for (unsigned i = 0; has_taken && i < op->local.count; i++)
        whole->taken |= UINT32_C(1) << op->of_here[i];
    op->kept = !is_take;
    answering = is_take ? op : NULL;
    whole->done(whole);
    answering = before;
    if (!op->kept)
        undo(op);
    free_op(op);
}

static void on_remote(struct sl_take *take)
{
    struct op *op = take->ctx;

    if (op->whole->op == SL_TAKE_OP_TAKE && !op->local.allowed) {
        if (take->err)
            show_unused(op);
        finish(op, false, 0);
    } else if (take->err && is_hold(&op->local) && has_only_copies(op)) {
        finish_allowed(op, false);
    } else if (take->err) {
        fail(op);
    } else if (op->whole->op == SL_TAKE_OP_TAKE && !take->allowed) {
        remember(op);
        undo(op);
        show_state(op);
        finish(op, false, 0);
    } else if (op->whole->op == SL_TAKE_OP_TAKE) {
        finish_allowed(op, true);
    } else {
        finish(op, op->local.allowed && take->allowed, 0);
    }
}

static void on_local(struct sl_take *take)
{
    struct op *op = take->ctx;

    if (take->err) {
        finish(op, false, take->err);
        return;
    }
    if (op->whole->op == SL_TAKE_OP_TAKE && !take->allowed) {
        op->remote.op = SL_TAKE_OP_PEEK; /* (2) */
        drop_copies(op);
        op->remote.hold = (struct sl_hold_id){
            {0, 0}
        };
    }
    if (op->remote.count > 0)
        sl_store_take(op->c->options.remote, &op->remote);
    else if (take->allowed)
        finish_allowed(op, false);
    else
        finish(op, false, 0);
}

/* ---- takes ---- */

/* One deadline for both stores. */
static sl_ns deadline_of(const struct combined *c, const struct sl_take *take)
{
    if (take->deadline > 0 || !take->loop || c->options.deadline <= 0)
        return take->deadline;
    return sl_loop_mono(take->loop) + c->options.deadline;
}

static void begin(struct combined *c, struct sl_take *take, uint32_t here)
{
    struct op *op = new_op(c, take->loop);

    take->sent = false;
    take->taken = 0;
    if (!op) {
        take->err = SLUICE_ESTORE;
        take->allowed = false;
        take->done(take);
        return;
    }
    op->whole = take;
    op->local = op->remote = *take;
    op->local.deadline = op->remote.deadline = deadline_of(c, take);
    op->local.ctx = op->remote.ctx = op;
    op->local.parts = op->here;
    op->remote.parts = op->there;
    op->local.done = on_local;
    op->remote.done = on_remote;
    op->remote.place = 0;
    divide(op, here);
    sl_store_take(c->options.local, &op->local);
}

static void take(struct sl_store *store, struct sl_take *take)
{
    struct combined *c = of(store);
    uint32_t here = parts_here(take);

    if (here == 0)
        sl_store_take(c->options.remote, take);
    else if (here == all_parts(take) && !is_hold(take) &&
             (!c->options.twice || !take->loop))
        sl_store_take(c->options.local, take);
    else
        begin(c, take, here);
}

/* Without a hold id in the verdict nothing would end the hold. */
static void keep(struct sl_store *store, struct sl_loop *loop)
{
    struct sl_store *remote = of(store)->options.remote;
    struct op *op = answering;

    if (op && !op->kept) {
        op->kept = true;
        if (is_hold(&op->local))
            end_hold(op, false);
    }
    if (remote->calls->keep)
        remote->calls->keep(remote, loop);
}

/* ---- holds ---- */

/* A part of the table, or its copy. */
static bool is_quota(const struct sl_held_part *part)
{
    return part->binding && part->binding->quota_leased;
}

static const struct sl_held_part *find_part(const struct sl_hold_call *call,
                                            const struct sl_held_part *like)
{
    for (unsigned i = 0; call->state == SL_HOLD_HELD && i < call->count; i++)
        if (call->parts[i].binding == like->binding)
            return &call->parts[i];
    return NULL;
}

/* The table has the numbers of a lease, and a copy has none. */
static void add_part(struct sl_hold_call *call, const struct sl_held_part *part)
{
    if (call->count == SL_PARTS)
        return;
    call->parts[call->count] = *part;
    call->parts[call->count++].no_answer = is_quota(part);
}

/* Adds the parts of the remote store, in the order of the take. The table has
 * the copies itself, or knows nothing of them, or has ended them before. */
static void add_far(struct sl_hold_call *call, const struct sl_hold_call *far,
                    const struct sl_hold_call *near)
{
    for (unsigned i = 0; i < far->count; i++) {
        struct sl_held_part part = far->parts[i];

        part.elsewhere = is_quota(&part);
        if (!part.elsewhere || near->state == SL_HOLD_UNKNOWN ||
            near->state == SL_HOLD_EXPIRED)
            add_part(call, &part);
        else if (find_part(near, &part))
            add_part(call, find_part(near, &part));
    }
}

/* Ends the hold in the table. `far` is the remote store's answer, or NULL: the
 * hold is not there. */
static void end_here(struct op *op, const struct sl_hold_call *far)
{
    struct sl_hold_call *call = op->call;
    struct sl_hold_call near = *call;
    bool far_held = far && far->state == SL_HOLD_HELD;

    near.place = 0;
    near.done = on_hold_now;
    sl_store_hold(op->c->options.local, &near);
    call->count = 0;
    call->err = near.err;
    call->state = near.state;
    call->expires_in = near.expires_in;
    if (far_held)
        add_far(call, far, &near);
    for (unsigned i = 0; near.state == SL_HOLD_HELD && i < near.count; i++)
        if (!far_held || !find_part(far, &near.parts[i]))
            add_part(call, &near.parts[i]);
    if (far_held || (far && near.state == SL_HOLD_UNKNOWN)) {
        call->state = far->state;
        call->expires_in = far->expires_in;
    }
}

static void on_remote_hold(struct sl_hold_call *inner)
{
    static const struct sl_hold_call nowhere = {.state = SL_HOLD_UNKNOWN};
    struct op *op = inner->ctx;
    struct sl_hold_call *call = op->call;

    if (inner->err) {
        call->err = inner->err;
    } else if (call->place & PLACE_HERE) {
        end_here(op, inner);
    } else { /* also a hold that was taken before quotas were leased */
        call->err = 0;
        call->state = inner->state;
        call->expires_in = inner->expires_in;
        call->count = 0;
        if (inner->state == SL_HOLD_HELD)
            add_far(call, inner, &nowhere);
    }
    free_op(op);
    call->done(call);
}

/* The remote store first: if it fails, the hold has not ended here, and the
 * call can be repeated. */
static void hold(struct sl_store *store, struct sl_hold_call *call)
{
    struct combined *c = of(store);
    struct op *op = new_op(c, call->loop);

    if (!op) {
        call->err = SLUICE_ESTORE;
        call->done(call);
        return;
    }
    op->call = call;
    if ((call->place & PLACES) == PLACES) {
        end_here(op, NULL);
        free_op(op);
        call->done(call);
        return;
    }
    op->inner = *call;
    op->inner.place = call->place & ~PLACES;
    op->inner.done = on_remote_hold;
    op->inner.ctx = op;
    sl_store_hold(c->options.remote, &op->inner);
}

/* ---- the store ---- */

static int bind(struct sl_store *store, struct sl_limit_binding *limits,
                unsigned count, struct sl_diag *diag)
{
    struct combined *c = of(store);
    int err = sl_store_bind(c->options.remote, limits, count, diag);

    return err ? err : sl_store_bind(c->options.local, limits, count, diag);
}

static int tighten(struct sl_store *store, const struct sl_limit_binding *limit,
                   const struct sl_limit *strictest)
{
    struct combined *c = of(store);
    int err = sl_store_set_strictest(c->options.remote, limit, strictest);

    return err ? err
               : sl_store_set_strictest(c->options.local, limit, strictest);
}

static sl_ns retry_in(const struct sl_store *store, const struct sl_loop *loop)
{
    const struct sl_store *remote = store->remote;

    return remote->calls->retry_in ? remote->calls->retry_in(remote, loop) : 0;
}

static void free_pools(struct combined *c)
{
    for (unsigned i = 0; i < POOLS; i++) {
        struct op *op;

        while ((op = c->pools[i].spare) != NULL) {
            c->pools[i].spare = op->next;
            sl_alloc_free(c->alloc, op, sizeof(*op));
        }
        pthread_mutex_destroy(&c->pools[i].lock);
    }
    sl_alloc_free(c->alloc, c->piece, PIECE);
}

/* The remote store first: its pending takes fail and are undone here. */
static void close_combined(struct sl_store *store)
{
    struct combined *c = of(store);

    sl_store_close(c->options.remote);
    sl_store_close(c->options.local);
    free_pools(c);
    sl_alloc_free(c->alloc, c, sizeof(*c));
}

static const struct sl_store_calls calls = {
    .bind = bind,
    .tighten = tighten,
    .take = take,
    .close = close_combined,
    .keep = keep,
    .retry_in = retry_in,
    .hold = hold,
};

static int open_pools(struct combined *c)
{
    char *at = sl_alloc_new(c->alloc, PIECE);

    if (!at)
        return SLUICE_ENOMEM;
    c->piece = at;
    memset(at, 0, PIECE);
    c->pools = (void *)(at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN);
    for (unsigned i = 0; i < POOLS; i++)
        pthread_mutex_init(&c->pools[i].lock, NULL);
    return 0;
}

int sl_combined_store_open(const struct sl_combined_options *options,
                           struct sl_store **ret)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct combined *c = sl_alloc_new(alloc, sizeof(*c));

    if (!c)
        return SLUICE_ENOMEM;
    memset(c, 0, sizeof(*c));
    c->options = *options;
    c->alloc = alloc;
    if (open_pools(c)) {
        sl_alloc_free(alloc, c, sizeof(*c));
        return SLUICE_ENOMEM;
    }
    c->calls = calls;
    if (!options->remote->calls->hold)
        c->calls.hold = NULL;
    c->store.calls = &c->calls;
    c->store.secret = options->local->secret;
    c->store.wants_names = options->remote->wants_names;
    c->store.in_slots = options->remote->in_slots;
    c->store.remote = options->remote;
    c->store.quotas_here = !options->twice;
    *ret = &c->store;
    return 0;
}

struct sl_store *sl_combined_store_replace(struct sl_store *store,
                                           struct sl_store *local)
{
    struct sl_store *old = of(store)->options.local;

    of(store)->options.local = local;
    store->secret = local->secret;
    return old;
}
