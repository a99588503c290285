/* journal.c -- the journal of a set that is written row by row: its texts,
 * requests and replies. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "store/dynamo/dynamo_int.h"
#include "wire/json.h"

#define PARTITION "sluice:pledges"
#define KEPT      (INT64_C(7) * 86400) /* seconds until it expires */
#define LASTS     SL_HOUR              /* every row that was written */

/* ---- rows ---- */

void sl_journal_row_of(const struct sl_journal_row *from, const char *id,
                       struct sl_row *ret)
{
    struct sl_part part = {.limit = &from->limit};

    sl_row_of(&part, from->name, from->taken, ret);
    if (!ret->is_window)
        sl_row_sort(from->shape, ret->sort);
    ret->journal_id = id;
}

/* Refunds what a bucket surely still has of the take; see T in core/hold.h. */
static struct sl_cell refill(const struct sl_journal_row *row,
                             struct sl_cell cell, sl_ns at)
{
    const struct sl_limit *limit = &row->limit;
    struct sl_since since = {.taken = row->taken, .ends = at};
    struct sl_hold_snapshot mark = {
        {(uint64_t)(row->taken / limit->tick),
         sl_mul_sat(row->cost, limit->token)}
    };

    return sl_hold_refund(limit, cell, row->cost, &mark, &since);
}

struct sl_cell sl_journal_undo(const struct sl_journal_row *row,
                               struct sl_cell cell, sl_ns now)
{
    struct sl_period p = row->period;
    sl_ns at = now > row->taken ? now : row->taken;

    if (row->limit.calendar) { /* the policy's calendar may be gone */
        if ((sl_ns)cell.w[0] >= p.start && (sl_ns)cell.w[0] < p.end)
            cell.w[1] = sl_sub_floor(cell.w[1], row->cost);
        return cell;
    }
    at = sl_row_set_time(&row->limit, cell, at);
    if (sl_is_bucket(row->limit.kind))
        return refill(row, cell, at);
    return sl_adjust(&row->limit, cell, -(int64_t)row->cost, row->taken, at)
        .next;
}

bool sl_journal_was_taken(const struct sl_journal *journal,
                          const struct sl_row *last, sl_ns now)
{
    const struct sl_limit *limit = &journal->rows[journal->count - 1].limit;
    bool expires = limit->kind != SL_LEVEL && limit->kind != SL_PERMITS;

    return last->marked ||
           (!last->found && expires && now - journal->at >= LASTS);
}

/* ---- texts: eleven numbers, the last is the length of the name behind it
 * ---- */

#define NUMBERS 11

int sl_journal_add(struct sl_buf *out, const struct sl_journal_row *row)
{
    const struct sl_limit *l = &row->limit;

    return sl_buf_addf(out,
                       "%d %d %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64
                       " %" PRId64 " %" PRIu64 " %" PRId64 " %" PRIu64
                       " %zu %.*s",
                       (int)l->kind, (int)l->quantum, l->count, l->capacity,
                       l->period, l->calendar ? row->period.start : 0,
                       l->calendar ? row->period.end : 0, row->cost, row->taken,
                       row->shape, row->name.len, SL_STR_ARG(row->name));
}

/* Digits and a blank, at most `most`. */
static bool read_number(struct sl_str *text, uint64_t most, uint64_t *ret)
{
    size_t i = 0;

    *ret = 0;
    for (; i < text->len && text->at[i] >= '0' && text->at[i] <= '9'; i++) {
        if (i == 19)
            return false;
        *ret = *ret * 10 + (uint64_t)(text->at[i] - '0');
    }
    if (i == 0 || i == text->len || text->at[i] != ' ' || *ret > most)
        return false;
    *text = sl_str_from(*text, i + 1);
    return true;
}

/* Are the numbers as sl_limit_init() makes them? */
static bool is_sound(const struct sl_limit *limit)
{
    uint64_t most = limit->kind == SL_QUOTA || limit->kind == SL_LEVEL
                        ? SL_AMOUNT_MAX
                        : SL_COUNT_MAX;
    bool timeless =
        limit->kind == SL_PERMITS || limit->kind == SL_LEVEL || limit->calendar;

    if (limit->count == 0 || limit->count > most || limit->capacity == 0 ||
        limit->capacity > most)
        return false;
    return timeless ? limit->period == 0
                    : limit->period >= SL_PERIOD_MIN &&
                          limit->period <= SL_PERIOD_MAX;
}

static bool read_row(struct sl_str *text, struct sl_journal_row *ret)
{
    static const uint64_t most[NUMBERS] = {
        SL_LEVEL,        SL_QUANTUM_US,   SL_AMOUNT_MAX,   SL_AMOUNT_MAX,
        SL_PERIOD_MAX,   SL_TIME_END - 1, SL_NS_MAX,       SL_AMOUNT_MAX,
        SL_TIME_END - 1, SL_NS_MAX,       SL_ROW_NAME_MOST};
    uint64_t n[NUMBERS];

    for (unsigned i = 0; i < NUMBERS; i++)
        if (!read_number(text, most[i], &n[i]))
            return false;
    if (n[10] == 0 || n[10] > text->len)
        return false;
    *ret = (struct sl_journal_row){
        .name = {text->at,                   (size_t)n[10]},
        .limit = {.kind = (enum sl_kind)n[0],
                 .quantum = (enum sl_quantum)n[1],
                 .count = n[2],
                 .capacity = n[3],
                 .period = (sl_ns)n[4],
                 .calendar = n[0] == SL_QUOTA && n[6] > 0},
        .period = {(sl_ns)n[5],           (sl_ns)n[6]                    },
        .cost = n[7],
        .taken = (sl_ns)n[8],
        .shape = n[9],
    };
    *text = sl_str_from(*text, (size_t)n[10]);
    if (!is_sound(&ret->limit))
        return false;
    sl_limit_derive(&ret->limit);
    return true;
}

