/* outage.c -- decisions while the store fails, and the debts they leave.
 *
 *     add, give --> owed --settle, collect--> sent to the store --> freed
 *                     ^                        |
 *                     +------ not sent --------+
 *
 * A debt is what passed or was refunded for one key. Debts are in a hash table
 * by their names. A debt that is being sent is not in the table; what passes
 * for its key meanwhile is a new debt.
 *
 * What is answered while the store fails: sl_outage_conclude().
 */
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "core/algorithm.h"
#include "engine/engine.h"
#include "engine/engine_int.h"

#define CHAINS  1024 /* a power of two */
#define AT_ONCE 32   /* sent after another take was answered */

struct debt {
    TAILQ_ENTRY(debt) link; /* the oldest first */
    LIST_ENTRY(debt) chain;
    struct sl_debts *debts;
    struct sl_active_policy *active; /* `limit` and `part` point into it */
    struct sl_limit limit;
    struct sl_cell taken, given; /* passed, and refunded */
    struct sl_take take;
    struct sl_part part;
    size_t size; /* of this block */
    char text[]; /* the name, then the key */
};

struct sl_debts {
    const struct sl_alloc *alloc;
    pthread_mutex_t lock; /* of the fields below */
    struct sl_hash_key secret;
    LIST_HEAD(, debt) chains[CHAINS];
    TAILQ_HEAD(, debt) list;
    size_t bytes;           /* of all texts */
    _Atomic unsigned count; /* in the list; written under the lock */
    struct sl_debts_stats stats;
};

/* ---- one debt ---- */

/* The units in a cell at `now`; they may exceed the limit. */
static int64_t units_of(const struct debt *debt, struct sl_cell cell, sl_ns now)
{
    struct sl_limit wide = debt->limit;
    struct sl_answer answer;

    if (sl_is_bucket(wide.kind))
        return (int64_t)((sl_units_used(&wide, cell, now) + wide.token - 1) /
                         wide.token);
    wide.capacity = SL_AMOUNT_MAX;
    answer = sl_take(&wide, cell, 0, now).answer;
    return (int64_t)(answer.capacity - answer.remaining);
}

/* The units owed at `now`, at most the capacity of the limit. Negative: a
 * refund. */
static int64_t owed(const struct debt *debt, sl_ns now)
{
    int64_t most = (int64_t)debt->limit.capacity;
    int64_t units =
        units_of(debt, debt->taken, now) - units_of(debt, debt->given, now);

    if (units > most)
        return most;
    return units < -most ? -most : units;
}

/* Add `by` units. Takes cancel refunds and the other way round, so that one of
 * `taken` and `given` is empty. */
static void move(struct debt *debt, int64_t by, sl_ns now)
{
    struct sl_cell *own = by > 0 ? &debt->taken : &debt->given;
    struct sl_cell *other = by > 0 ? &debt->given : &debt->taken;
    int64_t units = by > 0 ? by : -by, open = units_of(debt, *other, now);
    int64_t cancelled = units < open ? units : open;

    if (cancelled > 0)
        *other = sl_adjust(&debt->limit, *other, -cancelled, now, now).next;
    if (units > cancelled)
        *own = sl_adjust(&debt->limit, *own, units - cancelled, now, now).next;
}

static void debt_free(struct debt *debt)
{
    struct sl_debts *debts = debt->debts;

    sl_active_policy_unref(debt->active);
    sl_alloc_free(debts->alloc, debt, debt->size);
}

static struct sl_str name_of(const struct sl_part *part)
{
    return part->name.len > 0 ? part->name : part->key;
}

static unsigned chain_of(const struct sl_debts *debts, struct sl_str name)
{
    return (unsigned)sl_hash128(&debts->secret, name).lo & (CHAINS - 1);
}

/* Find a debt by its name and limit. */
static struct debt *find(const struct sl_debts *debts,
                         const struct sl_part *part)
{
    struct sl_str name = name_of(part);
    struct debt *debt;

    LIST_FOREACH (debt, &debts->chains[chain_of(debts, name)], chain)
        if (sl_str_eq(name_of(&debt->part), name) &&
            strcmp(debt->part.binding->name, part->binding->name) == 0)
            return debt;
    return NULL;
}

