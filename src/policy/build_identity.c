/* build_identity.c -- `identity` and `plans`: the sources of user,
 * organisation, plan and role, trusted proxies, tokens, and the plans. */
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"

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
    sl_build_error(b, item,
                   "\"%.64s\" is ignored, because many servers read an "
                   "underscore in a header as a hyphen" SL_HINT "header.%.64s",
                   sl_build_shown(item).text, meant);
}

static bool read_header(struct sl_build *b, const struct sl_yaml_node *item,
                        struct sl_str name, struct sl_source *ret)
{
    char *bytes = sl_build_take(b, name.len + 1, 1);
    bool good = name.len > 0 && name.len <= 256;

    if (!bytes)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        bytes[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        good = good && is_token(c);
    }
    *ret = (struct sl_source){
        SL_SOURCE_HEADER, {bytes, name.len}
    };
    if (good && memchr(bytes, '_', name.len))
        refuse_underscore(b, item, ret->name);
    return good ||
           sl_build_error(
               b, item,
               "Invalid header \"%.64s\". Write it like header.x-user-id",
               sl_build_shown(item).text);
}

/* A cookie's name counts in exactly its spelling (RFC 6265). Some providers use
 * URLs as names of claims: every visible byte is valid. */
static bool read_word(struct sl_build *b, const struct sl_yaml_node *item,
                      struct sl_str name, enum sl_source_kind kind,
                      struct sl_source *ret)
{
    bool claim = kind == SL_SOURCE_JWT;
    bool good = name.len > 0 && name.len <= 256;

    for (size_t i = 0; i < name.len; i++)
        good = good &&
               (claim ? (unsigned char)name.at[i] > ' ' && name.at[i] != 127
                      : is_token(name.at[i]));
    *ret = (struct sl_source){kind, sl_build_keep(b, name)};
    return good || sl_build_error(
                       b, item, "Invalid %s \"%.64s\". Write it like %s",
                       claim ? "claim" : "cookie", sl_build_shown(item).text,
                       claim ? "jwt.sub or jwt.realm.role" : "cookie.session");
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

static bool refuse_source(struct sl_build *b, const struct sl_yaml_node *item,
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

    hint_source(sl_report_error(b->report, item->place,
                                "Unknown source \"%s\". Valid sources: %s",
                                sl_build_shown(item).text, kinds[of]),
                item);
    return false;
}

/* Why a known source is not valid here, or NULL. */
static const char *misplaced(struct sl_str text, enum sl_sources_of of)
{
    if (sl_str_eq(text, SL_STR("ip")) && of == SL_OF_TOKENS)
        return "A token cannot come from an address. Write header.NAME or "
               "cookie.NAME";
    if (sl_str_eq(text, SL_STR("ip")) && of != SL_OF_ANONYMOUS)
        return "`ip` is a source only of `anonymous`. To limit by address, "
               "write per: ip in the limit";
    if (begins(text, "cookie.") && of == SL_OF_ANONYMOUS)
        return "A cookie cannot identify anonymous callers, because they "
               "choose its value. Leave it out";
    if (begins(text, "jwt.") && of == SL_OF_ANONYMOUS)
        return "A caller with a verified token is not anonymous. Leave the "
               "claim out, or make it a source of `user`";
    if (begins(text, "jwt.") && of == SL_OF_TOKENS)
        return "A token comes from a header or a cookie, not from a claim. "
               "Write header.NAME or cookie.NAME";
    return NULL;
}

/* The registry has plans and roles, each for one attribute. */
static bool read_subject(struct sl_build *b, const struct sl_yaml_node *item,
                         enum sl_sources_of of, struct sl_source *ret)
{
    const char *word = of == SL_OF_PLAN ? "plan" : "role";
    struct sl_str name = sl_str_from(item->text, strlen("subject."));

