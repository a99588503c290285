/* marks.c -- `thresholds` of a limit: how much of it is used when somebody is
 * told. */
#include "base/parse.h"
#include "policy/build/build.h"

static bool has_marks(const struct sl_rule *rule)
{
    return rule->kind == SL_QUOTA || rule->kind == SL_LEVEL;
}

/* "80" or "80%". */
static bool read_mark(struct sl_build *b, const struct sl_node *item,
                      uint64_t *ret)
{
    struct sl_str text = item->text;

    if (text.len > 1 && text.at[text.len - 1] == '%')
        text.len--;
    if (!sl_parse_number(text, ret, NULL) && *ret > 0 && *ret <= SL_MARK_MAX)
        return true;
    sl_report_error(b->report, SL_AT(item),
                    "A threshold must be a percentage from 1%% to %d%%, not "
                    "\"%.64s\"",
                    SL_MARK_MAX, sl_build_shown(item).text);
    return false;
}

static void add_mark(struct sl_build *b, const struct sl_node *item,
                     struct sl_marks *marks)
{
    uint64_t mark = 0;

    if (!read_mark(b, item, &mark))
        return;
    if (marks->count > 0 && marks->list[marks->count - 1] >= mark)
        sl_report_error(b->report, SL_AT(item),
                        "Thresholds must increase. %.64s is not above %u%%",
                        sl_build_shown(item).text,
                        (unsigned)marks->list[marks->count - 1]);
    else
        marks->list[marks->count++] = (uint16_t)mark;
}

void sl_build_marks(struct sl_build *b, const struct sl_node *limit,
                    struct sl_rule *rule)
{
    const struct sl_node *list = sl_node_get(limit, "thresholds");

    if (!list || sl_build_refused(list)) {
        if (has_marks(rule))
            rule->marks = (struct sl_marks){
                {80, 100},
                2
            };
        return;
    }
    if (!has_marks(rule) && rule->kind != SL_KINDS) {
        sl_report_error(b->report, SL_AT_KEY(list),
                        "Thresholds are valid only for quotas and levels. A "
                        "%s has none",
                        sl_kind_name(rule->kind));
        return;
    }
    if (!sl_build_short(b, list, SL_MARKS, "thresholds"))
        return;
    for (const struct sl_node *i = sl_build_first(list); i;
         i = sl_build_next(list, i))
        add_mark(b, i, &rule->marks);
}
