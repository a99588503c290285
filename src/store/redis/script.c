/* script.c -- a take, the end of a hold and the end of a lease as commands, and
 * their replies. */
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
#define PERIOD      4  /* numbers */
#define HEAD_VALUES 3  /* of a reply about a hold, */
#define HELD_VALUES 12 /* and of each part: two texts and ten numbers */
#define ANSWER      5  /* numbers of an answer */

/* In the order of enum sl_kind, as take.lua calls them. */
static const char *const kinds[SL_KINDS] = {"bucket",  "interval", "leaky",
                                            "fixed",   "sliding",  "quota",
                                            "permits", "level",    "penalty"};

/* In the order of enum sl_take_op. */
static const char *const ops[] = {"take",   "look", "each",
                                  "charge", "back", "reset"};

/* ---- parts of the same name ---- */

/* What a part takes. With `on_report` and no units it is denied if nothing is
 * left; written as -1. */
struct part_cost {
    uint64_t units;
    bool on_report;
};

struct merged {
    unsigned first[SL_PARTS]; /* of each part: the first one of its name */
    /* Of these first parts: */
    struct part_cost cost[SL_PARTS]; /* their sum */
    unsigned number[SL_PARTS];       /* from 1 */
    unsigned beside[SL_PARTS]; /* the number of the one that is carried to it,
                                * or of the limit of a penalty; 0: none */
    unsigned count;
};

static unsigned part_count(const struct sl_take *take)
{
    return take->count < SL_PARTS ? take->count : SL_PARTS;
}

/* The first part from `from` on with the name of part `i`. */
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

/* The number of the limit of a penalty; 0: part `i` counts no failures. */
static unsigned limit_of_penalty(const struct sl_take *take,
                                 const struct merged *merged, unsigned i)
{
    unsigned of = take->parts[i].penalty_of;

    return take->op == SL_TAKE_OP_TAKE && of > 0 && of <= i
               ? merged->number[merged->first[of - 1]]
               : 0;
}

/* A carried part belongs to the part behind it; a key can't be carried to
 * itself. With EACH, a carried part and the next are a set of two. */
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
            ret->cost[i] = (struct part_cost){take->parts[i].cost,
                                              take->parts[i].on_report};
            ret->number[i] = ++ret->count;
            ret->beside[i] = limit_of_penalty(take, ret, i);
        } else {
            ret->cost[k].units =
                sl_add_sat(ret->cost[k].units, take->parts[i].cost);
            ret->cost[k].on_report |= take->parts[i].on_report;
        }
        if (carries && ret->first[i - 1] < k)
            ret->beside[k] = ret->number[ret->first[i - 1]];
        carries = take->parts[i].carried && may_carry(take->op) &&
                  !(apart && carries);
    }
}

/* ---- writing ---- */

static void put(struct sl_writer *w, struct sl_str word)
{
    struct sl_buf *out = w->out;

    if (!w->err)
        w->err = sl_buf_reserve(out, SL_RESP_HEAD + word.len + 2);
    if (!w->err)
        out->len = (size_t)(sl_resp_put_string(out->bytes + out->len, word) -
                            out->bytes);
}

static void put_number(struct sl_writer *w, uint64_t number)
{
    char digits[SL_DIGITS];

    put(w, (struct sl_str){digits, sl_digits(number, digits)});
}

static void put_numbers(struct sl_writer *w, const uint64_t *numbers,
                        unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        put_number(w, numbers[i]);
}

/* The command is complete, or `out` is as it was. */
static int end(struct sl_writer *w, size_t before)
{
    if (w->err)
        w->out->len = before;
    return w->err;
}

/* In the unit of the script; an instant before 1970 is 1970. */
static uint64_t tick_of(sl_ns at)
{
    return at > 0 ? (uint64_t)(at / SL_US) : 0;
}

/* The period of a calendar at `now`: its start and end, the end of the next and
 * the start of the last one. */
