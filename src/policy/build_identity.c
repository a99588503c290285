/* build_identity.c -- `identity` and `plans`: the sources of user,
 * organisation, plan and role, trusted proxies, tokens, and the plans. */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"

#define SOURCES_MAX 16 /* of one attribute */
#define TRUSTED_MAX 1024

/* In the order of enum sl_scope. */
static const char *const scope_names[SL_SCOPE_NAMED] = {
    [SL_SCOPE_USER] = "user",
    [SL_SCOPE_ORG] = "org",
    [SL_SCOPE_IP] = "ip",
    [SL_SCOPE_ANON] = "anon",
    [SL_SCOPE_ENDPOINT] = "endpoint",
    [SL_SCOPE_DESCRIPTOR] = "descriptor",
};

/* ---- sources ---- */

static bool begins(struct sl_str text, const char *prefix)
{
    struct sl_str p = sl_str_c(prefix);

    return text.len >= p.len && memcmp(text.at, p.at, p.len) == 0;
}

/* A character of a field name of HTTP (RFC 9110, token). */
static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Many servers read X_User as X-User, so that a client could send the name that
 * a proxy overwrites. Listeners ignore such headers. */
static void refuse_underscore(struct sl_build *b,
                              const struct sl_yaml_node *item,
                              struct sl_str name)
{
    char meant[257];

    snprintf(meant, sizeof(meant), "%.*s", SL_STR_ARG(name));
    for (char *c = meant; *c; c++)
        *c = (char)(*c == '_' ? '-' : *c);
    sl_diag_hint(
        sl_report_error(b->report, SL_AT(item),
                        "\"%.64s\" is ignored, because many servers read "
                        "an underscore in a header as a hyphen",
                        sl_build_shown(item).text),
        "header.%.64s", meant);
}

static void read_header(struct sl_build *b, const struct sl_yaml_node *item,
                        struct sl_source *ret)
{
    struct sl_str name = sl_str_from(item->text, strlen("header."));
    char *bytes = sl_build_take(b, name.len + 1, 1);

    if (!bytes)
        return;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        bytes[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        if (!is_token(c))
            name.len = 0; /* refused below */
    }
    if (name.len == 0 || name.len > 256)
        sl_report_error(b->report, SL_AT(item),
                        "Invalid header \"%.64s\". Write it like "
                        "header.x-user-id",
                        sl_build_shown(item).text);
    else if (memchr(bytes, '_', name.len))
        refuse_underscore(b, item, (struct sl_str){bytes, name.len});
    *ret = (struct sl_source){
        SL_SOURCE_HEADER, {bytes, name.len}
    };
}

/* A cookie's name counts in exactly its spelling (RFC 6265). */
static void read_cookie(struct sl_build *b, const struct sl_yaml_node *item,
                        struct sl_source *ret)
{
    struct sl_str name = sl_str_from(item->text, strlen("cookie."));
    bool good = name.len > 0 && name.len <= 256;

    for (size_t i = 0; i < name.len; i++)
        good = good && is_token(name.at[i]);
    if (!good)
        sl_report_error(b->report, SL_AT(item),
                        "Invalid cookie \"%.64s\". Write it like "
                        "cookie.session",
                        sl_build_shown(item).text);
    else
        *ret = (struct sl_source){SL_SOURCE_COOKIE, sl_build_keep(b, name)};
}

/* Some providers use URLs as names of claims: every visible byte is valid. */
static void read_claim(struct sl_build *b, const struct sl_yaml_node *item,
                       struct sl_source *ret)
{
    struct sl_str path = sl_str_from(item->text, strlen("jwt."));
    bool good = path.len > 0 && path.len <= 256;

    for (size_t i = 0; i < path.len; i++)
        good = good && (unsigned char)path.at[i] > ' ' && path.at[i] != 127;
    if (!good)
        sl_report_error(b->report, SL_AT(item),
                        "Invalid claim \"%.64s\". Write it like jwt.sub or "
                        "jwt.realm.role",
                        sl_build_shown(item).text);
    else
        *ret = (struct sl_source){SL_SOURCE_JWT, sl_build_keep(b, path)};
}

/* header.NAME for "heade.NAME" and "NAME". */
static void hint_source(struct sl_diag *diag, const struct sl_yaml_node *item)
{
    static const char *const kinds[] = {"header", "ip", "cookie", "jwt",
                                        "subject"};
    size_t len = strcspn(item->text.at, ".");
    struct sl_str word = {item->text.at, len};
    const char *meant = sl_str_nearest(word, kinds, SL_LEN(kinds));

    if (item->substituted || item->text.len > SL_NAME_MAX)
        return;
    if (meant && len < item->text.len)
        sl_diag_hint(diag, "%s%s", meant, item->text.at + len);
    else if (!meant && len == item->text.len)
        sl_diag_hint(diag, "header.%s", item->text.at);
}

