/* turn.h -- a question that waits for its turn; between ask.c and the queues.
 */
#ifndef SL_TURN_H
#define SL_TURN_H

#include "engine/ask.h"

/* Could it, if it is denied or others wait? */
bool sl_turn_may_wait(const struct sl_ask *ask);

/* A first take is pending. True if others wait for the same: then it was not
 * carried out, and the question stands behind them, or was answered. */
bool sl_turn_behind(struct sl_ask *ask);

/* It is decided. True if it was denied and waits now, or goes on waiting. */
bool sl_turn_waits(struct sl_ask *ask);

/* What is to be done again when its turn comes; ask.c. */
void sl_ask_again(struct sl_ask *ask);
void sl_ask_answer(struct sl_ask *ask, int err);

/* A hold has ended: call those who wait for what it held. */
struct sl_hold_ask;
void sl_turn_freed(const struct sl_hold_ask *ask);

#endif