    if (of != SL_OF_PLAN && of != SL_OF_ROLE)
        return sl_build_error(b, item,
                              "The registry has no names. Write subject.plan "
                              "under `plan`, or subject.role under `role`");
    *ret = (struct sl_source){SL_SOURCE_SUBJECT, sl_str_c(word)};
    return sl_str_eq(name, sl_str_c(word)) ||
           (of == SL_OF_ROLE && sl_str_eq(name, SL_STR("roles"))) ||
           sl_build_error(b, item,
                          "\"%.64s\" is not a source here. The registry has "
                          "only plans and roles" SL_HINT "subject.%s",
                          sl_build_shown(item).text, word);
}

static bool read_source(struct sl_build *b, const struct sl_yaml_node *item,
                        enum sl_sources_of of, struct sl_source *ret)
{
    struct sl_str text = item->text;
    const char *why = misplaced(text, of);

    if (of == SL_OF_PRECHECKS && !begins(text, "header."))
        return refuse_source(b, item, of);
    if (why)
        return sl_build_error(b, item, "%s", why);
    if (begins(text, "header."))
        return read_header(b, item, sl_str_from(text, 7), ret);
    if (begins(text, "cookie."))
        return read_word(b, item, sl_str_from(text, 7), SL_SOURCE_COOKIE, ret);
    if (begins(text, "jwt."))
        return read_word(b, item, sl_str_from(text, 4), SL_SOURCE_JWT, ret);
    if (begins(text, "subject."))
        return read_subject(b, item, of, ret);
    *ret = (struct sl_source){SL_SOURCE_IP, SL_STR("ip")};
    return sl_str_eq(text, SL_STR("ip")) || refuse_source(b, item, of);
}

struct sl_str sl_build_header(struct sl_build *b,
                              const struct sl_yaml_node *item)
{
    struct sl_source source;

    return read_source(b, item, SL_OF_PRECHECKS, &source) ? source.name
                                                          : SL_STR("");
}

/* Header names ignore case, so the second one would never be used. */
static bool read_list_source(struct sl_build *b,
                             const struct sl_yaml_node *item, void *list,
                             unsigned i, const void *ctx)
{
    const struct sl_schema_key *row = ctx;
    struct sl_source *sources = list;

    if (!read_source(b, item, (enum sl_sources_of)row->of, &sources[i]))
        return false;
    for (unsigned k = 0; k < i; k++)
        if (sources[k].kind == sources[i].kind &&
            sl_str_eq(sources[k].name, sources[i].name))
            return sl_build_error(b, item,
                                  "Source \"%.64s\" is listed twice, because "
                                  "header names ignore case. Remove one",
                                  sl_build_shown(item).text);
    return true;
}

static struct sl_str print_source(const void *list, unsigned i, char *room)
{
    static const char *const kinds[] = {
        [SL_SOURCE_HEADER] = "header.",   [SL_SOURCE_IP] = "",
        [SL_SOURCE_JWT] = "jwt.",         [SL_SOURCE_COOKIE] = "cookie.",
        [SL_SOURCE_SUBJECT] = "subject.",
    };
    const struct sl_source *source = (const struct sl_source *)list + i;
    int len = snprintf(room, SL_PRINT_ITEM, "%s%.*s", kinds[source->kind],
                       SL_STR_ARG(source->name));

    return (struct sl_str){room, (size_t)len};
}

const struct sl_list_form sl_list_sources = {
    .most = 16,
    .items = "sources",
    .item = "Source",
    .size = sizeof(struct sl_source),
    .read = read_list_source,
    .print = print_source,
};

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
    struct sl_sources *sources = &identity->scopes[identity->scope_count];

    for (int i = SL_SCOPE_IP; i < SL_SCOPE_NAMED; i++)
        if (sl_str_eq(node->key, sl_str_c(scope_names[i]))) {
            sl_build_key_error(
                b, node, "`%s` is a built-in scope and cannot have sources",
                scope_names[i]);
            return;
        }
    if (!sl_build_key_name(b, "a scope", node))
        return;
    if (identity->scope_count == SL_SCOPES) {
        sl_build_key_error(
            b, node, "Too many scopes. The maximum is %d besides user and org",
            SL_SCOPES - SL_SCOPE_NAMED);
        return;
    }
    sources->list = sl_build_list(
        b, node->kind == SL_NODE_EMPTY ? NULL : node, &sl_list_sources,
        sl_schema_any(SL_LEVEL_IDENTITY), &sources->count);
    add_scope(b, sl_build_keep(b, node->key), node->key_place);
}