static void refuse_source(struct sl_build *b, const struct sl_yaml_node *item,
                          enum sl_sources_of of)
{
    static const char *const kinds[] = {
        [SL_OF_NAMES] = "header.NAME, cookie.NAME or jwt.CLAIM",
        [SL_OF_ANONYMOUS] = "header.NAME or ip",
        [SL_OF_TOKENS] = "header.NAME or cookie.NAME",
        [SL_OF_PLAN] = "header.NAME, cookie.NAME, jwt.CLAIM or subject.plan",
        [SL_OF_ROLE] = "header.NAME, cookie.NAME, jwt.CLAIM or subject.role",
        [SL_OF_PRECHECKS] = "header.NAME",
    };

    hint_source(sl_report_error(b->report, SL_AT(item),
                                "Unknown source \"%s\". Valid sources: %s",
                                sl_build_shown(item).text, kinds[of]),
                item);
}

/* Reports a source that is not valid here. Always true. */
static bool refuse_here(struct sl_build *b, const struct sl_yaml_node *item,
                        const char *why)
{
    sl_report_error(b->report, SL_AT(item), "%s", why);
    return true;
}

/* Reports a known source that is not valid here. */
static bool is_misplaced(struct sl_build *b, const struct sl_yaml_node *item,
                         enum sl_sources_of of)
{
    struct sl_str text = item->text;

    if (sl_str_eq(text, SL_STR("ip")) && of != SL_OF_ANONYMOUS)
        return refuse_here(
            b, item,
            of == SL_OF_TOKENS
                ? "A token cannot come from an address. Write header.NAME or "
                  "cookie.NAME"
                : "`ip` is a source only of `anonymous`. To limit by address, "
                  "write per: ip in the limit");
    if (begins(text, "cookie.") && of == SL_OF_ANONYMOUS)
        return refuse_here(b, item,
                           "A cookie cannot identify anonymous callers, "
                           "because they choose its value. Leave it out");
    if (begins(text, "jwt.") && of == SL_OF_ANONYMOUS)
        return refuse_here(
            b, item,
            "A caller with a verified token is not anonymous. Leave the claim "
            "out, or make it a source of `user`");
    if (begins(text, "jwt.") && of == SL_OF_TOKENS)
        return refuse_here(b, item,
                           "A token comes from a header or a cookie, not from "
                           "a claim. Write header.NAME or cookie.NAME");
    return false;
}

/* The registry has plans and roles, each for one attribute. */
static void read_subject(struct sl_build *b, const struct sl_yaml_node *item,
                         enum sl_sources_of of, struct sl_source *ret)
{
    struct sl_str name = sl_str_from(item->text, strlen("subject."));

    if (of == SL_OF_PLAN && sl_str_eq(name, SL_STR("plan")))
        *ret = (struct sl_source){SL_SOURCE_SUBJECT, SL_STR("plan")};
    else if (of == SL_OF_ROLE && (sl_str_eq(name, SL_STR("role")) ||
                                  sl_str_eq(name, SL_STR("roles"))))
        *ret = (struct sl_source){SL_SOURCE_SUBJECT, SL_STR("role")};
    else if (of == SL_OF_PLAN || of == SL_OF_ROLE)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(item),
                            "\"%.64s\" is not a source here. The registry "
                            "has only plans and roles",
                            sl_build_shown(item).text),
            "subject.%s", of == SL_OF_PLAN ? "plan" : "role");
    else
        sl_report_error(b->report, SL_AT(item),
                        "The registry has no names. Write subject.plan under "
                        "`plan`, or subject.role under `role`");
}

static bool read_source(struct sl_build *b, const struct sl_yaml_node *item,
                        enum sl_sources_of of, struct sl_source *ret)
{
    if (of == SL_OF_PRECHECKS && !begins(item->text, "header.")) {
        refuse_source(b, item, of);
        return false;
    }
    if (is_misplaced(b, item, of))
        return false;
    if (sl_str_eq(item->text, SL_STR("ip")))
        *ret = (struct sl_source){SL_SOURCE_IP, SL_STR("ip")};
    else if (begins(item->text, "header."))
        read_header(b, item, ret);
    else if (begins(item->text, "cookie."))
        read_cookie(b, item, ret);
    else if (begins(item->text, "jwt."))
        read_claim(b, item, ret);
    else if (begins(item->text, "subject."))
        read_subject(b, item, of, ret);
    else
        refuse_source(b, item, of);
    return ret->name.len > 0;
}

