/* row.c -- an item of the table: its names, and what is asked of it. */
#include "store/dynamo/row.h"

#include <inttypes.h>
#include <stdio.h>

#include "store/dynamo/aws.h"
#include "wire/json_old.h"

#define GRACE 3600 /* seconds that a row outlives its meaning */

/* ---- names ---- */

static bool is_utf8(struct sl_str text)
{
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.at[i];
        size_t more = c < 0x80                ? 0
                      : c >= 0xc2 && c < 0xe0 ? 1
                      : c >= 0xe0 && c < 0xf0 ? 2
                      : c >= 0xf0 && c < 0xf5 ? 3
                                              : 4;

        if (more == 4 || c == 0 || i + more >= text.len)
            return false;
        for (size_t k = 1; k <= more; k++)
            if (((unsigned char)text.at[i + k] & 0xc0) != 0x80)
                return false;
        /* Overlong forms and surrogates are as rare as they are unwanted. */
        if ((c == 0xe0 && (unsigned char)text.at[i + 1] < 0xa0) ||
            (c == 0xed && (unsigned char)text.at[i + 1] > 0x9f) ||
            (c == 0xf0 && (unsigned char)text.at[i + 1] < 0x90) ||
            (c == 0xf4 && (unsigned char)text.at[i + 1] > 0x8f))
            return false;
        i += more + 1;
    }
    return true;
}

int sl_row_name(struct sl_str name, struct sl_buf *out)
{
    struct sl_str head = SL_STR("sha256:");
    char hash[SL_SHA256_HEX];
    int err;

    if (name.len > 0 && name.len <= SL_ROW_NAME_MOST && is_utf8(name) &&
        (name.len < head.len || memcmp(name.at, head.at, head.len) != 0))
        return sl_buf_add(out, name);
    err = sl_sha256_hex(name, hash);
    return err ? err : sl_buf_addf(out, "sha256:%s", hash);
}

void sl_row_sort(uint64_t shape, char ret[SL_ROW_SORT])
{
    snprintf(ret, SL_ROW_SORT, "CELL#%016" PRIx64, shape);
}

void sl_row_of(const struct sl_store_part *part, struct sl_str name, sl_ns now,
               struct sl_row *ret)
{
    const struct sl_limit *limit = part->limit;

    *ret = (struct sl_row){.name = name, .is_window = limit->kind == SL_FIXED};
    if (ret->is_window) {
        sl_ns start = now - now % limit->period;

        ret->reset_ms = (uint64_t)((start + limit->period) / SL_MS);
        ret->ttl = ret->reset_ms / 1000 + GRACE;
        snprintf(ret->sort, sizeof(ret->sort), "RATE_LIMIT#%" PRId64,
                 start / SL_MS);
    } else {
        sl_row_sort(sl_limit_shape(limit), ret->sort);
    }
}

void sl_row_date(struct sl_row *row, const struct sl_limit *limit, sl_ns now,
                 sl_ns reset_in)
{
    /* A window that slides weighs on the next one. */
    sl_ns more = limit->kind == SL_SLIDING ? limit->period : 0;

    if (!row->is_window)
        row->ttl = reset_in == SL_NS_NONE
                       ? 0
                       : (uint64_t)((now + reset_in + more) / SL_S) + 1 + GRACE;
}

struct sl_cell sl_row_cell(const struct sl_row *row, uint64_t count, sl_ns now)
{
    (void)row;
    return count > 0 ? sl_cell_of((uint64_t)now, count) : sl_cell_of(0, 0);
}

/* ---- pieces of requests ---- */

static int put_key(struct sl_buf *out, const struct sl_row *row)
{
    int err = sl_buf_add(out, SL_STR("{\"userId\":{\"S\":"));

    if (!err)
        err = sl_json_string(out, row->name);
    return err ? err
               : sl_buf_addf(out, "},\"dataType\":{\"S\":\"%s\"}}", row->sort);
}

static int put_head(struct sl_buf *out, struct sl_str table,
                    const struct sl_row *row)
{
    int err =
        sl_buf_addf(out, "\"TableName\":\"%.*s\",\"Key\":", SL_STR_ARG(table));

    return err ? err : put_key(out, row);
}

/* That a row says what we have seen of it, and the names and values that this
 * takes. */
static const char *condition_of(const struct sl_row *row)
{
    if (!row->there)
        return "attribute_not_exists(#a)";
    return row->is_window ? "#a = :a" : "#a = :a AND #b = :b";
}

static int put_old(struct sl_buf *out, const struct sl_row *row, char before)
{
    int err;

    if (!row->there)
        return 0;
    err = sl_buf_addf(out, "%c\":a\":{\"N\":\"%" PRIu64 "\"}", before,
                      row->is_window ? row->cell.w[1] : row->cell.w[0]);
    if (!err && !row->is_window)
        err =
            sl_buf_addf(out, ",\":b\":{\"N\":\"%" PRIu64 "\"}", row->cell.w[1]);
    return err;
}

