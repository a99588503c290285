/* gate.c -- the public interface on top of the table; see include/sluice.h. */
#include "lib/gate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/zone.h"
#include "sluice.h"
#include "table/hold.h"
#include "table/single.h"

#define BATCH 64 /* parts that are decided together */

/* A limit of the gate: its binding in the table, and the numbers of its
 * plans. */
struct gate_limit {
    struct sl_limit_binding binding;
    struct sl_limit *plans;
    unsigned plan_count; /* at least 1 */
    char *name;          /* binding.name */
    size_t name_size;
    struct sl_zone zone;
};

struct sluice {
    struct sl_alloc alloc;
    void *piece; /* the allocation; the gate is aligned inside it */
    struct sl_table table;
    struct gate_limit *limits;
    size_t limit_count;
    int64_t (*now)(void *ctx);
    void *now_ctx;
    struct sl_hash_key ids; /* secret for the ids of holds */
    _Atomic uint64_t ids_made;
    char notice[1024]; /* "": none */
};

static _Thread_local struct sl_diag last_refusal;

struct sl_diag *sluice_private_diag(void)
{
    return &last_refusal;
}

/* Sets the message of sluice_why() and returns `err`. */
#define REFUSE(err, ...) sl_diag_error(&last_refusal, err, __VA_ARGS__)

const char *sluice_why(void)
{
    return last_refusal.sentence[0] ? last_refusal.sentence : "no error";
}

const char *sluice_version(void)
{
    return SLUICE_VERSION;
}

/* The wall clock without an anchor: threads with different anchors would
 * disagree after a clock step. Small steps and late readings are harmless; see
 * "Time" in table.h. */
static sl_ns read_clock(const struct sluice *gate)
{
    return sl_clock_clamp(gate->now ? gate->now(gate->now_ctx)
                                    : sl_clock_wall_near());
}

static int check_part(const struct sluice *gate, const struct sluice_part *p)
{
    if (p->limit >= gate->limit_count)
        return REFUSE(SLUICE_ENOENT,
                      "unknown limit number %u; the gate has %zu", p->limit,
                      gate->limit_count);
    if (p->plan >= gate->limits[p->limit].plan_count)
        return REFUSE(SLUICE_ENOENT, "limit \"%s\" has no plan number %u",
                      gate->limits[p->limit].binding.name, p->plan);
    if (!p->key && p->key_len > 0)
        return REFUSE(SLUICE_EINVAL, "the key is NULL");
    return 0;
}

static int check_parts(const struct sluice *gate,
                       const struct sluice_part *parts, size_t count)
{
    if (!gate || !parts)
        return REFUSE(SLUICE_EINVAL, "%s is NULL", gate ? "parts" : "gate");
    if (count == 0 || count > SLUICE_PARTS_MAX)
        return REFUSE(SLUICE_EINVAL,
                      "a set needs between 1 and %d parts, not %zu",
                      SLUICE_PARTS_MAX, count);
    for (size_t i = 0; i < count; i++) {
        int err = check_part(gate, &parts[i]);

        if (err)
            return err;
    }
    return 0;
}

/* ---- conversion to and from the table's structs ---- */

/* In place, and without the answer: a struct that is built elsewhere and copied
 * costs as much as its decision. */
static void set_part(const struct sluice *gate, const struct sluice_part *p,
                     enum sl_take_op op, sl_ns now, struct sl_part *ret)
{
    const struct gate_limit *gl = &gate->limits[p->limit];

    memset(ret, 0, offsetof(struct sl_part, answer));
    ret->binding = &gl->binding;
    ret->limit = &gl->plans[p->plan];
    ret->key = (struct sl_str){p->key, p->key_len};
    ret->op = op;
    ret->cost = p->cost;
    ret->taken_at = p->taken_at_ns > 0 ? p->taken_at_ns : now;
}