/* Header names ignore case, so the second one would never be used. */
static bool is_again(struct sl_build *b, const struct sl_yaml_node *item,
                     const struct sl_sources *sources)
{
    const struct sl_source *last = &sources->list[sources->count];

    for (const struct sl_source *s = sources->list; s < last; s++)
        if (s->kind == last->kind && sl_str_eq(s->name, last->name)) {
            sl_report_error(b->report, SL_AT(item),
                            "Source \"%.64s\" is listed twice, because header "
                            "names ignore case. Remove one",
                            sl_build_shown(item).text);
            return true;
        }
    return false;
}

void sl_build_sources(struct sl_build *b, const struct sl_yaml_node *node,
                      enum sl_sources_of of, struct sl_sources *ret)
{
    const struct sl_yaml_node *item;
    struct sl_source *list;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, SOURCES_MAX, "sources"))
        return;
    list = sl_build_take(b, SOURCES_MAX, sizeof(*list));
    if (!list)
        return;
    ret->list = list;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (!sl_build_twice(b, node, item, "Source") &&
            read_source(b, item, of, &list[ret->count]) &&
            !is_again(b, item, ret))
            ret->count++;
}

/* ---- scopes ---- */

static void add_scope(struct sl_build *b, struct sl_str name,
                      struct sl_source_pos place)
{
    struct sl_identity *identity = &b->policy->identity;

    identity->scope_names[identity->scope_count] = name;
    sl_names_add(&b->box->scopes, name, identity->scope_count++, place);
}

/* A scope that the policy names. */
static void read_named(struct sl_build *b, const struct sl_yaml_node *node)
{
    struct sl_identity *identity = &b->policy->identity;

    for (int i = SL_SCOPE_IP; i < SL_SCOPE_NAMED; i++)
        if (sl_str_eq(node->key, sl_str_c(scope_names[i]))) {
            sl_report_error(b->report, SL_AT_KEY(node),
                            "`%s` is a built-in scope and cannot have sources",
                            scope_names[i]);
            return;
        }
    if (!sl_build_key_name(b, "a scope", node))
        return;
    if (identity->scope_count == SL_SCOPES) {
        sl_report_error(b->report, SL_AT_KEY(node),
                        "Too many scopes. The maximum is %d besides user and "
                        "org",
                        SL_SCOPES - SL_SCOPE_NAMED);
        return;
    }
    sl_build_sources(b, node, SL_OF_NAMES,
                     &identity->scopes[identity->scope_count]);
    add_scope(b, sl_build_keep(b, node->key), SL_AT_KEY(node));
}

