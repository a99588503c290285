/* rows.c -- the rows of a take, how they are judged, and their requests. */
#include <inttypes.h>
#include <stdio.h>

#include "base/arith.h"
#include "store/dynamo/aws.h"
#include "store/dynamo/dynamo_int.h"
#include "wire/json.h"

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
        /* Overlong forms and surrogates. */
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

struct sl_cell sl_row_cell(uint64_t count, sl_ns now)
{
    return count > 0 ? sl_cell_of((uint64_t)now, count) : sl_cell_of(0, 0);
}

/* ---- filling ---- */

static bool may_carry(enum sl_take_op op)
{
    return op == SL_TAKE_OP_TAKE || op == SL_TAKE_OP_PEEK ||
           op == SL_TAKE_OP_EACH;
}

/* The index of the row with this name and limit; row_count: none. */
static unsigned find_row(struct sl_row_set *set, const struct sl_row *row)
{
    unsigned i = 0;

    while (i < set->row_count && (!sl_str_eq(set->rows[i].name, row->name) ||
                                  strcmp(set->rows[i].sort, row->sort) != 0))
        i++;
    return i;
}

static void fill_part(struct sl_row_set *set, unsigned i, struct sl_str name)
{
    struct sl_row row;
    unsigned k;

    sl_row_of(&set->parts[i], name, set->now, &row);
    k = find_row(set, &row);
    set->row_of[i] = k;
    if (k < set->row_count) {
        set->cost[k] = sl_add_sat(set->cost[k], set->parts[i].cost);
        if (set->op != SL_TAKE_OP_EACH)
            set->parts[set->first[k]].on_report |= set->parts[i].on_report;
    } else {
        set->rows[k] = row;
        set->first[k] = i;
        set->cost[k] = set->parts[i].cost;
        set->beside[k] = -1;
        set->lease[k] = (struct sl_row_lease){0};
        set->row_count++;
    }
    if (i > 0 && set->parts[i - 1].carried &&
        set->row_of[i - 1] < set->row_of[i])
        set->beside[k] = (int)set->row_of[i - 1];
}

static void copy_part(struct sl_row_set *set, const struct sl_take *take,
                      unsigned i)
{
    struct sl_part *part = &set->parts[i];

    *part = take->parts[i];
    set->limits[i] = *take->parts[i].limit;
    part->limit = &set->limits[i];
    part->carried = part->carried && may_carry(take->op);
    part->untracked = false;
    if (part->limit->calendar)
        set->periods[i] = sl_calendar_period(&part->limit->cal, set->now);
}

int sl_row_set_fill(struct sl_row_set *set, const struct sl_take *take,
                    sl_ns now)
{
    size_t ends[SL_PARTS], at = 0;

    set->op = take->op;
    set->now = now;
    set->count = take->count < SL_PARTS ? take->count : SL_PARTS;
    set->row_count = 0;
    set->orphaned = set->is_rest = false;
    for (unsigned i = 0; i < set->count; i++) {
        int err = sl_row_name(sl_take_part_name(&take->parts[i]), &set->names);

        if (err)
            return err;
        ends[i] = set->names.len;
    }
    for (unsigned i = 0; i < set->count; i++) { /* the names no longer move */
        copy_part(set, take, i);
        fill_part(set, i, (struct sl_str){set->names.bytes + at, ends[i] - at});
        at = ends[i];
    }
    return 0;
}

int sl_row_set_fill_rest(struct sl_row_set *set,
                         const struct sl_lease_rest *rest, sl_ns now)
{
    int err = sl_row_name(rest->name, &set->names);

    set->op = SL_TAKE_OP_REFUND;
    set->now = rest->taken; /* names the row of a window */
    set->count = 1;
    set->row_count = 0;
    set->orphaned = set->is_rest = true;
    set->limits[0] = rest->limit;
    set->periods[0] = rest->period;
    set->parts[0] = (struct sl_part){.limit = &set->limits[0],
                                     .cost = rest->amount,
                                     .taken_at = rest->taken};
    if (!err)
        fill_part(set, 0, sl_buf_str(&set->names));
    set->now = now > rest->taken ? now : rest->taken;
    return err;
}

/* ---- judging ---- */

