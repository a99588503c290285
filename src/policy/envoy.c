/* envoy.c -- the configuration of envoyproxy/ratelimit as a policy.
 *
 * Names. A limit has its `name`, else its path as in their metrics:
 * messaging.message_type_marketing.to_number. Invalid bytes become "-"; of two
 * equal names the later gets a number.
 *
 * Order. At each level: exact values, values with stars in the order of the
 * file, any value. Routes below a descriptor come before its alternatives. If
 * others could match too, a route without limits for all else below it follows:
 * there is no backtracking.
 */
#include "policy/envoy.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/parse.h"
#include "policy/policy_int.h"

#define NAME_MOST 64

struct writing {
    struct sl_envoy *envoy;
    struct sl_writer out;
    struct sl_str domain;
    const struct sl_envoy_node *path[SL_ENVOY_DEPTH];
    unsigned depth;
};

typedef void sl_envoy_node_f(struct writing *w, struct sl_envoy_node *node);

static bool has_star(const struct sl_envoy_node *node)
{
    return node->value.len > 0 &&
           memchr(node->value.at, '*', node->value.len) != NULL;
}

/* 0 exact, 1 with stars, 2 any. */
static int rank(const struct sl_envoy_node *node)
{
    if (node->value.len == 0)
        return 2;
    return has_star(node);
}

/* ---- names ---- */

static size_t add_word(char name[NAME_MOST + 1], size_t len, struct sl_str word)
{
    for (size_t i = 0; i < word.len && len < NAME_MOST; i++) {
        char c = word.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9');

        if (!plain && c != '_' && c != '.' && c != '-')
            c = '-';
        if (len > 0 || plain)
            name[len++] = c;
    }
    return len;
}

static bool is_taken(const struct sl_envoy_node *node, const char *name,
                     const struct sl_envoy_node *self)
{
    for (; node; node = node->next)
        if ((node != self && strcmp(node->limit, name) == 0) ||
            is_taken(node->child, name, self))
            return true;
    return false;
}

/* Quadratic: a thousand limits take some milliseconds. */
static void make_unique(struct writing *w, struct sl_envoy_node *node,
                        const char *name)
{
    char text[NAME_MOST + 16];
    bool taken = true;

    snprintf(text, sizeof(text), "%s", name);
    for (unsigned n = 2; taken; n++) {
        taken = false;
        for (unsigned i = 0; i < w->envoy->domain_count; i++)
            taken |= is_taken(w->envoy->domains[i].nodes, text, node);
        if (taken)
            snprintf(text, sizeof(text), "%.*s-%u", NAME_MOST - 5, name, n);
    }
    memcpy(node->limit, text, strlen(text) + 1);
}

static void name_node(struct writing *w, struct sl_envoy_node *node)
{
    char name[NAME_MOST + 1];
    size_t len;

    if (!node->has_limit)
        return;
    len = add_word(name, 0, node->name.len > 0 ? node->name : w->domain);
    for (unsigned i = 0; i < w->depth && node->name.len == 0; i++) {
        len = add_word(name, len, SL_STR("."));
        len = add_word(name, len, w->path[i]->key);
        if (w->path[i]->value.len > 0) {
            len = add_word(name, len, SL_STR("_"));
            len = add_word(name, len, w->path[i]->value);
        }
    }
    name[len] = '\0';
    make_unique(w, node, len > 0 ? name : "limit");
}

/* ---- walking ---- */

static void walk(struct writing *w, struct sl_envoy_node *nodes,
                 sl_envoy_node_f *f, sl_envoy_node_f *after);

static void visit(struct writing *w, struct sl_envoy_node *node,
                  sl_envoy_node_f *f, sl_envoy_node_f *after)
{
    if (w->depth == SL_ENVOY_DEPTH)
        return; /* refused when it was read */
    w->path[w->depth++] = node;
    walk(w, node->child, f, after);
    f(w, node);
    if (after)
        after(w, node);
    w->depth--;
}