static void read_scopes(struct sl_build *b, const struct sl_yaml_node *node)
{
    const struct sl_yaml_node *n;

    if (!sl_names_init(&b->box->scopes, SL_SCOPES, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (int i = 0; i < SL_SCOPE_NAMED; i++)
        add_scope(b, sl_str_c(scope_names[i]), (struct sl_source_pos){0, 0});
    for (n = node && node->kind == SL_NODE_MAP ? node->child : NULL; n;
         n = n->next)
        if (!sl_schema_find(SL_LEVEL_IDENTITY, n->key))
            read_named(b, n);
    sl_names_close(&b->box->scopes);
}

/* ---- callers without a name ---- */

void sl_fill_anonymous(struct sl_build *b, const struct sl_schema_key *row,
                       const struct sl_yaml_node *map, void *into)
{
    static const struct sl_source ip = {
        SL_SOURCE_IP, {"ip", 2}
    };
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name);
    struct sl_identity *identity = into;

    sl_build_sources(b, node, SL_OF_ANONYMOUS, &identity->anonymous);
    if (node && node->kind == SL_NODE_LIST && node->count == 0)
        sl_diag_hint(sl_report_error(b->report, SL_AT(node),
                                     "Without a source, all anonymous callers "
                                     "would count as one"),
                     "anonymous: [ip]");
    if (identity->anonymous.count == 0)
        identity->anonymous = (struct sl_sources){&ip, 1};
    identity->anonymous_is_ip =
        identity->anonymous.count == 1 &&
        identity->anonymous.list[0].kind == SL_SOURCE_IP;
}

/* ---- proxies ---- */

/* For "10.1.2.3/8": 10.0.0.0/8. */
static void hint_net(struct sl_diag *diag, struct sl_str text)
{
    const char *slash = memchr(text.at, '/', text.len);
    char print[SL_IP_TEXT];
    struct sl_ip ip;
    uint64_t bits;
    size_t len;
    unsigned most;

    if (!slash)
        return;
    len = (size_t)(slash - text.at);
    if (!sl_ip_parse((struct sl_str){text.at, len}, &ip) ||
        sl_parse_number(sl_str_from(text, len + 1), &bits, NULL))
        return;
    most = sl_ip_is_v4(&ip) ? 32 : 128;
    if (bits == 0 || bits > most)
        return;
    for (unsigned i = (unsigned)bits + 128 - most; i < 128; i++)
        ip.bytes[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
    sl_ip_print(&ip, print);
    sl_diag_hint(diag, "%s/%u", print, (unsigned)bits);
}

/* Does it have every address of IPv4, or of IPv6? */
static bool has_all(const struct sl_net *net)
{
    static const struct sl_ip v4 = {
        {[10] = 0xff, [11] = 0xff}
    };

    return net->bits == 0 || (net->bits <= 96 && sl_net_has(net, &v4));
}

static bool read_net(struct sl_build *b, const struct sl_yaml_node *item,
                     struct sl_net *ret)
{
    if (!sl_net_parse(item->text, ret)) {
        hint_net(sl_report_error(b->report, SL_AT(item),
                                 "\"%.64s\" is not an address or a network. "
                                 "Write it like 10.0.0.0/8 or ::1",
                                 sl_build_shown(item).text),
                 item->text);
        return false;
    }
    if (has_all(ret)) {
        sl_report_error(b->report, SL_AT(item),
                        "\"%.64s\" would trust every client. Write the "
                        "networks of your own proxies",
                        sl_build_shown(item).text);
        return false;
    }
    return true;
}

void sl_fill_trusted(struct sl_build *b, const struct sl_schema_key *row,
                     const struct sl_yaml_node *map, void *into)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name), *item;
    struct sl_identity *identity = into;
    struct sl_net *list;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, TRUSTED_MAX, "networks"))
        return;
    list = sl_build_take(b, sl_build_most(node) + 1, sizeof(*list));
    if (!list)
        return;
    identity->trusted = list;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (read_net(b, item, &list[identity->trusted_count]))
            identity->trusted_count++;
}

void sl_build_identity(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(b->root, "identity");

    read_scopes(b, node);
    sl_schema_fill(b, SL_LEVEL_IDENTITY, node, &b->policy->identity);
}

/* ---- `plans`: names, aliases, and the plans of callers without one. */

/* The keys of `plans` that are not plans, and refused ones. */
static bool is_setting(const struct sl_yaml_node *node)
{
    return sl_build_refused(node) || sl_schema_find(SL_LEVEL_PLANS, node->key);
}

static bool has_holes(const struct sl_yaml_node *plans)
{
    for (const struct sl_yaml_node *n = plans ? plans->child : NULL; n;
         n = n->next)
        if (sl_build_refused(n))
            return true;
    return false;
}

static unsigned count_plans(const struct sl_yaml_node *plans)
{
    unsigned count = 0;

    for (const struct sl_yaml_node *n = plans ? plans->child : NULL; n;
         n = n->next)
        count += !is_setting(n);
    return count;
}

/* A policy without plans has one. */
static void make_only_plan(struct sl_build *b)
{
    struct sl_plan *plan = sl_build_take(b, 1, sizeof(*plan));

    if (!plan || !sl_names_init(&b->box->plans, 1, true, b->arena)) {
        b->no_memory = true;
        return;
    }
    plan->name = SL_STR("default");
    plan->weight = 1;
    sl_names_add(&b->box->plans, plan->name, 0, (struct sl_source_pos){0, 0});
    b->policy->plans.list = plan;
    b->policy->plans.count = 1;
}

static void read_aliases(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_plan *plan, unsigned index)
{
    const struct sl_yaml_node *list = sl_yaml_node_get(node, "aliases"), *item;
    struct sl_str *aliases =
        sl_build_take(b, sl_build_most(list) + 1, sizeof(*aliases));

    plan->aliases = aliases;
    if (!aliases)
        return;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item)) {
        if (item->text.len == 0) {
            sl_report_error(b->report, SL_AT(item),
                            "An alias of a plan must not be empty");
            continue;
        }
        aliases[plan->alias_count] = sl_build_keep(b, item->text);
        sl_names_add(&b->box->plans, aliases[plan->alias_count++], index,
                     SL_AT(item));
    }
}

static void read_plan(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_plan *plan, unsigned index)
{
    (void)sl_build_key_name(b, "a plan", node);
    plan->name = sl_build_keep(b, node->key);
    sl_schema_fill(b, SL_LEVEL_PLAN, node, plan);
    sl_names_add(&b->box->plans, plan->name, index, SL_AT_KEY(node));
    read_aliases(b, node, plan, index);
}

