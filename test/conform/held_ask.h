/* held_ask.h -- the takes of a world of holds, and how those end, one after the
 * other. */
#ifndef SL_CONFORM_HELD_ASK_H
#define SL_CONFORM_HELD_ASK_H

#include <stdlib.h>

#include "held.h"

static inline void bail(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

static inline void on_took(struct sl_take *take)
{
    struct world *w = take->ctx;

    w->done = true;
    sl_loop_stop(w->loop);
}

static inline void on_held(struct sl_hold_call *call)
{
    struct world *w = call->ctx;

    w->done = true;
    sl_loop_stop(w->loop);
}

static inline void wait(struct world *w, const int *err)
{
    while (!w->done)
        sl_loop_run(w->loop);
    if (*err)
        bail("the store failed");
}

static inline struct sl_take take(struct world *w, unsigned node, uint64_t cost,
                                  struct sl_hold_id id, sl_ns life,
                                  struct sl_answer *ret)
{
    struct sl_part part = {.binding = &w->stored,
                           .limit = &w->limit,
                           .key = sl_str_c(w->key),
                           .name = sl_str_c(w->key),
                           .cost = cost};
    struct sl_take t = {.op = SL_TAKE_OP_TAKE,
                        .parts = &part,
                        .count = 1,
                        .now = w->now,
                        .loop = w->loop,
                        .hold = id,
                        .hold_for = life,
                        .done = on_took,
                        .ctx = w};

    w->done = false;
    sl_store_take(w->nodes[node], &t);
    wait(w, &t.err);
    *ret = part.answer;
    return t;
}

static inline struct sl_hold_call call(struct world *w, unsigned node,
                                       enum sl_hold_action op,
                                       struct sl_hold_id id, uint64_t cost,
                                       bool release, sl_ns life)
{
    struct sl_hold_call c = {.op = op,
                             .id = id,
                             .limits = &w->stored,
                             .limits_count = 1,
                             .release = release,
                             .as_held = w->as_held,
                             .cost = cost,
                             .hold_for = life,
                             .now = w->now,
                             .loop = w->loop,
                             .done = on_held,
                             .ctx = w};

    w->done = false;
    sl_store_hold(w->nodes[node], &c);
    wait(w, &c.err);
    return c;
}

#endif
