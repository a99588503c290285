/* conditions.c -- do the conditions of a route or a limit hold? */
#include "engine/engine_int.h"

static bool matches(const struct sl_condition *condition, struct sl_str value)
{
    for (unsigned i = 0; i < condition->value_count; i++)
        if (value.len > 0 && sl_value_is_like(condition->values[i], value))
            return true;
    return false;
}

static bool matches_method(const struct sl_condition *condition,
                           struct sl_str method)
{
    for (unsigned i = 0; i < condition->value_count; i++)
        if (sl_str_eq_nocase(condition->values[i], method))
            return true;
    return false;
}

static bool matches_ip(const struct sl_condition *condition, struct sl_str text)
{
    struct sl_ip ip;

    if (!sl_ip_parse(text, &ip))
        return false;
    for (unsigned i = 0; i < condition->net_count; i++)
        if (sl_net_has(&condition->nets[i], &ip))
            return true;
    return false;
}

static bool matches_role(const struct sl_condition *condition,
                         const struct sl_caller *caller)
{
    for (unsigned i = 0; i < caller->role_count; i++)
        if (matches(condition, caller->roles[i]))
            return true;
    return caller->role_count == 0 && matches(condition, caller->role);
}

/* `trusted`: a header counts only if the sender may speak for the caller. */
static bool holds(const struct sl_check *c,
                  const struct sl_condition *condition, bool trusted)
{
    const struct sl_request *request = c->request;
    const struct sl_caller *caller = &c->caller;
    unsigned plan = c->decision.plan;

    switch (condition->of) {
    case SL_CONDITION_HEADER:
        return (request->trusted || !trusted) &&
               matches(condition, sl_str_trim(sl_request_single(
                                      request, condition->name)));
    case SL_CONDITION_CLAIM:
        return c->known->token &&
               matches(condition,
                       sl_token_claim(c->known->token, condition->name));
    case SL_CONDITION_IP:
        return matches_ip(condition, request->ip);
    case SL_CONDITION_METHOD:
        return matches_method(condition, request->method);
    case SL_CONDITION_PLAN:
        return condition->plans[plan / 64] >> plan % 64 & 1;
    case SL_CONDITION_ROLE:
        return matches_role(condition, caller);
    case SL_CONDITION_USER:
        return matches(condition, caller->values[SL_SCOPE_USER]);
    case SL_CONDITION_ORG:
        return matches(condition, caller->values[SL_SCOPE_ORG]);
    }
    return false;
}

const struct sl_condition *sl_conditions_unmet(const struct sl_check *c,
                                               const struct sl_conditions *when)
{
    for (unsigned i = 0; i < when->count; i++)
        if (!holds(c, &when->list[i], false))
            return &when->list[i];
    return NULL;
}

const struct sl_condition *sl_conditions_met(const struct sl_check *c,
                                             const struct sl_conditions *exempt)
{
    unsigned i = 0;

    while (i < exempt->count) {
        unsigned first = i, item = exempt->list[i].item;
        bool all = true;

        for (; i < exempt->count && exempt->list[i].item == item; i++)
            all = all && holds(c, &exempt->list[i], true);
        if (all)
            return &exempt->list[first];
    }
    return NULL;
}