/* Names and aliases of all plans. */
static unsigned count_names(const struct sl_yaml_node *plans)
{
    unsigned count = 0;

    for (const struct sl_yaml_node *n = plans->child; n; n = n->next)
        if (!is_setting(n))
            count += 1 + sl_build_most(sl_yaml_node_get(n, "aliases"));
    return count;
}

static void refuse_same_names(struct sl_build *b)
{
    const struct sl_names *names = &b->box->plans;

    for (unsigned i = 1; i < names->count; i++) {
        const struct sl_name *name = &names->list[i], *before = name - 1;

        if (!sl_names_again(names, i))
            continue;
        if (name->index == before->index)
            sl_report_warning(b->report, name->place,
                              "The plan already has the name \"%.64s\". Plan "
                              "names ignore case",
                              name->name.at);
        else
            sl_report_error(b->report, name->place,
                            "Duplicate plan or alias \"%.64s\". The first one "
                            "is on line %u. Plan names ignore case",
                            name->name.at, before->place.line);
    }
}

static void read_plans(struct sl_build *b, const struct sl_yaml_node *node,
                       unsigned count)
{
    struct sl_plan *list = sl_build_take(b, count, sizeof(*list));
    unsigned i = 0;

    if (!list ||
        !sl_names_init(&b->box->plans, count_names(node), true, b->arena)) {
        b->no_memory = true;
        return;
    }
    b->has_plans = true;
    b->policy->plans.list = list;
    b->policy->plans.count = count;
    for (const struct sl_yaml_node *n = node->child; n; n = n->next)
        if (!is_setting(n)) {
            read_plan(b, n, &list[i], i);
            i++;
        }
    sl_names_close(&b->box->plans);
    refuse_same_names(b);
}

/* The plan that `key` names; `preset` if it names none. */
static unsigned named_plan(struct sl_build *b, const struct sl_yaml_node *plans,
                           const char *key, unsigned preset)
{
    const struct sl_yaml_node *node = sl_build_scalar(plans, key);
    int index;

    if (!node)
        return preset;
    index = sl_names_find(&b->box->plans, node->text);
    if (index < 0 && !b->has_plans && !b->box->plans.unsure)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(node),
                            "`%s` names the plan \"%s\", but the policy "
                            "has no plans",
                            key, sl_build_shown(node).text),
            "%s: {}", sl_build_shown(node).text);
    else if (index < 0)
        (void)sl_build_find(b, &b->box->plans, node, "plan");
    return index < 0 ? preset : (unsigned)index;
}

/* The default plan if none is written: `free`, else `default`. */
static unsigned guess_default(struct sl_build *b,
                              const struct sl_yaml_node *plans)
{
    const struct sl_plans *p = &b->policy->plans;
    int index = sl_names_find(&b->box->plans, SL_STR("free"));

    if (index < 0)
        index = sl_names_find(&b->box->plans, SL_STR("default"));
    if (index >= 0)
        return (unsigned)index;
    if (b->has_plans && !sl_yaml_node_get(plans, "default") &&
        !b->box->plans.unsure)
        sl_diag_hint(sl_report_error(b->report, SL_AT_KEY(plans),
                                     "`plans` needs a `default`, the plan of "
                                     "callers without a known plan"),
                     "default: %.64s", p->list[0].name.at);
    return 0;
}

void sl_build_plans(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(b->root, "plans");
    struct sl_plans *plans = &b->policy->plans;
    unsigned count = count_plans(node);
    bool too_many = count > SL_PLANS_MAX ||
                    (count && count_names(node) > SL_PLAN_NAMES_MAX);

    if (too_many) {
        sl_report_error(b->report, SL_AT_KEY(node),
                        "Too many plans. The maximum is %d plans, and %d "
                        "names with all aliases",
                        SL_PLANS_MAX, SL_PLAN_NAMES_MAX);
        count = 0;
    }
    if (count > 0)
        read_plans(b, node, count);
    else
        make_only_plan(b);
    if (b->no_memory)
        return;
    b->box->plans.unsure =
        too_many || sl_build_refused(node) || has_holes(node);
    plans->fallback = named_plan(b, node, "default", guess_default(b, node));
    plans->anonymous = named_plan(b, node, "anonymous", plans->fallback);
    sl_schema_fill(b, SL_LEVEL_PLANS, node, plans);
}

/* ---- `identity: subjects`: the query for plans in other tables, as far as it
 * can be checked without a server. */

#define QUERY_MOST 8192

