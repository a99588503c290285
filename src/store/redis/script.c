/* script.c -- a take as the words of a command, and its reply as answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/str.h"
#include "store/redis/redis_int.h"
#include "wire/resp.h"

#define PART_WORDS  12
#define LEASE_WORDS 4
#define HOLD_WORDS  2

/* In the order of enum sl_kind, as take.lua calls them. */
static const char *const kinds[SL_KINDS] = {"bucket",  "interval", "leaky",
                                            "fixed",   "sliding",  "quota",
                                            "permits", "level"};

/* In the order of enum sl_take_op. */
static const char *const errands[] = {"take",   "look", "each",
                                      "charge", "back", "reset"};

/* ---- parts of the same name ---- */

struct merged {
    unsigned first[SL_PARTS];  /* of each part: the one that stands for it */
    uint64_t cost[SL_PARTS];   /* of those that stand for some, */
    unsigned number[SL_PARTS]; /* and which of them it is, from 1; */
    unsigned beside[SL_PARTS]; /* and which is carried to it; 0: none */
    unsigned count;            /* of those */
};

static unsigned part_count(const struct sl_take *take)
{
    return take->count < SL_PARTS ? take->count : SL_PARTS;
}

/* The part before `i` that has its name, of those from `from` on; or `i`. */
static unsigned first_of(const struct sl_take *take,
                         const struct merged *merged, unsigned from, unsigned i)
{
    unsigned k = from;

    while (k < i && (merged->first[k] != k ||
                     !sl_str_eq(sl_take_part_name(&take->parts[k]),
                                sl_take_part_name(&take->parts[i]))))
        k++;
    return k;
}

static bool may_carry(enum sl_take_op op)
{
    return op == SL_TAKE_OP_TAKE || op == SL_TAKE_OP_PEEK ||
           op == SL_TAKE_OP_EACH;
}

/* What is carried belongs to the part behind it; a key can't be carried to
 * itself. Where every part is for itself, a carried one and the next are a set
 * of two. */
static void merge(const struct sl_take *take, struct merged *ret)
{
    bool apart = take->op == SL_TAKE_OP_EACH;
    bool carries = false; /* the part before is carried to this one */

    ret->count = 0;
    for (unsigned i = 0; i < part_count(take); i++) {
        unsigned from = !apart ? 0 : carries ? i - 1 : i;
        unsigned k = first_of(take, ret, from, i);

        ret->first[i] = k;
        if (k == i) {
            ret->cost[i] = take->parts[i].cost;
            ret->number[i] = ++ret->count;
            ret->beside[i] = 0;
        } else {
            ret->cost[k] = sl_add_sat(ret->cost[k], take->parts[i].cost);
        }
        if (carries && ret->first[i - 1] < k)
            ret->beside[k] = ret->number[ret->first[i - 1]];
        carries = take->parts[i].carried && may_carry(take->op) &&
                  !(apart && carries);
    }
}

/* ---- writing ---- */

int sl_script_put(struct sl_buf *out, struct sl_str word)
{
    int err = sl_buf_reserve(out, SL_RESP_HEAD + word.len + 2);

    if (!err)
        out->len = (size_t)(sl_resp_put_string(out->bytes + out->len, word) -
                            out->bytes);
    return err;
}

int sl_script_put_number(struct sl_buf *out, uint64_t number)
{
    char digits[SL_DIGITS];

    return sl_script_put(out,
                         (struct sl_str){digits, sl_digits(number, digits)});
}

static int put_numbers(struct sl_buf *out, const uint64_t *numbers,
                       unsigned count)
{
    int err = 0;

    for (unsigned i = 0; !err && i < count; i++)
        err = sl_script_put_number(out, numbers[i]);
    return err;
}

/* An instant before 1970 is as good as 1970: nothing was taken then. */
static uint64_t tick_of(sl_ns at)
{
    return at > 0 ? (uint64_t)(at / SL_US) : 0;
}

void sl_script_period(const struct sl_limit *limit, sl_ns now,
                      uint64_t ret[SL_SCRIPT_PERIOD])
{
    struct sl_period is = sl_calendar_period(&limit->cal, now);
    struct sl_period was =
        sl_calendar_period(&limit->cal, is.start > 0 ? is.start - 1 : 0);
    struct sl_period will = sl_calendar_period(&limit->cal, is.end);

    ret[0] = tick_of(is.start);
    ret[1] = tick_of(is.end);
    ret[2] = tick_of(will.end);
    ret[3] = tick_of(was.start);
}