static void insert(struct sl_debts *debts, struct debt *debt)
{
    unsigned chain = chain_of(debts, name_of(&debt->part));

    LIST_INSERT_HEAD(&debts->chains[chain], debt, chain);
    TAILQ_INSERT_TAIL(&debts->list, debt, link);
    debts->bytes += debt->size - sizeof(*debt);
    atomic_store(&debts->count, atomic_load(&debts->count) + 1);
}

static void take_out(struct sl_debts *debts, struct debt *debt)
{
    LIST_REMOVE(debt, chain);
    TAILQ_REMOVE(&debts->list, debt, link);
    debts->bytes -= debt->size - sizeof(*debt);
    atomic_store(&debts->count, atomic_load(&debts->count) - 1);
}

/* Use the numbers of the active policy, and hold a reference to it. */
static void adopt(struct debt *debt, struct sl_active_policy *active,
                  const struct sl_part *part)
{
    struct sl_active_policy *last = debt->active;

    atomic_fetch_add(&active->refs, 1);
    debt->active = active;
    debt->part.binding = part->binding;
    debt->limit = *part->limit;
    sl_active_policy_unref(last);
}

static struct debt *make(struct sl_debts *debts, const struct sl_part *part)
{
    size_t text = part->name.len + part->key.len;
    size_t size = sizeof(struct debt) + text;
    struct debt *debt = NULL;

    if (atomic_load(&debts->count) < SL_DEBTS &&
        debts->bytes + text <= SL_DEBTS_BYTES)
        debt = sl_alloc_new(debts->alloc, size);
    if (!debt)
        return NULL;
    memset(debt, 0, sizeof(*debt));
    debt->debts = debts;
    debt->size = size;
    debt->part.limit = &debt->limit;
    debt->part.name = (struct sl_str){debt->text, part->name.len};
    debt->part.key =
        (struct sl_str){debt->text + part->name.len, part->key.len};
    if (part->name.len > 0)
        memcpy(debt->text, part->name.at, part->name.len);
    if (part->key.len > 0)
        memcpy(debt->text + part->name.len, part->key.at, part->key.len);
    insert(debts, debt);
    return debt;
}

/* Add to the debt of a part. `sign` is -1 for a refund. */
static void record(struct sl_debts *debts, struct sl_active_policy *active,
                   const struct sl_part *part, int sign, sl_ns now)
{
    uint64_t cost = part->cost < SL_AMOUNT_MAX ? part->cost : SL_AMOUNT_MAX;
    struct debt *debt;

    if (cost == 0)
        return;
    pthread_mutex_lock(&debts->lock);
    debt = find(debts, part);
    if (!debt)
        debt = make(debts, part);
    if (debt) {
        adopt(debt, active, part);
        move(debt, sign * (int64_t)cost, now);
    } else if (sign > 0) {
        debts->stats.forgiven += cost;
    } else {
        debts->stats.lost += cost;
    }
    pthread_mutex_unlock(&debts->lock);
}

void sl_debts_add(struct sl_debts *debts, struct sl_active_policy *active,
                  const struct sl_part *part, sl_ns now)
{
    record(debts, active, part, 1, now);
}

void sl_debts_give(struct sl_debts *debts, struct sl_active_policy *active,
                   const struct sl_part *part, sl_ns now)
{
    record(debts, active, part, -1, now);
}

/* ---- sending debts to the store ---- */

/* It was not sent: put it back, or add it to a newer debt of the key. */
static void owe_again(struct sl_debts *debts, struct debt *debt)
{
    struct debt *other = find(debts, &debt->part);
    int64_t cost = (int64_t)debt->part.cost;

    if (!other) {
        insert(debts, debt);
        return;
    }
    move(other, debt->take.op == SL_TAKE_OP_CHARGE ? cost : -cost,
         debt->take.now);
    debt_free(debt);
}

static void on_sent(struct sl_take *take)
{
    struct debt *debt = take->ctx;
    struct sl_debts *debts = debt->debts;

    pthread_mutex_lock(&debts->lock);
    if (take->err && !take->sent) {
        owe_again(debts, debt);
    } else {
        if (take->err)
            debts->stats.lost += debt->part.cost;
        else if (take->op == SL_TAKE_OP_CHARGE)
            debts->stats.charged += debt->part.cost;
        debt_free(debt);
    }
    pthread_mutex_unlock(&debts->lock);
}

