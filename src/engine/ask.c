/* ask.c -- one question to the engine, answered at once or later.
 *
 * Each step ends in a call that goes on: by the store, by the registry, or
 * right here. They call each other at most as deep as a decision has takes.
 */
#include "engine/check.h"

#include <string.h>

#include "engine/engine_int.h"
#include "engine/spent.h"
#include "engine/wait/turn.h"

void sl_check_init(struct sl_check *ask, struct sl_engine *engine,
                   const struct sl_engine_ctx *station,
                   const struct sl_alloc *alloc)
{
    memset(ask, 0, sizeof(*ask));
    ask->engine = engine;
    ask->station = station;
    sl_decision_init(&ask->decision, alloc);
}

void sl_check_done(struct sl_check *ask)
{
    sl_active_policy_release(ask->live);
    ask->live = NULL;
    sl_decision_done(&ask->decision);
}

struct sl_active_policy *sl_check_hold(struct sl_check *ask)
{
    ask->live = sl_engine_hold(ask->engine, ask->live);
    return ask->live;
}

static void answer(struct sl_check *ask, int err)
{
    sl_precheck_commit(&ask->decision, ask->live, err);
    sl_queue_leave(&ask->waiter, ask->decision.now, false);
    ask->err = err;
    ask->busy = false;
    ask->done(ask);
}

/* ---- his token ---- */

static void know_token(struct sl_check *ask)
{
    sl_auth_info_token(&ask->known, ask->station->tokens, ask->live->policy,
                       &ask->facts[ask->side]);
}

/* ---- the store ---- */

static void on_taken(struct sl_take *take);

void sl_check_start(struct sl_check *ask)
{
    struct sl_decision *d = &ask->decision;

    if (sl_wait_check_behind(ask))
        return;
    d->take.done = on_taken;
    d->take.ctx = ask;
    d->take.loop = ask->station->loop;
    sl_engine_take(ask->engine, d);
}

/* Only if nobody who asks meanwhile could see that it was begun, and if it is
 * sure to be answered when it goes on. */
static bool may_be_deferred(struct sl_check *ask)
{
    const struct sl_decision *d = &ask->decision;

    return !d->repeat_claimed && !d->webhook_claimed &&
           !sl_wait_check_may_wait(ask) &&
           sl_engine_prefetch(ask->engine, &ask->decision);
}

static bool is_deferred(struct sl_check *ask)
{
    const struct sl_decision *d = &ask->decision;

    return ask->defers && d->step == SL_DECIDING && !d->on_local &&
           ask->defers(ask, may_be_deferred(ask));
}

static void go_on(struct sl_check *ask)
{
    struct sl_decision *d = &ask->decision;

    if (!d->pending) {
        if (sl_wait_check_waits(ask))
            return;
        sl_usage_report_send(ask->station->meter, d, false);
        answer(ask, 0);
    } else if (!is_deferred(ask)) {
        sl_check_start(ask);
    }
}

static void on_taken(struct sl_take *take)
{
    struct sl_check *ask = take->ctx;

    sl_outage_pay_debts(ask->engine, &ask->decision);
    sl_decide_took(&ask->decision, ask->live);
    go_on(ask);
}

/* ---- the decision ---- */

static void forget_subjects(struct sl_check *ask)
{
    for (unsigned i = 0; i < SL_LEN(ask->lookups); i++) {
        sl_subject_unref(ask->lookups[i].found);
        ask->lookups[i].found = NULL;
        ask->lookups[i].err = 0;
    }
    ask->known.user = ask->known.org = NULL;
}

/* Others may have come after a good token, and the keys may have gone: then
 * those who were looked up by its name are not his. A bad one stays bad, and
 * is not paid for twice. */
static void know_again(struct sl_check *ask)
{
    if (!ask->known.token)
        return;
    know_token(ask);
    if (!ask->known.token)
        forget_subjects(ask);
}

static void look_at_side(struct sl_check *ask);

static void decide(struct sl_check *ask)
{
    int err;

    if (ask->has_waited)
        know_again(ask);
    ask->known.user = ask->lookups[0].found;
    ask->known.org = ask->lookups[1].found;
    ask->known.subjects_failed = ask->lookups[0].err || ask->lookups[1].err;
    err = sl_decide_descriptor(&ask->decision, ask->live,
                               &ask->facts[ask->side], &ask->known,
                               sl_engine_secret(ask->engine), &ask->diag);
    forget_subjects(ask);
    if (err) {
        answer(ask, err);
    } else if (++ask->side < ask->sides) {
        look_at_side(ask);
    } else {
        sl_decide_ask(&ask->decision, ask->live);
        go_on(ask);
    }
}

/* ---- his subjects ---- */

