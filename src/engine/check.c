/* check.c -- the states of a check.
 *
 *     start --> IDENTIFY --> LOOKUP --> PREPARE --+--> (refused) ---> DONE
 *                  ^  ^                 |         |
 *      next request|  +-----------------+         v
 *                  |                    +---> TAKE --> COUNT_DENIED
 *                  |       others wait  |      | ^          |
 *                  |                    v      | | local    v
 *                 WAIT <----------------+      +-+       SHADOW
 *                  ^                                        |
 *                  +---- denied, may wait ---- DONE <-- NEXT_UNIT
 *
 * advance() runs until the check is answered or something else must answer
 * first: a lookup, the store, a wait queue. That calls sl_check_resume(), which
 * runs advance() again. TAKE, COUNT_DENIED, SHADOW and
 * NEXT_UNIT are skipped if they have nothing to take. sl_check_reset()
 * has a state of its own, RESET. A denied TAKE is tried again in CREDITS if
 * all limits that deny have credits.
 *
 * A request with a key (idempotency.c) passes two more states: CLAIM between
 * PREPARE and TAKE, from which a repeat goes to DONE; and COMMIT after DONE.
 *
 * Order. A request that is refused in PREPARE has touched no limit. Where two
 * reasons apply the first counts: blocked, switched off, caller, role, plan,
 * limits.
 */
#include "engine/check.h"

#include <string.h>

#include "base/hash.h"
#include "engine/decision.h"
#include "engine/engine_int.h"
#include "engine/hold_op.h"

#define ARENA_MAX (256 * 1024)

/* Clears all but the arrays, which are filled as far as they are used. */
static void clear(struct sl_decision *d, const struct sl_active_policy *active,
                  const struct sl_request *request, bool spend)
{
    d->not_limited = false;
    d->allowed = true;
    d->status = 200;
    d->reason = SL_REASON_NONE;
    d->by = d->report = d->quota = -1;
    d->never = d->no_numbers = d->plan_unknown = d->degraded = false;
    d->retry_in = d->waited = SL_NS_NONE;
    d->code = d->missing_scope = (struct sl_str){"", 0};
    d->hold[0] = '\0';
    d->token_fault = SL_TOKEN_GOOD;
    d->webhook_fault = SL_WEBHOOK_GOOD;
    d->exempt = NULL;
    d->skipped_count = 0;
    d->replayed = false;
    d->shown_count = d->running_count = d->penalty_count = 0;
    d->side_count = d->who_count = 0;
    d->ip = request->ip;
    d->anonymous = d->plan_ended = false;
    d->on_local = false;
    d->webhook_verified = false;
    for (unsigned i = 0; i < SL_DECISION_CLAIMS; i++)
        d->claims[i].wanted = d->claims[i].claimed = d->claims[i].kept = false;
    d->spend = spend;
    d->tagged = active->in_slots;
    d->policy = active->policy;
    d->generation = active->generation;
    d->texts = active->texts;
    d->route = &active->policy->fallback;
    d->plan = active->policy->plans.fallback;
    d->now = request->now;
    d->hold_asked = request->hold;
    d->give_back = request->give_back;
    d->insist = request->insist;
    d->charge = request->charge;
    d->metered = request->metered;
    d->failed = request->failed;
    d->take.deadline = request->deadline;
    d->take.order = request->order;
    sl_arena_reset(&d->arena);
}

static bool is_off(const struct sl_decision *d)
{
    return !d->policy->enabled || d->policy->mode == SL_MODE_OFF;
}

/* Begins the decision over `check->requests`. */
static void open(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    c->request_index = c->claim_index = 0;
    c->answered = c->sending = false;
    c->state = SL_CHECK_IDENTIFY;
    clear(d, c->active, c->requests, c->spend);
    sl_decision_choose_id(d, c->requests, sl_store_secret(c->engine->store));
    d->not_limited = is_off(d);
}

/* ---- the route ---- */

/* The routes of a request, usually one. Where servers read a path in several
 * ways, the routes of all readings apply. */
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

/* Does a condition of the route fail? Then the next one that matches applies.
 * An explanation names the first few. */