/* A refund of a calendar that may be gone, by the period of the take. */
static struct sl_take_result refund_period(const struct sl_row_set *set,
                                           unsigned i, struct sl_cell cell,
                                           uint64_t cost)
{
    struct sl_period p = set->periods[i];
    struct sl_take_result t = {.next = cell};

    if ((sl_ns)cell.w[0] >= p.start && (sl_ns)cell.w[0] < p.end)
        t.next.w[1] = sl_sub_floor(cell.w[1], cost);
    return t;
}

/* The part of a lease's rest that can be refunded at `now`. The row may be
 * later, and a refill since then has covered the rest. */
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

/* Units that must be left for part `i` to pass with `cost`. */
static uint64_t least_of(const struct sl_row_set *set, unsigned i,
                         uint64_t cost)
{
    return cost > 0 ? cost : set->parts[i].on_report;
}

/* Is part `i` judged without a take? */
static bool is_peek(const struct sl_row_set *set, unsigned i, uint64_t cost)
{
    return set->op == SL_TAKE_OP_PEEK ||
           (may_carry(set->op) && cost == 0 && set->parts[i].on_report);
}

/* Part `i`, the first of its row, by the op. */
static struct sl_take_result judge(const struct sl_row_set *set, unsigned i,
                                   struct sl_cell cell, uint64_t cost)
{
    const struct sl_limit *limit = set->parts[i].limit;
    uint64_t amount = cost < SL_AMOUNT_MAX ? cost : SL_AMOUNT_MAX;
    sl_ns now = set->at[set->row_of[i]];

    if (is_peek(set, i, cost))
        return sl_take_peek(limit, cell, least_of(set, i, cost), now);
    switch (set->op) {
    case SL_TAKE_OP_CHARGE:
        return sl_adjust(limit, cell, (int64_t)amount, now, now);
    case SL_TAKE_OP_REFUND:
        if (set->is_rest)
            amount = surely_left(limit, cell, amount, set->parts[i].taken_at,
                                 set->now);
        if (limit->calendar && set->orphaned)
            return refund_period(set, i, cell, amount);
        return sl_adjust(limit, cell, -(int64_t)amount, set->parts[i].taken_at,
                         now);
    case SL_TAKE_OP_RESET: /* leases may still be spent */
        return sl_adjust(limit, sl_cell_of(0, 0),
                         (int64_t)set->rows[set->row_of[i]].leased, now, now);
    case SL_TAKE_OP_TAKE:
    case SL_TAKE_OP_EACH:
    case SL_TAKE_OP_PEEK:
    case SL_TAKE_OP_SETTLE:
        break;
    }
    return sl_take(limit, cell, cost, now);
}

/* Judges part `i` when `used` of another key also counts against it. */
static void count_beside(const struct sl_row_set *set, unsigned i,
                         struct sl_cell cell, uint64_t cost, uint64_t used,
                         struct sl_take_result *taken)
{
    const struct sl_limit *limit = set->parts[i].limit;
    sl_ns now = set->at[set->row_of[i]];
    struct sl_cell both = sl_adjust(limit, cell, (int64_t)used, now, now).next;
    uint64_t least = least_of(set, i, cost);
    struct sl_answer would = sl_take(limit, both, least, now).answer;

    if (would.outcome != SL_ALLOW)
        taken->next = sl_take(limit, cell, 0, now).next;
    taken->answer = is_peek(set, i, cost)
                        ? sl_take_peek(limit, both, least, now).answer
                        : would;
}

static uint64_t used_of(const struct sl_answer *answer)
{
    return sl_sub_floor(answer->capacity, answer->remaining);
}

/* The cell that a row is judged by: without the rest of its lease. */
static struct sl_cell cell_of(const struct sl_row_set *set, unsigned k)
{
    const struct sl_row_lease *lease = &set->lease[k];
    const struct sl_limit *limit = set->parts[set->first[k]].limit;
    struct sl_cell cell = set->rows[k].cell;
    uint64_t back =
        surely_left(limit, cell, lease->back, lease->taken, set->now);

    if (back == 0)
        return cell;
    return sl_adjust(limit, cell, -(int64_t)back, lease->taken, set->at[k])
        .next;
}