static bool read_rows(struct sl_str text, struct sl_journal *ret)
{
    ret->count = 0;
    while (text.len > 0) {
        if (ret->count == SL_PARTS || !read_row(&text, &ret->rows[ret->count]))
            return false;
        ret->count++;
    }
    return ret->count > 0;
}

/* ---- requests ---- */

static void put_key(struct sl_writer *w, struct sl_str table,
                    const char *member, const char *id)
{
    sl_writer_addf(w,
                   "{\"TableName\":\"%.*s\",\"%s\":{\"userId\":{\"S\":"
                   "\"" PARTITION "\"},\"dataType\":{\"S\":\"SET#%s\"}",
                   SL_STR_ARG(table), member, id);
}

int sl_journal_put(struct sl_buf *out, struct sl_str table, const char *id,
                   sl_ns at, struct sl_str rows)
{
    struct sl_writer w = {out, 0};

    put_key(&w, table, "Item", id);
    sl_writer_addf(&w,
                   ",\"at\":{\"N\":\"%" PRId64 "\"},\"ttl\":{\"N\":\"%" PRId64
                   "\"},\"rows\":{\"S\":",
                   at / SL_MS, at / SL_S + KEPT);
    sl_json_str(&w, rows);
    sl_writer_add(&w, SL_STR("}}}"));
    return w.err;
}

int sl_journal_put_delete(struct sl_buf *out, struct sl_str table,
                          const char *id)
{
    struct sl_writer w = {out, 0};

    put_key(&w, table, "Key", id);
    sl_writer_add(&w, SL_STR("}}"));
    return w.err;
}

int sl_journal_put_query(struct sl_buf *out, struct sl_str table,
                         struct sl_str after)
{
    struct sl_writer w = {out, 0};

    sl_writer_addf(&w,
                   "{\"TableName\":\"%.*s\",\"KeyConditionExpression\":"
                   "\"userId = :u\",\"ExpressionAttributeValues\":{\":u\":"
                   "{\"S\":\"" PARTITION
                   "\"}},\"ConsistentRead\":true,\"Limit\":100",
                   SL_STR_ARG(table));
    if (after.len > 0) {
        sl_writer_add(&w, SL_STR(",\"ExclusiveStartKey\":{\"userId\":{\"S\":"
                                 "\"" PARTITION "\"},\"dataType\":{\"S\":"));
        sl_json_str(&w, after);
        sl_writer_add(&w, SL_STR("}}"));
    }
    sl_writer_add(&w, SL_STR("}"));
    return w.err;
}

/* ---- replies ---- */

static struct sl_str value_of(const json_t *item, const char *name,
                              const char *type)
{
    const json_t *value = json_object_get(json_object_get(item, name), type);

    return json_is_string(value) ? (struct sl_str){json_string_value(value),
                                                   json_string_length(value)}
                                 : (struct sl_str){"", 0};
}

static bool read_id(struct sl_str sort, char ret[SL_JOURNAL_ID + 1])
{
    struct sl_str head = SL_STR("SET#");

    if (sort.len != head.len + SL_JOURNAL_ID ||
        memcmp(sort.at, head.at, head.len) != 0)
        return false;
    for (unsigned i = 0; i < SL_JOURNAL_ID; i++) {
        char c = sort.at[head.len + i];

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
        ret[i] = c;
    }
    ret[SL_JOURNAL_ID] = '\0';
    return true;
}

static bool is_before(struct sl_str at, sl_ns before, sl_ns *ret)
{
    char text[24];
    struct sl_str digits = {text, 0};
    uint64_t ms;

    if (at.len == 0 || at.len > 19)
        return false;
    digits.len = (size_t)snprintf(text, sizeof(text), "%.*s ", SL_STR_ARG(at));
    if (!read_number(&digits, SL_TIME_END / SL_MS, &ms))
        return false;
    *ret = (sl_ns)ms * SL_MS;
    return *ret < before;
}

static bool read_item(const json_t *item, sl_ns before, struct sl_journal *ret)
{
    sl_buf_clear(&ret->names);
    return read_id(value_of(item, "dataType", "S"), ret->id) &&
           is_before(value_of(item, "at", "N"), before, &ret->at) &&
           !sl_buf_add(&ret->names, value_of(item, "rows", "S")) &&
           read_rows(sl_buf_str(&ret->names), ret);
}

bool sl_journal_read(struct sl_str body, sl_ns before, struct sl_journal *ret,
                     struct sl_buf *after)
{
    json_t *root = json_loadb(body.at ? body.at : "", body.len,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const json_t *list = json_object_get(root, "Items");
    const json_t *last = json_object_get(root, "LastEvaluatedKey");
    bool found = false;

    for (size_t i = 0; i < json_array_size(list) && !found; i++) {
        found = read_item(json_array_get(list, i), before, ret);
        if (found)
            last = json_array_get(list, i);
    }
    sl_buf_clear(after);
    if (sl_buf_add(after, value_of(last, "dataType", "S")))
        sl_buf_clear(after); /* out of memory: starts again */
    json_decref(root);
    return found;
}
