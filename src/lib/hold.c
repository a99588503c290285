/* hold.c -- holds of the public interface; see include/sluice.h. */
#include "table/hold.h"
#include "lib/gate.h"

/* Ten years, as for periods. */
#define LIFE_MAX SL_PERIOD_MAX

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
    if (life <= 0 || life > LIFE_MAX)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "a hold lasts between 1 ns and 10 years");
    return 0;
}

int sluice_hold(struct sluice *gate, struct sluice_part *parts, size_t count,
                int64_t for_ns, struct sluice_hold_id *id,
                struct sluice_verdict *ret)
{
    struct sl_part set[SLUICE_PARTS_MAX];
    struct sl_gate_reading r = {0, false, 0};
    enum sl_set_result verdict;
    struct sl_hold_id new;
    int err = sl_gate_check(gate, parts, count);

    if (!err && !id)
        err = sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                            "sluice_hold needs a result for the id");
    if (!err)
        err = check_life(for_ns);
    if (err)
        return err;
    SL_HOLDS(id);
    for (size_t i = 0; i < count; i++)
        set[i] = sl_gate_part(gate, &parts[i], SL_TAKE_OP_TAKE);
    new = new_id(gate);
    r.now = sl_gate_clock(gate);
    while ((verdict = sl_table_hold(&gate->table, set, (unsigned)count, new,
                                    for_ns, r.now, r.fresh)) == SL_SET_STALE)
        sl_gate_read_again(gate, &r);
    if (verdict == SL_SET_NO_HOLD_ROOM)
        return sl_diag_error(sl_gate_diag(), SLUICE_EFULL,
                             "there is no room for another hold; increase the "
                             "memory, or let holds end sooner");
    for (size_t i = 0; i < count; i++)
        sl_gate_answer(&set[i].answer, set[i].untracked, &parts[i].answer);
    *id = (struct sluice_hold_id){
        {0, 0}
    };
    if (verdict == SL_SET_ALLOW)
        *id = (struct sluice_hold_id){
            {new.w[0], new.w[1]}
        };
    if (ret)
        *ret = sl_gate_verdict(parts, count);
    return 0;
}

/* ---- ending ---- */

struct bill {
    const struct sluice *gate;
    struct sluice_settlement *costs;
    size_t count;
};

static struct sluice_settlement *cost_of(const struct bill *bill, uint32_t id)
{
    for (size_t i = 0; i < bill->count; i++)
        if (bill->gate->limits[bill->costs[i].limit].of.id == id)
            return &bill->costs[i];
    return NULL;
}

static const struct sl_limit *limit_of(const struct sluice *gate, uint32_t id)
{
    for (size_t i = 0; i < gate->limit_count; i++)
        if (gate->limits[i].of.id == id)
            return &gate->limits[i].plans[0];
    return NULL;
}

/* Limits that are not named are settled with what was held, but permits are
 * always returned. */
static const struct sl_limit *numbers(void *ctx, uint32_t id, uint64_t held,
                                      uint64_t *cost)
{
    const struct bill *bill = ctx;
    const struct sluice_settlement *actual = cost_of(bill, id);
    const struct sl_limit *limit = limit_of(bill->gate, id);

    if (actual)
        *cost = actual->cost;
    else
        *cost = limit && limit->kind == SL_PERMITS ? 0 : held;
    return limit;
}

static int end(struct sluice *gate, struct sl_hold_result *deed,
               enum sluice_hold_state *ret)
{
    struct sl_gate_reading r = {sl_gate_clock(gate), false, 0};

    while (sl_table_end(&gate->table, deed, r.now, r.fresh) == SL_SET_STALE)
        sl_gate_read_again(gate, &r);
    if (ret)
        *ret = (enum sluice_hold_state)deed->state;
    return 0;
}

static int check_costs(const struct sluice *gate,
                       const struct sluice_settlement *costs, size_t count)
{
    if (count > 0 && !costs)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                             "costs are missing");
    for (size_t i = 0; i < count; i++) {
        if (costs[i].limit >= gate->limit_count)
            return sl_diag_error(sl_gate_diag(), SLUICE_ENOENT,
                                 "unknown limit number %u; the gate has %zu",
                                 costs[i].limit, gate->limit_count);
        if (costs[i].cost > SL_HOLD_COST_MAX)
            return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                                 "a cost of more than 2^49 cannot be settled");
        for (size_t j = 0; j < i; j++)
            if (costs[j].limit == costs[i].limit)
                return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL,
                                     "limit \"%s\" is given twice",
                                     gate->limits[costs[i].limit].of.name);
    }
    return 0;
}

static int check_gate(const struct sluice *gate)
{
    if (!gate)
        return sl_diag_error(sl_gate_diag(), SLUICE_EINVAL, "gate is NULL");
    return 0;
}

static struct sl_hold_result
deed_of(enum sl_hold_action op, struct sluice_hold_id id, struct bill *bill)
{
    return (struct sl_hold_result){
        .op = op,
        .id = {{id.w[0], id.w[1]}},
        .numbers = numbers,
        .ctx = bill,
    };
}

int sluice_settle(struct sluice *gate, struct sluice_hold_id id,
                  struct sluice_settlement *costs, size_t count,
                  enum sluice_hold_state *ret)
{
    struct bill bill = {gate, costs, count};
    struct sl_hold_result deed = deed_of(SL_HOLD_SETTLE, id, &bill);
    int err = check_gate(gate);

    if (!err)
        err = check_costs(gate, costs, count);
    if (!err)
        err = end(gate, &deed, ret);
    for (unsigned i = 0; !err && i < deed.count; i++) {
        struct sluice_settlement *cost = cost_of(&bill, deed.parts[i].limit_id);

        if (!cost)
            continue;
        cost->over = deed.parts[i].over;
        sl_gate_answer(&deed.parts[i].answer, false, &cost->answer);
    }
    return err;
}

int sluice_release(struct sluice *gate, struct sluice_hold_id id,
                   enum sluice_hold_state *ret)
{
    struct bill bill = {gate, NULL, 0};
    struct sl_hold_result deed = deed_of(SL_HOLD_SETTLE, id, &bill);
    int err = check_gate(gate);

    deed.release = true;
    return err ? err : end(gate, &deed, ret);
}

int sluice_extend(struct sluice *gate, struct sluice_hold_id id, int64_t for_ns,
                  enum sluice_hold_state *ret)
{
    struct bill bill = {gate, NULL, 0};
    struct sl_hold_result deed = deed_of(SL_HOLD_EXTEND, id, &bill);
    int err = check_gate(gate);

    if (!err)
        err = check_life(for_ns);
    deed.life = for_ns;
    return err ? err : end(gate, &deed, ret);
}
