/* decide.c -- the steps of a decision.
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
#include "engine/decide.h"

#include <string.h>

#include "base/hash.h"
#include "engine/guard.h"
#include "engine/hold.h"

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
static void clear(struct sl_decision *d, const struct sl_live *live,
                  const struct sl_facts *facts, bool spend)
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

static int find_paths(struct sl_decision *d, const struct sl_facts *facts,
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

static int find_routes(struct sl_decision *d, const struct sl_facts *facts,
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
static bool is_preflight(const struct sl_facts *facts)
{
    return sl_str_eq_nocase(facts->method, SL_STR("options")) &&
           facts->job.len == 0 &&
           sl_facts_header(facts, SL_STR("origin")).len > 0 &&
           sl_facts_header(facts, SL_STR("access-control-request-method")).len >
               0;
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
                        const struct sl_asking *asking)
{
    return asking->caller.unregistered &&
           d->policy->identity.unknown_subject == SL_UNKNOWN_PASS &&
           (asking->known->user || asking->known->org);
}

/* Everything that a route decides without a limit. False if it has nothing
 * more to say: refused, or passed. */
static bool check_route(struct sl_decision *d, struct sl_asking *asking,
                        const struct sl_route *route)
{
    const struct sl_caller *caller = &asking->caller;

    if (route->feature != SL_NO_FEATURE &&
        !atomic_load_explicit(&asking->live->features[route->feature],
                              memory_order_relaxed)) {
        sl_refuse_request(d, SL_REASON_FEATURE);
        d->retry_in = d->policy->features[route->feature].retry_after;
        return false;
    }
    if (!sl_guard_check(d, asking, route))
        return false;
    if (caller->anonymous && route->anonymous == SL_ANONYMOUS_PASS)
        return false;
    if (asking->preflight)
        return true;
    if (is_let_pass(d, asking))
        return false;
    if (caller->anonymous && route->anonymous == SL_ANONYMOUS_DENY)
        sl_refuse_request(d, SL_REASON_ANONYMOUS);
    if (caller->unregistered &&
        d->policy->identity.unknown_subject == SL_UNKNOWN_DENY)
        sl_refuse_request(d, SL_REASON_UNKNOWN_SUBJECT);
    if (!has_role(route, caller))
        sl_refuse_request(d, SL_REASON_ROLE);
    return d->reason == SL_REASON_NONE;
}

/* ---- the steps ---- */

static int find_rule(struct sl_decision *d, struct sl_asking *asking,
                     const struct sl_rule **ret)
{
    struct sl_str name = asking->facts->limit;
    int index = sl_policy_rule(d->policy, name);

    if (index < 0)
        return sl_refuse(asking->diag, SLUICE_ENOENT,
                         "the policy has no limit \"%.*s\"", SL_STR_ARG(name));
    *ret = &d->policy->rules[index];
    return 0;
}

/* What comes after the limits that count. */
static void go_on(struct sl_decision *d, const struct sl_live *live)
{
    if (d->step == SL_DECIDING)
        sl_parts_insist(d, live);
    if (d->step == SL_INSISTING && !d->pending)
        sl_parts_ask_shadows(d, live);
    if (d->step == SL_SHADOWING && !d->pending)
        sl_parts_ask_next_unit(d, live);
    if (!d->pending)
        d->step = SL_DECIDED;
}

static int show(struct sl_decision *d, struct sl_asking *asking,
                const struct sl_rule *const *rules, unsigned count)
{
    int err = asking->no_memory ? SLUICE_ENOMEM
                                : sl_parts_show(d, asking, rules, count);

    return err == SLUICE_ENOMEM ? sl_refuse(asking->diag, err, "out of memory")
                                : err;
}