/* The nodes of a level, in the order in which they are matched. */
static void walk(struct writing *w, struct sl_envoy_node *nodes,
                 sl_envoy_node_f *f, sl_envoy_node_f *after)
{
    for (int r = 0; r <= 2; r++)
        for (struct sl_envoy_node *n = nodes; n; n = n->next)
            if (rank(n) == r)
                visit(w, n, f, after);
}

static void walk_all(struct writing *w, sl_envoy_node_f *f,
                     sl_envoy_node_f *after)
{
    for (unsigned i = 0; i < w->envoy->domain_count; i++) {
        w->domain = w->envoy->domains[i].name;
        w->depth = 0;
        walk(w, w->envoy->domains[i].nodes, f, after);
    }
}

/* ---- limits ---- */

/* Does any value of the path count separately? */
static bool is_open(const struct writing *w)
{
    for (unsigned i = 0; i < w->depth; i++)
        if (rank(w->path[i]) == 2 ||
            (has_star(w->path[i]) && !w->path[i]->shared))
            return true;
    return false;
}

static void write_limit(struct writing *w, struct sl_envoy_node *node)
{
    static const char *const periods[SL_ENVOY_UNITS] = {
        "s", "min", "hour", "day", "7d", "30d", "365d"};

    if (!node->has_limit)
        return;
    sl_writer_addf(&w->out,
                   "  %s: { kind: fixed-window, per: %s, rate: ", node->limit,
                   is_open(w) ? "descriptor, missing: skip" : "[]");
    if (node->unlimited || node->requests == 0)
        sl_writer_addf(&w->out, node->unlimited ? "unlimited" : "none");
    else
        sl_writer_addf(&w->out, "%" PRIu32 "/%s", node->requests,
                       periods[node->unit]);
    sl_writer_addf(&w->out, "%s }\n", node->shadow ? ", mode: shadow" : "");
}

/* ---- routes ---- */

static void write_part(struct sl_writer *w, const struct sl_envoy_node *node)
{
    struct sl_buf text;
    struct sl_writer part = {&text, w->err};

    sl_buf_init(&text, SL_YAML_BYTES, w->out->alloc);
    sl_writer_add(&part, node->key);
    if (node->value.len > 0) {
        sl_writer_add(&part, node->shared ? SL_STR("~") : SL_STR("="));
        sl_writer_add(&part, node->value);
    }
    w->err = part.err;
    sl_writer_add(w, SL_STR(", "));
    sl_print_scalar(w, sl_buf_str(&text), true);
    sl_buf_done(&text);
}

static void write_pattern(struct writing *w)
{
    sl_writer_add(&w->out, SL_STR("  - descriptor: ["));
    sl_print_scalar(&w->out, w->domain, true);
    for (unsigned i = 0; i < w->depth; i++)
        write_part(&w->out, w->path[i]);
}

/* The nodes of the domain that is being written. */
static const struct sl_envoy_node *domain_nodes(const struct writing *w)
{
    for (unsigned i = 0; i < w->envoy->domain_count; i++)
        if (sl_str_eq(w->envoy->domains[i].name, w->domain))
            return w->envoy->domains[i].nodes;
    return NULL;
}

/* The limits that a limit replaces, by their names in the policy. */
struct search {
    struct sl_str name;
    struct writing *w;
    unsigned found;
};

static void write_named(struct search *s, const struct sl_envoy_node *nodes)
{
    for (; nodes; nodes = nodes->next) {
        if (nodes->has_limit && sl_str_eq(nodes->name, s->name))
            sl_writer_addf(&s->w->out, "%s%s", s->found++ > 0 ? ", " : "",
                           nodes->limit);
        write_named(s, nodes->child);
    }
}

/* Does an entry before `last` have the same name? */
static bool is_repeated(const struct sl_yaml_node *first,
                        const struct sl_yaml_node *last)
{
    struct sl_str name = sl_yaml_node_get(last, "name")->text;

    for (; first != last; first = first->next)
        if (sl_str_eq(sl_yaml_node_get(first, "name")->text, name))
            return true;
    return false;
}

