/* sheet.h -- a take, the rows that it is about, and how it is judged.
 *
 * A sheet has its own copy of the take: it may outlive the one who asked, when
 * what was written too late is given back. Parts of the same row are one: their
 * costs add up. Judging is core's, from the cells that were read to those that
 * are to be written; whether nobody came between is for the write to say.
 *
 * The clocks of machines that share a table differ, and a take may be on its
 * way while others overtake it. A row that was written up to SL_TAKE_ROWS_LAG
 * ahead of `now` is no step of the clock: it is judged at its own time.
 * Otherwise two that take turns would refill a bucket by their difference each
 * time.
 *
 * Pure: no connection is known here.
 */
#ifndef SL_TAKE_ROWS_H
#define SL_TAKE_ROWS_H

#include "store/dynamo/row.h"

#define SL_TAKE_ROWS_LAG (2 * SL_S)

/* What is leased of a row with a take (see store/leases.h), and what is left of
 * the lease before. */
struct sl_row_lease {
    uint64_t want;
    uint64_t back; /* given back first... */
    sl_ns taken;   /* ...of what was taken then */
    uint64_t has;  /* out: judged to be there */
};

struct sl_take_rows {
    enum sl_take_op errand;
    sl_ns now;
    unsigned count; /* of parts */
    struct sl_store_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS];
    struct sl_period periods[SL_PARTS]; /* of calendars, when it was taken */
    bool orphaned; /* who asked was told: his calendars may be gone */
    bool is_rest;  /* of a lease: it may have been refilled since */
    unsigned slot; /* where this loop notes what it leases; set once */

    struct sl_row rows[SL_PARTS];
    unsigned row_count;
    unsigned row_of[SL_PARTS]; /* of each part */
    unsigned first[SL_PARTS];  /* of each row: its first part */
    uint64_t cost[SL_PARTS];   /* of each row */
    int beside[SL_PARTS];      /* of each row: the one that counts, too; -1 */
    struct sl_row_lease lease[SL_PARTS]; /* of each row */
    sl_ns at[SL_PARTS]; /* of each row: when it is judged, >= now */
    struct sl_buf names;
};

/* `names` is empty, with a ceiling and an allocator. SLUICE_ENOMEM. */
SL_MUST_USE int sl_take_rows_fill(struct sl_take_rows *sheet,
                                  const struct sl_take *take, sl_ns now);

/* One that gives back the rest of a lease: `amount` of what was taken at
 * `taken`, of a limit whose calendar may be gone: `period` was it then. */
struct sl_lease_rest {
    struct sl_str name;
    struct sl_limit limit;
    struct sl_period period;
    uint64_t amount;
    sl_ns taken;
};
SL_MUST_USE int sl_take_rows_fill_rest(struct sl_take_rows *sheet,
                                       const struct sl_lease_rest *rest,
                                       sl_ns now);

/* When a row is judged that says `cell`: now, or a little later. */
sl_ns sl_take_rows_time(const struct sl_limit *limit, struct sl_cell cell,
                        sl_ns now);

/* Judge by what the rows say: fills in the answers, and what is to be written
 * (row.changed, row.next). True if the set is allowed. */
bool sl_take_rows_judge(struct sl_take_rows *sheet);

/* Rows that are to be written, and those that must not have changed. */
unsigned sl_take_rows_writes(const struct sl_take_rows *sheet);
unsigned sl_take_rows_checks(const struct sl_take_rows *sheet);

/* One fixed window, and a cost that may fit or goes back: it can be counted
 * without a look. */
bool sl_take_rows_is_count(const struct sl_take_rows *sheet);

/* What such a count adds, with its lease. */
struct sl_row_count sl_take_rows_count(struct sl_take_rows *sheet);

/* When a lease of row `k` must be over, by the clock of `now`: what is taken in
 * advance counts in the window, or the interval, that it was taken in. */
sl_ns sl_take_rows_lease_end(const struct sl_take_rows *sheet, unsigned k);

/* Make of a take that has succeeded one that gives it back at `now`. */
void sl_take_rows_invert(struct sl_take_rows *sheet, sl_ns now);

/* Hand the answers to who asked. */
void sl_take_rows_answer(const struct sl_take_rows *sheet,
                         struct sl_take *take);

#endif
