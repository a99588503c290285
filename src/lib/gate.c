/* gate.c -- the public interface on top of the table; see include/sluice.h. */
#include "lib/gate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/zone.h"
#include "table/hold.h"

/* Parts that are decided together in a batch. */
#define BATCH 64

static _Thread_local struct sl_diag last_refusal;

struct sl_diag *sl_gate_diag(void)
{
    return &last_refusal;
}

/* For libsluice-policy only, so that its errors use the same message. */
struct sl_diag *sluice_private_diag(void)
{
    return &last_refusal;
}

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
sl_ns sl_gate_clock(const struct sluice *gate)
{
    sl_ns now = gate->now ? gate->now(gate->now_ctx) : sl_clock_wall();

    if (now < 0)
        return 0;
    return now < SL_TIME_END ? now : SL_TIME_END - 1;
}

static int check_part(const struct sluice *gate, const struct sluice_part *p)
{
    if (p->limit >= gate->limit_count)
        return sl_diag_error(sl_gate_diag(), SLUICE_ENOENT,
                             "unknown limit number %u; the gate has %zu",
                             p->limit, gate->limit_count);
    if (p->plan >= gate->limits[p->limit].plan_count)
        return sl_diag_error(sl_gate_diag(), SLUICE_ENOENT,
                             "limit \"%s\" has no plan number %u",
                             gate->limits[p->limit].of.name, p->plan);
    if (!p->key && p->key_len > 0)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL, "the key is NULL");
    return 0;
}

int sl_gate_check(const struct sluice *gate, const struct sluice_part *parts,
                  size_t count)
{
    if (!gate || !parts)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL, "%s is NULL",
                             gate ? "parts" : "gate");
    if (count == 0 || count > SLUICE_PARTS_MAX)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
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

struct sl_part sl_gate_part(const struct sluice *gate,
                            const struct sluice_part *p, enum sl_take_op act)
{
    const struct sl_gate_limit *gl = &gate->limits[p->limit];

    return (struct sl_part){
        .binding = &gl->of,
        .limit = &gl->plans[p->plan],
        .key = {p->key, p->key_len},
        .op = act,
        .cost = p->cost,
    };
}

