/* node_count.c -- daemons that share a store count each other; here over a
 * table, on a clock that is moved by hand. */
#include "sluiced/daemon.h"

#include "check.h"

#define DAEMONS 3

static struct sl_clock clocks[DAEMONS];
static struct sl_loop *loops[DAEMONS];
static struct sl_node_count rolls[DAEMONS];
static unsigned counted[DAEMONS];

static void on_count(void *ctx, unsigned count)
{
    *(unsigned *)ctx = count;
}

/* What its timer would do. */
static void ask(unsigned i)
{
    rolls[i].part.cost = rolls[i].reading ? 0 : 1;
    rolls[i].take.op = SL_TAKE_OP_TAKE;
    rolls[i].take.now = sl_clock_now(&clocks[i]);
    sl_store_take(rolls[i].store, &rolls[i].take);
}

static void go_to(sl_ns now)
{
    for (unsigned i = 0; i < DAEMONS; i++)
        sl_clock_set(&clocks[i], now);
}

/* Begin, and sign for the first time. */
static void open_all(struct sl_store *store, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sl_clock_init_virtual(&clocks[i], 0);
        CHECK_EQ(sl_loop_open(&clocks[i], &loops[i], NULL), 0);
        rolls[i] =
            (struct sl_node_count){.on_count = on_count, .ctx = &counted[i]};
        CHECK_EQ(sl_node_count_begin(&rolls[i], store, loops[i], SL_STR("t")),
                 0);
        rolls[i].take = (struct sl_take){.parts = &rolls[i].part,
                                         .count = 1,
                                         .done = sl_node_count_done,
                                         .ctx = &rolls[i]};
    }
}

int main(void)
{
    struct sl_memory_options options = {.size = 1 << 20};
    struct sl_store *store = NULL;

    CHECK_EQ(sl_memory_open(&options, &store, NULL), 0);
    open_all(store, DAEMONS);
    CHECK_STR(rolls[0].name, "sluice:t:#nodes");

    CASE("each signs once in a window, and sees who has before him");
    go_to(SL_S);
    for (unsigned i = 0; i < DAEMONS; i++) {
        ask(i);
        CHECK_EQ(counted[i], i + 1);
        CHECK(rolls[i].reading);
    }
    CASE("at its end all see all");
    go_to(SL_NODE_COUNT - SL_S / 2);
    for (unsigned i = 0; i < DAEMONS; i++) {
        ask(i);
        CHECK_EQ(counted[i], DAEMONS);
        CHECK(!rolls[i].reading);
    }
    CASE("in the next window the count of the last one stays at first");
    go_to(SL_NODE_COUNT + SL_S);
    ask(0);
    CHECK_EQ(counted[0], DAEMONS);
    CASE("one who is gone is counted no more when two windows are over");
    ask(1);
    go_to(2 * SL_NODE_COUNT - SL_S / 2);
    ask(0);
    CHECK_EQ(counted[0], DAEMONS);
    go_to(2 * SL_NODE_COUNT + SL_S);
    ask(0);
    CHECK_EQ(counted[0], DAEMONS - 1);
    CASE("a failure changes nothing, and it signs again");
    rolls[0].take.err = SLUICE_ESTORE;
    sl_node_count_done(&rolls[0].take);
    CHECK_EQ(counted[0], DAEMONS - 1);
    CHECK(!rolls[0].reading);
    CASE("what comes back after the end is nobody's business");
    for (unsigned i = 0; i < DAEMONS; i++) {
        sl_node_count_end(&rolls[i]);
        counted[i] = 77;
        sl_node_count_done(&rolls[i].take);
        CHECK_EQ(counted[i], 77);
        sl_loop_close(loops[i]);
    }
    sl_store_close(store);
    return CHECK_DONE();
}
