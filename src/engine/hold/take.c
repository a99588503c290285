/* take.c -- which parts of a take are held, for how long, and by which name.
 */
#include "base/hash.h"
#include "engine/engine_int.h"
#include "engine/hold_op.h"
#include "engine/inside.h"

/* When to come back if there is no room: nobody knows who ends his hold. */
#define ROOM_RETRY SL_S

void sl_hold_refuse(struct sl_decision *d)
{
    sl_decision_refuse(d, SL_REASON_HOLDS);
    if (d->reason == SL_REASON_HOLDS)
        d->retry_in = ROOM_RETRY;
}

static const struct sl_rule *rule_of(const struct sl_decision *d, unsigned i)
{
    return d->shown[d->part_shown[i]].rule;
}

/* Guards have their own; see conflict.h. */
static sl_ns hold_of(const struct sl_decision *d, unsigned i)
{
    unsigned shown = d->part_shown[i];

    return shown < d->shown_count ? rule_of(d, i)->hold
                                  : d->running[shown - d->shown_count].hold;
}

/* How long permits are held if nobody says so: as long as the one of them that
 * takes longest. 0 if there are none. */
static sl_ns span_of_permits(const struct sl_decision *d)
{
    sl_ns longest = 0;

    for (unsigned i = 0; i < d->take.count; i++)
        if (rule_of(d, i)->kind == SL_PERMITS && d->parts[i].cost > 0 &&
            hold_of(d, i) > longest)
            longest = hold_of(d, i);
    return longest;
}

/* The parts that are not held, as bits. */
static uint32_t find_firm(const struct sl_decision *d)
{
    uint32_t firm = 0;

    for (unsigned i = 0; i < d->take.count; i++)
        if (d->parts[i].cost == 0 || d->parts[i].carried ||
            (d->hold_asked == 0 && rule_of(d, i)->kind != SL_PERMITS))
            firm |= UINT32_C(1) << i;
    return firm;
}

static bool make_id(struct sl_hold_id *ret)
{
    struct sl_hash_key random;

    do {
        if (sl_hash_key_make(&random))
            return false;
        *ret = (struct sl_hold_id){
            {random.k0, random.k1}
        };
    } while (sl_hold_id_is_none(*ret));
    return true;
}

static bool has_holds(const struct sl_decision *d,
                      const struct sl_active_policy *live)
{
    const struct sl_engine *engine = live->engine;
    const struct sl_store *store;

    if (!engine)
        return false;
    store = d->on_local ? engine->local : engine->store;
    return store->calls->hold != NULL;
}

void sl_hold_prepare(struct sl_decision *d, const struct sl_active_policy *live)
{
    struct sl_take *take = &d->take;
    sl_ns span = d->hold_asked ? d->hold_asked : span_of_permits(d);
    uint32_t all = (uint32_t)((UINT64_C(1) << take->count) - 1);

    if (take->errand != SL_TAKE_OP_TAKE || span == 0)
        return;
    take->firm = find_firm(d);
    if (take->firm == all)
        return; /* there is nothing to hold */
    if (!has_holds(d, live)) {
        /* Permits of a store that has no holds stay taken, as a level is; but
         * nobody would ever end a guard. */
        if (d->hold_asked || d->running_count > 0)
            sl_hold_refuse(d);
        return;
    }
    if (!make_id(&take->hold)) {
        sl_hold_refuse(d);
        return;
    }
    take->place = 0;
    take->hold_for = span < d->policy->hold_max ? span : d->policy->hold_max;
}

void sl_hold_taken(struct sl_decision *d)
{
    struct sl_hold_name name;

    if (sl_hold_id_is_none(d->take.hold) || !d->take.allowed)
        return;
    name = (struct sl_hold_name){
        .id = d->take.hold,
        .endpoint = sl_hold_endpoint(d->route->endpoint),
        .place = d->take.place,
        .local = d->on_local,
    };
    sl_hold_name_write(&name, d->hold);
    d->hold_for = d->take.hold_for;
}
