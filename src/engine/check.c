/* check.c -- the steps of a decision.
 *
 *     who asks --> route --> switched off? nobody? role? plan? --> limits
 *                                     |                             |
 *                                     v                             v
 *                                 refused                      store's take
 *
 * What is refused on the left has touched no limit. Order matters where two
 * reasons apply: a switch goes before everything, then who it is, then what he
 * may do, then how often.
 */
#include "engine/check.h"

#include <string.h>

#include "base/hash.h"
#include "engine/decision.h"
#include "engine/engine_int.h"
#include "engine/hold_op.h"

#define ARENA_MAX (256 * 1024)

void sl_decision_init(struct sl_decision *decision,
                      const struct sl_alloc *alloc)
{
    memset(decision, 0, sizeof(*decision));
    sl_arena_init(&decision->arena, ARENA_MAX, alloc);
}

void sl_decision_done(struct sl_decision *decision)
{
    sl_arena_done(&decision->arena);
}

/* All but the arrays, which are filled as far as they are used. */
static void clear(struct sl_decision *d, const struct sl_active_policy *live,
                  const struct sl_request *facts, bool spend)
{
    d->untouched = false;
    d->allowed = true;
    d->status = 200;
    d->reason = SL_REASON_NONE;
    d->by = d->report = d->quota = -1;
    d->never = d->degraded = d->blind = d->unsure = false;
    d->pending = d->on_local = false;
    d->tagged = live->in_slots;
    d->share = 1;
    d->retry_in = SL_NS_NONE;
    d->code = d->missing_scope = (struct sl_str){"", 0};
    d->shown_count = d->side_count = d->running_count = 0;
    d->policy = live->policy;
    d->route = &live->policy->fallback;
    d->plan = live->policy->plans.fallback;
    d->anonymous = d->plan_ended = false;
    d->who_count = 0;
    d->now = facts->now;
    d->step = SL_DECIDED;
    d->spend = spend;
    d->give_back = facts->give_back;
    d->insist = facts->insist;
    d->charge = facts->charge;
    d->metered = facts->metered;
    d->token_fault = SL_TOKEN_GOOD;
    d->webhook_fault = SL_WEBHOOK_GOOD;
    d->webhook_verified = d->webhook_claimed = false;
    d->webhook_kept = d->repeat_kept = false;
    d->repeat_wanted = d->repeat_claimed = d->replayed = false;
    d->hold[0] = '\0';
    d->waited = SL_NS_NONE;
    d->hold_asked = facts->hold;
    d->take.deadline = facts->deadline;
    sl_arena_reset(&d->arena);
}

static void pass(struct sl_decision *d)
{
    d->untouched = true;
    d->allowed = true;
    d->step = SL_DECIDED;
}

/* ---- the route ---- */

/* The routes of a request: usually one. Where servers read a path differently,
 * the routes of all readings count, so that no detour leads round a limit. */
struct routes {
    const struct sl_route *list[SL_PATH_READINGS];
    unsigned count;
};

static void add_route(struct routes *routes, const struct sl_route *route)
{
    for (unsigned i = 0; i < routes->count; i++)
        if (routes->list[i] == route)
            return;
    routes->list[routes->count++] = route;
}

static int find_paths(struct sl_decision *d, const struct sl_request *facts,
                      struct routes *ret)
{
    const struct sl_policy *policy = d->policy;
    size_t len =
        facts->path.len < SL_PATH_BYTES ? facts->path.len : SL_PATH_BYTES;
    char *room = sl_arena_take(&d->arena, SL_PATH_READINGS * (len + 1));
    struct sl_path readings[SL_PATH_READINGS];
    unsigned count;

    if (!room)
        return SLUICE_ENOMEM;
    count = sl_path_readings(facts->path, room, readings);
    for (unsigned i = 0; i < count; i++) {
        unsigned found = sl_routes_find(
            policy->tree, sl_method_of(facts->method), &readings[i]);

        add_route(ret, found == SL_NO_ROUTE ? &policy->fallback
                                            : &policy->routes[found]);
    }
    return 0;
}

/* The first of several that limits anything gives the verdict its face: its
 * endpoint, its headers, what it reports. */
static const struct sl_route *choose_face(const struct routes *routes)
{
    for (unsigned i = 0; i < routes->count; i++)
        if (routes->list[i]->rule_count > 0)
            return routes->list[i];
    return routes->list[0];
}

static int find_routes(struct sl_decision *d, const struct sl_request *facts,
                       struct routes *ret)
{
    int err = 0, job, descriptor = -1;

