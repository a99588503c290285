/* schema.c -- is each key where it belongs?
 *
 * A map is compared with the rows of its level. Keys that are unknown or of a
 * later version are taken out after saying so; values are judged in
 * schema_value.c, which comes back here for the maps below. The reader has
 * bounded the depth, and with it the recursion.
 */
#include "policy/yaml/schema.h"

#include "base/scan.h"
#include "policy/yaml/schema_table.h"

/* The labels of the levels that have the key, or an empty list. */
static void list_owners(struct sl_str name, struct sl_schema_list *ret)
{
    const struct sl_schema_key *found[SL_LEVELS];
    unsigned count = 0;

    ret->text[0] = '\0';
    for (unsigned level = 0; level < SL_LEVELS; level++) {
        const struct sl_schema_key *row =
            sl_schema_find((enum sl_schema_level)level, name);

        if (row && row->when != SL_WHEN_LATER)
            found[count++] = row;
    }
    for (unsigned i = 0; i < count; i++)
        sl_schema_list_add(ret,
                           sl_str_c(sl_schema_parts[found[i]->level].label),
                           i + 1 == count);
}

static void list_keys(enum sl_schema_level level, struct sl_schema_list *ret)
{
    const struct sl_schema_key *row = sl_schema_next(level, NULL), *next;

    ret->text[0] = '\0';
    for (; row; row = next) {
        next = sl_schema_next(level, row);
        while (next && next->when == SL_WHEN_LATER)
            next = sl_schema_next(level, next);
        if (row->when != SL_WHEN_LATER)
            sl_schema_list_add(ret, sl_str_c(row->name), !next);
    }
}

/* The key is none of this level's. */
static void refuse_key(const struct sl_node *node, enum sl_schema_level level,
                       struct sl_report *report)
{
    const char *label = sl_schema_parts[level].label, *near;
    struct sl_quoted key = sl_quote(node->key);
    struct sl_schema_list list;

    if (sl_report_full(report)) {
        sl_report_error(report, node->key_place, "Unknown key \"%s\" in %s",
                        key.text, label);
        return;
    }
    list_owners(node->key, &list);
    if (list.text[0]) {
        sl_report_error(report, node->key_place,
                        "Key \"%s\" is not valid in %s. It belongs in %s",
                        key.text, label, list.text);
        return;
    }
    near = sl_schema_near_key(level, node->key);
    if (near) {
        sl_hint(sl_report_error(report, node->key_place,
                                "Unknown key \"%s\" in %s", key.text, label),
                "%s", near);
        return;
    }
    list_keys(level, &list);
    sl_report_error(report, node->key_place,
                    "Unknown key \"%s\" in %s. Valid keys: %s", key.text, label,
                    list.text);
}

/* Check a child. False if it must be taken out. */
static bool check_child(struct sl_node *node, enum sl_schema_level level,
                        struct sl_report *report)
{
    const struct sl_schema_key *row = sl_schema_find(level, node->key);

    if (!row)
        row = sl_schema_any(level);
    if (!row) {
        refuse_key(node, level, report);
        return false;
    }
    if (row->when == SL_WHEN_LATER) {
        sl_report_error(report, node->key_place,
                        "Key \"%s\" of %s is not available in this version",
                        row->name, sl_schema_parts[level].label);
        return false;
    }
    sl_schema_check_value(node, row, report);
    return true;
}

static void check_missing(const struct sl_node *map, enum sl_schema_level level,
                          struct sl_report *report)
{
    const struct sl_schema_key *row = NULL;
    struct sl_place place = map->key_place.line ? map->key_place : map->place;

    while ((row = sl_schema_next(level, row))) {
        if (row->when != SL_WHEN_MUST || sl_node_get(map, row->name))
            continue;
        sl_hint(sl_report_error(report, place, "Missing key in %s: \"%s\"",
                                sl_schema_parts[level].label, row->name),
                "%s: %s", row->name, row->example);
    }
}

void sl_schema_check_map(struct sl_node *map, enum sl_schema_level level,
                         struct sl_report *report)
{
    struct sl_node **link = &map->child;

    while (*link) {
        if (check_child(*link, level, report)) {
            link = &(*link)->next;
            continue;
        }
        *link = (*link)->next;
        map->count--;
    }
    check_missing(map, level, report);
}

void sl_schema_check(struct sl_node *root, struct sl_report *report)
{
    if (root->kind == SL_NODE_EMPTY)
        return; /* refused by the reader, which said so */
    if (root->kind == SL_NODE_MAP) {
        sl_schema_check_map(root, SL_LEVEL_TOP, report);
        return;
    }
    sl_hint(sl_report_error(report, root->place,
                            "A policy must be a map of keys and values, not %s",
                            root->kind == SL_NODE_LIST ? "a list" : "a text"),
            "sluice: 1");
    sl_node_refuse(root);
}
