/* subjects.c -- what the registry says of a caller. */
#include "engine/subjects.h"

#include "base/arith.h"
#include "policy/policy.h"

static bool is_over(sl_ns end, sl_ns now)
{
    return end != SL_NS_NONE && now >= end;
}

static bool is_known(const struct sl_subject *subject)
{
    return subject && subject->known;
}

bool sl_auth_info_has_subject(const struct sl_auth_info *known)
{
    return is_known(known->user) || is_known(known->org);
}

struct sl_str sl_auth_info_plan(const struct sl_auth_info *known, sl_ns now,
                                bool *ret_ended)
{
    const struct sl_subject *both[] = {known->user, known->org};

    *ret_ended = false;
    for (unsigned i = 0; i < SL_LEN(both); i++) {
        if (!is_known(both[i]) || both[i]->plan.len == 0)
            continue;
        if (!is_over(both[i]->expires, now)) {
            *ret_ended = false;
            return both[i]->plan;
        }
        *ret_ended = true;
    }
    return (struct sl_str){NULL, 0};
}

const struct sl_str *sl_auth_info_roles(const struct sl_auth_info *known,
                                        unsigned *ret_count)
{
    const struct sl_subject *both[] = {known->user, known->org};

    for (unsigned i = 0; i < SL_LEN(both); i++)
        if (is_known(both[i]) && both[i]->role_count > 0) {
            *ret_count = both[i]->role_count;
            return both[i]->roles;
        }
    *ret_count = 0;
    return NULL;
}

static const struct sl_subject_override *
rate_of(const struct sl_subject *subject, struct sl_str limit, sl_ns now)
{
    for (unsigned i = 0; is_known(subject) && i < subject->rate_count; i++)
        if (sl_str_eq(subject->rates[i].limit, limit) &&
            !is_over(subject->rates[i].until, now))
            return &subject->rates[i];
    return NULL;
}

const struct sl_subject_override *
sl_auth_info_rate(const struct sl_auth_info *known, struct sl_str limit,
                  sl_ns now, const char **ret_of)
{
    const struct sl_subject_override *rate = rate_of(known->user, limit, now);

    *ret_of = "user";
    if (rate)
        return rate;
    *ret_of = "org";
    return rate_of(known->org, limit, now);
}

bool sl_auth_info_credits(const struct sl_auth_info *known)
{
    return (known->user && known->user->credit_count > 0) ||
           (known->org && known->org->credit_count > 0);
}

uint64_t sl_auth_info_credit(const struct sl_auth_info *known, unsigned scope,
                             struct sl_str limit, sl_ns start, sl_ns now)
{
    const struct sl_subject *s = scope == SL_SCOPE_USER  ? known->user
                                 : scope == SL_SCOPE_ORG ? known->org
                                                         : NULL;
    uint64_t units = 0;

    for (unsigned i = 0; s && i < s->credit_count; i++) {
        const struct sl_credit *c = &s->credits[i];

        if (sl_str_eq(c->limit, limit) &&
            (c->start == SL_NS_NONE ? !is_over(c->expires, now)
                                    : c->start == start))
            units = sl_add_sat(units, c->units);
    }
    return units < SL_AMOUNT_MAX ? units : SL_AMOUNT_MAX;
}