    ret->count = 0;
    if (facts->domain.len > 0)
        descriptor = sl_policy_descriptor(d->policy, facts->domain,
                                          facts->entries, facts->entry_count);
    if (descriptor >= 0) {
        add_route(ret, &d->policy->routes[descriptor]);
    } else if (facts->job.len > 0) {
        job = sl_policy_job(d->policy, facts->job);
        add_route(ret,
                  job < 0 ? &d->policy->fallback : &d->policy->routes[job]);
    } else {
        err = find_paths(d, facts, ret);
    }
    if (!err)
        d->route = choose_face(ret);
    return err;
}

/* A browser's question before the request proper comes without any name, so
 * it is never refused for want of one. It takes from the limits like every
 * request without a name, since many servers run their handlers for it. */
static bool is_preflight(const struct sl_request *facts)
{
    return sl_str_eq_nocase(facts->method, SL_STR("options")) &&
           facts->job.len == 0 &&
           sl_request_header(facts, SL_STR("origin")).len > 0 &&
           sl_request_header(facts, SL_STR("access-control-request-method"))
                   .len > 0;
}

static bool lets_in(const struct sl_route *route, struct sl_str role)
{
    for (unsigned i = 0; i < route->role_count; i++)
        if (sl_str_eq_nocase(route->roles[i], role))
            return true;
    return route->role_count == 0;
}

/* One of several is enough. */
static bool has_role(const struct sl_route *route,
                     const struct sl_caller *caller)
{
    for (unsigned i = 0; i < caller->role_count; i++)
        if (lets_in(route, caller->roles[i]))
            return true;
    return caller->role_count == 0 && lets_in(route, caller->role);
}

/* ---- the plan ---- */

static bool choose_plan(struct sl_decision *d, const struct sl_caller *caller)
{
    const struct sl_plans *plans = &d->policy->plans;
    int plan = -1;

    d->plan = caller->anonymous ? plans->anonymous : plans->fallback;
    if (caller->plan.len > 0)
        plan = sl_policy_plan(d->policy, caller->plan);
    if (plan >= 0)
        d->plan = (unsigned)plan;
    return plan >= 0 || caller->plan.len == 0 || !plans->deny_unknown;
}

/* `unknown_subject: pass`. Where nobody at all is registered, nobody passes by
 * it: an empty registry is rather a mistake than a policy. */
static bool is_let_pass(const struct sl_decision *d,
                        const struct sl_check_step *asking)
{
    return asking->caller.unregistered &&
           d->policy->identity.unknown_subject == SL_UNKNOWN_PASS &&
           (asking->known->user || asking->known->org);
}

/* Everything that a route decides without a limit. False if it has nothing
 * more to say: refused, or passed. */
static bool check_route(struct sl_decision *d, struct sl_check_step *asking,
                        const struct sl_route *route)
{
    const struct sl_caller *caller = &asking->caller;

    if (route->feature != SL_NO_FEATURE &&
        !atomic_load_explicit(&asking->live->features[route->feature],
                              memory_order_relaxed)) {
        sl_decision_refuse(d, SL_REASON_FEATURE);
        d->retry_in = d->policy->features[route->feature].retry_after;
        return false;
    }
    if (!sl_precheck_run(d, asking, route))
        return false;
    if (caller->anonymous && route->anonymous == SL_ANONYMOUS_PASS)
        return false;
    if (asking->preflight)
        return true;
    if (is_let_pass(d, asking))
        return false;
    if (caller->anonymous && route->anonymous == SL_ANONYMOUS_DENY)
        sl_decision_refuse(d, SL_REASON_ANONYMOUS);
    if (caller->unregistered &&
        d->policy->identity.unknown_subject == SL_UNKNOWN_DENY)
        sl_decision_refuse(d, SL_REASON_UNKNOWN_SUBJECT);
    if (!has_role(route, caller))
        sl_decision_refuse(d, SL_REASON_ROLE);
    return d->reason == SL_REASON_NONE;
}

/* ---- the steps ---- */

static int find_rule(struct sl_decision *d, struct sl_check_step *asking,
                     const struct sl_rule **ret)
{
    struct sl_str name = asking->facts->limit;
    int index = sl_policy_rule(d->policy, name);

    if (index < 0)
        return sl_diag_error(asking->diag, SLUICE_ENOENT,
                             "the policy has no limit \"%.*s\"",
                             SL_STR_ARG(name));
    *ret = &d->policy->rules[index];
    return 0;
}