static void put_period(const struct sl_limit *limit, sl_ns now,
                       uint64_t numbers[PART_WORDS - 2])
{
    uint64_t bounds[SL_SCRIPT_PERIOD];

    sl_script_period(limit, now, bounds);
    numbers[2] = 0;
    numbers[3] = bounds[0];
    numbers[4] = bounds[1];
    numbers[7] = bounds[2];
    numbers[8] = bounds[3];
}

static int put_part(struct sl_buf *out, const struct sl_part *part,
                    uint64_t cost, unsigned beside, sl_ns near)
{
    struct sl_limit limit = *part->limit;
    uint64_t most = SL_AMOUNT_MAX;
    uint64_t numbers[PART_WORDS - 2];
    int err;

    if (limit.quantum != SL_QUANTUM_US) {
        limit.quantum = SL_QUANTUM_US;
        sl_limit_derive(&limit);
    }
    numbers[0] = limit.count;
    numbers[1] = limit.capacity;
    numbers[2] = limit.span;
    numbers[3] = limit.grain;
    numbers[4] = limit.token;
    numbers[5] = cost < most ? cost : most;
    numbers[6] = tick_of(part->taken_at > 0 ? part->taken_at : near);
    numbers[7] = numbers[8] = 0;
    numbers[9] = beside;
    if (limit.calendar)
        put_period(&limit, near, numbers);
    err = sl_script_put(out, sl_str_c(kinds[limit.kind]));
    if (!err)
        err = sl_script_put_number(out, sl_limit_shape(&limit));
    return err ? err : put_numbers(out, numbers, SL_LEN(numbers));
}

int sl_script_call(struct sl_buf *out, const struct sl_script_options *how,
                   unsigned keys, unsigned words)
{
    struct sl_str script = how->whole
                               ? (struct sl_str){sl_script_text, sl_script_len}
                               : (struct sl_str){sl_script_sha, 40};
    int err = sl_buf_reserve(out, SL_RESP_HEAD);

    if (!err)
        out->len = (size_t)(sl_resp_put_number(out->bytes + out->len, '*',
                                               3 + keys + words) -
                            out->bytes);
    if (!err)
        err =
            sl_script_put(out, how->whole ? SL_STR("EVAL") : SL_STR("EVALSHA"));
    if (!err)
        err = sl_script_put(out, script);
    return err ? err : sl_script_put_number(out, keys);
}

static unsigned words_of(const struct sl_script_options *how, unsigned parts)
{
    return 2 + parts * (how->leases ? PART_WORDS + LEASE_WORDS : PART_WORDS);
}

static int put_head(const struct sl_take *take,
                    const struct sl_script_options *how,
                    const struct merged *merged, struct sl_buf *out)
{
    bool holds = how->record.len > 0;
    int err = sl_script_call(out, how, merged->count + holds,
                             words_of(how, merged->count) +
                                 (holds ? HOLD_WORDS + merged->count : 0));

    for (unsigned i = 0; !err && i < part_count(take); i++)
        if (merged->first[i] == i)
            err = sl_script_put(out, sl_take_part_name(&take->parts[i]));
    if (!err && holds)
        err = sl_script_put(out, how->record);
    return err ? err
               : sl_script_put(out, holds ? SL_STR("hold")
                                          : sl_str_c(errands[take->op]));
}

int sl_script_put_now(struct sl_buf *out, const struct sl_script_options *how)
{
    char text[1 + SL_DIGITS] = "~";
    size_t len = 1 + sl_digits(tick_of(how->near), text + 1);

    return sl_script_put(out, how->own_now ? (struct sl_str){text + 1, len - 1}
                                           : (struct sl_str){text, len});
}

static int put_lease(struct sl_buf *out, const struct sl_lease_request *lease)
{
    uint64_t numbers[LEASE_WORDS] = {lease->want, lease->all, lease->left,
                                     lease->till};

    return put_numbers(out, numbers, LEASE_WORDS);
}