#define EXAMPLE "query: \"SELECT plan, expires FROM accounts WHERE id = $1\""

static bool has(struct sl_str text, const char *what)
{
    return text.len > 0 && memmem(text.at, text.len, what, strlen(what));
}

static void check_query(struct sl_build *b, const struct sl_yaml_node *query)
{
    if (query->text.len == 0)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(query),
                            "`query` must not be empty. Leave `subjects` "
                            "out, or write a query"),
            EXAMPLE);
    else if (query->text.len > QUERY_MOST)
        sl_report_error(b->report, SL_AT(query),
                        "The query is longer than %d bytes. Create a view in "
                        "the database and query the view",
                        QUERY_MOST);
    else if (!has(query->text, "$1"))
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(query),
                            "The query does not contain $1. Write $1 for "
                            "the id, without quotes"),
            EXAMPLE);
}

/* Flags and variables can override `usage`, so a policy without it is not
 * reported. */
static void check_usage(struct sl_build *b, const struct sl_yaml_node *query)
{
    const struct sl_yaml_node *usage =
        sl_build_scalar(sl_yaml_node_get(b->root, "server"), "usage");
    static const char scheme[] = "postgres:";
    size_t len = strlen(scheme);

    if (!usage || usage->substituted ||
        (usage->text.len > len && memcmp(usage->text.at, scheme, len) == 0))
        return;
    sl_diag_hint(
        sl_report_error(b->report, SL_AT_KEY(query),
                        "The query runs in the PostgreSQL of `usage`, but "
                        "`usage` is \"%.64s\"",
                        sl_build_shown(usage).text),
        "usage: \"postgres://sluice@db/app\"");
}

void sl_fill_subjects(struct sl_build *b, const struct sl_schema_key *row,
                      const struct sl_yaml_node *map, void *into)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name);
    const struct sl_yaml_node *query = sl_build_scalar(node, "query");

    if (!query)
        return; /* reported by the schema, if `subjects` is there */
    check_query(b, query);
    check_usage(b, query);
    sl_schema_fill(b, row->below, node, sl_schema_field(row, into));
}

/* ---- `identity: jwt`: which tokens are valid, and their keys.
 *
 * What could let a forged token in is refused here: a secret beside public
 * keys (a public key could serve as a secret), a short secret, and keys fetched
 * without encryption.
 */

#define AUDIENCES_MAX 16
#define LEEWAY_MAX    (300 * SL_S)
#define SECRET_MIN    32 /* bytes: as many as HS256 makes of it (RFC 7518) */

/* HS256, HS384 and HS512 are the last of the words. */
#define HMAC (7u << (SL_ALGORITHMS - 3))

/* ---- algorithms ---- */

/* The schema has let no other word through. */
static unsigned bit_of(struct sl_str word)
{
    for (unsigned i = 0; i < SL_ALGORITHMS; i++)
        if (sl_str_eq(word, sl_str_c(sl_algorithm_words[i])))
            return 1u << i;
    return 0;
}

void sl_fill_algorithms(struct sl_build *b, const struct sl_schema_key *row,
                        const struct sl_yaml_node *map, void *into)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name), *item;
    unsigned bits = 0;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, SL_ALGORITHMS, "algorithms"))
        return;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (!sl_build_twice(b, node, item, "Algorithm"))
            bits |= bit_of(item->text);
    if ((bits & HMAC) && (bits & ~HMAC))
        sl_report_error(b->report, SL_AT(node),
                        "HS256, HS384 and HS512 use a secret, and the other "
                        "algorithms use public keys. A list must not mix "
                        "them, because a public key could serve as a secret");
    ((struct sl_jwt *)into)->algorithms = bits;
}

/* ---- where the keys are ---- */

/* The host of a URL behind its scheme: "[::1]" or "id.example". */
static struct sl_str host_of(struct sl_str rest)
{
    size_t len = 0;

    while (len < rest.len && !strchr("/?#", rest.at[len])) /* the NUL too */
        len++;
    rest.len = len;
    if (rest.len > 0 && rest.at[0] == '[') {
        const char *end = memchr(rest.at, ']', rest.len);

        rest.len = end ? (size_t)(end - rest.at) + 1 : 0;
    } else {
        const char *colon = memchr(rest.at, ':', rest.len);

        rest.len = colon ? (size_t)(colon - rest.at) : rest.len;
    }
    return rest;
}

static bool is_loopback(struct sl_str host)
{
    static const struct sl_ip one = {{[15] = 1}};
    struct sl_ip ip;

    if (sl_str_eq_nocase(host, SL_STR("localhost")))
        return true;
    if (!sl_ip_parse(host, &ip))
        return false;
    return sl_ip_is_v4(&ip) ? ip.bytes[12] == 127
                            : memcmp(&ip, &one, sizeof(ip)) == 0;
}