static int put_names(struct sl_buf *out, const struct sl_row *row, bool all)
{
    int err = sl_buf_addf(out, ",\"ExpressionAttributeNames\":{\"#a\":\"%s\"",
                          row->is_window ? "count" : "cell0");

    if (!err && !row->is_window && (all || row->there))
        err = sl_buf_add(out, SL_STR(",\"#b\":\"cell1\""));
    if (!err && all && row->is_window)
        err = sl_buf_add(out, SL_STR(",\"#r\":\"resetTime\""));
    if (!err && all && row->ttl > 0)
        err = sl_buf_add(out, SL_STR(",\"#t\":\"ttl\""));
    if (!err && all && row->set)
        err = sl_buf_add(out, SL_STR(",\"#s\":\"sets\""));
    if (!err && all && row->leases)
        err = sl_buf_addf(out, ",\"#l\":\"lease%u\"", row->lease_slot);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

/* What is set beside the number itself. */
static int put_new(struct sl_buf *out, const struct sl_row *row)
{
    int err = 0;

    if (row->is_window)
        err =
            sl_buf_addf(out, ",\":r\":{\"N\":\"%" PRIu64 "\"}", row->reset_ms);
    if (!err && row->ttl > 0)
        err = sl_buf_addf(out, ",\":t\":{\"N\":\"%" PRIu64 "\"}", row->ttl);
    if (!err && row->leases)
        err = sl_buf_addf(out,
                          ",\":v\":{\"S\":\"till %" PRIu64 ": %" PRIu64 "\"}",
                          row->lease_till, row->lease_amount);
    return err;
}

static const char *lease_of_update(const struct sl_row *row)
{
    return row->leases ? ", #l = :v" : "";
}

uint64_t sl_row_read_lease(const char *text, sl_ns now)
{
    uint64_t till, amount;
    int len = 0;

    if (strlen(text) > 48 ||
        sscanf(text, "till %19" SCNu64 ": %16" SCNu64 "%n", &till, &amount,
               &len) != 2 ||
        text[len] != '\0' || amount > SL_AMOUNT_MAX)
        return 0;
    return till > (uint64_t)(now / SL_MS) ? amount : 0;
}

static const char *rest_of_update(const struct sl_row *row)
{
    if (row->is_window)
        return ", #r = :r, #t = :t";
    return row->ttl > 0 ? ", #b = :y, #t = :t" : ", #b = :y";
}

#define IS_MARKED "contains(#s, :m)"

static const char *mark_of_update(const struct sl_row *row)
{
    if (!row->set)
        return "";
    return row->unmarks ? " DELETE #s :s" : " ADD #s :s";
}

static int put_mark(struct sl_buf *out, const struct sl_row *row, char before,
                    bool unmarks)
{
    int err = sl_buf_addf(out, "%c\":s\":{\"SS\":[\"%s\"]}", before, row->set);

    return err || !unmarks
               ? err
               : sl_buf_addf(out, ",\":m\":{\"S\":\"%s\"}", row->set);
}

static int put_swap(struct sl_buf *out, struct sl_str table,
                    const struct sl_row *row)
{
    int err = put_head(out, table, row);

    if (!err)
        err = sl_buf_addf(out,
                          ",\"UpdateExpression\":\"SET #a = :x%s%s%s\","
                          "\"ConditionExpression\":\"%s%s\"",
                          rest_of_update(row), lease_of_update(row),
                          mark_of_update(row), condition_of(row),
                          row->set && row->unmarks ? " AND " IS_MARKED : "");
    if (!err)
        err = put_names(out, row, true);
    if (!err)
        err = sl_buf_addf(out,
                          ",\"ExpressionAttributeValues\":{"
                          "\":x\":{\"N\":\"%" PRIu64 "\"}",
                          row->is_window ? row->next.w[1] : row->next.w[0]);
    if (!err && !row->is_window)
        err =
            sl_buf_addf(out, ",\":y\":{\"N\":\"%" PRIu64 "\"}", row->next.w[1]);
    if (!err)
        err = put_new(out, row);
    if (!err)
        err = put_old(out, row, ',');
    if (!err && row->set)
        err = put_mark(out, row, ',', row->unmarks);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int put_check(struct sl_buf *out, struct sl_str table,
                     const struct sl_row *row)
{
    int err = put_head(out, table, row);

    if (!err)
        err = sl_buf_addf(out, ",\"ConditionExpression\":\"%s\"",
                          condition_of(row));
    if (!err)
        err = put_names(out, row, false);
    if (!err && row->there) {
        err = sl_buf_add(out, SL_STR(",\"ExpressionAttributeValues\":"));
        if (!err)
            err = put_old(out, row, '{');
        if (!err)
            err = sl_buf_add(out, SL_STR("}"));
    }
    return err;
}

/* ---- requests ---- */

int sl_row_put_get(struct sl_buf *out, struct sl_str table,
                   const struct sl_row *row)
{
    int err = sl_buf_add(out, SL_STR("{"));

    if (!err)
        err = put_head(out, table, row);
    return err ? err : sl_buf_add(out, SL_STR(",\"ConsistentRead\":true}"));
}

int sl_row_put_batch(struct sl_buf *out, struct sl_str table,
                     const struct sl_row *rows, unsigned count)
{
    int err = sl_buf_addf(out, "{\"RequestItems\":{\"%.*s\":{\"Keys\":[",
                          SL_STR_ARG(table));

    for (unsigned i = 0; i < count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = put_key(out, &rows[i]);
    }
    return err ? err : sl_buf_add(out, SL_STR("],\"ConsistentRead\":true}}}"));
}

/* What was there comes with the refusal, where the endpoint can. */
#define ALL_OLD ",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}"

int sl_row_put_swap(struct sl_buf *out, struct sl_str table,
                    const struct sl_row *row)
{
    int err = sl_buf_add(out, SL_STR("{"));

    if (!err)
        err = put_swap(out, table, row);
    return err ? err : sl_buf_add(out, SL_STR(ALL_OLD));
}

/* What gives back counts on what is there. */
static const char *count_condition(const struct sl_row_count *count)
{
    return count->least > 0 ? "#a BETWEEN :l AND :m"
                            : "attribute_not_exists(#a) OR #a <= :m";
}

static int put_count_values(struct sl_buf *out, const struct sl_row *row,
                            const struct sl_row_count *count)
{
    int err = sl_buf_addf(out,
                          ",\"ExpressionAttributeValues\":{"
                          "\":z\":{\"N\":\"0\"},"
                          "\":c\":{\"N\":\"%" PRId64 "\"},"
                          "\":m\":{\"N\":\"%" PRIu64 "\"}",
                          count->add, count->most);

    if (!err && count->least > 0)
        err = sl_buf_addf(out, ",\":l\":{\"N\":\"%" PRIu64 "\"}", count->least);
    return err ? err : put_new(out, row);
}

int sl_row_put_count(struct sl_buf *out, struct sl_str table,
                     const struct sl_row *row, const struct sl_row_count *count)
{
    int err = sl_buf_add(out, SL_STR("{"));

    if (!err)
        err = put_head(out, table, row);
    if (!err)
        err = sl_buf_addf(
            out,
            ",\"UpdateExpression\":\"SET #a = if_not_exists(#a, :z) + :c, "
            "#r = :r, #t = :t%s\",\"ConditionExpression\":\"%s\"",
            lease_of_update(row), count_condition(count));
    if (!err)
        err = put_names(out, row, true);
    if (!err)
        err = put_count_values(out, row, count);
    return err ? err
               : sl_buf_add(out,
                            SL_STR("},\"ReturnValues\":\"ALL_NEW\"" ALL_OLD));
}

int sl_row_put_unmark(struct sl_buf *out, struct sl_str table,
                      const struct sl_row *row)
{
    int err = sl_buf_add(out, SL_STR("{"));

    if (!err)
        err = put_head(out, table, row);
    if (!err)
        err = sl_buf_add(
            out, SL_STR(",\"UpdateExpression\":\"DELETE #s :s\","
                        "\"ConditionExpression\":\"" IS_MARKED "\","
                        "\"ExpressionAttributeNames\":{\"#s\":\"sets\"},"
                        "\"ExpressionAttributeValues\":"));
    if (!err)
        err = put_mark(out, row, '{', true);
    return err ? err : sl_buf_add(out, SL_STR("}}"));
}

/* A mark says that its set was taken: that must not go with the row. */
static int put_delete(struct sl_buf *out, struct sl_str table,
                      const struct sl_row *row)
{
    int err = put_head(out, table, row);

    return err ? err
               : sl_buf_add(
                     out,
                     SL_STR(",\"ConditionExpression\":"
                            "\"attribute_not_exists(#s)\","
                            "\"ExpressionAttributeNames\":{\"#s\":\"sets\"}"));
}

int sl_row_put_delete(struct sl_buf *out, struct sl_str table,
                      const struct sl_row *row)
{
    int err = sl_buf_add(out, SL_STR("{"));

    if (!err)
        err = put_delete(out, table, row);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static int put_one_of_set(struct sl_buf *out, struct sl_str table,
                          const struct sl_row *row)
{
    const char *act = !row->changed  ? "ConditionCheck"
                      : row->deletes ? "Delete"
                                     : "Update";
    int err = sl_buf_addf(out, "{\"%s\":{", act);

    if (!err && !row->changed)
        err = put_check(out, table, row);
    else if (!err && row->deletes)
        err = put_delete(out, table, row);
    else if (!err)
        err = put_swap(out, table, row);
    return err ? err : sl_buf_add(out, SL_STR("}}"));
}

int sl_row_put_set(struct sl_buf *out, struct sl_str table,
                   const struct sl_row *rows, unsigned count)
{
    int err = sl_buf_add(out, SL_STR("{\"TransactItems\":["));
    bool first = true;

    for (unsigned i = 0; i < count && !err; i++) {
        if (!rows[i].changed && !rows[i].leaned_on)
            continue;
        if (!first)
            err = sl_buf_add(out, SL_STR(","));
        first = false;
        if (!err)
            err = put_one_of_set(out, table, &rows[i]);
    }
    return err ? err : sl_buf_add(out, SL_STR("]}"));
}