static void write_replaces(struct writing *w, const struct sl_envoy_node *node)
{
    struct search s = {.w = w};
    size_t before = w->out.out->len;

    sl_writer_add(&w->out, SL_STR("    replaces: ["));
    for (const struct sl_yaml_node *n = node->replaces->child; n; n = n->next) {
        s.name = sl_yaml_node_get(n, "name")->text;
        if (!is_repeated(node->replaces->child, n))
            write_named(&s, domain_nodes(w));
    }
    if (s.found == 0)
        w->out.out->len = before; /* no limit has one of the names */
    else
        sl_writer_add(&w->out, SL_STR("]\n"));
}

static void write_route(struct writing *w, struct sl_envoy_node *node)
{
    if (!node->has_limit)
        return;
    write_pattern(w);
    sl_writer_addf(&w->out, "]\n    limits: [%s]\n    count: %s\n", node->limit,
                   node->quota ? "quota" : "each");
    if (node->replaces)
        write_replaces(w, node);
}

/* Could a later descriptor match the same requests? */
static bool is_covered(const struct writing *w,
                       const struct sl_envoy_node *node)
{
    const struct sl_envoy_node *n;

    n = w->depth > 1 ? w->path[w->depth - 2]->child : domain_nodes(w);
    for (; n; n = n->next)
        if (n != node && sl_str_eq(n->key, node->key) &&
            (rank(n) > rank(node) || (rank(n) == 1 && rank(node) == 1)))
            return true;
    return false;
}

static void write_rest(struct writing *w, struct sl_envoy_node *node)
{
    if (!is_covered(w, node))
        return;
    write_pattern(w);
    sl_writer_add(&w->out, SL_STR(", \"**\"]\n    limits: []\n"
                                  "    count: each\n"));
}

/* ---- the policy ---- */

int sl_envoy_write(struct sl_envoy *envoy, struct sl_buf *out)
{
    struct writing w = {
        .envoy = envoy, .out = {out, 0}
    };

    sl_writer_addf(&w.out, "sluice: 1\n%s",
                   envoy->limit_count > 0 ? "\nlimits:\n" : "");
    walk_all(&w, write_limit, NULL);
    if (envoy->limit_count > 0) {
        sl_writer_add(&w.out, SL_STR("\nroutes:\n"));
        walk_all(&w, write_route, write_rest);
    }
    sl_writer_add(&w.out, SL_STR("\ndefault: []\n"));
    return w.out.err;
}

static void dump_node(struct writing *w, struct sl_envoy_node *node)
{
    static const char *const units[SL_ENVOY_UNITS] = {
        "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"};

    if (!node->has_limit)
        return;
    sl_writer_add(&w->out, w->domain);
    for (unsigned i = 0; i < w->depth; i++)
        sl_writer_addf(&w->out, ".%.*s%s%.*s", SL_STR_ARG(w->path[i]->key),
                       w->path[i]->value.len > 0 ? "_" : "",
                       SL_STR_ARG(w->path[i]->value));
    sl_writer_addf(&w->out,
                   ": unit=%s requests_per_unit=%" PRIu32
                   ", shadow_mode: %s, quota_mode: %s\n",
                   node->unlimited ? "UNKNOWN" : units[node->unit],
                   node->requests, node->shadow ? "true" : "false",
                   node->quota ? "true" : "false");
}

int sl_envoy_dump(const struct sl_envoy *envoy, struct sl_buf *out)
{
    struct writing w = {
        .envoy = (struct sl_envoy *)envoy, .out = {out, 0}
    };

    walk_all(&w, dump_node, NULL);
    return w.out.err;
}

/* ---- reading a file ----
 *
 * Unknown keys are refused, as by envoyproxy/ratelimit. Equal descriptors and
 * unknown names, which it finds late or never, are refused too.
 */

#define RATE_MAX 100000000 /* per second */

static const char *const top_keys[] = {"domain", "descriptors"};
static const char *const node_keys[] = {
    "key",        "value",           "rate_limit",      "shadow_mode",
    "quota_mode", "detailed_metric", "value_to_metric", "share_threshold",
    "metadata",   "descriptors"};