static void set_answer(const struct sl_answer *a, bool untracked,
                       struct sluice_answer *ret)
{
    *ret = (struct sluice_answer){
        .outcome = (enum sluice_outcome)a->outcome,
        .limit = a->limit,
        .capacity = a->capacity,
        .remaining = a->remaining,
        .retry_in_ns = a->retry_in,
        .reset_in_ns = a->reset_in,
        .wait_ns = a->wait,
        .untracked = untracked,
    };
}

/* `by` is the first part that denies. One NEVER makes the set NEVER. The retry
 * of the set is the longest. */
static struct sluice_verdict verdict_of(const struct sluice_part *parts,
                                        size_t count)
{
    struct sluice_verdict v = {SLUICE_ALLOW, 0, -1};

    for (size_t i = 0; i < count; i++) {
        const struct sluice_answer *a = &parts[i].answer;

        if (a->outcome == SLUICE_ALLOW)
            continue;
        if (v.outcome == SLUICE_ALLOW)
            v.by = (unsigned)i;
        if (v.outcome != SLUICE_NEVER)
            v.outcome = a->outcome;
        if (a->retry_in_ns > v.retry_in_ns)
            v.retry_in_ns = a->retry_in_ns;
    }
    if (v.outcome == SLUICE_NEVER)
        v.retry_in_ns = -1;
    return v;
}

/* ---- deciding ---- */

static void decide(struct sluice *gate, struct sl_part *parts, unsigned count,
                   sl_ns now)
{
    struct sl_clock_reading r = {gate->now, gate->now_ctx, now, false, 0};

    while (sl_table_decide(&gate->table, parts, count, r.now, r.fresh) ==
           SL_SET_STALE)
        sl_clock_read_again(&r, &gate->table);
}

/* `now`: SL_NS_NONE if the clock was not read yet. */
static int decide_all(struct sluice *gate, struct sluice_part *parts,
                      size_t count, enum sl_take_op op, sl_ns now,
                      struct sluice_verdict *ret)
{
    struct sl_part set[SLUICE_PARTS_MAX];
    bool corrects = op == SL_TAKE_OP_CHARGE || op == SL_TAKE_OP_REFUND;
    int err = check_parts(gate, parts, count);

    for (size_t i = 0; !err && corrects && i < count; i++)
        if (parts[i].cost > SL_AMOUNT_MAX / SLUICE_PARTS_MAX)
            err = REFUSE(
                SLUICE_EINVAL,
                "a cost of more than 2^49 cannot be refunded or charged");
    if (err)
        return err;
    if (now == SL_NS_NONE)
        now = read_clock(gate);
    for (size_t i = 0; i < count; i++)
        set_part(gate, &parts[i], op, now, &set[i]);
    decide(gate, set, (unsigned)count, now);
    for (size_t i = 0; i < count; i++)
        set_answer(&set[i].answer, set[i].untracked, &parts[i].answer);
    if (ret)
        *ret = verdict_of(parts, count);
    return 0;
}

/* A valid part that is alone. False: decide_all() decides it at *now, or says
 * what is wrong. */
static bool take_one(struct sluice *gate, struct sluice_part *p, sl_ns *now,
                     struct sluice_verdict *ret)
{
    const struct gate_limit *gl = &gate->limits[p->limit];
    struct sl_ask ask = {
        .binding = &gl->binding,
        .key = {p->key, p->key_len},
        .cost = p->cost,
    };
    struct sl_answer a;

    if (p->limit >= gate->limit_count || p->plan >= gl->plan_count ||
        (!p->key && p->key_len > 0))
        return false;
    ask.limit = &gl->plans[p->plan];
    *now = read_clock(gate);
    if (!sl_table_take(&gate->table, &ask, *now, &a))
        return false;
    set_answer(&a, false, &p->answer);
    if (ret)
        *ret = (struct sluice_verdict){p->answer.outcome, 0,
                                       a.outcome == SL_DENY ? a.retry_in : -1};
    return true;
}

int sluice_take(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret)
{
    sl_ns now = SL_NS_NONE;

    if (count == 1 && gate && parts && take_one(gate, parts, &now, ret))
        return 0;
    return decide_all(gate, parts, count, SL_TAKE_OP_TAKE, now, ret);
}

