/* build_checks.c -- `server`, checks of several parts, warnings, and external
 * values. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy.h"
#include "policy/policy_int.h"

#define LISTENERS  4
#define HOSTS      16  /* names below `server` */
#define HOST_BYTES 253 /* of a name */

/* ---- addresses ---- */

/* Is it a port: 0 (any) to 65535? */
static bool is_port(struct sl_str text)
{
    uint64_t port;

    return sl_parse_number(text, &port, NULL) == 0 && port <= 65535;
}

static bool is_host(struct sl_str text)
{
    struct sl_ip ip;

    if (text.len > 2 && text.at[0] == '[')
        return text.at[text.len - 1] == ']' && sl_ip_parse(text, &ip);
    for (size_t i = 0; i < text.len; i++)
        if (strchr(" \t:/[]@", text.at[i])) /* the NUL too */
            return false;
    return text.len > 0 && text.len <= 253;
}

/* HOST:PORT or unix:PATH. */
static bool is_address(struct sl_str text)
{
    const char *colon = memrchr(text.at, ':', text.len);
    size_t len;

    if (!colon)
        return false;
    len = (size_t)(colon - text.at);
    if (text.len >= 5 && memcmp(text.at, "unix:", 5) == 0)
        return text.len > 5 && text.len - 5 < 108; /* sun_path */
    return is_host((struct sl_str){text.at, len}) &&
           is_port(sl_str_from(text, len + 1));
}

/* For ":8080" and "8080", which many servers accept. */
static void hint_address(struct sl_diag *diag, const struct sl_yaml_node *node)
{
    struct sl_str text = node->text;

    if (node->substituted)
        return;
    if (text.len > 0 && text.at[0] == ':')
        text = sl_str_from(text, 1);
    if (is_port(text))
        sl_diag_hint(diag, "\"127.0.0.1:%.5s\"", text.at);
}

/* Port 0: the system chooses a port. */
static bool any_port(struct sl_str text)
{
    return sl_str_eq(sl_str_from(text, text.len - 2), SL_STR(":0"));
}

static void refuse_same(struct sl_build *b, const struct sl_yaml_node *node)
{
    const struct sl_yaml_node *listen =
        sl_yaml_node_get(sl_yaml_node_get(b->root, "server"), "listen");
    const struct sl_yaml_node *n = listen->child;

    while (n != node &&
           (n->kind != SL_NODE_SCALAR || !sl_str_eq(n->text, node->text)))
        n = n->next;
    if (n != node)
        sl_build_error(b, node,
                       "`%s` has the same address as `%s`. Give each listener "
                       "its own address",
                       node->key.at, n->key.at);
}

void sl_fill_address(struct sl_build *b, const struct sl_schema_key *row,
                     const struct sl_yaml_node *node, void *into)
{
    if (!node)
        return;
    if (!is_address(node->text))
        hint_address(sl_report_error(b->report, node->place,
                                     "Invalid listen address \"%s\". Write "
                                     "HOST:PORT or unix:PATH",
                                     sl_build_shown(node).text),
                     node);
    else if (!any_port(node->text))
        refuse_same(b, node);
    *(struct sl_str *)sl_schema_field(row, into) = sl_build_keep(b, node->text);
}

void sl_fill_listen(struct sl_build *b, const struct sl_schema_key *row,
                    const struct sl_yaml_node *node, void *into)
{
    if (!node)
        return;
    ((struct sl_server_conf *)into)->has_listen = true;
    sl_schema_fill(b, row->below, node, into);
    if (node->count == 0)
        sl_build_error(b, node,
                       "`listen` names no listener, so none would open. Leave "
                       "it out for the default listeners");
}

/* ---- stores ---- */

/* What a URL can begin with. */
struct schemes {
    const char *all; /* as a sentence has them */
    const char *words[9];
    size_t count;
};

static const char *slashes(const char *word)
{
    return strcmp(word, "memory") == 0 || strcmp(word, "sqlite") == 0 ? ""
                                                                      : "//";
}

static bool has_scheme(struct sl_str text, const char *word)
{
    size_t len = strlen(word), rest = strlen(slashes(word));

    return text.len > len + rest && memcmp(text.at, word, len) == 0 &&
           text.at[len] == ':' &&
           memcmp(text.at + len + 1, slashes(word), rest) == 0;
}

