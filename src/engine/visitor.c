/* visitor.c -- what a caller used before he signed in: `sign_in: carry`.
 *
 * Whoever has no name is known by his address, or by a fingerprint of it and
 * some headers. If a request with a name comes from where the nameless one
 * came from, the limit that he used is his: the key that he had then is looked
 * at in the same set and counts against his name's (see "Carrying" in
 * table/table.h). Nothing is moved: signing out finds what was used, too, and
 * somebody else at the same address loses at most what visitors may use.
 *
 * Where the address is not known everybody would be the same visitor, so
 * nothing is carried.
 */
#include "engine/engine_int.h"

/* Windows and quotas end for both keys at once. The policy has only such
 * limits on routes that carry; but a path may be read as several routes. */
static bool ends_at_once(const struct sl_rule *rule)
{
    return rule->kind == SL_FIXED || rule->kind == SL_QUOTA;
}

static bool is_name(unsigned scope)
{
    return scope == SL_SCOPE_USER || scope == SL_SCOPE_ORG ||
           scope >= SL_SCOPE_NAMED;
}

static bool is_carried(const struct sl_check_step *asking,
                       const struct sl_rule *rule)
{
    bool named = false;

    for (unsigned i = 0; i < rule->per_count; i++)
        named |= is_name(rule->per[i]);
    return asking->carry && named && !asking->caller.anonymous &&
           rule->missing == SL_MISSING_ANONYMOUS && ends_at_once(rule);
}

int sl_sign_in_find(struct sl_decision *d, struct sl_check_step *asking,
                    struct sl_limit_view *shown)
{
    const struct sl_rule *rule = shown->rule;
    struct sl_key_value values[SL_PER_MAX];
    char bytes[SL_KEY_MAX];

    if (!is_carried(asking, rule))
        return 0;
    (void)sl_caller_ip(&asking->caller, d->policy, asking->facts);
    if (!asking->caller.has_ip)
        return 0;
    for (unsigned i = 0; i < rule->per_count; i++)
        values[i] = is_name(rule->per[i])
                        ? sl_caller_anonymous(&asking->caller, d->policy,
                                              asking->facts, asking->secret)
                        : shown->values[i];
    shown->visitor.len =
        sl_key_bytes(values, rule->per_count, asking->secret, bytes);
    shown->visitor.at =
        sl_arena_copy(&d->arena, (struct sl_str){bytes, shown->visitor.len});
    if (!shown->visitor.at)
        return SLUICE_ENOMEM;
    return asking->live->wants_names
               ? sl_name_make(d, shown, values, rule->per_count,
                              &shown->visitor_name)
               : 0;
}

bool sl_sign_in_fits(const struct sl_decision *d)
{
    unsigned count = d->shown_count + d->running_count;

    for (unsigned i = 0; i < d->shown_count; i++)
        count += d->shown[i].visitor.len > 0;
    return count <= SL_PARTS;
}