int sluice_look(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret)
{
    return decide_all(gate, parts, count, SL_TAKE_OP_PEEK, SL_NS_NONE, ret);
}

/* Decide some parts of a batch. Parts that see a clock step are decided again
 * with a new reading. */
static void batch_some(struct sluice *gate, struct sluice_part *parts,
                       unsigned count, sl_ns now)
{
    struct sl_part some[BATCH], *pointers[BATCH];
    enum sl_set_result results[BATCH];

    for (unsigned i = 0; i < count; i++) {
        set_part(gate, &parts[i], SL_TAKE_OP_TAKE, now, &some[i]);
        pointers[i] = &some[i];
    }
    sl_table_batch(&gate->table, pointers, results, count, now, false);
    for (unsigned i = 0; i < count; i++) {
        if (results[i] == SL_SET_STALE)
            decide(gate, &some[i], 1, read_clock(gate));
        set_answer(&some[i].answer, some[i].untracked, &parts[i].answer);
    }
}

int sluice_take_batch(struct sluice *gate, struct sluice_part *parts,
                      size_t count)
{
    sl_ns now;

    if (!gate || (!parts && count > 0))
        return REFUSE(SLUICE_EINVAL, "a batch needs a gate and parts");
    for (size_t i = 0; i < count; i++) {
        int err = check_part(gate, &parts[i]);

        if (err)
            return err;
    }
    now = read_clock(gate);
    for (size_t i = 0; i < count; i += BATCH)
        batch_some(gate, parts + i,
                   (unsigned)(count - i < BATCH ? count - i : BATCH), now);
    return 0;
}

int sluice_give_back(struct sluice *gate, struct sluice_part *parts,
                     size_t count)
{
    return decide_all(gate, parts, count, SL_TAKE_OP_REFUND, SL_NS_NONE, NULL);
}

int sluice_charge(struct sluice *gate, struct sluice_part *parts, size_t count)
{
    return decide_all(gate, parts, count, SL_TAKE_OP_CHARGE, SL_NS_NONE, NULL);
}

int sluice_reset(struct sluice *gate, unsigned limit, const void *key,
                 size_t key_len)
{
    struct sluice_part part = {.limit = limit, .key = key, .key_len = key_len};

    return decide_all(gate, &part, 1, SL_TAKE_OP_RESET, SL_NS_NONE, NULL);
}

/* ---- holds ---- */

/* An id is made of a secret and a counter: it cannot be guessed and needs no
 * system call. */
static struct sl_hold_id new_id(struct sluice *gate)
{
    uint64_t number = atomic_fetch_add(&gate->ids_made, 1);
    struct sl_hash128 h = sl_hash128(
        &gate->ids, (struct sl_str){(const char *)&number, sizeof(number)});

    return (struct sl_hold_id){
        {h.lo | 16, h.hi}
    };
}

static int check_life(int64_t life)
{
    if (life <= 0 || life > SL_PERIOD_MAX)
        return REFUSE(SLUICE_EINVAL, "a hold lasts between 1 ns and 10 years");
    return 0;
}

int sluice_hold(struct sluice *gate, struct sluice_part *parts, size_t count,
                int64_t for_ns, struct sluice_hold_id *id,
                struct sluice_verdict *ret)
{
    struct sl_part set[SLUICE_PARTS_MAX];
    struct sl_clock_reading r;
    enum sl_set_result result;
    struct sl_hold_id new;
    int err = check_parts(gate, parts, count);

