/* usage_export.h -- the counters of all subjects, page by page, for bills.
 *
 *     begin    a row of usage_exports; from here on, the first change of a
 *              counter keeps its values in usage_before
 *     page     rows in a fixed order: as they were when the export began
 *     end      after the last page, or when no page was read for LIFE
 *
 * Invariants. (test/unit/registry/usage_export.c checks each by number.)
 *   (1) Every counter whose last day lies in from .. to is in one page, once.
 *   (2) All numbers are those of one instant: a transaction is in the export
 *       as a whole or not at all.
 *   (3) The order does not depend on writes that go on.
 *   (4) A page needs memory for its own rows only.
 */
#ifndef SL_REGISTRY_USAGE_EXPORT_H
#define SL_REGISTRY_USAGE_EXPORT_H

#include "base/buf.h"
#include "registry/usage_db.h"

#define SL_EXPORT_PAGE 500 /* rows of a page, at most */

/* Where the next page begins: behind this row. Texts are borrowed. */
struct sl_usage_position {
    int64_t day; /* 0: rows of earlier versions, whose end is not known */
    struct sl_str scope, id, limit;
    sl_ns start;
};

struct sl_usage_export {
    uint64_t number;  /* 0: begin a new export */
    int64_t from, to; /* days since 1970; from >= 1; `to` is not included */
    struct sl_usage_position after;
    unsigned most; /* 0: end it */

    /* Out. The input stays, because a job may be run again. */
    uint64_t begun;                /* the number */
    struct sl_usage_position next; /* after the page; in `out` */
    sl_ns as_of;                   /* the instant of the numbers */
    bool more;                     /* there may be more rows */
    bool gone;                     /* there is no export of this number */
};

struct sl_usage_export_row {
    struct sl_str scope, id, limit, plan, zone;
    struct sl_str counted; /* with a scale: the unit of the numbers */
    uint64_t scale;        /* 0: a plain unit */
    sl_ns start;
    sl_ns end;        /* 0: not known */
    int64_t last_day; /* 0: not known */
    int64_t cap;      /* -1: none, or not known */
    uint64_t used, overage, credited;
};

/* Appends a page to `out`. The caller has locked all writers if number is 0. */
SL_MUST_USE int sl_usage_export_page(struct sl_database *db,
                                     struct sl_usage_export *export, sl_ns now,
                                     struct sl_buf *out);

/* Cuts the next row off a page. Its texts are in the page. Returns false at the
 * end. */
SL_MUST_USE bool sl_usage_export_next(struct sl_str *page,
                                      struct sl_usage_export_row *ret);

#endif
