/* arith.c -- arithmetic at its edges. */
#include "base/arith.h"

#include "check.h"
#include "row.h"

#define MAX UINT64_MAX

TEST(saturating)
{
    static const struct {
        const char *why;
        uint64_t a, b, sum, difference, product;
    } rows[] = {
        ROW("small numbers are exact", 7, 5, 12, 2, 35),
        ROW("the smaller minus the larger is 0", 5, 7, 12, 0, 35),
        ROW("zero", 0, 0, 0, 0, 0),
        ROW("the last sum that fits", MAX - 1, 1, MAX, MAX - 2, MAX - 1),
        ROW("the first that does not", MAX, 1, MAX, MAX - 1, MAX),
        ROW("far too large", MAX, MAX, MAX, 0, MAX),
        ROW("2^32 x 2^32 does not fit", UINT64_C(1) << 32, UINT64_C(1) << 32,
            UINT64_C(1) << 33, 0, MAX),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK(sl_add_sat(rows[i].a, rows[i].b) == rows[i].sum);
        CHECK(sl_sub_floor(rows[i].a, rows[i].b) == rows[i].difference);
        CHECK(sl_mul_sat(rows[i].a, rows[i].b) == rows[i].product);
    }
}

TEST(instants)
{
    static const struct {
        const char *why;
        sl_ns a, b, sum;
    } rows[] = {
        {"times add up",                   5,         -7, -2       },
        {"the end of time is the end",     SL_NS_MAX, 1,  SL_NS_MAX},
        {"and reached exactly",            SL_NS_MAX, 0,  SL_NS_MAX},
        {"the beginning is the beginning", INT64_MIN, -1, INT64_MIN},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_EQ(sl_ns_add_sat(rows[i].a, rows[i].b), rows[i].sum);
    }
}

TEST(muldiv)
{
    static const struct {
        const char *why;
        uint64_t a, b, c, down, up;
    } rows[] = {
        ROW("even", 6, 4, 3, 8, 8),
        ROW("down and up differ by one", 7, 1, 2, 3, 4),
        ROW("nothing is nothing", 0, 9, 5, 0, 0),
        ROW("a product beyond 64 bits", MAX, MAX, MAX, MAX, MAX),
        ROW("the largest answer that fits", MAX, 3, 3, MAX, MAX),
        ROW("one more does not fit", MAX, 4, 3, MAX, MAX),
        ROW("up may be what does not fit", MAX, 2, 2, MAX, MAX),
        ROW("a large divisor", MAX, 1, MAX - 1, 1, 2),
        ROW("a small answer of large parts", MAX, 5, MAX, 5, 5),
        ROW("just below the edge, and at it", MAX, MAX - 1, MAX, MAX - 1,
            MAX - 1),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK(sl_muldiv_down(rows[i].a, rows[i].b, rows[i].c) == rows[i].down);
        CHECK(sl_muldiv_up(rows[i].a, rows[i].b, rows[i].c) == rows[i].up);
    }
}

CHECK_MAIN()