/* How long it is held, what of it is not, and whose limits. */
static int put_hold(struct sl_buf *out, const struct sl_take *take,
                    const struct merged *merged)
{
    uint64_t not_held = 0;
    int err;

    for (unsigned i = 0; i < part_count(take); i++)
        if (take->parts[i].carried ||
            (merged->first[i] == i && take->parts[i].not_held))
            not_held |= UINT64_C(1) << (merged->number[merged->first[i]] - 1);
    err = sl_script_put_number(out, tick_of(take->hold_for + SL_US - 1));
    if (!err)
        err = sl_script_put_number(out, not_held);
    for (unsigned i = 0; !err && i < part_count(take); i++)
        if (merged->first[i] == i)
            err = sl_script_put(out, sl_str_c(take->parts[i].binding->name));
    return err;
}

int sl_script_write(const struct sl_take *take,
                    const struct sl_script_options *how, struct sl_buf *out)
{
    struct merged merged;
    size_t before = out->len;
    int err;

    merge(take, &merged);
    err = put_head(take, how, &merged, out);
    if (!err)
        err = sl_script_put_now(out, how);
    for (unsigned i = 0; !err && i < part_count(take); i++)
        if (merged.first[i] == i)
            err = put_part(out, &take->parts[i], merged.cost[i],
                           merged.beside[i], how->near);
    for (unsigned i = 0; !err && how->leases && i < merged.count; i++)
        err = put_lease(out, &how->leases[i]);
    if (!err && how->record.len > 0)
        err = put_hold(out, take, &merged);
    if (err)
        out->len = before; /* nothing, or all of it */
    return err;
}

/* ---- the end of a lease ---- */

int sl_script_keep(const struct sl_part *part, sl_ns near, struct sl_buf *out,
                   size_t *ret_name_len)
{
    size_t before = out->len, name;
    int err = sl_script_put(out, sl_take_part_name(part));

    name = out->len - before;
    if (!err)
        err = put_part(out, part, 0, 0, near);
    if (err)
        out->len = before;
    else
        *ret_name_len = name;
    return err;
}

int sl_script_end_lease(struct sl_str name, struct sl_str numbers,
                        const struct sl_script_options *how,
                        const struct sl_lease_request *lease,
                        struct sl_buf *out)
{
    struct sl_script_options own = *how;
    size_t before = out->len;
    int err;

    own.leases = lease;
    err = sl_script_call(out, &own, 1, words_of(&own, 1));
    if (!err)
        err = sl_buf_add(out, name);
    if (!err)
        err = sl_script_put(out, sl_str_c(errands[SL_TAKE_OP_TAKE]));
    if (!err)
        err = sl_script_put_now(out, how);
    if (!err)
        err = sl_buf_add(out, numbers);
    if (!err)
        err = put_lease(out, lease);
    if (err)
        out->len = before;
    return err;
}

/* ---- once more, otherwise ---- */

/* All commands begin alike: how many words, EVALSHA, the name. */
static struct sl_str after_name(struct sl_str from)
{
    const char *line = from.len > 0 ? memchr(from.at, '\n', from.len) : NULL;
    size_t head = line ? (size_t)(line - from.at) + 1 : from.len;

    return sl_str_from(from, head + strlen("$7\r\nEVALSHA\r\n$40\r\n") + 42);
}

int sl_script_eval(struct sl_str from, struct sl_buf *out)
{
    struct sl_str rest = after_name(from);
    const char *line = from.len > 0 ? memchr(from.at, '\n', from.len) : NULL;
    size_t before = out->len;
    int err = SLUICE_EINVAL;

    if (line && rest.len > 0)
        err = sl_buf_add(
            out, (struct sl_str){from.at, (size_t)(line - from.at) + 1});
    if (!err)
        err = sl_script_put(out, SL_STR("EVAL"));
    if (!err)
        err =
            sl_script_put(out, (struct sl_str){sl_script_text, sl_script_len});
    if (!err)
        err = sl_buf_add(out, rest);
    if (err)
        out->len = before;
    return err;
}

/* The errand is the first word after the keys. */
int sl_script_give_back(struct sl_str from, struct sl_buf *out)
{
    size_t before = out->len;
    struct sl_str rest = after_name(from);
    uint64_t keys = 0;
    size_t at;

    for (at = 0; at < rest.len && rest.at[at] != '\n'; at++)
        ; /* "$N" of the number of keys */
    for (at++; at < rest.len && rest.at[at] != '\r'; at++)
        keys = keys * 10 + (uint64_t)(rest.at[at] - '0');
    at += 2;
    for (; keys > 0 && at < rest.len; keys--) {
        size_t len = 0;

        for (at++; at < rest.len && rest.at[at] != '\r'; at++)
            len = len * 10 + (size_t)(rest.at[at] - '0');
        at += 2 + len + 2;
    }
    at += strlen("$4\r\n");
    if (at + 4 > rest.len || memcmp(rest.at + at, "take", 4) != 0)
        return SLUICE_EINVAL;
    if (sl_buf_add(out, from))
        return SLUICE_ENOMEM;
    memcpy(out->bytes + before + (size_t)(rest.at - from.at) + at, "back", 4);
    return 0;
}

