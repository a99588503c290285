/* waiting.c -- the room of a loop. */
#include "server/server.h"

static void on_ring(void *ctx)
{
    sl_wait_timer_serve(ctx);
}

static bool ring(struct sl_wait_thread *room)
{
    struct sl_wait_timer *waiting = room->ctx;

    return sl_loop_post(waiting->loop, on_ring, waiting) == 0;
}

void sl_wait_timer_serve(struct sl_wait_timer *waiting)
{
    if (waiting->loop) /* or it rang before it was closed */
        sl_wait_timer_now(waiting, sl_loop_now(waiting->loop));
}

void sl_wait_timer_now(struct sl_wait_timer *waiting, sl_ns now)
{
    sl_ns next = sl_wait_thread_serve(&waiting->room, now);

    if (next < 0)
        sl_timer_stop(waiting->timer);
    else
        sl_timer_start(waiting->timer, next > now ? next - now : 0);
}

int sl_wait_timer_open(struct sl_wait_timer *waiting, struct sl_loop *loop,
                       struct sl_engine *engine)
{
    waiting->loop = loop;
    sl_wait_thread_init(&waiting->room, sl_engine_queues(engine), ring,
                        waiting);
    return sl_timer_new(loop, on_ring, waiting, &waiting->timer);
}

void sl_wait_timer_end(struct sl_wait_timer *waiting)
{
    sl_wait_thread_done(&waiting->room);
    sl_wait_thread_init(&waiting->room, NULL, ring, waiting);
}

void sl_wait_timer_engine(struct sl_wait_timer *waiting,
                          struct sl_engine *engine)
{
    sl_wait_timer_end(waiting);
    sl_wait_thread_init(&waiting->room, sl_engine_queues(engine), ring,
                        waiting);
}

void sl_wait_timer_close(struct sl_wait_timer *waiting)
{
    if (!waiting->loop)
        return;
    sl_wait_timer_end(waiting);
    sl_timer_free(waiting->timer);
    waiting->timer = NULL;
    waiting->loop = NULL;
}
