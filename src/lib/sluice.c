/* sluice.c -- the calls of the public interface, on top of the table. The
 * manual is include/sluice.h. */
#include "lib/gate.h"

#include "base/arith.h"
#include "base/clock.h"
#include "table/hold/hold.h"

/* Parts that are decided together in a batch. */
#define BATCH 64

static _Thread_local struct sl_diag last_refusal;

struct sl_diag *sl_gate_diag(void)
{
    return &last_refusal;
}

/* For the sister library alone, so that its failures are told here too. */
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

/* The wall clock itself, without an anchor: threads that anchored at different
 * times would disagree after a step of it. What others have decided at keeps
 * small steps and late readings harmless; see "Time" in table.h. */
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
        return sl_refuse(sl_gate_diag(), SLUICE_ENOENT,
                         "unknown limit number %u; the gate has %zu", p->limit,
                         gate->limit_count);
    if (p->plan >= gate->limits[p->limit].plan_count)
        return sl_refuse(sl_gate_diag(), SLUICE_ENOENT,
                         "limit \"%s\" has no plan number %u",
                         gate->limits[p->limit].of.name, p->plan);
    if (!p->key && p->key_len > 0)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL, "the key is NULL");
    return 0;
}

int sl_gate_check(const struct sluice *gate, const struct sluice_part *parts,
                  size_t count)
{
    if (!gate || !parts)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL, "%s is NULL",
                         gate ? "parts" : "gate");
    if (count == 0 || count > SLUICE_PARTS_MAX)
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
                         "a set needs between 1 and %d parts, not %zu",
                         SLUICE_PARTS_MAX, count);
    for (size_t i = 0; i < count; i++) {
        int err = check_part(gate, &parts[i]);

        if (err)
            return err;
    }
    return 0;
}

/* ---- between the two shapes ---- */

struct sl_part sl_gate_part(const struct sluice *gate,
                            const struct sluice_part *p, enum sl_act act)
{
    const struct sl_gate_limit *gl = &gate->limits[p->limit];

    return (struct sl_part){
        .of = &gl->of,
        .limit = &gl->plans[p->plan],
        .key = {p->key, p->key_len},
        .act = act,
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

/* `by` is the first part that refuses; any NEVER makes the set NEVER, and the
 * longest retry is that of the set. */
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
           SL_VERDICT_STALE)
        sl_gate_read_again(gate, &r);
}

static int decide_all(struct sluice *gate, struct sluice_part *parts,
                      size_t count, enum sl_act act, struct sluice_verdict *ret)
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
    return decide_all(gate, parts, count, SL_ACT_TAKE, ret);
}

int sluice_look(struct sluice *gate, struct sluice_part *parts, size_t count,
                struct sluice_verdict *ret)
{
    return decide_all(gate, parts, count, SL_ACT_LOOK, ret);
}

/* Some parts of a batch; those that met a step of the clock, or think so, are
 * decided again with a fresh reading. */
static void batch_some(struct sluice *gate, struct sluice_part *parts,
                       unsigned count, sl_ns now)
{
    struct sl_part some[BATCH];
    enum sl_verdict verdicts[BATCH];

    for (unsigned i = 0; i < count; i++)
        some[i] = sl_gate_part(gate, &parts[i], SL_ACT_TAKE);
    sl_table_batch(&gate->table, some, verdicts, count, now, false);
    for (unsigned i = 0; i < count; i++) {
        if (verdicts[i] == SL_VERDICT_STALE)
            decide(gate, &some[i], 1, sl_gate_clock(gate));
        sl_gate_answer(&some[i].answer, some[i].untracked, &parts[i].answer);
    }
}

int sluice_take_batch(struct sluice *gate, struct sluice_part *parts,
                      size_t count)
{
    sl_ns now;

    if (!gate || (!parts && count > 0))
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
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
                      size_t count, int sign)
{
    struct sl_part set[SLUICE_PARTS_MAX];
    int err = sl_gate_check(gate, parts, count);
    sl_ns now;

    for (size_t i = 0; !err && i < count; i++)
        if (parts[i].cost > SL_AMOUNT_MAX / SLUICE_PARTS_MAX)
            err = sl_refuse(
                sl_gate_diag(), SLUICE_EINVAL,
                "a cost of more than 2^49 cannot be refunded or charged");
    if (err)
        return err;
    now = sl_gate_clock(gate);
    for (size_t i = 0; i < count; i++) {
        set[i] = sl_gate_part(gate, &parts[i], SL_ACT_ADJUST);
        set[i].delta = sign * (int64_t)parts[i].cost;
        set[i].when = parts[i].taken_at_ns > 0 ? parts[i].taken_at_ns : now;
        if (set[i].when > now)
            set[i].when = now;
    }
    decide(gate, set, (unsigned)count, now);
    for (size_t i = 0; i < count; i++)
        sl_gate_answer(&set[i].answer, set[i].untracked, &parts[i].answer);
    return 0;
}

int sluice_give_back(struct sluice *gate, struct sluice_part *parts,
                     size_t count)
{
    return adjust_all(gate, parts, count, -1);
}

int sluice_charge(struct sluice *gate, struct sluice_part *parts, size_t count)
{
    return adjust_all(gate, parts, count, 1);
}

int sluice_reset(struct sluice *gate, unsigned limit, const void *key,
                 size_t key_len)
{
    struct sluice_part part = {.limit = limit, .key = key, .key_len = key_len};

    return decide_all(gate, &part, 1, SL_ACT_RESET, NULL);
}

/* ---- seeing ---- */

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
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
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
        return sl_refuse(sl_gate_diag(), SLUICE_EINVAL,
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
