/* roll.c -- how many daemons share a store. */
#include "sluiced/roll.h"

#include <stdio.h>
#include <string.h>

#define FIRST      (50 * SL_MS)  /* until a store may have come up */
#define AGAIN      SL_S          /* after a failure */
#define EARLY      (700 * SL_MS) /* before the end, to look */
#define LATE       (200 * SL_MS) /* behind it, to sign */
#define NODES_MOST 100000

static void ask(struct sl_node_count *roll)
{
    roll->part.cost = roll->looks ? 0 : 1;
    roll->take = (struct sl_take){
        .errand = SL_TAKE_OP_TAKE,
        .parts = &roll->part,
        .count = 1,
        .now = sl_loop_now(roll->loop),
        .loop = roll->loop,
        .done = sl_node_count_told,
        .ctx = roll,
    };
    sl_store_take(roll->store, &roll->take);
}

static void on_time(void *ctx)
{
    ask(ctx);
}

/* The larger of two windows: one who came late to one of them is there. */
static void count(struct sl_node_count *roll, unsigned is)
{
    if (roll->on_count)
        roll->on_count(roll->ctx, is > roll->before ? is : roll->before);
}

void sl_node_count_told(struct sl_take *take)
{
    struct sl_node_count *roll = take->ctx;
    const struct sl_answer *a = &roll->part.answer;
    uint64_t used = a->capacity - a->remaining;
    unsigned is = used < NODES_MOST ? (unsigned)used : NODES_MOST;

    if (roll->ended)
        return;
    if (take->err) {
        roll->looks = false;
        sl_timer_start(roll->timer, AGAIN);
        return;
    }
    count(roll, is);
    if (!roll->looks && a->reset_in > EARLY) {
        roll->looks = true;
        sl_timer_start(roll->timer, a->reset_in - EARLY);
        return;
    }
    roll->before = is;
    roll->looks = false;
    sl_timer_start(roll->timer, a->reset_in + LATE);
}

int sl_node_count_begin(struct sl_node_count *roll, struct sl_store *store,
                        struct sl_loop *loop, struct sl_str env)
{
    int err = sl_timer_new(loop, on_time, roll, &roll->timer);

    if (err)
        return err;
    snprintf(roll->name, sizeof(roll->name), "sluice:%.80s:#nodes", env.at);
    roll->store = store;
    roll->loop = loop;
    roll->limit = (struct sl_limit){
        .kind = SL_FIXED,
        .count = SL_COUNT_MAX,
        .capacity = SL_COUNT_MAX,
        .period = SL_NODE_COUNT,
    };
    sl_limit_derive(&roll->limit);
    roll->stored =
        (struct sl_limit_binding){.name = "#nodes", .strictest = roll->limit};
    roll->part = (struct sl_store_part){
        .of = &roll->stored,
        .limit = &roll->limit,
        .key = sl_str_c(roll->name),
        .name = sl_str_c(roll->name),
    };
    err = sl_store_bind(store, &roll->stored, 1, NULL);
    if (!err)
        sl_timer_start(roll->timer, FIRST);
    return err;
}

void sl_node_count_end(struct sl_node_count *roll)
{
    roll->ended = true;
    sl_timer_free(roll->timer);
    roll->timer = NULL;
}
