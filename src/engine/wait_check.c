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

static uint64_t name_of(const struct sl_check *ask, const struct sl_rule *rule)
{
    return sl_hash64(sl_engine_secret(ask->engine), rule->name);
}

/* State belongs to name and key, and so do queues. */
static struct sl_queue_of queue_of(const struct sl_check *ask,
                                   const struct sl_limit_view *shown)
{
    struct sl_hash_key key = *sl_engine_secret(ask->engine);

    key.k0 ^= name_of(ask, shown->rule);
    return (struct sl_queue_of){
        .key = sl_hash128(&key, shown->key),
        .limit = name_of(ask, shown->rule),
        .most = shown->rule->queue,
    };
}

/* His organisation, or whoever else he is. */
static struct sl_hash128 whose(const struct sl_check *ask)
{
    const struct sl_decision *d = &ask->decision;
    struct sl_str who = {"", 0};

    for (unsigned i = 0; i < d->who_count; i++)
        if (who.len == 0 || sl_str_eq(d->who[i].scope, SL_STR("org")))
            who = d->who[i].value;
    return sl_hash128(sl_engine_secret(ask->engine), who);
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
static void refuse(struct sl_check *ask, sl_ns retry)
{
    struct sl_decision *d = &ask->decision;

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
    struct sl_check *ask = w->ctx;

    ask->decision.waited = now - w->since;
    refuse(ask, ask->estimate);
    sl_check_answer(ask, 0);
}

static void on_turn(struct sl_waiter *w, sl_ns now)
{
    struct sl_check *ask = w->ctx;

    ask->again.now = now;
    sl_check_again(ask);
}

static void begin_wait(struct sl_check *ask)
{
    struct sl_waiter *w = &ask->waiter;

    if (ask->in_turn)
        return; /* it goes on */
    *w = (struct sl_waiter){
        .room = ask->station->room,
        .since = ask->decision.now,
        .until = sl_ns_add_sat(ask->decision.now, ask->wait),
        .on_turn = on_turn,
        .on_late = on_late,
        .ctx = ask,
    };
    ask->again = *ask->facts;
    ask->in_turn = true;
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
static bool join(struct sl_check *ask, const struct sl_limit_view *shown,
                 sl_ns retry)
{
    struct sl_queues *queues = ask->engine->queues;
    struct sl_queue_of of = queue_of(ask, shown);
    const struct sl_decision *d = &ask->decision;
    bool permits = shown->rule->kind == SL_PERMITS;
    sl_ns now = d->now;
    struct sl_queue_view view;

    begin_wait(ask);
    sl_queue_look(queues, &of, whose(ask), weight_of(d), &view);
    if (view.waiting > 0 && view.due > now && view.due - now > retry)
        retry = view.due - now;
    ask->estimate = estimate(shown, retry, view.ahead, view.pace);
    if (ask->estimate > ask->waiter.until - now) {
        refuse(ask, ask->estimate);
        return false;
    }
    if (sl_queue_join(queues, &of, whose(ask), weight_of(d), now,
                      due_of(shown, now, retry), permits, &ask->waiter)) {
        refuse(ask, ask->estimate < 0 ? guess(&view, now) : ask->estimate);
        return false;
    }
    if (ask->estimate < 0)
        ask->estimate = retry; /* at the latest, as far as anybody knows */
    if (ask->waits)
        ask->waits(ask);
    return true;
}

/* How long such a question may wait; 0: not at all. */
static sl_ns wait_of(const struct sl_check *ask)
{
    sl_ns wait = ask->facts->wait;

    if (!ask->station || !ask->station->room || !ask->station->room->queues ||
        ask->sides != 1 || !ask->spend || ask->no_wait)
        return 0;
    if (wait < 0)
        return 0;
    if (wait == 0)
        wait = ask->decision.route->wait;
    return wait < SL_WAIT_MOST ? wait : SL_WAIT_MOST;
}

bool sl_wait_check_may_wait(const struct sl_check *ask)
{
    return wait_of(ask) > 0;
}

bool sl_wait_check_behind(struct sl_check *ask)
{
    struct sl_decision *d = &ask->decision;

    if (ask->in_turn || d->step != SL_DECIDING || d->on_local)
        return false;
    ask->wait = wait_of(ask);
    if (ask->wait == 0 || !sl_queues_any(ask->engine->queues))
        return false;
    for (unsigned i = 0; i < d->take.count; i++) {
        const struct sl_limit_view *shown = &d->shown[d->part_shown[i]];
        struct sl_queue_of of = queue_of(ask, shown);
        struct sl_queue_view view;

        sl_queue_look(ask->engine->queues, &of, whose(ask), 1, &view);
        if (view.waiting == 0)
            continue;
        d->pending = false;
        if (!join(ask, shown, SL_NS_NONE)) /* (2) */
            sl_check_answer(ask, 0);
        return true;
    }
    return false;
}

/* (1): which limit he waits for, or NULL. */
static const struct sl_limit_view *find_denial(const struct sl_check *ask,
                                               sl_ns left, sl_ns *ret_retry)
{
    const struct sl_decision *d = &ask->decision;
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
static bool go_on_waiting(struct sl_check *ask,
                          const struct sl_limit_view *shown, sl_ns retry)
{
    struct sl_waiter *w = &ask->waiter;
    struct sl_queue_of of = queue_of(ask, shown);
    sl_ns now = ask->decision.now;

    if (w->queue && sl_queue_is(w, &of)) {
        sl_queue_stay(w, now, due_of(shown, now, retry));
        return true;
    }
    sl_queue_leave(w, now, false);
    return join(ask, shown, retry);
}

bool sl_wait_check_waits(struct sl_check *ask)
{
    struct sl_decision *d = &ask->decision;
    const struct sl_limit_view *shown = NULL;
    sl_ns left = ask->in_turn ? ask->waiter.until - d->now : ask->wait;
    sl_ns retry = SL_NS_NONE;

    if (ask->wait == 0)
        return false;
    if (d->by >= 0 && d->reason == SL_REASON_NONE && left > 0 && !ask->gone)
        shown = find_denial(ask, left, &retry);
    if (shown && ask->in_turn && go_on_waiting(ask, shown, retry))
        return true;
    if (shown && !ask->in_turn && join(ask, shown, retry))
        return true;
    if (ask->in_turn)
        d->waited = d->now - ask->waiter.since;
    sl_queue_leave(&ask->waiter, d->now, d->allowed);
    return false;
}

void sl_wait_check_freed(const struct sl_hold_op *ask)
{
    struct sl_engine *engine = ask->engine;

    if (!sl_queues_any(engine->queues))
        return;
    for (unsigned i = 0; i < ask->call.count; i++) {
        const struct sl_rule *rule = sl_hold_rule(ask, i);

        if (rule)
            sl_queues_freed(engine->queues,
                            sl_hash64(sl_engine_secret(engine), rule->name));
    }
}
