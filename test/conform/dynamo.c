/* dynamo.c [steps] PORT -- the store in DynamoDB conforms: dynalite behind a
 * shim that knows transactions, or without, in steps; and our own client. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "far.h"

int main(int argc, char **argv)
{
    unsigned steps = getenv("SL_PROP_STEPS") ? 50 : 150;
    struct far_stats stats;
    struct conform conform;
    struct far far;

    far_init(&far, argc > 1 ? argv[argc - 1] : NULL);
    far_conform(&far, &conform);
    conform.in_steps = argc > 2 && strcmp(argv[1], "steps") == 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        CASE("the store in DynamoDB answers as core does");
        CHECK(conform_run(&conform, seed, steps));
    }
    CASE("and nothing failed");
    far_stats(conform.store, &stats);
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