void sl_fill_url(struct sl_build *b, const struct sl_schema_key *row,
                 const struct sl_yaml_node *node, void *into)
{
    static const struct schemes stores = {
        "memory:, redis://, rediss://, redis+unix://, redis+cluster://, "
        "redis+sentinel:// or dynamodb://",
        {"memory", "redis", "rediss", "redis+unix", "redis+cluster",
          "rediss+cluster", "redis+sentinel", "rediss+sentinel", "dynamodb"},
        9,
    };
    static const struct schemes usages = {
        "sqlite:, postgres:// or dynamodb://, or be none",
        {"sqlite", "postgres", "dynamodb"},
        3,
    };
    bool is_usage = strcmp(row->name, "usage") == 0;
    const struct schemes *schemes = is_usage ? &usages : &stores;
    struct sl_str scheme;
    const char *meant;
    bool known;

    if (!node)
        return;
    known = is_usage && sl_str_eq(node->text, SL_STR("none"));
    for (size_t i = 0; i < schemes->count; i++)
        known = known || has_scheme(node->text, schemes->words[i]);
    if (known) {
        *(struct sl_str *)sl_schema_field(row, into) =
            sl_build_keep(b, node->text);
        return;
    }
    scheme = (struct sl_str){node->text.at, strcspn(node->text.at, ":")};
    meant = sl_str_nearest(scheme, schemes->words, schemes->count);
    sl_build_error(
        b, node, "`%s` must begin with %s, not with \"%s\"" SL_HINT "%s%s%s",
        row->name, schemes->all,
        node->substituted ? "..." : sl_quote(scheme).text, meant ? meant : "",
        meant ? ":" : "", meant ? slashes(meant) : "");
}

void sl_fill_deadline(struct sl_build *b, const struct sl_schema_key *row,
                      const struct sl_yaml_node *node, void *into)
{
    sl_ns deadline = sl_build_duration(b, node, SL_NS_NONE);

    if (deadline != SL_NS_NONE &&
        (deadline < SL_DEADLINE_LEAST || deadline > SL_DEADLINE_MOST))
        sl_build_error(b, node,
                       "`deadline` must be between 1ms and 10s" SL_HINT
                       "deadline: 20ms");
    sl_schema_set(row, into, deadline == SL_NS_NONE ? 0 : deadline);
}

int sl_age_parse(struct sl_str text, sl_ns *ret, struct sl_diag *diag)
{
    static const char *const words[] = {"months", "month"};
    struct sl_diag why = {0};
    uint64_t count;
    int err = -1;

    for (size_t i = 0; i < SL_LEN(words) && err; i++) {
        size_t len = strlen(words[i]);

        if (text.len > len &&
            memcmp(text.at + text.len - len, words[i], len) == 0 &&
            !sl_parse_number((struct sl_str){text.at, text.len - len}, &count,
                             NULL) &&
            count > 0 && count <= 1200) {
            *ret = (sl_ns)count * 31 * SL_DAY;
            err = 0;
        }
    }
    if (err && !sl_parse_duration(text, ret, &why) && *ret >= SL_DAY)
        err = 0;
    return err ? sl_diag_error(diag, SLUICE_ECONF,
                               "an age is a number of days or months, like "
                               "90d or 25month, not \"%s\"",
                               sl_quote(text).text)
               : 0;
}

/* ---- `metrics` ---- */

#define PREFIX_BYTES 32
#define TENANT_BYTES 64

/* A name of Prometheus begins with it. */
void sl_fill_prefix(struct sl_build *b, const struct sl_schema_key *row,
                    const struct sl_yaml_node *node, void *into)
{
    bool ok;

    if (!node)
        return;
    ok = node->text.len > 0 && node->text.len <= PREFIX_BYTES;
    for (size_t i = 0; ok && i < node->text.len; i++) {
        char c = node->text.at[i];

        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
             (i > 0 && c >= '0' && c <= '9');
    }
    if (!ok)
        sl_build_error(b, node,
                       "`prefix` must be up to %d letters, digits and _, and "
                       "must not begin with a digit" SL_HINT "prefix: fluo",
                       PREFIX_BYTES);
    *(struct sl_str *)sl_schema_field(row, into) = sl_build_keep(b, node->text);
}

static bool read_tenant(struct sl_build *b, const struct sl_yaml_node *item,
                        void *list, unsigned i, const void *ctx)
{
    (void)ctx;
    ((struct sl_str *)list)[i] = sl_build_keep(b, item->text);
    if (item->text.len == 0 || item->text.len > TENANT_BYTES)
        return sl_build_error(b, item,
                              "A tenant is the id of an organisation, of up to "
                              "%d bytes" SL_HINT "tenants: [acme, beta]",
                              TENANT_BYTES);
    return !sl_str_eq(item->text, SL_STR("other")) ||
           sl_build_error(b, item,
                          "\"other\" is the series of all tenants that are "
                          "not on the list. Leave it out");
}

const struct sl_list_form sl_list_tenants = {
    .most = SL_TENANTS,
    .items = "tenants",
    .item = "Tenant",
    .empty = "`tenants` must not be an empty list. Leave `metrics` out to have "
             "no series of tenants",
    .size = sizeof(struct sl_str),
    .read = read_tenant,
    .print = sl_print_text_item,
};

void sl_fill_age(struct sl_build *b, const struct sl_schema_key *row,
                 const struct sl_yaml_node *node, void *into)
{
    struct sl_diag why = {0};
    sl_ns age;

    if (!node)
        return;
    if (sl_age_parse(node->text, &age, &why))
        sl_build_error(b, node, "`%s`: %s" SL_HINT "%s: 25month", row->name,
                       why.sentence, row->name);
    *(struct sl_str *)sl_schema_field(row, into) = sl_build_keep(b, node->text);
}

