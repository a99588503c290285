/* waiting.c -- the room of a loop. */
#include "doors/waiting.h"

static void on_ring(void *ctx)
{
    sl_waiting_serve(ctx);
}

static bool ring(struct sl_room *room)
{
    struct sl_waiting *waiting = room->ctx;

    return sl_loop_post(waiting->loop, on_ring, waiting) == 0;
}

void sl_waiting_serve(struct sl_waiting *waiting)
{
    if (waiting->loop) /* or it rang before it was closed */
        sl_waiting_now(waiting, sl_loop_now(waiting->loop));
}

void sl_waiting_now(struct sl_waiting *waiting, sl_ns now)
{
    sl_ns next = sl_room_serve(&waiting->room, now);

    if (next < 0)
        sl_timer_stop(waiting->timer);
    else
        sl_timer_start(waiting->timer, next > now ? next - now : 0);
}

int sl_waiting_open(struct sl_waiting *waiting, struct sl_loop *loop,
                    struct sl_engine *engine)
{
    waiting->loop = loop;
    sl_room_init(&waiting->room, sl_engine_queues(engine), ring, waiting);
    return sl_timer_new(loop, on_ring, waiting, &waiting->timer);
}

void sl_waiting_end(struct sl_waiting *waiting)
{
    sl_room_done(&waiting->room);
    sl_room_init(&waiting->room, NULL, ring, waiting);
}

void sl_waiting_engine(struct sl_waiting *waiting, struct sl_engine *engine)
{
    sl_waiting_end(waiting);
    sl_room_init(&waiting->room, sl_engine_queues(engine), ring, waiting);
}

void sl_waiting_close(struct sl_waiting *waiting)
{
    if (!waiting->loop)
        return;
    sl_waiting_end(waiting);
    sl_timer_free(waiting->timer);
    waiting->timer = NULL;
    waiting->loop = NULL;
}