    if (!err && !id)
        err = REFUSE(SLUICE_EINVAL, "sluice_hold needs a result for the id");
    if (!err)
        err = check_life(for_ns);
    if (err)
        return err;
    SL_HOLDS(id);
    r = (struct sl_clock_reading){gate->now, gate->now_ctx, read_clock(gate),
                                  false, 0};
    for (size_t i = 0; i < count; i++)
        set_part(gate, &parts[i], SL_TAKE_OP_TAKE, r.now, &set[i]);
    new = new_id(gate);
    while ((result = sl_table_hold(&gate->table, set, (unsigned)count, new,
                                   for_ns, r.now, r.fresh)) == SL_SET_STALE)
        sl_clock_read_again(&r, &gate->table);
    if (result == SL_SET_NO_HOLD_ROOM)
        return REFUSE(SLUICE_EFULL,
                      "there is no room for another hold; increase the "
                      "memory, or let holds end sooner");
    for (size_t i = 0; i < count; i++)
        set_answer(&set[i].answer, set[i].untracked, &parts[i].answer);
    *id = (struct sluice_hold_id){
        {0, 0}
    };
    if (result == SL_SET_ALLOW)
        *id = (struct sluice_hold_id){
            {new.w[0], new.w[1]}
        };
    if (ret)
        *ret = verdict_of(parts, count);
    return 0;
}

struct settling {
    const struct sluice *gate;
    struct sluice_settlement *costs;
    size_t count;
};

static struct sluice_settlement *cost_of(const struct settling *settling,
                                         uint32_t id)
{
    for (size_t i = 0; i < settling->count; i++)
        if (settling->gate->limits[settling->costs[i].limit].binding.id == id)
            return &settling->costs[i];
    return NULL;
}

static const struct sl_limit *limit_of(const struct sluice *gate, uint32_t id)
{
    for (size_t i = 0; i < gate->limit_count; i++)
        if (gate->limits[i].binding.id == id)
            return &gate->limits[i].plans[0];
    return NULL;
}

/* Limits that are not named are settled with what was held, but permits are
 * always returned. */
static const struct sl_limit *numbers_of(void *ctx, uint32_t id, uint64_t held,
                                         uint64_t *cost)
{
    const struct settling *settling = ctx;
    const struct sluice_settlement *actual = cost_of(settling, id);
    const struct sl_limit *limit = limit_of(settling->gate, id);

    if (actual)
        *cost = actual->cost;
    else
        *cost = limit && limit->kind == SL_PERMITS ? 0 : held;
    return limit;
}

static int end_hold(struct sluice *gate, struct sl_hold_result *call,
                    enum sluice_hold_state *ret)
{
    struct sl_clock_reading r = {gate->now, gate->now_ctx, read_clock(gate),
                                 false, 0};

    while (sl_table_end(&gate->table, call, r.now, r.fresh) == SL_SET_STALE)
        sl_clock_read_again(&r, &gate->table);
    if (ret)
        *ret = (enum sluice_hold_state)call->state;
    return 0;
}

static int check_costs(const struct sluice *gate,
                       const struct sluice_settlement *costs, size_t count)
{
    if (count > 0 && !costs)
        return REFUSE(SLUICE_EINVAL, "costs are missing");
    for (size_t i = 0; i < count; i++) {
        if (costs[i].limit >= gate->limit_count)
            return REFUSE(SLUICE_ENOENT,
                          "unknown limit number %u; the gate has %zu",
                          costs[i].limit, gate->limit_count);
        if (costs[i].cost > SL_HOLD_COST_MAX)
            return REFUSE(SLUICE_EINVAL,
                          "a cost of more than 2^49 cannot be settled");
        for (size_t j = 0; j < i; j++)
            if (costs[j].limit == costs[i].limit)
                return REFUSE(SLUICE_EINVAL, "limit \"%s\" is given twice",
                              gate->limits[costs[i].limit].binding.name);
    }
    return 0;
}

static int check_gate(const struct sluice *gate)
{
    if (!gate)
        return REFUSE(SLUICE_EINVAL, "gate is NULL");
    return 0;
}

/* In place, and without the parts: they are two kilobytes, and the table sets
 * those that there are. */
static void set_call(struct sl_hold_result *call, enum sl_hold_action op,
                     struct sluice_hold_id id, struct settling *settling)
{
    memset(call, 0, offsetof(struct sl_hold_result, parts));
    call->op = op;
    call->id = (struct sl_hold_id){
        {id.w[0], id.w[1]}
    };
    call->numbers = numbers_of;
    call->ctx = settling;
    call->count = 0;
}

