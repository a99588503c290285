/* rows.c -- a take, the rows that it is about, and how it is judged. */
#include <inttypes.h>
#include <stdio.h>

#include "base/arith.h"
#include "store/dynamo/aws.h"
#include "store/dynamo/dynamo_int.h"
#include "wire/json.h"

/* ---- filling ---- */

static bool may_carry(enum sl_take_op op)
{
    return op == SL_TAKE_OP_TAKE || op == SL_TAKE_OP_PEEK ||
           op == SL_TAKE_OP_EACH;
}

static int add_name(struct sl_take_rows *take_rows, const struct sl_part *part,
                    size_t *ret_len)
{
    size_t before = take_rows->names.len;
    int err = sl_row_name(sl_take_part_name(part), &take_rows->names);

    *ret_len = take_rows->names.len - before;
    return err;
}

/* The row that is already there for this name and limit, or a new one. */
static unsigned find_row(struct sl_take_rows *take_rows,
                         const struct sl_row *row)
{
    unsigned i = 0;

    while (i < take_rows->row_count &&
           (!sl_str_eq(take_rows->rows[i].name, row->name) ||
            strcmp(take_rows->rows[i].sort, row->sort) != 0))
        i++;
    return i;
}

static void fill_part(struct sl_take_rows *take_rows, unsigned i,
                      struct sl_str name)
{
    struct sl_row row;
    unsigned k;

    sl_row_of(&take_rows->parts[i], name, take_rows->now, &row);
    k = find_row(take_rows, &row);
    take_rows->row_of[i] = k;
    if (k < take_rows->row_count) {
        take_rows->cost[k] =
            sl_add_sat(take_rows->cost[k], take_rows->parts[i].cost);
    } else {
        take_rows->rows[k] = row;
        take_rows->first[k] = i;
        take_rows->cost[k] = take_rows->parts[i].cost;
        take_rows->beside[k] = -1;
        take_rows->lease[k] = (struct sl_row_lease){0};
        take_rows->row_count++;
    }
    if (i > 0 && take_rows->parts[i - 1].carried &&
        take_rows->row_of[i - 1] < take_rows->row_of[i])
        take_rows->beside[k] = (int)take_rows->row_of[i - 1];
}

static void copy_part(struct sl_take_rows *take_rows,
                      const struct sl_take *take, unsigned i)
{
    struct sl_part *part = &take_rows->parts[i];

    *part = take->parts[i];
    take_rows->limits[i] = *take->parts[i].limit;
    part->limit = &take_rows->limits[i];
    part->carried = part->carried && may_carry(take->op);
    part->untracked = false;
    if (part->limit->calendar)
        take_rows->periods[i] =
            sl_calendar_period(&part->limit->cal, take_rows->now);
}

int sl_take_rows_fill(struct sl_take_rows *take_rows,
                      const struct sl_take *take, sl_ns now)
{
    size_t lens[SL_PARTS], at = 0;
    int err = 0;

    take_rows->op = take->op;
    take_rows->now = now;
    take_rows->count = take->count < SL_PARTS ? take->count : SL_PARTS;
    take_rows->row_count = 0;
    take_rows->orphaned = take_rows->is_rest = false;
    for (unsigned i = 0; i < take_rows->count && !err; i++)
        err = add_name(take_rows, &take->parts[i], &lens[i]);
    for (unsigned i = 0; i < take_rows->count && !err; i++) {
        copy_part(take_rows, take, i);
        fill_part(take_rows, i,
                  (struct sl_str){take_rows->names.bytes + at, lens[i]});
        at += lens[i];
    }
    return err;
}

int sl_take_rows_fill_rest(struct sl_take_rows *take_rows,
                           const struct sl_lease_rest *rest, sl_ns now)
{
    int err = sl_row_name(rest->name, &take_rows->names);

    take_rows->op = SL_TAKE_OP_REFUND;
    take_rows->now = rest->taken; /* which names the row of a window */
    take_rows->count = 1;
    take_rows->row_count = 0;
    take_rows->orphaned = take_rows->is_rest = true;
    take_rows->limits[0] = rest->limit;
    take_rows->periods[0] = rest->period;
    take_rows->parts[0] = (struct sl_part){.limit = &take_rows->limits[0],
                                           .cost = rest->amount,
                                           .taken_at = rest->taken};
    if (!err)
        fill_part(take_rows, 0, sl_buf_str(&take_rows->names));
    take_rows->now = now > rest->taken ? now : rest->taken;
    return err;
}

