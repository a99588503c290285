/* permits.c -- permits and levels, row by row. */
#include "takes.h"

static void permits(void)
{
    static const struct {
        int64_t delta; /* given back first; 0: nothing */
        struct row row;
    } rows[] = {
        {0,  {"a new key", 0, 0, YES, 3, NONE, NONE, 0}                  },
        {0,  {"two of three", 0, 2, YES, 1, NONE, NONE, 0}               },
        {0,  {"one left, not two", 0, 2, NO, 1, NONE, NONE, 0}           },
        {0,  {"more than there are", 0, 4, NEVER, 1, NONE, NONE, 0}      },
        {0,  {"everything", 0, UINT64_MAX, NEVER, 1, NONE, NONE, 0}      },
        {0,  {"the last", 0, 1, YES, 0, NONE, NONE, 0}                   },
        {0,  {"looking is free", 0, 0, YES, 0, NONE, NONE, 0}            },
        {0,  {"no clock helps", SL_TIME_END - 1, 1, NO, 0, NONE, NONE, 0}},
        {-1, {"one comes back", 0, 1, YES, 0, NONE, NONE, 0}             },
        {-9, {"never below zero", 0, 0, YES, 3, NONE, NONE, 0}           },
        {5,  {"a charge beyond the limit", 0, 1, NO, 0, NONE, NONE, 0}   },
        {-2, {"is real", 0, 1, NO, 0, NONE, NONE, 0}                     },
        {-1, {"to the last", 0, 1, YES, 0, NONE, NONE, 0}                },
    };
    struct sl_limit limit = limit_of(SL_PERMITS, "3");
    struct sl_cell cell = fresh;

    CASE("permits: 3");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        if (rows[i].delta)
            cell =
                sl_adjust(&limit, cell, rows[i].delta, 0, rows[i].row.at).next;
        cell = rows_hold(&limit, cell, &rows[i].row, 1);
    }
}

static void empty(void)
{
    struct sl_limit limit = limit_of(SL_PERMITS, "3");
    struct sl_cell cell = sl_take(&limit, fresh, 3, SEC(5)).next;

    CASE("permits: nothing held is the cell of zeros");
    CHECK(!sl_cell_eq(cell, fresh));
    cell = sl_adjust(&limit, cell, -3, SEC(5), SEC(6)).next;
    CHECK(sl_cell_eq(cell, fresh));
}

static void levels(void)
{
    static const struct row rows[] = {
        TAKE("the most there can be", 0, SL_AMOUNT_MAX, YES, 0, NONE, NONE),
        TAKE("is all", 0, 1, NO, 0, NONE, NONE),
        TAKE("one more is never", 0, SL_AMOUNT_MAX + 1, NEVER, 0, NONE, NONE),
    };
    struct sl_limit limit = limit_of(SL_LEVEL, "9007199254740992");
    struct sl_cell cell;
    struct sl_take_result got;

    CASE("levels: up to 2^53, and no further");
    cell = ROWS_HOLD(&limit, fresh, rows);
    got = sl_adjust(&limit, cell, (int64_t)SL_AMOUNT_MAX, 0, 0);
    got = sl_adjust(&limit, got.next, (int64_t)SL_AMOUNT_MAX, 0, 0);
    CHECK_EQ(got.answer.remaining, 0);
    CHECK_EQ(got.next.w[1], SL_AMOUNT_MAX);
    CHECK_EQ(got.next.w[0] >> SL_CELL_W0_BITS, 0);
    CHECK_EQ(got.next.w[1] >> SL_CELL_W1_BITS, 0);
}

static void changes(void)
{
    struct sl_limit limit = limit_of(SL_LEVEL, "10");
    struct sl_cell cell = sl_take(&limit, fresh, 7, 0).next;

    CASE("levels: a change keeps what is held");
    limit = limit_of(SL_LEVEL, "5");
    CHECK_EQ(sl_take(&limit, cell, 0, 0).answer.remaining, 0);
    CHECK_EQ(sl_take(&limit, cell, 1, 0).answer.outcome, NO);
    limit = limit_of(SL_LEVEL, "20");
    CHECK_EQ(sl_take(&limit, cell, 0, 0).answer.remaining, 13);
}

int main(void)
{
    permits();
    empty();
    levels();
    changes();
    return CHECK_DONE();
}
