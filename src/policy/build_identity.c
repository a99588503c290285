/* build_identity.c -- `identity`: where a caller's user, org, plan and so on
 * come from, and whose word is believed. */
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

/* Many servers take X_User for X-User, so a client could write the name that a
 * proxy takes care to overwrite: no door looks at such headers. */
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

/* Some providers name their claims by URLs, so that anything visible goes. */
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

/* It is a source, but not here. Always true. */
static bool refuse_here(struct sl_build *b, const struct sl_yaml_node *item,
                        const char *why)
{
    sl_report_error(b->report, SL_AT(item), "%s", why);
    return true;
}

/* Is it a source that may not be here? Then say why. */
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

/* The registry knows a plan and roles, and each is good for one thing. */
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

/* The same header in another case is the same: the second never counts. */
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

static bool is_setting(struct sl_str key)
{
    static const char *const settings[] = {
        "user",        "org",       "plan",      "role", "trusted_proxies",
        "ipv6_prefix", "forwarded", "anonymous", "jwt",  "unknown_subject",
        "subjects",
    };

    for (size_t i = 0; i < SL_LEN(settings); i++)
        if (sl_str_eq(key, sl_str_c(settings[i])))
            return true;
    return false;
}

static void add_scope(struct sl_build *b, struct sl_str name,
                      struct sl_source_pos place)
{
    struct sl_identity *identity = &b->policy->identity;

    identity->scope_names[identity->scope_count] = name;
    sl_names_add(&b->box->scopes, name, identity->scope_count++, place);
}

