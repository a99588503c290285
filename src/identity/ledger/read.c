/* read.c -- what the books have. */
#include <string.h>

#include "registry/registry_int.h"
#include "registry/usage_db.h"

const char sl_usage_db_forget[] =
    "DELETE FROM usage_counters; DELETE FROM usage_days;"
    "DELETE FROM usage_months; DELETE FROM usage_keys;"
    "DELETE FROM usage_things; DELETE FROM usage_credits;"
    "DELETE FROM usage_holds; DELETE FROM usage_owed;"
    "DELETE FROM usage_leases";

static uint64_t number(struct sl_database *db, enum sl_query q, int column)
{
    int64_t n = sl_query_integer(db, q, column);

    return n > 0 ? (uint64_t)n : 0;
}

static int read_rows(struct sl_database *db, enum sl_query q,
                     enum sl_usage_row_kind kind, struct sl_buf *out)
{
    struct sl_usage_row row;
    struct sl_str limit;
    int err;

    while ((err = sl_query_step(db, q)) == 1) {
        memset(&row, 0, sizeof(row)); /* also what lies between its members */
        limit = sl_query_column(db, q, 0);
        if (limit.len > SL_USAGE_NAME)
            continue;
        if (limit.len > 0)
            memcpy(row.limit, limit.at, limit.len);
        row.kind = kind;
        row.when = sl_query_integer(db, q, 1);
        row.used = number(db, q, 2);
        row.overage = number(db, q, 3);
        row.credited = number(db, q, 4);
        err = sl_buf_add(out, (struct sl_str){(char *)&row, sizeof(row)});
        if (err)
            break;
    }
    sl_query_reset(db, q);
    return err;
}

int sl_usage_db_read(struct sl_database *db, struct sl_str scope,
                     struct sl_str id, sl_ns since, sl_ns started, sl_ns now,
                     struct sl_buf *out)
{
    const struct {
        enum sl_query query;
        enum sl_usage_row_kind kind;
        int64_t from;
    } parts[] = {
        {SL_QUERY_READ_COUNTERS, SL_ROW_COUNTER, started           },
        {SL_QUERY_READ_DAYS,     SL_ROW_DAY,     since / SL_DAY    },
        {SL_QUERY_READ_MONTHS,   SL_ROW_MONTH,   sl_month_of(since)},
        {SL_QUERY_READ_CREDITS,  SL_ROW_CREDIT,  now               },
    };
    int err = 0;

    for (size_t i = 0; i < SL_LEN(parts) && !err; i++) {
        sl_query_text(db, parts[i].query, 1, scope);
        sl_query_text(db, parts[i].query, 2, id);
        sl_query_number(db, parts[i].query, 3, parts[i].from);
        err = read_rows(db, parts[i].query, parts[i].kind, out);
    }
    return err;
}

int sl_usage_db_each(struct sl_database *db, sl_ns since, sl_usage_db_f *f,
                     void *ctx)
{
    const enum sl_query q = SL_QUERY_EACH_COUNTER;
    int err;

    sl_query_text(db, q, 1, db->node);
    sl_query_number(db, q, 2, since);
    while ((err = sl_query_step(db, q)) == 1) {
        struct sl_usage_entry usage = {
            .scope = sl_query_column(db, q, 0),
            .id = sl_query_column(db, q, 1),
            .limit = sl_query_column(db, q, 2),
            .start = sl_query_integer(db, q, 3),
            .used = number(db, q, 4),
            .owed = number(db, q, 5),
        };

        f(ctx, &usage);
    }
    sl_query_reset(db, q);
    if (err)
        return err;
    sl_query_text(db, SL_QUERY_PAID_ALL, 1, db->node);
    err = sl_query_step(db, SL_QUERY_PAID_ALL); /* and wait for it */
    sl_query_reset(db, SL_QUERY_PAID_ALL);
    return err;
}
