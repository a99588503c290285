/* routes.c -- `routes` and `default`: what is limited by what. */
#include "policy/build/build.h"

#include <string.h>

#define ROLES_MAX 64

/* ---- match and job ---- */

static void read_match(struct sl_build *b, const struct sl_node *node,
                       struct sl_route *route)
{
    struct sl_diag diag = {0};

    route->text = sl_build_keep(b, node->text);
    if (!sl_build_ok(
            b, node,
            sl_pattern_read(route->text, b->arena, &route->pattern, &diag),
            &diag))
        route->pattern = (struct sl_pattern){.methods = 0}; /* unknown */
    else
        route->endpoint = sl_build_endpoint(b, &route->pattern);
}

static void read_job(struct sl_build *b, const struct sl_node *node,
                     struct sl_route *route)
{
    char text[SL_NAME_MAX + 8] = "job ";

    route->is_job = true;
    if (!sl_build_name(b, "a job", node))
        return;
    memcpy(text + 4, node->text.at, node->text.len);
    route->text = sl_build_keep(b, (struct sl_str){text, 4 + node->text.len});
    route->job = sl_str_from(route->text, 4);
    route->endpoint = route->job;
}

static void read_target(struct sl_build *b, const struct sl_node *node,
                        struct sl_route *route)
{
    const struct sl_node *match = sl_node_get(node, "match");
    const struct sl_node *job = sl_node_get(node, "job");
    const struct sl_node *descriptor = sl_node_get(node, "descriptor");

    if (!match && !job && !descriptor)
        sl_report_error(b->report, SL_AT(node),
                        "A route needs `match` or `job`. Write match: /path, "
                        "or job: NAME");
    else if (match && job)
        sl_report_error(b->report, SL_AT_KEY(job),
                        "A route can have `match` or `job`, not both. Write "
                        "two routes");
    else if (descriptor && (match || job))
        sl_report_error(b->report, SL_AT_KEY(descriptor),
                        "A route can have `%s` or `descriptor`, not both. "
                        "Write two routes",
                        match ? "match" : "job");
    else if (descriptor)
        sl_build_descriptor(b, descriptor, route);
    else if (match && match->kind == SL_NODE_SCALAR)
        read_match(b, match, route);
    else if (job && job->kind == SL_NODE_SCALAR)
        read_job(b, job, route);
    else
        route->is_job = job != NULL; /* the schema has said it */
}

/* ---- limits ---- */

static void read_rules(struct sl_build *b, const struct sl_node *list,
                       struct sl_route *route)
{
    const struct sl_rule **rules;
    const struct sl_node *item;

    if (!list || !sl_build_short(b, list, SL_PARTS, "limits of one route"))
        return;
    rules = sl_build_take(b, sl_build_most(list) + 1, sizeof(struct sl_rule *));
    if (!rules)
        return;
    route->rules = rules;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item)) {
        int rule = sl_build_find(b, &b->box->rules, item, "limit");

        if (rule >= 0 && !sl_build_twice(b, list, item, "Limit"))
            rules[route->rule_count++] = &b->rules[rule];
    }
}

/* Is a limit of that name in the route's list, whether it exists or not? */
static bool is_listed(const struct sl_node *list, struct sl_str name)
{
    const struct sl_node *item = sl_build_first(list);

    while (item && !sl_str_eq(item->text, name))
        item = sl_build_next(list, item);
    return item != NULL;
}

/* The place in route->rules of the limit that `key` names, or -1. */
static int read_pick(struct sl_build *b, const struct sl_node *node,
                     const char *key, const struct sl_route *route)
{
    const struct sl_node *pick = sl_build_scalar(node, key);
    const struct sl_node *list = sl_node_get(node, "limits");

    if (!pick)
        return -1;
    for (unsigned i = 0; i < route->rule_count; i++)
        if (sl_str_eq(route->rules[i]->name, pick->text))
            return (int)i;
    if (sl_build_refused(list) || is_listed(list, pick->text))
        return -1; /* what is wrong with it was said there */
    if (sl_build_find(b, &b->box->rules, pick, "limit") >= 0)
        sl_report_error(b->report, SL_AT(pick),
                        "`%s` must be a limit of the route. \"%.64s\" is not "
                        "in its `limits`",
                        key, sl_build_shown(pick).text);
    return -1;
}