static struct sl_take_result judge_row(struct sl_row_set *set, unsigned k,
                                       bool refused,
                                       const struct sl_take_result *taken)
{
    unsigned i = set->first[k];
    struct sl_cell cell = cell_of(set, k);
    uint64_t cost = refused ? 0 : set->cost[k];
    int beside = set->beside[k];
    struct sl_take_result t =
        refused ? sl_take(set->parts[i].limit, cell, 0, set->at[k])
                : judge(set, i, cell, cost);

    if (beside >= 0 && used_of(&taken[beside].answer) > 0)
        count_beside(set, i, cell, cost, used_of(&taken[beside].answer), &t);
    return t;
}

/* The lease is written into the row, for a second. */
static void note_lease(struct sl_row_set *set, unsigned k, uint64_t amount)
{
    struct sl_row *row = &set->rows[k];
    const struct sl_row_lease *lease = &set->lease[k];

    row->leases = lease->want > 0 || lease->back > 0 || set->is_rest;
    row->lease_slot = set->slot;
    row->lease_amount = amount;
    row->lease_till = (uint64_t)((set->now + SL_S) / SL_MS) + 1;
}

/* Leases what is wanted of the tokens that the take leaves. Of a bucket half of
 * that: a lease that shrinks loses a part of a token. */
static void take_lease(struct sl_row_set *set, unsigned k,
                       struct sl_take_result *taken)
{
    struct sl_row_lease *lease = &set->lease[k];
    const struct sl_limit *limit = set->parts[set->first[k]].limit;
    uint64_t left =
        taken->answer.remaining / (limit->kind == SL_BUCKET ? 2 : 1);

    lease->has = lease->want < left ? lease->want : left;
    note_lease(set, k, lease->has);
    if (lease->has > 0)
        taken->next = sl_take(limit, taken->next, lease->has, set->at[k]).next;
}

/* Is the set refused by a block? */
static bool is_blocked(const struct sl_row_set *set,
                       const struct sl_take_result *taken)
{
    for (unsigned k = 0; k < set->row_count; k++)
        if (set->parts[set->first[k]].limit->kind == SL_PENALTY &&
            taken[k].answer.outcome != SL_ALLOW)
            return true;
    return false;
}

/* Finds the penalties whose limit has refused; they have one failure more. */
static void find_failures(const struct sl_row_set *set,
                          const struct sl_take_result *taken,
                          bool failed[SL_PARTS])
{
    if (set->op != SL_TAKE_OP_TAKE || is_blocked(set, taken))
        return;
    for (unsigned k = 0; k < set->row_count; k++) {
        unsigned i = set->first[k], of = set->parts[i].penalty_of;

        failed[k] = of > 0 && of <= i &&
                    taken[set->row_of[of - 1]].answer.outcome != SL_ALLOW;
    }
}

static bool judge_set(struct sl_row_set *set)
{
    struct sl_take_result taken[SL_PARTS];
    bool failed[SL_PARTS] = {false};
    bool allowed = true;

    for (unsigned k = 0; k < set->row_count; k++) {
        set->lease[k].has = 0;
        set->rows[k].leases = false;
        taken[k] = judge_row(set, k, false, taken);
        allowed = allowed && taken[k].answer.outcome == SL_ALLOW;
    }
    if (!allowed)
        find_failures(set, taken, failed);
    for (unsigned k = 0; k < set->row_count; k++) {
        if (failed[k])
            taken[k] = sl_adjust(set->parts[set->first[k]].limit,
                                 cell_of(set, k), 1, set->at[k], set->at[k]);
        else if (!allowed && taken[k].answer.outcome == SL_ALLOW)
            taken[k] = judge_row(set, k, true, taken);
        if (allowed)
            take_lease(set, k, &taken[k]);
        set->rows[k].next = taken[k].next;
    }
    for (unsigned i = 0; i < set->count; i++)
        set->parts[i].answer = taken[set->row_of[i]].answer;
    return allowed;
}

/* Each part on its own. A carried part and the next are a set. */
static void judge_each(struct sl_row_set *set)
{
    bool carries = false;

    for (unsigned k = 0; k < set->row_count; k++)
        set->rows[k].next = set->rows[k].cell;
    for (unsigned i = 0; i < set->count; i++) {
        struct sl_row *row = &set->rows[set->row_of[i]];
        struct sl_part *part = &set->parts[i];
        struct sl_part *before = i > 0 ? part - 1 : NULL;
        bool same = carries && set->row_of[i - 1] == set->row_of[i];
        struct sl_take_result t = judge(set, i, row->next, part->cost);

        if (carries && !same && used_of(&before->answer) > 0)
            count_beside(set, i, row->next, part->cost,
                         used_of(&before->answer), &t);
        part->answer = t.answer;
        if (same)
            before->answer = t.answer;
        row->next = t.next;
        carries = part->carried && !carries;
    }
}

