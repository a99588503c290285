/* build_routes.c -- `routes` and `default`: what is limited by what. */
#include <stdio.h>
#include <string.h>

#include "policy/policy_int.h"

#define ROLES_MAX 64

/* ---- match and job ---- */

static void read_match(struct sl_build *b, const struct sl_yaml_node *node,
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

static void read_job(struct sl_build *b, const struct sl_yaml_node *node,
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

static void read_target(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_route *route)
{
    const struct sl_yaml_node *match = sl_yaml_node_get(node, "match");
    const struct sl_yaml_node *job = sl_yaml_node_get(node, "job");
    const struct sl_yaml_node *descriptor =
        sl_yaml_node_get(node, "descriptor");

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

static void read_rules(struct sl_build *b, const struct sl_yaml_node *list,
                       struct sl_route *route)
{
    const struct sl_rule **rules;
    const struct sl_yaml_node *item;

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
static bool is_listed(const struct sl_yaml_node *list, struct sl_str name)
{
    const struct sl_yaml_node *item = sl_build_first(list);

    while (item && !sl_str_eq(item->text, name))
        item = sl_build_next(list, item);
    return item != NULL;
}

/* The place in route->rules of the limit that `key` names, or -1. */
static int read_pick(struct sl_build *b, const struct sl_yaml_node *node,
                     const char *key, const struct sl_route *route)
{
    const struct sl_yaml_node *pick = sl_build_scalar(node, key);
    const struct sl_yaml_node *list = sl_yaml_node_get(node, "limits");

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

static int read_quota(struct sl_build *b, const struct sl_yaml_node *node,
                      const struct sl_route *route)
{
    const struct sl_yaml_node *pick = sl_build_scalar(node, "quota");
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

static void read_roles(struct sl_build *b, const struct sl_yaml_node *list,
                       struct sl_route *route)
{
    const struct sl_yaml_node *item;
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
static void warn_of_pass(struct sl_build *b, const struct sl_yaml_node *roles,
                         const struct sl_route *route)
{
    if (roles && route->anonymous == SL_ANONYMOUS_PASS)
        sl_diag_hint(
            sl_report_warning(b->report, SL_AT_KEY(roles),
                              "`anonymous: pass` allows all callers "
                              "without identity. `roles` applies only to "
                              "callers with identity"),
            "anonymous: deny");
}

static void read_feature(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_route *route)
{
    const struct sl_yaml_node *feature = sl_build_scalar(node, "feature");
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

static void read_route(struct sl_build *b, const struct sl_yaml_node *node,
                       struct sl_route *route)
{
    const struct sl_yaml_node *endpoint = sl_build_scalar(node, "endpoint");

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
    read_roles(b, sl_yaml_node_get(node, "roles"), route);
    warn_of_pass(b, sl_yaml_node_get(node, "roles"), route);
    read_rules(b, sl_yaml_node_get(node, "limits"), route);
    route->report = read_pick(b, node, "report", route);
    route->quota = read_quota(b, node, route);
    route->dialects = sl_build_dialects(b, sl_yaml_node_get(node, "headers"),
                                        route->dialects);
    route->reset = (enum sl_reset)sl_build_choice(node, "reset", sl_reset_words,
                                                  2, (int)route->reset);
    sl_build_wait(b, node, route);
    route->failure = sl_build_choice(node, "on_store_failure", sl_failure_words,
                                     3, route->failure);
    route->apart = !sl_build_bool(node, "atomic", true);
    route->count =
        (enum sl_count)sl_build_choice(node, "count", sl_count_words, 3, 0);
    b->policy->counts_each |= route->count != SL_COUNT_ALL;
    sl_build_replaces(b, sl_yaml_node_get(node, "replaces"), route);
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

static void read_routes(struct sl_build *b, const struct sl_yaml_node *node)
{
    unsigned count = node ? node->count : 0, i = 0;
    struct sl_route *list = sl_build_take(b, count + 1, sizeof(*list));

    if (!list || !sl_names_init(&b->box->jobs, count, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (const struct sl_yaml_node *n = node ? node->child : NULL; n;
         n = n->next) {
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
    const struct sl_yaml_node *node = sl_yaml_node_get(b->root, "default");
    struct sl_route *route = &b->policy->fallback;

    preset(b, route);
    route->text = route->endpoint = SL_STR("default");
    if (node)
        route->place = SL_AT(node);
    read_rules(b, node, route);
}

void sl_build_routes(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(b->root, "routes");

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

/* ---- what an endpoint is called that nobody named.
 *
 *     /api/v1/ai/(2 stars)   api-v1-ai
 *     /api/items/:id         api-items-_id
 *     /api/items/id          api-items-id
 *     /api-items/id          api-items-id-2, since there is one by that name
 *
 * A limit `per: endpoint` keeps a state for each name, so two things must not
 * have one name. But GET /items and POST /items are one thing, asked for in
 * two ways.
 */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* Append the word to `out`, what may not be in a name as single '-'. */
static size_t add_word(char out[SL_NAME_MAX], size_t len, struct sl_str word)
{
    bool dash = len > 0;

    for (size_t i = 0; i < word.len && len < SL_NAME_MAX; i++) {
        bool plain = is_plain(word.at[i]);

        if (len == 0 && (!plain || word.at[i] == '_' || word.at[i] == '.'))
            continue; /* names don't begin with these */
        if (plain && dash && len + 1 < SL_NAME_MAX)
            out[len++] = '-';
        if (plain)
            out[len++] = word.at[i];
        dash = !plain && len > 0;
    }
    return len;
}

struct sl_str sl_build_name_of(struct sl_build *b, struct sl_str text)
{
    char name[SL_NAME_MAX];
    size_t len = add_word(name, 0, text);

    return len > 0 ? sl_build_keep(b, (struct sl_str){name, len})
                   : SL_STR("all");
}

/* Append what stands for any one segment: '_' and its name. */
static size_t add_one(char out[SL_NAME_MAX], size_t len, struct sl_str name)
{
    if (len == 0) { /* names don't begin with '_' */
        for (const char *c = "any"; *c; c++)
            out[len++] = *c;
    } else if (len < SL_NAME_MAX) {
        out[len++] = '-';
    }
    if (len < SL_NAME_MAX)
        out[len++] = '_';
    for (size_t i = 0; i < name.len && len < SL_NAME_MAX; i++)
        out[len++] = (char)(is_plain(name.at[i]) ? name.at[i] : '_');
    return len;
}

struct sl_str sl_build_endpoint(struct sl_build *b,
                                const struct sl_pattern *pattern)
{
    char name[SL_NAME_MAX];
    size_t len = 0;

    for (unsigned i = 0; i < pattern->count; i++) {
        const struct sl_segment *segment = &pattern->segments[i];

        if (segment->kind == SL_SEGMENT_WORD)
            len = add_word(name, len, segment->word);
        else if (segment->kind == SL_SEGMENT_ONE)
            len = add_one(name, len, segment->word);
    }
    if (len == 0)
        return pattern->count ? SL_STR("all") : SL_STR("root");
    return sl_build_keep(b, (struct sl_str){name, len});
}

/* ---- names that two have ---- */

static unsigned count_without_rest(const struct sl_pattern *pattern)
{
    unsigned count = pattern->count;

    return count && pattern->segments[count - 1].kind == SL_SEGMENT_REST
               ? count - 1
               : count;
}

/* Is it one thing? GET /items and all below, and POST /items, are. */
static bool is_same(const struct sl_pattern *a, const struct sl_pattern *b)
{
    unsigned count = count_without_rest(a);

    if (count != count_without_rest(b) ||
        (a->count != b->count && a->methods == b->methods))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (a->segments[i].kind != b->segments[i].kind ||
            !sl_str_eq_nocase(a->segments[i].word, b->segments[i].word))
            return false;
    return true;
}

/* The name with a number behind it: one that something has which is the same,
 * or one above *last that is free. Where the name must be cut for that, what is
 * left may be another's too, and the number is that of the route. */
static struct sl_str number(struct sl_build *b, const struct sl_names *names,
                            const struct sl_route *list,
                            const struct sl_route *route, unsigned *last)
{
    const size_t most = SL_NAME_MAX - sizeof("-12345") + 1;
    char text[2 * SL_NAME_MAX];
    struct sl_str name = route->endpoint, ret;

    if (name.len > most) {
        name.len = most;
        *last = route->index;
    }
    for (unsigned i = 2;; i++) {
        int len = snprintf(text, sizeof(text), "%.*s-%u", SL_STR_ARG(name), i);
        int taken;

        ret = (struct sl_str){text, (size_t)len};
        taken = sl_names_find(names, ret);
        if (taken < 0 && i > *last)
            *last = i;
        else if (taken < 0 || !is_same(&list[taken].pattern, &route->pattern))
            continue;
        return sl_build_keep(b, ret);
    }
}

/* names->list[first] and those behind it up to `end` have one name; what was
 * written stays, what was made gives way to those above it. In the square of
 * them, and there are seldom two. */
static void tell_group(struct sl_build *b, const struct sl_names *names,
                       struct sl_route *list, unsigned first, unsigned end)
{
    unsigned last = 1;

    for (unsigned i = first + 1; i < end; i++) {
        struct sl_route *route = &list[names->list[i].index];
        unsigned j = first;

        if (route->names_endpoint)
            continue;
        while (j < i &&
               !is_same(&list[names->list[j].index].pattern, &route->pattern))
            j++;
        route->endpoint = j < i ? list[names->list[j].index].endpoint
                                : number(b, names, list, route, &last);
    }
}

void sl_build_tell_apart(struct sl_build *b, struct sl_route *list,
                         unsigned count)
{
    struct sl_names names;
    unsigned end;

    if (!sl_names_init(&names, count, false, b->scratch)) {
        b->no_memory = true;
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (!list[i].is_job && !list[i].is_descriptor &&
            list[i].endpoint.len > 0)
            sl_names_add(&names, list[i].endpoint, i, list[i].place);
    sl_names_close(&names);
    for (unsigned i = 0; i < names.count; i = end) {
        for (end = i + 1; end < names.count && sl_names_again(&names, end);)
            end++;
        tell_group(b, &names, list, i, end);
    }
}

/* ---- routes for what Envoy tells of a request. */

#define TEXT_MOST 1024

/* ---- one ---- */

static bool read_part(struct sl_build *b, const struct sl_yaml_node *item,
                      struct sl_descriptor_part *ret)
{
    struct sl_diag diag = {0};
    struct sl_str text = sl_build_keep(b, item->text);

    return sl_build_ok(b, item, sl_descriptor_part_read(text, ret, &diag),
                       &diag);
}

static void read_parts(struct sl_build *b, const struct sl_yaml_node *list,
                       struct sl_descriptor_part *parts,
                       struct sl_descriptor *ret)
{
    const struct sl_yaml_node *item = sl_build_first(list);

    ret->domain = sl_build_keep(b, item->text);
    ret->parts = parts;
    for (item = sl_build_next(list, item); item;
         item = sl_build_next(list, item)) {
        if (ret->count > 0 && parts[ret->count - 1].kind == SL_PART_REST) {
            sl_report_error(b->report, SL_AT(item),
                            "** matches all entries that follow. Put it last");
            return;
        }
        ret->count += read_part(b, item, &parts[ret->count]);
    }
}

/* "descriptor messaging message_type=marketing to_number" */
static struct sl_str make_text(struct sl_build *b,
                               const struct sl_yaml_node *list)
{
    char text[TEXT_MOST] = "descriptor";
    size_t len = strlen(text);

    for (const struct sl_yaml_node *item = sl_build_first(list); item;
         item = sl_build_next(list, item)) {
        int n = snprintf(text + len, sizeof(text) - len, " %.*s",
                         SL_STR_ARG(item->text));

        if (n < 0 || (size_t)n >= sizeof(text) - len)
            break;
        len += (size_t)n;
    }
    return sl_build_keep(b, (struct sl_str){text, len});
}

void sl_build_descriptor(struct sl_build *b, const struct sl_yaml_node *list,
                         struct sl_route *route)
{
    unsigned most = sl_build_most(list);
    struct sl_descriptor_part *parts;

    route->is_descriptor = true;
    if (sl_build_refused(list) ||
        !sl_build_short(b, list, SL_DESCRIPTOR_PARTS + 1,
                        "parts of a descriptor"))
        return;
    if (!sl_build_first(list) || sl_build_first(list)->text.len == 0) {
        sl_diag_hint(sl_report_error(b->report, SL_AT(list),
                                     "A descriptor must begin with its domain"),
                     "descriptor: [messaging, to_number]");
        return;
    }
    parts = sl_build_take(b, most + 1, sizeof(*parts));
    if (!parts)
        return;
    read_parts(b, list, parts, &route->descriptor);
    route->text = make_text(b, list);
    route->endpoint =
        sl_build_name_of(b, sl_str_from(route->text, strlen("descriptor ")));
}

void sl_build_replaces(struct sl_build *b, const struct sl_yaml_node *list,
                       struct sl_route *route)
{
    const struct sl_rule **rules;
    const struct sl_yaml_node *item;

    if (!list)
        return;
    rules = sl_build_take(b, sl_build_most(list) + 1, sizeof(struct sl_rule *));
    if (!rules)
        return;
    route->replaces = rules;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item)) {
        int rule = sl_build_find(b, &b->box->rules, item, "limit");

        if (rule >= 0 && !sl_build_twice(b, list, item, "Limit"))
            rules[route->replace_count++] = &b->rules[rule];
    }
}

/* ---- all of them ---- */

void sl_build_index_descriptors(struct sl_build *b, const struct sl_route *list,
                                unsigned count)
{
    unsigned *indices = sl_build_take(b, count + 1, sizeof(*indices));

    if (!indices)
        return;
    b->policy->descriptors = indices;
    for (unsigned i = 0; i < count; i++)
        if (list[i].is_descriptor && list[i].descriptor.domain.len > 0)
            indices[b->policy->descriptor_count++] = i;
}
