/* who.c -- who asked, kept for those who want to read it later.
 *
 * The facts are gone when somebody asks for the text of a decision. A name may
 * be as long as a header can be; what people look at is its beginning. Without
 * memory a name is missing in the text, and nothing else.
 */
#include "engine/engine_int.h"

#define NAME_BYTES 128

static void add(struct sl_decision *d, struct sl_str what, struct sl_str name)
{
    const char *copy;

    if (d->who_count == SL_LEN(d->who))
        return;
    if (name.len > NAME_BYTES)
        name.len = NAME_BYTES;
    copy = sl_arena_copy(&d->arena, name);
    if (copy)
        d->who[d->who_count++] = (struct sl_key_value){
            what, {copy, name.len}
        };
}

static void add_nobody(struct sl_decision *d, struct sl_caller *caller,
                       const struct sl_request *facts)
{
    if (d->policy->identity.anonymous_is_ip)
        add(d, SL_STR("anonymous, by ip"),
            sl_caller_ip(caller, d->policy, facts));
    else
        add(d, SL_STR("anonymous, by fingerprint"), SL_STR(""));
}

void sl_decision_who(struct sl_decision *d, struct sl_caller *caller,
                     const struct sl_request *facts)
{
    const struct sl_identity *identity = &d->policy->identity;

    d->who_count = 0;
    if (facts->limit.len > 0) {
        add(d, SL_STR("key"), facts->key);
        return;
    }
    if (caller->anonymous)
        add_nobody(d, caller, facts);
    for (unsigned s = 0; s < identity->scope_count; s++)
        if (s != SL_SCOPE_IP && caller->values[s].len > 0)
            add(d, identity->scope_names[s], caller->values[s]);
    if (caller->role.len > 0)
        add(d, SL_STR("role"), caller->role);
}
