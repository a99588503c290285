/* server.h -- the room of a loop: where its questions wait for their turn.
 *
 * It rings by a post to the loop, and a timer of the loop serves those whose
 * time has come. A loop whose clock stands still has no use for the timer:
 * whoever moves the clock says so.
 */
#ifndef SL_SERVER_SERVER_H
#define SL_SERVER_SERVER_H

#include "engine/engine.h"
#include "engine/wait.h"
#include "net/address.h"
#include "net/listener.h"
#include "net/loop.h"

struct sl_wait_timer {
    struct sl_wait_thread room;
    struct sl_loop *loop;
    struct sl_timer *timer;
};

SL_MUST_USE int sl_wait_timer_open(struct sl_wait_timer *waiting,
                                   struct sl_loop *loop,
                                   struct sl_engine *engine);

/* Those who wait are answered. Zeros are allowed. */
void sl_wait_timer_close(struct sl_wait_timer *waiting);

/* Nobody waits any more, nor will: those who do are answered. */
void sl_wait_timer_end(struct sl_wait_timer *waiting);

/* Another engine decides from now on. */
void sl_wait_timer_engine(struct sl_wait_timer *waiting,
                          struct sl_engine *engine);

/* Time has passed, or not: see to those who wait. On the loop's thread. */
void sl_wait_timer_serve(struct sl_wait_timer *waiting);

/* The same, where the clock was set: the loop shows it in its next turn. */
void sl_wait_timer_now(struct sl_wait_timer *waiting, sl_ns now);

/* ---- the place of a connection in the crowd at a door.
 */

/* Where a connection is counted. */
struct sl_conn_count {
    struct sl_conn_limit *crowd; /* NULL: nowhere */
    bool by_address;             /* also by this one */
    struct sl_ip ip;
};

/* Somebody has come to a door with this crowd (NULL: it has none). Those who
 * speak for many by the policy of `engine` (NULL: nobody) are not counted by
 * their address. NULL, or for metrics why he may not stay: then he has no
 * place. */
SL_MUST_USE const char *sl_conn_count_take(struct sl_conn_count *place,
                                           struct sl_conn_limit *crowd,
                                           struct sl_engine *engine,
                                           const struct sl_address *peer);

/* He goes, if he has come. */
void sl_conn_count_leave(const struct sl_conn_count *place);

#endif