/* Remove it from the list and fill its take. False: nothing is owed any more,
 * and it is freed. */
static bool begin(struct sl_debts *debts, struct debt *debt,
                  struct sl_loop *loop, sl_ns now)
{
    int64_t units = owed(debt, now);

    take_out(debts, debt);
    debt->part.cost = (uint64_t)(units < 0 ? -units : units);
    debt->part.taken_at = now;
    if (units == 0) {
        debt_free(debt);
        return false;
    }
    debt->take = (struct sl_take){
        .op = units > 0 ? SL_TAKE_OP_CHARGE : SL_TAKE_OP_REFUND,
        .parts = &debt->part,
        .count = 1,
        .now = now,
        .loop = loop,
        .done = on_sent,
        .ctx = debt,
    };
    return true;
}

/* Without the lock: a store in this process calls on_sent() at once. */
static void send_all(struct sl_store *store, struct debt *const *list,
                     unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        sl_store_take(store, &list[i]->take);
}

void sl_debts_settle(struct sl_debts *debts, struct sl_store *store,
                     const struct sl_take *take)
{
    struct debt *list[SL_PARTS];
    unsigned count = 0;

    pthread_mutex_lock(&debts->lock);
    for (unsigned i = 0; i < take->count && i < SL_PARTS; i++) {
        struct debt *debt = find(debts, &take->parts[i]);

        if (debt && begin(debts, debt, take->loop, take->now))
            list[count++] = debt;
    }
    pthread_mutex_unlock(&debts->lock);
    send_all(store, list, count);
}

static void collect(struct sl_debts *debts, struct sl_store *store,
                    struct sl_loop *loop, sl_ns now)
{
    struct debt *list[AT_ONCE], *debt;
    unsigned count = 0;

    pthread_mutex_lock(&debts->lock);
    while (count < AT_ONCE && (debt = TAILQ_FIRST(&debts->list)) != NULL)
        if (begin(debts, debt, loop, now))
            list[count++] = debt;
    pthread_mutex_unlock(&debts->lock);
    send_all(store, list, count);
}

bool sl_debts_any(const struct sl_debts *debts)
{
    return atomic_load_explicit(&debts->count, memory_order_relaxed) > 0;
}

void sl_debts_stats(struct sl_debts *debts, struct sl_debts_stats *ret)
{
    pthread_mutex_lock(&debts->lock);
    *ret = debts->stats;
    ret->keys = atomic_load(&debts->count);
    pthread_mutex_unlock(&debts->lock);
}

/* ---- open and close ---- */

int sl_debts_open(const struct sl_alloc *alloc, struct sl_debts **ret)
{
    struct sl_debts *debts = sl_alloc_new(alloc, sizeof(*debts));

    if (!debts)
        return SLUICE_ENOMEM;
    memset(debts, 0, sizeof(*debts));
    debts->alloc = alloc;
    TAILQ_INIT(&debts->list);
    if (sl_hash_key_make(&debts->secret)) {
        sl_alloc_free(alloc, debts, sizeof(*debts));
        return SLUICE_ESYS;
    }
    pthread_mutex_init(&debts->lock, NULL);
    *ret = debts;
    return 0;
}

void sl_debts_forget(struct sl_debts *debts)
{
    struct debt *debt;

    pthread_mutex_lock(&debts->lock);
    while ((debt = TAILQ_FIRST(&debts->list)) != NULL) {
        take_out(debts, debt);
        debt_free(debt);
    }
    pthread_mutex_unlock(&debts->lock);
}

void sl_debts_close(struct sl_debts *debts)
{
    if (!debts)
        return;
    sl_debts_forget(debts);
    pthread_mutex_destroy(&debts->lock);
    sl_alloc_free(debts->alloc, debts, sizeof(*debts));
}

/* ---- debts of decisions ---- */

static void owe_part(struct sl_debts *debts,
                     const struct sl_active_policy *active,
                     const struct sl_part *part, const struct sl_decision *d)
{
    struct sl_active_policy *held =
        (struct sl_active_policy *)(uintptr_t)active;

    if (d->take.op == SL_TAKE_OP_REFUND)
        sl_debts_give(debts, held, part, d->now);
    else
        sl_debts_add(debts, held, part, d->now);
}