/* One limit by its name. Its key says who it is. */
static int ask_one(struct sl_decision *d, struct sl_asking *asking)
{
    const struct sl_rule *rule;
    int err = find_rule(d, asking, &rule);

    if (err)
        return err;
    asking->caller.anonymous = false;
    if (!choose_plan(d, &asking->caller))
        sl_refuse_request(d, SL_REASON_UNKNOWN_PLAN);
    if (asking->facts->idempotency_key.len > 0)
        sl_repeat_claim(d, asking, NULL);
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
static int ask_routes(struct sl_decision *d, struct sl_asking *asking,
                      const struct routes *routes)
{
    const struct sl_rule *rules[SL_PARTS];
    unsigned count = 0;

    if (!choose_plan(d, &asking->caller))
        sl_refuse_request(d, SL_REASON_UNKNOWN_PLAN);
    for (unsigned i = 0; i < routes->count; i++) {
        const struct sl_route *route = routes->list[i];

        if (!check_route(d, asking, route))
            continue;
        if (!add_rules(route, rules, &count))
            sl_refuse_request(d, SL_REASON_PATH);
        asking->carry |= route->sign_in == SL_SIGN_IN_CARRY;
        asking->cap |= route->sign_in == SL_SIGN_IN_CAP;
        if (route->guards || asking->facts->idempotency_key.len > 0)
            sl_repeat_claim(d, asking, route->guards);
    }
    return d->reason == SL_REASON_NONE ? show(d, asking, rules, count) : 0;
}

static bool is_off(const struct sl_decision *d)
{
    return !d->policy->enabled || d->policy->mode == SL_MODE_OFF;
}

void sl_decide_open(struct sl_decision *d, const struct sl_live *live,
                    const struct sl_facts *facts, bool spend,
                    const struct sl_hash_key *secret)
{
    clear(d, live, facts, spend);
    sl_decision_choose_id(d, facts, secret);
    if (is_off(d))
        pass(d);
}

/* What the route of a descriptor leaves open is a scope of its own. */
static int keep_open_values(struct sl_decision *d, struct sl_asking *asking)
{
    const struct sl_facts *facts = asking->facts;
    struct sl_str *value = &asking->caller.values[SL_SCOPE_DESCRIPTOR];

    if (!d->route->is_descriptor)
        return 0;
    *value = sl_str_c(sl_descriptor_id(&d->route->descriptor, facts->entries,
                                       facts->entry_count, &d->arena));
    return value->at ? 0 : SLUICE_ENOMEM;
}

static int add_side(struct sl_decision *d, struct sl_asking *asking)
{
    const struct sl_facts *facts = asking->facts;
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
        return sl_refuse(asking->diag, err, "out of memory");
    asking->preflight = is_preflight(facts);
    return ask_routes(d, asking, &routes);
}

/* The verdict has the face of the first side that limits anything, or of the
 * one that is refused. */
int sl_decide_side(struct sl_decision *d, const struct sl_live *live,
                   const struct sl_facts *facts, const struct sl_known *known,
                   const struct sl_hash_key *secret, struct sl_diag *diag)
{
    static const struct sl_known nothing;
    struct sl_asking asking;
    const struct sl_route *face = d->route;
    unsigned plan = d->plan;
    struct sl_side *side;
    int err = 0;

    if (d->side_count == SL_SIDES)
        return sl_refuse(diag, SLUICE_EFULL,
                         "the request has more than %d descriptors", SL_SIDES);
    side = &d->sides[d->side_count++];
    *side = (struct sl_side){.route = &d->policy->fallback};
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

void sl_decide_ask(struct sl_decision *d, const struct sl_live *live)
{
    if (is_off(d))
        return;
    if (!sl_visitors_fit(d))
        sl_refuse_request(d, SL_REASON_PATH);
    if (d->reason != SL_REASON_NONE)
        return;
    d->untouched = d->shown_count + d->running_count == 0;
    if (d->unsure)
        sl_conclude_unsure(d);
    if (d->reason != SL_REASON_NONE || sl_repeat_begin(d, live))
        return;
    if (!d->blind)
        sl_parts_ask_limits(d, live);
    if (!d->pending && d->reason == SL_REASON_NONE) {
        sl_conclude(d);
        go_on(d, live);
    }
}

int sl_decide_begin(struct sl_decision *d, const struct sl_live *live,
                    const struct sl_facts *facts, const struct sl_known *known,
                    bool spend, const struct sl_hash_key *secret,
                    struct sl_diag *diag)
{
    int err;

    sl_decide_open(d, live, facts, spend, secret);
    err = sl_decide_side(d, live, facts, known, secret, diag);
    if (!err)
        sl_decide_ask(d, live);
    return err;
}

const struct sl_route *sl_decide_route(struct sl_decision *d,
                                       const struct sl_live *live,
                                       const struct sl_facts *facts)
{
    struct routes routes;

    clear(d, live, facts, false);
    return find_routes(d, facts, &routes) ? NULL : d->route;
}

void sl_decide_took(struct sl_decision *d, const struct sl_live *live)
{
    d->pending = false;
    if (d->take.err) {
        if (d->step == SL_DECIDING && d->take.err == SLUICE_EFULL)
            sl_hold_refuse(d);
        else if (d->step == SL_DECIDING)
            sl_conclude_failure(d, live);
        else
            d->step = SL_DECIDED; /* the verdict stands without them */
        return;
    }
    sl_parts_answers(d);
    if (d->step == SL_DECIDING) {
        d->degraded = d->degraded || d->on_local;
        sl_conclude(d);
        sl_hold_taken(d);
        if (d->on_local && live->engine)
            sl_engine_owe(live, d);
    }
    go_on(d, live);
}
