/* loop.h -- one thread's event loop, on libevent.
 *
 * Everything on a loop happens on its thread, except sl_loop_post() and
 * sl_loop_stop(). Time is read once per turn, on first need, and is the same
 * for everything that happens in that turn.
 */
#ifndef SL_NET_LOOP_H
#define SL_NET_LOOP_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/diag.h"

struct event_base;

struct sl_loop; /* opaque */

/* `clock` gives the wall time and is borrowed for the loop's life; loops do
 * not share one. NULL is the machine's. */
SL_MUST_USE int sl_loop_open(struct sl_clock *clock, struct sl_loop **ret,
                             struct sl_diag *diag);

/* The loop is not running, and its timers, listeners and connections are
 * freed. Posts that were not called are dropped. NULL is allowed. */
void sl_loop_close(struct sl_loop *loop);

/* Run until sl_loop_stop(); then call the remaining posts and return. */
void sl_loop_run(struct sl_loop *loop);

/* From any thread or signal handler. Before sl_loop_run() it makes that return
 * at once. The loop may run again afterwards. */
void sl_loop_stop(struct sl_loop *loop);

/* The wall time of this turn. */
sl_ns sl_loop_now(struct sl_loop *loop);

/* The wall time at this instant, which may be later. */
sl_ns sl_loop_instant(struct sl_loop *loop);

/* Monotonic time in ns, for deadlines; read once per turn too. */
sl_ns sl_loop_mono(struct sl_loop *loop);

/* Call `f` on the loop's thread, soon. From any thread. SLUICE_ENOMEM. */
typedef void sl_loop_f(void *ctx);
SL_MUST_USE int sl_loop_post(struct sl_loop *loop, sl_loop_f *f, void *ctx);

/* `on_time` is called once per sl_timer_start(), `after` from now, to some
 * milliseconds; without memory, at once. Starting it again moves it. A timer
 * may be freed in its own call. */
struct sl_timer;
SL_MUST_USE int sl_timer_new(struct sl_loop *loop, sl_loop_f *on_time,
                             void *ctx, struct sl_timer **ret);
void sl_timer_start(struct sl_timer *timer, sl_ns after);
void sl_timer_stop(struct sl_timer *timer);
void sl_timer_free(struct sl_timer *timer); /* NULL is allowed */

/* For net only. */
struct event_base *sl_loop_base(struct sl_loop *loop);

#endif
