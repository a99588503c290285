/* dynamo.c -- the store in DynamoDB conforms: dynalite behind a shim that knows
 * transactions, and our own client. */
#include <stdlib.h>

#include "check.h"
#include "far.h"

int main(int argc, char **argv)
{
    unsigned steps = getenv("SL_PROP_STEPS") ? 50 : 150;
    struct far_stats stats;
    struct conform conform;
    struct far far;

    far_init(&far, argc > 1 ? argv[1] : NULL);
    far_conform(&far, &conform);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        CASE("the store in DynamoDB answers as core does");
        CHECK(conform_run(&conform, seed, steps));
    }
    CASE("and nothing failed");
    far_stats(&far, conform.store, &stats);
    CHECK(stats.taken > 0);
    CHECK_EQ(stats.failed + stats.late + stats.uncertain, 0);
    CHECK(stats.repaired <
          stats.taken / 50); /* more went back than was there */
    printf("# %llu requests for %llu takes\n", (unsigned long long)stats.asked,
           (unsigned long long)stats.taken);
    far_close(&far, conform.store);
    far_done(&far);
    return CHECK_DONE();
}
