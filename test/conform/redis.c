/* redis.c -- the store in Redis conforms: one server, our own client. */
#include <stdlib.h>

#include "check.h"
#include "far.h"

int main(int argc, char **argv)
{
    unsigned steps = getenv("SL_PROP_STEPS") ? 500 : 2000;
    struct far_stats stats;
    struct conform conform;
    struct far far;

    far_init(&far, argc > 1 ? argv[1] : NULL);
    far_conform(&far, &conform);
    for (uint64_t seed = 1; seed <= 15; seed++) {
        CASE("the store in Redis answers as core does");
        CHECK(conform_run(&conform, seed, steps));
        CASE("and its holds end as core says");
        conform.now = 20000 * SL_DAY;
        CHECK(conform_hold_history(&conform, seed, steps));
    }
    CASE("and was told its script once");
    far_stats(conform.store, &stats);
    CHECK(stats.repaired >= 1);
    CHECK_EQ(stats.failed + stats.late + stats.uncertain, 0);
    far_close(&far, conform.store);
    far_done(&far);
    return CHECK_DONE();
}