/* What comes after the limits that count. */
static void go_on(struct sl_decision *d, const struct sl_active_policy *live)
{
    if (d->step == SL_DECIDING)
        sl_parts_count_denied(d, live);
    if (d->step == SL_INSISTING && !d->pending)
        sl_parts_ask_shadows(d, live);
    if (d->step == SL_SHADOWING && !d->pending)
        sl_parts_peek_next(d, live);
    if (!d->pending)
        d->step = SL_DECIDED;
}

static int show(struct sl_decision *d, struct sl_check_step *asking,
                const struct sl_rule *const *rules, unsigned count)
{
    int err = asking->no_memory ? SLUICE_ENOMEM
                                : sl_parts_add(d, asking, rules, count);

    return err == SLUICE_ENOMEM
               ? sl_diag_error(asking->diag, err, "out of memory")
               : err;
}

/* One limit by its name. Its key says who it is. */
static int ask_one(struct sl_decision *d, struct sl_check_step *asking)
{
    const struct sl_rule *rule;
    int err = find_rule(d, asking, &rule);

    if (err)
        return err;
    asking->caller.anonymous = false;
    if (!choose_plan(d, &asking->caller))
        sl_decision_refuse(d, SL_REASON_UNKNOWN_PLAN);
    if (asking->facts->idempotency_key.len > 0)
        sl_idempotency_claim(d, asking, NULL);
    return d->reason == SL_REASON_NONE ? show(d, asking, &rule, 1) : 0;
}

/* Add the rules of a route that are not there yet. False if they are too many
 * for one set. */
static bool add_rules(const struct sl_route *route,
                      const struct sl_rule *rules[SL_PARTS], unsigned *count)
{
    for (unsigned i = 0; i < route->rule_count; i++) {
        bool known = false;

        for (unsigned k = 0; k < *count; k++)
            known = known || rules[k] == route->rules[i];
        if (known)
            continue;
        if (*count == SL_PARTS)
            return false;
        rules[(*count)++] = route->rules[i];
    }
    return true;
}

/* The rules of all routes that have something to say, each once. Nobody gets
 * round one of them by being at too many routes at once. */
static int ask_routes(struct sl_decision *d, struct sl_check_step *asking,
                      const struct routes *routes)
{
    const struct sl_rule *rules[SL_PARTS];
    unsigned count = 0;

    if (!choose_plan(d, &asking->caller))
        sl_decision_refuse(d, SL_REASON_UNKNOWN_PLAN);
    for (unsigned i = 0; i < routes->count; i++) {
        const struct sl_route *route = routes->list[i];

        if (!check_route(d, asking, route))
            continue;
        if (!add_rules(route, rules, &count))
            sl_decision_refuse(d, SL_REASON_PATH);
        asking->carry |= route->sign_in == SL_SIGN_IN_CARRY;
        asking->cap |= route->sign_in == SL_SIGN_IN_CAP;
        if (route->guards || asking->facts->idempotency_key.len > 0)
            sl_idempotency_claim(d, asking, route->guards);
    }
    return d->reason == SL_REASON_NONE ? show(d, asking, rules, count) : 0;
}

static bool is_off(const struct sl_decision *d)
{
    return !d->policy->enabled || d->policy->mode == SL_MODE_OFF;
}

void sl_decide_open(struct sl_decision *d, const struct sl_active_policy *live,
                    const struct sl_request *facts, bool spend,
                    const struct sl_hash_key *secret)
{
    clear(d, live, facts, spend);
    sl_decision_choose_id(d, facts, secret);
    if (is_off(d))
        pass(d);
}

/* What the route of a descriptor leaves open is a scope of its own. */
static int keep_open_values(struct sl_decision *d, struct sl_check_step *asking)
{
    const struct sl_request *facts = asking->facts;
    struct sl_str *value = &asking->caller.values[SL_SCOPE_DESCRIPTOR];

    if (!d->route->is_descriptor)
        return 0;
    *value = sl_str_c(sl_descriptor_id(&d->route->descriptor, facts->entries,
                                       facts->entry_count, &d->arena));
    return value->at ? 0 : SLUICE_ENOMEM;
}

static int add_side(struct sl_decision *d, struct sl_check_step *asking)
{
    const struct sl_request *facts = asking->facts;
    struct routes routes;
    int err;

    sl_identify(d->policy, facts, asking->known, &asking->caller);
    if (d->side_count == 1) {
        d->token_good = asking->known->token != NULL;
        d->token_fault = asking->known->token_fault;
        d->anonymous = asking->caller.anonymous;
        d->plan_ended = asking->caller.plan_ended;
        sl_decision_who(d, &asking->caller, facts);
    }
    if (facts->limit.len > 0)
        return ask_one(d, asking);
    err = find_routes(d, facts, &routes);
    if (!err)
        err = keep_open_values(d, asking);
    if (err)
        return sl_diag_error(asking->diag, err, "out of memory");
    asking->preflight = is_preflight(facts);
    return ask_routes(d, asking, &routes);
}