/* Sets the ttl of a row. A refund leaves it, since others may have taken more
 * meanwhile. */
static void set_ttl(struct sl_row_set *set, unsigned k)
{
    unsigned i = set->first[k];
    const struct sl_limit *limit = &set->limits[i];
    sl_ns reset_in = set->parts[i].answer.reset_in;
    /* A sliding window counts in the next one. */
    sl_ns more = limit->kind == SL_SLIDING ? limit->period : 0;

    if (set->rows[k].is_window)
        return;
    set->rows[k].ttl =
        set->orphaned || reset_in == SL_NS_NONE
            ? 0
            : (uint64_t)((set->now + reset_in + more) / SL_S) + 1 + GRACE;
}

static void note_writes(struct sl_row_set *set, bool allowed)
{
    bool peeks = set->op == SL_TAKE_OP_PEEK;

    for (unsigned k = 0; k < set->row_count; k++) {
        struct sl_row *row = &set->rows[k];
        bool same = row->is_window ? row->next.w[1] == row->cell.w[1]
                                   : sl_cell_eq(row->next, row->cell);

        row->deletes =
            set->op == SL_TAKE_OP_RESET && row->leased == 0 && !row->has_marks;
        row->changed = row->deletes || (!peeks && !same);
        row->is_checked = false;
        if (row->changed)
            set_ttl(set, k);
    }
    for (unsigned i = 0; allowed && i + 1 < set->count; i++)
        if (set->parts[i].carried && set->rows[set->row_of[i + 1]].changed)
            set->rows[set->row_of[i]].is_checked = true;
}

/* When the row was written; 0: its kind has no clock. */
static sl_ns written_at(const struct sl_limit *limit, struct sl_cell cell)
{
    uint64_t index;

    if (limit->kind == SL_PENALTY)
        return 0;
    if (limit->kind != SL_SLIDING)
        return (sl_ns)cell.w[0];
    index = (cell.w[0] >> 32) | (cell.w[1] >> 32) << 31; /* see sliding.c */
    return (sl_ns)sl_mul_sat(index, (uint64_t)limit->period) & SL_NS_MAX;
}

sl_ns sl_row_set_time(const struct sl_limit *limit, struct sl_cell cell,
                      sl_ns now)
{
    sl_ns ahead = 0;

    if (limit->kind != SL_FIXED)
        ahead = written_at(limit, cell) - now;
    return now + (ahead > 0 && ahead <= SL_ROW_SET_LAG ? ahead : 0);
}

static void set_times(struct sl_row_set *set)
{
    for (unsigned k = 0; k < set->row_count; k++)
        set->at[k] = sl_row_set_time(set->parts[set->first[k]].limit,
                                     set->rows[k].cell, set->now);
}

/* Makes a time of an answer count from `now`. */
static void lift(sl_ns *span, sl_ns by)
{
    if (*span != SL_NS_NONE && *span > 0)
        *span = sl_ns_add_sat(*span, by);
}

static void lift_answers(struct sl_row_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct sl_answer *answer = &set->parts[i].answer;
        sl_ns by = set->at[set->row_of[i]] - set->now;

        lift(&answer->retry_in, by);
        lift(&answer->reset_in, by);
        lift(&answer->wait, by);
    }
}

bool sl_row_set_judge(struct sl_row_set *set)
{
    bool allowed = true;

    set_times(set);
    if (set->op == SL_TAKE_OP_EACH)
        judge_each(set);
    else
        allowed = judge_set(set);
    lift_answers(set);
    note_writes(set, allowed);
    return allowed;
}

unsigned sl_row_set_writes(const struct sl_row_set *set)
{
    unsigned count = 0;

    for (unsigned k = 0; k < set->row_count; k++)
        count += set->rows[k].changed;
    return count;
}

unsigned sl_row_set_checks(const struct sl_row_set *set)
{
    unsigned count = 0;

    for (unsigned k = 0; k < set->row_count; k++)
        count += set->rows[k].is_checked && !set->rows[k].changed;
    return count;
}

