/* throttle.c -- limits whose numbers come with the question.
 *
 * Each is a bucket whose unit is one nanosecond. One unit drains per
 * nanosecond; a token is as many units as the interval has nanoseconds. The
 * cell then holds the distance to redis-cell's arrival time, and stays right
 * when the next call brings other numbers. The period is not used. It is part
 * of the shape, so all of them have the same.
 *
 *     redis-cell                       here
 *     T    emission interval           token
 *     tau  T * (max_burst + 1)         room
 *     TAT - now                        used
 *
 * The table cannot know a cell's own numbers. It evicts only cells with nothing
 * used.
 */
#include "engine/throttle.h"

#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "engine/engine_int.h"

/* No limit of a policy can be called so. */
#define FAMILY "#throttle"

/* What a cell can hold as used; see core/bucket.c. */
#define FULL_MOST ((UINT64_C(1) << 56) - 1)

#define REFUND_MOST (INT64_C(1) << 48)

#define PERIOD_MOST (SL_PERIOD_MAX / SL_S)

static const struct sl_limit family = {
    .kind = SL_BUCKET,
    .quantum = SL_QUANTUM_NS,
    .count = 1,
    .capacity = 1,
    .period = SL_MS,
};

void sl_throttles_init(struct sl_throttles *throttles, struct sl_engine *engine,
                       struct sl_loop *loop)
{
    memset(throttles, 0, sizeof(*throttles));
    throttles->engine = engine;
    throttles->loop = loop;
}

bool sl_throttles_named(const struct sl_throttles *throttles)
{
    return throttles->engine->store->wants_names;
}

static int bind(struct sl_throttles *t)
{
    struct sl_limit limit = family;

    if (t->bound)
        return 0;
    sl_limit_derive(&limit);
    t->stored = (struct sl_limit_binding){
        .name = FAMILY, .strictest = limit, .share = SL_THROTTLE_SHARE};
    if (sl_store_bind(t->engine->store, &t->stored, 1, NULL))
        return SLUICE_EFULL;
    t->bound = true;
    return 0;
}

/* ---- numbers ---- */

int sl_throttle_set(struct sl_throttle *throttle, int64_t capacity,
                    int64_t count, int64_t period_s, struct sl_diag *diag)
{
    sl_ns interval;

    if (count == 0 || period_s == 0)
        return sl_diag_error(
            diag, SLUICE_EINVAL,
            "Zero rates are not supported: count and period must "
            "be at least 1");
    if (count < 0 || period_s < 0)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "count and period must be at least 1, not %" PRId64
                             " and %" PRId64,
                             count, period_s);
    if (period_s > PERIOD_MOST)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "a period of %" PRId64
                             " seconds is longer than ten years",
                             period_s);
    if (capacity < 1 || capacity > (int64_t)SL_COUNT_MAX)
        return sl_diag_error(
            diag, SLUICE_EINVAL,
            "the burst is out of range; the maximum is %" PRIu64,
            SL_COUNT_MAX - 1);
    interval = period_s * SL_S / count;
    if (interval == 0)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "%" PRId64 " in %" PRId64
                             " s is faster than one per nanosecond",
                             count, period_s);
    if ((sl_u128)capacity * (uint64_t)interval > FULL_MOST)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "%" PRId64
                             " would take more than 833 days to refill "
                             "at this rate",
                             capacity);
    throttle->capacity = (uint64_t)capacity;
    throttle->interval = interval;
    return 0;
}

/* ---- asking ---- */

static void answer(struct sl_throttle *t)
{
    const struct sl_answer *a = &t->part.answer;
    sl_ns room = (sl_ns)t->numbers.room * t->numbers.tick;

    t->remaining = a->remaining;
    t->reset_in = a->reset_in;
    t->retry_in = SL_NS_NONE;
    t->limited = t->quantity > 0 && !t->take.allowed;
    if (t->limited && a->outcome == SL_DENY)
        t->retry_in = a->retry_in;
    if (t->quantity == 0 && a->reset_in > room) { /* by other numbers */
        t->limited = true;
        t->retry_in = a->reset_in - room;
    }
}

static void on_taken(struct sl_take *take)
{
    struct sl_throttle *t = take->ctx;

    t->err = take->err;
    if (!t->err)
        answer(t);
    t->done(t);
}

static void prepare(struct sl_throttles *all, struct sl_throttle *t,
                    enum sl_take_op op)
{
    t->part = (struct sl_part){
        .binding = &all->stored,
        .limit = &t->numbers,
        .key = t->key,
        .name = sl_throttles_named(all) ? t->name : (struct sl_str){NULL, 0},
        .cost =
            t->quantity < 0 ? 0 - (uint64_t)t->quantity : (uint64_t)t->quantity,
        .taken_at = t->now,
    };
    t->take = (struct sl_take){
        .op = op,
        .parts = &t->part,
        .count = 1,
        .now = t->now,
        .loop = all->loop,
        .done = on_taken,
        .ctx = t,
    };
}

/* A refund beyond what any store corrects at once is all there can be. */
static enum sl_take_op op_of(const struct sl_throttle *t)
{
    if (t->quantity >= 0)
        return SL_TAKE_OP_TAKE;
    return t->quantity > -REFUND_MOST ? SL_TAKE_OP_REFUND : SL_TAKE_OP_RESET;
}

/* Sets only the fields that a bucket reads. Divisors are constants: a division
 * by a variable would cost as much as the rest of this function. */
static void set_numbers(const struct sl_throttles *all, struct sl_throttle *t)
{
    bool shared = sl_throttles_named(all);
    sl_ns token = shared ? (t->interval + SL_US - 1) / SL_US : t->interval;

    t->numbers.kind = SL_BUCKET;
    t->numbers.quantum = shared ? SL_QUANTUM_US : SL_QUANTUM_NS;
    t->numbers.count = 1;
    t->numbers.capacity = t->capacity;
    t->numbers.period = family.period;
    t->numbers.calendar = false;
    t->numbers.tick = shared ? SL_US : 1;
    t->numbers.span =
        (uint64_t)(shared ? family.period / SL_US : family.period);
    t->numbers.grain = 1;
    t->numbers.token = (uint64_t)token;
    t->numbers.room = t->capacity * (uint64_t)token;
}

static void fail(struct sl_throttle *t, int err)
{
    t->err = err;
    t->done(t);
}

void sl_throttle_take(struct sl_throttles *throttles,
                      struct sl_throttle *const *asked, unsigned count)
{
    struct sl_take *takes[SL_THROTTLES];
    int err = bind(throttles);

    for (unsigned i = 0; i < count && err; i++)
        fail(asked[i], err);
    if (err)
        return;
    for (unsigned i = 0; i < count; i++) {
        prepare(throttles, asked[i], op_of(asked[i]));
        set_numbers(throttles, asked[i]);
        takes[i] = &asked[i]->take;
    }
    sl_store_take_many(throttles->engine->store, takes, count);
}

void sl_throttle_reset(struct sl_throttles *throttles,
                       struct sl_throttle *throttle)
{
    int err = bind(throttles);

    if (err) {
        fail(throttle, err);
        return;
    }
    throttle->quantity = 0;
    throttle->capacity = 1;
    throttle->interval = 1;
    prepare(throttles, throttle, SL_TAKE_OP_RESET);
    set_numbers(throttles, throttle);
    sl_store_take(throttles->engine->store, &throttle->take);
}