static const char *const limit_keys[] = {"unit", "requests_per_unit",
                                         "unlimited", "name", "replaces"};
static const char *const replace_keys[] = {"name"};
static const char *const units[SL_ENVOY_UNITS] = {
    "second", "minute", "hour", "day", "week", "month", "year"};

struct reading {
    struct sl_envoy *envoy;
    struct sl_report *report;
};

/* ---- keys and values ---- */

static void refuse_key(struct reading *r, const struct sl_yaml_node *node,
                       const char *of, const char *const *keys, size_t count)
{
    const char *meant = sl_str_nearest(node->key, keys, count);
    struct sl_diag *diag =
        sl_report_error(r->report, node->key_place, "Unknown key \"%s\" in %s",
                        sl_quote(node->key).text, of);

    if (meant)
        sl_diag_hint(diag, "%s", meant);
}

static bool check_keys(struct reading *r, const struct sl_yaml_node *map,
                       const char *of, const char *const *keys, size_t count)
{
    bool good = true;

    if (map->kind != SL_NODE_MAP) {
        sl_report_error(r->report, map->place, "Expected a map for %s", of);
        return false;
    }
    for (const struct sl_yaml_node *n = map->child; n; n = n->next) {
        bool known = false;

        for (size_t i = 0; i < count; i++)
            known |= sl_str_eq(n->key, sl_str_c(keys[i]));
        if (!known)
            refuse_key(r, n, of, keys, count);
        good &= known;
    }
    return good;
}

/* The text of a scalar; empty: missing. */
static struct sl_str read_text(struct reading *r,
                               const struct sl_yaml_node *map, const char *key)
{
    const struct sl_yaml_node *node = sl_yaml_node_get(map, key);

    if (!node || node->kind == SL_NODE_EMPTY)
        return (struct sl_str){"", 0};
    if (node->kind == SL_NODE_SCALAR)
        return node->text;
    sl_report_error(r->report, node->place, "`%s` must be a text", key);
    return (struct sl_str){"", 0};
}

/* Booleans of YAML 1.1. */
static bool read_bool(struct reading *r, const struct sl_yaml_node *map,
                      const char *key)
{
    static const char *const yes[] = {"true", "yes", "on", "y"};
    static const char *const no[] = {"false", "no", "off", "n", ""};
    struct sl_str text = read_text(r, map, key);

    for (size_t i = 0; i < SL_LEN(yes); i++)
        if (sl_str_eq_nocase(text, sl_str_c(yes[i])))
            return true;
    for (size_t i = 0; i < SL_LEN(no); i++)
        if (sl_str_eq_nocase(text, sl_str_c(no[i])))
            return false;
    sl_report_error(r->report, sl_yaml_node_get(map, key)->place,
                    "`%s` must be true or false, not \"%s\"", key,
                    sl_quote(text).text);
    return false;
}

/* ---- rate_limit ---- */

static void read_unit(struct reading *r, const struct sl_yaml_node *map,
                      struct sl_envoy_node *ret)
{
    struct sl_str text = read_text(r, map, "unit");
    struct sl_diag *diag;
    const char *meant;

    for (unsigned i = 0; i < SL_ENVOY_UNITS; i++)
        if (sl_str_eq_nocase(text, sl_str_c(units[i]))) {
            ret->unit = (enum sl_envoy_unit)i;
            return;
        }
    if (text.len == 0) {
        sl_report_error(r->report, map->place,
                        "A rate_limit needs a unit" SL_HINT "unit: minute");
        return;
    }
    meant = sl_str_nearest(text, units, SL_ENVOY_UNITS);
    diag = sl_report_error(r->report, sl_yaml_node_get(map, "unit")->place,
                           "Unknown unit \"%s\". Valid units: second, minute, "
                           "hour, day, week, month and year",
                           sl_quote(text).text);
    if (meant)
        sl_diag_hint(diag, "unit: %s", meant);
}

static void read_requests(struct reading *r, const struct sl_yaml_node *map,
                          struct sl_envoy_node *ret)
{
    struct sl_str text = read_text(r, map, "requests_per_unit");
    struct sl_diag diag = {0};
    uint64_t number = 0;