static bool is_skipped(struct sl_check *c, unsigned index)
{
    struct sl_decision *d = &c->decision;
    const struct sl_route *route = &d->policy->routes[index];
    const struct sl_condition *unmet;

    if (route->when.count == 0 || !c->request)
        return false;
    unmet = sl_conditions_unmet(c, &route->when);
    if (unmet && d->skipped_count < SL_LEN(d->skipped))
        d->skipped[d->skipped_count++] =
            (struct sl_skipped_route){route, unmet};
    return unmet;
}

static unsigned find_path(struct sl_check *c, struct sl_str method,
                          const struct sl_path *path)
{
    const struct sl_routes *tree = c->decision.policy->tree;
    unsigned bit = sl_method_of(method);
    unsigned found = sl_routes_find(tree, bit, path, 0);

    while (found != SL_NO_ROUTE && is_skipped(c, found))
        found = sl_routes_find(tree, bit, path, found + 1);
    return found;
}

static int find_job(struct sl_check *c, struct sl_str name)
{
    const struct sl_policy *policy = c->decision.policy;
    int found = sl_policy_job(policy, name, 0);

    while (found >= 0 && is_skipped(c, (unsigned)found))
        found = sl_policy_job(policy, name, (unsigned)found + 1);
    return found;
}

static int find_paths(struct sl_check *c, const struct sl_request *request,
                      struct routes *ret)
{
    struct sl_decision *d = &c->decision;
    const struct sl_policy *policy = d->policy;
    size_t len =
        request->path.len < SL_PATH_BYTES ? request->path.len : SL_PATH_BYTES;
    char *room = sl_arena_take(&d->arena, SL_PATH_READINGS * (len + 1));
    struct sl_path readings[SL_PATH_READINGS];
    unsigned count;

    if (!room)
        return SLUICE_ENOMEM;
    count = sl_path_readings(request->path, room, readings);
    for (unsigned i = 0; i < count; i++) {
        if (readings[i].cut)
            sl_decision_refuse(d, SL_REASON_LONG_PATH);
        unsigned found = find_path(c, request->method, &readings[i]);

        add_route(ret, found == SL_NO_ROUTE ? &policy->fallback
                                            : &policy->routes[found]);
    }
    return 0;
}

/* The decision shows the first route that has limits: its endpoint, its
 * headers, its `report`. */
static const struct sl_route *choose_shown_route(const struct routes *routes)
{
    for (unsigned i = 0; i < routes->count; i++)
        if (routes->list[i]->rule_count > 0)
            return routes->list[i];
    return routes->list[0];
}

static int find_routes(struct sl_check *c, const struct sl_request *request,
                       struct routes *ret)
{
    struct sl_decision *d = &c->decision;
    int err = 0, job, descriptor = -1;

    ret->count = 0;
    if (request->domain.len > 0)
        descriptor = sl_policy_descriptor(
            d->policy, request->domain, request->entries, request->entry_count);
    if (descriptor >= 0) {
        add_route(ret, &d->policy->routes[descriptor]);
    } else if (request->job.len > 0) {
        job = find_job(c, request->job);
        add_route(ret,
                  job < 0 ? &d->policy->fallback : &d->policy->routes[job]);
    } else {
        err = find_paths(c, request, ret);
    }
    if (!err)
        d->route = choose_shown_route(ret);
    return err;
}

/* A CORS preflight has no credentials, so it is never refused for a missing
 * name. It takes from the limits as an anonymous request does, because many
 * servers run their handlers for it. */
static bool is_preflight(const struct sl_request *request)
{
    return sl_str_eq_nocase(request->method, SL_STR("options")) &&
           request->job.len == 0 &&
           sl_request_header(request, SL_STR("origin")).len > 0 &&
           sl_request_header(request, SL_STR("access-control-request-method"))
                   .len > 0;
}

/* Does `route` allow `role`? */
static bool allows_role(const struct sl_route *route, struct sl_str role)
{
    for (unsigned i = 0; i < route->role_count; i++)
        if (sl_str_eq_nocase(route->roles[i], role))
            return true;
    return route->role_count == 0;
}

