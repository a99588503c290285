/* pledge.h -- what is meant by a set that is taken in steps, so that a crash
 * between two of them can be healed by others.
 *
 *   userId           dataType        at       rows                       ttl
 *   sluice:pledges   SET#3f0c...     ...ms    kind, numbers, cost, name  ...s
 *
 * It is written before the first step and removed after the last. Each step
 * puts the set's mark into its row, in the same write that takes from it
 * (`sets`, a set of texts). So whoever finds a pledge knows of each row
 * whether it was taken, and each row is given back once at most: the write that
 * gives back takes the mark away.
 *
 * The last row decides. If it has the mark all were taken, and the marks are
 * taken away from the first row to the last; if not, the set is to be undone.
 * So a reset leaves marks where they are, and a row that never expires is last
 * if there is one. Of others one that is gone after an hour may have expired:
 * then nobody knows, and the set stays taken.
 *
 * Pure: no connection is known here.
 */
#ifndef SL_DYNAMO_PLEDGE_H
#define SL_DYNAMO_PLEDGE_H

#include "store/dynamo/row.h"

#define SL_JOURNAL_PLEDGE_ID 32 /* hex digits */

/* One row of a set, with as much of its limit as giving back needs. */
struct sl_journal_pledge_row {
    struct sl_str name; /* as the table has it */
    struct sl_limit limit;
    struct sl_period period; /* of a calendar, when it was taken */
    uint64_t shape;          /* which a calendar that is gone had a part in */
    uint64_t cost;
    sl_ns taken;
};

struct sl_journal_pledge {
    char id[SL_JOURNAL_PLEDGE_ID + 1];
    sl_ns at; /* when it was put */
    unsigned count;
    struct sl_journal_pledge_row rows[SL_PARTS];
    struct sl_buf names;
};

/* The row itself, that the set `id` marks. `id` is borrowed, and the name. */
void sl_journal_pledge_row_of(const struct sl_journal_pledge_row *from,
                              const char *id, struct sl_row *ret);

/* What a row that says `cell` says when the set is taken back at `now`. A
 * bucket gets back no more than what was poured since leaves: what it has
 * refilled may have been spent by others. */
struct sl_cell sl_journal_pledge_undo(const struct sl_journal_pledge_row *row,
                                      struct sl_cell cell, sl_ns now);

/* Was all of it taken, by what was found of the last row at `now`? */
bool sl_journal_pledge_was_taken(const struct sl_journal_pledge *pledge,
                                 const struct sl_row *last, sl_ns now);

/* A row as a text, appended to `out`. */
SL_MUST_USE int sl_journal_pledge_add(struct sl_buf *out,
                                      const struct sl_journal_pledge_row *row);

/* ---- requests ---- */

/* PutItem: `rows` are the texts of all rows, `at` is by the wall clock. */
SL_MUST_USE int sl_journal_pledge_put(struct sl_buf *out, struct sl_str table,
                                      const char *id, sl_ns at,
                                      struct sl_str rows);
/* DeleteItem. */
SL_MUST_USE int sl_journal_pledge_put_delete(struct sl_buf *out,
                                             struct sl_str table,
                                             const char *id);
/* Query: a page of them, behind `after`; "": from the first one on. */
SL_MUST_USE int sl_journal_pledge_put_query(struct sl_buf *out,
                                            struct sl_str table,
                                            struct sl_str after);

/* Read what that answered: the first one that was put before `before`, into
 * *ret, whose buffer has an allocator. False if there is none; what is none of
 * ours is passed over. `after` is then where to go on: behind that one, or the
 * page; "" if there are no more. */
SL_MUST_USE bool sl_journal_pledge_read(struct sl_str body, sl_ns before,
                                        struct sl_journal_pledge *ret,
                                        struct sl_buf *after);

#endif
