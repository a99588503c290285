/* subjects.c -- the registry of a flow.
 *
 * A list that is searched from its beginning: a flow has a handful of
 * subjects. Ten thousand of them would want a hash.
 */
#include "cli/flow/subjects.h"

#include <string.h>

static struct sl_subject *find(const struct sl_subjects *subjects,
                               const char *scope, const char *id)
{
    struct sl_subject *s = subjects->first;

    while (s && (strcmp(s->scope, scope) != 0 || strcmp(s->id, id) != 0))
        s = s->next;
    return s;
}

static sl_ns end_of(const struct sl_record *record, sl_ns now)
{
    sl_ns until = record->until.at;

    if (!record->has_until)
        return SL_NS_MAX;
    /* Both are below SL_TIME_END: the sum fits. */
    return record->until.relative ? now + until : until;
}

int sl_subjects_set(struct sl_subjects *subjects, const struct sl_act *act,
                    sl_ns now)
{
    struct sl_subject *s = find(subjects, act->names[0], act->names[1]);

    if (!s) {
        s = sl_arena_take(subjects->arena, sizeof(*s));
        if (!s)
            return SLUICE_ENOMEM;
        *s = (struct sl_subject){.scope = act->names[0],
                                 .id = act->names[1],
                                 .next = subjects->first};
        subjects->first = s;
    }
    s->record = act->record;
    s->until = end_of(act->record, now);
    return 0;
}

static bool has_override(const struct sluice_override *list, size_t count,
                         const char *limit)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].limit, limit) == 0)
            return true;
    return false;
}

static void fill_from(const struct sl_subject *s, sl_ns now,
                      struct sluice_request *request,
                      struct sluice_override *room)
{
    if (!s || now >= s->until)
        return;
    if (!request->plan)
        request->plan = s->record->plan;
    for (size_t i = 0; i < s->record->override_count; i++) {
        const struct sluice_override *o = &s->record->overrides[i];

        if (request->override_count == SL_SUBJECT_OVERRIDES)
            return;
        if (!has_override(room, request->override_count, o->limit))
            room[request->override_count++] = *o;
    }
}

void sl_subjects_fill(const struct sl_subjects *subjects, sl_ns now,
                      struct sluice_request *request,
                      struct sluice_override room[SL_SUBJECT_OVERRIDES])
{
    request->overrides = room;
    request->override_count = 0;
    if (request->user)
        fill_from(find(subjects, "user", request->user), now, request, room);
    if (request->org)
        fill_from(find(subjects, "org", request->org), now, request, room);
}