static bool is_visible(struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] <= ' ' || text.at[i] == 127)
            return false;
    return true;
}

/* Why it is no URL of keys, or NULL. */
static const char *url_error(struct sl_str text)
{
    bool plain = begins(text, "http://");
    struct sl_str rest = sl_str_from(text, plain ? 7 : 8);
    struct sl_str host = host_of(rest);

    if (host.len == 0 || !is_visible(text))
        return "has no host. Write it like "
               "https://id.example/.well-known/jwks.json";
    if (plain && !is_loopback(host))
        return "would fetch keys without encryption, and an attacker could "
               "replace them. Write https:// (http:// is allowed only on "
               "loopback)";
    return NULL;
}

static const char *jwks_error(struct sl_str text)
{
    if (begins(text, "file:"))
        return text.len > strlen("file:")
                   ? NULL
                   : "has no file name. Write it like file:./jwks.json";
    if (begins(text, "http://") || begins(text, "https://"))
        return url_error(text);
    return "is not a file or a URL. Write it like file:./jwks.json or "
           "https://id.example/.well-known/jwks.json";
}

static void check_jwks(struct sl_build *b, const struct sl_yaml_node *node,
                       const struct sl_jwt *jwt)
{
    const char *error = jwks_error(node->text);
    struct sl_diag *diag;

    if (memmem(node->text.at, node->text.len, "://", 3) &&
        memchr(node->text.at, '@', node->text.len)) {
        sl_report_error(b->report, SL_AT(node),
                        "The URL must not contain a user name or a password. "
                        "Keys are public");
        return; /* and is not quoted */
    }
    if (!error) {
        if ((jwt->algorithms & HMAC) && !begins(node->text, "file:"))
            sl_report_error(b->report, SL_AT(node),
                            "HS256, HS384 and HS512 use a secret, which must "
                            "not be fetched from a URL. Write `secret`, or a "
                            "file");
        return;
    }
    diag = sl_report_error(b->report, SL_AT(node), "\"%.128s\" %s",
                           sl_build_shown(node).text, error);
    if (!node->substituted && begins(node->text, "/"))
        sl_diag_hint(diag, "jwks: \"file:%.128s\"", node->text.at);
}

static void check_secret(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_jwt *jwt)
{
    if (node->text.len < SECRET_MIN)
        sl_report_error(b->report, SL_AT(node),
                        "A secret of %zu bytes is too short. The minimum is "
                        "%d. `openssl rand -base64 32` prints a good secret",
                        node->text.len, SECRET_MIN);
    if (jwt->algorithms & ~HMAC)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(node),
                            "`secret` is valid only for HS256, HS384 and "
                            "HS512. The other algorithms need `jwks`"),
            "algorithms: [HS256]");
    if (jwt->algorithms == 0)
        jwt->algorithms = HMAC;
}

static void check_token_keys(struct sl_build *b,
                             const struct sl_yaml_node *node,
                             struct sl_jwt *jwt)
{
    const struct sl_yaml_node *jwks = sl_build_scalar(node, "jwks");
    const struct sl_yaml_node *secret = sl_build_scalar(node, "secret");

    if (jwks)
        check_jwks(b, jwks, jwt);
    if (jwks && secret)
        sl_report_error(b->report, SL_AT_KEY(secret),
                        "`secret` and `jwks` exclude each other, because a "
                        "public key could serve as a secret. Remove one");
    else if (secret)
        check_secret(b, secret, jwt);
    else if (!jwks && !sl_build_refused(sl_yaml_node_get(node, "jwks")) &&
             !sl_build_refused(sl_yaml_node_get(node, "secret")))
        sl_diag_hint(sl_report_error(b->report, SL_AT_KEY(node),
                                     "`jwt` needs keys to verify tokens. Write "
                                     "`jwks` or `secret`"),
                     "jwks: \"file:./jwks.json\"");
}

/* ---- the claims ---- */

