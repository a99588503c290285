/* names.c -- what keys are called in a store that is shared.
 *
 * A name is made of the limit's template (policy/key.h), and only where the
 * store wants one. The candidate's is the same with a mark behind it, which is
 * there already: its name is a longer piece of the same text.
 */
#include <string.h>

#include "engine/engine_int.h"

#define NAME_MOST ((size_t)16 << 10)

/* A limit of one endpoint has its keys there, also for whoever names the limit
 * instead of a request. */
static struct sl_key_context context_of(const struct sl_decision *d,
                                        const struct sl_limit_view *shown)
{
    struct sl_key_context context = {
        .env = d->policy->env,
        .endpoint = shown->rule->endpoint.len > 0 ? shown->rule->endpoint
                                                  : d->route->endpoint,
        .name = shown->rule->name,
        .tag = d->tagged ? shown->rule->tag : 0,
    };
    sl_ns period = shown->numbers ? shown->numbers->period : 0;

    if (period > 0)
        context.window_start_ms =
            (uint64_t)((d->now - d->now % period) / SL_MS);
    return context;
}

int sl_decision_key(const struct sl_decision *d,
                    const struct sl_limit_view *shown, struct sl_buf *out)
{
    struct sl_key_context context = context_of(d, shown);

    return sl_key_name(&shown->rule->key, &context, shown->values,
                       shown->value_count, out);
}

int sl_name_make(struct sl_decision *d, const struct sl_limit_view *shown,
                 const struct sl_key_value *values, unsigned count,
                 struct sl_str *ret)
{
    struct sl_key_context context = context_of(d, shown);
    struct sl_buf name;
    char *copy = NULL;
    size_t len;
    int err;

    sl_buf_init(&name, NAME_MOST, d->arena.alloc);
    err = sl_key_name(&shown->rule->key, &context, values, count, &name);
    len = name.len;
    if (!err)
        err = sl_buf_add(&name, SL_STR(SL_KEY_CANDIDATE));
    if (!err)
        copy = sl_arena_copy(&d->arena, sl_buf_str(&name));
    sl_buf_done(&name);
    if (!copy)
        return SLUICE_ENOMEM;
    *ret = (struct sl_str){copy, len};
    return 0;
}

struct sl_str sl_name_of(struct sl_str name, bool candidate)
{
    if (name.len > 0 && candidate)
        name.len += strlen(SL_KEY_CANDIDATE);
    return name;
}
