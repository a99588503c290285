/* takes.h -- the tables of takes in this folder.
 *
 * Each row is one take against the same key; `at` counts from the epoch.
 */
#ifndef SL_UNIT_CORE_TAKES_H
#define SL_UNIT_CORE_TAKES_H

#include "check.h"
#include "core/algorithm.h"
#include "limit.h"
#include "row.h"

#define MS(n)  ((sl_ns)(n)*SL_MS)
#define SEC(n) ((sl_ns)(n)*SL_S)
#define NONE   SL_NS_NONE

enum { YES = SL_ALLOW, NO = SL_DENY, NEVER = SL_NEVER };

/* TAKE leaves the wait away: 0. */
#define TAKE(...)                                                              \
    {                                                                          \
        __VA_ARGS__, 0                                                         \
    }

struct row {
    const char *why;
    sl_ns at;
    uint64_t cost;
    int outcome;
    uint64_t remaining;
    sl_ns retry_in;
    sl_ns reset_in;
    sl_ns wait;
};

static const struct sl_cell fresh = {
    {0, 0}
};

static inline struct sl_limit limit_of(enum sl_kind kind, const char *text)
{
    struct sl_limit_options options = {.quantum = SL_QUANTUM_NS};

    return rate_with(kind, text, &options);
}

static inline bool answer_is(const struct sl_answer *got, const struct row *row)
{
    bool good = CHECK_EQ(got->outcome, row->outcome);

    good &= CHECK_EQ(got->remaining, row->remaining);
    good &= CHECK_EQ(got->retry_in, row->retry_in);
    good &= CHECK_EQ(got->reset_in, row->reset_in);
    good &= CHECK_EQ(got->wait, row->wait);
    if (!good)
        printf("# in the row: %s\n", row->why);
    return good;
}

/* Go through the rows, starting with `cell`; returns the last cell. */
static inline struct sl_cell rows_hold(const struct sl_limit *limit,
                                       struct sl_cell cell,
                                       const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sl_take_result got =
            sl_take(limit, cell, rows[i].cost, rows[i].at);

        answer_is(&got.answer, &rows[i]);
        cell = got.next;
    }
    return cell;
}

#define ROWS_HOLD(limit, cell, rows)                                           \
    rows_hold((limit), (cell), (rows), SL_LEN(rows))

#endif
