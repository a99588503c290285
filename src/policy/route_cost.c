/* route_cost.c -- `cost` of a route: what a request costs that gives no cost.
 *
 *     cost: 5                              of every limit but permits
 *     cost: { search: 5, tokens: body./max_tokens default 1000 }
 *
 * A cost is a number, or read from the request: header.NAME, body.POINTER (a
 * JSON pointer), size (bytes of the body) or size/1KiB (begun KiB).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "policy/policy_int.h"
#include "wire/json.h"

#define SOURCES_HINT                                                           \
    "Write a number, header.NAME, body./POINTER for a value in the "           \
    "JSON body, size for the bytes of the body, or size/1KiB"

/* Cuts " default N" off. False if N is not a cost. */
static bool read_default(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_str *source, struct sl_route_cost *ret)
{
    static const char word[] = " default ";
    const size_t len = sizeof(word) - 1;
    const char *at = memmem(source->at, source->len, word, len);
    struct sl_str number;

    if (!at)
        return true;
    number = sl_str_from(*source, (size_t)(at - source->at) + len);
    source->len = (size_t)(at - source->at);
    ret->has_default =
        !sl_parse_count(number, &ret->number, NULL) && ret->number > 0;
    return ret->has_default ||
           sl_build_error(b, node,
                          "\"%.64s\" must end in a count of at least 1" SL_HINT
                          "body./max_tokens default 1000",
                          sl_build_shown(node).text);
}

static bool read_size(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_str unit, struct sl_route_cost *ret)
{
    ret->from = SL_COST_FROM_SIZE;
    ret->bytes = 1;
    return unit.len == 0 ||
           (unit.at[0] == '/' &&
            !sl_parse_size(sl_str_from(unit, 1), &ret->bytes, NULL) &&
            ret->bytes > 0) ||
           sl_build_error(b, node,
                          "\"%.64s\" is not a size" SL_HINT "size/1KiB",
                          sl_build_shown(node).text);
}

static bool read_source(struct sl_build *b, const struct sl_yaml_node *node,
                        struct sl_str source, struct sl_route_cost *ret)
{
    struct sl_yaml_node item = *node;

    if (sl_str_begins(source, SL_STR("header."))) {
        item.text = sl_build_keep(b, source);
        ret->from = SL_COST_FROM_HEADER;
        ret->source = sl_build_header(b, &item);
        return ret->source.len > 0;
    }
    if (sl_str_begins(source, SL_STR("body."))) {
        ret->from = SL_COST_FROM_BODY;
        ret->source = sl_build_pointer(b, node, sl_str_from(source, 5));
        return ret->source.len > 0;
    }
    if (sl_str_eq(source, SL_STR("size")) ||
        sl_str_begins(source, SL_STR("size/")))
        return read_size(b, node, sl_str_from(source, 4), ret);
    return sl_build_error(b, node, "Unknown cost \"%.64s\". " SOURCES_HINT,
                          sl_build_shown(node).text);
}

static bool read_cost(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_route_cost *ret)
{
    struct sl_str source = node->text;

    ret->text = sl_build_keep(b, node->text);
    if (sl_parse_count(source, &ret->number, NULL))
        return read_default(b, node, &source, ret) &&
               read_source(b, node, source, ret);
    ret->from = SL_COST_FROM_POLICY;
    return ret->number > 0 ||
           sl_build_error(b, node,
                          "A cost of 0 counts nothing. Remove the limit from "
                          "the route instead");
}

static void warn_of_costs(struct sl_build *b, const struct sl_yaml_node *node,
                          const struct sl_route *route,
                          const struct sl_route_cost *cost)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        if (cost->from == SL_COST_FROM_POLICY &&
            (cost->rule ? cost->rule == route->rules[i]
                        : route->rules[i]->kind != SL_PERMITS))
            sl_build_warn_of_cost(b, node, route->rules[i], cost->number);
}

/* The limit of the route that the key names, or NULL. */
static const struct sl_rule *find_rule(struct sl_build *b,
                                       const struct sl_yaml_node *node,
                                       const struct sl_route *route)
{
    struct sl_yaml_node name = *node;

    for (unsigned i = 0; i < route->rule_count; i++)
        if (sl_str_eq(route->rules[i]->name, node->key))
            return route->rules[i];
    name.text = node->key;
    name.place = node->key_place;
    if (!sl_build_refused(b->limits) &&
        sl_build_find(b, &b->box->rules, &name, "limit") >= 0)
        sl_build_key_error(b, node,
                           "`cost` must name a limit of the route. \"%.64s\" "
                           "is not in its `limits`",
                           sl_build_shown(&name).text);
    return NULL;
}

static void add_cost(struct sl_build *b, const struct sl_yaml_node *node,
                     const struct sl_rule *rule, const struct sl_route *route,
                     struct sl_prechecks *guards)
{
    struct sl_route_cost *list =
        (struct sl_route_cost *)(uintptr_t)guards->costs;
    struct sl_route_cost *cost = &list[guards->cost_count];

    cost->rule = rule;
    if (node->kind != SL_NODE_SCALAR || !read_cost(b, node, cost))
        return;
    if (route->is_descriptor && cost->from != SL_COST_FROM_POLICY) {
        sl_build_error(b, node,
                       "A descriptor has neither headers nor a body. Write a "
                       "number, or let the proxy send `hits_addend`");
        return;
    }
    guards->cost_count++;
    warn_of_costs(b, node, route, cost);
}

void sl_build_costs(struct sl_build *b, const struct sl_yaml_node *node,
                    const struct sl_route *route, struct sl_prechecks *guards)
{
    const struct sl_rule *rule;

    if (!node || !sl_build_short(b, node, SL_PARTS, "costs of one route"))
        return;
    guards->costs = sl_build_take(b, SL_PARTS, sizeof(*guards->costs));
    if (!guards->costs)
        return;
    if (node->kind != SL_NODE_MAP)
        add_cost(b, node, NULL, route, guards);
    else
        for (const struct sl_yaml_node *n = node->child; n; n = n->next)
            if ((rule = find_rule(b, n, route)))
                add_cost(b, n, rule, route, guards);
}

static void print_cost(struct sl_printer *p, const char *key,
                       const struct sl_route_cost *cost)
{
    if (cost->from == SL_COST_FROM_POLICY)
        sl_print_number(p, key, cost->number);
    else
        sl_print_text(p, key, cost->text);
}

void sl_print_costs(struct sl_printer *p, const struct sl_prechecks *guards)
{
    const struct sl_route_cost *costs = guards->costs;
    char name[SL_NAME_MAX + 1];

    if (guards->cost_count == 0)
        return;
    if (!costs[0].rule) {
        print_cost(p, "cost", &costs[0]);
        return;
    }
    sl_print_open(p, SL_STR("cost"));
    for (unsigned i = 0; i < guards->cost_count; i++) {
        snprintf(name, sizeof(name), "%.*s", SL_STR_ARG(costs[i].rule->name));
        print_cost(p, name, &costs[i]);
    }
    sl_print_close(p);
}
