/* check.c -- what was read of a subject: is it sound, and does it fit the
 * policy in force? */
#include <stdio.h>
#include <string.h>

#include "base/instant.h"
#include "base/parse.h"
#include "doors/http/subjects/subjects.h"

/* ---- times and texts ---- */

/* "2026-12-31" is its first instant, in UTC. */
static bool read_date(struct sl_str text, sl_ns *ret)
{
    char whole[32];

    if (text.len != 10 || text.at[4] != '-' || text.at[7] != '-')
        return false;
    snprintf(whole, sizeof(whole), "%.10sT00:00:00Z", text.at);
    return sl_instant_parse(sl_str_c(whole), ret, NULL) == 0;
}

bool sl_reading_time(struct sl_reading *reading, const char *name,
                     struct sl_str text, sl_ns *ret)
{
    sl_ns span;

    if (read_date(text, ret) || sl_instant_parse(text, ret, NULL) == 0)
        return true;
    if (sl_parse_duration(text, &span, NULL) == 0 &&
        span < SL_TIME_END - reading->now) {
        *ret = reading->now + span;
        return true;
    }
    sl_refuse(&reading->diag, SLUICE_ECONF,
              "\"%s\": \"%.*s\" is not a time; write 2026-12-31T23:59:59Z, "
              "2026-12-31, or a duration from now such as 2h or 30d",
              name, SL_STR_ARG(text));
    return false;
}

bool sl_reading_text(struct sl_reading *reading, const char *name,
                     struct sl_str text, size_t most)
{
    if (text.len > most) {
        sl_refuse(&reading->diag, SLUICE_ECONF,
                  "\"%s\" has %zu bytes; the maximum is %zu", name, text.len,
                  most);
        return false;
    }
    while (text.len > 0) {
        size_t len = sl_shown_len(text);

        if (len == 0) {
            sl_refuse(&reading->diag, SLUICE_ECONF,
                      "\"%s\" has control characters or is not valid UTF-8",
                      name);
            return false;
        }
        text = sl_str_from(text, len);
    }
    return true;
}

static bool check_list(struct sl_reading *reading, const char *name,
                       const struct sl_str *list, unsigned count, size_t most)
{
    for (unsigned i = 0; i < count; i++) {
        if (list[i].len == 0) {
            sl_refuse(&reading->diag, SLUICE_ECONF,
                      "\"%s\" contains an empty value; remove it", name);
            return false;
        }
        if (!sl_reading_text(reading, name, list[i], most))
            return false;
    }
    return true;
}

/* Once each, in lower case. */
static bool lower_aliases(struct sl_reading *reading, struct sl_change *c)
{
    struct sl_str *list = (struct sl_str *)c->aliases;
    unsigned kept = 0;

    for (unsigned i = 0; i < c->alias_count; i++) {
        char *room = sl_arena_take(reading->arena, list[i].len + 1);
        unsigned k = 0;

        if (!room) {
            sl_refuse(&reading->diag, SLUICE_ENOMEM, "out of memory");
            return false;
        }
        list[kept] = sl_lower(list[i], room);
        while (k < kept && !sl_str_eq(list[k], list[kept]))
            k++;
        kept += k == kept;
    }
    c->alias_count = kept;
    return true;
}

static bool check_rates(struct sl_reading *reading, const struct sl_change *c)
{
    for (unsigned i = 0; i < c->rate_count; i++) {
        const struct sl_own_rate *rate = &c->rates[i];

        for (unsigned k = 0; k < i; k++)
            if (sl_str_eq(c->rates[k].limit, rate->limit)) {
                sl_refuse(&reading->diag, SLUICE_ECONF,
                          "the override of \"%.*s\" is given twice",
                          SL_STR_ARG(rate->limit));
                return false;
            }
        if (rate->limit.len == 0) {
            sl_refuse(&reading->diag, SLUICE_ECONF,
                      "an override needs the name of a limit");
            return false;
        }
        if (!sl_reading_text(reading, "overrides", rate->limit,
                             SL_ENTRY_NAME) ||
            !sl_reading_text(reading, "overrides", rate->rate, SL_ENTRY_RATE) ||
            !sl_reading_text(reading, "note", rate->note, SL_ENTRY_NOTE))
            return false;
    }
    return true;
}

