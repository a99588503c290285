/* subjects.c -- the registry of a flow.
 *
 * A list that is searched from its beginning: a flow has a handful of
 * subjects. Ten thousand of them would want a hash.
 */
#include "cli/flow/subjects.h"

#include <string.h>

static struct sl_flow_subject *find(const struct sl_flow_subjects *subjects,
                                    const char *scope, const char *id)
{
    struct sl_flow_subject *s = subjects->first;

    while (s && (strcmp(s->scope, scope) != 0 || strcmp(s->id, id) != 0))
        s = s->next;
    return s;
}

int64_t sl_flow_record_end(const struct sl_flow_subject_args *record, sl_ns now)
{
    sl_ns until = record->until.at;

    if (!record->has_until)
        return -1;
    /* Both are below SL_TIME_END: the sum fits. */
    return record->until.relative ? now + until : until;
}

static int fill(struct sl_flow_subject *s,
                const struct sl_flow_subject_args *record, int64_t end,
                struct sl_arena *arena)
{
    struct sluice_grant *grants =
        sl_arena_take(arena, (record->override_count + 1) * sizeof(*grants));

    if (!grants)
        return SLUICE_ENOMEM;
    for (size_t i = 0; i < record->override_count; i++)
        grants[i] = (struct sluice_grant){.limit = record->overrides[i].limit,
                                          .rate = record->overrides[i].rate,
                                          .until_ns = end,
                                          .by = "flow"};
    s->subject = (struct sluice_subject){.plan = record->plan,
                                         .expires_ns = end,
                                         .grants = grants,
                                         .grant_count = record->override_count};
    return 0;
}

int sl_flow_subjects_set(struct sl_flow_subjects *subjects,
                         const struct sl_flow_act *act, sl_ns now)
{
    struct sl_flow_subject *s = find(subjects, act->names[0], act->names[1]);

    if (!s) {
        s = sl_arena_take(subjects->arena, sizeof(*s));
        if (!s)
            return SLUICE_ENOMEM;
        *s = (struct sl_flow_subject){.scope = act->names[0],
                                      .id = act->names[1],
                                      .next = subjects->first};
        subjects->first = s;
    }
    return fill(s, act->record, sl_flow_record_end(act->record, now),
                subjects->arena);
}

void sl_flow_subjects_fill(const struct sl_flow_subjects *subjects,
                           struct sluice_request *request)
{
    struct sl_flow_subject *s;

    request->registry = subjects->first != NULL;
    if (request->user && (s = find(subjects, "user", request->user)))
        request->user_subject = &s->subject;
    if (request->org && (s = find(subjects, "org", request->org)))
        request->org_subject = &s->subject;
}
