/* wait_check.c -- whether a check waits, in which queue, and for how long.
 *
 * Rules.
 *   (1) A check waits only if every limit that denies it may have units again
 *       in time: its retry is in time, or it has permits. It waits in the queue
 *       of the first of them.
 *   (2) A check that may wait does not overtake: if others wait for one of its
 *       keys, it joins them before its take.
 *   (3) If a queue is full, or its estimate exceeds the longest wait, the check
 *       is refused at once with 503 and the estimate.
 *
 * Estimates. A limit by rate grants at a known pace: a bucket one by one, a
 * window all at its end. Permits have the pace at which they were granted
 * lately. Until the first one is granted the pace is unknown, and checks wait;
 * if the queue is full then, the estimate is the time since the last grant for
 * each waiter ahead.
 */
#include <string.h>

#include "base/arith.h"
#include "engine/engine_int.h"
#include "engine/hold_op.h"

/* The queue of a limit's name and key, and the caller's organisation, or any
 * other name, as the tenant. */
static struct sl_queue_of queue_of(const struct sl_check *c,
                                   const struct sl_limit_view *shown)
{
    const struct sl_decision *d = &c->decision;
    const struct sl_hash_key *secret = sl_store_secret(c->engine->store);
    uint64_t name = sl_hash64(secret, shown->rule->name);
    struct sl_hash_key key = {secret->k0 ^ name, secret->k1};
    struct sl_str who = {"", 0};

    for (unsigned i = 0; i < d->who_count; i++)
        if (who.len == 0 || sl_str_eq(d->who[i].scope, SL_STR("org")))
            who = d->who[i].value;
    return (struct sl_queue_of){
        .key = sl_hash128(&key, shown->key),
        .limit = name,
        .most = shown->rule->queue,
        .group = sl_hash128(secret, who),
        .weight = d->policy->plans.list[d->plan].weight,
    };
}

/* ---- estimates ---- */

static sl_ns times(sl_ns span, uint64_t count)
{
    sl_ns product;

    return __builtin_mul_overflow(span, (sl_ns)count, &product) ? SL_NS_MAX
                                                                : product;
}

/* Time until `ahead` others and this check have passed. */
static sl_ns estimate(const struct sl_limit_view *shown, sl_ns retry,
                      unsigned ahead, sl_ns pace)
{
    const struct sl_limit *n = shown->numbers;
    bool windows = n->kind == SL_FIXED || n->kind == SL_SLIDING ||
                   n->kind == SL_QUOTA || n->kind == SL_INTERVAL;

    if (n->kind == SL_PERMITS || n->kind == SL_LEVEL || n->count == 0)
        return pace < 0 ? SL_NS_NONE : times(pace, (uint64_t)ahead + 1);
    return sl_ns_add_sat(retry > 0 ? retry : 0,
                         windows ? times(n->period, ahead / n->count)
                                 : times(n->period / (sl_ns)n->count, ahead));
}

/* The estimate for a full queue while the pace is unknown. */
static sl_ns guess(const struct sl_queue_view *view, sl_ns now)
{
    sl_ns span = now - view->since;

    if (view->waiting == 0 || span < SL_S)
        span = SL_S;
    return times(span, (uint64_t)view->ahead + 1);
}

/* (3) */
static void refuse(struct sl_check *c, sl_ns retry)
{
    struct sl_decision *d = &c->decision;

    sl_decision_refuse(d, SL_REASON_QUEUE);
    if (d->reason == SL_REASON_QUEUE)
        d->retry_in = retry > 0 && retry < SL_NS_MAX ? retry : SL_S;
}

/* ---- waiting ---- */

static void on_late(struct sl_waiter *w, sl_ns now)
{
    struct sl_check *c = w->ctx;

    c->decision.waited = now - w->since;
    refuse(c, c->estimate);
    sl_check_finish(c, 0);
}

static void on_turn(struct sl_waiter *w, sl_ns now)
{
    struct sl_check *c = w->ctx;

    c->again.now = now;
    sl_check_resume(c);
}

static void begin_wait(struct sl_check *c)
{
    if (c->in_turn)
        return; /* it goes on */
    c->waiter = (struct sl_waiter){
        .thread = c->engine_ctx->wait_thread,
        .since = c->decision.now,
        .until = sl_ns_add_sat(c->decision.now, c->wait),
        .on_turn = on_turn,
        .on_late = on_late,
        .ctx = c,
    };
    c->again = *c->requests;
    c->in_turn = true;
}

/* When to retry. Permits are polled, too: another process may have released
 * one. */
static sl_ns due_of(const struct sl_limit_view *shown, sl_ns now, sl_ns retry)
{
    bool permits = shown->rule->kind == SL_PERMITS;

    if (retry < 0 || (permits && retry > SL_WAIT_POLL))
        return SL_NS_NONE;
    return sl_ns_add_sat(now, retry);
}