/* One of several roles is enough. */
static bool has_role(const struct sl_route *route,
                     const struct sl_caller *caller)
{
    for (unsigned i = 0; i < caller->role_count; i++)
        if (allows_role(route, caller->roles[i]))
            return true;
    return caller->role_count == 0 && allows_role(route, caller->role);
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

/* `unknown_subject: pass`. It does not apply while no subject is registered:
 * that is more likely a mistake than a policy. */
static bool is_let_pass(const struct sl_check *c)
{
    const struct sl_decision *d = &c->decision;

    return c->caller.unregistered &&
           d->policy->identity.unknown_subject == SL_UNKNOWN_PASS &&
           c->known->has_registered;
}

/* `unknown_subject: deny`. */
static void refuse_unknown(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (c->caller.unregistered &&
        d->policy->identity.unknown_subject == SL_UNKNOWN_DENY)
        sl_decision_refuse(d, SL_REASON_UNKNOWN_SUBJECT);
}

static bool is_exempt(struct sl_check *c, const struct sl_route *route)
{
    const struct sl_condition *met =
        route->exempt.count > 0 ? sl_conditions_met(c, &route->exempt) : NULL;

    if (met)
        c->decision.exempt = met;
    return met;
}

/* Checks all that a route decides without a limit. False if its limits do not
 * apply: the request is refused, or passes. */
static bool check_route(struct sl_check *c, const struct sl_route *route)
{
    struct sl_decision *d = &c->decision;
    const struct sl_caller *caller = &c->caller;

    if (route->feature != SL_NO_FEATURE &&
        !atomic_load_explicit(&c->active->features[route->feature],
                              memory_order_relaxed)) {
        sl_decision_refuse(d, SL_REASON_FEATURE);
        d->retry_in = d->policy->features[route->feature].retry_after;
        return false;
    }
    if (!sl_precheck_run(c, route))
        return false;
    if (caller->anonymous && route->anonymous == SL_ANONYMOUS_PASS)
        return false;
    if (c->preflight)
        return true;
    if (is_let_pass(c))
        return false;
    if (caller->anonymous && route->anonymous == SL_ANONYMOUS_DENY)
        sl_decision_refuse(d, SL_REASON_ANONYMOUS);
    refuse_unknown(c);
    if (!has_role(route, caller))
        sl_decision_refuse(d, SL_REASON_ROLE);
    return d->reason == SL_REASON_NONE && !is_exempt(c, route);
}

/* ---- the limits ---- */

static int show(struct sl_check *c, const struct sl_rule_cost *rules,
                unsigned count)
{
    int err = c->no_memory ? SLUICE_ENOMEM : sl_parts_add(c, rules, count);

    return err == SLUICE_ENOMEM ? sl_diag_error(&c->diag, err, "out of memory")
                                : err;
}

/* Does the request name its key itself (the keys API, a report of usage)? Then
 * it is allowed also for blocked and unknown callers. */
static bool names_its_key(const struct sl_request *request)
{
    return request->key_scopes || request->charge || request->give_back ||
           request->metered;
}

/* Adds one limit by its name. The caller is its key: the plan and the rules for
 * unknown callers are those of a route. */
static int add_named_limit(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    int index = sl_policy_rule(d->policy, c->request->limit);
    struct sl_rule_cost usual = {
        NULL, 0, {"", 0}
    };

    if (index < 0) /* the policy may have no limit at all */
        return sl_diag_error(&c->diag, SLUICE_ENOENT,
                             "the policy has no limit \"%.*s\"",
                             SL_STR_ARG(c->request->limit));
    if (d->reason == SL_REASON_BLOCKED)
        return 0;
    usual.rule = &d->policy->rules[index];
    usual.cost = usual.rule->cost;
    if (!names_its_key(c->request)) {
        if (is_let_pass(c))
            return 0;
        refuse_unknown(c);
    }
    if (c->request->idempotency_key.len > 0)
        sl_idempotency_claim(c, NULL);
    return d->reason == SL_REASON_NONE ? show(c, &usual, 1) : 0;
}

/* Adds the rules of a route to `rules`, each once and with its highest cost.
 * False if they are too many for one set. */
static bool add_rules(struct sl_check *c, const struct sl_route *route,
                      struct sl_rule_cost rules[SL_PARTS], unsigned *count)
{
    for (unsigned i = 0; i < route->rule_count; i++) {
        const struct sl_rule *rule = route->rules[i];
        struct sl_rule_cost usual = {
            rule, rule->cost, {"", 0}
        };
        unsigned k = 0;

        if (route->guards)
            sl_precheck_cost(c, route->guards, &usual);
        while (k < *count && rules[k].rule != rule)
            k++;
        if (k == SL_PARTS)
            return false;
        if (k == *count)
            rules[(*count)++] = usual;
        else if (rules[k].cost < usual.cost)
            rules[k] = usual;
    }
    return true;
}

/* Adds the rules of all routes whose limits apply. A path with too many
 * readings is refused. */
static int add_routes(struct sl_check *c, const struct routes *routes)
{
    struct sl_decision *d = &c->decision;
    struct sl_rule_cost rules[SL_PARTS];
    unsigned count = 0;

    for (unsigned i = 0; i < routes->count; i++) {
        const struct sl_route *route = routes->list[i];

        if (!check_route(c, route))
            continue;
        if (!add_rules(c, route, rules, &count))
            sl_decision_refuse(d, SL_REASON_PATH);
        c->carry |= route->sign_in == SL_SIGN_IN_CARRY;
        c->cap |= route->sign_in == SL_SIGN_IN_CAP;
        if (route->guards || c->request->idempotency_key.len > 0)
            sl_idempotency_claim(c, route->guards);
    }
    return d->reason == SL_REASON_NONE ? show(c, rules, count) : 0;
}

/* The key of the scope `descriptor`: the entries whose values the route of the
 * descriptor leaves open. */
static int set_descriptor_scope(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    const struct sl_request *request = c->request;
    struct sl_str *value = &c->caller.values[SL_SCOPE_DESCRIPTOR];

    if (!d->route->is_descriptor)
        return 0;
    *value = sl_str_c(sl_descriptor_id(&d->route->descriptor, request->entries,
                                       request->entry_count, &d->arena));
    return value->at ? 0 : SLUICE_ENOMEM;
}

/* Refuses the request of a blocked caller. Reports of usage count always. */
static void refuse_blocked(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    const char *of;
    const struct sl_subject *blocked =
        names_its_key(c->request) ? NULL
                                  : sl_auth_info_blocked(c->known, d->now, &of);
    const struct sl_block *block;

    if (!blocked)
        return;
    sl_decision_refuse(d, SL_REASON_BLOCKED);
    if (d->reason != SL_REASON_BLOCKED)
        return;
    block = &blocked->block;
    d->block = (struct sl_block){.is_set = true,
                                 .until = block->until,
                                 .by = sl_decision_note(d, block->by),
                                 .note = sl_decision_note(d, block->note)};
    d->block_of = of;
    d->block_id = sl_arena_copy(&d->arena, blocked->id);
    if (block->until != SL_NS_NONE)
        d->retry_in = block->until - d->now;
}

/* ---- PREPARE ---- */

static int add_limits(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    const struct sl_request *request = c->request;
    struct routes routes;
    int err;

    sl_identify(d->policy, request, c->known, &c->caller);
    if (d->side_count == 1) {
        d->token_good = c->known->token != NULL;
        d->token_fault = c->known->token_fault;
        d->anonymous = c->caller.anonymous;
        d->plan_ended = c->caller.plan_ended;
        sl_decision_who(d, &c->caller, request);
    }
    refuse_blocked(c);
    if (!choose_plan(d, &c->caller))
        sl_decision_refuse(d, SL_REASON_UNKNOWN_PLAN);
    if (request->limit.len > 0)
        return add_named_limit(c);
    err = find_routes(c, request, &routes);
    if (!err)
        err = set_descriptor_scope(c);
    if (err)
        return sl_diag_error(&c->diag, err, "out of memory");
    c->preflight = is_preflight(request);
    return d->reason == SL_REASON_BLOCKED ? 0 : add_routes(c, &routes);
}

/* Adds one request to the decision: its caller, routes and limits. The
 * decision shows the route of the first request that has limits, or of the
 * request that is refused. */
static int prepare_request(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    const struct sl_route *route = d->route;
    unsigned plan = d->plan;
    struct sl_descriptor_match *side;
    int err;

    if (d->side_count == SL_DESCRIPTOR_MATCHES)
        return sl_diag_error(&c->diag, SLUICE_EFULL,
                             "the request has more than %d descriptors",
                             SL_DESCRIPTOR_MATCHES);
    side = &d->sides[d->side_count++];
    *side = (struct sl_descriptor_match){.route = &d->policy->fallback};
    if (is_off(d) || d->reason != SL_REASON_NONE)
        return 0;
    c->secret = sl_store_secret(c->engine->store);
    c->preflight = c->carry = c->cap = c->no_memory = false;
    c->shown = 0;
    err = add_limits(c);
    side->route = d->route;
    side->shown = c->shown;
    side->refused = d->reason != SL_REASON_NONE;
    d->plan_unknown |= c->known->subjects_failed && c->caller.plan.len == 0 &&
                       d->shown_count > 0;
    if (d->side_count > 1 && !side->refused && route->rule_count > 0) {
        d->route = route;
        d->plan = plan;
    }
    return err;
}

/* Moves to the next state that has a take, or to DONE. */
static void next_take(struct sl_check *c)
{
    if (c->decision.reason != SL_REASON_NONE) {
        c->state = SL_CHECK_DONE;
        return;
    }
    switch (c->state) {
    case SL_CHECK_TAKE:
        c->state = SL_CHECK_COUNT_DENIED;
        if (sl_parts_count_denied(c))
            break;
        /* fall through */
    case SL_CHECK_COUNT_DENIED:
        c->state = SL_CHECK_SHADOW;
        if (sl_parts_ask_shadows(c))
            break;
        /* fall through */
    case SL_CHECK_SHADOW:
        c->state = SL_CHECK_NEXT_UNIT;
        if (sl_parts_peek_next(c))
            break;
        /* fall through */
    default:
        c->state = SL_CHECK_DONE;
    }
}

/* The request is not a repeat. Moves to TAKE, or to a later state if there is
 * nothing to take. */
static void prepare_take(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (d->no_numbers) {
        c->state = SL_CHECK_DONE;
        sl_decision_conclude(d);
        return;
    }
    c->state = SL_CHECK_TAKE;
    if (sl_parts_ask_limits(c))
        return;
    if (d->reason == SL_REASON_NONE)
        sl_decision_conclude(d);
    next_take(c);
}

/* Asks whether the take is deferred, if it is next. */
static bool is_deferred(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    bool claimed = false;

    if (c->state != SL_CHECK_TAKE || !c->defers)
        return false;
    for (unsigned i = 0; i < SL_DECISION_CLAIMS; i++)
        claimed |= d->claims[i].claimed;
    /* Only if no other check can see that this one has begun, and if the store
     * answers at once. */
    return c->defers(c, !claimed && sl_wait_check_longest(c) == 0 &&
                            sl_engine_prefetch(c->engine, d));
}

/* All requests are prepared. Moves to CLAIM or TAKE, or to DONE if the request
 * is refused. */
static void prepared(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    c->state = SL_CHECK_DONE;
    if (is_off(d))
        return;
    if (!sl_sign_in_fits(d))
        sl_decision_refuse(d, SL_REASON_PATH);
    if (d->reason != SL_REASON_NONE)
        return;
    d->not_limited = d->shown_count + d->running_count == 0;
    if (d->plan_unknown)
        sl_outage_conclude_unsure(d);
    if (d->reason != SL_REASON_NONE)
        return;
    for (unsigned i = 0; i < SL_DECISION_CLAIMS; i++)
        if (d->claims[i].wanted)
            c->state = SL_CHECK_CLAIM;
    if (c->state != SL_CHECK_CLAIM)
        prepare_take(c);
}

const struct sl_route *sl_check_route(struct sl_check *c,
                                      const struct sl_request *request)
{
    struct sl_decision *d = &c->decision;
    struct routes routes;

    c->request = NULL; /* the caller is not known: without conditions */
    clear(d, c->active, request, false);
    return find_routes(c, request, &routes) ? NULL : d->route;
}

/* ---- IDENTIFY and LOOKUP ---- */

static void release_subjects(struct sl_check *c)
{
    for (unsigned i = 0; i < SL_LEN(c->lookups); i++) {
        sl_subject_unref(c->lookups[i].found);
        c->lookups[i].found = NULL;
        c->lookups[i].has_registered = false;
        c->lookups[i].err = 0;
    }
    c->verified.user = c->verified.org = c->verified.ip = NULL;
    c->verified.has_registered = false;
    c->verified.subjects_failed = false;
}

/* One deadline applies to the lookups and to the store. */
static void on_found(struct sl_lookup *lookup)
{
    struct sl_check *c = lookup->ctx;
    sl_ns *deadline = &c->decision.take.deadline;

    if (lookup->over > 0 && (*deadline == 0 || lookup->over < *deadline))
        *deadline = lookup->over;
    if (lookup->over > 0)
        c->lookups_until = lookup->deadline;
    if (--c->lookups_open == 0)
        sl_check_resume(c);
}

static void look_up(struct sl_check *c, struct sl_lookup *lookup,
                    const char *scope, struct sl_str id)
{
    struct sl_subjects *subjects = c->engine_ctx->subjects;

    if (id.len == 0)
        return;
    *lookup = (struct sl_lookup){.scope = sl_str_c(scope),
                                 .id = id,
                                 .deadline = c->lookups_until,
                                 .done = on_found,
                                 .ctx = c};
    c->lookups_open++;
    subjects->calls->find(subjects, lookup);
}

/* The address of the caller: the key of a limit per address, or the request's.
 * A key may be shown with the prefix of its network. */
static struct sl_str address_of(const struct sl_check *c)
{
    struct sl_str key =
        sl_request_keyed(c->active->policy, c->request, SL_SCOPE_IP);

    return key.len > 0 ? sl_ip_key_address(key) : c->request->ip;
}

/* Begins with the next request. False if the check was answered: the key of
 * the limit is wrong. */
static bool begin_request(struct sl_check *c)
{
    const struct sl_request *request = &c->requests[c->request_index];
    int err = sl_request_split(c->active->policy, request, &c->decision.arena,
                               &c->split, &c->diag);

    if (err) {
        sl_check_finish(c, err);
        return false;
    }
    c->request = c->split.request ? c->split.request : request;
    return true;
}

/* Verifies the token and starts the lookups. False if a lookup has not
 * answered yet, or the check was answered. */
static bool identify(struct sl_check *c)
{
    if (!begin_request(c))
        return false;
    c->looked_up = c->has_waited = false;
    c->known = c->auth;
    if (c->auth)
        return true;
    c->known = &c->verified;
    sl_auth_info_token(&c->verified, c->engine_ctx->tokens, c->active->policy,
                       c->request);
    if (!c->engine_ctx->subjects || !c->active->policy->enabled)
        return true;
    sl_identify(c->active->policy, c->request, &c->verified, &c->caller);
    c->looked_up = true;
    c->lookups_open = 1; /* on_found() resumes only after all have started */
    look_up(c, &c->lookups[0], "user", c->caller.values[SL_SCOPE_USER]);
    look_up(c, &c->lookups[1], "org", c->caller.values[SL_SCOPE_ORG]);
    look_up(c, &c->lookups[2], "ip", address_of(c));
    c->has_waited = c->lookups_open > 1;
    return --c->lookups_open == 0;
}

/* The lookups are complete. Other tokens may have been verified meanwhile, so
 * a good token is verified again; if it is bad now, the subjects that it named
 * do not count. A bad token stays bad and is not counted twice. */
static void keep_subjects(struct sl_check *c)
{
    if (!c->looked_up)
        return;
    if (c->has_waited && c->verified.token) {
        sl_auth_info_token(&c->verified, c->engine_ctx->tokens,
                           c->active->policy, c->request);
        if (!c->verified.token)
            release_subjects(c);
    }
    c->verified.user = c->lookups[0].found;
    c->verified.org = c->lookups[1].found;
    c->verified.ip = c->lookups[2].found;
    c->verified.has_registered =
        c->lookups[0].has_registered || c->lookups[1].has_registered;
    c->verified.subjects_failed = c->lookups[0].err || c->lookups[1].err;
}

/* ---- takes ---- */

static void on_taken(struct sl_take *take)
{
    struct sl_check *c = take->ctx;

    c->answered = true;
    if (!c->sending)
        sl_check_resume(c);
}

/* Sends the take of this state, unless it was answered already. False if the
 * store has not answered yet. Usage that cannot be recorded is not taken: the
 * store fails then. */
static bool take(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (!c->answered &&
        (c->state == SL_CHECK_TAKE || c->state == SL_CHECK_CREDITS) &&
        sl_usage_report_is_full(c->engine_ctx->meter, d)) {
        d->take.err = SLUICE_ESTORE;
        return true;
    }
    if (!c->answered) {
        d->take.done = on_taken;
        d->take.ctx = c;
        d->take.loop = c->engine_ctx->loop;
        c->sending = true;
        sl_engine_take(c->engine, d);
        c->sending = false;
        if (!c->answered)
            return false;
    }
    c->answered = false;
    return true;
}

/* The take with credits was answered. Unless they pay, the denial stays, with
 * the numbers that it had. */
static void took_credits(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    c->state = SL_CHECK_TAKE;
    if (d->take.err) {
        sl_parts_drop_credits(d);
        c->state = SL_CHECK_DONE; /* the store would fail again */
        return;
    }
    if (!d->take.allowed) {
        sl_parts_drop_credits(d);
    } else {
        sl_parts_answers(c);
        sl_parts_pay(d);
        sl_decision_conclude(d);
        sl_hold_taken(d);
    }
    next_take(c);
}

/* The take of this state was answered. Moves to the next state. */
static void took(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    sl_outage_pay_debts(c->engine, d);
    if (c->state == SL_CHECK_CREDITS) {
        took_credits(c);
        return;
    }
    if (d->take.err) {
        if (c->state == SL_CHECK_TAKE && d->take.err == SLUICE_EFULL)
            sl_hold_refuse(d);
        else if (c->state == SL_CHECK_TAKE && sl_outage_conclude(c))
            return;               /* take from the local table */
        c->state = SL_CHECK_DONE; /* the verdict does not need later takes */
        return;
    }
    if (c->state == SL_CHECK_TAKE && sl_parts_drop_full(c))
        return;
    sl_parts_answers(c);
    if (c->state == SL_CHECK_TAKE) {
        d->degraded = d->degraded || d->on_local;
        sl_decision_conclude(d);
        if (sl_parts_ask_credits(c)) {
            c->state = SL_CHECK_CREDITS;
            return;
        }
        sl_hold_taken(d);
        if (d->on_local)
            sl_outage_add_debt(c->active, d);
    }
    next_take(c);
}

/* The reset was answered. True if it is complete; false if the local table is
 * next. */
static bool was_reset(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (!d->take.err && !d->on_local && c->active->local) {
        d->on_local = true;
        return !sl_parts_ask_reset(c);
    }
    if (!d->take.err)
        sl_usage_report_send(c->engine_ctx->meter, d, true);
    return true;
}

/* ---- the machine ---- */

void sl_check_finish(struct sl_check *c, int err)
{
    sl_idempotency_drop(c);
    if (c->waiter.queue)
        sl_queue_leave(&c->waiter, c->decision.now, false);
    c->state = SL_CHECK_DONE;
    c->err = err;
    c->busy = false;
    if (c->done)
        c->done(c);
}

/* Evaluates a request again after its wait. The policy may have changed;
 * claimed keys stay claimed. */
static void start_again(struct sl_check *c)
{
    c->requests = &c->again;
    sl_check_ref_policy(c);
    sl_idempotency_retry(&c->decision, true);
    open(c);
    sl_idempotency_retry(&c->decision, false);
}

/* PREPARE. False if the check was answered or its take is deferred. */
static bool prepare(struct sl_check *c)
{
    int err = prepare_request(c);

    if (c->looked_up)
        release_subjects(c);
    if (err) {
        sl_check_finish(c, err);
        return false;
    }
    if (++c->request_index < c->request_count) {
        c->state = SL_CHECK_IDENTIFY;
        return true;
    }
    prepared(c);
    return !is_deferred(c);
}

/* CLAIM. False if the memory of repeats has not answered yet, or the take is
 * deferred. */
static bool claim(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (!sl_idempotency_begin(c))
        return false;
    c->state = SL_CHECK_DONE;
    if (!d->replayed && d->reason == SL_REASON_NONE)
        prepare_take(c);
    return !is_deferred(c);
}

static void advance(struct sl_check *c)
{
    for (;;) {
        switch (c->state) {
        case SL_CHECK_IDENTIFY:
            c->state = SL_CHECK_LOOKUP;
            if (!identify(c))
                return;
            /* fall through */
        case SL_CHECK_LOOKUP:
            keep_subjects(c);
            c->state = SL_CHECK_PREPARE;
            /* fall through */
        case SL_CHECK_PREPARE:
            if (!prepare(c))
                return;
            break;
        case SL_CHECK_CLAIM:
            if (!claim(c))
                return;
            break;
        case SL_CHECK_WAIT:
            start_again(c);
            break;
        case SL_CHECK_TAKE:
            if (!c->answered && c->engine_ctx->wait_thread &&
                sl_wait_check_behind(c))
                return;
            /* fall through */
        case SL_CHECK_CREDITS:
        case SL_CHECK_COUNT_DENIED:
        case SL_CHECK_SHADOW:
        case SL_CHECK_NEXT_UNIT:
            if (!take(c))
                return;
            took(c);
            break;
        case SL_CHECK_RESET:
            if (!take(c))
                return;
            if (!was_reset(c))
                break;
            sl_check_finish(c, c->decision.take.err);
            return;
        case SL_CHECK_DONE:
            if (c->wait > 0 && sl_wait_check_waits(c))
                return;
            if (c->engine_ctx->meter)
                sl_usage_report_send(c->engine_ctx->meter, &c->decision, false);
            c->state = SL_CHECK_COMMIT;
            c->claim_index = 0;
            /* fall through */
        case SL_CHECK_COMMIT:
            if (!sl_idempotency_finish(c))
                return;
            sl_check_finish(c, 0);
            return;
        }
    }
}

/* ---- public ---- */

void sl_check_init(struct sl_check *c, struct sl_engine *engine,
                   const struct sl_engine_ctx *ctx,
                   const struct sl_alloc *alloc)
{
    memset(&c->decision, 0, offsetof(struct sl_decision, parts));
    memset(&c->err, 0, sizeof(*c) - offsetof(struct sl_check, err));
    c->engine = engine;
    c->engine_ctx = ctx;
    sl_arena_init(&c->decision.arena, ARENA_MAX, alloc);
}

void sl_check_done(struct sl_check *c)
{
    sl_active_policy_unref(c->active);
    c->active = NULL;
    sl_arena_done(&c->decision.arena);
}

struct sl_active_policy *sl_check_ref_policy(struct sl_check *c)
{
    c->active = sl_engine_ref_policy(c->engine, c->active);
    return c->active;
}

void sl_check_start(struct sl_check *c, const struct sl_request *requests,
                    unsigned count, bool spend)
{
    c->requests = requests;
    c->request_count = count;
    c->spend = spend;
    c->busy = true;
    c->in_turn = c->gone = false;
    c->lookups_until = 0;
    c->wait = 0;
    c->waiter.queue = NULL;
    c->diag.sentence[0] = '\0';
    c->verified.webhook = c->engine_ctx->webhook;
    if (!c->active)
        sl_check_ref_policy(c);
    open(c);
    advance(c);
}

void sl_check_resume(struct sl_check *c)
{
    advance(c);
}

/* A check whose turn has come is answered soon and counts; it does not wait
 * again. */
void sl_check_cancel(struct sl_check *c)
{
    struct sl_waiter *w = &c->waiter;

    c->gone = true;
    if (!c->busy || !w->queue || w->retrying)
        return;
    sl_queue_leave(w, c->decision.now, false);
    w->on_late(w, c->decision.now);
}

void sl_check_reset(struct sl_check *c)
{
    c->busy = true;
    c->answered = false;
    c->decision.on_local = false;
    c->state = SL_CHECK_RESET;
    if (sl_parts_ask_reset(c))
        advance(c);
    else
        sl_check_finish(c, 0);
}