int sluice_settle(struct sluice *gate, struct sluice_hold_id id,
                  struct sluice_settlement *costs, size_t count,
                  enum sluice_hold_state *ret)
{
    struct settling settling = {gate, costs, count};
    struct sl_hold_result call;
    int err = check_gate(gate);

    set_call(&call, SL_HOLD_SETTLE, id, &settling);
    if (!err)
        err = check_costs(gate, costs, count);
    if (!err)
        err = end_hold(gate, &call, ret);
    for (unsigned i = 0; !err && i < call.count; i++) {
        struct sluice_settlement *cost =
            cost_of(&settling, call.parts[i].limit_id);

        if (!cost)
            continue;
        cost->over = call.parts[i].over;
        set_answer(&call.parts[i].answer, false, &cost->answer);
    }
    return err;
}

int sluice_release(struct sluice *gate, struct sluice_hold_id id,
                   enum sluice_hold_state *ret)
{
    struct settling settling = {gate, NULL, 0};
    struct sl_hold_result call;
    int err = check_gate(gate);

    set_call(&call, SL_HOLD_SETTLE, id, &settling);
    call.release = true;
    return err ? err : end_hold(gate, &call, ret);
}

int sluice_extend(struct sluice *gate, struct sluice_hold_id id, int64_t for_ns,
                  enum sluice_hold_state *ret)
{
    struct settling settling = {gate, NULL, 0};
    struct sl_hold_result call;
    int err = check_gate(gate);

    set_call(&call, SL_HOLD_EXTEND, id, &settling);
    if (!err)
        err = check_life(for_ns);
    call.life = for_ns;
    return err ? err : end_hold(gate, &call, ret);
}

/* ---- reading ---- */

struct visit {
    struct sluice *gate;
    sluice_each_f *each;
    void *ctx;
    sl_ns now;
    int result;
};

static bool visit_one(void *ctx, uint32_t id, uint64_t fingerprint,
                      struct sl_cell cell)
{
    struct visit *v = ctx;
    struct sluice_answer answer;

    for (size_t i = 0; i < v->gate->limit_count; i++) {
        const struct gate_limit *gl = &v->gate->limits[i];
        struct sl_answer a;

        if (gl->binding.id != id)
            continue;
        a = sl_take(&gl->plans[0], cell, 0, v->now).answer;
        set_answer(&a, false, &answer);
        v->result = v->each(v->ctx, (unsigned)i, fingerprint, &answer);
    }
    return v->result == 0;
}

int sluice_each(struct sluice *gate, sluice_each_f *each, void *ctx)
{
    struct visit v = {gate, each, ctx, 0, 0};

    if (!gate || !each)
        return REFUSE(SLUICE_EINVAL, "sluice_each needs a gate and a function");
    v.now = read_clock(gate);
    sl_table_visit(&gate->table, visit_one, &v);
    return v.result;
}

int sluice_stats(struct sluice *gate, struct sluice_stats *ret)
{
    struct sl_hold_stats holds;
    struct sl_table_stats s;

    if (!gate || !ret)
        return REFUSE(SLUICE_EINVAL, "sluice_stats needs a gate and a result");
    sl_table_stats(&gate->table, &s);
    sl_table_hold_stats(&gate->table, &holds);
    *ret = (struct sluice_stats){
        .takes = s.counted[SL_STAT_TAKES],
        .denied = s.counted[SL_STAT_DENIED],
        .inserted = s.counted[SL_STAT_INSERTED],
        .evicted = s.counted[SL_STAT_EVICTED],
        .full = s.counted[SL_STAT_FULL],
        .helped = s.counted[SL_STAT_HELPED],
        .undone = s.counted[SL_STAT_UNDONE],
        .places = s.slots,
        .occupied = s.occupied,
        .bytes = s.bytes,
        .expired = s.counted[SL_STAT_EXPIRED],
        .hold_places = holds.places,
        .held = holds.held,
    };
    return 0;
}