/* ---- judging ---- */

/* A calendar that may be gone: its period was noted. */
static struct sl_take_result
give_back_noted(const struct sl_take_rows *take_rows, unsigned i,
                struct sl_cell cell, uint64_t cost)
{
    struct sl_period p = take_rows->periods[i];
    struct sl_take_result t = {.next = cell};

    if ((sl_ns)cell.w[0] >= p.start && (sl_ns)cell.w[0] < p.end)
        t.next.w[1] = sl_sub_floor(cell.w[1], cost);
    return t;
}

/* What may go back of a lease of which `amount` was left at `now`: the row may
 * be of a later instant, and a refill since then has covered the rest. */
static uint64_t surely_left(const struct sl_limit *limit, struct sl_cell cell,
                            uint64_t amount, sl_ns taken, sl_ns now)
{
    sl_ns latest = now > (sl_ns)cell.w[0] ? now : (sl_ns)cell.w[0];

    if (limit->kind == SL_INTERVAL)
        return latest / limit->period == taken / limit->period ? amount : 0;
    if (limit->kind == SL_BUCKET)
        return sl_sub_floor(amount,
                            sl_muldiv_up((uint64_t)(latest - now), limit->count,
                                         (uint64_t)limit->period));
    return amount;
}

/* Part `i`, the first of its row, by its errand. */
static struct sl_take_result judge(const struct sl_take_rows *take_rows,
                                   unsigned i, struct sl_cell cell,
                                   uint64_t cost)
{
    const struct sl_limit *limit = take_rows->parts[i].limit;
    uint64_t amount = cost < SL_AMOUNT_MAX ? cost : SL_AMOUNT_MAX;
    sl_ns now = take_rows->at[take_rows->row_of[i]];
    struct sl_take_result t;
    struct sl_answer would;

    switch (take_rows->op) {
    case SL_TAKE_OP_PEEK:
        would = sl_take(limit, cell, cost, now).answer;
        t = sl_take(limit, cell, 0, now);
        t.answer.outcome = would.outcome;
        t.answer.retry_in = would.retry_in;
        return t;
    case SL_TAKE_OP_CHARGE:
        return sl_adjust(limit, cell, (int64_t)amount, now, now);
    case SL_TAKE_OP_REFUND:
        if (take_rows->is_rest)
            amount = surely_left(limit, cell, amount,
                                 take_rows->parts[i].taken_at, take_rows->now);
        if (limit->calendar && take_rows->orphaned)
            return give_back_noted(take_rows, i, cell, amount);
        return sl_adjust(limit, cell, -(int64_t)amount,
                         take_rows->parts[i].taken_at, now);
    case SL_TAKE_OP_RESET: /* what is leased may still be spent */
        return sl_adjust(limit, sl_cell_of(0, 0),
                         (int64_t)take_rows->rows[take_rows->row_of[i]].leased,
                         now, now);
    case SL_TAKE_OP_TAKE:
    case SL_TAKE_OP_EACH:
    case SL_TAKE_OP_SETTLE:
        break;
    }
    return sl_take(limit, cell, cost, now);
}

/* What part `i` says if `used` of another key counts against it, too. */
static void count_beside(const struct sl_take_rows *take_rows, unsigned i,
                         struct sl_cell cell, uint64_t cost, uint64_t used,
                         struct sl_take_result *taken)
{
    const struct sl_limit *limit = take_rows->parts[i].limit;
    sl_ns now = take_rows->at[take_rows->row_of[i]];
    struct sl_cell both = sl_adjust(limit, cell, (int64_t)used, now, now).next;
    struct sl_answer would = sl_take(limit, both, cost, now).answer;

