/* script_hold.c -- a hold's end as the words of a command, and its reply. */
#include "store/redis/script_hold.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/fleet/slots.h"
#include "wire/resp.h"

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

static unsigned words_of(const struct sl_hold_call *call)
{
    unsigned words = 2;

    if (call->errand == SL_HOLD_SETTLE)
        words += 4 + 2 * call->actual_count;
    else if (call->errand == SL_HOLD_EXTEND)
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
    static const char *const errands[] = {"settle", "extend", "view"};
    size_t before = out->len;
    int err = sl_script_call(out, how, 1, words_of(call));

    if (!err)
        err = sl_script_put(out, how->record);
    if (!err)
        err = sl_script_put(out, sl_str_c(errands[call->errand]));
    if (!err)
        err = sl_script_put_now(out, how);
    if (!err && call->errand == SL_HOLD_SETTLE)
        err = put_settle(call, how, out);
    if (!err && call->errand == SL_HOLD_EXTEND)
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

static sl_ns span_of(int64_t ticks)
{
    return ticks < 0 ? SL_NS_NONE : ticks * SL_US;
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

static bool read_part(struct sl_hold_call *call, struct sl_str *reply,
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
    *part = (struct sl_held_part){.of = limit_of(call, name),
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
        if (!read_part(call, &reply, on_key, ctx))
            return false;
    call->state = (enum sl_hold_state)state;
    call->expires_in =
        call->errand == SL_HOLD_SETTLE ? SL_NS_NONE : span_of(left);
    return true;
}
