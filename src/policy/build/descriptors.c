/* descriptors.c -- routes for what Envoy tells of a request. */
#include "policy/build/build.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MOST 1024

/* ---- one ---- */

static bool read_part(struct sl_build *b, const struct sl_node *item,
                      struct sl_descriptor_part *ret)
{
    struct sl_diag diag = {0};
    struct sl_str text = sl_build_keep(b, item->text);

    return sl_build_ok(b, item, sl_descriptor_part_read(text, ret, &diag),
                       &diag);
}

static void read_parts(struct sl_build *b, const struct sl_node *list,
                       struct sl_descriptor_part *parts,
                       struct sl_descriptor *ret)
{
    const struct sl_node *item = sl_build_first(list);

    ret->domain = sl_build_keep(b, item->text);
    ret->parts = parts;
    for (item = sl_build_next(list, item); item;
         item = sl_build_next(list, item)) {
        if (ret->count > 0 && parts[ret->count - 1].kind == SL_PART_REST) {
            sl_report_error(b->report, SL_AT(item),
                            "** matches all entries that follow. Put it last");
            return;
        }
        ret->count += read_part(b, item, &parts[ret->count]);
    }
}

/* "descriptor messaging message_type=marketing to_number" */
static struct sl_str make_text(struct sl_build *b, const struct sl_node *list)
{
    char text[TEXT_MOST] = "descriptor";
    size_t len = strlen(text);

    for (const struct sl_node *item = sl_build_first(list); item;
         item = sl_build_next(list, item)) {
        int n = snprintf(text + len, sizeof(text) - len, " %.*s",
                         SL_STR_ARG(item->text));

        if (n < 0 || (size_t)n >= sizeof(text) - len)
            break;
        len += (size_t)n;
    }
    return sl_build_keep(b, (struct sl_str){text, len});
}

void sl_build_descriptor(struct sl_build *b, const struct sl_node *list,
                         struct sl_route *route)
{
    unsigned most = sl_build_most(list);
    struct sl_descriptor_part *parts;

    route->is_descriptor = true;
    if (sl_build_refused(list) ||
        !sl_build_short(b, list, SL_DESCRIPTOR_PARTS + 1,
                        "parts of a descriptor"))
        return;
    if (!sl_build_first(list) || sl_build_first(list)->text.len == 0) {
        sl_hint(sl_report_error(b->report, SL_AT(list),
                                "A descriptor must begin with its domain"),
                "descriptor: [messaging, to_number]");
        return;
    }
    parts = sl_build_take(b, most + 1, sizeof(*parts));
    if (!parts)
        return;
    read_parts(b, list, parts, &route->descriptor);
    route->text = make_text(b, list);
    route->endpoint =
        sl_build_name_of(b, sl_str_from(route->text, strlen("descriptor ")));
}

void sl_build_replaces(struct sl_build *b, const struct sl_node *list,
                       struct sl_route *route)
{
    const struct sl_rule **rules;
    const struct sl_node *item;

    if (!list)
        return;
    rules = sl_build_take(b, sl_build_most(list) + 1, sizeof(struct sl_rule *));
    if (!rules)
        return;
    route->replaces = rules;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item)) {
        int rule = sl_build_find(b, &b->box->rules, item, "limit");

        if (rule >= 0 && !sl_build_twice(b, list, item, "Limit"))
            rules[route->replace_count++] = &b->rules[rule];
    }
}

/* ---- all of them ---- */

void sl_build_index_descriptors(struct sl_build *b, const struct sl_route *list,
                                unsigned count)
{
    unsigned *indices = sl_build_take(b, count + 1, sizeof(*indices));

    if (!indices)
        return;
    b->policy->descriptors = indices;
    for (unsigned i = 0; i < count; i++)
        if (list[i].is_descriptor && list[i].descriptor.domain.len > 0)
            indices[b->policy->descriptor_count++] = i;
}
