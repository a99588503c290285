/* waiting.h -- the room of a loop: where its questions wait for their turn.
 *
 * It rings by a post to the loop, and a timer of the loop serves those whose
 * time has come. A loop whose clock stands still has no use for the timer:
 * whoever moves the clock says so.
 */
#ifndef SL_WAITING_H
#define SL_WAITING_H

#include "engine/engine.h"
#include "engine/wait/wait.h"
#include "net/loop.h"

struct sl_waiting {
    struct sl_room room;
    struct sl_loop *loop;
    struct sl_timer *timer;
};

SL_MUST_USE int sl_waiting_open(struct sl_waiting *waiting,
                                struct sl_loop *loop, struct sl_engine *engine);

/* Those who wait are answered. Zeros are allowed. */
void sl_waiting_close(struct sl_waiting *waiting);

/* Nobody waits any more, nor will: those who do are answered. */
void sl_waiting_end(struct sl_waiting *waiting);

/* Another engine decides from now on. */
void sl_waiting_engine(struct sl_waiting *waiting, struct sl_engine *engine);

/* Time has passed, or not: see to those who wait. On the loop's thread. */
void sl_waiting_serve(struct sl_waiting *waiting);

/* The same, where the clock was set: the loop shows it in its next turn. */
void sl_waiting_now(struct sl_waiting *waiting, sl_ns now);

#endif