/* The listeners, as a flag has them: "http,resp". */
void sl_fill_proxied(struct sl_build *b, const struct sl_schema_key *row,
                     const struct sl_yaml_node *node, void *into)
{
    const struct sl_yaml_node *item;
    char text[64];
    size_t len = 0;

    if (!node || !sl_build_short(b, node, LISTENERS, "doors"))
        return;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (!sl_build_twice(b, node, item, "Listener"))
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s",
                                    len > 0 ? "," : "", SL_STR_ARG(item->text));
    *(struct sl_str *)sl_schema_field(row, into) =
        sl_build_keep(b, (struct sl_str){text, len});
}

static bool is_host_name(struct sl_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i], small = (char)(c | 0x20);

        if ((small < 'a' || small > 'z') && (c < '0' || c > '9') && c != '.' &&
            c != '-' && c != '_')
            return false;
    }
    return name.len > 0 && name.len <= HOST_BYTES;
}

/* The names, as a flag has them: "a.example,b.example". */
void sl_fill_hosts(struct sl_build *b, const struct sl_schema_key *row,
                   const struct sl_yaml_node *node, void *into)
{
    const struct sl_yaml_node *item;
    char text[HOSTS * (HOST_BYTES + 1) + 1];
    size_t len = 0;

    if (!node || !sl_build_short(b, node, HOSTS, "names"))
        return;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item)) {
        if (!is_host_name(item->text))
            sl_build_error(b, item,
                           "\"%.64s\" is not the name of a host; write it "
                           "without a scheme and a port" SL_HINT
                           "hosts: [sluice.internal]",
                           item->text.at);
        else if (!sl_build_twice(b, node, item, "Name"))
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s",
                                    len > 0 ? "," : "", SL_STR_ARG(item->text));
    }
    *(struct sl_str *)sl_schema_field(row, into) =
        sl_build_keep(b, (struct sl_str){text, len});
}

/* An empty token, of an unset variable for example, would disable the check. */
void sl_fill_token(struct sl_build *b, const struct sl_schema_key *row,
                   const struct sl_yaml_node *node, void *into)
{
    if (!node)
        return;
    if (node->text.len == 0)
        sl_build_error(b, node, "`%s` must not be empty", row->name);
    *(struct sl_str *)sl_schema_field(row, into) = sl_build_keep(b, node->text);
}

void sl_fill_tls(struct sl_build *b, const struct sl_schema_key *row,
                 const struct sl_yaml_node *node, void *into)
{
    sl_schema_fill(b, row->below, node, into);
    if (node && (!sl_yaml_node_get(node, "certificate") ||
                 !sl_yaml_node_get(node, "key")))
        sl_build_key_error(b, node, "`tls` needs both `certificate` and `key`");
}

/* ---- checks of the whole policy: keys that collide, limits that clients can
 * avoid. */

/* For the names of a rule in a remote store. */
struct use {
    struct sl_str scopes[SL_PER_MAX];
    struct sl_key_use use;
    struct sl_key_context context;
    const struct sl_key_form *form;
};

/* Can a request lack a value of the scope? */
static bool may_be_missing(unsigned scope)
{
    return scope != SL_SCOPE_IP && scope != SL_SCOPE_ANON &&
           scope != SL_SCOPE_ENDPOINT;
}

/* Can the rule count a caller without a value by their fingerprint? */
static bool falls_back(const struct sl_rule *rule)
{
    bool any = false;

    for (unsigned i = 0; i < rule->per_count; i++)
        any |= may_be_missing(rule->per[i]);
    return any && rule->missing == SL_MISSING_ANONYMOUS;
}

static void fill_use(const struct sl_build *b, const struct sl_rule *rule,
                     struct use *use)
{
    for (unsigned i = 0; i < rule->per_count; i++)
        use->scopes[i] = b->policy->identity.scope_names[rule->per[i]];
    use->use.scopes = use->scopes;
    use->use.scope_count = rule->per_count;
    use->use.windows = rule->kind == SL_FIXED;
    use->use.anonymous = falls_back(rule);
    use->context.env = b->policy->env;
    use->context.name = rule->name;
    use->context.use = &use->use;
}

/* A rule of a route, and the route's endpoint. */
struct pair {
    unsigned rule;
    struct sl_str endpoint;
};

static int by_rule_and_endpoint(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    size_t len =
        a->endpoint.len < b->endpoint.len ? a->endpoint.len : b->endpoint.len;
    int order = (a->rule > b->rule) - (a->rule < b->rule);

    if (!order && len > 0)
        order = memcmp(a->endpoint.at, b->endpoint.at, len);
    if (order)
        return order;
    return (a->endpoint.len > b->endpoint.len) -
           (a->endpoint.len < b->endpoint.len);
}

static size_t add_pairs(const struct sl_route *route, struct pair *pairs)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        pairs[i] = (struct pair){route->rules[i]->index, route->endpoint};
    return route->rule_count;
}

