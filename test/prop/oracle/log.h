/* log.h -- who was admitted when, and the most in any span.
 *
 * The plainest limiter there is: remember everything. For clocks that do not
 * go back.
 */
#ifndef SL_PROP_LOG_H
#define SL_PROP_LOG_H

#include <stdint.h>
#include <stdlib.h>

struct log {
    struct {
        uint64_t tick, cost;
    } * rows;
    size_t count, room, from;
    uint64_t inside; /* the sum of rows[from .. count) */
};

/* Note `cost` at `tick`. Returns what was admitted in the span of length
 * `span` that ends with this tick: after tick - span, up to tick. */
static inline uint64_t log_add(struct log *log, uint64_t tick, uint64_t cost,
                               uint64_t span)
{
    if (log->count == log->room) {
        log->room = log->room ? 2 * log->room : 64;
        log->rows = realloc(log->rows, log->room * sizeof(*log->rows));
        if (!log->rows)
            abort();
    }
    log->rows[log->count].tick = tick;
    log->rows[log->count++].cost = cost;
    log->inside += cost;
    while (tick - log->rows[log->from].tick >= span)
        log->inside -= log->rows[log->from++].cost;
    return log->inside;
}

static inline void log_done(struct log *log)
{
    free(log->rows);
}

#endif
