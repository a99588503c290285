/* waiting.h -- the room of a loop: where its questions wait for their turn.
 *
 * It rings by a post to the loop, and a timer of the loop serves those whose
 * time has come. A loop whose clock stands still has no use for the timer:
 * whoever moves the clock says so.
 */
#ifndef SL_WAIT_TIMER_H
#define SL_WAIT_TIMER_H

#include "engine/engine.h"
#include "engine/wait.h"
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

#endif