/* Count the endpoints of each rule, and keep the name of a single one. */
static void count_endpoints(struct sl_build *b, struct use *uses)
{
    const struct sl_policy *policy = b->policy;
    size_t most = policy->fallback.rule_count, count = 0;
    struct pair *pairs;

    for (unsigned i = 0; i < policy->route_count; i++)
        most += policy->routes[i].rule_count;
    pairs = sl_build_borrow(b, most, sizeof(*pairs));
    if (!pairs)
        return;
    for (unsigned i = 0; i < policy->route_count; i++)
        count += add_pairs(&policy->routes[i], pairs + count);
    count += add_pairs(&policy->fallback, pairs + count);
    qsort(pairs, count, sizeof(*pairs), by_rule_and_endpoint);
    for (size_t i = 0; i < count; i++) {
        struct use *use = &uses[pairs[i].rule];

        if (i > 0 && by_rule_and_endpoint(&pairs[i - 1], &pairs[i]) == 0)
            continue;
        use->context.endpoint =
            use->use.endpoints++ ? SL_STR("") : pairs[i].endpoint;
        b->rules[pairs[i].rule].endpoint = use->context.endpoint;
    }
}

/* The position of a rule's key, for messages. */
static struct sl_source_pos key_place(const struct sl_build *b, unsigned rule)
{
    return b->keys[rule] ? b->keys[rule]->place : b->rules[rule].place;
}

/* The first rule before `j` whose names could collide with those of `j`, or -1.
 * Two default keys never collide. */
static int find_meeting(const struct sl_build *b, const struct use *uses,
                        unsigned j)
{
    for (unsigned i = 0; i < j; i++)
        if (b->sound[i] && (b->keys[i] || b->keys[j]) &&
            sl_key_forms_collide(uses[i].form, uses[j].form))
            return (int)i;
    return -1;
}

/* False without memory. */
static bool find_forms(struct sl_build *b, struct use *uses)
{
    for (unsigned i = 0; i < b->policy->rule_count && !b->no_memory; i++) {
        uses[i].form =
            sl_key_form(&b->rules[i].key, &uses[i].context, b->scratch);
        b->no_memory |= uses[i].form == NULL;
    }
    return !b->no_memory;
}

static void check_keys(struct sl_build *b, struct use *uses)
{
    if (!find_forms(b, uses))
        return;
    for (unsigned j = 0; j < b->policy->rule_count; j++) {
        struct sl_diag diag = {0};
        int i, err;

        if (!b->sound[j])
            continue;
        err = sl_key_template_check(&b->rules[j].key, &uses[j].use, &diag);
        if (err)
            sl_report_diag(b->report, key_place(b, j), &diag);
        i = err ? -1 : find_meeting(b, uses, j);
        if (i >= 0)
            sl_report_error(
                b->report, key_place(b, b->keys[j] ? j : (unsigned)i),
                "Limits \"%s\" and \"%s\" could share state, because their "
                "keys can be equal. Put {name} into both keys" SL_HINT "%s",
                b->rules[i].name.at, b->rules[j].name.at, SL_KEY_DEFAULT);
    }
}

static bool is_per(const struct sl_rule *rule, unsigned scope)
{
    for (unsigned i = 0; i < rule->per_count; i++)
        if (rule->per[i] == scope)
            return true;
    return false;
}

/* Does a caller with a forged header get a new count of this rule? */
static bool is_keyed_by_fingerprint(const struct sl_rule *rule)
{
    return is_per(rule, SL_SCOPE_ANON) || falls_back(rule);
}

/* Does `guard` limit every address, and is it enforced at least like `rule`? */
static bool guards(const struct sl_build *b, const struct sl_rule *guard,
                   const struct sl_rule *rule)
{
    if (guard->per_count != 1 || guard->per[0] != SL_SCOPE_IP ||
        guard->mode > rule->mode)
        return false;
    return !guard->plans ||
           guard->plans[b->policy->plans.anonymous].form != SL_RATE_UNLIMITED;
}

/* With `anonymous: pass` or `deny`, callers are identified, and their address
 * replaces other missing values: only a limit per fingerprint can be avoided.
 */
static bool is_escapable(const struct sl_route *route,
                         const struct sl_rule *rule)
{
    if (rule->mode == SL_MODE_OFF)
        return false;
    if (route->anonymous == SL_ANONYMOUS_LIMIT)
        return is_keyed_by_fingerprint(rule);
    return is_per(rule, SL_SCOPE_ANON);
}

/* A limit that clients can avoid by changing a header needs another limit per
 * address in the route. */
static void check_guard(struct sl_build *b, const struct sl_route *route)
{
    for (unsigned i = 0; i < route->rule_count; i++) {
        const struct sl_rule *rule = route->rules[i];
        bool guarded = !is_escapable(route, rule);

        for (unsigned k = 0; !guarded && k < route->rule_count; k++)
            guarded = guards(b, route->rules[k], rule);
        if (guarded)
            continue;
        sl_report_error(b->report, route->place,
                        "Clients can avoid limit \"%s\": `anonymous` has a "
                        "header, and a client that changes it gets a new "
                        "allowance. Add an enforced limit with `per: ip`",
                        rule->name.at);
        return;
    }
}

