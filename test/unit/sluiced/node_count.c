/* node_count.c -- daemons that share a store count each other, and those that
 * share a limit; here in a table, with a virtual clock. */
#include "policy/policy.h"
#include "sluiced/daemon.h"

#include "check.h"

#define DAEMONS 3

enum { STORE, NEAR, OTHER, COUNTED };

static struct sl_clock clocks[DAEMONS];
static struct sl_loop *loops[DAEMONS];
static struct sl_node_count counts[DAEMONS];
static unsigned counted[DAEMONS][COUNTED];

/* Two policies of one env: the last daemon serves the second one. */
static const struct sl_rule rules[] = {
    {.index = 0, .name = {"far", 3},   .failure = SL_FAILURE_DENY },
    {.index = 1, .name = {"near", 4},  .failure = SL_FAILURE_LOCAL},
    {.index = 2, .name = {"other", 5}, .failure = SL_FAILURE_LOCAL},
};
static const struct sl_policy first = {
    .env = {"t", 1},
      .rules = rules, .rule_count = 2, .fallback.failure = -1
};
static const struct sl_policy second = {
    .env = {"t", 1},
    .rules = rules + 2,
    .rule_count = 1,
    .fallback.failure = -1
};
static const struct sl_policy both = {
    .env = {"t", 1},
      .rules = rules, .rule_count = 3, .fallback.failure = -1
};

static void on_count(void *ctx, struct sl_str limit, unsigned count)
{
    unsigned *all = ctx;

    if (CHECK(!sl_str_eq(limit, SL_STR("far"))))
        all[limit.len == 0                     ? STORE
            : sl_str_eq(limit, SL_STR("near")) ? NEAR
                                               : OTHER] = count;
}

/* Does what the timer does, until all counters are taken or read. */
static void ask(unsigned i)
{
    do
        sl_node_count_step(&counts[i]);
    while (counts[i].at < counts[i].all.count);
}

static void go_to(sl_ns now)
{
    for (unsigned i = 0; i < DAEMONS; i++)
        sl_clock_set(&clocks[i], now);
}

/* Begins to count. */
static void open_all(struct sl_store *store)
{
    for (unsigned i = 0; i < DAEMONS; i++) {
        sl_clock_init_virtual(&clocks[i], 0);
        CHECK_EQ(sl_loop_open(&clocks[i], &loops[i], NULL), 0);
        counts[i] =
            (struct sl_node_count){.on_count = on_count, .ctx = counted[i]};
        CHECK_EQ(sl_node_count_begin(&counts[i], store, loops[i],
                                     i < 2 ? &first : &second),
                 0);
    }
}

static void windows(void)
{
    CASE("each takes once in a window, and counts those before it");
    go_to(SL_S);
    for (unsigned i = 0; i < DAEMONS; i++) {
        ask(i);
        CHECK_EQ(counted[i][STORE], i + 1);
        CHECK(!counts[i].reading);
    }
    CHECK_STR(counts[0].name, "sluice:t:#nodes:near");
    CASE("at the end of the window all count all");
    go_to(SL_NODE_COUNT - SL_S / 2);
    for (unsigned i = 0; i < DAEMONS; i++) {
        ask(i);
        CHECK_EQ(counted[i][STORE], DAEMONS);
    }
    CASE("a limit counts the daemons that have it");
    CHECK_EQ(counted[0][NEAR], 2);
    CHECK_EQ(counted[1][NEAR], 2);
    CHECK_EQ(counted[2][NEAR], 0);
    CHECK_EQ(counted[2][OTHER], 1);
    CASE("in the next window the count of the last one stays at first");
    go_to(SL_NODE_COUNT + SL_S);
    ask(0);
    CHECK_EQ(counted[0][STORE], DAEMONS);
    CHECK_EQ(counted[0][NEAR], 2);
    CASE("a dead daemon is not counted after two windows");
    ask(1);
    go_to(2 * SL_NODE_COUNT - SL_S / 2);
    ask(0);
    CHECK_EQ(counted[0][STORE], DAEMONS);
    go_to(2 * SL_NODE_COUNT + SL_S);
    ask(0);
    CHECK_EQ(counted[0][STORE], DAEMONS - 1);
}

static void reloads(void)
{
    CASE("a new policy keeps what is counted, and counts nothing twice");
    counted[0][STORE] = counted[0][NEAR] = 0;
    CHECK_EQ(sl_node_count_use(&counts[0], &both), 0);
    ask(0);
    CHECK_EQ(counted[0][STORE], DAEMONS - 1);
    CHECK_EQ(counted[0][NEAR], 2);
    CHECK_EQ(counted[0][OTHER], 1);
    CASE("a limit that is gone is not counted");
    CHECK_EQ(sl_node_count_use(&counts[0], &second), 0);
    ask(0);
    CHECK_EQ(counts[0].all.count, 2);
    go_to(3 * SL_NODE_COUNT - SL_S / 2);
    ask(0);
    ask(1);
    go_to(3 * SL_NODE_COUNT + SL_S);
    ask(1);
    go_to(4 * SL_NODE_COUNT - SL_S / 2);
    ask(1);
    go_to(4 * SL_NODE_COUNT + SL_S);
    ask(1);
    CHECK_EQ(counted[1][NEAR], 1);
}

int main(void)
{
    struct sl_memory_options options = {.size = 1 << 20};
    struct sl_store *store = NULL;
    unsigned at;

    CHECK_EQ(sl_memory_open(&options, &store, NULL), 0);
    open_all(store);
    windows();
    reloads();
    CASE("a failure changes nothing, and the daemon takes again");
    at = counts[0].at = 0;
    counts[0].reading = false;
    counts[0].take.err = SLUICE_ESTORE;
    counted[0][STORE] = 77;
    sl_node_count_done(&counts[0].take);
    CHECK_EQ(counted[0][STORE], 77);
    CHECK_EQ(counts[0].at, at);
    CASE("an answer after the end is ignored");
    for (unsigned i = 0; i < DAEMONS; i++) {
        sl_node_count_end(&counts[i]);
        counts[i].take.err = 0;
        counted[i][STORE] = 77;
        counts[i].take.ctx = &counts[i];
        sl_node_count_done(&counts[i].take);
        CHECK_EQ(counted[i][STORE], 77);
        sl_loop_close(loops[i]);
    }
    sl_store_close(store);
    return CHECK_DONE();
}