static void read_scopes(struct sl_build *b, const struct sl_yaml_node *node)
{
    if (!sl_names_init(&b->box->scopes, b, b->arena, SL_SCOPES, false))
        return;
    for (int i = 0; i < SL_SCOPE_NAMED; i++)
        add_scope(b, sl_str_c(scope_names[i]), (struct sl_source_pos){0, 0});
    for (const struct sl_yaml_node *n = node ? node->child : NULL; n;
         n = n->next)
        if (!sl_schema_find(SL_LEVEL_IDENTITY, n->key))
            read_named(b, n);
    sl_names_close(&b->box->scopes);
}

/* `anonymous`, or `from` of `jwt`: without a value, it is [preset]. */
static void fill_sources(struct sl_build *b, const struct sl_schema_key *row,
                         const struct sl_yaml_node *node,
                         const struct sl_source *preset, struct sl_sources *ret)
{
    ret->list = sl_build_list(b, node, &sl_list_sources, row, &ret->count);
    if (ret->count == 0)
        *ret = (struct sl_sources){preset, 1};
}

static bool is_empty_list(const struct sl_yaml_node *node)
{
    return node && node->kind == SL_NODE_LIST && node->count == 0;
}

void sl_fill_anonymous(struct sl_build *b, const struct sl_schema_key *row,
                       const struct sl_yaml_node *node, void *into)
{
    static const struct sl_source ip = {
        SL_SOURCE_IP, {"ip", 2}
    };
    struct sl_identity *identity = into;

    fill_sources(b, row, node, &ip, &identity->anonymous);
    if (is_empty_list(node))
        sl_build_error(b, node,
                       "Without a source, all anonymous callers would count as "
                       "one" SL_HINT "anonymous: [ip]");
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
                     void *list, unsigned i, const void *ctx)
{
    (void)ctx;
    if (sl_net_parse(item->text, (struct sl_net *)list + i))
        return true;
    hint_net(sl_report_error(b->report, item->place,
                             "\"%.64s\" is not an address or a network. "
                             "Write it like 10.0.0.0/8 or ::1",
                             sl_build_shown(item).text),
             item->text);
    return false;
}

static bool read_proxy(struct sl_build *b, const struct sl_yaml_node *item,
                       void *list, unsigned i, const void *ctx)
{
    return read_net(b, item, list, i, ctx) &&
           (!has_all((struct sl_net *)list + i) ||
            sl_build_error(b, item,
                           "\"%.64s\" would trust every client. Write the "
                           "networks of your own proxies",
                           sl_build_shown(item).text));
}

/* IPv4 networks are counted from the 96th bit on. */
static struct sl_str print_net(const void *list, unsigned i, char *room)
{
    const struct sl_net *net = (const struct sl_net *)list + i;
    unsigned before = sl_ip_is_v4(&net->ip) ? 96 : 0;
    size_t len = sl_ip_print(&net->ip, room);

    if (net->bits < 128)
        len += (size_t)snprintf(room + len, SL_PRINT_ITEM - len, "/%u",
                                net->bits - before);
    return (struct sl_str){room, len};
}

const struct sl_list_form sl_list_trusted = {
    .most = 1024,
    .items = "networks",
    .size = sizeof(struct sl_net),
    .read = read_proxy,
    .print = print_net,
};

const struct sl_list_form sl_list_nets = {
    .most = 256,
    .items = "networks",
    .size = sizeof(struct sl_net),
    .read = read_net,
    .print = print_net,
};

void sl_build_identity(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_build_get(b->root, "identity");

    read_scopes(b, node);
    sl_schema_fill(b, SL_LEVEL_IDENTITY, node, &b->policy->identity);
}

/* ---- `plans`: names, aliases, and the plans of callers without one. */

/* Is the key of `plans` a plan? Not if it is a setting or was refused. */
static bool is_plan(const struct sl_yaml_node *node)
{
    return !sl_build_refused(node) &&
           !sl_schema_find(SL_LEVEL_PLANS, node->key);
}

/* The number of plans, their names and aliases, and refused nodes. */
struct tally {
    unsigned plans, names, holes;
};