    if (would.outcome != SL_ALLOW)
        taken->next = sl_take(limit, cell, 0, now).next;
    taken->answer = would;
    if (take_rows->op == SL_TAKE_OP_PEEK) {
        taken->answer = sl_take(limit, both, 0, now).answer;
        taken->answer.outcome = would.outcome;
        taken->answer.retry_in = would.retry_in;
    }
}

static uint64_t used_of(const struct sl_answer *answer)
{
    return sl_sub_floor(answer->capacity, answer->remaining);
}

/* What a row is judged by: without what is left of a lease of it. */
static struct sl_cell cell_of(const struct sl_take_rows *take_rows, unsigned k)
{
    const struct sl_row_lease *lease = &take_rows->lease[k];
    const struct sl_limit *limit = take_rows->parts[take_rows->first[k]].limit;
    struct sl_cell cell = take_rows->rows[k].cell;
    uint64_t back =
        surely_left(limit, cell, lease->back, lease->taken, take_rows->now);

    if (back == 0)
        return cell;
    return sl_adjust(limit, cell, -(int64_t)back, lease->taken,
                     take_rows->at[k])
        .next;
}

static struct sl_take_result judge_row(struct sl_take_rows *take_rows,
                                       unsigned k, bool refused,
                                       const struct sl_take_result *taken)
{
    unsigned i = take_rows->first[k];
    struct sl_cell cell = cell_of(take_rows, k);
    uint64_t cost = refused ? 0 : take_rows->cost[k];
    int beside = take_rows->beside[k];
    struct sl_take_result t =
        refused ? sl_take(take_rows->parts[i].limit, cell, 0, take_rows->at[k])
                : judge(take_rows, i, cell, cost);

    if (beside >= 0 && used_of(&taken[beside].answer) > 0)
        count_beside(take_rows, i, cell, cost, used_of(&taken[beside].answer),
                     &t);
    return t;
}

/* It is written beside the row what is out, for a second. */
static void note_lease(struct sl_take_rows *take_rows, unsigned k,
                       uint64_t amount)
{
    struct sl_row *row = &take_rows->rows[k];
    const struct sl_row_lease *lease = &take_rows->lease[k];

    row->leases = lease->want > 0 || lease->back > 0 || take_rows->is_rest;
    row->lease_slot = take_rows->slot;
    row->lease_amount = amount;
    row->lease_till = (uint64_t)((take_rows->now + SL_S) / SL_MS) + 1;
}

/* As much as is wanted of what the take leaves. Of a bucket half of that: a
 * lease that melts loses a part of a token, which is much of the last one. */
static void take_lease(struct sl_take_rows *take_rows, unsigned k,
                       struct sl_take_result *taken)
{
    struct sl_row_lease *lease = &take_rows->lease[k];
    const struct sl_limit *limit = take_rows->parts[take_rows->first[k]].limit;
    uint64_t left =
        taken->answer.remaining / (limit->kind == SL_BUCKET ? 2 : 1);

    lease->has = lease->want < left ? lease->want : left;
    note_lease(take_rows, k, lease->has);
    if (lease->has > 0)
        taken->next =
            sl_take(limit, taken->next, lease->has, take_rows->at[k]).next;
}

static bool judge_set(struct sl_take_rows *take_rows)
{
    struct sl_take_result taken[SL_PARTS];
    bool allowed = true;

    for (unsigned k = 0; k < take_rows->row_count; k++) {
        take_rows->lease[k].has = 0;
        take_rows->rows[k].leases = false;
        taken[k] = judge_row(take_rows, k, false, taken);
        allowed = allowed && taken[k].answer.outcome == SL_ALLOW;
    }
    for (unsigned k = 0; k < take_rows->row_count; k++) {
        if (!allowed && taken[k].answer.outcome == SL_ALLOW)
            taken[k] = judge_row(take_rows, k, true, taken);
        if (allowed)
            take_lease(take_rows, k, &taken[k]);
        take_rows->rows[k].next = taken[k].next;
    }
    for (unsigned i = 0; i < take_rows->count; i++)
        take_rows->parts[i].answer = taken[take_rows->row_of[i]].answer;
    return allowed;
}

