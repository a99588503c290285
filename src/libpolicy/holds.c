/* holds.c -- settle, release and extend holds. */
#include "engine/hold_op.h"
#include "libpolicy/libpolicy.h"

#define JSON_MAX   ((size_t)64 * 1024)
#define COSTS_MOST 256

struct sluice_ended {
    struct sl_hold_op op;
    bool begun; /* `op` has an engine */
    bool usable;
    struct sl_buf json;
};

struct sluice_ended *sluice_ended_new(void)
{
    struct sluice_ended *e = sl_libpolicy_new(sizeof(*e));

    if (e)
        sl_buf_init(&e->json, JSON_MAX, &sl_alloc_libc);
    return e;
}

void sluice_ended_free(struct sluice_ended *e)
{
    if (!e)
        return;
    if (e->begun)
        sl_hold_op_done(&e->op);
    sl_buf_done(&e->json);
    sl_libpolicy_free(e, sizeof(*e));
}

/* ---- ending ---- */

static void on_done(struct sl_hold_op *op)
{
    (void)op; /* the store answered before it returned */
}

/* An answer may be reused with another engine. */
static void prepare(struct sluice_ended *e, struct sl_engine *engine)
{
    e->usable = false;
    sl_buf_clear(&e->json);
    if (e->begun && e->op.engine == engine)
        return;
    if (e->begun)
        sl_hold_op_done(&e->op);
    sl_hold_op_init(&e->op, engine, NULL, &sl_alloc_libc);
    e->op.done = on_done;
    e->begun = true;
}

static int end(struct sluice_engine *engine, struct sl_hold_op_input *q,
               struct sluice_ended *ret)
{
    struct sluice_ended *e = ret ? ret : sluice_ended_new();
    int err;

    if (!e)
        return sl_libpolicy_no_memory();
    prepare(e, engine->engine);
    q->now = sl_libpolicy_now(engine);
    sl_hold_op_begin(&e->op, q);
    err = e->op.err;
    if (err)
        sl_diag_error(sluice_private_diag(), err, "%s", e->op.diag.sentence);
    e->usable = !err;
    if (!ret)
        sluice_ended_free(e);
    return err;
}

int sluice_engine_settle(struct sluice_engine *engine, const char *hold,
                         const struct sluice_actual *actual,
                         struct sluice_ended *ret)
{
    struct sl_cost costs[COSTS_MOST];
    struct sl_hold_op_input q = {
        .verb = SL_VERB_SETTLE, .name = sl_str_c(hold), .costs = costs};

    if (!engine || !hold)
        return sl_libpolicy_invalid(
            "sluice_engine_settle needs an engine and the name of a hold");
    if (actual && (actual->cost_count > COSTS_MOST ||
                   (actual->cost_count > 0 && !actual->costs)))
        return sl_diag_error(
            sluice_private_diag(), SLUICE_EINVAL,
            "a hold is settled with at most %d costs, and those "
            "that it counts",
            COSTS_MOST);
    for (size_t i = 0; actual && i < actual->cost_count; i++)
        costs[q.cost_count++] = (struct sl_cost){
            sl_str_c(actual->costs[i].limit), actual->costs[i].cost};
    q.has_cost = actual && actual->has_cost;
    q.cost = q.has_cost ? actual->cost : 0;
    return end(engine, &q, ret);
}

int sluice_engine_release(struct sluice_engine *engine, const char *hold,
                          struct sluice_ended *ret)
{
    struct sl_hold_op_input q = {.verb = SL_VERB_RELEASE,
                                 .name = sl_str_c(hold)};

    if (!engine || !hold)
        return sl_libpolicy_invalid(
            "sluice_engine_release needs an engine and the name of a hold");
    return end(engine, &q, ret);
}

int sluice_engine_extend(struct sluice_engine *engine, const char *hold,
                         int64_t hold_ns, struct sluice_ended *ret)
{
    struct sl_hold_op_input q = {
        .verb = SL_VERB_EXTEND, .name = sl_str_c(hold), .hold = hold_ns};

    if (!engine || !hold)
        return sl_libpolicy_invalid(
            "sluice_engine_extend needs an engine and the name of a hold");
    if (hold_ns <= 0)
        return sl_libpolicy_invalid("nothing is held for no time");
    return end(engine, &q, ret);
}

/* ---- answers ---- */

const char *sluice_ended_state(const struct sluice_ended *e)
{
    return e && e->usable ? sl_hold_state_word(&e->op) : "";
}

int sluice_ended_again(const struct sluice_ended *e)
{
    return e && e->usable && sl_hold_is_again(&e->op);
}

size_t sluice_ended_limits(const struct sluice_ended *e)
{
    return e && e->usable ? e->op.call.count : 0;
}

struct sluice_held sluice_ended_limit(const struct sluice_ended *e, size_t i)
{
    struct sluice_held ret = {.name = ""};
    const struct sl_held_part *part;
    const struct sl_rule *rule;

    if (i >= sluice_ended_limits(e))
        return ret;
    part = &e->op.call.parts[i];
    rule = sl_hold_rule(&e->op, (unsigned)i);
    if (rule)
        ret.name = rule->name.at;
    ret.held = part->held;
    ret.cost = part->cost;
    ret.remaining = rule ? sl_rule_down(rule, part->answer.remaining)
                         : part->answer.remaining;
    ret.over = part->over;
    return ret;
}

const char *sluice_ended_json(struct sluice_ended *e)
{
    if (!e || !e->usable)
        return NULL;
    return e->json.len > 0
               ? e->json.bytes
               : sl_libpolicy_text(&e->json, sl_hold_render(&e->op, &e->json));
}
