/* memory.c -- the memory store conforms. */
#include <stdlib.h>

#include "check.h"
#include "conform.h"
#include "table/hold_record.h"

static sl_ns now_of(void *ctx)
{
    return ((struct conform *)ctx)->now;
}

static sl_ns latest(struct sl_store *store)
{
    return sl_table_latest(sl_memory_table(store));
}

static bool share(struct sl_store *store, const struct sl_part *one,
                  const struct sl_part *other)
{
    struct sl_table *table = sl_memory_table(store);
    const struct sl_region *r = &table->region;
    struct sl_slot_key a, b;

    sl_slot_key_hash(table, one, &a);
    sl_slot_key_hash(table, other, &b);
    return sl_unheld_count(r, a.tag) == sl_unheld_count(r, b.tag) ||
           sl_refund_count(r, a.tag, 0) == sl_refund_count(r, b.tag, 0) ||
           sl_refund_count(r, a.tag, 1) == sl_refund_count(r, b.tag, 1);
}

int main(void)
{
    const char *asked = getenv("SL_PROP_STEPS");
    unsigned steps = asked ? 2000 : 10000;
    struct conform conform = {.quantum = SL_QUANTUM_NS,
                              .prefix = "m",
                              .latest = latest,
                              .share = share};
    struct sl_memory_options options = {
        .size = 64 << 20, .now = now_of, .now_ctx = &conform};
    struct sl_diag diag;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        if (sl_memory_open(&options, &conform.store, &diag)) {
            printf("Bail out! %s\n", diag.sentence);
            return 1;
        }
        CASE("the memory store answers as core does");
        CHECK(conform_run(&conform, seed, steps));
        CASE("and its holds end as core says");
        conform.now = 20000 * SL_DAY;
        CHECK(conform_hold_history(&conform, seed, steps));
        sl_store_close(conform.store);
    }
    return CHECK_DONE();
}
