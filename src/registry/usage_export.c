/* usage_export.c -- the counters of all subjects, page by page. */
#include "registry/usage_export.h"

#include <string.h>

#include "registry/registry_int.h"

/* An export without a page for this time has ended. */
#define LIFE SL_HOUR

#define TEXTS 6 /* of a row: scope, id, limit, plan, zone, counted unit */

/* A row in a page: this, then its texts. */
struct packed {
    int64_t numbers[8];
    uint32_t lengths[TEXTS];
};

/* ---- rows ---- */

static int pack(struct sl_buf *out, const struct sl_usage_export_row *row)
{
    const struct sl_str texts[TEXTS] = {row->scope, row->id,   row->limit,
                                        row->plan,  row->zone, row->counted};
    struct packed head = {
        .numbers = {row->start, row->end, row->last_day, row->cap,
                    (int64_t)row->used, (int64_t)row->overage,
                    (int64_t)row->credited, (int64_t)row->scale},
    };
    int err;

    for (unsigned i = 0; i < TEXTS; i++)
        head.lengths[i] = (uint32_t)texts[i].len;
    err = sl_buf_add(out, (struct sl_str){(const char *)&head, sizeof(head)});
    for (unsigned i = 0; i < TEXTS && !err; i++)
        err = sl_buf_add(out, texts[i]);
    return err;
}

bool sl_usage_export_next(struct sl_str *page, struct sl_usage_export_row *ret)
{
    struct sl_str *texts[TEXTS] = {&ret->scope, &ret->id,   &ret->limit,
                                   &ret->plan,  &ret->zone, &ret->counted};
    struct packed head;

    if (page->len < sizeof(head))
        return false;
    memcpy(&head, page->at, sizeof(head));
    *page = sl_str_from(*page, sizeof(head));
    *ret = (struct sl_usage_export_row){
        .start = head.numbers[0],
        .end = head.numbers[1],
        .last_day = head.numbers[2],
        .cap = head.numbers[3],
        .used = (uint64_t)head.numbers[4],
        .overage = (uint64_t)head.numbers[5],
        .credited = (uint64_t)head.numbers[6],
        .scale = (uint64_t)head.numbers[7],
    };
    for (unsigned i = 0; i < TEXTS; i++) {
        *texts[i] = (struct sl_str){page->at, head.lengths[i]};
        *page = sl_str_from(*page, head.lengths[i]);
    }
    return true;
}

/* ---- the life of an export ---- */

static int begin(struct sl_database *db, struct sl_usage_export *e, sl_ns now)
{
    int err = sl_query_run(db, SL_QUERY_TRIM_EXPORTS, "n", now);

    if (!err)
        err = sl_query_run(db, SL_QUERY_TRIM_BEFORE, "");
    if (!err)
        err = sl_query_one(db, SL_QUERY_PUT_EXPORT, "nn c", now, now + LIFE,
                           &e->begun);
    e->as_of = now;
    return err < 0 ? err : 0;
}

/* Finds an export that has begun, and prolongs it now and then. */
static int resume(struct sl_database *db, struct sl_usage_export *e, sl_ns now)
{
    sl_ns expires;
    int found = sl_query_one(db, SL_QUERY_EXPORT, "c nn", e->begun, &e->as_of,
                             &expires);

    e->gone = found == 0 || (found == 1 && now >= expires);
    if (found < 0 || e->gone || expires - now > LIFE / 2)
        return found < 0 ? found : 0;
    return sl_query_run(db, SL_QUERY_EXTEND_EXPORT, "cn", e->begun, now + LIFE);
}

static int end(struct sl_database *db, const struct sl_usage_export *e)
{
    int err = sl_query_run(db, SL_QUERY_DROP_EXPORT, "c", e->begun);

    return err ? err : sl_query_run(db, SL_QUERY_DROP_BEFORE, "c", e->begun);
}

/* ---- pages ---- */

/* Appends rows whose last day is before `to`. *count grows by their number.
 * Rows of counters that were only leased from are left out. */
static int read_rows(struct sl_database *db, struct sl_usage_export *e,
                     int64_t to, struct sl_buf *out, unsigned *count)
{
    const enum sl_query q = SL_QUERY_EXPORT_PAGE;
    const struct sl_usage_position *at = &e->next;
    struct sl_usage_export_row row;
    int found, err = 0;

    sl_query_bind(db, q, "tttnnnnc", at->scope, at->id, at->limit, at->start,
                  at->day, to, (int64_t)(e->most - *count), e->begun);
    while (!err && (found = sl_query_next(
                        db, q, NULL, "tttnnntntcccct", &row.scope, &row.id,
                        &row.limit, &row.start, &row.end, &row.last_day,
                        &row.plan, &row.cap, &row.zone, &row.used, &row.overage,
                        &row.credited, &row.scale, &row.counted)) == 1) {
        ++*count;
        err = pack(out, &row);
    }
    sl_query_reset(db, q);
    return err ? err : found;
}

/* Sets the position to the last row of the page. */
static void advance(struct sl_usage_export *e, struct sl_str page)
{
    struct sl_usage_export_row row;

    while (sl_usage_export_next(&page, &row))
        e->next = (struct sl_usage_position){row.last_day, row.scope, row.id,
                                             row.limit, row.start};
}

int sl_usage_export_page(struct sl_database *db, struct sl_usage_export *e,
                         sl_ns now, struct sl_buf *out)
{
    unsigned count = 0;
    int err;

    e->gone = e->more = false;
    e->begun = e->number;
    e->next = e->after;
    err = e->number == 0 ? begin(db, e, now) : resume(db, e, now);
    if (err || e->gone)
        return err;
    if (e->most == 0)
        return end(db, e);
    if (e->next.day < e->from)
        err = read_rows(db, e, 1, out, &count);
    if (!err && e->next.day < e->from && count < e->most)
        e->next = (struct sl_usage_position){e->from, SL_STR(""), SL_STR(""),
                                             SL_STR(""), 0};
    if (!err && e->next.day >= e->from && count < e->most)
        err = read_rows(db, e, e->to, out, &count);
    e->more = count == e->most;
    if (!err && !e->more)
        err = end(db, e);
    if (!err && count > 0)
        advance(e, sl_buf_str(out));
    return err;
}
