/* holds.c -- the holds of a flow: settled, released, extended, and what is
 * expected of that.
 *
 * `ok` is that it happened now. Otherwise the word is how the hold stands:
 * settled, released, expired, held; or unknown.
 */
#include "cli/flow/holds.h"

#include <stdio.h>
#include <string.h>

#include "cli/flow/compare.h"

static struct sl_flow_hold *find(const struct sl_flow_holds *holds,
                                 const char *name)
{
    struct sl_flow_hold *hold = holds->list;

    while (hold && strcmp(hold->name, name) != 0)
        hold = hold->next;
    return hold;
}

const struct sl_flow_hold *sl_flow_holds_find(const struct sl_flow_holds *holds,
                                              const char *name)
{
    return find(holds, name);
}

int sl_flow_holds_set(struct sl_flow_holds *holds, const char *name,
                      const char *own, const char *remote)
{
    struct sl_flow_hold *hold = find(holds, name);

    if (!hold) {
        hold = sl_arena_take(holds->arena, sizeof(*hold));
        if (!hold)
            return SLUICE_ENOMEM;
        *hold = (struct sl_flow_hold){.name = name, .next = holds->list};
        holds->list = hold;
    }
    hold->own = sl_arena_copy(holds->arena, sl_str_c(own));
    hold->remote =
        remote ? sl_arena_copy(holds->arena, sl_str_c(remote)) : NULL;
    return hold->own && (hold->remote || !remote) ? 0 : SLUICE_ENOMEM;
}

int sl_flow_holds_end(struct sluice_engine *engine,
                      const struct sl_flow_hold *hold,
                      const struct sl_flow_act *act, struct sluice_ended *ended,
                      bool *ret_known)
{
    const struct sl_inputs *in = act->in;
    struct sluice_actual actual = {
        .has_cost = in->has_cost,
        .cost = in->cost,
        .costs = in->costs,
        .cost_count = in->cost_count,
    };
    int err;

    if (act->kind == SL_FLOW_ACT_SETTLE)
        err = sluice_engine_settle(engine, hold->own, &actual, ended);
    else if (act->kind == SL_FLOW_ACT_RELEASE)
        err = sluice_engine_release(engine, hold->own, ended);
    else
        err = sluice_engine_extend(engine, hold->own, in->hold, ended);
    *ret_known = err != SLUICE_ENOENT;
    return err == SLUICE_ENOENT ? 0 : err;
}

/* ---- expectations ---- */

/* Is one field as expected? *ret_got is what it is; NULL without memory. */
static bool is_right(const struct sl_expect *e, struct sluice_ended *ended,
                     bool known, struct sl_arena *arena, const char **ret_got)
{
    const char *state = known ? sluice_ended_state(ended) : "unknown";
    bool done = known && !sluice_ended_again(ended);
    const char *json;
    int err = 0;

    if (e->field == SL_FIELD_OUTCOME) {
        *ret_got = done ? "ok" : state;
        return strcmp(e->want, *ret_got) == 0;
    }
    if (e->field == SL_FIELD_STATUS) {
        *ret_got = known ? "200" : "404";
        return e->number == (known ? 200u : 404u);
    }
    json = known ? sluice_ended_json(ended) : "{}";
    *ret_got = json ? sl_flow_body_field(json, e->name, arena, &err) : NULL;
    if (!json || err)
        return false;
    if (!*ret_got)
        *ret_got = "none";
    return strcmp(e->want, *ret_got) == 0;
}

int sl_flow_holds_compare(const struct sl_flow_act *act,
                          struct sluice_ended *ended, bool known,
                          struct sl_arena *arena, struct sl_flow_mismatch **ret)
{
    for (size_t i = 0; i < act->expect_count; i++) {
        const struct sl_expect *e = &act->expects[i];
        struct sl_flow_mismatch *miss;
        const char *got = NULL;

        if (is_right(e, ended, known, arena, &got))
            continue;
        miss = sl_arena_take(arena, sizeof(*miss));
        if (!miss || !got)
            return SLUICE_ENOMEM;
        *miss = (struct sl_flow_mismatch){
            .label = e->label, .want = e->want, .got = got};
        *ret = miss;
        ret = &miss->next;
    }
    return 0;
}