static int read_quota(struct sl_build *b, const struct sl_node *node,
                      const struct sl_route *route)
{
    const struct sl_node *pick = sl_build_scalar(node, "quota");
    int index = read_pick(b, node, "quota", route);
    enum sl_kind kind;

    if (index < 0)
        return index;
    kind = route->rules[index]->kind;
    if (kind != SL_QUOTA && kind != SL_KINDS)
        sl_report_error(b->report, SL_AT(pick),
                        "`quota` must be a limit of kind quota. \"%.64s\" is "
                        "a %s",
                        sl_build_shown(pick).text, sl_kind_name(kind));
    return index;
}

/* ---- the rest ---- */

static void read_roles(struct sl_build *b, const struct sl_node *list,
                       struct sl_route *route)
{
    const struct sl_node *item;
    struct sl_str *roles;

    if (!list || !sl_build_short(b, list, ROLES_MAX, "roles"))
        return;
    roles = sl_build_take(b, sl_build_most(list) + 1, sizeof(*roles));
    if (!roles)
        return;
    route->roles = roles;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item))
        if (sl_build_name(b, "a role", item) &&
            !sl_build_twice(b, list, item, "Role"))
            roles[route->role_count++] = sl_build_keep(b, item->text);
    if (list->kind == SL_NODE_LIST && list->count == 0)
        sl_report_error(b->report, SL_AT(list),
                        "An empty list of roles denies every request. Leave "
                        "`roles` out to allow all roles");
}

/* Callers without a name pass before anyone asks for a role: behind an
 * application that knows its own users that may be meant. */
static void warn_of_pass(struct sl_build *b, const struct sl_node *roles,
                         const struct sl_route *route)
{
    if (roles && route->anonymous == SL_ANONYMOUS_PASS)
        sl_hint(sl_report_warning(b->report, SL_AT_KEY(roles),
                                  "`anonymous: pass` allows all callers "
                                  "without identity. `roles` applies only to "
                                  "callers with identity"),
                "anonymous: deny");
}

static void read_feature(struct sl_build *b, const struct sl_node *node,
                         struct sl_route *route)
{
    const struct sl_node *feature = sl_build_scalar(node, "feature");
    int index;

    if (!feature)
        return;
    index = sl_build_find(b, &b->box->features, feature, "feature");
    if (index >= 0)
        route->feature = (unsigned)index;
}

static void preset(const struct sl_build *b, struct sl_route *route)
{
    route->feature = SL_NO_FEATURE;
    route->report = route->quota = route->failure = -1;
    route->dialects = b->policy->dialects;
    route->reset = b->policy->reset;
}

static void read_route(struct sl_build *b, const struct sl_node *node,
                       struct sl_route *route)
{
    const struct sl_node *endpoint = sl_build_scalar(node, "endpoint");

    preset(b, route);
    route->place = SL_AT(node);
    if (node->kind != SL_NODE_MAP)
        return;
    read_target(b, node, route);
    route->names_endpoint = endpoint != NULL;
    if (endpoint && sl_build_name(b, "an endpoint", endpoint))
        route->endpoint = sl_build_keep(b, endpoint->text);
    route->anonymous = (enum sl_anonymous)sl_build_choice(
        node, "anonymous", sl_anonymous_words, 3, 0);
    route->sign_in = (enum sl_sign_in)sl_build_choice(
        node, "sign_in", sl_sign_in_words, 3, SL_SIGN_IN_FRESH);
    read_feature(b, node, route);
    read_roles(b, sl_node_get(node, "roles"), route);
    warn_of_pass(b, sl_node_get(node, "roles"), route);
    read_rules(b, sl_node_get(node, "limits"), route);
    route->report = read_pick(b, node, "report", route);
    route->quota = read_quota(b, node, route);
    route->dialects =
        sl_build_dialects(b, sl_node_get(node, "headers"), route->dialects);
    route->reset = (enum sl_reset)sl_build_choice(node, "reset", sl_reset_words,
                                                  2, (int)route->reset);
    sl_build_wait(b, node, route);
    route->failure = sl_build_choice(node, "on_store_failure", sl_failure_words,
                                     3, route->failure);
    route->apart = !sl_build_bool(node, "atomic", true);
    route->count =
        (enum sl_count)sl_build_choice(node, "count", sl_count_words, 3, 0);
    b->policy->counts_each |= route->count != SL_COUNT_ALL;
    sl_build_replaces(b, sl_node_get(node, "replaces"), route);
    sl_build_guards(b, node, route);
}