/* There is one deadline for his subjects and the store. */
static void note_time(struct sl_check *ask, const struct sl_lookup *lookup)
{
    sl_ns *deadline = &ask->decision.take.deadline;

    if (lookup->over > 0 && (*deadline == 0 || lookup->over < *deadline))
        *deadline = lookup->over;
    if (lookup->over > 0)
        ask->lookups_until = lookup->deadline;
}

static void on_found(struct sl_lookup *lookup)
{
    struct sl_check *ask = lookup->ctx;

    note_time(ask, lookup);
    if (--ask->lookups_open == 0)
        decide(ask);
}

static void look_up(struct sl_check *ask, struct sl_lookup *lookup,
                    const char *scope, struct sl_str id)
{
    struct sl_subjects *subjects = ask->station->subjects;

    if (id.len == 0)
        return;
    *lookup = (struct sl_lookup){.scope = sl_str_c(scope),
                                 .id = id,
                                 .deadline = ask->lookups_until,
                                 .done = on_found,
                                 .ctx = ask};
    ask->lookups_open++;
    subjects->calls->find(subjects, lookup);
}

static void find_subjects(struct sl_check *ask)
{
    struct sl_caller caller;

    sl_identify(ask->live->policy, &ask->facts[ask->side], &ask->known,
                &caller);
    ask->lookups_open = 1; /* so that nobody goes on before both are asked */
    look_up(ask, &ask->lookups[0], "user", caller.values[SL_SCOPE_USER]);
    look_up(ask, &ask->lookups[1], "org", caller.values[SL_SCOPE_ORG]);
    ask->has_waited = ask->lookups_open > 1;
    if (--ask->lookups_open == 0)
        decide(ask);
}

/* ---- the question ---- */

static void look_at_side(struct sl_check *ask)
{
    ask->has_waited = false;
    know_token(ask);
    if (ask->station->subjects && ask->live->policy->enabled)
        find_subjects(ask);
    else
        decide(ask);
}

void sl_check_descriptors(struct sl_check *ask, const struct sl_request *facts,
                          unsigned count, bool spend)
{
    ask->facts = facts;
    ask->sides = count;
    ask->side = 0;
    ask->spend = spend;
    ask->busy = true;
    ask->in_turn = false;
    ask->lookups_until = 0;
    ask->gone = false;
    ask->wait = 0;
    ask->waiter.queue = NULL;
    ask->diag.sentence[0] = '\0';
    ask->known.webhook = ask->station->webhook;
    if (!ask->live)
        sl_check_hold(ask);
    sl_decide_open(&ask->decision, ask->live, facts, spend,
                   sl_engine_secret(ask->engine));
    look_at_side(ask);
}

void sl_check_begin(struct sl_check *ask, const struct sl_request *facts,
                    bool spend)
{
    sl_check_descriptors(ask, facts, 1, spend);
}

/* ---- its turn ---- */

void sl_check_answer(struct sl_check *ask, int err)
{
    answer(ask, err);
}

void sl_check_again(struct sl_check *ask)
{
    ask->facts = &ask->again;
    ask->side = 0;
    sl_check_hold(ask); /* the policy may have changed meanwhile */
    sl_precheck_retry(&ask->decision, true);
    sl_decide_open(&ask->decision, ask->live, ask->facts, ask->spend,
                   sl_engine_secret(ask->engine));
    sl_precheck_retry(&ask->decision, false);
    look_at_side(ask);
}

/* One that is being asked for is answered soon, and then counts; it does not
 * go on waiting. */
void sl_check_cancel(struct sl_check *ask)
{
    struct sl_waiter *w = &ask->waiter;

    ask->gone = true;
    if (!ask->busy || !w->queue || w->asked)
        return;
    sl_queue_leave(w, ask->decision.now, false);
    w->on_late(w, ask->decision.now);
}

/* ---- forgetting ---- */

static void on_forgotten(struct sl_take *take)
{
    struct sl_check *ask = take->ctx;
    struct sl_decision *d = &ask->decision;

    d->pending = false;
    if (!take->err && !d->on_local && ask->live->local) {
        d->on_local = true;
        sl_parts_ask_reset(d, ask->live);
        sl_engine_take(ask->engine, d);
        return;
    }
    if (!take->err)
        sl_usage_report_send(ask->station->meter, d, true);
    answer(ask, take->err);
}

void sl_check_reset(struct sl_check *ask)
{
    struct sl_decision *d = &ask->decision;

    ask->busy = true;
    d->on_local = false;
    sl_parts_ask_reset(d, ask->live);
    d->take.done = on_forgotten;
    d->take.ctx = ask;
    d->take.loop = ask->station->loop;
    if (d->pending)
        sl_engine_take(ask->engine, d);
    else
        answer(ask, 0);
}
