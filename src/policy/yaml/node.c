/* node.c -- nodes of a policy file.
 *
 * Twins, children with the same key, are found by sorting: a map may have a
 * hundred thousand children, and comparing each with each would take minutes.
 */
#include "policy/yaml/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/scan.h"

void sl_node_refuse(struct sl_node *node)
{
    node->kind = SL_NODE_EMPTY;
    node->refused = true;
    node->child = NULL;
    node->count = 0;
}

struct sl_node *sl_node_get(const struct sl_node *map, const char *key)
{
    struct sl_str name = sl_str_c(key);

    if (!map || map->kind != SL_NODE_MAP)
        return NULL;
    for (struct sl_node *n = map->child; n; n = n->next)
        if (sl_str_eq(n->key, name))
            return n;
    return NULL;
}

static int compare_keys(const struct sl_node *a, const struct sl_node *b)
{
    size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
    int order = memcmp(a->key.at, b->key.at, len);

    if (order)
        return order;
    return (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

static int compare(const void *left, const void *right)
{
    const struct sl_node *a = *(struct sl_node *const *)left;
    const struct sl_node *b = *(struct sl_node *const *)right;
    struct sl_place p = a->key_place, q = b->key_place;
    int order = compare_keys(a, b);

    if (order)
        return order;
    if (p.line != q.line)
        return p.line < q.line ? -1 : 1;
    return (p.column > q.column) - (p.column < q.column);
}

/* Complain about each that has the key of the one before. Those are marked by
 * a line of 0; returns whether there are any. */
static bool mark_twins(struct sl_reader *r, struct sl_node **list, size_t count)
{
    struct sl_node *first = list[0];
    bool any = false;

    for (size_t i = 1; i < count; i++) {
        if (compare_keys(first, list[i])) {
            first = list[i];
            continue;
        }
        sl_report_error(r->report, list[i]->key_place,
                        "Duplicate key \"%s\". The first one is on line %u, "
                        "column %u",
                        sl_quote(first->key).text, first->key_place.line,
                        first->key_place.column);
        list[i]->key_place.line = 0;
        any = true;
    }
    return any;
}

static void drop_marked(struct sl_node *map)
{
    struct sl_node **link = &map->child;

    while (*link) {
        if ((*link)->key_place.line > 0) {
            link = &(*link)->next;
            continue;
        }
        *link = (*link)->next;
        map->count--;
    }
}

void sl_reader_twins(struct sl_reader *r, struct sl_node *map)
{
    const struct sl_alloc *alloc = r->report->alloc;
    size_t size = map->count * sizeof(struct sl_node *);
    struct sl_node **list;
    size_t count = 0;

    if (map->count < 2)
        return;
    list = sl_alloc_new(alloc, size);
    if (!list) {
        r->report->no_memory = r->stop = true;
        return;
    }
    for (struct sl_node *n = map->child; n; n = n->next)
        list[count++] = n;
    qsort(list, count, sizeof(struct sl_node *), compare);
    if (mark_twins(r, list, count))
        drop_marked(map);
    sl_alloc_free(alloc, list, size);
}
