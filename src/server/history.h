/* history.h -- what was decided in the last day, by endpoint and by limit, for
 * the console.
 *
 * Every ten seconds the counts of all threads are read, and the difference to
 * the last reading is kept: an hour in steps of ten seconds, a day in steps of
 * a minute. Memory is bounded: rows of SL_HISTORY_ROWS endpoints and limits,
 * each allocated when it is first seen; beyond them only the total counts.
 *
 * For one thread, the one of the admin listener. It takes nothing from the
 * path of a decision.
 *
 * Invariants. (test/unit/server/history.c checks them by number.)
 *   (1) The steps add up to the counts of the metrics.
 *   (2) A step that was not read is 0. If the clock was set back before the
 *       last step, the history begins again.
 *   (3) No more than SL_HISTORY_ROWS rows.
 *   (4) Adding the steps of several histories gives their sums.
 */
#ifndef SL_SERVER_HISTORY_H
#define SL_SERVER_HISTORY_H

#include "base/buf.h"
#include "server/metrics.h"

#define SL_HISTORY_ROWS 128

enum sl_history_step {
    SL_HISTORY_10S, /* an hour */
    SL_HISTORY_1M,  /* a day */
    SL_HISTORY_STEPS
};

struct sl_history; /* opaque */

/* NULL `alloc` is libc's. */
SL_MUST_USE int sl_history_open(const struct sl_alloc *alloc,
                                struct sl_history **ret);
void sl_history_close(struct sl_history *history); /* NULL is allowed */

/* Read the counts if a step has ended since the last call. */
void sl_history_poll(struct sl_history *history, struct sl_metrics *const *all,
                     unsigned count, sl_ns now);

/* Append {"step":10,"first":SECONDS,"count":N,"total":{...},"endpoints":[...],
 * "limits":[...],"uses":[...]} with the complete steps that begin at `since`
 * (seconds since 1970) or later. Each has arrays of N numbers; one of zeros
 * only is left out. */
SL_MUST_USE int sl_history_write(const struct sl_history *history,
                                 enum sl_history_step step, int64_t since,
                                 struct sl_buf *out);

/* ---- steps of other daemons, in ten seconds since 1970 ---- */

/* The last complete step; 0: there is none. */
int64_t sl_history_last(const struct sl_history *history);

/* Is the step there, and complete? */
bool sl_history_has(const struct sl_history *history, int64_t step);

/* Append a step as a text of printable ASCII, at most `most` bytes: the total
 * first, and the rows that there is room for. */
SL_MUST_USE int sl_history_step_write(const struct sl_history *history,
                                      int64_t step, size_t most,
                                      struct sl_buf *out);

/* Add such a text, of another daemon. A history is polled, or has steps added
 * to it. Returns false if it is too old, or is no such text. */
bool sl_history_step_add(struct sl_history *history, int64_t step,
                         struct sl_str text);

#endif