bool sl_row_set_is_count(const struct sl_row_set *set)
{
    const struct sl_limit *limit = &set->limits[0];
    uint64_t cost = set->cost[0];

    if (set->row_count != 1 || !set->rows[0].is_window || cost == 0)
        return false;
    if (set->op == SL_TAKE_OP_REFUND)
        return cost <= SL_AMOUNT_MAX &&
               set->parts[0].taken_at / limit->period ==
                   set->now / limit->period;
    return set->op == SL_TAKE_OP_TAKE && cost <= limit->capacity;
}

struct sl_row_count sl_row_set_count(struct sl_row_set *set)
{
    const struct sl_row_lease *lease = &set->lease[0];
    const struct sl_limit *limit = &set->limits[0];
    uint64_t capacity = limit->capacity, cost = set->cost[0], want, back;

    note_lease(set, 0, 0);
    if (set->op == SL_TAKE_OP_REFUND)
        return (struct sl_row_count){
            .add = -(int64_t)cost, .least = cost, .most = SL_AMOUNT_MAX};
    back = lease->taken / limit->period == set->now / limit->period
               ? lease->back
               : 0;
    want = lease->want < capacity - cost ? lease->want : capacity - cost;
    note_lease(set, 0, want);
    return (struct sl_row_count){
        .add = (int64_t)(cost + want) - (int64_t)back,
        .least = back,
        .most = capacity - cost - want + back,
    };
}

sl_ns sl_row_set_lease_end(const struct sl_row_set *set, unsigned k)
{
    unsigned i = set->first[k];
    const struct sl_limit *limit = &set->limits[i];

    if (limit->calendar)
        return set->periods[i].end;
    return limit->kind == SL_BUCKET
               ? SL_NS_MAX
               : set->now - set->now % limit->period + limit->period;
}

void sl_row_set_invert(struct sl_row_set *set, sl_ns now)
{
    sl_ns taken = set->now;

    set->op = SL_TAKE_OP_REFUND;
    set->now = now > taken ? now : taken;
    set->orphaned = true;
    for (unsigned i = 0; i < set->count; i++) {
        set->parts[i].taken_at = taken;
        set->parts[i].carried = false;
        set->parts[i].binding = NULL;
    }
    for (unsigned k = 0; k < set->row_count; k++) {
        set->beside[k] = -1;
        set->lease[k] = (struct sl_row_lease){0};
    }
}

void sl_row_set_answer(const struct sl_row_set *set, struct sl_take *take)
{
    for (unsigned i = 0; i < set->count; i++) {
        take->parts[i].answer = set->parts[i].answer;
        take->parts[i].untracked = false;
    }
}

/* ---- requests ---- */

/* Conditions and values use these names:
 *   #a :a :x   count of a window, or first word of a cell: old, new
 *   #b :b :y   second word: old, new
 *   #r #t      resetTime, ttl
 *   #s :s :m   marks; as a set, as a text
 *   #l :v      our lease
 */
#define IS_MARKED "contains(#s, :m)"
/* The reply to an unmet condition has the row, where the endpoint can. */
#define ALL_OLD ",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}"

/* ,":NAME":{"N":"number"} */
static void put_value(struct sl_writer *w, const char *name, uint64_t number)
{
    sl_writer_addf(w, ",\":%s\":{\"N\":\"%" PRIu64 "\"}", name, number);
}

static void put_key(struct sl_writer *w, const struct sl_row *row)
{
    sl_writer_add(w, SL_STR("{\"userId\":{\"S\":"));
    sl_json_str(w, row->name);
    sl_writer_addf(w, "},\"dataType\":{\"S\":\"%s\"}}", row->sort);
}

static void put_head(struct sl_writer *w, struct sl_str table,
                     const struct sl_row *row)
{
    sl_writer_addf(w, "\"TableName\":\"%.*s\",\"Key\":", SL_STR_ARG(table));
    put_key(w, row);
}

/* The row still has `cell`. */
static const char *condition_of(const struct sl_row *row)
{
    if (!row->found)
        return "attribute_not_exists(#a)";
    return row->is_window ? "#a = :a" : "#a = :a AND #b = :b";
}