static void period_at(const struct sl_limit *limit, sl_ns now,
                      uint64_t ret[PERIOD])
{
    struct sl_period is = sl_calendar_period(&limit->cal, now);
    struct sl_period was =
        sl_calendar_period(&limit->cal, is.start > 0 ? is.start - 1 : 0);

    ret[0] = tick_of(is.start);
    ret[1] = tick_of(is.end);
    ret[2] = tick_of(sl_calendar_period(&limit->cal, is.end).end);
    ret[3] = tick_of(was.start);
}

static void put_cost(struct sl_writer *w, uint64_t cost)
{
    put_number(w, cost < SL_AMOUNT_MAX ? cost : SL_AMOUNT_MAX);
}

static void put_part(struct sl_writer *w, const struct sl_part *part,
                     struct part_cost cost, unsigned beside, sl_ns near)
{
    struct sl_limit limit = *part->limit;
    uint64_t period[PERIOD] = {0}, shape;

    if (limit.quantum != SL_QUANTUM_US) {
        limit.quantum = SL_QUANTUM_US;
        sl_limit_derive(&limit);
    }
    if (limit.calendar)
        period_at(&limit, near, period);
    shape = sl_limit_shape(&limit);
    if (limit.kind == SL_PENALTY) {
        limit.grain /= (uint64_t)SL_US;
        limit.token = limit.penalty.growth;
        period[2] = tick_of(limit.penalty.block);
    }
    uint64_t numbers[] = {
        limit.count,
        limit.capacity,
        limit.calendar ? 0 : limit.span,
        limit.calendar ? period[0] : limit.grain,
        limit.calendar ? period[1] : limit.token,
    };
    uint64_t more[] = {
        tick_of(part->taken_at > 0 ? part->taken_at : near),
        period[2],
        period[3],
        beside,
    };

    put(w, sl_str_c(kinds[limit.kind]));
    put_number(w, shape);
    put_numbers(w, numbers, SL_LEN(numbers));
    if (cost.on_report && cost.units == 0)
        put(w, SL_STR("-1"));
    else
        put_cost(w, cost.units);
    put_numbers(w, more, SL_LEN(more));
}

/* A command up to its keys: the number of keys, and of words behind them. */
static void put_call(struct sl_writer *w, const struct sl_script_options *how,
                     unsigned keys, unsigned words)
{
    struct sl_buf *out = w->out;

    w->err = sl_buf_reserve(out, SL_RESP_HEAD);
    if (!w->err)
        out->len = (size_t)(sl_resp_put_number(out->bytes + out->len, '*',
                                               3 + keys + words) -
                            out->bytes);
    put(w, how->whole ? SL_STR("EVAL") : SL_STR("EVALSHA"));
    put(w, how->whole ? (struct sl_str){sl_script_text, sl_script_len}
                      : (struct sl_str){sl_script_sha, 40});
    put_number(w, keys);
}

static unsigned words_of(const struct sl_script_options *how, unsigned parts)
{
    return 2 + parts * (how->leases ? PART_WORDS + LEASE_WORDS : PART_WORDS);
}

/* The time; behind a '~' if the server's own counts. */
static void put_now(struct sl_writer *w, const struct sl_script_options *how)
{
    char text[1 + SL_DIGITS] = "~";
    size_t len = 1 + sl_digits(tick_of(how->near), text + 1);

    put(w, how->own_now ? (struct sl_str){text + 1, len - 1}
                        : (struct sl_str){text, len});
}

static void put_lease(struct sl_writer *w, const struct sl_lease_request *lease)
{
    uint64_t numbers[LEASE_WORDS] = {lease->want, lease->all, lease->left,
                                     lease->till};

    put_numbers(w, numbers, LEASE_WORDS);
}

/* How long the set is held, which parts are not, and the names of its limits.
 */