static bool is_match(const struct sl_route *route)
{
    return !route->is_job && !route->is_descriptor &&
           route->pattern.methods != 0;
}

/* ---- all routes ---- */

/* A route that an earlier one covers is a mistake: its limits never apply.
 * Every pair is looked at: a few ms for a thousand routes, 0.1 s for ten
 * thousand. */
static void refuse_covered(struct sl_build *b, const struct sl_route *list,
                           unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = 0; j < i; j++) {
            if (!is_match(&list[i]) || !is_match(&list[j]) ||
                !sl_pattern_covers(&list[j].pattern, &list[i].pattern))
                continue;
            sl_report_error(b->report, list[i].place,
                            "No request reaches this route. \"%.64s\" on line "
                            "%u matches all of them. Put the narrower route "
                            "first",
                            list[j].text.at, list[j].place.line);
            break;
        }
}

static void refuse_same_jobs(struct sl_build *b)
{
    const struct sl_names *jobs = &b->box->jobs;

    for (unsigned i = 1; i < jobs->count; i++)
        if (sl_names_again(jobs, i))
            sl_report_error(b->report, jobs->list[i].place,
                            "Job \"%.64s\" already has a route on line %u",
                            jobs->list[i].name.at,
                            jobs->list[i - 1].place.line);
}

static void build_tree(struct sl_build *b, const struct sl_route *list,
                       unsigned count)
{
    const struct sl_pattern **patterns =
        sl_build_take(b, count + 1, sizeof(struct sl_pattern *));

    if (!patterns)
        return;
    for (unsigned i = 0; i < count; i++)
        patterns[i] = is_match(&list[i]) ? &list[i].pattern : NULL;
    b->policy->tree = sl_routes_build(patterns, count, b->arena);
    if (!b->policy->tree)
        b->no_memory = true;
}

static void read_routes(struct sl_build *b, const struct sl_node *node)
{
    unsigned count = node ? node->count : 0, i = 0;
    struct sl_route *list = sl_build_take(b, count + 1, sizeof(*list));

    if (!list || !sl_names_init(&b->box->jobs, count, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (const struct sl_node *n = node ? node->child : NULL; n; n = n->next) {
        list[i].index = i;
        read_route(b, n, &list[i]);
        if (list[i].job.len > 0)
            sl_names_add(&b->box->jobs, list[i].job, i, list[i].place);
        i++;
    }
    sl_names_close(&b->box->jobs);
    b->policy->routes = list;
    b->policy->route_count = count;
    if (b->no_memory)
        return;
    sl_build_index_descriptors(b, list, count);
    sl_build_tell_apart(b, list, count);
    refuse_same_jobs(b);
    refuse_covered(b, list, count);
    build_tree(b, list, count);
}

/* ---- what no route matches ---- */

static void read_default(struct sl_build *b)
{
    const struct sl_node *node = sl_node_get(b->root, "default");
    struct sl_route *route = &b->policy->fallback;

    preset(b, route);
    route->text = route->endpoint = SL_STR("default");
    if (node)
        route->place = SL_AT(node);
    read_rules(b, node, route);
}

void sl_build_routes(struct sl_build *b)
{
    const struct sl_node *node = sl_node_get(b->root, "routes");

    if (node && node->kind != SL_NODE_LIST)
        node = NULL; /* the schema has said it */
    if (node && node->count > SL_ROUTES_MAX) {
        sl_report_error(b->report, SL_AT_KEY(node),
                        "%u routes are too many. The maximum is %d",
                        node->count, SL_ROUTES_MAX);
        node = NULL;
    }
    read_routes(b, node);
    if (!b->no_memory)
        read_default(b);
}
