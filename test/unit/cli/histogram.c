/* histogram.c -- percentiles of many durations. */
#include "cli/cli.h"

#include "check.h"

int main(void)
{
    static struct sl_histogram h, other;
    static const uint64_t values[] = {0,       1,          15,
                                      16,      17,         31,
                                      1000,    123456789,  UINT64_C(1) << 40,
                                      1 << 20, UINT64_MAX, UINT64_MAX / 3};

    CASE("nothing was put in");
    CHECK_EQ(sl_histogram_at(&h, 500), 0);

    CASE("what is read back is at most a sixteenth above what was put in");
    for (size_t i = 0; i < SL_LEN(values); i++) {
        static const struct sl_histogram empty;
        uint64_t got;

        h = empty;
        sl_histogram_add(&h, values[i]);
        got = sl_histogram_at(&h, 999);
        CHECK(got >= values[i]);
        CHECK(got - values[i] <= values[i] / 16);
    }

    CASE("ranks");
    h = other;
    for (uint64_t i = 1; i <= 10; i++)
        sl_histogram_add(i % 2 ? &h : &other, i);
    sl_histogram_merge(&h, &other);
    CHECK_EQ(h.total, 10);
    CHECK_EQ(sl_histogram_at(&h, 0), 1);
    CHECK_EQ(sl_histogram_at(&h, 100), 1);
    CHECK_EQ(sl_histogram_at(&h, 101), 2);
    CHECK_EQ(sl_histogram_at(&h, 500), 5);
    CHECK_EQ(sl_histogram_at(&h, 900), 9);
    CHECK_EQ(sl_histogram_at(&h, 999), 10);
    CHECK_EQ(sl_histogram_at(&h, 1000), 10);
    return CHECK_DONE();
}