static void put_hold(struct sl_writer *w, const struct sl_take *take,
                     const struct merged *merged)
{
    uint64_t not_held = 0;

    for (unsigned i = 0; i < part_count(take); i++)
        if (take->parts[i].carried ||
            (merged->first[i] == i && take->parts[i].not_held))
            not_held |= UINT64_C(1) << (merged->number[merged->first[i]] - 1);
    put_number(w, tick_of(take->hold_for + SL_US - 1));
    put_number(w, not_held);
    for (unsigned i = 0; i < part_count(take); i++)
        if (merged->first[i] == i)
            put(w, sl_str_c(take->parts[i].binding->name));
}

int sl_script_write(const struct sl_take *take,
                    const struct sl_script_options *how, struct sl_buf *out)
{
    struct sl_writer w = {out, 0};
    struct merged merged;
    size_t before = out->len;
    bool holds = how->record.len > 0;

    merge(take, &merged);
    put_call(&w, how, merged.count + holds,
             words_of(how, merged.count) +
                 (holds ? HOLD_WORDS + merged.count : 0));
    for (unsigned i = 0; i < part_count(take); i++)
        if (merged.first[i] == i)
            put(&w, sl_take_part_name(&take->parts[i]));
    if (holds)
        put(&w, how->record);
    put(&w, holds ? SL_STR("hold") : sl_str_c(ops[take->op]));
    put_now(&w, how);
    for (unsigned i = 0; i < part_count(take); i++)
        if (merged.first[i] == i)
            put_part(&w, &take->parts[i], merged.cost[i], merged.beside[i],
                     how->near);
    for (unsigned i = 0; how->leases && i < merged.count; i++)
        put_lease(&w, &how->leases[i]);
    if (holds)
        put_hold(&w, take, &merged);
    return end(&w, before);
}

int sl_script_keep(const struct sl_part *part, sl_ns near, struct sl_buf *out,
                   size_t *ret_name_len)
{
    struct sl_writer w = {out, 0};
    size_t before = out->len, name;

    put(&w, sl_take_part_name(part));
    name = out->len - before;
    put_part(&w, part, (struct part_cost){0}, 0, near);
    if (!w.err)
        *ret_name_len = name;
    return end(&w, before);
}

int sl_script_end_lease(struct sl_str name, struct sl_str numbers,
                        const struct sl_script_options *how,
                        const struct sl_lease_request *lease,
                        struct sl_buf *out)
{
    struct sl_writer w = {out, 0};
    struct sl_script_options leased = *how;
    size_t before = out->len;

    leased.leases = lease;
    put_call(&w, &leased, 1, words_of(&leased, 1));
    sl_writer_add(&w, name);
    put(&w, sl_str_c(ops[SL_TAKE_OP_TAKE]));
    put_now(&w, how);
    sl_writer_add(&w, numbers);
    put_lease(&w, lease);
    return end(&w, before);
}

/* ---- the same command, changed ---- */

/* The length of the line with the number of words. */
static size_t head_of(struct sl_str from)
{
    const char *line = from.len > 0 ? memchr(from.at, '\n', from.len) : NULL;

    return line ? (size_t)(line - from.at) + 1 : from.len;
}

/* The command behind EVALSHA and the hash. */
static struct sl_str after_hash(struct sl_str from)
{
    return sl_str_from(from,
                       head_of(from) + strlen("$7\r\nEVALSHA\r\n$40\r\n") + 42);
}

int sl_script_eval(struct sl_str from, struct sl_buf *out)
{
    struct sl_writer w = {out, 0};
    struct sl_str rest = after_hash(from);
    size_t before = out->len;

    if (rest.len == 0)
        return SLUICE_EINVAL;
    sl_writer_add(&w, (struct sl_str){from.at, head_of(from)});
    put(&w, SL_STR("EVAL"));
    put(&w, (struct sl_str){sl_script_text, sl_script_len});
    sl_writer_add(&w, rest);
    return end(&w, before);
}

