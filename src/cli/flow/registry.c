/* registry.c -- the subjects and blocks of a flow, in place of a daemon's
 * registry.
 *
 * Lists are searched in O(n): a flow has few subjects.
 */
#include <string.h>

#include "cli/flow/flow.h"

struct sl_flow_subject *
sl_flow_registry_find(const struct sl_flow_registry *registry,
                      struct sl_str scope, struct sl_str id)
{
    struct sl_flow_subject *s = registry->subjects;

    while (s && (!sl_str_eq(scope, sl_str_c(s->scope)) ||
                 !sl_str_eq(id, sl_str_c(s->id))))
        s = s->next;
    return s;
}

static bool has_registered(const struct sl_flow_registry *registry)
{
    const struct sl_flow_subject *s = registry->subjects;

    while (s && !s->subject.known)
        s = s->next;
    return s;
}

/* The blocked network that has the address; of several the one whose block ends
 * last. NULL: none. */
static struct sl_flow_subject *
find_blocked(const struct sl_flow_registry *registry, struct sl_str address)
{
    struct sl_flow_subject *last = NULL;
    struct sl_ip ip;

    if (!sl_ip_parse(address, &ip))
        return NULL;
    ip = sl_ip_untranslated(&ip);
    for (struct sl_flow_subject *s = registry->subjects; s; s = s->next)
        if (strcmp(s->scope, "ip") == 0 && sl_net_has(&s->net, &ip) &&
            s->subject.block.is_set &&
            (!last ||
             sl_block_ends_later(&s->subject.block, &last->subject.block)))
            last = s;
    return last;
}

/* Without any subject the registry is empty, and not asked. */
static void on_find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    struct sl_flow_registry *registry = (struct sl_flow_registry *)subjects;
    bool is_ip = sl_str_eq(lookup->scope, SL_STR("ip"));
    struct sl_flow_subject *s =
        is_ip ? find_blocked(registry, lookup->id)
              : sl_flow_registry_find(registry, lookup->scope, lookup->id);

    if (is_ip)
        lookup->found = s ? sl_subject_ref(&s->subject) : NULL;
    else if (registry->subjects)
        lookup->found = sl_subject_ref(s ? &s->subject : &registry->unknown);
    lookup->has_registered = has_registered(registry);
    lookup->done(lookup);
}

struct sl_subjects *sl_flow_registry_open(struct sl_flow_registry *registry)
{
    static const struct sl_subjects_calls calls = {on_find};

    registry->base.calls = &calls;
    registry->unknown = (struct sl_subject){.refs = 1};
    return &registry->base;
}

struct sl_flow_subject *sl_flow_registry_add(struct sl_flow_registry *registry,
                                             struct sl_arena *arena,
                                             const char *scope, const char *id)
{
    struct sl_flow_subject *s =
        sl_flow_registry_find(registry, sl_str_c(scope), sl_str_c(id));

    if (s)
        return s;
    s = sl_arena_take(arena, sizeof(*s));
    if (!s)
        return NULL;
    *s = (struct sl_flow_subject){
        .scope = scope,
        .id = id,
        .subject = {.refs = 1, .id = sl_str_c(id), .expires = SL_NS_NONE},
        .next = registry->subjects
    };
    registry->subjects = s;
    return s;
}