void sl_gate_answer(const struct sl_answer *a, bool untracked,
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
struct sluice_verdict sl_gate_verdict(const struct sluice_part *parts,
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

void sl_gate_read_again(const struct sluice *gate, struct sl_gate_reading *r)
{
    sl_ns seen = sl_table_latest(&gate->table);

    r->now = sl_gate_clock(gate);
    r->fresh = r->tries++ > 2 || seen - r->now >= SL_LAG;
}

static void decide(struct sluice *gate, struct sl_part *parts, unsigned count,
                   sl_ns now)
{
    struct sl_gate_reading r = {now, false, 0};

    while (sl_table_decide(&gate->table, parts, count, r.now, r.fresh) ==
           SL_SET_STALE)
        sl_gate_read_again(gate, &r);
}

static int decide_all(struct sluice *gate, struct sluice_part *parts,
                      size_t count, enum sl_take_op act,
                      struct sluice_verdict *ret)
{
    struct sl_part set[SLUICE_PARTS_MAX];
    int err = sl_gate_check(gate, parts, count);

    if (err)
        return err;
    for (size_t i = 0; i < count; i++)
        set[i] = sl_gate_part(gate, &parts[i], act);
    decide(gate, set, (unsigned)count, sl_gate_clock(gate));
    for (size_t i = 0; i < count; i++)
        sl_gate_answer(&set[i].answer, set[i].untracked, &parts[i].answer);
    if (ret)
        *ret = sl_gate_verdict(parts, count);
    return 0;
}

int sluice_take(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret)
{
    return decide_all(gate, parts, count, SL_TAKE_OP_TAKE, ret);
}

int sluice_look(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret)
{
    return decide_all(gate, parts, count, SL_TAKE_OP_PEEK, ret);
}

/* Decide some parts of a batch. Parts that see a clock step are decided again
 * with a new reading. */
static void batch_some(struct sluice *gate, struct sluice_part *parts,
                       unsigned count, sl_ns now)
{
    struct sl_part some[BATCH], *pointers[BATCH];
    enum sl_set_result verdicts[BATCH];

    for (unsigned i = 0; i < count; i++) {
        some[i] = sl_gate_part(gate, &parts[i], SL_TAKE_OP_TAKE);
        pointers[i] = &some[i];
    }
    sl_table_batch(&gate->table, pointers, verdicts, count, now, false);
    for (unsigned i = 0; i < count; i++) {
        if (verdicts[i] == SL_SET_STALE)
            decide(gate, &some[i], 1, sl_gate_clock(gate));
        sl_gate_answer(&some[i].answer, some[i].untracked, &parts[i].answer);
    }
}

int sluice_take_batch(struct sluice *gate, struct sluice_part *parts,
                      size_t count)
{
    sl_ns now;

    if (!gate || (!parts && count > 0))
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "a batch needs a gate and parts");
    for (size_t i = 0; i < count; i++) {
        int err = check_part(gate, &parts[i]);

        if (err)
            return err;
    }
    now = sl_gate_clock(gate);
    for (size_t i = 0; i < count; i += BATCH)
        batch_some(gate, parts + i,
                   (unsigned)(count - i < BATCH ? count - i : BATCH), now);
    return 0;
}

/* ---- correcting ---- */

static int adjust_all(struct sluice *gate, struct sluice_part *parts,
                      size_t count, enum sl_take_op op)
{
    struct sl_part set[SLUICE_PARTS_MAX];
    int err = sl_gate_check(gate, parts, count);
    sl_ns now;

    for (size_t i = 0; !err && i < count; i++)
        if (parts[i].cost > SL_AMOUNT_MAX / SLUICE_PARTS_MAX)
            err = sl_diag_error(
                sl_gate_diag(), SLUICE_EINVAL,
                "a cost of more than 2^49 cannot be refunded or charged");
    if (err)
        return err;
    now = sl_gate_clock(gate);
    for (size_t i = 0; i < count; i++) {
        set[i] = sl_gate_part(gate, &parts[i], op);
        set[i].taken_at = parts[i].taken_at_ns > 0 ? parts[i].taken_at_ns : now;
    }
    decide(gate, set, (unsigned)count, now);
    for (size_t i = 0; i < count; i++)
        sl_gate_answer(&set[i].answer, set[i].untracked, &parts[i].answer);
    return 0;
}

int sluice_give_back(struct sluice *gate, struct sluice_part *parts,
                     size_t count)
{
    return adjust_all(gate, parts, count, SL_TAKE_OP_REFUND);
}

int sluice_charge(struct sluice *gate, struct sluice_part *parts, size_t count)
{
    return adjust_all(gate, parts, count, SL_TAKE_OP_CHARGE);
}

int sluice_reset(struct sluice *gate, unsigned limit, const void *key,
                 size_t key_len)
{
    struct sluice_part part = {.limit = limit, .key = key, .key_len = key_len};

    return decide_all(gate, &part, 1, SL_TAKE_OP_RESET, NULL);
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
        const struct sl_gate_limit *gl = &v->gate->limits[i];
        struct sl_answer a;

        if (gl->of.id != id)
            continue;
        a = sl_take(&gl->plans[0], cell, 0, v->now).answer;
        sl_gate_answer(&a, false, &answer);
        v->result = v->each(v->ctx, (unsigned)i, fingerprint, &answer);
    }
    return v->result == 0;
}

int sluice_each(struct sluice *gate, sluice_each_f *each, void *ctx)
{
    struct visit v = {gate, each, ctx, 0, 0};

    if (!gate || !each)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "sluice_each needs a gate and a function");
    v.now = sl_gate_clock(gate);
    sl_table_visit(&gate->table, visit_one, &v);
    return v.result;
}