/* The op is the first word after the keys. */
int sl_script_refund(struct sl_str from, struct sl_buf *out)
{
    size_t before = out->len;
    struct sl_str rest = after_hash(from);
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

static bool read_answer(const int64_t numbers[ANSWER], uint64_t limit,
                        uint64_t capacity, struct sl_answer *ret)
{
    if (numbers[0] < SL_ALLOW || numbers[0] > SL_NEVER || numbers[1] < 0)
        return false;
    for (unsigned i = 2; i < ANSWER; i++)
        if (numbers[i] < -1 || numbers[i] > SL_NS_MAX / SL_US)
            return false;
    *ret = (struct sl_answer){
        .outcome = (enum sl_outcome)numbers[0],
        .limit = limit,
        .capacity = capacity,
        .remaining = (uint64_t)numbers[1],
        .retry_in = span_of(numbers[2]),
        .reset_in = span_of(numbers[3]),
        .wait = span_of(numbers[4]),
    };
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
        struct sl_part *part = &take->parts[i];
        unsigned first = merged.first[i];

        part->untracked = false;
        if (first < i) {
            part->answer = take->parts[first].answer;
            continue;
        }
        if (!read_answer(at, part->limit->count, part->limit->capacity,
                         &part->answer))
            return false;
        at += ANSWER;
    }
    take->allowed = numbers[0] == 1;
    take->counted = !take->allowed && take->op == SL_TAKE_OP_TAKE;
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
                                     .found = at[2] == 1,
                                     .remaining = (uint64_t)part[1],
                                     .reset_in = span_of(part[3])};
    return true;
}

/* ---- the end of a hold ---- */

void sl_script_hold_name(struct sl_hold_id id, bool in_slots, unsigned slot,
                         char out[SL_HOLD_NAME])
{
    char tag[16] = "";

    if (in_slots)
        snprintf(tag, sizeof(tag), "{%u}:", sl_cluster_slot_tag(slot));
    snprintf(out, SL_HOLD_NAME, "sluice:hold:%s%016" PRIx64 "%016" PRIx64, tag,
             id.w[0], id.w[1]);
}

static void put_settle(struct sl_writer *w, const struct sl_hold_call *call,
                       const struct sl_script_options *how)
{
    put_number(w, how->undo ? 2 : call->release);
    put_number(w, call->as_held);
    put_cost(w, call->cost);
    put_number(w, call->actual_count);
    for (unsigned i = 0; i < call->actual_count; i++) {
        put(w, sl_str_c(call->actual[i].of->name));
        put_cost(w, call->actual[i].cost);
    }
}

/* The periods of all calendars: it is not known here which limits are held, and
 * the periods of the take may be long over. */
static void put_periods(struct sl_writer *w, const struct sl_hold_call *call,
                        sl_ns near)
{
    for (unsigned i = 0; i < call->limits_count; i++) {
        const struct sl_limit_binding *limit = &call->limits[i];
        uint64_t bounds[PERIOD];

        if (!limit->strictest.calendar)
            continue;
        period_at(&limit->strictest, near, bounds);
        put(w, sl_str_c(limit->name));
        put_numbers(w, bounds, PERIOD);
    }
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
            words += 1 + PERIOD;
    return words;
}

int sl_script_hold_write(const struct sl_hold_call *call,
                         const struct sl_script_options *how,
                         struct sl_buf *out)
{
    static const char *const actions[] = {"settle", "extend", "view"};
    struct sl_writer w = {out, 0};
    size_t before = out->len;

    put_call(&w, how, 1, hold_words_of(call));
    put(&w, how->record);
    put(&w, sl_str_c(actions[call->op]));
    put_now(&w, how);
    if (call->op == SL_HOLD_SETTLE)
        put_settle(&w, call, how);
    if (call->op == SL_HOLD_EXTEND)
        put_number(&w, (uint64_t)(call->hold_for + SL_US - 1) / SL_US);
    put_periods(&w, call, how->near);
    return end(&w, before);
}

