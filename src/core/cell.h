/* cell.h -- the stored state of a key, and the answer to a take.
 *
 * An algorithm is a pure function from (limit, cell, cost, now) to (answer,
 * cell). A cell is sixteen bytes.
 *
 * Rules for cells of every kind. (test/prop/cell.h checks each by number.)
 *   (1) A cell of zeros owes nothing. A new key starts with it.
 *   (2) An algorithm never sets the top bit of w[0] and the top byte of w[1].
 *       They belong to the store, and are clear in every cell passed in.
 *   (3) A denied take and a peek (cost 0) leave the cell as it was, unless its
 *       time is in the future: that is corrected.
 *   (4) A cell is read only by a limit of the same shape as the one that wrote
 *       it (sl_limit_shape). A store makes the shape part of the key, or keeps
 *       it with the cell and starts from zeros when it differs.
 *
 * Time in cells. Each cell has the time of its last write. If `now` is at most
 * SL_JITTER before it, the clock has not stepped: two threads read it and came
 * in the other order. Then the time of the cell is used. If `now` is further
 * back, the clock has stepped. That grants nothing, because usage stays, and
 * denies for at most one refill, because the cell's time is set to now.
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
    SL_DENY,
    SL_NEVER, /* the cost exceeds the capacity */
};

/* Spans count from the `now` of the take. */
struct sl_answer {
    enum sl_outcome outcome;
    uint64_t limit;     /* the configured count */
    uint64_t capacity;  /* at most taken at once */
    uint64_t remaining; /* after this take */
    sl_ns retry_in;     /* DENY: until the same take passes, exact to the
                         * nanosecond if the cell is left alone; SL_NS_NONE if
                         * time does not help, and if not denied */
    sl_ns reset_in;     /* until nothing is owed, or the window or period ends;
                         * SL_NS_NONE for permits and levels */
    sl_ns wait;         /* leaky bucket, ALLOW: how long to delay the request */
};

struct sl_take_result {
    struct sl_answer answer;
    struct sl_cell next; /* differs from the old cell if it must be written */
    bool stepped;        /* the cell's time was in the future and is set to now:
                          * the clock has stepped, or `now` is stale */
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
