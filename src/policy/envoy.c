/* write.c -- the configuration of envoyproxy/ratelimit as a policy of ours.
 *
 * Names. A limit is called by its `name`, else by its path, as their metrics
 * are: messaging.message_type_marketing.to_number. What may not be in a name
 * becomes "-", and where two would be called alike, the later has a number.
 *
 * Order. At each level: exact values, then those with stars in the order of
 * the file, then any value. What is below a descriptor stands before what
 * could match in its place; and behind a descriptor that others could match
 * too stands a route for all else below it, without limits: there is no way
 * back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/envoy.h"
#include "policy/print/printer.h"

#define NAME_MOST 64

struct writing {
    struct sl_envoy *envoy;
    struct sl_buf *out;
    struct sl_str domain;
    const struct sl_envoy_node *path[SL_ENVOY_DEPTH];
    unsigned depth;
};

typedef int sl_yaml_node_f(struct writing *w, struct sl_envoy_node *node);

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

/* In the square of the limits: a thousand take some milliseconds. */
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

static int name_node(struct writing *w, struct sl_envoy_node *node)
{
    char name[NAME_MOST + 1];
    size_t len;

    if (!node->has_limit)
        return 0;
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
    return 0;
}

/* ---- walking ---- */

static int walk(struct writing *w, struct sl_envoy_node *nodes,
                sl_yaml_node_f *f, sl_yaml_node_f *after);

static int visit(struct writing *w, struct sl_envoy_node *node,
                 sl_yaml_node_f *f, sl_yaml_node_f *after)
{
    int err;

    if (w->depth == SL_ENVOY_DEPTH)
        return 0; /* it was refused when it was read */
    w->path[w->depth++] = node;
    err = walk(w, node->child, f, after);
    if (!err)
        err = f(w, node);
    if (!err && after)
        err = after(w, node);
    w->depth--;
    return err;
}

/* Those of a level, in the order in which they are looked for. */
static int walk(struct writing *w, struct sl_envoy_node *nodes,
                sl_yaml_node_f *f, sl_yaml_node_f *after)
{
    int err = 0;

    for (int r = 0; r <= 2; r++)
        for (struct sl_envoy_node *n = nodes; n && !err; n = n->next)
            if (rank(n) == r)
                err = visit(w, n, f, after);
    return err;
}

static int walk_all(struct writing *w, sl_yaml_node_f *f, sl_yaml_node_f *after)
{
    int err = 0;

    for (unsigned i = 0; i < w->envoy->domain_count && !err; i++) {
        w->domain = w->envoy->domains[i].name;
        w->depth = 0;
        err = walk(w, w->envoy->domains[i].nodes, f, after);
    }
    return err;
}

/* ---- limits ---- */

/* Is any value of the path told apart? */
static bool is_open(const struct writing *w)
{
    for (unsigned i = 0; i < w->depth; i++)
        if (rank(w->path[i]) == 2 ||
            (has_star(w->path[i]) && !w->path[i]->shared))
            return true;
    return false;
}

static int write_rate(struct writing *w, const struct sl_envoy_node *node)
{
    static const char *const periods[SL_ENVOY_UNITS] = {
        "s", "min", "hour", "day", "7d", "30d", "365d"};

    if (node->unlimited)
        return sl_buf_addf(w->out, "unlimited");
    if (node->requests == 0)
        return sl_buf_addf(w->out, "none");
    return sl_buf_addf(w->out, "%" PRIu32 "/%s", node->requests,
                       periods[node->unit]);
}

static int write_limit(struct writing *w, struct sl_envoy_node *node)
{
    int err;

    if (!node->has_limit)
        return 0;
    err = sl_buf_addf(
        w->out, "  %s: { kind: fixed-window, per: %s, rate: ", node->limit,
        is_open(w) ? "descriptor, missing: skip" : "[]");
    if (!err)
        err = write_rate(w, node);
    if (!err && node->shadow)
        err = sl_buf_addf(w->out, ", mode: shadow");
    return err ? err : sl_buf_addf(w->out, " }\n");
}

/* ---- routes ---- */

static int write_part(struct writing *w, const struct sl_envoy_node *node)
{
    char mark = node->shared ? '~' : '=';
    struct sl_buf text;
    int err;

    sl_buf_init(&text, SL_YAML_BYTES, w->out->alloc);
    err = sl_buf_add(&text, node->key);
    if (!err && node->value.len > 0)
        err = sl_buf_addf(&text, "%c", mark);
    if (!err && node->value.len > 0)
        err = sl_buf_add(&text, node->value);
    if (!err)
        err = sl_buf_addf(w->out, ", ");
    if (!err)
        err = sl_print_scalar(w->out, sl_buf_str(&text), true);
    sl_buf_done(&text);
    return err;
}

