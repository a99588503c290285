/* outside.c -- what came from the environment or from files.
 *
 * A policy does not know any more which of its values may be secrets, and
 * whoever prints it must. So they are put down with their paths, in order:
 *
 *     limits:
 *       api:
 *         deny: { message: "Ask ${ENV:WHOM}." }
 *
 * becomes "\nlimits\napi\ndeny\nmessage". No key has a newline.
 *
 * Bodies are left out: they are printed while they are read (errors.c).
 */
#include "policy/policy_int.h"

#include <stdlib.h>
#include <string.h>

/* A way through the tree. */
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
