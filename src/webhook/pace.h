/* pace.h -- the pace of a destination.
 *
 * A destination has a cell of the limiter, which all senders share. A delivery
 * takes from it before it is sent. If the limit has no room, the delivery waits
 * for an exact time; it does not fail.
 *
 * A delivery arrives later than it was taken. If deliveries are evenly spaced,
 * the cell is moved by the arrival, so that the next one has its distance from
 * there. With a burst there is no distance.
 */
#ifndef SL_WEBHOOK_PACE_H
#define SL_WEBHOOK_PACE_H

#include "core/cell.h"
#include "core/limit.h"

/* Takes one delivery. Returns 0 and changes the cell, or returns how long to
 * wait and leaves it. */
SL_MUST_USE sl_ns sl_pace_take(const struct sl_limit *limit,
                               struct sl_cell *cell, sl_ns now);

/* A delivery has arrived. Returns true if it changes the cell: not if a later
 * delivery has taken from it. */
SL_MUST_USE bool sl_pace_move(const struct sl_limit *limit,
                              struct sl_cell *cell, sl_ns arrived);

#endif