/* A further scope, that somebody named. */
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
    struct sl_identity *identity = &b->policy->identity;
    const struct sl_yaml_node *n;

    if (!sl_names_init(&b->box->scopes, SL_SCOPES, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (int i = 0; i < SL_SCOPE_NAMED; i++)
        add_scope(b, sl_str_c(scope_names[i]), (struct sl_source_pos){0, 0});
    sl_build_sources(b, sl_yaml_node_get(node, "user"), SL_OF_NAMES,
                     &identity->scopes[SL_SCOPE_USER]);
    sl_build_sources(b, sl_yaml_node_get(node, "org"), SL_OF_NAMES,
                     &identity->scopes[SL_SCOPE_ORG]);
    for (n = node && node->kind == SL_NODE_MAP ? node->child : NULL; n;
         n = n->next)
        if (!is_setting(n->key))
            read_named(b, n);
    sl_names_close(&b->box->scopes);
}

/* ---- callers without a name ---- */

static void read_anonymous(struct sl_build *b, const struct sl_yaml_node *node)
{
    static const struct sl_source ip = {
        SL_SOURCE_IP, {"ip", 2}
    };
    struct sl_identity *identity = &b->policy->identity;

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

static void read_trusted(struct sl_build *b, const struct sl_yaml_node *node)
{
    struct sl_identity *identity = &b->policy->identity;
    const struct sl_yaml_node *item;
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
    struct sl_identity *identity = &b->policy->identity;

    read_scopes(b, node);
    sl_build_sources(b, sl_yaml_node_get(node, "plan"), SL_OF_PLAN,
                     &identity->plan);
    sl_build_sources(b, sl_yaml_node_get(node, "role"), SL_OF_ROLE,
                     &identity->role);
    read_anonymous(b, sl_yaml_node_get(node, "anonymous"));
    read_trusted(b, sl_yaml_node_get(node, "trusted_proxies"));
    sl_build_jwt(b, node);
    identity->forwarded = (enum sl_forwarded)sl_build_choice(
        node, "forwarded", sl_forwarded_words, 2, SL_FORWARDED_X_FOR);
    identity->ipv6_prefix =
        (unsigned)sl_build_number(b, node, "ipv6_prefix", 32, 128, 64);
    identity->unknown_subject = (enum sl_unknown)sl_build_choice(
        node, "unknown_subject", sl_unknown_words, 3, SL_UNKNOWN_DEFAULT);
    sl_build_subjects(b, sl_yaml_node_get(node, "subjects"));
}

/* ---- `plans`: names, aliases, and which plan is whose. */

/* The keys of `plans` that are no plans; and what the schema refused, for
 * nobody knows what that was meant to be. */
static bool plans_is_setting(const struct sl_yaml_node *node)
{
    return sl_build_refused(node) || sl_str_eq(node->key, SL_STR("default")) ||
           sl_str_eq(node->key, SL_STR("anonymous")) ||
           sl_str_eq(node->key, SL_STR("unknown_plan"));
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
        count += !plans_is_setting(n);
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
    plan->overage = sl_build_bool(node, "overage", false);
    plan->weight = (unsigned)sl_build_number(b, node, "weight", 1, 1000, 1);
    sl_names_add(&b->box->plans, plan->name, index, SL_AT_KEY(node));
    read_aliases(b, node, plan, index);
}

/* Names and aliases of all plans. */
static unsigned count_names(const struct sl_yaml_node *plans)
{
    unsigned count = 0;

    for (const struct sl_yaml_node *n = plans->child; n; n = n->next)
        if (!plans_is_setting(n))
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
        if (!plans_is_setting(n)) {
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

/* Which plan have those whose plan is not known, if nothing is written? */
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
    static const char *const unknown[] = {"default", "deny"};
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
    plans->deny_unknown =
        sl_build_choice(node, "unknown_plan", unknown, 2, 0) == 1;
}

/* ---- `identity: subjects`: the question by which plans are read from
 * tables of others, as far as it can be judged without a server. */

#define QUERY_MOST 8192
#define LIFE       (5 * SL_S)
#define LIFE_MIN   SL_S
#define LIFE_MAX   (3600 * SL_S)

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

/* Flags and variables may say otherwise, so that nothing is said of a policy
 * that does not say where. */
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

static sl_ns read_life(struct sl_build *b, const struct sl_yaml_node *map)
{
    const struct sl_yaml_node *node = sl_build_scalar(map, "life");
    sl_ns life = sl_build_duration(b, map, "life", LIFE);

    if (node && (life < LIFE_MIN || life > LIFE_MAX))
        sl_diag_hint(sl_report_error(b->report, SL_AT(node),
                                     "`life` must be between 1s and 1h, not "
                                     "\"%.64s\"",
                                     sl_build_shown(node).text),
                     "life: 5s");
    return life;
}

void sl_build_subjects(struct sl_build *b, const struct sl_yaml_node *node)
{
    static const char *const scopes[] = {"", "user", "org"};
    const struct sl_yaml_node *query = sl_build_scalar(node, "query");
    struct sl_plan_query *subjects = &b->policy->identity.subjects;

    if (!query)
        return; /* the schema has said why, if it was meant */
    check_query(b, query);
    check_usage(b, query);
    subjects->text = sl_build_text(b, node, "query");
    subjects->scope =
        (enum sl_asked)sl_build_choice(node, "scope", scopes, 3, SL_ASKED_ANY);
    subjects->life = read_life(b, node);
}

/* ---- `sign_in`: may what was used before be carried, or capped?
 *
 * carry  The key that stood in for the name is looked at beside the name's, and
 *        both must end together. In a bucket, a pace or a sliding window they
 *        would not: each flows back by itself, and no retry that is told would
 *        be right. Refused rather than told wrong.
 * cap    Limits kept per address count everybody who comes from it, also those
 *        whose plan has no number there: they have the visitors'.
 */

static bool has_ip(const struct sl_sources *sources)
{
    for (unsigned i = 0; i < sources->count; i++)
        if (sources->list[i].kind == SL_SOURCE_IP)
            return true;
    return false;
}

/* Is the rule kept by something in place of a name that is missing? */
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
           rule->kind == SL_KINDS; /* what is wrong with it was said */
}

static void refuse_kind(struct sl_build *b, const struct sl_route *route,
                        const struct sl_rule *rule)
{
    sl_diag_hint(
        sl_report_error(b->report, route->place,
                        "`sign_in: carry` cannot carry the usage of limit "
                        "\"%s\", because the usage of a %s decays "
                        "gradually. Make it a fixed-window or a quota",
                        rule->name.at, sl_kind_name(rule->kind)),
        "sign_in: cap");
}

/* And mark what it carries to. */
static void check_carry(struct sl_build *b, const struct sl_route *route)
{
    unsigned carried = 0;

    if (!has_ip(&b->policy->identity.anonymous))
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

/* Does it hold an address, whoever comes from there? */
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

void sl_build_sign_in(struct sl_build *b)
{
    for (unsigned i = 0; i < b->policy->route_count; i++) {
        const struct sl_route *route = &b->policy->routes[i];

        if (route->sign_in == SL_SIGN_IN_CARRY)
            check_carry(b, route);
        else if (route->sign_in == SL_SIGN_IN_CAP)
            check_cap(b, route);
    }
}