/* ---- reading ---- */

static sl_ns span_of(int64_t ticks)
{
    return ticks < 0 ? SL_NS_NONE : ticks * SL_US;
}

static bool read_part(struct sl_part *part, const int64_t numbers[5])
{
    const struct sl_limit *limit = part->limit;

    if (numbers[0] < SL_ALLOW || numbers[0] > SL_NEVER || numbers[1] < 0)
        return false;
    for (unsigned i = 2; i < 5; i++)
        if (numbers[i] < -1 || numbers[i] > SL_NS_MAX / SL_US)
            return false;
    part->answer = (struct sl_answer){
        .outcome = (enum sl_outcome)numbers[0],
        .limit = limit->count,
        .capacity = limit->capacity,
        .remaining = (uint64_t)numbers[1],
        .retry_in = span_of(numbers[2]),
        .reset_in = span_of(numbers[3]),
        .wait = span_of(numbers[4]),
    };
    part->untracked = false;
    return true;
}

bool sl_script_read(struct sl_take *take, const int64_t *numbers,
                    unsigned count, struct sl_script_reply *ret)
{
    struct merged merged;
    const int64_t *at = numbers + 3;

    merge(take, &merged);
    if ((count != 3 + 5 * merged.count && count != 3 + 8 * merged.count) ||
        numbers[0] < 0 || numbers[0] > 2 || numbers[1] < 0 ||
        numbers[1] > SL_NS_MAX / SL_US || numbers[2] < 0)
        return false;
    for (unsigned i = 0; i < part_count(take); i++) {
        unsigned first = merged.first[i];

        if (first < i) {
            take->parts[i].answer = take->parts[first].answer;
            take->parts[i].untracked = false;
            continue;
        }
        if (!read_part(&take->parts[i], at))
            return false;
        at += 5;
    }
    take->allowed = numbers[0] == 1;
    *ret = (struct sl_script_reply){.now = numbers[1] * SL_US,
                                    .strange = (uint64_t)numbers[2],
                                    .passing = numbers[0] == 2};
    return true;
}

bool sl_script_read_lease(const int64_t *numbers, unsigned count,
                          unsigned parts, unsigned i,
                          struct sl_script_leased *ret)
{
    const int64_t *part = numbers + 3 + 5 * (size_t)i;
    const int64_t *at = numbers + 3 + 5 * (size_t)parts + 3 * (size_t)i;

    if (count != 3 + 8 * parts || i >= parts || at[0] < 0 || at[1] < 0 ||
        at[1] > SL_NS_MAX / SL_US || at[2] < 0 || at[2] > 1 || part[1] < 0 ||
        part[3] < 0 || part[3] > SL_NS_MAX / SL_US)
        return false;
    *ret = (struct sl_script_leased){.has = (uint64_t)at[0],
                                     .till = at[1] * SL_US,
                                     .known = at[2] == 1,
                                     .remaining = (uint64_t)part[1],
                                     .reset_in = span_of(part[3])};
    return true;
}

/* ---- a hold's end as the words of a command, and its reply. */

#define HEAD_NUMBERS   3
#define PART_VALUES    12 /* two texts and ten numbers */
#define ANSWER_NUMBERS 5

/* ---- names ---- */

void sl_script_hold_digits(struct sl_hold_id id, char out[SL_HOLD_DIGITS + 1])
{
    snprintf(out, SL_HOLD_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, id.w[0],
             id.w[1]);
}

void sl_script_hold_name(struct sl_hold_id id, bool in_slots, unsigned slot,
                         char out[SL_HOLD_NAME])
{
    char digits[SL_HOLD_DIGITS + 1];

    sl_script_hold_digits(id, digits);
    if (in_slots)
        snprintf(out, SL_HOLD_NAME, "sluice:hold:{%u}:%s",
                 sl_cluster_slot_tag(slot), digits);
    else
        snprintf(out, SL_HOLD_NAME, "sluice:hold:%s", digits);
}

