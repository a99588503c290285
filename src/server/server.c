/* server.c -- the room of a loop. */
#include "server/server.h"

#include "engine/request.h"

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

/* ---- who is counted, and by what. */

/* Whoever speaks for many is not counted by his address. */
static bool speaks_for_many(struct sl_engine *engine,
                            const struct sl_peer *peer)
{
    struct sl_active_policy *live;
    bool trusted;

    if (!engine)
        return false;
    live = sl_engine_hold(engine, NULL);
    trusted = sl_peer_trusted(&live->policy->identity, peer);
    sl_active_policy_release(live);
    return trusted;
}

const char *sl_conn_count_take(struct sl_conn_count *place,
                               struct sl_conn_limit *crowd,
                               struct sl_engine *engine,
                               const struct sl_address *peer)
{
    struct sl_peer who = {.is_unix = !peer || sl_address_is_unix(peer)};
    enum sl_conn_limit_answer answer;

    *place = (struct sl_conn_count){.crowd = NULL};
    if (!crowd)
        return NULL;
    who.has_ip = peer && sl_address_ip(peer, &who.ip);
    place->ip = who.ip;
    place->by_address = who.has_ip && !speaks_for_many(engine, &who);
    answer = sl_conn_limit_enter(crowd, place->by_address ? &place->ip : NULL);
    if (answer == SL_CONN_LIMIT_IN) {
        place->crowd = crowd;
        return NULL;
    }
    return answer == SL_CONN_LIMIT_FULL ? "too_many" : "too_many_of_address";
}

void sl_conn_count_leave(const struct sl_conn_count *place)
{
    if (place->crowd)
        sl_conn_limit_leave(place->crowd,
                            place->by_address ? &place->ip : NULL);
}