static bool has_kind(const struct sl_sources *sources, enum sl_source_kind kind)
{
    for (unsigned i = 0; i < sources->count; i++)
        if (sources->list[i].kind == kind)
            return true;
    return false;
}

/* Not jobs: their attributes come from the service, not from clients. */
static void check_guards(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;

    if (!has_kind(&policy->identity.anonymous, SL_SOURCE_HEADER))
        return;
    for (unsigned i = 0; i < policy->route_count; i++)
        if (!policy->routes[i].is_job)
            check_guard(b, &policy->routes[i]);
    check_guard(b, &policy->fallback);
}

/* A penalty is a part of its own in each take. */
static void check_penalties(struct sl_build *b, const struct sl_route *route)
{
    bool guard = route->guards && route->guards->guard.written;
    unsigned count = 0;

    for (unsigned i = 0; i < route->rule_count; i++)
        count += route->rules[i]->penalty_rule != NULL;
    if (count > 0 && route->rule_count + count + guard > SL_PARTS)
        sl_report_error(b->report, route->place,
                        "%u limits, and the penalties of %u of them, are too "
                        "many for one route. The maximum is %d",
                        route->rule_count, count, SL_PARTS - guard);
}

static void check_store(struct sl_build *b)
{
    struct sl_str store = b->policy->server.store;
    struct sl_source_pos place;
    struct sl_diag diag = {0};

    if (sl_slots_choose(b->policy, b->rules, b->scratch))
        b->no_memory = true;
    else if (sl_slots_wanted(store) && sl_slots_check(b->policy, &place, &diag))
        sl_report_diag(b->report, place, &diag);
    if (sl_store_support_lacks_holds(store) &&
        sl_store_support_check(b->policy, &place, &diag))
        sl_report_diag(b->report, place, &diag);
}

/* ---- `sign_in`: can the usage before sign-in be carried or capped?
 *
 * carry  The usage of the anonymous key and of the user's key must end
 *        together. In a bucket or a sliding window each decays by itself, and
 *        no retry time would be right.
 * cap    Limits per address count all callers of the address. Plans without a
 *        number there use that of anonymous callers.
 */

/* Does the rule count callers without identity by a replaced value? */
static bool stands_in(const struct sl_rule *rule)
{
    for (unsigned i = 0; i < rule->per_count; i++)
        if (rule->per[i] != SL_SCOPE_IP && rule->per[i] != SL_SCOPE_ANON &&
            rule->per[i] != SL_SCOPE_ENDPOINT)
            return rule->missing == SL_MISSING_ANONYMOUS &&
                   rule->mode != SL_MODE_OFF;
    return false;
}

static bool ends_at_once(const struct sl_rule *rule)
{
    return rule->kind == SL_FIXED || rule->kind == SL_QUOTA ||
           rule->kind == SL_KINDS; /* already reported */
}

static void refuse_kind(struct sl_build *b, const struct sl_route *route,
                        const struct sl_rule *rule)
{
    sl_report_error(b->report, route->place,
                    "`sign_in: carry` cannot carry the usage of limit \"%s\", "
                    "because the usage of a %s decays gradually. Make it a "
                    "fixed-window or a quota" SL_HINT "sign_in: cap",
                    rule->name.at, sl_kind_name(rule->kind));
}

/* Also marks the rules that usage is carried to. */
static void check_carry(struct sl_build *b, const struct sl_route *route)
{
    unsigned carried = 0;

    if (!has_kind(&b->policy->identity.anonymous, SL_SOURCE_IP))
        sl_report_error(b->report, route->place,
                        "`sign_in: carry` could carry the usage of other "
                        "clients that send the same headers. Put ip into "
                        "identity: anonymous");
    for (unsigned i = 0; i < route->rule_count; i++) {
        const struct sl_rule *rule = route->rules[i];

        if (!stands_in(rule))
            continue;
        carried++;
        b->rules[rule->index].carried = true;
        if (!ends_at_once(rule))
            refuse_kind(b, route, rule);
    }
    if (carried == 0 || route->anonymous != SL_ANONYMOUS_LIMIT)
        sl_report_error(b->report, route->place,
                        "`sign_in: carry` has nothing to carry. No limit of "
                        "the route counts callers without identity in place "
                        "of users");
    else if (route->rule_count + carried > SL_PARTS)
        sl_report_error(b->report, route->place,
                        "%u limits, and the usage carried to %u of them, are "
                        "too many for one route. The maximum is %d",
                        route->rule_count, carried, SL_PARTS);
}

static bool caps(const struct sl_build *b, const struct sl_rule *rule)
{
    return rule->per_count == 1 && rule->per[0] == SL_SCOPE_IP &&
           rule->mode != SL_MODE_OFF &&
           (!rule->plans ||
            rule->plans[b->policy->plans.anonymous].form != SL_RATE_UNLIMITED);
}