/* ---- opening and closing ---- */

#define DEFAULT_SIZE (UINT64_C(64) << 20)

/* A gate begins on a cache line; an allocator does not guarantee that. */
#define GATE_ALIGN 64
#define GATE_PIECE (sizeof(struct sluice) + GATE_ALIGN - 1)

static enum sl_kind kind_of(const struct sluice_limit *limit)
{
    static const enum sl_kind kinds[] = {
        [SLUICE_TOKEN_BUCKET] = SL_BUCKET, [SLUICE_LEAKY_BUCKET] = SL_LEAKY,
        [SLUICE_FIXED_WINDOW] = SL_FIXED,  [SLUICE_SLIDING_WINDOW] = SL_SLIDING,
        [SLUICE_QUOTA] = SL_QUOTA,         [SLUICE_CONCURRENCY] = SL_PERMITS,
        [SLUICE_LEVEL] = SL_LEVEL,
    };

    if (limit->kind == SLUICE_TOKEN_BUCKET && limit->interval)
        return SL_INTERVAL;
    return kinds[limit->kind];
}

/* Put the name of the limit into the message. */
static int about(const struct sluice_limit *limit, const char *rate, int err,
                 const struct sl_diag *why)
{
    const char *quote = rate && *rate ? rate : NULL;

    return REFUSE(err, "limit \"%s\": %s%s%s%s%s", limit->name,
                  quote ? quote : "", quote ? ": " : "", why->sentence,
                  why->hint[0] ? "; did you mean " : "", why->hint);
}

static int read_plan(struct gate_limit *gl, const struct sluice_limit *from,
                     const char *text, struct sl_limit *ret)
{
    struct sl_limit_options options = {.zone = from->zone ? &gl->zone : NULL,
                                       .anchor = from->anchor};
    struct sl_diag why = {0};
    struct sl_rate rate;
    int err;

    if (!text)
        return REFUSE(SLUICE_EINVAL, "limit \"%s\" has no rate", from->name);
    err = sl_parse_rate(sl_str_c(text), &rate, &why);
    if (!err)
        err = sl_limit_init(ret, kind_of(from), &rate, &options, &why);
    return err ? about(from, text, SLUICE_ECONF, &why) : 0;
}

/* The slowest rate and the smallest capacity of all plans. */
static struct sl_limit strictest(const struct gate_limit *gl)
{
    struct sl_limit limit = gl->plans[0];

    for (unsigned i = 1; i < gl->plan_count; i++) {
        const struct sl_limit *plan = &gl->plans[i];

        if (plan->count < limit.count)
            limit.count = plan->count;
        if (plan->capacity < limit.capacity)
            limit.capacity = plan->capacity;
    }
    sl_limit_derive(&limit);
    return limit;
}

static int read_plans(struct sluice *gate, struct gate_limit *gl,
                      const struct sluice_limit *from)
{
    unsigned count = 1;

    while (from->plans && from->plans[count - 1])
        count++;
    gl->plans = sl_alloc_new(&gate->alloc, count * sizeof(*gl->plans));
    if (!gl->plans)
        return REFUSE(SLUICE_ENOMEM, "out of memory");
    gl->plan_count = count;
    for (unsigned i = 0; i < count; i++) {
        const char *text = i ? from->plans[i - 1] : from->rate;
        int err = read_plan(gl, from, text, &gl->plans[i]);

        if (err)
            return err;
        if (sl_limit_shape(&gl->plans[i]) != sl_limit_shape(&gl->plans[0]))
            return REFUSE(SLUICE_ECONF,
                          "limit \"%s\": %s has another period than %s; all "
                          "plans of a limit must have the same period",
                          from->name, text, from->rate);
    }
    gl->binding.strictest = strictest(gl);
    return 0;
}

