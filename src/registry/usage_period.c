/* usage_period.c -- the period of an amount.
 *
 * An amount has the period of its subject when it was taken. While the registry
 * does not answer, a subject may be unknown: its plan, and whether it has
 * billing periods of its own. Then the amount is recorded in the period that
 * the subject has used at that time, and judged by the plan of the records
 * there. Without one, it is the period of the limit, and the next record tells
 * the plan.
 */
#include "registry/registry_int.h"
#include "registry/usage_db.h"

void sl_usage_entry_period(struct sl_usage_entry *u,
                           const struct sl_limit *numbers)
{
    u->end = sl_limit_period(numbers, u->start).end;
    u->last_day = sl_limit_last_day(numbers, u->end);
}

/* Leased units are of a known period. */
bool sl_usage_is_guess(const struct sl_usage_entry *u)
{
    return u->cap == SL_USAGE_CAP_KEPT && u->plan.len == 0 && u->start > 0 &&
           u->node.len == 0 && !u->reset;
}

int sl_usage_find_period(struct sl_database *db, struct sl_usage_entry *u)
{
    sl_ns start, end;
    int64_t last_day;
    int found = sl_query_one(db, SL_QUERY_PERIOD_AT, "tttn nnn", u->scope,
                             u->id, u->limit, u->at, &start, &end, &last_day);

    if (found != 1 || start == u->start)
        return found < 0 ? found : 0;
    u->start = start;
    u->end = end;
    u->last_day = last_day;
    return 0;
}