/* A take that may have reached the store is not charged again. */
void sl_outage_add_debt(const struct sl_active_policy *active,
                        struct sl_decision *d)
{
    struct sl_engine *engine = active->engine;
    bool corrects =
        d->take.op == SL_TAKE_OP_CHARGE || d->take.op == SL_TAKE_OP_REFUND;

    if ((d->take.op != SL_TAKE_OP_TAKE && !corrects) || !d->allowed)
        return;
    if (d->take.sent && corrects)
        return; /* it may have reached the store */
    if ((d->take.sent || d->take.taken) && engine->store->calls->keep)
        engine->store->calls->keep(engine->store, d->take.loop);
    if (d->take.sent && engine->store->calls->keep)
        return;
    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_part part = d->parts[i];
        const struct sl_limit_view *shown = &d->shown[d->part_shown[i]];

        if (d->take.taken >> i & 1)
            continue;
        part.binding = &active->stored[2 * shown->rule->index];
        part.cost = shown->cost; /* and not what the local table was asked */
        part.view = NULL;        /* the usage sink has recorded it */
        /* Permits come back with their hold, which is on the local table. */
        if (!part.carried && shown->rule->kind != SL_PERMITS)
            owe_part(engine->debts, active, &part, d);
    }
}

void sl_outage_pay_debts(struct sl_engine *engine, const struct sl_decision *d)
{
    if (!d->on_local && !d->take.err && sl_debts_any(engine->debts))
        collect(engine->debts, engine->store, d->take.loop, d->now);
}

void sl_engine_settle(struct sl_engine *engine, struct sl_loop *loop, sl_ns now)
{
    if (sl_debts_any(engine->debts))
        collect(engine->debts, engine->store, loop, now);
}

void sl_engine_debts(struct sl_engine *engine, struct sl_debts_stats *ret)
{
    sl_debts_stats(engine->debts, ret);
}

bool sl_engine_is_shared(const struct sl_engine *engine)
{
    return engine->store->wants_names;
}

void sl_engine_nodes(struct sl_engine *engine, struct sl_str limit,
                     unsigned count)
{
    struct sl_active_policy *active;
    int rule;

    if (limit.len == 0) {
        atomic_store(&engine->nodes, count);
        return;
    }
    active = sl_engine_ref_policy(engine, NULL);
    rule = sl_policy_rule(active->policy, limit);
    if (rule >= 0)
        atomic_store(&active->nodes[rule], count);
    sl_active_policy_unref(active);
}

/* How many daemons share a limit during an outage; at least 1. */
static unsigned sharing_daemons(const struct sl_active_policy *active,
                                const struct sl_rule *rule)
{
    unsigned nodes =
        atomic_load_explicit(&active->nodes[rule->index], memory_order_relaxed);

    if (nodes == 0)
        nodes =
            atomic_load_explicit(&active->engine->nodes, memory_order_relaxed);
    return nodes > 0 ? nodes : 1;
}

sl_ns sl_engine_retry_in(const struct sl_engine *engine,
                         const struct sl_loop *loop)
{
    const struct sl_store *store = engine->store;
    sl_ns in = store->calls->retry_in ? store->calls->retry_in(store, loop) : 0;

    return in > SL_S ? in : SL_S;
}

/* ---- a part of a limit, while the store is away.
 *
 * `on_store_failure: local` decides by this process's own table. If n daemons
 * share the limit, each lets an n-th of the limit through, so that all of them
 * together keep it. The limit stays as it is, and a request costs n times as
 * much: whatever the kind, the rate and the capacity are an n-th then, to the
 * unit, and nothing that was used is lost when n changes.
 *
 *     5/min burst 8, 2 daemons:  a request costs 2 of 8 and of 5 in a minute
 *
 * A request that would cost more than the limit holds that way costs all of it:
 * one passes now and then, at each of them, instead of none for good.
 */

uint64_t sl_local_cost(const struct sl_limit_view *shown,
                       const struct sl_part *part)
{
    uint64_t most = part->limit->capacity;
    uint64_t cost = part->cost;

    if (shown->sharers <= 1 || cost == 0 || cost > most)
        return cost;
    return cost <= most / shown->sharers ? cost * shown->sharers : most;
}