/* The verdict has the face of the first side that limits anything, or of the
 * one that is refused. */
int sl_decide_descriptor(struct sl_decision *d,
                         const struct sl_active_policy *live,
                         const struct sl_request *facts,
                         const struct sl_auth_info *known,
                         const struct sl_hash_key *secret, struct sl_diag *diag)
{
    static const struct sl_auth_info nothing;
    struct sl_check_step asking;
    const struct sl_route *face = d->route;
    unsigned plan = d->plan;
    struct sl_descriptor_match *side;
    int err = 0;

    if (d->side_count == SL_DESCRIPTOR_MATCHES)
        return sl_diag_error(diag, SLUICE_EFULL,
                             "the request has more than %d descriptors",
                             SL_DESCRIPTOR_MATCHES);
    side = &d->sides[d->side_count++];
    *side = (struct sl_descriptor_match){.route = &d->policy->fallback};
    if (is_off(d) || d->reason != SL_REASON_NONE)
        return 0;
    asking.live = live;
    asking.facts = facts;
    asking.known = known ? known : &nothing;
    asking.secret = secret;
    asking.diag = diag;
    asking.preflight = asking.carry = asking.cap = asking.no_memory = false;
    asking.shown = 0;
    err = add_side(d, &asking); /* which begins with the caller */
    side->route = d->route;
    side->shown = asking.shown;
    side->refused = d->reason != SL_REASON_NONE;
    d->unsure |= asking.known->subjects_failed && asking.caller.plan.len == 0 &&
                 d->shown_count > 0;
    if (d->side_count > 1 && !side->refused && face->rule_count > 0) {
        d->route = face;
        d->plan = plan;
    }
    return err;
}

void sl_decide_ask(struct sl_decision *d, const struct sl_active_policy *live)
{
    if (is_off(d))
        return;
    if (!sl_sign_in_fits(d))
        sl_decision_refuse(d, SL_REASON_PATH);
    if (d->reason != SL_REASON_NONE)
        return;
    d->untouched = d->shown_count + d->running_count == 0;
    if (d->unsure)
        sl_decision_conclude_unsure(d);
    if (d->reason != SL_REASON_NONE || sl_idempotency_begin(d, live))
        return;
    if (!d->blind)
        sl_parts_ask_limits(d, live);
    if (!d->pending && d->reason == SL_REASON_NONE) {
        sl_decision_conclude(d);
        go_on(d, live);
    }
}

int sl_decide_begin(struct sl_decision *d, const struct sl_active_policy *live,
                    const struct sl_request *facts,
                    const struct sl_auth_info *known, bool spend,
                    const struct sl_hash_key *secret, struct sl_diag *diag)
{
    int err;

    sl_decide_open(d, live, facts, spend, secret);
    err = sl_decide_descriptor(d, live, facts, known, secret, diag);
    if (!err)
        sl_decide_ask(d, live);
    return err;
}

const struct sl_route *sl_decide_route(struct sl_decision *d,
                                       const struct sl_active_policy *live,
                                       const struct sl_request *facts)
{
    struct routes routes;

    clear(d, live, facts, false);
    return find_routes(d, facts, &routes) ? NULL : d->route;
}

void sl_decide_took(struct sl_decision *d, const struct sl_active_policy *live)
{
    d->pending = false;
    if (d->take.err) {
        if (d->step == SL_DECIDING && d->take.err == SLUICE_EFULL)
            sl_hold_refuse(d);
        else if (d->step == SL_DECIDING)
            sl_decision_conclude_failure(d, live);
        else
            d->step = SL_DECIDED; /* the verdict stands without them */
        return;
    }
    sl_parts_answers(d);
    if (d->step == SL_DECIDING) {
        d->degraded = d->degraded || d->on_local;
        sl_decision_conclude(d);
        sl_hold_taken(d);
        if (d->on_local && live->engine)
            sl_outage_add_debt(live, d);
    }
    go_on(d, live);
}

/* ---- one question to the engine, answered at once or later.
 *
 * Each step ends in a call that goes on: by the store, by the registry, or
 * right here. They call each other at most as deep as a decision has takes.
 */

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

static void check_go_on(struct sl_check *ask)
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
    check_go_on(ask);
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
        check_go_on(ask);
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
