/* node_count.c -- daemons that share a store count each other; here in a table,
 * with a virtual clock. */
#include "sluiced/daemon.h"

#include "check.h"

#define DAEMONS 3

static struct sl_clock clocks[DAEMONS];
static struct sl_loop *loops[DAEMONS];
static struct sl_node_count counts[DAEMONS];
static unsigned counted[DAEMONS];

static void on_count(void *ctx, unsigned count)
{
    *(unsigned *)ctx = count;
}

/* Does what the timer does. */
static void ask(unsigned i)
{
    counts[i].part.cost = counts[i].reading ? 0 : 1;
    counts[i].take.op = SL_TAKE_OP_TAKE;
    counts[i].take.now = sl_clock_now(&clocks[i]);
    sl_store_take(counts[i].store, &counts[i].take);
}

static void go_to(sl_ns now)
{
    for (unsigned i = 0; i < DAEMONS; i++)
        sl_clock_set(&clocks[i], now);
}

/* Begins to count. */
static void open_all(struct sl_store *store, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sl_clock_init_virtual(&clocks[i], 0);
        CHECK_EQ(sl_loop_open(&clocks[i], &loops[i], NULL), 0);
        counts[i] =
            (struct sl_node_count){.on_count = on_count, .ctx = &counted[i]};
        CHECK_EQ(sl_node_count_begin(&counts[i], store, loops[i], SL_STR("t")),
                 0);
        counts[i].take = (struct sl_take){.parts = &counts[i].part,
                                          .count = 1,
                                          .done = sl_node_count_done,
                                          .ctx = &counts[i]};
    }
}

int main(void)
{
    struct sl_memory_options options = {.size = 1 << 20};
    struct sl_store *store = NULL;

    CHECK_EQ(sl_memory_open(&options, &store, NULL), 0);
    open_all(store, DAEMONS);
    CHECK_STR(counts[0].name, "sluice:t:#nodes");

    CASE("each takes once in a window, and counts those before it");
    go_to(SL_S);
    for (unsigned i = 0; i < DAEMONS; i++) {
        ask(i);
        CHECK_EQ(counted[i], i + 1);
        CHECK(counts[i].reading);
    }
    CASE("at the end of the window all count all");
    go_to(SL_NODE_COUNT - SL_S / 2);
    for (unsigned i = 0; i < DAEMONS; i++) {
        ask(i);
        CHECK_EQ(counted[i], DAEMONS);
        CHECK(!counts[i].reading);
    }
    CASE("in the next window the count of the last one stays at first");
    go_to(SL_NODE_COUNT + SL_S);
    ask(0);
    CHECK_EQ(counted[0], DAEMONS);
    CASE("a dead daemon is not counted after two windows");
    ask(1);
    go_to(2 * SL_NODE_COUNT - SL_S / 2);
    ask(0);
    CHECK_EQ(counted[0], DAEMONS);
    go_to(2 * SL_NODE_COUNT + SL_S);
    ask(0);
    CHECK_EQ(counted[0], DAEMONS - 1);
    CASE("a failure changes nothing, and the daemon takes again");
    counts[0].take.err = SLUICE_ESTORE;
    sl_node_count_done(&counts[0].take);
    CHECK_EQ(counted[0], DAEMONS - 1);
    CHECK(!counts[0].reading);
    CASE("an answer after the end is ignored");
    for (unsigned i = 0; i < DAEMONS; i++) {
        sl_node_count_end(&counts[i]);
        counted[i] = 77;
        sl_node_count_done(&counts[i].take);
        CHECK_EQ(counted[i], 77);
        sl_loop_close(loops[i]);
    }
    sl_store_close(store);
    return CHECK_DONE();
}
