/* wait_check.c -- may a question wait, where, and what becomes of it then.
 *
 * Rules.
 *   (1) A question waits only if every limit that denies it may come free in
 *       time: it says so, or it has permits. It stands in the queue of the
 *       first of them.
 *   (2) Who may wait does not overtake: if others wait for a key of his, he
 *       stands behind them unasked.
 *   (3) A queue that is full, or whose estimate is longer than the wait, is
 *       answered at once with 503, and with the estimate.
 *
 * Estimates. A limit by rate says itself how fast it grants: a bucket one
 * after the other, a window a whole row at its end. For permits there is the
 * pace at which they were granted lately; before the first nobody knows, and
 * one waits. Who finds the queue full then is told to come back after as long
 * as nobody has passed, for each of those before him.
 */
#include <string.h>

#include "base/arith.h"
#include "engine/engine_int.h"
#include "engine/hold_op.h"

/* ---- which queue ---- */

static uint64_t name_of(const struct sl_check *c, const struct sl_rule *rule)
{
    return sl_hash64(sl_engine_secret(c->engine), rule->name);
}

/* State belongs to name and key, and so do queues. */
static struct sl_queue_of queue_of(const struct sl_check *c,
                                   const struct sl_limit_view *shown)
{
    struct sl_hash_key key = *sl_engine_secret(c->engine);

    key.k0 ^= name_of(c, shown->rule);
    return (struct sl_queue_of){
        .key = sl_hash128(&key, shown->key),
        .limit = name_of(c, shown->rule),
        .most = shown->rule->queue,
    };
}

/* His organisation, or whoever else he is. */
static struct sl_hash128 group(const struct sl_check *c)
{
    const struct sl_decision *d = &c->decision;
    struct sl_str who = {"", 0};

    for (unsigned i = 0; i < d->who_count; i++)
        if (who.len == 0 || sl_str_eq(d->who[i].scope, SL_STR("org")))
            who = d->who[i].value;
    return sl_hash128(sl_engine_secret(c->engine), who);
}

static unsigned weight_of(const struct sl_decision *d)
{
    return d->policy->plans.list[d->plan].weight;
}

/* ---- estimates ---- */

/* Until `ahead` others and he have passed. */
static sl_ns estimate(const struct sl_limit_view *shown, sl_ns retry,
                      unsigned ahead, sl_ns pace)
{
    const struct sl_limit *n = shown->numbers;
    bool row = n->kind == SL_FIXED || n->kind == SL_SLIDING ||
               n->kind == SL_QUOTA || n->kind == SL_INTERVAL;
    sl_ns span = 0;

    if (n->kind == SL_PERMITS || n->kind == SL_LEVEL || n->count == 0) {
        if (pace < 0)
            return SL_NS_NONE;
        return __builtin_mul_overflow(pace, (sl_ns)ahead + 1, &span) ? SL_NS_MAX
                                                                     : span;
    }
    if (row ? __builtin_mul_overflow(n->period, (sl_ns)(ahead / n->count),
                                     &span)
            : __builtin_mul_overflow(n->period / (sl_ns)n->count, (sl_ns)ahead,
                                     &span))
        return SL_NS_MAX;
    return sl_ns_add_sat(retry > 0 ? retry : 0, span);
}

/* (3) */
static void refuse(struct sl_check *c, sl_ns retry)
{
    struct sl_decision *d = &c->decision;

    sl_decision_refuse(d, SL_REASON_QUEUE);
    if (d->reason == SL_REASON_QUEUE)
        d->retry_in = retry > 0 && retry < SL_NS_MAX ? retry : SL_S;
}

/* For those who find no place while nobody can tell the pace: nobody has passed
 * for so long, and as many are before him. */
static sl_ns guess(const struct sl_queue_view *view, sl_ns now)
{
    sl_ns span = now - view->since;

    if (view->waiting == 0 || span < SL_S)
        span = SL_S;
    return __builtin_mul_overflow(span, (sl_ns)view->ahead + 1, &span)
               ? SL_NS_MAX
               : span;
}

/* ---- waiting ---- */

/* He waited in vain. */
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
    struct sl_waiter *w = &c->waiter;

    if (c->in_turn)
        return; /* it goes on */
    *w = (struct sl_waiter){
        .room = c->engine_ctx->room,
        .since = c->decision.now,
        .until = sl_ns_add_sat(c->decision.now, c->wait),
        .on_turn = on_turn,
        .on_late = on_late,
        .ctx = c,
    };
    c->again = *c->requests;
    c->in_turn = true;
}