    if (text.len == 0) {
        if (!ret->unlimited)
            sl_report_warning(r->report, map->place,
                              "A rate_limit without requests_per_unit lets "
                              "nothing pass, as in envoyproxy/ratelimit" SL_HINT
                              "requests_per_unit: 0");
        return;
    }
    if (sl_parse_number(text, &number, &diag) || number > UINT32_MAX) {
        sl_report_error(r->report,
                        sl_yaml_node_get(map, "requests_per_unit")->place,
                        "`requests_per_unit` must be a whole number up to "
                        "4294967295, not \"%s\"",
                        sl_quote(text).text);
        return;
    }
    if (ret->unit == SL_ENVOY_SECOND && number > RATE_MAX)
        sl_report_error(
            r->report, sl_yaml_node_get(map, "requests_per_unit")->place,
            "More than %d per second is the same as no limit" SL_HINT
            "unlimited: true",
            RATE_MAX);
    ret->requests = (uint32_t)number;
}

static void read_replaces(struct reading *r, const struct sl_yaml_node *map,
                          struct sl_envoy_node *ret)
{
    const struct sl_yaml_node *list = sl_yaml_node_get(map, "replaces");

    if (!list || list->kind == SL_NODE_EMPTY)
        return;
    if (list->kind != SL_NODE_LIST) {
        sl_report_error(r->report, list->place,
                        "`replaces` must be a list" SL_HINT
                        "replaces: [{ name: NAME }]");
        return;
    }
    for (const struct sl_yaml_node *n = list->child; n; n = n->next) {
        struct sl_str name;

        if (!check_keys(r, n, "an entry of replaces", replace_keys,
                        SL_LEN(replace_keys)))
            continue;
        name = read_text(r, n, "name");
        if (name.len == 0)
            sl_report_error(r->report, n->place,
                            "An entry of replaces needs a name");
        else if (sl_str_eq(name, ret->name))
            sl_report_error(r->report, n->place,
                            "A limit cannot replace itself");
    }
    ret->replaces = list;
}

static void read_limit(struct reading *r, const struct sl_yaml_node *node,
                       struct sl_envoy_node *ret)
{
    const struct sl_yaml_node *map = sl_yaml_node_get(node, "rate_limit");

    if (!map || map->kind == SL_NODE_EMPTY ||
        !check_keys(r, map, "rate_limit", limit_keys, SL_LEN(limit_keys)))
        return;
    ret->has_limit = true;
    ret->name = read_text(r, map, "name");
    if (ret->name.len > 0)
        ret->name_place = sl_yaml_node_get(map, "name")->place;
    ret->unlimited = read_bool(r, map, "unlimited");
    if (!ret->unlimited)
        read_unit(r, map, ret);
    else if (read_text(r, map, "unit").len > 0)
        sl_report_error(r->report, sl_yaml_node_get(map, "unit")->place,
                        "An unlimited limit has no unit. Leave it out");
    read_requests(r, map, ret);
    read_replaces(r, map, ret);
    if (++r->envoy->limit_count == SL_ENVOY_LIMITS + 1)
        sl_report_error(r->report, map->place,
                        "The configuration has more than %d limits",
                        SL_ENVOY_LIMITS);
}

/* ---- checks of a descriptor ---- */

static bool is_same(const struct sl_envoy_node *a,
                    const struct sl_envoy_node *b)
{
    return sl_str_eq(a->key, b->key) && sl_str_eq(a->value, b->value);
}