void sl_fill_audiences(struct sl_build *b, const struct sl_schema_key *row,
                       const struct sl_yaml_node *map, void *into)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name), *item;
    struct sl_jwt *jwt = into;
    struct sl_str *list;

    if (!node || node->kind == SL_NODE_EMPTY ||
        !sl_build_short(b, node, AUDIENCES_MAX, "audiences"))
        return;
    if (node->kind == SL_NODE_LIST && node->count == 0)
        sl_report_error(b->report, SL_AT(node),
                        "`audience` must not be an empty list. Leave it out "
                        "to accept tokens for any audience");
    list = sl_build_take(b, AUDIENCES_MAX, sizeof(*list));
    if (!list)
        return;
    jwt->audiences = list;
    for (item = sl_build_first(node); item; item = sl_build_next(node, item))
        if (item->text.len == 0)
            sl_report_error(b->report, SL_AT(item),
                            "An `audience` must not be empty. Leave it out to "
                            "accept tokens for any audience");
        else if (!sl_build_twice(b, node, item, "Audience"))
            list[jwt->audience_count++] = sl_build_keep(b, item->text);
}

static void check_claims(struct sl_build *b, const struct sl_yaml_node *node,
                         const struct sl_jwt *jwt)
{
    const struct sl_yaml_node *issuer = sl_build_scalar(node, "issuer");
    const struct sl_yaml_node *leeway = sl_build_scalar(node, "leeway");

    if (issuer && issuer->text.len == 0)
        sl_report_error(b->report, SL_AT(issuer),
                        "`issuer` must not be empty. Leave it out to accept "
                        "tokens of any issuer");
    if (leeway && jwt->leeway > LEEWAY_MAX)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(leeway),
                            "A leeway of \"%.64s\" would accept tokens "
                            "long after they expired. The maximum is 5m",
                            sl_build_shown(leeway).text),
            "leeway: 30s");
}

/* ---- all of it ---- */

static bool has_claim(const struct sl_sources *sources)
{
    for (unsigned i = 0; i < sources->count; i++)
        if (sources->list[i].kind == SL_SOURCE_JWT)
            return true;
    return false;
}

/* The item of `list` that is a claim, or NULL. */
static const struct sl_yaml_node *find_claim(const struct sl_yaml_node *list)
{
    const struct sl_yaml_node *item;

    for (item = sl_build_first(list); item; item = sl_build_next(list, item))
        if (item->kind == SL_NODE_SCALAR && begins(item->text, "jwt."))
            return item;
    return NULL;
}

/* Without keys no token is verified, so that its claims are never used. */
static void refuse_claims(struct sl_build *b,
                          const struct sl_yaml_node *identity)
{
    const struct sl_yaml_node *n = identity ? identity->child : NULL;

    for (; n; n = n->next) {
        const struct sl_yaml_node *claim = find_claim(n);

        if (!claim || sl_str_eq(n->key, SL_STR("anonymous")))
            continue;
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(claim),
                            "\"%.64s\" is a claim, and tokens cannot be "
                            "verified without keys. Add `jwt` to "
                            "`identity`",
                            sl_build_shown(claim).text),
            "jwt: { algorithms: [RS256], jwks: \"file:./jwks.json\" }");
        return; /* once is enough */
    }
}

static void warn_of_idle(struct sl_build *b, const struct sl_yaml_node *node)
{
    const struct sl_identity *identity = &b->policy->identity;
    bool used = has_claim(&identity->plan) || has_claim(&identity->role);

    for (unsigned i = 0; i < identity->scope_count; i++)
        used = used || has_claim(&identity->scopes[i]);
    if (!used)
        sl_diag_hint(
            sl_report_warning(b->report, SL_AT_KEY(node),
                              "Tokens are verified, but no source uses "
                              "their claims"),
            "user: [jwt.sub]");
}

void sl_fill_token_sources(struct sl_build *b, const struct sl_schema_key *row,
                           const struct sl_yaml_node *map, void *into)
{
    static const struct sl_source authorization = {
        SL_SOURCE_HEADER, {"authorization", 13}
    };
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name);
    struct sl_jwt *jwt = into;

    sl_build_sources(b, node, SL_OF_TOKENS, &jwt->from);
    if (node && node->kind == SL_NODE_LIST && node->count == 0)
        sl_diag_hint(
            sl_report_error(b->report, SL_AT(node),
                            "`from` must not be empty. Without a source, "
                            "no token is found"),
            "from: [header.authorization]");
    if (jwt->from.count == 0)
        jwt->from = (struct sl_sources){&authorization, 1};
}

void sl_fill_jwt(struct sl_build *b, const struct sl_schema_key *row,
                 const struct sl_yaml_node *map, void *into)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, row->name);
    struct sl_jwt *jwt = sl_schema_field(row, into);

    if (!node) {
        refuse_claims(b, map);
        return;
    }
    if (node->kind != SL_NODE_MAP)
        return; /* reported by the schema */
    jwt->written = true;
    sl_schema_fill(b, row->below, node, jwt);
    check_token_keys(b, node, jwt);
    check_claims(b, node, jwt);
    warn_of_idle(b, node);
}