static struct tally count_plans(const struct sl_yaml_node *plans)
{
    struct tally tally = {0};

    for (const struct sl_yaml_node *n = plans ? plans->child : NULL; n;
         n = n->next) {
        tally.holes += sl_build_refused(n);
        if (!is_plan(n))
            continue;
        tally.plans++;
        tally.names += 1 + sl_build_most(sl_yaml_node_get(n, "aliases"));
    }
    return tally;
}

/* A policy without plans has one. */
static void make_only_plan(struct sl_build *b)
{
    struct sl_plan *plan = sl_build_take(b, 1, sizeof(*plan));

    if (!sl_names_init(&b->box->plans, b, b->arena, 1, true))
        return;
    plan->name = SL_STR("default");
    plan->weight = 1;
    sl_names_add(&b->box->plans, plan->name, 0, (struct sl_source_pos){0, 0});
    b->policy->plans.list = plan;
    b->policy->plans.count = 1;
}

/* `ctx` is the index of the plan. */
static bool read_alias(struct sl_build *b, const struct sl_yaml_node *item,
                       void *list, unsigned i, const void *ctx)
{
    struct sl_str *aliases = list;

    if (item->text.len == 0)
        return sl_build_error(b, item, "An alias of a plan must not be empty");
    aliases[i] = sl_build_keep(b, item->text);
    sl_names_add(&b->box->plans, aliases[i], *(const unsigned *)ctx,
                 item->place);
    return true;
}

const struct sl_list_form sl_list_aliases = {
    .most = SL_PLAN_NAMES_MAX,
    .items = "aliases",
    .size = sizeof(struct sl_str),
    .read = read_alias,
    .print = sl_print_text_item,
};