/* Every part for itself, but for what is carried to it: the two are a set. */
static void judge_each(struct sl_take_rows *take_rows)
{
    bool carries = false;

    for (unsigned k = 0; k < take_rows->row_count; k++)
        take_rows->rows[k].next = take_rows->rows[k].cell;
    for (unsigned i = 0; i < take_rows->count; i++) {
        struct sl_row *row = &take_rows->rows[take_rows->row_of[i]];
        struct sl_part *part = &take_rows->parts[i];
        struct sl_part *before = i > 0 ? part - 1 : NULL;
        bool same = carries && take_rows->row_of[i - 1] == take_rows->row_of[i];
        struct sl_take_result t = judge(take_rows, i, row->next, part->cost);

        if (carries && !same && used_of(&before->answer) > 0)
            count_beside(take_rows, i, row->next, part->cost,
                         used_of(&before->answer), &t);
        part->answer = t.answer;
        if (same)
            before->answer = t.answer;
        row->next = t.next;
        carries = part->carried && !carries;
    }
}

/* When a row has lost its meaning; what gives back leaves that as it is, since
 * others may have taken more meanwhile. */
static void date(struct sl_take_rows *take_rows, unsigned k)
{
    unsigned i = take_rows->first[k];

    sl_row_date(&take_rows->rows[k], &take_rows->limits[i], take_rows->now,
                take_rows->orphaned ? SL_NS_NONE
                                    : take_rows->parts[i].answer.reset_in);
}

static void note_writes(struct sl_take_rows *take_rows, bool allowed)
{
    bool looks = take_rows->op == SL_TAKE_OP_PEEK;

    for (unsigned k = 0; k < take_rows->row_count; k++) {
        struct sl_row *row = &take_rows->rows[k];
        bool same = row->is_window ? row->next.w[1] == row->cell.w[1]
                                   : sl_cell_eq(row->next, row->cell);

        row->deletes = take_rows->op == SL_TAKE_OP_RESET && row->leased == 0 &&
                       !row->has_marks;
        row->changed = row->deletes || (!looks && !same);
        row->leaned_on = false;
        if (row->changed)
            date(take_rows, k);
    }
    for (unsigned i = 0; allowed && i + 1 < take_rows->count; i++)
        if (take_rows->parts[i].carried &&
            take_rows->rows[take_rows->row_of[i + 1]].changed)
            take_rows->rows[take_rows->row_of[i]].leaned_on = true;
}

/* When a row says that it was written; 0 if it has no clock. */
static sl_ns written_at(const struct sl_limit *limit, struct sl_cell cell)
{
    uint64_t index;

    if (limit->kind != SL_SLIDING)
        return (sl_ns)cell.w[0];
    index = (cell.w[0] >> 32) | (cell.w[1] >> 32) << 31; /* see sliding.c */
    return (sl_ns)sl_mul_sat(index, (uint64_t)limit->period) & SL_NS_MAX;
}

sl_ns sl_take_rows_time(const struct sl_limit *limit, struct sl_cell cell,
                        sl_ns now)
{
    sl_ns ahead = 0;

    if (limit->kind != SL_FIXED)
        ahead = written_at(limit, cell) - now;
    return now + (ahead > 0 && ahead <= SL_TAKE_ROWS_LAG ? ahead : 0);
}

static void set_times(struct sl_take_rows *take_rows)
{
    for (unsigned k = 0; k < take_rows->row_count; k++)
        take_rows->at[k] =
            sl_take_rows_time(take_rows->parts[take_rows->first[k]].limit,
                              take_rows->rows[k].cell, take_rows->now);
}

/* Answers count from now. */
static void lift(sl_ns *span, sl_ns by)
{
    if (*span != SL_NS_NONE && *span > 0)
        *span = sl_ns_add_sat(*span, by);
}

static void lift_answers(struct sl_take_rows *take_rows)
{
    for (unsigned i = 0; i < take_rows->count; i++) {
        struct sl_answer *answer = &take_rows->parts[i].answer;
        sl_ns by = take_rows->at[take_rows->row_of[i]] - take_rows->now;

        lift(&answer->retry_in, by);
        lift(&answer->reset_in, by);
        lift(&answer->wait, by);
    }
}