static int read_limit(struct sluice *gate, struct gate_limit *gl,
                      const struct sluice_limit *from)
{
    struct sl_diag why = {0};
    int err;

    if (!from->name || !*from->name)
        return REFUSE(SLUICE_EINVAL, "a limit needs a name");
    if ((unsigned)from->kind > SLUICE_LEVEL)
        return REFUSE(SLUICE_EINVAL, "limit \"%s\": %d is not a kind",
                      from->name, (int)from->kind);
    if (from->kind != SLUICE_QUOTA && (from->zone || from->anchor))
        return REFUSE(
            SLUICE_ECONF,
            "limit \"%s\": only a quota can have a time zone and an anchor",
            from->name);
    if (from->kind != SLUICE_TOKEN_BUCKET && from->interval)
        return REFUSE(
            SLUICE_ECONF,
            "limit \"%s\": only a token-bucket can refill by the interval",
            from->name);
    if (from->share > 1000)
        return REFUSE(
            SLUICE_EINVAL,
            "limit \"%s\": a share of %u is more than the maximum of 1000",
            from->name, from->share);
    if (from->zone) {
        err = sl_zone_load(from->zone, &gate->alloc, &gl->zone, &why);
        if (err)
            return about(from, NULL, err, &why);
    }
    gl->name_size = strlen(from->name) + 1;
    gl->name = sl_alloc_new(&gate->alloc, gl->name_size);
    if (!gl->name)
        return REFUSE(SLUICE_ENOMEM, "out of memory");
    memcpy(gl->name, from->name, gl->name_size);
    gl->binding.name = gl->name;
    gl->binding.share = from->share;
    return read_plans(gate, gl, from);
}

static int read_limits(struct sluice *gate, const struct sluice_options *o)
{
    size_t size = o->limit_count * sizeof(*gate->limits);
    uint64_t shares = 0;

    if (!o->limits || o->limit_count == 0 || o->limit_count > SL_LIMITS)
        return REFUSE(SLUICE_EINVAL,
                      "a gate needs between 1 and %d limits, not %zu",
                      SL_LIMITS, o->limit_count);
    gate->limits = sl_alloc_new(&gate->alloc, size);
    if (!gate->limits)
        return REFUSE(SLUICE_ENOMEM, "out of memory");
    memset(gate->limits, 0, size);
    gate->limit_count = o->limit_count;
    for (size_t i = 0; i < o->limit_count; i++) {
        int err = read_limit(gate, &gate->limits[i], &o->limits[i]);

        if (err)
            return err;
        for (size_t j = 0; j < i; j++)
            if (strcmp(o->limits[i].name, o->limits[j].name) == 0)
                return REFUSE(SLUICE_ECONF, "two limits have the name \"%s\"",
                              o->limits[i].name);
        shares += o->limits[i].share;
    }
    if (shares > 1000)
        return REFUSE(SLUICE_ECONF,
                      "the shares of all limits add up to %" PRIu64
                      ", more than 1000",
                      shares);
    return 0;
}

static int open_region(struct sluice *gate, const struct sluice_options *o,
                       struct sl_region *ret)
{
    uint64_t size = o->size ? o->size : DEFAULT_SIZE;
    struct sl_diag *diag = &last_refusal, why;
    int err;

    if ((unsigned)o->on_full > SLUICE_FULL_DENY ||
        (unsigned)o->on_damage > SLUICE_DAMAGE_REFUSE)
        return REFUSE(
            SLUICE_EINVAL,
            "%d is not a value of on_full, or %d is not a value of on_damage",
            (int)o->on_full, (int)o->on_damage);
    if (o->memory && !o->size)
        return REFUSE(SLUICE_EINVAL, "memory needs a size");
    if (o->path && !*o->path)
        return REFUSE(SLUICE_EINVAL, "the path is empty");
    if (o->path && o->memory)
        return REFUSE(SLUICE_EINVAL, "give either a path or memory, not both");
    if (o->memory)
        return sl_region_open_memory(ret, o->memory, size, diag);
    if (!o->path)
        return sl_region_open_heap(ret, size, diag);
    why = (struct sl_diag){0};
    err = sl_region_open_file(ret, o->path, size,
                              o->on_damage == SLUICE_DAMAGE_REFUSE
                                  ? SL_DAMAGE_REFUSE
                                  : SL_DAMAGE_SET_ASIDE,
                              &why);
    if (err == SLUICE_EDAMAGE)
        return REFUSE(err, "cannot use %s: %s", o->path, why.sentence);
    if (err)
        *diag = why;
    else if (ret->set_aside[0])
        snprintf(gate->notice, sizeof(gate->notice),
                 "cannot use %s: %s; it was moved to %s, and an empty state "
                 "file was created",
                 o->path, why.sentence, ret->set_aside);
    return err;
}