static int write_pattern(struct writing *w)
{
    int err = sl_buf_addf(w->out, "  - descriptor: [");

    if (!err)
        err = sl_print_scalar(w->out, w->domain, true);
    for (unsigned i = 0; i < w->depth && !err; i++)
        err = write_part(w, w->path[i]);
    return err;
}

/* What a limit replaces, by the names that the others have here. */
struct search {
    struct sl_str name;
    struct writing *w;
    unsigned found;
};

static int write_named(struct search *s, const struct sl_envoy_node *nodes)
{
    int err = 0;

    for (; nodes && !err; nodes = nodes->next) {
        if (nodes->has_limit && sl_str_eq(nodes->name, s->name))
            err = sl_buf_addf(s->w->out, "%s%s", s->found++ > 0 ? ", " : "",
                              nodes->limit);
        if (!err)
            err = write_named(s, nodes->child);
    }
    return err;
}

static int write_replaces(struct writing *w, const struct sl_envoy_node *node)
{
    struct search s = {.w = w};
    size_t before = w->out->len;
    int err = sl_buf_addf(w->out, "    replaces: [");

    for (const struct sl_yaml_node *n = node->replaces->child; n && !err;
         n = n->next) {
        s.name = sl_yaml_node_get(n, "name")->text;
        for (unsigned i = 0; i < w->envoy->domain_count && !err; i++)
            err = write_named(&s, w->envoy->domains[i].nodes);
    }
    if (s.found == 0)
        w->out->len = before; /* nobody is called so, and nothing happens */
    else if (!err)
        err = sl_buf_addf(w->out, "]\n");
    return err;
}

static int write_route(struct writing *w, struct sl_envoy_node *node)
{
    int err;

    if (!node->has_limit)
        return 0;
    err = write_pattern(w);
    if (!err)
        err = sl_buf_addf(w->out, "]\n    limits: [%s]\n    count: %s\n",
                          node->limit, node->quota ? "quota" : "each");
    if (!err && node->replaces)
        err = write_replaces(w, node);
    return err;
}

/* Could one that is looked for later match what this one does? */
static bool is_covered(const struct writing *w,
                       const struct sl_envoy_node *node)
{
    const struct sl_envoy_node *n = NULL;

    if (w->depth > 1) {
        n = w->path[w->depth - 2]->child;
    } else {
        for (unsigned i = 0; i < w->envoy->domain_count; i++)
            if (sl_str_eq(w->envoy->domains[i].name, w->domain))
                n = w->envoy->domains[i].nodes;
    }
    for (; n; n = n->next)
        if (n != node && sl_str_eq(n->key, node->key) &&
            (rank(n) > rank(node) || (rank(n) == 1 && rank(node) == 1)))
            return true;
    return false;
}

static int write_rest(struct writing *w, struct sl_envoy_node *node)
{
    int err;

    if (!is_covered(w, node))
        return 0;
    err = write_pattern(w);
    return err ? err
               : sl_buf_addf(w->out, ", \"**\"]\n    limits: []\n"
                                     "    count: each\n");
}

/* ---- all of it ---- */

int sl_envoy_write(struct sl_envoy *envoy, struct sl_buf *out)
{
    struct writing w = {.envoy = envoy, .out = out};
    int err = walk_all(&w, name_node, NULL);

    if (!err)
        err = sl_buf_addf(out, "sluice: 1\n%s",
                          envoy->limit_count > 0 ? "\nlimits:\n" : "");
    if (!err)
        err = walk_all(&w, write_limit, NULL);
    if (!err && envoy->limit_count > 0)
        err = sl_buf_addf(out, "\nroutes:\n");
    if (!err && envoy->limit_count > 0)
        err = walk_all(&w, write_route, write_rest);
    return err ? err : sl_buf_addf(out, "\ndefault: []\n");
}

static int dump_node(struct writing *w, struct sl_envoy_node *node)
{
    static const char *const units[SL_ENVOY_UNITS] = {
        "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"};
    int err = 0;

    if (!node->has_limit)
        return 0;
    err = sl_buf_add(w->out, w->domain);
    for (unsigned i = 0; i < w->depth && !err; i++)
        err = sl_buf_addf(w->out, ".%.*s%s%.*s", SL_STR_ARG(w->path[i]->key),
                          w->path[i]->value.len > 0 ? "_" : "",
                          SL_STR_ARG(w->path[i]->value));
    if (err)
        return err;
    return sl_buf_addf(w->out,
                       ": unit=%s requests_per_unit=%" PRIu32
                       ", shadow_mode: %s, quota_mode: %s\n",
                       node->unlimited ? "UNKNOWN" : units[node->unit],
                       node->requests, node->shadow ? "true" : "false",
                       node->quota ? "true" : "false");
}

int sl_envoy_dump(const struct sl_envoy *envoy, struct sl_buf *out)
{
    struct writing w = {.envoy = (struct sl_envoy *)envoy, .out = out};

    return walk_all(&w, dump_node, NULL);
}
