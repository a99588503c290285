/* turn.h -- a question that waits for its turn; between ask.c and the queues.
 */
#ifndef SL_TURN_H
#define SL_TURN_H

#include "engine/check.h"

/* Could it, if it is denied or others wait? */
bool sl_wait_check_may_wait(const struct sl_check *ask);

/* A first take is pending. True if others wait for the same: then it was not
 * carried out, and the question stands behind them, or was answered. */
bool sl_wait_check_behind(struct sl_check *ask);

/* It is decided. True if it was denied and waits now, or goes on waiting. */
bool sl_wait_check_waits(struct sl_check *ask);

/* What is to be done again when its turn comes; ask.c. */
void sl_check_again(struct sl_check *ask);
void sl_check_answer(struct sl_check *ask, int err);

/* A hold has ended: call those who wait for what it held. */
struct sl_hold_op;
void sl_wait_check_freed(const struct sl_hold_op *ask);

#endif