static void put_old(struct sl_writer *w, const struct sl_row *row)
{
    if (!row->found)
        return;
    put_value(w, "a", row->cell.w[row->is_window]);
    if (!row->is_window)
        put_value(w, "b", row->cell.w[1]);
}

static void put_names(struct sl_writer *w, const struct sl_row *row, bool all)
{
    sl_writer_addf(w, ",\"ExpressionAttributeNames\":{\"#a\":\"%s\"",
                   row->is_window ? "count" : "cell0");
    if (!row->is_window && (all || row->found))
        sl_writer_add(w, SL_STR(",\"#b\":\"cell1\""));
    if (all && row->is_window)
        sl_writer_add(w, SL_STR(",\"#r\":\"resetTime\""));
    if (all && row->ttl > 0)
        sl_writer_add(w, SL_STR(",\"#t\":\"ttl\""));
    if (all && row->journal_id)
        sl_writer_add(w, SL_STR(",\"#s\":\"sets\""));
    if (all && row->leases)
        sl_writer_addf(w, ",\"#l\":\"lease%u\"", row->lease_slot);
    sl_writer_add(w, SL_STR("}"));
}

/* The values that are written beside the count or the cell. */
static void put_new(struct sl_writer *w, const struct sl_row *row)
{
    if (row->is_window)
        put_value(w, "r", row->reset_ms);
    if (row->ttl > 0)
        put_value(w, "t", row->ttl);
    if (row->leases)
        sl_writer_addf(w, ",\":v\":{\"S\":\"till %" PRIu64 ": %" PRIu64 "\"}",
                       row->lease_till, row->lease_amount);
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

static const char *mark_of_update(const struct sl_row *row)
{
    if (!row->journal_id)
        return "";
    return row->unmarks ? " DELETE #s :s" : " ADD #s :s";
}

static void put_swap(struct sl_writer *w, struct sl_str table,
                     const struct sl_row *row)
{
    bool unmarks = row->journal_id && row->unmarks;

    put_head(w, table, row);
    sl_writer_addf(w,
                   ",\"UpdateExpression\":\"SET #a = :x%s%s%s\","
                   "\"ConditionExpression\":\"%s%s\"",
                   rest_of_update(row), lease_of_update(row),
                   mark_of_update(row), condition_of(row),
                   unmarks ? " AND " IS_MARKED : "");
    put_names(w, row, true);
    sl_writer_addf(w,
                   ",\"ExpressionAttributeValues\":{"
                   "\":x\":{\"N\":\"%" PRIu64 "\"}",
                   row->next.w[row->is_window]);
    if (!row->is_window)
        put_value(w, "y", row->next.w[1]);
    put_new(w, row);
    put_old(w, row);
    if (row->journal_id)
        sl_writer_addf(w, ",\":s\":{\"SS\":[\"%s\"]}", row->journal_id);
    if (unmarks)
        sl_writer_addf(w, ",\":m\":{\"S\":\"%s\"}", row->journal_id);
    sl_writer_add(w, SL_STR("}"));
}

static void put_check(struct sl_writer *w, struct sl_str table,
                      const struct sl_row *row)
{
    put_head(w, table, row);
    sl_writer_addf(w, ",\"ConditionExpression\":\"%s\"", condition_of(row));
    put_names(w, row, false);
    if (!row->found)
        return;
    sl_writer_addf(w,
                   ",\"ExpressionAttributeValues\":{"
                   "\":a\":{\"N\":\"%" PRIu64 "\"}",
                   row->cell.w[row->is_window]);
    if (!row->is_window)
        put_value(w, "b", row->cell.w[1]);
    sl_writer_add(w, SL_STR("}"));
}

static void put_unmark(struct sl_writer *w, struct sl_str table,
                       const struct sl_row *row)
{
    put_head(w, table, row);
    sl_writer_addf(w,
                   ",\"UpdateExpression\":\"DELETE #s :s\","
                   "\"ConditionExpression\":\"" IS_MARKED "\","
                   "\"ExpressionAttributeNames\":{\"#s\":\"sets\"},"
                   "\"ExpressionAttributeValues\":{\":s\":{\"SS\":[\"%s\"]}"
                   ",\":m\":{\"S\":\"%s\"}}",
                   row->journal_id, row->journal_id);
}

/* A mark proves that its set was taken: a row with marks is not deleted. */
static void put_delete(struct sl_writer *w, struct sl_str table,
                       const struct sl_row *row)
{
    put_head(w, table, row);
    sl_writer_add(w, SL_STR(",\"ConditionExpression\":"
                            "\"attribute_not_exists(#s)\","
                            "\"ExpressionAttributeNames\":{\"#s\":\"sets\"}"));
}

int sl_row_put(struct sl_buf *out, struct sl_str table,
               const struct sl_row *row, enum sl_row_request request,
               const char **ret_operation)
{
    static const struct {
        const char *operation, *tail;
    } requests[] = {
        [SL_ROW_GET] = {"GetItem",    ",\"ConsistentRead\":true}"},
        [SL_ROW_SWAP] = {"UpdateItem", ALL_OLD                    },
        [SL_ROW_UNMARK] = {"UpdateItem", "}"                        },
        [SL_ROW_DELETE] = {"DeleteItem", "}"                        },
    };
    struct sl_writer w = {out, 0};

    sl_writer_add(&w, SL_STR("{"));
    if (request == SL_ROW_GET)
        put_head(&w, table, row);
    else if (request == SL_ROW_SWAP)
        put_swap(&w, table, row);
    else if (request == SL_ROW_UNMARK)
        put_unmark(&w, table, row);
    else
        put_delete(&w, table, row);
    sl_writer_add(&w, sl_str_c(requests[request].tail));
    *ret_operation = requests[request].operation;
    return w.err;
}

int sl_row_put_batch(struct sl_buf *out, struct sl_str table,
                     const struct sl_row *rows, unsigned count)
{
    struct sl_writer w = {out, 0};

    sl_writer_addf(&w, "{\"RequestItems\":{\"%.*s\":{\"Keys\":[",
                   SL_STR_ARG(table));
    for (unsigned i = 0; i < count; i++) {
        sl_writer_add(&w, i > 0 ? SL_STR(",") : SL_STR(""));
        put_key(&w, &rows[i]);
    }
    sl_writer_add(&w, SL_STR("],\"ConsistentRead\":true}}}"));
    return w.err;
}

int sl_row_put_count(struct sl_buf *out, struct sl_str table,
                     const struct sl_row *row, const struct sl_row_count *count)
{
    struct sl_writer w = {out, 0};

    sl_writer_add(&w, SL_STR("{"));
    put_head(&w, table, row);
    sl_writer_addf(
        &w,
        ",\"UpdateExpression\":\"SET #a = if_not_exists(#a, :z) + :c, "
        "#r = :r, #t = :t%s\",\"ConditionExpression\":\"%s\"",
        lease_of_update(row),
        count->least > 0 ? "#a BETWEEN :l AND :m" /* a refund needs a count */
                         : "attribute_not_exists(#a) OR #a <= :m");
    put_names(&w, row, true);
    sl_writer_addf(&w,
                   ",\"ExpressionAttributeValues\":{"
                   "\":z\":{\"N\":\"0\"},"
                   "\":c\":{\"N\":\"%" PRId64 "\"}",
                   count->add);
    put_value(&w, "m", count->most);
    if (count->least > 0)
        put_value(&w, "l", count->least);
    put_new(&w, row);
    sl_writer_add(&w, SL_STR("},\"ReturnValues\":\"ALL_NEW\"" ALL_OLD));
    return w.err;
}

int sl_row_put_set(struct sl_buf *out, struct sl_str table,
                   const struct sl_row *rows, unsigned count)
{
    struct sl_writer w = {out, 0};
    bool first = true;

    sl_writer_add(&w, SL_STR("{\"TransactItems\":["));
    for (unsigned i = 0; i < count; i++) {
        const struct sl_row *row = &rows[i];

        if (!row->changed && !row->is_checked)
            continue;
        sl_writer_addf(&w, "%s{\"%s\":{", first ? "" : ",",
                       !row->changed  ? "ConditionCheck"
                       : row->deletes ? "Delete"
                                      : "Update");
        first = false;
        if (!row->changed)
            put_check(&w, table, row);
        else if (row->deletes)
            put_delete(&w, table, row);
        else
            put_swap(&w, table, row);
        sl_writer_add(&w, SL_STR("}}"));
    }
    sl_writer_add(&w, SL_STR("]}"));
    return w.err;
}