static void check_node(struct reading *r, const struct sl_envoy_node *node,
                       const struct sl_envoy_node *before)
{
    bool star = node->value.len > 0 &&
                memchr(node->value.at, '*', node->value.len) != NULL;

    if (node->key.len == 0)
        sl_report_error(r->report, node->place,
                        "A descriptor needs a key" SL_HINT
                        "key: remote_address");
    else if (memchr(node->key.at, '*', node->key.len) ||
             memchr(node->key.at, '=', node->key.len) ||
             memchr(node->key.at, '~', node->key.len))
        sl_report_error(r->report, node->place,
                        "A key must not contain *, = or ~");
    if (node->shared && !star)
        sl_report_error(r->report, node->place,
                        "share_threshold is valid only for values with a *");
    for (; before; before = before->next)
        if (node->key.len > 0 && is_same(node, before)) {
            sl_report_error(r->report, node->place,
                            "Duplicate descriptor. The first one is on line %u",
                            before->place.line);
            return;
        }
}

/* ---- what a policy does not have ---- */

static void warn_metric(struct reading *r, const struct sl_yaml_node *map,
                        const char *key)
{
    if (read_bool(r, map, key))
        sl_report_warning(
            r->report, sl_yaml_node_get(map, key)->key_place,
            "`%s` is not carried over. Metrics have the name of the limit, "
            "without values of callers; `sluice top` prints the busiest "
            "keys" SL_HINT "%s: false",
            key, key);
}

static void warn_useless(struct reading *r, const struct sl_yaml_node *map,
                         const char *key)
{
    sl_report_warning(r->report, sl_yaml_node_get(map, key)->key_place,
                      "`%s` has no effect here, nor in envoyproxy/ratelimit: "
                      "the descriptor has no rate_limit" SL_HINT
                      "%s: true beside each rate_limit below",
                      key, key);
}

/* Name every key that the policy has no place for. */
static void warn_dropped(struct reading *r, const struct sl_yaml_node *map,
                         const struct sl_envoy_node *node)
{
    const struct sl_yaml_node *metadata = sl_yaml_node_get(map, "metadata");
    const struct sl_yaml_node *limit = sl_yaml_node_get(map, "rate_limit");

    warn_metric(r, map, "detailed_metric");
    warn_metric(r, map, "value_to_metric");
    if (metadata && (metadata->child || metadata->text.len > 0))
        sl_report_warning(r->report, metadata->key_place,
                          "`metadata` is not carried over. Answers to Envoy "
                          "have no dynamic metadata; a route of Envoy can have "
                          "metadata" SL_HINT "metadata: {}");
    if (!node->has_limit && node->shadow)
        warn_useless(r, map, "shadow_mode");
    if (!node->has_limit && node->quota)
        warn_useless(r, map, "quota_mode");
    if (node->unlimited && node->requests > 0)
        sl_report_warning(
            r->report, sl_yaml_node_get(limit, "requests_per_unit")->key_place,
            "`requests_per_unit` has no effect beside `unlimited: true`, nor "
            "in envoyproxy/ratelimit" SL_HINT
            "rate_limit: { unlimited: true }");
}

static bool has_name(const struct sl_envoy_node *nodes, struct sl_str name)
{
    for (; nodes; nodes = nodes->next)
        if ((nodes->has_limit && sl_str_eq(nodes->name, name)) ||
            has_name(nodes->child, name))
            return true;
    return false;
}

/* A request has one domain, so only limits of the same file are replaced. */
static void warn_replaces(struct reading *r, const struct sl_envoy_node *nodes,
                          const struct sl_envoy_node *all)
{
    for (; nodes; nodes = nodes->next) {
        const struct sl_yaml_node *n =
            nodes->replaces ? nodes->replaces->child : NULL;

        for (; n; n = n->next) {
            struct sl_str name = sl_yaml_node_get(n, "name")->text;

            if (!has_name(all, name))
                sl_report_warning(
                    r->report, n->place,
                    "No limit of this domain is named \"%s\", so this entry "
                    "of replaces is not carried over" SL_HINT
                    "name: %s in the rate_limit that it replaces",
                    sl_quote(name).text, sl_quote(name).text);
        }
        warn_replaces(r, nodes->child, all);
    }
}