static void check_cap(struct sl_build *b, const struct sl_route *route)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        if (caps(b, route->rules[i]))
            return;
    sl_report_error(b->report, route->place,
                    "`sign_in: cap` needs a limit with `per: ip` that has a "
                    "number for callers without identity");
}

static void check_sign_in(struct sl_build *b)
{
    for (unsigned i = 0; i < b->policy->route_count; i++) {
        const struct sl_route *route = &b->policy->routes[i];

        if (route->sign_in == SL_SIGN_IN_CARRY)
            check_carry(b, route);
        else if (route->sign_in == SL_SIGN_IN_CAP)
            check_cap(b, route);
    }
}

/* ---- warnings: valid, but probably not intended. */

/* Which rules a route, or `default`, takes from; and their credits. */
static bool *find_used(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;
    bool *used = sl_build_borrow(b, policy->rule_count + 1, sizeof(*used));

    if (!used)
        return NULL;
    for (unsigned i = 0; i < policy->fallback.rule_count; i++)
        used[policy->fallback.rules[i]->index] = true;
    for (unsigned i = 0; i < policy->route_count; i++)
        for (unsigned k = 0; k < policy->routes[i].rule_count; k++)
            used[policy->routes[i].rules[k]->index] = true;
    for (unsigned i = 0; i < policy->rule_count; i++)
        if (policy->rules[i].credits)
            used[policy->rules[i].credits->index] = true;
    if (policy->webhooks.quota_rule)
        used[policy->webhooks.quota_rule->index] = true;
    return used;
}

/* Without routes, limits are taken by name. A limit without numbers only
 * counts. */
static void warn_of_idle(struct sl_build *b, const struct sl_rule *rule)
{
    if (rule->limited && (sl_yaml_node_get(b->root, "routes") ||
                          sl_yaml_node_get(b->root, "default")))
        sl_report_warning(b->report, rule->place, "No route uses limit \"%s\"",
                          rule->name.at);
}

/* The end of a request does not return units of a level. */
static void warn_of_levels(struct sl_build *b, const struct sl_rule *rule)
{
    if (rule->mode != SL_MODE_OFF && rule->kind == SL_LEVEL &&
        rule->charge == SL_CHARGE_ON_CHECK)
        sl_report_warning(b->report, rule->place,
                          "Units taken from level \"%s\" stay taken until "
                          "their hold is released or the level is reset",
                          rule->name.at);
}

static void warn_of_sharing(struct sl_build *b,
                            const struct sl_yaml_node *limit,
                            const struct sl_rule *rule)
{
    if (!sl_yaml_node_get(limit, "per"))
        sl_report_warning(
            b->report, rule->place,
            "Limit \"%s\" has no `per`, so all callers share one allowance. If "
            "this is intended, write it explicitly" SL_HINT "per: []",
            rule->name.at);
}

static bool begins_with(struct sl_str text, const char *with)
{
    size_t len = strlen(with);

    return text.len >= len && memcmp(text.at, with, len) == 0;
}

/* Are quotas in the usage database alone, and not in the remote store? */
static bool has_quotas_in_database(const struct sl_server_conf *server)
{
    return (begins_with(server->store, "redis") ||
            begins_with(server->store, "dynamodb:")) &&
           begins_with(server->usage, "postgres:");
}

static void warn_of_lease(struct sl_build *b, const struct sl_rule *rule)
{
    if (rule->kind == SL_QUOTA && rule->lease > 0 && !rule->carried &&
        has_quotas_in_database(&b->policy->server))
        sl_report_warning(b->report, rule->place,
                          "`lease` of quota \"%s\" has no effect: the usage "
                          "database gives out its units. Remove it",
                          rule->name.at);
}

static void warn_of_limits(struct sl_build *b)
{
    const struct sl_yaml_node *limits = sl_yaml_node_get(b->root, "limits");
    const struct sl_yaml_node *node = limits ? limits->child : NULL;
    const bool *used = find_used(b);

    for (unsigned i = 0; used && i < b->policy->rule_count && node; i++) {
        warn_of_sharing(b, node, &b->rules[i]);
        warn_of_lease(b, &b->rules[i]);
        if (used[i])
            warn_of_levels(b, &b->rules[i]);
        else
            warn_of_idle(b, &b->rules[i]);
        node = node->next;
    }
}

/* `report` or `quota`. Not if the whole policy is in shadow mode. */
static void warn_of_pick(struct sl_build *b, const struct sl_yaml_node *node,
                         const char *key, const struct sl_rule *rule)
{
    const struct sl_yaml_node *pick = sl_build_get(node, key);

    if (pick && rule->mode != SL_MODE_ENFORCE &&
        b->policy->mode == SL_MODE_ENFORCE)
        sl_report_warning(b->report, pick->place,
                          "`%s` is ignored. Limit \"%s\" has mode %s, and "
                          "only enforced limits are shown",
                          key, rule->name.at,
                          rule->mode == SL_MODE_OFF ? "off" : "shadow");
}

