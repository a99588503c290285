/* row.h -- what the tables of this folder are made of.
 *
 * Each row is one take against the same key; `at` counts from the epoch.
 */
#ifndef SL_UNIT_CORE_ROW_H
#define SL_UNIT_CORE_ROW_H

#include "check.h"
#include "core/take.h"

#define MS(n)  ((sl_ns)(n)*SL_MS)
#define SEC(n) ((sl_ns)(n)*SL_S)
#define NONE   SL_NS_NONE

enum { YES = SL_ALLOW, NO = SL_DENY, NEVER = SL_NEVER };

/* Rows are written through macros, or clang-format would align them and pass
 * 80 columns. TAKE leaves the wait away: 0. */
#define ROW(...)                                                               \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
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

/* The limit that `text` describes; a refusal is a failed check. */
static inline struct sl_limit limit_in(enum sl_kind kind, const char *text,
                                       const struct sl_limit_options *options)
{
    struct sl_limit limit = {.count = 0};
    struct sl_diag diag = {.line = 0};
    struct sl_rate rate;
    int err = sl_parse_rate(sl_str_c(text), &rate, &diag);

    if (!err)
        err = sl_limit_init(&limit, kind, &rate, options, &diag);
    if (!CHECK_EQ(err, 0))
        printf("# %s: %s\n", text, diag.sentence);
    return limit;
}

static inline struct sl_limit limit_of(enum sl_kind kind, const char *text)
{
    struct sl_limit_options options = {.quantum = SL_QUANTUM_NS};

    return limit_in(kind, text, &options);
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
