/* cell.h -- what is remembered of a key, and what is answered.
 *
 * An algorithm is a pure function from (limit, cell, cost, now) to (answer,
 * cell). A cell is sixteen bytes. Everything else is plumbing.
 *
 * Rules for cells, whatever the kind. (test/prop/cell.h checks each by number
 * on every kind.)
 *   (1) A cell of zeros says: nothing is owed. A new key starts with it.
 *   (2) The top bit of w[0] and the top byte of w[1] are never set by an
 *       algorithm: they are the store's, for locks and the like, and must be
 *       clear in every cell that is handed in.
 *   (3) A take that was not allowed, and a look (cost 0), leave the cell as it
 *       was, unless its time lies in the future: then that is mended.
 *   (4) A cell is read only by a limit of the same shape as the one that wrote
 *       it (sl_limit_shape). A store keeps shapes apart: it makes the shape
 *       part of the key, or keeps it beside the cell and starts from zeros
 *       when it differs.
 *
 * Time in cells. Each cell knows when it was last written. A reading of the
 * clock up to SL_JITTER before that is no step: two threads that read one
 * clock may come in either order, and whoever comes late is judged as if he
 * had come on time. Anything further back is a step of the clock. It grants
 * nothing, since what was used stays used; and it locks nobody out for longer
 * than one refill, since the cell's time is pulled back to now.
 */
#ifndef SL_CORE_CELL_H
#define SL_CORE_CELL_H

#include "base/base.h"

#define SL_JITTER SL_MS

#define SL_CELL_W0_BITS 63
#define SL_CELL_W1_BITS 56

struct sl_cell {
    uint64_t w[2];
};

enum sl_outcome {
    SL_ALLOW,
    SL_DENY,  /* not now */
    SL_NEVER, /* the cost is more than the limit can ever hold */
};

/* Spans count from the `now` of the take. */
struct sl_answer {
    enum sl_outcome outcome;
    uint64_t limit;     /* the configured count */
    uint64_t capacity;  /* the most that can be taken at once */
    uint64_t remaining; /* what a further take could still have, after this */
    sl_ns retry_in;     /* DENY: the soonest that the same take passes, exact
                         * to the nanosecond if the cell is left alone;
                         * SL_NS_NONE if no clock will help, and when not
                         * denied */
    sl_ns reset_in;     /* until nothing is owed, or the window or period
                         * ends; SL_NS_NONE for permits and levels */
    sl_ns wait;         /* leaky bucket, ALLOW: how long to hold the request
                         * back; otherwise 0 */
};

struct sl_take_result {
    struct sl_answer answer;
    struct sl_cell next; /* differs from the old cell only if it must be
                          * written */
    bool stepped;        /* the cell's time lay in the future and was pulled
                          * back: the clock has stepped, or `now` is stale */
};

static inline struct sl_cell sl_cell_of(uint64_t w0, uint64_t w1)
{
    return (struct sl_cell){
        .w = {w0, w1}
    };
}

static inline bool sl_cell_eq(struct sl_cell a, struct sl_cell b)
{
    return a.w[0] == b.w[0] && a.w[1] == b.w[1];
}

#endif
