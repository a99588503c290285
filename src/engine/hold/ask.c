/* ask.c -- how a hold ends: settled, released, extended.
 *
 * What each limit came to is said to the store limit by limit; whatever is not
 * said stays as it was held.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "engine/hold.h"
#include "engine/inside.h"
#include "engine/spent.h"
#include "engine/wait/turn.h"

void sl_hold_ask_init(struct sl_hold_ask *ask, struct sl_engine *engine,
                      const struct sl_station *station,
                      const struct sl_alloc *alloc)
{
    memset(ask, 0, sizeof(*ask));
    ask->engine = engine;
    ask->station = station;
    ask->alloc = alloc;
}

void sl_hold_ask_done(struct sl_hold_ask *ask)
{
    sl_live_release(ask->live);
    ask->live = NULL;
    sl_alloc_free(ask->alloc, ask->actual,
                  ask->actual_room * sizeof(*ask->actual));
    ask->actual = NULL;
    ask->actual_room = 0;
}

static void answer(struct sl_hold_ask *ask, int err)
{
    ask->err = err;
    ask->busy = false;
    ask->done(ask);
}

static int refuse_unknown(struct sl_hold_ask *ask)
{
    return sl_refuse(&ask->diag, SLUICE_ENOENT,
                     "there is no such hold, or it ended long ago");
}

/* ---- costs ---- */

static int make_room(struct sl_hold_ask *ask)
{
    unsigned wanted = ask->live->policy->rule_total;
    struct sl_actual *list;

    if (wanted <= ask->actual_room)
        return 0;
    list = sl_alloc_new(ask->alloc, wanted * sizeof(*list));
    if (!list)
        return sl_refuse(&ask->diag, SLUICE_ENOMEM, "out of memory");
    sl_alloc_free(ask->alloc, ask->actual, ask->actual_room * sizeof(*list));
    ask->actual = list;
    ask->actual_room = wanted;
    return 0;
}

static const struct sl_cost *find_cost(const struct sl_hold_question *q,
                                       struct sl_str limit)
{
    for (unsigned i = 0; i < q->cost_count; i++)
        if (sl_str_eq(q->costs[i].limit, limit))
            return &q->costs[i];
    return NULL;
}

static int check_costs(struct sl_hold_ask *ask,
                       const struct sl_hold_question *q)
{
    for (unsigned i = 0; i < q->cost_count; i++)
        if (sl_policy_rule(ask->live->policy, q->costs[i].limit) < 0)
            return sl_refuse(&ask->diag, SLUICE_ECONF,
                             "the policy has no limit \"%.*s\"",
                             SL_STR_ARG(q->costs[i].limit));
    return 0;
}

/* What a limit came to, if that is not what was held. */
static bool is_actual(const struct sl_rule *rule,
                      const struct sl_hold_question *q, uint64_t *ret)
{
    const struct sl_cost *named = find_cost(q, rule->name);

    if (rule->kind == SL_PERMITS)
        *ret = 0; /* whoever has finished needs none */
    else if (named)
        *ret = named->cost;
    else if (q->has_cost && !rule->fixed_cost)
        *ret = q->cost;
    else
        return false;
    return true;
}

static int add_actual(struct sl_hold_ask *ask, const struct sl_hold_question *q)
{
    const struct sl_policy *policy = ask->live->policy;
    struct sl_hold_call *call = &ask->call;
    int err = make_room(ask);

    for (unsigned i = 0; i < policy->rule_total && !err; i++) {
        uint64_t cost;

        if (is_actual(&policy->rules[i], q, &cost))
            ask->actual[call->actual_count++] =
                (struct sl_actual){&call->limits[2 * (size_t)i], cost};
    }
    call->actual = ask->actual;
    call->as_held = true;
    return err;
}

/* ---- asking ---- */

/* Beyond a quota that may be exceeded the store knows no ceiling; whoever ends
 * the hold is told of what was paid for, as whoever took it was. */
static void show_ceiling(struct sl_held_part *part)
{
    struct sl_answer *a = &part->answer;
    uint64_t used = sl_sub_floor(a->capacity, a->remaining);

    if (!part->of ||
        (part->of->strictest.kind != SL_QUOTA &&
         part->of->strictest.kind != SL_LEVEL) ||
        a->capacity <= a->limit)
        return;
    a->capacity = a->limit;
    a->remaining = sl_sub_floor(a->limit, used);
    part->over = part->cost > 0 && used > a->limit;
}

static void on_done(struct sl_hold_call *call)
{
    struct sl_hold_ask *ask = call->ctx;
    int err = call->err;

    for (unsigned i = 0; !err && i < call->count; i++)
        show_ceiling(&call->parts[i]);
    if (err)
        sl_refuse(&ask->diag, err, "the store did not answer in time");
    else if (call->state == SL_HOLD_UNKNOWN)
        err = refuse_unknown(ask);
    else
        sl_spent_ended(ask);
    if (!err && call->state == SL_HOLD_HELD && ask->verb != SL_VERB_EXTEND)
        sl_turn_freed(ask);
    answer(ask, err);
}

/* Where the hold is; NULL if that has none. */
static struct sl_store *find_store(const struct sl_hold_ask *ask)
{
    struct sl_engine *engine = ask->engine;
    struct sl_store *store = ask->name.local ? engine->local : engine->store;

    if (!store || !store->calls->hold || (ask->name.local && !ask->live->local))
        return NULL;
    return store;
}

static int prepare(struct sl_hold_ask *ask, const struct sl_hold_question *q)
{
    const struct sl_policy *policy = ask->live->policy;
    sl_ns most = policy->hold_max;
    int err;

    if (!sl_hold_name_read(q->name, &ask->name) || !find_store(ask))
        return refuse_unknown(ask);
    err = check_costs(ask, q);
    if (err)
        return err;
    ask->call = (struct sl_hold_call){
        .errand = q->verb == SL_VERB_EXTEND ? SL_HOLD_EXTEND : SL_HOLD_SETTLE,
        .id = ask->name.id,
        .place = ask->name.place,
        .limits = ask->name.local ? ask->live->local : ask->live->stored,
        .limits_count = 2 * policy->rule_total,
        .release = q->verb == SL_VERB_RELEASE,
        .hold_for = q->hold < most ? q->hold : most,
        .now = q->now,
        .deadline = q->deadline,
        .loop = ask->station ? ask->station->loop : NULL,
        .done = on_done,
        .ctx = ask,
    };
    return q->verb == SL_VERB_SETTLE ? add_actual(ask, q) : 0;
}

static bool has_fault(const struct sl_hold_ask *ask)
{
    const struct sl_engine *engine = ask->engine;

    return !ask->name.local && engine->fault &&
           engine->fault(engine->fault_ctx);
}

void sl_hold_ask_begin(struct sl_hold_ask *ask,
                       const struct sl_hold_question *question)
{
    int err;

    ask->busy = true;
    ask->verb = question->verb;
    ask->diag.sentence[0] = '\0';
    ask->live = sl_engine_hold(ask->engine, ask->live);
    err = prepare(ask, question);
    if (err) {
        answer(ask, err);
    } else if (has_fault(ask)) {
        ask->call.err = SLUICE_ESTORE;
        on_done(&ask->call);
    } else {
        sl_store_hold(find_store(ask), &ask->call);
    }
}