int sluice_stats(struct sluice *gate, struct sluice_stats *ret)
{
    struct sl_hold_stats holds;
    struct sl_table_stats s;

    if (!gate || !ret)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "sluice_stats needs a gate and a result");
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

    return sl_diag_error(sl_gate_diag(), err, "limit \"%s\": %s%s%s%s%s",
                         limit->name, quote ? quote : "", quote ? ": " : "",
                         why->sentence, why->hint[0] ? "; did you mean " : "",
                         why->hint);
}

static int read_plan(struct sl_gate_limit *gl, const struct sluice_limit *from,
                     const char *text, struct sl_limit *ret)
{
    struct sl_limit_options options = {.zone = from->zone ? &gl->zone : NULL,
                                       .anchor = from->anchor};
    struct sl_diag why = {0};
    struct sl_rate rate;
    int err;

    if (!text)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "limit \"%s\" has no rate", from->name);
    err = sl_parse_rate(sl_str_c(text), &rate, &why);
    if (!err)
        err = sl_limit_init(ret, kind_of(from), &rate, &options, &why);
    return err ? about(from, text, SLUICE_ECONF, &why) : 0;
}

/* The slowest rate and the smallest capacity of all plans. */
static struct sl_limit strictest(const struct sl_gate_limit *gl)
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

