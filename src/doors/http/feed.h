/* feed.h -- those who listen to events over HTTP: GET /v1/events.
 *
 *     retry: 2000
 *
 *     id: 1794739796905-7
 *     event: denial
 *     data: {"at":"...","limit":"api","scope":"user","key":"ann","count":3,...}
 *
 * Server-sent events, as browsers and curl -N read them. A listener has a
 * place in the ring of events.h; some times a second everybody is sent what is
 * new to him, as long as he takes it. Nothing is kept for him: a slow one is
 * overtaken and reads `event: lost` with a count. Whoever hears nothing for a
 * while gets a comment, so that he and those between know that we are there.
 *
 * Places are few. When all are taken, a newcomer has that of the listener who
 * came first, unless he came less than forty silences (ten minutes) ago.
 *
 * All of it happens on one loop.
 */
#ifndef SL_EVENT_STREAM_H
#define SL_EVENT_STREAM_H

#include "server/events.h"
#include "server/http/http.h"

#define SL_EVENT_STREAM_LISTENERS 16

struct sl_event_stream; /* opaque */

/* `events` is borrowed. After `silence` (0: 15 s) a listener is sent a comment.
 * NULL `alloc` is libc's. */
SL_MUST_USE int sl_event_stream_open(struct sl_loop *loop,
                                     struct sl_events *events, sl_ns silence,
                                     const struct sl_alloc *alloc,
                                     struct sl_event_stream **ret);

/* Everybody is cut off. NULL is allowed. */
void sl_event_stream_close(struct sl_event_stream *feed);

/* Let the client of `call` listen from event `from` on, as its answer.
 * SLUICE_EFULL: there are as many as there may be, and all have come only now;
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_event_stream_join(struct sl_event_stream *feed,
                                     struct sl_http_call *call, uint64_t from);

/* How many listen; for tests. */
unsigned sl_event_stream_count(const struct sl_event_stream *feed);

/* Send everybody what is new to him; the timer does it too. */
void sl_event_stream_pump(struct sl_event_stream *feed);

#endif