static bool check_names(struct sl_reading *reading, const struct sl_change *c)
{
    if (!sl_str_eq(c->scope, SL_STR("user")) &&
        !sl_str_eq(c->scope, SL_STR("org"))) {
        sl_refuse(&reading->diag, SLUICE_ECONF,
                  "the scope of a subject must be user or org, not \"%.*s\"",
                  SL_STR_ARG(c->scope));
        return false;
    }
    if (c->id.len == 0) {
        sl_refuse(&reading->diag, SLUICE_ECONF, "a subject needs an id");
        return false;
    }
    return true;
}

bool sl_reading_finish(struct sl_reading *reading, struct sl_change *c)
{
    if (reading->named && !check_names(reading, c))
        return false;
    if ((c->has & SL_HAS_EXPIRES) && c->expires != SL_NS_NONE &&
        (c->has & SL_HAS_PLAN) && c->plan.len == 0) {
        sl_refuse(&reading->diag, SLUICE_ECONF, "\"expires\" needs a plan");
        return false;
    }
    return sl_reading_text(reading, "id", c->id, SL_ENTRY_ID) &&
           sl_reading_text(reading, "plan", c->plan, SL_ENTRY_NAME) &&
           sl_reading_text(reading, "note", c->note, SL_ENTRY_NOTE) &&
           sl_reading_text(reading, "by", c->by, SL_ENTRY_BY) &&
           check_list(reading, "roles", c->roles, c->role_count,
                      SL_ENTRY_NAME) &&
           check_list(reading, "aliases", c->aliases, c->alias_count,
                      SL_ENTRY_ID) &&
           check_rates(reading, c) && lower_aliases(reading, c);
}

/* ---- the policy ---- */

static int refuse_plan(const struct sl_policy *policy, struct sl_str name,
                       struct sl_diag *diag)
{
    const char *names[256];
    size_t count = 0;
    const char *near;

    for (; count < policy->plans.count && count < SL_LEN(names); count++)
        names[count] = policy->plans.list[count].name.at;
    near = sl_str_nearest(name, names, count);
    return sl_refuse(diag, SLUICE_ECONF,
                     "the policy has no plan \"%.*s\"%s%s%s", SL_STR_ARG(name),
                     near ? "; did you mean \"" : "", near ? near : "",
                     near ? "\"?" : "; set force to keep it anyway");
}

static int refuse_limit(const struct sl_policy *policy, struct sl_str name,
                        struct sl_diag *diag)
{
    const char *names[256];
    size_t count = 0;
    const char *near;

    for (; count < policy->rule_count && count < SL_LEN(names); count++)
        names[count] = policy->rules[count].name.at;
    near = sl_str_nearest(name, names, count);
    return sl_refuse(diag, SLUICE_ECONF,
                     "the policy has no limit \"%.*s\"%s%s%s", SL_STR_ARG(name),
                     near ? "; did you mean \"" : "", near ? near : "",
                     near ? "\"?" : "; set force to keep it anyway");
}

static int check_rate(const struct sl_own_rate *own,
                      const struct sl_policy *policy, bool force,
                      struct sl_diag *diag)
{
    int index = sl_policy_rule(policy, own->limit);
    struct sl_plan_limit limit;
    struct sl_diag why = {0};
    struct sl_rate rate;
    int err;

    if (own->rate.len == 0)
        return 0; /* taken away */
    if (index < 0 && !force)
        return refuse_limit(policy, own->limit, diag);
    err = index < 0
              ? sl_parse_rate(own->rate, &rate, &why)
              : sl_rule_rate(&policy->rules[index], own->rate, &limit, &why);
    if (!err)
        return 0;
    return sl_refuse(diag, SLUICE_ECONF, "\"%.*s\" for %.*s: %s%s%s",
                     SL_STR_ARG(own->rate), SL_STR_ARG(own->limit),
                     why.sentence, why.hint[0] ? "; write " : "", why.hint);
}

int sl_change_check(const struct sl_change *change,
                    const struct sl_policy *policy, bool force,
                    struct sl_diag *diag)
{
    int err = 0;

    if (change->plan.len > 0 && !force &&
        sl_policy_plan(policy, change->plan) < 0)
        err = refuse_plan(policy, change->plan, diag);
    for (unsigned i = 0; i < change->rate_count && !err; i++)
        err = check_rate(&change->rates[i], policy, force, diag);
    return err;
}
