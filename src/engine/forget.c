/* forget.c -- what was taken from the limits of a decision, forgotten. */
#include "engine/forget.h"

#include "engine/parts.h"

static void add(const struct sl_decision *d, const struct sl_live *live,
                const struct sl_shown *shown, bool candidate,
                struct sl_take *take)
{
    if (take->count == SL_PARTS)
        return;
    take->parts[take->count++] = (struct sl_take_part){
        .of = &live->stored[2 * shown->rule->index + candidate],
        .limit = candidate ? shown->candidate : shown->numbers,
        .key = shown->key,
        .when = d->now,
    };
}

unsigned sl_forget_prepare(const struct sl_decision *decision,
                           const struct sl_live *live, struct sl_take *take,
                           struct sl_take_part *parts)
{
    const struct sl_shown *shown = decision->shown;

    *take = (struct sl_take){
        .errand = SL_ERRAND_RESET, .parts = parts, .now = decision->now};
    for (unsigned i = 0; i < decision->shown_count; i++)
        if (!shown[i].skipped && sl_rate_has_numbers(shown[i].form))
            add(decision, live, &shown[i], false, take);
    for (unsigned i = 0; i < decision->shown_count; i++)
        if (!shown[i].skipped && shown[i].has_candidate)
            add(decision, live, &shown[i], true, take);
    return take->count;
}

void sl_forget(struct sl_engine *engine, struct sl_take *take,
               struct sl_loop *loop)
{
    take->loop = loop;
    sl_store_take(sl_engine_store(engine), take);
}
