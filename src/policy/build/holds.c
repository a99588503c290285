/* holds.c -- how long what is taken may be held, and who waits how long. */
#include "base/parse.h"
#include "policy/build/build.h"

#define HOLD_MAX_PRESET (3600 * SL_S)
#define HOLD_PRESET     (60 * SL_S)
#define WAIT_LONGEST    (55 * SL_S)
#define QUEUE_PRESET    1000
#define QUEUE_MOST      1000000
#define HOLD_LONGEST    (30 * 24 * 3600 * SL_S)

/* Neither nothing nor for ever. `most` is what `limit` allows. */
static sl_ns read_span(struct sl_build *b, const struct sl_node *map,
                       const char *key, sl_ns preset, sl_ns most,
                       const char *limit)
{
    const struct sl_node *node = sl_build_scalar(map, key);
    sl_ns span = sl_build_duration(b, map, key, preset);
    char text[32];

    if (!node || (span > 0 && span <= most))
        return span;
    sl_report_error(b->report, SL_AT(node),
                    "`%s` must be longer than 0 and at most %s%s", key,
                    sl_format_duration(most, text), limit);
    return preset < most ? preset : most;
}

void sl_build_hold_max(struct sl_build *b)
{
    b->policy->hold_max =
        read_span(b, b->root, "hold_max", HOLD_MAX_PRESET, HOLD_LONGEST, "");
}

void sl_build_wait(struct sl_build *b, const struct sl_node *node,
                   struct sl_route *route)
{
    if (sl_build_scalar(node, "wait"))
        route->wait = read_span(b, node, "wait", 0, WAIT_LONGEST, "");
}

sl_ns sl_build_hold_span(struct sl_build *b, const struct sl_node *node)
{
    sl_ns most = b->policy->hold_max;

    return read_span(b, node, "hold", HOLD_PRESET < most ? HOLD_PRESET : most,
                     most, ", the `hold_max` of the policy");
}

void sl_build_hold(struct sl_build *b, const struct sl_node *node,
                   struct sl_rule *rule)
{
    const struct sl_node *hold = sl_build_scalar(node, "hold");

    rule->queue = (unsigned)sl_build_number(b, node, "queue", 1, QUEUE_MOST,
                                            QUEUE_PRESET);
    if (rule->kind == SL_PERMITS)
        rule->hold = sl_build_hold_span(b, node);
    else if (hold && rule->kind != SL_KINDS)
        sl_report_error(b->report, SL_AT_KEY(hold),
                        "`hold` is valid only for concurrency limits. Limit "
                        "\"%.64s\" is a %s, and each check sets its own hold "
                        "time",
                        rule->name.at, sl_kind_name(rule->kind));
}
