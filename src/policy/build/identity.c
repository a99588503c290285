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
                            "\"%.64s\" is never looked at: headers with an "
                            "underscore are dropped, since many servers take "
                            "it for a hyphen",
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
                        "\"%.64s\" names no header; write one like "
                        "header.x-user-id",
                        sl_build_shown(item).text);
    else if (memchr(bytes, '_', name.len))
        refuse_underscore(b, item, (struct sl_str){bytes, name.len});
    *ret = (struct sl_source){
        SL_SOURCE_HEADER, {bytes, name.len}
    };
}

/* header.NAME for "heade.NAME" and "NAME". */
static void hint_source(struct sl_diag *diag, const struct sl_node *item)
{
    static const char *const kinds[] = {"header", "ip"};
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
                          bool anonymous)
{
    static const char *const later[] = {"jwt.", "cookie.", "subject."};
    const char *rest = anonymous ? " or ip" : "";

    for (size_t i = 0; i < SL_LEN(later); i++)
        if (begins(item->text, later[i])) {
            sl_report_error(b->report, SL_AT(item),
                            "the source \"%s\" is not in this version",
                            sl_build_shown(item).text);
            return;
        }
    hint_source(sl_report_error(b->report, SL_AT(item),
                                "\"%s\" is no source; write header.NAME%s",
                                sl_build_shown(item).text, rest),
                item);
}

static bool read_source(struct sl_build *b, const struct sl_node *item,
                        bool anonymous, struct sl_source *ret)
{
    bool is_ip = sl_str_eq(item->text, SL_STR("ip"));

    if (is_ip && anonymous)
        *ret = (struct sl_source){SL_SOURCE_IP, SL_STR("ip")};
    else if (is_ip)
        sl_report_error(b->report, SL_AT(item),
                        "the address is a source of `anonymous` only; a limit "
                        "that is kept by address says per: ip");
    else if (begins(item->text, "header."))
        read_header(b, item, ret);
    else
        refuse_source(b, item, anonymous);
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
                            "the source \"%.64s\" is in this list already, "
                            "since headers compare without case; leave one out",
                            sl_build_shown(item).text);
            return true;
        }
    return false;
}

static void read_sources(struct sl_build *b, const struct sl_node *node,
                         bool anonymous, struct sl_sources *ret)
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
        if (!sl_build_twice(b, node, item, "the source") &&
            read_source(b, item, anonymous, &list[ret->count]) &&
            !is_again(b, item, ret))
            ret->count++;
}

/* ---- scopes ---- */

static bool is_setting(struct sl_str key)
{
    static const char *const settings[] = {
        "user",        "org",       "plan",      "role", "trusted_proxies",
        "ipv6_prefix", "forwarded", "anonymous", "jwt",  "unknown_subject",
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
                            "`%s` is known without sources; it can't be "
                            "given any",
                            scope_names[i]);
            return;
        }
    if (!sl_build_key_name(b, "a scope", node))
        return;
    if (identity->scope_count == SL_SCOPES) {
        sl_report_error(b->report, SL_AT_KEY(node),
                        "there are too many scopes; %d can be named here "
                        "beside user and org",
                        SL_SCOPES - SL_SCOPE_NAMED);
        return;
    }
    read_sources(b, node, false, &identity->scopes[identity->scope_count]);
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
    read_sources(b, sl_node_get(node, "user"), false,
                 &identity->scopes[SL_SCOPE_USER]);
    read_sources(b, sl_node_get(node, "org"), false,
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

    read_sources(b, node, true, &identity->anonymous);
    if (node && node->kind == SL_NODE_LIST && node->count == 0)
        sl_hint(sl_report_error(b->report, SL_AT(node),
                                "without a source all anonymous callers would "
                                "be one"),
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
                                 "\"%.64s\" is neither an address nor a "
                                 "network; write one like 10.0.0.0/8 or ::1",
                                 sl_build_shown(item).text),
                 item->text);
        return false;
    }
    if (has_all(ret)) {
        sl_report_error(b->report, SL_AT(item),
                        "\"%.64s\" would believe every caller; name the "
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
    read_sources(b, sl_node_get(node, "plan"), false, &identity->plan);
    read_sources(b, sl_node_get(node, "role"), false, &identity->role);
    read_anonymous(b, sl_node_get(node, "anonymous"));
    read_trusted(b, sl_node_get(node, "trusted_proxies"));
    identity->forwarded = (enum sl_forwarded)sl_build_choice(
        node, "forwarded", sl_forwarded_words, 2, SL_FORWARDED_X_FOR);
    identity->ipv6_prefix =
        (unsigned)sl_build_number(b, node, "ipv6_prefix", 32, 128, 64);
}