static void warn_names(struct reading *r, const struct sl_envoy_node *nodes)
{
    for (; nodes; nodes = nodes->next) {
        if (nodes->name.len > 0 &&
            !sl_str_eq(nodes->name, sl_str_c(nodes->limit)))
            sl_report_warning(
                r->report, nodes->name_place,
                "The limit \"%s\" is named %s in the policy and in metrics. "
                "A name is unique, and has at most %d letters, digits, dots, "
                "dashes and underscores" SL_HINT "name: %s",
                sl_quote(nodes->name).text, nodes->limit, NAME_MOST,
                nodes->limit);
        warn_names(r, nodes->child);
    }
}

/* ---- descriptors ---- */

static struct sl_envoy_node *
read_nodes(struct reading *r, const struct sl_yaml_node *list, unsigned depth);

static struct sl_envoy_node *
read_node(struct reading *r, const struct sl_yaml_node *map, unsigned depth)
{
    struct sl_envoy_node *node = sl_arena_take(r->envoy->arena, sizeof(*node));

    if (!node) {
        r->report->no_memory = true;
        return NULL;
    }
    *node = (struct sl_envoy_node){.place = map->place};
    if (!check_keys(r, map, "a descriptor", node_keys, SL_LEN(node_keys)))
        return node;
    node->key = read_text(r, map, "key");
    node->value = read_text(r, map, "value");
    node->shadow = read_bool(r, map, "shadow_mode");
    node->quota = read_bool(r, map, "quota_mode");
    node->shared = read_bool(r, map, "share_threshold");
    read_limit(r, map, node);
    warn_dropped(r, map, node);
    node->child =
        read_nodes(r, sl_yaml_node_get(map, "descriptors"), depth + 1);
    return node;
}

static struct sl_envoy_node *
read_nodes(struct reading *r, const struct sl_yaml_node *list, unsigned depth)
{
    struct sl_envoy_node *first = NULL, **last = &first;

    if (!list || list->kind == SL_NODE_EMPTY)
        return NULL;
    if (list->kind != SL_NODE_LIST || depth > SL_ENVOY_DEPTH) {
        sl_report_error(r->report, list->place,
                        depth > SL_ENVOY_DEPTH
                            ? "Descriptors are nested more than 16 levels deep"
                            : "`descriptors` must be a list");
        return NULL;
    }
    for (const struct sl_yaml_node *n = list->child; n; n = n->next) {
        struct sl_envoy_node *node = read_node(r, n, depth);

        if (!node)
            break;
        check_node(r, node, first);
        *last = node;
        last = &node->next;
    }
    return first;
}

/* ---- a file ---- */

/* Name the limits of the last domain, once the file has no errors. */
static void name_limits(struct reading *r)
{
    unsigned last = r->envoy->domain_count - 1;
    struct writing w = {.envoy = r->envoy,
                        .domain = r->envoy->domains[last].name};

    walk(&w, r->envoy->domains[last].nodes, name_node, NULL);
    warn_replaces(r, r->envoy->domains[last].nodes,
                  r->envoy->domains[last].nodes);
    warn_names(r, r->envoy->domains[last].nodes);
}

static void read_domain(struct reading *r, const struct sl_yaml_node *root)
{
    struct sl_envoy *envoy = r->envoy;
    struct sl_str domain = read_text(r, root, "domain");
    const struct sl_yaml_node *node = sl_yaml_node_get(root, "domain");

    if (domain.len == 0) {
        sl_report_error(r->report, root->place,
                        "A file needs a domain" SL_HINT "domain: my_domain");
        return;
    }
    for (unsigned i = 0; i < envoy->domain_count; i++)
        if (sl_str_eq(envoy->domains[i].name, domain)) {
            sl_report_error(r->report, node->place,
                            "Another file already has the domain \"%s\"",
                            sl_quote(domain).text);
            return;
        }
    if (envoy->domain_count == SL_ENVOY_DOMAINS) {
        sl_report_error(r->report, node->place,
                        "The configuration has more than %d domains",
                        SL_ENVOY_DOMAINS);
        return;
    }
    envoy->domains[envoy->domain_count].name = domain;
    envoy->domains[envoy->domain_count++].nodes =
        read_nodes(r, sl_yaml_node_get(root, "descriptors"), 1);
    if (r->report->errors == 0 && !r->report->no_memory)
        name_limits(r);
}

