/* combined.c -- the combined store conforms: quotas and levels in one table,
 * all other limits in another, which stands for the remote store. A set that
 * has both is taken in both or in none, and its answers are those of core. */
#include "store/combined.h"
#include "check.h"
#include "conform.h"

#define STEPS 2000 /* the clock does not come to its end */

static struct sl_store *tables[2];

static sl_ns now_of(void *ctx)
{
    return ((struct conform *)ctx)->now;
}

static sl_ns latest(struct sl_store *store)
{
    sl_ns here = sl_table_latest(sl_memory_table(tables[0]));
    sl_ns there = sl_table_latest(sl_memory_table(tables[1]));

    (void)store;
    return here > there ? here : there;
}

static bool open_store(struct conform *conform)
{
    struct sl_memory_options options = {
        .size = 16 << 20, .now = now_of, .now_ctx = conform};
    struct sl_combined_options both = {.deadline = SL_S};
    struct sl_diag diag;

    for (int i = 0; i < 2; i++)
        if (sl_memory_open(&options, &tables[i], &diag)) {
            printf("Bail out! %s\n", diag.sentence);
            return false;
        }
    both.local = tables[0];
    both.remote = tables[1];
    return !sl_combined_store_open(&both, &conform->store);
}

int main(void)
{
    struct conform conform = {.quantum = SL_QUANTUM_NS,
                              .prefix = "c",
                              .latest = latest,
                              .leases_quotas = true};

    for (uint64_t seed = 1; seed <= 40; seed++) {
        if (!open_store(&conform))
            return 1;
        CASE("the combined store answers as core does");
        CHECK(conform_run(&conform, seed, STEPS));
        sl_store_close(conform.store);
    }
    return CHECK_DONE();
}