static void warn_of_routes(struct sl_build *b)
{
    const struct sl_yaml_node *routes = sl_yaml_node_get(b->root, "routes");
    const struct sl_yaml_node *node = routes ? routes->child : NULL;

    for (unsigned i = 0; i < b->policy->route_count && node; i++) {
        const struct sl_route *route = &b->policy->routes[i];

        if (!sl_yaml_node_get(node, "limits"))
            sl_report_warning(
                b->report, route->place,
                "The route has no `limits`, so its requests are not limited. "
                "If this is intended, write it explicitly" SL_HINT
                "limits: []");
        if (route->report >= 0)
            warn_of_pick(b, node, "report", route->rules[route->report]);
        if (route->quota >= 0)
            warn_of_pick(b, node, "quota", route->rules[route->quota]);
        node = node->next;
    }
}

static bool takes_all(const struct sl_route *route)
{
    return !route->is_job && route->pattern.methods == SL_METHOD_ANY &&
           route->pattern.count == 1 &&
           route->pattern.segments[0].kind == SL_SEGMENT_REST;
}

static void warn_of_default(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;
    struct sl_str some =
        policy->rule_count > 0 ? policy->rules[0].name : SL_STR("");

    if (policy->fallback.rule_count > 0 || sl_yaml_node_get(b->root, "default"))
        return; /* `default: []` is meant */
    for (unsigned i = 0; i < policy->route_count; i++)
        if (takes_all(&policy->routes[i]))
            return;
    sl_report_warning(b->report, policy->fallback.place,
                      "Requests that match no route are not limited. Write "
                      "`default: []` if that is meant, or name limits" SL_HINT
                      "default: [%.*s]",
                      SL_STR_ARG(some));
}

static void warn(struct sl_build *b)
{
    warn_of_default(b);
    warn_of_routes(b);
    warn_of_limits(b);
}

/* A request would pay twice. */
static void refuse_both(struct sl_build *b, const struct sl_route *route)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        for (unsigned k = 0; k < route->rule_count; k++)
            if (route->rules[i]->credits == route->rules[k])
                sl_report_error(b->report, route->place,
                                "Limit \"%.64s\" pays for limit \"%.64s\" by "
                                "`credits`, so a route must not list both",
                                route->rules[k]->name.at,
                                route->rules[i]->name.at);
}

static void check_credits(struct sl_build *b)
{
    for (unsigned i = 0; i < b->policy->route_count; i++)
        refuse_both(b, &b->policy->routes[i]);
    refuse_both(b, &b->policy->fallback);
}

void sl_build_checks(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;
    struct use *uses =
        sl_build_borrow(b, policy->rule_count + 1, sizeof(*uses));

    if (!uses)
        return;
    for (unsigned i = 0; i < policy->rule_count; i++)
        fill_use(b, &policy->rules[i], &uses[i]);
    count_endpoints(b, uses);
    if (b->no_memory)
        return;
    check_keys(b, uses);
    check_credits(b);
    check_guards(b);
    check_sign_in(b);
    for (unsigned i = 0; i < b->policy->route_count; i++)
        check_penalties(b, &b->policy->routes[i]);
    check_penalties(b, &b->policy->fallback);
    check_store(b);
    /* In a file with errors something may be idle because it is misspelt. */
    if (b->report->errors == 0)
        warn(b);
}

/* ---- external values: from ENV and FILE.
 *
 * They can be secrets, so the print shows what was written. They are listed
 * with their paths, sorted:
 *
 *     limits:
 *       api:
 *         deny: { message: "Ask ${ENV:WHOM}." }
 *
 * becomes "\nlimits\napi\ndeny\nmessage". No key has a newline.
 *
 * Bodies are left out: build.c prints them when it reads them.
 */

/* A walk through the nodes. */
struct walk {
    struct sl_build *b;
    struct sl_external_value *list; /* NULL: only count */
    unsigned count;
    struct sl_buf path;
};

static int by_path(const void *left, const void *right)
{
    const struct sl_external_value *a = left, *b = right;
    size_t len = a->path.len < b->path.len ? a->path.len : b->path.len;
    int order = len ? memcmp(a->path.at, b->path.at, len) : 0;

    if (order)
        return order;
    return (a->path.len > b->path.len) - (a->path.len < b->path.len);
}

static void put_down(struct walk *w, const struct sl_yaml_node *node)
{
    if (w->list)
        w->list[w->count] = (struct sl_external_value){
            .path = sl_build_keep(w->b, sl_buf_str(&w->path)),
            .text = sl_build_keep(w->b, node->text),
            .written = sl_build_keep(w->b, node->written),
        };
    w->count++;
}

static bool is_body(const struct sl_yaml_node *child, unsigned depth)
{
    return depth == 2 && sl_str_eq(child->key, SL_STR("body"));
}

/* Counting needs no paths. */
static void add_step(struct walk *w, const struct sl_yaml_node *parent,
                     const struct sl_yaml_node *child, unsigned i)
{
    int err = 0;

    if (w->list && parent->kind == SL_NODE_MAP)
        err = sl_buf_addf(&w->path, "\n%s", child->key.at);
    else if (w->list)
        err = sl_buf_addf(&w->path, "\n%u", i);
    if (err)
        w->b->no_memory = true;
}