bool sl_take_rows_judge(struct sl_take_rows *take_rows)
{
    bool allowed = true;

    set_times(take_rows);
    if (take_rows->op == SL_TAKE_OP_EACH)
        judge_each(take_rows);
    else
        allowed = judge_set(take_rows);
    lift_answers(take_rows);
    note_writes(take_rows, allowed);
    return allowed;
}

/* ---- the rest ---- */

unsigned sl_take_rows_writes(const struct sl_take_rows *take_rows)
{
    unsigned count = 0;

    for (unsigned k = 0; k < take_rows->row_count; k++)
        count += take_rows->rows[k].changed;
    return count;
}

unsigned sl_take_rows_checks(const struct sl_take_rows *take_rows)
{
    unsigned count = 0;

    for (unsigned k = 0; k < take_rows->row_count; k++)
        count += take_rows->rows[k].leaned_on && !take_rows->rows[k].changed;
    return count;
}

bool sl_take_rows_is_count(const struct sl_take_rows *take_rows)
{
    const struct sl_limit *limit = &take_rows->limits[0];
    uint64_t cost = take_rows->cost[0];

    if (take_rows->row_count != 1 || !take_rows->rows[0].is_window || cost == 0)
        return false;
    if (take_rows->op == SL_TAKE_OP_REFUND)
        return cost <= SL_AMOUNT_MAX &&
               take_rows->parts[0].taken_at / limit->period ==
                   take_rows->now / limit->period;
    return take_rows->op == SL_TAKE_OP_TAKE && cost <= limit->capacity;
}

struct sl_row_count sl_take_rows_count(struct sl_take_rows *take_rows)
{
    const struct sl_row_lease *lease = &take_rows->lease[0];
    const struct sl_limit *limit = &take_rows->limits[0];
    uint64_t capacity = limit->capacity, cost = take_rows->cost[0], want, back;

    note_lease(take_rows, 0, 0);
    if (take_rows->op == SL_TAKE_OP_REFUND)
        return (struct sl_row_count){
            .add = -(int64_t)cost, .least = cost, .most = SL_AMOUNT_MAX};
    back = lease->taken / limit->period == take_rows->now / limit->period
               ? lease->back
               : 0;
    want = lease->want < capacity - cost ? lease->want : capacity - cost;
    note_lease(take_rows, 0, want);
    return (struct sl_row_count){
        .add = (int64_t)(cost + want) - (int64_t)back,
        .least = back,
        .most = capacity - cost - want + back,
    };
}

sl_ns sl_take_rows_lease_end(const struct sl_take_rows *take_rows, unsigned k)
{
    unsigned i = take_rows->first[k];
    const struct sl_limit *limit = &take_rows->limits[i];

    if (limit->calendar)
        return take_rows->periods[i].end;
    return limit->kind == SL_BUCKET
               ? SL_NS_MAX
               : take_rows->now - take_rows->now % limit->period +
                     limit->period;
}

void sl_take_rows_invert(struct sl_take_rows *take_rows, sl_ns now)
{
    sl_ns taken = take_rows->now;

    take_rows->op = SL_TAKE_OP_REFUND;
    take_rows->now = now > taken ? now : taken;
    take_rows->orphaned = true;
    for (unsigned i = 0; i < take_rows->count; i++) {
        take_rows->parts[i].taken_at = taken;
        take_rows->parts[i].carried = false;
        take_rows->parts[i].binding = NULL;
    }
    for (unsigned k = 0; k < take_rows->row_count; k++) {
        take_rows->beside[k] = -1;
        take_rows->lease[k] = (struct sl_row_lease){0};
    }
}

void sl_take_rows_answer(const struct sl_take_rows *take_rows,
                         struct sl_take *take)
{
    for (unsigned i = 0; i < take_rows->count; i++) {
        take->parts[i].answer = take_rows->parts[i].answer;
        take->parts[i].untracked = false;
    }
}

/* ---- an item of the table: its names, and what is asked of it. */

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

void sl_row_of(const struct sl_part *part, struct sl_str name, sl_ns now,
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