static int read_plans(struct sluice *gate, struct sl_gate_limit *gl,
                      const struct sluice_limit *from)
{
    unsigned count = 1;

    while (from->plans && from->plans[count - 1])
        count++;
    gl->plans = sl_alloc_new(&gate->alloc, count * sizeof(*gl->plans));
    if (!gl->plans)
        return sl_diag_error(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    gl->plan_count = count;
    for (unsigned i = 0; i < count; i++) {
        const char *text = i ? from->plans[i - 1] : from->rate;
        int err = read_plan(gl, from, text, &gl->plans[i]);

        if (err)
            return err;
        if (sl_limit_shape(&gl->plans[i]) != sl_limit_shape(&gl->plans[0]))
            return sl_diag_error(
                sl_gate_diag(), SLUICE_ECONF,
                "limit \"%s\": %s has another period than %s; all "
                "plans of a limit must have the same period",
                from->name, text, from->rate);
    }
    gl->of.strictest = strictest(gl);
    return 0;
}

static int read_limit(struct sluice *gate, struct sl_gate_limit *gl,
                      const struct sluice_limit *from)
{
    struct sl_diag why = {0};
    int err;

    if (!from->name || !*from->name)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "a limit needs a name");
    if ((unsigned)from->kind > SLUICE_LEVEL)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "limit \"%s\": %d is not a kind", from->name,
                             (int)from->kind);
    if (from->kind != SLUICE_QUOTA && (from->zone || from->anchor))
        return sl_diag_error(
            sl_gate_diag(), SLUICE_ECONF,
            "limit \"%s\": only a quota can have a time zone and an anchor",
            from->name);
    if (from->kind != SLUICE_TOKEN_BUCKET && from->interval)
        return sl_diag_error(
            sl_gate_diag(), SLUICE_ECONF,
            "limit \"%s\": only a token-bucket can refill by the interval",
            from->name);
    if (from->share > 1000)
        return sl_diag_error(
            sl_gate_diag(), SLUICE_EINVAL,
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
        return sl_diag_error(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    memcpy(gl->name, from->name, gl->name_size);
    gl->of.name = gl->name;
    gl->of.share = from->share;
    return read_plans(gate, gl, from);
}

static int read_limits(struct sluice *gate, const struct sluice_options *o)
{
    size_t size = o->limit_count * sizeof(*gate->limits);
    uint64_t shares = 0;

    if (!o->limits || o->limit_count == 0 || o->limit_count > SL_LIMITS)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "a gate needs between 1 and %d limits, not %zu",
                             SL_LIMITS, o->limit_count);
    gate->limits = sl_alloc_new(&gate->alloc, size);
    if (!gate->limits)
        return sl_diag_error(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    memset(gate->limits, 0, size);
    gate->limit_count = o->limit_count;
    for (size_t i = 0; i < o->limit_count; i++) {
        int err = read_limit(gate, &gate->limits[i], &o->limits[i]);

        if (err)
            return err;
        for (size_t j = 0; j < i; j++)
            if (strcmp(o->limits[i].name, o->limits[j].name) == 0)
                return sl_diag_error(sl_gate_diag(), SLUICE_ECONF,
                                     "two limits have the name \"%s\"",
                                     o->limits[i].name);
        shares += o->limits[i].share;
    }
    if (shares > 1000)
        return sl_diag_error(sl_gate_diag(), SLUICE_ECONF,
                             "the shares of all limits add up to %" PRIu64
                             ", more than 1000",
                             shares);
    return 0;
}

static int open_region(struct sluice *gate, const struct sluice_options *o,
                       struct sl_region *ret)
{
    uint64_t size = o->size ? o->size : DEFAULT_SIZE;
    struct sl_diag *diag = sl_gate_diag(), why;
    int err;

    if ((unsigned)o->on_full > SLUICE_FULL_DENY ||
        (unsigned)o->on_damage > SLUICE_DAMAGE_REFUSE)
        return sl_diag_error(
            diag, SLUICE_EINVAL,
            "%d is not a value of on_full, or %d is not a value of on_damage",
            (int)o->on_full, (int)o->on_damage);
    if (o->memory && !o->size)
        return sl_diag_error(diag, SLUICE_EINVAL, "memory needs a size");
    if (o->path && !*o->path)
        return sl_diag_error(diag, SLUICE_EINVAL, "the path is empty");
    if (o->path && o->memory)
        return sl_diag_error(diag, SLUICE_EINVAL,
                             "give either a path or memory, not both");
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
        return sl_diag_error(diag, err, "cannot use %s: %s", o->path,
                             why.sentence);
    if (err)
        *diag = why;
    else if (ret->set_aside[0])
        snprintf(gate->notice, sizeof(gate->notice),
                 "cannot use %s: %s; it was moved to %s, and an empty state "
                 "file was created",
                 o->path, why.sentence, ret->set_aside);
    return err;
}

/* Add the limits of the gate to its table. */
static int make_known(struct sluice *gate)
{
    for (size_t i = 0; i < gate->limit_count; i++) {
        struct sl_limit_binding *of = &gate->limits[i].of;

        if (!of->share)
            of->equal_parts = (uint32_t)gate->limit_count;
        if (sl_table_add_limit(&gate->table, of))
            return sl_diag_error(
                sl_gate_diag(), SLUICE_EFULL,
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
        struct sl_gate_limit *gl = &gate->limits[i];

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
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "sluice_open needs options and a result");
    if (options->resize)
        alloc = (struct sl_alloc){options->resize, options->resize_ctx};
    gate = new_gate(&alloc);
    if (!gate)
        return sl_diag_error(sl_gate_diag(), SLUICE_ENOMEM, "out of memory");
    gate->now = options->now;
    gate->now_ctx = options->now_ctx;
    err = read_limits(gate, options);
    if (!err && sl_hash_key_make(&gate->ids))
        err = sl_diag_error(sl_gate_diag(), SLUICE_ESYS,
                            "the kernel did not provide random numbers");
    if (!err)
        err = open_region(gate, options, &region);
    if (err) {
        free_gate(gate);
        return err;
    }
    sl_table_init(&gate->table, &region,
                  options->on_full == SLUICE_FULL_DENY ? SL_FULL_DENY
                                                       : SL_FULL_ALLOW);
    err = make_known(gate);
    if (err) {
        (void)sluice_close(gate);
        return err;
    }
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