void sl_local_answer(const struct sl_limit_view *shown, struct sl_part *part,
                     bool open)
{
    struct sl_answer *a = &part->answer;
    uint64_t used = a->capacity > a->remaining ? a->capacity - a->remaining : 0;

    if (shown->sharers <= 1)
        return;
    if (open)
        a->remaining = a->capacity - used / shown->sharers;
    else
        a->remaining /= shown->sharers;
}

/* ---- `on_store_failure` ---- */

/* `on_store_failure` of the route goes before that of its limits, except of
 * `taken`: these have not failed. */
static enum sl_failure failure_of(const struct sl_decision *d,
                                  const struct sl_descriptor_match *side,
                                  uint32_t taken)
{
    enum sl_failure failure = SL_FAILURE_ALLOW;

    if (side->route->failure >= 0)
        return (enum sl_failure)side->route->failure;
    for (unsigned i = 0; i < d->shown_count; i++)
        if ((side->shown & ~taken) >> i & 1 &&
            sl_limit_view_counts(d, &d->shown[i]) &&
            d->shown[i].rule->failure > failure)
            failure = d->shown[i].rule->failure;
    return failure;
}

static enum sl_failure strictest_failure(const struct sl_decision *d,
                                         uint32_t taken)
{
    enum sl_failure failure = SL_FAILURE_ALLOW;

    if (d->running_count > 0 && d->route->failure < 0)
        return SL_FAILURE_DENY;
    for (unsigned i = 0; i < d->side_count; i++) {
        enum sl_failure own = failure_of(d, &d->sides[i], taken);

        if (own > failure)
            failure = own;
    }
    return failure;
}

/* Whether the caller is registered is not known, so `deny` is 503, not 403. */
void sl_outage_conclude_unsure(struct sl_decision *d)
{
    enum sl_unknown unknown = d->policy->identity.unknown_subject;

    d->degraded = true;
    if (d->charge || d->give_back)
        return;
    if (unknown == SL_UNKNOWN_PASS)
        d->no_numbers = true;
    if (unknown != SL_UNKNOWN_DENY)
        return;
    sl_decision_refuse(d, SL_REASON_STORE);
    d->retry_in = SL_S;
}

void sl_outage_conclude_repeat(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    d->degraded = true;
    if (strictest_failure(d, 0) != SL_FAILURE_DENY || d->charge || d->give_back)
        return;
    sl_decision_refuse(d, SL_REASON_STORE);
    d->retry_in = sl_engine_retry_in(c->engine, c->engine_ctx->loop);
}

/* The limits that were taken although another has failed, as bits of `shown`.
 */
static uint32_t taken_limits(const struct sl_decision *d)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < d->take.count; i++)
        if (d->take.taken >> i & 1)
            bits |= UINT32_C(1) << d->part_shown[i];
    return bits;
}

/* The local table has no share of a quota that was taken: then all limits
 * decide. */
static enum sl_failure failure_of_all(const struct sl_decision *d)
{
    enum sl_failure failure = strictest_failure(d, taken_limits(d));

    return failure == SL_FAILURE_LOCAL ? strictest_failure(d, 0) : failure;
}

bool sl_outage_conclude(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    enum sl_failure failure = failure_of_all(d);

    /* What was used is reported, whatever the limits say. */
    if (d->charge || (d->give_back && failure == SL_FAILURE_DENY))
        failure = SL_FAILURE_ALLOW;
    if (failure == SL_FAILURE_LOCAL && !d->on_local && c->active->local) {
        d->on_local = true;
        for (unsigned i = 0; i < d->shown_count; i++)
            d->shown[i].sharers = sharing_daemons(c->active, d->shown[i].rule);
        return sl_parts_ask_limits(c);
    }
    if (failure != SL_FAILURE_ALLOW) {
        sl_decision_refuse(d, SL_REASON_STORE);
        /* The caller waits for the store, not for the limits. */
        d->retry_in = sl_engine_retry_in(c->engine, d->take.loop);
    }
    d->degraded = true;
    d->no_numbers = true;
    if (d->allowed)
        sl_decision_conclude(d);
    sl_outage_add_debt(c->active, d);
    return false;
}
