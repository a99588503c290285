/* identity.c -- `identity`: where a caller's user, org, plan and so on come
 * from, and whose word is believed. */
#include "policy/build/build.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"

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
static void refuse_underscore(struct sl_build *b, const struct sl_node *item,
                              struct sl_str name)
{
    char meant[257];

    snprintf(meant, sizeof(meant), "%.*s", SL_STR_ARG(name));
    for (char *c = meant; *c; c++)
        *c = (char)(*c == '_' ? '-' : *c);
    sl_hint(sl_report_error(b->report, SL_AT(item),
                            "\"%.64s\" is ignored, because many servers read "
                            "an underscore in a header as a hyphen",
                            sl_build_shown(item).text),
            "header.%.64s", meant);
}

static void read_header(struct sl_build *b, const struct sl_node *item,
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
static void read_cookie(struct sl_build *b, const struct sl_node *item,
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
static void read_claim(struct sl_build *b, const struct sl_node *item,
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
static void hint_source(struct sl_diag *diag, const struct sl_node *item)
{
    static const char *const kinds[] = {"header", "ip", "cookie", "jwt",
                                        "subject"};
    size_t len = strcspn(item->text.at, ".");
    struct sl_str word = {item->text.at, len};
    const char *meant = sl_str_nearest(word, kinds, SL_LEN(kinds));

    if (item->substituted || item->text.len > SL_NAME_MAX)
        return;
    if (meant && len < item->text.len)
        sl_hint(diag, "%s%s", meant, item->text.at + len);
    else if (!meant && len == item->text.len)
        sl_hint(diag, "header.%s", item->text.at);
}

static void refuse_source(struct sl_build *b, const struct sl_node *item,
                          enum sl_sources_of of)
{
    static const char *const kinds[] = {
        [SL_OF_NAMES] = "header.NAME, cookie.NAME or jwt.CLAIM",
        [SL_OF_ANONYMOUS] = "header.NAME or ip",
        [SL_OF_TOKENS] = "header.NAME or cookie.NAME",
        [SL_OF_PLAN] = "header.NAME, cookie.NAME, jwt.CLAIM or subject.plan",
        [SL_OF_ROLE] = "header.NAME, cookie.NAME, jwt.CLAIM or subject.role",
        [SL_OF_GUARDS] = "header.NAME",
    };

    hint_source(sl_report_error(b->report, SL_AT(item),
                                "Unknown source \"%s\". Valid sources: %s",
                                sl_build_shown(item).text, kinds[of]),
                item);
}

/* It is a source, but not here. Always true. */
static bool refuse_here(struct sl_build *b, const struct sl_node *item,
                        const char *why)
{
    sl_report_error(b->report, SL_AT(item), "%s", why);
    return true;
}

/* Is it a source that may not be here? Then say why. */
static bool is_misplaced(struct sl_build *b, const struct sl_node *item,
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
static void read_subject(struct sl_build *b, const struct sl_node *item,
                         enum sl_sources_of of, struct sl_source *ret)
{
    struct sl_str name = sl_str_from(item->text, strlen("subject."));

    if (of == SL_OF_PLAN && sl_str_eq(name, SL_STR("plan")))
        *ret = (struct sl_source){SL_SOURCE_SUBJECT, SL_STR("plan")};
    else if (of == SL_OF_ROLE && (sl_str_eq(name, SL_STR("role")) ||
                                  sl_str_eq(name, SL_STR("roles"))))
        *ret = (struct sl_source){SL_SOURCE_SUBJECT, SL_STR("role")};
    else if (of == SL_OF_PLAN || of == SL_OF_ROLE)
        sl_hint(sl_report_error(b->report, SL_AT(item),
                                "\"%.64s\" is not a source here. The registry "
                                "has only plans and roles",
                                sl_build_shown(item).text),
                "subject.%s", of == SL_OF_PLAN ? "plan" : "role");
    else
        sl_report_error(b->report, SL_AT(item),
                        "The registry has no names. Write subject.plan under "
                        "`plan`, or subject.role under `role`");
}

static bool read_source(struct sl_build *b, const struct sl_node *item,
                        enum sl_sources_of of, struct sl_source *ret)
{
    if (of == SL_OF_GUARDS && !begins(item->text, "header.")) {
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
static bool is_again(struct sl_build *b, const struct sl_node *item,
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

void sl_build_sources(struct sl_build *b, const struct sl_node *node,
                      enum sl_sources_of of, struct sl_sources *ret)
{
    const struct sl_node *item;
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
                      struct sl_place place)
{
    struct sl_identity *identity = &b->policy->identity;

    identity->scope_names[identity->scope_count] = name;
    sl_names_add(&b->box->scopes, name, identity->scope_count++, place);
}

/* A further scope, that somebody named. */
static void read_named(struct sl_build *b, const struct sl_node *node)
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

static void read_scopes(struct sl_build *b, const struct sl_node *node)
{
    struct sl_identity *identity = &b->policy->identity;
    const struct sl_node *n;

    if (!sl_names_init(&b->box->scopes, SL_SCOPES, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (int i = 0; i < SL_SCOPE_NAMED; i++)
        add_scope(b, sl_str_c(scope_names[i]), (struct sl_place){0, 0});
    sl_build_sources(b, sl_node_get(node, "user"), SL_OF_NAMES,
                     &identity->scopes[SL_SCOPE_USER]);
    sl_build_sources(b, sl_node_get(node, "org"), SL_OF_NAMES,
                     &identity->scopes[SL_SCOPE_ORG]);
    for (n = node && node->kind == SL_NODE_MAP ? node->child : NULL; n;
         n = n->next)
        if (!is_setting(n->key))
            read_named(b, n);
    sl_names_close(&b->box->scopes);
}

/* ---- callers without a name ---- */

static void read_anonymous(struct sl_build *b, const struct sl_node *node)
{
    static const struct sl_source ip = {
        SL_SOURCE_IP, {"ip", 2}
    };
    struct sl_identity *identity = &b->policy->identity;

    sl_build_sources(b, node, SL_OF_ANONYMOUS, &identity->anonymous);
    if (node && node->kind == SL_NODE_LIST && node->count == 0)
        sl_hint(sl_report_error(b->report, SL_AT(node),
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
    sl_hint(diag, "%s/%u", print, (unsigned)bits);
}

/* Does it have every address of IPv4, or of IPv6? */
static bool has_all(const struct sl_net *net)
{
    static const struct sl_ip v4 = {
        {[10] = 0xff, [11] = 0xff}
    };

    return net->bits == 0 || (net->bits <= 96 && sl_net_has(net, &v4));
}

static bool read_net(struct sl_build *b, const struct sl_node *item,
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

static void read_trusted(struct sl_build *b, const struct sl_node *node)
{
    struct sl_identity *identity = &b->policy->identity;
    const struct sl_node *item;
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
    const struct sl_node *node = sl_node_get(b->root, "identity");
    struct sl_identity *identity = &b->policy->identity;

    read_scopes(b, node);
    sl_build_sources(b, sl_node_get(node, "plan"), SL_OF_PLAN, &identity->plan);
    sl_build_sources(b, sl_node_get(node, "role"), SL_OF_ROLE, &identity->role);
    read_anonymous(b, sl_node_get(node, "anonymous"));
    read_trusted(b, sl_node_get(node, "trusted_proxies"));
    sl_build_jwt(b, node);
    identity->forwarded = (enum sl_forwarded)sl_build_choice(
        node, "forwarded", sl_forwarded_words, 2, SL_FORWARDED_X_FOR);
    identity->ipv6_prefix =
        (unsigned)sl_build_number(b, node, "ipv6_prefix", 32, 128, 64);
    identity->unknown_subject = (enum sl_unknown)sl_build_choice(
        node, "unknown_subject", sl_unknown_words, 3, SL_UNKNOWN_DEFAULT);
    sl_build_subjects(b, sl_node_get(node, "subjects"));
}