/* Joins the queue of a limit that may be retried in `retry`. False if the
 * check was refused. */
static bool join(struct sl_check *c, const struct sl_limit_view *shown,
                 sl_ns retry)
{
    struct sl_queues *queues = c->engine->queues;
    struct sl_queue_of of = queue_of(c, shown);
    bool permits = shown->rule->kind == SL_PERMITS;
    sl_ns now = c->decision.now;
    struct sl_queue_view view;

    begin_wait(c);
    sl_queue_look(queues, &of, &view);
    if (view.waiting > 0 && view.due > now && view.due - now > retry)
        retry = view.due - now;
    c->estimate = estimate(shown, retry, view.ahead, view.pace);
    if (c->estimate > c->waiter.until - now) {
        refuse(c, c->estimate);
        return false;
    }
    if (sl_queue_join(queues, &of, now, due_of(shown, now, retry), permits,
                      &c->waiter)) {
        refuse(c, c->estimate < 0 ? guess(&view, now) : c->estimate);
        return false;
    }
    if (c->estimate < 0)
        c->estimate = retry;
    c->state = SL_CHECK_WAIT;
    if (c->waits)
        c->waits(c);
    return true;
}

sl_ns sl_wait_check_longest(const struct sl_check *c)
{
    const struct sl_wait_thread *thread = c->engine_ctx->wait_thread;
    sl_ns wait = c->requests->wait;

    if (!thread || !thread->queues || c->request_count != 1 || !c->spend ||
        c->no_wait || wait < 0)
        return 0;
    if (wait == 0)
        wait = c->decision.route->wait;
    return wait < SL_WAIT_MOST ? wait : SL_WAIT_MOST;
}

bool sl_wait_check_behind(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (c->in_turn || d->on_local)
        return false;
    c->wait = sl_wait_check_longest(c);
    if (c->wait == 0 || sl_queues_count(c->engine->queues) == 0)
        return false;
    for (unsigned i = 0; i < d->take.count; i++) {
        const struct sl_limit_view *shown = &d->shown[d->part_shown[i]];
        struct sl_queue_of of = queue_of(c, shown);
        struct sl_queue_view view;

        sl_queue_look(c->engine->queues, &of, &view);
        if (view.waiting == 0)
            continue;
        if (!join(c, shown, SL_NS_NONE)) /* (2) */
            sl_check_finish(c, 0);
        return true;
    }
    return false;
}

/* (1): the limit to wait for, or NULL. */
static const struct sl_limit_view *find_denial(const struct sl_check *c,
                                               sl_ns left, sl_ns *ret_retry)
{
    const struct sl_decision *d = &c->decision;
    const struct sl_limit_view *first = NULL;

    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];
        sl_ns retry = shown->answer.retry_in;

        if (shown->allowed || shown->mode != SL_MODE_ENFORCE || shown->skipped)
            continue;
        if (shown->answer.outcome != SL_DENY)
            return NULL;
        /* Permits come back when their holders end. */
        if (shown->rule->kind != SL_PERMITS && (retry < 0 || retry > left))
            return NULL;
        if (!first) {
            first = shown;
            *ret_retry = retry;
        } else if (shown->rule->kind != SL_PERMITS && retry > *ret_retry &&
                   first->rule->kind != SL_PERMITS) {
            *ret_retry = retry;
        }
    }
    return first;
}

/* Waits for `shown`, again or for the first time. False if the check was
 * refused. */
static bool wait_for(struct sl_check *c, const struct sl_limit_view *shown,
                     sl_ns retry)
{
    struct sl_queue_of of = queue_of(c, shown);
    sl_ns now = c->decision.now;

    if (c->in_turn &&
        sl_queue_stay(&c->waiter, &of, now, due_of(shown, now, retry))) {
        c->state = SL_CHECK_WAIT;
        return true;
    }
    sl_queue_leave(&c->waiter, now, false);
    return join(c, shown, retry);
}

bool sl_wait_check_waits(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    const struct sl_limit_view *shown = NULL;
    sl_ns left = c->in_turn ? c->waiter.until - d->now : c->wait;
    sl_ns retry = SL_NS_NONE;

    if (d->by >= 0 && d->reason == SL_REASON_NONE && left > 0 && !c->gone)
        shown = find_denial(c, left, &retry);
    if (shown && wait_for(c, shown, retry))
        return true;
    if (c->in_turn)
        d->waited = d->now - c->waiter.since;
    sl_queue_leave(&c->waiter, d->now, d->allowed);
    return false;
}

void sl_wait_check_freed(const struct sl_hold_op *op)
{
    struct sl_engine *engine = op->engine;

    if (sl_queues_count(engine->queues) == 0)
        return;
    for (unsigned i = 0; i < op->call.count; i++) {
        const struct sl_rule *rule = sl_hold_rule(op, i);

        if (rule)
            sl_queues_freed(
                engine->queues,
                sl_hash64(sl_store_secret(engine->store), rule->name));
    }
}