/* ---- writing ---- */

static uint64_t least(uint64_t cost)
{
    return cost < SL_AMOUNT_MAX ? cost : SL_AMOUNT_MAX;
}

static int put_settle(const struct sl_hold_call *call,
                      const struct sl_script_options *how, struct sl_buf *out)
{
    int err = sl_script_put_number(out, how->undo ? 2 : call->release);

    if (!err)
        err = sl_script_put_number(out, call->as_held);
    if (!err)
        err = sl_script_put_number(out, least(call->cost));
    if (!err)
        err = sl_script_put_number(out, call->actual_count);
    for (unsigned i = 0; !err && i < call->actual_count; i++) {
        err = sl_script_put(out, sl_str_c(call->actual[i].of->name));
        if (!err)
            err = sl_script_put_number(out, least(call->actual[i].cost));
    }
    return err;
}

/* The periods of all calendars: nobody here knows which limits are held, and
 * what the take knew may be long over. */
static int put_periods(const struct sl_hold_call *call, sl_ns near,
                       struct sl_buf *out)
{
    int err = 0;

    for (unsigned i = 0; !err && i < call->limits_count; i++) {
        const struct sl_limit_binding *limit = &call->limits[i];
        uint64_t bounds[SL_SCRIPT_PERIOD];

        if (!limit->strictest.calendar)
            continue;
        sl_script_period(&limit->strictest, near, bounds);
        err = sl_script_put(out, sl_str_c(limit->name));
        for (unsigned k = 0; !err && k < SL_SCRIPT_PERIOD; k++)
            err = sl_script_put_number(out, bounds[k]);
    }
    return err;
}

static unsigned hold_words_of(const struct sl_hold_call *call)
{
    unsigned words = 2;

    if (call->op == SL_HOLD_SETTLE)
        words += 4 + 2 * call->actual_count;
    else if (call->op == SL_HOLD_EXTEND)
        words++;
    for (unsigned i = 0; i < call->limits_count; i++)
        if (call->limits[i].strictest.calendar)
            words += 1 + SL_SCRIPT_PERIOD;
    return words;
}

int sl_script_hold_write(const struct sl_hold_call *call,
                         const struct sl_script_options *how,
                         struct sl_buf *out)
{
    static const char *const actions[] = {"settle", "extend", "view"};
    size_t before = out->len;
    int err = sl_script_call(out, how, 1, hold_words_of(call));

    if (!err)
        err = sl_script_put(out, how->record);
    if (!err)
        err = sl_script_put(out, sl_str_c(actions[call->op]));
    if (!err)
        err = sl_script_put_now(out, how);
    if (!err && call->op == SL_HOLD_SETTLE)
        err = put_settle(call, how, out);
    if (!err && call->op == SL_HOLD_EXTEND)
        err = sl_script_put_number(out, (uint64_t)(call->hold_for + SL_US - 1) /
                                            SL_US);
    if (!err)
        err = put_periods(call, how->near, out);
    if (err)
        out->len = before;
    return err;
}

/* ---- reading ---- */

static bool read_number(struct sl_str *reply, int64_t least_, int64_t most,
                        int64_t *ret)
{
    struct sl_resp_value value = sl_resp_next(reply);

    *ret = value.integer;
    return value.type == SL_RESP_INTEGER && value.integer >= least_ &&
           value.integer <= most;
}

static bool read_text(struct sl_str *reply, struct sl_str *ret)
{
    struct sl_resp_value value = sl_resp_next(reply);

    *ret = value.text;
    return value.type == SL_RESP_STRING;
}

static const struct sl_limit_binding *limit_of(const struct sl_hold_call *call,
                                               struct sl_str name)
{
    for (unsigned i = 0; i < call->limits_count; i++)
        if (sl_str_eq(sl_str_c(call->limits[i].name), name))
            return &call->limits[i];
    return NULL;
}

static bool read_answer(struct sl_str *reply, struct sl_held_part *part)
{
    int64_t n[ANSWER_NUMBERS];
    bool good = read_number(reply, SL_ALLOW, SL_NEVER, &n[0]) &&
                read_number(reply, 0, INT64_MAX, &n[1]);

    for (unsigned i = 2; good && i < ANSWER_NUMBERS; i++)
        good = read_number(reply, -1, SL_NS_MAX / SL_US, &n[i]);
    if (!good)
        return false;
    part->answer = (struct sl_answer){
        .outcome = (enum sl_outcome)n[0],
        .limit = part->answer.limit,
        .capacity = part->answer.capacity,
        .remaining = (uint64_t)n[1],
        .retry_in = span_of(n[2]),
        .reset_in = span_of(n[3]),
        .wait = span_of(n[4]),
    };
    return true;
}

