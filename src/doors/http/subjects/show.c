/* show.c -- an entry as JSON, and what of it has no effect.
 *
 * A policy can change below the registry: plans and limits go, kinds and
 * periods change. What was written stays, for they may come back, but whoever
 * looks is told.
 */
#include <stdio.h>

#include "server/http/subjects.h"
#include "wire/json_old.h"

struct warnings {
    struct sl_buf *out;
    unsigned count;
    int err;
};

static void warn(struct warnings *w, const char *fmt, struct sl_str name,
                 const char *more)
{
    char text[512];
    int len = snprintf(text, sizeof(text), fmt, SL_STR_ARG(name), more);

    if (!w->err && w->count++ > 0)
        w->err = sl_buf_add(w->out, SL_STR(","));
    if (!w->err)
        w->err = sl_json_string(w->out,
                                (struct sl_str){text, (size_t)len < sizeof(text)
                                                          ? (size_t)len
                                                          : sizeof(text) - 1});
}

static void warn_of_rate(struct warnings *w,
                         const struct sl_subject_override *own,
                         const struct sl_policy *policy)
{
    int index = sl_policy_rule(policy, own->limit);
    struct sl_plan_limit limit;
    struct sl_diag why = {0};

    if (index < 0)
        warn(w, "the policy has no limit \"%.*s\": its override is ignored%s",
             own->limit, "");
    else if (sl_rule_rate(&policy->rules[index], own->rate, &limit, &why))
        warn(w, "the override of %.*s is ignored: %s", own->limit,
             why.sentence);
}

int sl_subject_record_write(const struct sl_subject_record *entry,
                            const struct sl_policy *policy, sl_ns now,
                            struct sl_buf *out)
{
    const struct sl_subject *s = &entry->subject;
    struct warnings w = {.out = out};
    struct sl_subject_draft draft;
    int err = sl_buf_add(out, SL_STR("{"));

    sl_subject_draft_of(entry, &draft);
    if (!err)
        err = sl_subject_draft_json(&draft, now, false, out);
    if (!err)
        err = sl_buf_add(out, SL_STR(",\"warnings\":["));
    if (err)
        return err;
    if (s->plan.len > 0 && sl_policy_plan(policy, s->plan) < 0)
        warn(&w, "the policy has no plan \"%.*s\": it counts as unknown%s",
             s->plan, "");
    for (unsigned i = 0; i < s->rate_count; i++)
        warn_of_rate(&w, &s->rates[i], policy);
    return w.err ? w.err : sl_buf_add(out, SL_STR("]}"));
}