static int add_limits(struct sluice *gate)
{
    for (size_t i = 0; i < gate->limit_count; i++) {
        struct sl_limit_binding *binding = &gate->limits[i].binding;

        if (!binding->share)
            binding->equal_parts = (uint32_t)gate->limit_count;
        if (sl_table_add_limit(&gate->table, binding))
            return REFUSE(SLUICE_EFULL,
                          "the state file already has %d limits, from this "
                          "and earlier policies; start a new one",
                          SL_LIMITS);
    }
    return 0;
}

/* Free a gate, which may be incomplete. */
static void free_gate(struct sluice *gate)
{
    struct sl_alloc alloc = gate->alloc;

    for (size_t i = 0; i < gate->limit_count; i++) {
        struct gate_limit *gl = &gate->limits[i];

        sl_alloc_free(&alloc, gl->plans, gl->plan_count * sizeof(*gl->plans));
        sl_zone_done(&gl->zone, &alloc);
        sl_alloc_free(&alloc, gl->name, gl->name_size);
    }
    sl_alloc_free(&alloc, gate->limits,
                  gate->limit_count * sizeof(*gate->limits));
    sl_alloc_free(&alloc, gate->piece, GATE_PIECE);
}

static struct sluice *new_gate(const struct sl_alloc *alloc)
{
    char *piece = sl_alloc_new(alloc, GATE_PIECE);
    struct sluice *gate;

    if (!piece)
        return NULL;
    gate = (struct sluice *)(void *)(piece + (GATE_ALIGN - 1) -
                                     ((uintptr_t)piece + GATE_ALIGN - 1) %
                                         GATE_ALIGN);
    memset(gate, 0, sizeof(*gate));
    gate->alloc = *alloc;
    gate->piece = piece;
    return gate;
}

int sluice_open(const struct sluice_options *options, struct sluice **ret)
{
    struct sl_alloc alloc = sl_alloc_libc;
    struct sl_region region;
    struct sluice *gate;
    int err;

    if (!options || !ret)
        return REFUSE(SLUICE_EINVAL, "sluice_open needs options and a result");
    if (options->resize)
        alloc = (struct sl_alloc){options->resize, options->resize_ctx};
    gate = new_gate(&alloc);
    if (!gate)
        return REFUSE(SLUICE_ENOMEM, "out of memory");
    gate->now = options->now;
    gate->now_ctx = options->now_ctx;
    err = read_limits(gate, options);
    if (!err && sl_hash_key_make(&gate->ids))
        err = REFUSE(SLUICE_ESYS, "the kernel did not provide random numbers");
    if (!err)
        err = open_region(gate, options, &region);
    if (err) {
        free_gate(gate);
        return err;
    }
    sl_table_init(&gate->table, &region,
                  options->on_full == SLUICE_FULL_DENY ? SL_FULL_DENY
                                                       : SL_FULL_ALLOW);
    err = add_limits(gate);
    if (err) {
        (void)sluice_close(gate);
        return err;
    }
    /* Reads how the kernel keeps time: a decision makes no system call. */
    (void)sl_clock_wall_near();
    *ret = gate;
    return 0;
}

struct sluice *sluice_close(struct sluice *gate)
{
    if (gate) {
        sl_table_done(&gate->table);
        free_gate(gate);
    }
    return NULL;
}

const char *sluice_notice(const struct sluice *gate)
{
    return gate && gate->notice[0] ? gate->notice : NULL;
}