static bool read_number(struct sl_str *reply, int64_t least, int64_t most,
                        int64_t *ret)
{
    struct sl_resp_value value = sl_resp_next(reply);

    *ret = value.integer;
    return value.type == SL_RESP_INTEGER && value.integer >= least &&
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

static bool read_held(struct sl_hold_call *call, struct sl_str *reply,
                      sl_script_key_f *on_key, void *ctx)
{
    struct sl_held_part *part = &call->parts[call->count];
    struct sl_str key, name;
    int64_t count, capacity, held, cost, over, answer[ANSWER];

    if (!read_text(reply, &key) || !read_text(reply, &name) ||
        !read_number(reply, 0, INT64_MAX, &count) ||
        !read_number(reply, 0, INT64_MAX, &capacity) ||
        !read_number(reply, 0, INT64_MAX, &held) ||
        !read_number(reply, 0, INT64_MAX, &cost) ||
        !read_number(reply, 0, 1, &over))
        return false;
    for (unsigned i = 0; i < ANSWER; i++)
        if (!read_number(reply, INT64_MIN, INT64_MAX, &answer[i]))
            return false;
    *part = (struct sl_held_part){.binding = limit_of(call, name),
                                  .held = (uint64_t)held,
                                  .cost = (uint64_t)cost,
                                  .over = over == 1};
    on_key(ctx, key);
    call->count++;
    return read_answer(answer, (uint64_t)count, (uint64_t)capacity,
                       &part->answer);
}

bool sl_script_hold_read(struct sl_hold_call *call, struct sl_str reply,
                         sl_script_key_f *on_key, void *ctx)
{
    struct sl_resp_value array = sl_resp_next(&reply);
    int64_t state, now, left;
    unsigned parts;

    call->count = 0;
    if (array.type != SL_RESP_ARRAY || array.count < HEAD_VALUES ||
        (array.count - HEAD_VALUES) % HELD_VALUES != 0 ||
        array.count > HEAD_VALUES + HELD_VALUES * SL_PARTS ||
        !read_number(&reply, SL_HOLD_UNKNOWN, SL_HOLD_EXPIRED, &state) ||
        !read_number(&reply, 0, SL_NS_MAX / SL_US, &now) ||
        !read_number(&reply, -1, SL_NS_MAX / SL_US, &left))
        return false;
    parts = (unsigned)(array.count - HEAD_VALUES) / HELD_VALUES;
    for (unsigned i = 0; i < parts; i++)
        if (!read_held(call, &reply, on_key, ctx))
            return false;
    call->state = (enum sl_hold_state)state;
    call->expires_in = call->op == SL_HOLD_SETTLE ? SL_NS_NONE : span_of(left);
    return true;
}

/* ---- leases ---- */

static void grant(struct sl_lease_cache *leases, struct sl_lease_requests *asks,
                  unsigned i, const struct sl_script_leased *leased,
                  sl_ns server, sl_ns sent, struct sl_lease_counts *counts)
{
    const struct sl_lease_request *ended = &asks->words[i];
    struct sl_lease_grant grant = {
        .has = leased->has,
        .life = leased->till - server,
        .till = (uint64_t)(leased->till / SL_US),
        .remaining = leased->remaining,
        .reset_in = leased->reset_in,
    };

    if (ended->all > 0 && !leased->found) {
        counts->under += ended->left;
        /* The store lost a lease before its end: others may have taken the
         * tokens that were spent of it. */
        if (server < (sl_ns)ended->till * SL_US)
            counts->over += ended->all - ended->left;
    }
    if (sl_lease_cache_granted(leases, asks, i, &grant, sent))
        counts->granted += grant.has;
}

void sl_script_grant(struct sl_lease_cache *leases,
                     struct sl_lease_requests *asks, const int64_t *numbers,
                     unsigned count, sl_ns sent, struct sl_lease_counts *counts)
{
    for (unsigned i = 0; i < asks->count; i++) {
        struct sl_script_leased leased;

        if (!asks->list[i])
            continue;
        if (sl_script_read_lease(numbers, count, asks->count, i, &leased)) {
            grant(leases, asks, i, &leased, numbers[1] * SL_US, sent, counts);
        } else {
            counts->under += asks->words[i].left;
            (void)sl_lease_cache_granted(leases, asks, i, NULL, sent);
        }
    }
    asks->count = 0;
}