static void walk_node(struct walk *w, const struct sl_yaml_node *node,
                      unsigned depth)
{
    size_t len = w->path.len;
    unsigned i = 0;

    if (node->kind == SL_NODE_SCALAR && node->substituted)
        put_down(w, node);
    for (const struct sl_yaml_node *c = node->child; c; c = c->next, i++) {
        if (is_body(c, depth))
            continue;
        add_step(w, node, c, i);
        walk_node(w, c, depth + 1); /* SL_YAML_DEPTH deep at most */
        w->path.len = len;
    }
}

void sl_build_outside(struct sl_build *b)
{
    struct walk w = {.b = b};

    if (b->report->errors > 0)
        return;
    sl_buf_init(&w.path, SL_YAML_BYTES + SL_NAME_MAX, b->scratch->alloc);
    walk_node(&w, b->root, 0);
    if (w.count > 0)
        w.list = sl_build_take(b, w.count, sizeof(*w.list));
    w.count = 0;
    if (w.list) {
        walk_node(&w, b->root, 0);
        qsort(w.list, w.count, sizeof(*w.list), by_path);
    }
    b->policy->outside = w.list;
    b->policy->outside_count = w.count;
    sl_buf_done(&w.path);
}

/* ---- values of a posted policy.
 *
 * A client that may send a policy may not read the daemon's environment and
 * files through it. What the active policy has from there, the posted one may
 * have under the same key: a secret stays a secret. Other variables have their
 * defaults.
 */

bool sl_policy_refers(const struct sl_policy *policy, const char *kind,
                      struct sl_str name)
{
    char text[SL_SUBST_NAME + 8];
    int len = snprintf(text, sizeof(text), "${%s:%.*s", kind, SL_STR_ARG(name));

    if (!policy || len < 0 || (size_t)len >= sizeof(text))
        return false;
    for (unsigned i = 0; i < policy->outside_count; i++) {
        struct sl_str rest = policy->outside[i].written;
        const char *at;

        while (rest.len > 0 &&
               (at = memmem(rest.at, rest.len, text, (size_t)len))) {
            rest = sl_str_from(rest, (size_t)(at - rest.at) + (size_t)len);
            if (rest.len > 0 && (rest.at[0] == '}' || rest.at[0] == ':'))
                return true;
        }
    }
    return false;
}

/* The last key of a path; the numbers of list items are none. */
static struct sl_str key_of(struct sl_str path)
{
    const char *line;
    struct sl_str key;

    do {
        line = path.len > 0 ? memrchr(path.at, '\n', path.len) : NULL;
        if (!line)
            return path;
        key = sl_str_from(path, (size_t)(line - path.at) + 1);
        path.len = (size_t)(line - path.at);
    } while (key.len > 0 && key.at[0] >= '0' && key.at[0] <= '9');
    return key;
}

static bool is_inherited(const struct sl_policy *active, struct sl_str key,
                         struct sl_str written)
{
    for (unsigned i = 0; active && i < active->outside_count; i++)
        if (sl_str_eq(active->outside[i].written, written) &&
            sl_str_eq(key_of(active->outside[i].path), key))
            return true;
    return false;
}

/* Features are switched by the environment, also in posted policies. */
static bool is_feature(struct sl_str written)
{
    return sl_str_begins(written, SL_STR("${ENV:FEATURE_")) &&
           written.at[written.len - 1] == '}' &&
           !memchr(written.at + 1, '$', written.len - 1);
}

/* Is it "${ENV:NAME:-text}" with the value `text`, as if NAME were not set? */
static bool is_default(const struct sl_yaml_node *node)
{
    struct sl_str rest = node->written;
    const char *at;

    if (!sl_str_begins(rest, SL_STR("${ENV:")) ||
        rest.at[rest.len - 1] != '}' ||
        !(at = memmem(rest.at, rest.len, ":-", 2)) ||
        memchr(rest.at + 1, '$', rest.len - 1))
        return false;
    rest = sl_str_from(rest, (size_t)(at - rest.at) + 2);
    return sl_str_eq((struct sl_str){rest.at, rest.len - 1}, node->text);
}

static void check_posted(struct sl_build *b, struct sl_yaml_node *node,
                         struct sl_str key)
{
    if (node->kind == SL_NODE_SCALAR && node->substituted &&
        !is_feature(node->written) && !is_default(node) &&
        !is_inherited(b->options->active, key, node->written)) {
        sl_build_error(b, node,
                       "A policy sent with POST cannot read the environment "
                       "and files, but for values that the active policy has "
                       "for the same key. Put it into the policy file and "
                       "reload that file");
        sl_yaml_node_refuse(node);
    }
    for (struct sl_yaml_node *c = node->child; c; c = c->next)
        check_posted(b, c, node->kind == SL_NODE_MAP ? c->key : key);
}

void sl_build_posted(struct sl_build *b, struct sl_yaml_node *root)
{
    check_posted(b, root, SL_STR(""));
}
