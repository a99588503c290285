/* pace.h -- the pace of a destination.
 *
 * A destination has a cell of the limiter, which all senders share. A delivery
 * takes from it before it is sent. If the limit has no room, the delivery waits
 * for an exact time; it does not fail.
 *
 * With a burst the cell is a bucket. Without one, deliveries are evenly spaced,
 * and w[0] is when the next may be taken:
 *
 *     taken     sent          taken + SL_PACE_LATE
 *       |--------|-----------------|----------------|---->  no result yet
 *       |        |----------------|                         it has arrived
 *                     distance    next          next
 *
 * Other senders do not see when a delivery is sent. So a take reserves the
 * destination for the distance and for as long as the delivery may be late; its
 * result shortens that. A sender that is later must not send: it returns the
 * delivery, which takes again.
 *
 * Invariant. (test/unit/webhook/pace.c)
 *   (1) Evenly spaced deliveries arrive at least the distance apart, if each
 *       arrives within SL_PACE_LATE of its take, whatever the order of results.
 */
#ifndef SL_WEBHOOK_PACE_H
#define SL_WEBHOOK_PACE_H

#include "core/cell.h"
#include "core/limit.h"

/* From the take until the request has arrived: it starts within SL_PACE_START,
 * a connection is open after SL_PACE_CONNECT, or the attempt fails. */
#define SL_PACE_START   (2 * SL_S)
#define SL_PACE_CONNECT (5 * SL_S)
#define SL_PACE_ARRIVE  (250 * SL_MS) /* a request until it is read, at most */
#define SL_PACE_LATE    (SL_PACE_START + SL_PACE_CONNECT + SL_PACE_ARRIVE)

/* Are deliveries evenly spaced? */
bool sl_pace_is_even(const struct sl_limit *limit);

/* Takes one delivery. Returns 0, or how long to wait. The cell changes with a
 * take, and if the clock has stepped back. */
SL_MUST_USE sl_ns sl_pace_take(const struct sl_limit *limit,
                               struct sl_cell *cell, sl_ns now);

/* w[0] after a take, if deliveries are evenly spaced: without a result, and
 * after one that has arrived then (0: it was not sent). */
sl_ns sl_pace_reserved(const struct sl_limit *limit, sl_ns taken);
sl_ns sl_pace_after(const struct sl_limit *limit, sl_ns taken, sl_ns arrived);

/* The delivery that was taken then has arrived. Returns true if it changes the
 * cell: not if a later one has taken from it. */
SL_MUST_USE bool sl_pace_move(const struct sl_limit *limit,
                              struct sl_cell *cell, sl_ns taken, sl_ns arrived);

#endif
