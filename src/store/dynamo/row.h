/* row.h -- an item of the table: whose it is, and what it says.
 *
 *   userId             dataType                   count  resetTime  ttl
 *   search:user:123    RATE_LIMIT#1704067200000   45     ...ms      ...s
 *   userId             dataType                   cell0  cell1      ttl
 *   sluice:prod:...    CELL#0000000e8d4a5101      ...    ...        ...s
 *
 * A fixed window is a row of its own, named by its start: so the table looked
 * before there was a Sluice, and so anybody can read it. Every other kind is
 * one row with the two words of its cell, named by the limit's shape, so that
 * a changed kind or period starts afresh.
 *
 * `ttl` is an hour after a row has lost its meaning. Nothing depends on when
 * DynamoDB removes it.
 */
#ifndef SL_ROW_H
#define SL_ROW_H

#include "base/buf.h"
#include "store/store.h"

#define SL_ROW_NAME_MOST 1024 /* bytes; longer names are hashed */
#define SL_ROW_SORT      40
#define SL_ROW_LEASES    64 /* loops beyond that share one */

struct sl_row {
    struct sl_str name;
    char sort[SL_ROW_SORT];
    bool is_window;
    uint64_t reset_ms; /* of a window: its end */

    bool there;          /* it was found... */
    struct sl_cell cell; /* ...and says this; zeros if not */
    struct sl_cell next; /* what it is to say */
    uint64_t ttl;        /* of `next`, in seconds; 0: none */
    bool changed;        /* it is to be written */
    bool leaned_on;      /* what another was judged by: it must not have
                          * changed when that is written */

    /* What loops have taken in advance, each in an attribute of its own, so
     * that a reset leaves that taken: "lease7" is "till 1704067201000: 40". */
    uint64_t leased;     /* by all that was found, and lasts at the time */
    bool leases;         /* a write notes ours: */
    unsigned lease_slot; /* < SL_ROW_LEASES */
    uint64_t lease_amount;
    uint64_t lease_till; /* ms */
    bool deletes;        /* a reset: the row goes, if it has no marks */

    const char *set; /* of which it is a part, taken in steps (pledge.h); NULL:
                      * none */
    bool marked;     /* it was found with that one's mark */
    bool has_marks;  /* or that of any */
    bool unmarks;    /* a swap takes the mark away, and needs it there; else it
                      * puts it there */
};

/* The row of a part at `now`. `name` is borrowed. */
void sl_row_of(const struct sl_store_part *part, struct sl_str name, sl_ns now,
               struct sl_row *ret);

/* Its ttl, if it is full again `reset_in` from now. One without a clock
 * (SL_NS_NONE) has none, and then a write leaves what is there. */
void sl_row_date(struct sl_row *row, const struct sl_limit *limit, sl_ns now,
                 sl_ns reset_in);

/* The sort key of a cell, by its limit's shape. */
void sl_row_sort(uint64_t shape, char ret[SL_ROW_SORT]);

/* What a part is called in the table: its name, or "sha256:..." if that is too
 * long, no UTF-8, or begins so. Appended to `out`. */
SL_MUST_USE int sl_row_name(struct sl_str name, struct sl_buf *out);

/* The count of a window as the cell that core knows, and back. */
struct sl_cell sl_row_cell(const struct sl_row *row, uint64_t count, sl_ns now);

/* ---- requests: bodies, appended to `out` ---- */

SL_MUST_USE int sl_row_put_get(struct sl_buf *out, struct sl_str table,
                               const struct sl_row *row);
SL_MUST_USE int sl_row_put_batch(struct sl_buf *out, struct sl_str table,
                                 const struct sl_row *rows, unsigned count);

/* UpdateItem: `next` instead of `cell`, if that is still there. */
SL_MUST_USE int sl_row_put_swap(struct sl_buf *out, struct sl_str table,
                                const struct sl_row *row);

/* UpdateItem of a window: add to its count, if that lies between the two. One
 * that is not there is 0. */
struct sl_row_count {
    int64_t add;
    uint64_t least, most;
};
SL_MUST_USE int sl_row_put_count(struct sl_buf *out, struct sl_str table,
                                 const struct sl_row *row,
                                 const struct sl_row_count *count);

/* UpdateItem: take the mark of its set away, if it is there. */
SL_MUST_USE int sl_row_put_unmark(struct sl_buf *out, struct sl_str table,
                                  const struct sl_row *row);

SL_MUST_USE int sl_row_put_delete(struct sl_buf *out, struct sl_str table,
                                  const struct sl_row *row);

/* TransactWriteItems: swap those that changed, or delete them, and check those
 * that were leaned on. */
SL_MUST_USE int sl_row_put_set(struct sl_buf *out, struct sl_str table,
                               const struct sl_row *rows, unsigned count);

/* The value of a lease: what it says of an amount that lasts at `now`; 0 if it
 * is none of ours, or over. */
uint64_t sl_row_read_lease(const char *text, sl_ns now);

#endif