/* When to try again. Permits are tried once in a while, too, as another process
 * may have released one. */
static sl_ns due_of(const struct sl_limit_view *shown, sl_ns now, sl_ns retry)
{
    bool permits = shown->rule->kind == SL_PERMITS;

    if (retry < 0 || (permits && retry > SL_WAIT_POLL))
        return SL_NS_NONE;
    return sl_ns_add_sat(now, retry);
}

/* Stand in the queue of a limit that may be tried in `retry`. False if it was
 * refused. */
static bool join(struct sl_check *c, const struct sl_limit_view *shown,
                 sl_ns retry)
{
    struct sl_queues *queues = c->engine->queues;
    struct sl_queue_of of = queue_of(c, shown);
    const struct sl_decision *d = &c->decision;
    bool permits = shown->rule->kind == SL_PERMITS;
    sl_ns now = d->now;
    struct sl_queue_view view;

    begin_wait(c);
    sl_queue_look(queues, &of, group(c), weight_of(d), &view);
    if (view.waiting > 0 && view.due > now && view.due - now > retry)
        retry = view.due - now;
    c->estimate = estimate(shown, retry, view.ahead, view.pace);
    if (c->estimate > c->waiter.until - now) {
        refuse(c, c->estimate);
        return false;
    }
    if (sl_queue_join(queues, &of, group(c), weight_of(d), now,
                      due_of(shown, now, retry), permits, &c->waiter)) {
        refuse(c, c->estimate < 0 ? guess(&view, now) : c->estimate);
        return false;
    }
    if (c->estimate < 0)
        c->estimate = retry; /* at the latest, as far as anybody knows */
    c->state = SL_CHECK_WAIT;
    if (c->waits)
        c->waits(c);
    return true;
}

/* How long such a question may wait; 0: not at all. */
static sl_ns wait_of(const struct sl_check *c)
{
    sl_ns wait = c->requests->wait;

    if (!c->engine_ctx || !c->engine_ctx->room ||
        !c->engine_ctx->room->queues || c->request_count != 1 || !c->spend ||
        c->no_wait)
        return 0;
    if (wait < 0)
        return 0;
    if (wait == 0)
        wait = c->decision.route->wait;
    return wait < SL_WAIT_MOST ? wait : SL_WAIT_MOST;
}

bool sl_wait_check_may_wait(const struct sl_check *c)
{
    return wait_of(c) > 0;
}

bool sl_wait_check_behind(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (c->in_turn || d->on_local)
        return false;
    c->wait = wait_of(c);
    if (c->wait == 0 || !sl_queues_any(c->engine->queues))
        return false;
    for (unsigned i = 0; i < d->take.count; i++) {
        const struct sl_limit_view *shown = &d->shown[d->part_shown[i]];
        struct sl_queue_of of = queue_of(c, shown);
        struct sl_queue_view view;

        sl_queue_look(c->engine->queues, &of, group(c), 1, &view);
        if (view.waiting == 0)
            continue;
        if (!join(c, shown, SL_NS_NONE)) /* (2) */
            sl_check_finish(c, 0);
        return true;
    }
    return false;
}

/* (1): which limit he waits for, or NULL. */
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
        /* Permits come back whenever their holders have done. */
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

/* His turn brought nothing. True if he goes on waiting. */
static bool go_on_waiting(struct sl_check *c, const struct sl_limit_view *shown,
                          sl_ns retry)
{
    struct sl_waiter *w = &c->waiter;
    struct sl_queue_of of = queue_of(c, shown);
    sl_ns now = c->decision.now;

    if (w->queue && sl_queue_is(w, &of)) {
        c->state = SL_CHECK_WAIT;
        sl_queue_stay(w, now, due_of(shown, now, retry));
        return true;
    }
    sl_queue_leave(w, now, false);
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
    if (shown && c->in_turn && go_on_waiting(c, shown, retry))
        return true;
    if (shown && !c->in_turn && join(c, shown, retry))
        return true;
    if (c->in_turn)
        d->waited = d->now - c->waiter.since;
    sl_queue_leave(&c->waiter, d->now, d->allowed);
    return false;
}

void sl_wait_check_freed(const struct sl_hold_op *check)
{
    struct sl_engine *engine = check->engine;

    if (!sl_queues_any(engine->queues))
        return;
    for (unsigned i = 0; i < check->call.count; i++) {
        const struct sl_rule *rule = sl_hold_rule(check, i);

        if (rule)
            sl_queues_freed(engine->queues,
                            sl_hash64(sl_engine_secret(engine), rule->name));
    }
}