static bool hold_read_part(struct sl_hold_call *call, struct sl_str *reply,
                           sl_script_key_f *on_key, void *ctx)
{
    struct sl_held_part *part = &call->parts[call->count];
    struct sl_str key, name;
    int64_t count, capacity, held, cost, over;

    if (!read_text(reply, &key) || !read_text(reply, &name) ||
        !read_number(reply, 0, INT64_MAX, &count) ||
        !read_number(reply, 0, INT64_MAX, &capacity) ||
        !read_number(reply, 0, INT64_MAX, &held) ||
        !read_number(reply, 0, INT64_MAX, &cost) ||
        !read_number(reply, 0, 1, &over))
        return false;
    *part = (struct sl_held_part){.binding = limit_of(call, name),
                                  .held = (uint64_t)held,
                                  .cost = (uint64_t)cost,
                                  .over = over == 1};
    part->answer.limit = (uint64_t)count;
    part->answer.capacity = (uint64_t)capacity;
    on_key(ctx, key);
    call->count++;
    return read_answer(reply, part);
}

bool sl_script_hold_read(struct sl_hold_call *call, struct sl_str reply,
                         sl_script_key_f *on_key, void *ctx)
{
    struct sl_resp_value array = sl_resp_next(&reply);
    int64_t state, now, left;
    unsigned parts;

    call->count = 0;
    if (array.type != SL_RESP_ARRAY || array.count < HEAD_NUMBERS ||
        (array.count - HEAD_NUMBERS) % PART_VALUES != 0 ||
        array.count > HEAD_NUMBERS + PART_VALUES * SL_PARTS ||
        !read_number(&reply, SL_HOLD_UNKNOWN, SL_HOLD_EXPIRED, &state) ||
        !read_number(&reply, 0, SL_NS_MAX / SL_US, &now) ||
        !read_number(&reply, -1, SL_NS_MAX / SL_US, &left))
        return false;
    parts = (unsigned)(array.count - HEAD_NUMBERS) / PART_VALUES;
    for (unsigned i = 0; i < parts; i++)
        if (!hold_read_part(call, &reply, on_key, ctx))
            return false;
    call->state = (enum sl_hold_state)state;
    call->expires_in = call->op == SL_HOLD_SETTLE ? SL_NS_NONE : span_of(left);
    return true;
}

/* ---- leases in the words of the script. */

/* If the store knew it no longer although it was in time, what was spent of it
 * may have been given to others, too. */
static void count_ended(const struct sl_lease_request *ended, bool known,
                        sl_ns server, struct sl_lease_counts *counts)
{
    if (ended->all == 0 || known)
        return;
    counts->under += ended->left;
    if (server < (sl_ns)ended->till * SL_US)
        counts->over += ended->all - ended->left;
}

static void land(struct sl_lease_cache *leases, struct sl_lease_requests *asks,
                 unsigned i, const struct sl_script_leased *leased,
                 sl_ns server, sl_ns sent, struct sl_lease_counts *counts)
{
    struct sl_lease_grant grant = {
        .has = leased->has,
        .life = leased->till - server,
        .till = (uint64_t)(leased->till / SL_US),
        .remaining = leased->remaining,
        .reset_in = leased->reset_in,
    };

    count_ended(&asks->words[i], leased->known, server, counts);
    if (sl_lease_cache_granted(leases, asks, i, &grant, sent))
        counts->granted += grant.has;
}

void sl_script_land(struct sl_lease_cache *leases,
                    struct sl_lease_requests *asks, const int64_t *numbers,
                    unsigned count, sl_ns sent, struct sl_lease_counts *counts)
{
    for (unsigned i = 0; i < asks->count; i++) {
        struct sl_script_leased leased;

        if (!asks->list[i])
            continue;
        if (sl_script_read_lease(numbers, count, asks->count, i, &leased)) {
            land(leases, asks, i, &leased, numbers[1] * SL_US, sent, counts);
        } else {
            counts->under += asks->words[i].left;
            (void)sl_lease_cache_granted(leases, asks, i, NULL, sent);
        }
    }
    asks->count = 0;
}
