/* sheet.h -- a take, the rows that it is about, and how it is judged.
 *
 * A sheet has its own copy of the take: it may outlive the one who asked, when
 * what was written too late is given back. Parts of the same row are one: their
 * costs add up. Judging is core's, from the cells that were read to those that
 * are to be written; whether nobody came between is for the write to say.
 *
 * Pure: no connection is known here.
 */
#ifndef SL_SHEET_H
#define SL_SHEET_H

#include "store/dynamo/row.h"

struct sl_sheet {
    enum sl_errand errand;
    sl_ns now;
    unsigned count; /* of parts */
    struct sl_take_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS];
    struct sl_period periods[SL_PARTS]; /* of calendars, when it was taken */
    bool orphaned; /* who asked was told: his calendars may be gone */

    struct sl_row rows[SL_PARTS];
    unsigned row_count;
    unsigned row_of[SL_PARTS]; /* of each part */
    unsigned first[SL_PARTS];  /* of each row: its first part */
    uint64_t cost[SL_PARTS];   /* of each row */
    int beside[SL_PARTS];      /* of each row: the one that counts, too; -1 */
    struct sl_buf names;
};

/* `names` is empty, with a ceiling and an allocator. SLUICE_ENOMEM. */
SL_MUST_USE int sl_sheet_fill(struct sl_sheet *sheet,
                              const struct sl_take *take, sl_ns now);

/* Judge by what the rows say: fills in the answers, and what is to be written
 * (row.changed, row.next). True if the set is allowed. */
bool sl_sheet_judge(struct sl_sheet *sheet);

/* Rows that are to be written, and those that must not have changed. */
unsigned sl_sheet_writes(const struct sl_sheet *sheet);
unsigned sl_sheet_leans(const struct sl_sheet *sheet);

/* One fixed window and a cost that may fit: it can be counted without a look.
 */
bool sl_sheet_is_count(const struct sl_sheet *sheet);

/* Make of a take that has succeeded one that gives it back at `now`. */
void sl_sheet_turn(struct sl_sheet *sheet, sl_ns now);

/* Hand the answers to who asked. */
void sl_sheet_tell(const struct sl_sheet *sheet, struct sl_take *take);

#endif