bool sl_envoy_read(struct sl_envoy *envoy, struct sl_report *report)
{
    static const struct sl_yaml_options nothing;
    struct reading r = {envoy, report};
    struct sl_yaml_node *root = sl_yaml_read(report, &nothing, envoy->arena);

    if (root && check_keys(&r, root, "the file", top_keys, SL_LEN(top_keys)))
        read_domain(&r, root);
    return root && report->errors == 0 && !report->no_memory;
}

/* ---- reading a folder ----
 *
 * Every *.yaml and *.yml, in the order of their names. Names that begin with a
 * dot (such as the links of a ConfigMap) are skipped.
 */

#define PATH_MOST 4096

struct name {
    struct name *next;
    char text[];
};

static bool is_wanted(const char *name)
{
    const char *dot = strrchr(name, '.');

    return name[0] != '.' && dot &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* Insert a name in order. False without memory. */
static bool add_name(struct name **list, const char *text,
                     struct sl_arena *arena)
{
    size_t len = strlen(text) + 1;
    struct name *name = sl_arena_take(arena, sizeof(*name) + len);

    if (!name)
        return false;
    memcpy(name->text, text, len);
    while (*list && strcmp((*list)->text, text) < 0)
        list = &(*list)->next;
    name->next = *list;
    *list = name;
    return true;
}

static int list_folder(const char *path, struct sl_arena *arena,
                       struct name **ret, struct sl_diag *diag)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    bool good = true;

    if (!folder)
        return sl_diag_error(diag, SLUICE_ESYS, "%s can't be read: %s", path,
                             strerror(errno));
    while (good && (entry = readdir(folder)) != NULL)
        if (is_wanted(entry->d_name))
            good = add_name(ret, entry->d_name, arena);
    closedir(folder);
    return good ? 0 : sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
}

/* Read one file. False: its errors were reported. */
static bool read_file(struct sl_envoy *envoy, const char *path,
                      sl_envoy_told_f *tell, void *ctx)
{
    struct sl_diag diag = {0};
    struct sl_report report;
    struct sl_buf text;
    bool good;
    int err;

    sl_buf_init(&text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
    err = sl_file_read(path, SL_YAML_BYTES, &text, &diag);
    sl_report_init(&report, path, sl_buf_str(&text), &sl_alloc_libc);
    if (err && err != SLUICE_EFULL) /* the reader reports it */
        sl_report_error(&report, (struct sl_source_pos){0, 0}, "%s",
                        diag.sentence);
    good = (!err || err == SLUICE_EFULL) && sl_envoy_read(envoy, &report);
    if (report.kept > 0 || report.no_memory)
        tell(ctx, &report);
    sl_report_done(&report);
    sl_buf_done(&text);
    return good;
}

static int read_all(struct sl_envoy *envoy, const char *path,
                    sl_envoy_told_f *tell, void *ctx, struct sl_diag *diag)
{
    char whole[PATH_MOST];
    struct name *names = NULL;
    int err = list_folder(path, envoy->arena, &names, diag);

    if (!err && !names)
        return sl_diag_error(diag, SLUICE_ECONF, "folder %s has no *.yaml file",
                             path);
    if (err)
        return err;
    for (; names; names = names->next) {
        snprintf(whole, sizeof(whole), "%s/%s", path, names->text);
        if (!read_file(envoy, whole, tell, ctx))
            err = SLUICE_ECONF;
    }
    return err;
}

int sl_envoy_load(struct sl_envoy *envoy, const char *path,
                  sl_envoy_told_f *tell, void *ctx, struct sl_diag *diag)
{
    struct stat about;

    envoy->domain_count = envoy->limit_count = 0;
    if (stat(path, &about))
        return sl_diag_error(diag, SLUICE_ESYS, "%s can't be read: %s", path,
                             strerror(errno));
    if (S_ISDIR(about.st_mode))
        return read_all(envoy, path, tell, ctx, diag);
    return read_file(envoy, path, tell, ctx) ? 0 : SLUICE_ECONF;
}