static void read_plan(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_plan *plan, unsigned index)
{
    (void)sl_build_key_name(b, "a plan", node);
    plan->name = sl_build_keep(b, node->key);
    sl_schema_fill(b, SL_LEVEL_PLAN, node, plan);
    sl_names_add(&b->box->plans, plan->name, index, node->key_place);
    plan->aliases = sl_build_list(b, sl_build_get(node, "aliases"),
                                  &sl_list_aliases, &index, &plan->alias_count);
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
                       const struct tally *tally)
{
    struct sl_plan *list = sl_build_take(b, tally->plans, sizeof(*list));
    unsigned i = 0;

    if (!sl_names_init(&b->box->plans, b, b->arena, tally->names, true))
        return;
    b->has_plans = true;
    b->policy->plans.list = list;
    b->policy->plans.count = tally->plans;
    for (const struct sl_yaml_node *n = node->child; n; n = n->next)
        if (is_plan(n)) {
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
    const struct sl_yaml_node *node = sl_build_get(plans, key);
    int index;

    if (!node)
        return preset;
    index = sl_names_find(&b->box->plans, node->text);
    if (index < 0 && !b->has_plans && !b->box->plans.unsure)
        sl_build_error(
            b, node,
            "`%s` names the plan \"%s\", but the policy has no plans" SL_HINT
            "%s: {}",
            key, sl_build_shown(node).text, sl_build_shown(node).text);
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
        sl_build_key_error(b, plans,
                           "`plans` needs a `default`, the plan of callers "
                           "without a known plan" SL_HINT "default: %.64s",
                           p->list[0].name.at);
    return 0;
}

void sl_build_plans(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(b->root, "plans");
    struct sl_plans *plans = &b->policy->plans;
    struct tally tally = count_plans(node);
    bool too_many =
        tally.plans > SL_PLANS_MAX || tally.names > SL_PLAN_NAMES_MAX;

    if (too_many)
        sl_build_key_error(b, node,
                           "Too many plans. The maximum is %d plans, and %d "
                           "names with all aliases",
                           SL_PLANS_MAX, SL_PLAN_NAMES_MAX);
    if (tally.plans > 0 && !too_many)
        read_plans(b, node, &tally);
    else
        make_only_plan(b);
    if (b->no_memory)
        return;
    b->box->plans.unsure =
        too_many || sl_build_refused(node) || tally.holes > 0;
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
        sl_build_error(b, query,
                       "`query` must not be empty. Leave `subjects` out, or "
                       "write a query" SL_HINT EXAMPLE);
    else if (query->text.len > QUERY_MOST)
        sl_build_error(b, query,
                       "The query is longer than %d bytes. Create a view in "
                       "the database and query the view",
                       QUERY_MOST);
    else if (!has(query->text, "$1"))
        sl_build_error(b, query,
                       "The query does not contain $1. Write $1 for the id, "
                       "without quotes" SL_HINT EXAMPLE);
}

/* Flags and variables can override `usage`, so a policy without it is not
 * reported. */
static void check_usage(struct sl_build *b, const struct sl_yaml_node *query)
{
    const struct sl_yaml_node *usage =
        sl_build_get(sl_yaml_node_get(b->root, "server"), "usage");

    if (!usage || usage->substituted ||
        (begins(usage->text, "postgres:") && usage->text.len > 9))
        return;
    sl_build_key_error(b, query,
                       "The query runs in the PostgreSQL of `usage`, but "
                       "`usage` is \"%.64s\"" SL_HINT
                       "usage: \"postgres://sluice@db/app\"",
                       sl_build_shown(usage).text);
}

void sl_fill_subjects(struct sl_build *b, const struct sl_schema_key *row,
                      const struct sl_yaml_node *node, void *into)
{
    const struct sl_yaml_node *query = sl_build_get(node, "query");

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

#define LEEWAY_MAX (300 * SL_S)
#define SECRET_MIN 32 /* bytes: as many as HS256 makes of it (RFC 7518) */

/* HS256, HS384 and HS512 are the last of the words. */
#define HMAC (7u << (SL_ALGORITHMS - 3))

void sl_fill_algorithms(struct sl_build *b, const struct sl_schema_key *row,
                        const struct sl_yaml_node *node, void *into)
{
    static const struct sl_list_form form = {
        .most = SL_ALGORITHMS, .items = "algorithms", .item = "Algorithm"};
    struct sl_jwt *jwt = into;

    if (sl_build_bits(b, row, node, &form, &jwt->algorithms) &&
        (jwt->algorithms & HMAC) && (jwt->algorithms & ~HMAC))
        sl_build_error(b, node,
                       "HS256, HS384 and HS512 use a secret, and the other "
                       "algorithms use public keys. A list must not mix them, "
                       "because a public key could serve as a secret");
}

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
        const char *colon =
            rest.len > 0 ? memchr(rest.at, ':', rest.len) : NULL;

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

const char *sl_jwks_url_error(struct sl_str text)
{
    if (!begins(text, "http://") && !begins(text, "https://"))
        return "is not a URL. Write it like "
               "https://id.example/.well-known/jwks.json";
    if (memchr(text.at, '@', text.len))
        return "must not contain a user name or a password. Keys are public";
    return url_error(text);
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
    bool is_path = !node->substituted && begins(node->text, "/");

    if (memmem(node->text.at, node->text.len, "://", 3) &&
        memchr(node->text.at, '@', node->text.len)) /* not quoted */
        sl_build_error(b, node,
                       "The URL must not contain a user name or a password. "
                       "Keys are public");
    else if (error && is_path)
        sl_build_error(b, node, "\"%.128s\" %s" SL_HINT "jwks: \"file:%.128s\"",
                       sl_build_shown(node).text, error, node->text.at);
    else if (error)
        sl_build_error(b, node, "\"%.128s\" %s", sl_build_shown(node).text,
                       error);
    else if ((jwt->algorithms & HMAC) && !begins(node->text, "file:"))
        sl_build_error(b, node,
                       "HS256, HS384 and HS512 use a secret, which must not be "
                       "fetched from a URL. Write `secret`, or a file");
}

static void check_secret(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_jwt *jwt)
{
    if (node->text.len < SECRET_MIN)
        sl_build_error(b, node,
                       "A secret of %zu bytes is too short. The minimum is %d. "
                       "`openssl rand -base64 32` prints a good secret",
                       node->text.len, SECRET_MIN);
    if (jwt->algorithms & ~HMAC)
        sl_build_error(b, node,
                       "`secret` is valid only for HS256, HS384 and HS512. The "
                       "other algorithms need `jwks`" SL_HINT
                       "algorithms: [HS256]");
    if (jwt->algorithms == 0)
        jwt->algorithms = HMAC;
}

static void check_token_keys(struct sl_build *b,
                             const struct sl_yaml_node *node,
                             struct sl_jwt *jwt)
{
    const struct sl_yaml_node *jwks = sl_build_get(node, "jwks");
    const struct sl_yaml_node *secret = sl_build_get(node, "secret");

    if (jwks)
        check_jwks(b, jwks, jwt);
    if (jwks && secret)
        sl_build_key_error(b, secret,
                           "`secret` and `jwks` exclude each other, because a "
                           "public key could serve as a secret. Remove one");
    else if (secret)
        check_secret(b, secret, jwt);
    else if (!jwks && !sl_build_refused(sl_yaml_node_get(node, "jwks")) &&
             !sl_build_refused(sl_yaml_node_get(node, "secret")))
        sl_build_key_error(b, node,
                           "`jwt` needs keys to verify tokens. Write `jwks` or "
                           "`secret`" SL_HINT "jwks: \"file:./jwks.json\"");
}

static bool read_audience(struct sl_build *b, const struct sl_yaml_node *item,
                          void *list, unsigned i, const void *ctx)
{
    (void)ctx;
    ((struct sl_str *)list)[i] = sl_build_keep(b, item->text);
    return item->text.len > 0 ||
           sl_build_error(b, item,
                          "An `audience` must not be empty. Leave it out to "
                          "accept tokens for any audience");
}

const struct sl_list_form sl_list_audiences = {
    .most = 16,
    .items = "audiences",
    .item = "Audience",
    .empty = "`audience` must not be an empty list. Leave it out to accept "
             "tokens for any audience",
    .size = sizeof(struct sl_str),
    .read = read_audience,
    .print = sl_print_text_item,
};

static void check_claims(struct sl_build *b, const struct sl_yaml_node *node,
                         const struct sl_jwt *jwt)
{
    const struct sl_yaml_node *issuer = sl_build_get(node, "issuer");
    const struct sl_yaml_node *leeway = sl_build_get(node, "leeway");

    if (issuer && issuer->text.len == 0)
        sl_build_error(b, issuer,
                       "`issuer` must not be empty. Leave it out to accept "
                       "tokens of any issuer");
    if (leeway && jwt->leeway > LEEWAY_MAX)
        sl_build_error(b, leeway,
                       "A leeway of \"%.64s\" would accept tokens long after "
                       "they expired. The maximum is 5m" SL_HINT "leeway: 30s",
                       sl_build_shown(leeway).text);
}

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
        sl_build_error(
            b, claim,
            "\"%.64s\" is a claim, and tokens cannot be verified without keys. "
            "Add `jwt` to `identity`" SL_HINT
            "jwt: { algorithms: [RS256], jwks: \"file:./jwks.json\" }",
            sl_build_shown(claim).text);
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
        sl_report_warning(
            b->report, node->key_place,
            "Tokens are verified, but no source uses their claims" SL_HINT
            "user: [jwt.sub]");
}

void sl_fill_token_sources(struct sl_build *b, const struct sl_schema_key *row,
                           const struct sl_yaml_node *node, void *into)
{
    static const struct sl_source authorization = {
        SL_SOURCE_HEADER, {"authorization", 13}
    };

    fill_sources(b, row, node, &authorization, &((struct sl_jwt *)into)->from);
    if (is_empty_list(node))
        sl_build_error(b, node,
                       "`from` must not be empty. Without a source, no token "
                       "is found" SL_HINT "from: [header.authorization]");
}

void sl_fill_jwt(struct sl_build *b, const struct sl_schema_key *row,
                 const struct sl_yaml_node *node, void *into)
{
    const struct sl_yaml_node *identity = sl_yaml_node_get(b->root, "identity");
    struct sl_jwt *jwt = sl_schema_field(row, into);

    if (!sl_yaml_node_get(identity, row->name))
        refuse_claims(b, identity);
    if (!node)
        return;
    jwt->written = true;
    sl_schema_fill(b, row->below, node, jwt);
    check_token_keys(b, node, jwt);
    check_claims(b, node, jwt);
    warn_of_idle(b, node);
}
