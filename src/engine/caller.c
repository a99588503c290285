/* identify.c -- who is asking. */
#include "engine/identify.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "engine/subjects.h"

struct sl_str sl_request_header(const struct sl_request *facts,
                                struct sl_str name)
{
    for (unsigned i = 0; i < facts->header_count; i++)
        if (sl_str_eq_nocase(facts->headers[i].name, name))
            return facts->headers[i].value;
    return (struct sl_str){NULL, 0};
}

/* Who is asked, and what is known of him. */
struct asked {
    const struct sl_request *facts;
    const struct sl_auth_info *known;
    struct sl_caller *caller; /* what the registry says beside a value */
};

/* Sent twice, it is not known which one a proxy has looked at. */
static struct sl_str ask_cookie(const struct sl_request *facts,
                                struct sl_str name)
{
    unsigned count;
    struct sl_str value = sl_request_cookie(facts, name, &count);

    return count == 1 ? value : (struct sl_str){NULL, 0};
}

static struct sl_str ask_registry(struct sl_str what, const struct asked *asked)
{
    struct sl_caller *caller = asked->caller;

    if (!asked->known->user && !asked->known->org)
        return (struct sl_str){NULL, 0};
    if (sl_str_eq(what, SL_STR("plan")))
        return sl_auth_info_plan(asked->known, asked->facts->now,
                                 &caller->plan_ended);
    caller->roles = sl_auth_info_roles(asked->known, &caller->role_count);
    return caller->roles ? caller->roles[0] : (struct sl_str){NULL, 0};
}

static struct sl_str ask_source(const struct sl_source *source,
                                const struct asked *asked)
{
    const struct sl_request *facts = asked->facts;

    switch (source->kind) {
    case SL_SOURCE_JWT:
        if (asked->known->token)
            return sl_token_claim(asked->known->token, source->name);
        break;
    case SL_SOURCE_HEADER:
        if (facts->trusted)
            return sl_str_trim(sl_request_single(facts, source->name));
        break;
    case SL_SOURCE_COOKIE:
        if (facts->trusted)
            return ask_cookie(facts, source->name);
        break;
    case SL_SOURCE_SUBJECT:
        return ask_registry(source->name, asked);
    case SL_SOURCE_IP:
        break; /* of `anonymous` only */
    }
    return (struct sl_str){NULL, 0};
}

/* The first source that has a value. */
static struct sl_str ask(const struct sl_sources *sources,
                         const struct asked *asked)
{
    struct sl_str value = {NULL, 0};

    for (unsigned i = 0; i < sources->count && value.len == 0; i++)
        value = ask_source(&sources->list[i], asked);
    return value;
}

static struct sl_str find_entry(const struct sl_request *facts,
                                struct sl_str scope)
{
    for (unsigned i = 0; i < facts->entry_count; i++)
        if (sl_str_eq(facts->entries[i].key, scope))
            return facts->entries[i].value;
    return (struct sl_str){NULL, 0};
}

static struct sl_str given_or(struct sl_str given,
                              const struct sl_sources *sources,
                              const struct asked *asked)
{
    return given.len > 0 ? given : ask(sources, asked);
}

/* The registry is asked last where nobody says when. A plan of its that has
 * ended is the last word. */
static struct sl_str given_or_registered(struct sl_str given,
                                         const struct sl_sources *sources,
                                         struct sl_str what,
                                         const struct asked *asked)
{
    bool was_asked = false;

    if (given.len > 0)
        return given;
    for (unsigned i = 0; i < sources->count; i++) {
        bool registry = sources->list[i].kind == SL_SOURCE_SUBJECT;
        struct sl_str value = ask_source(&sources->list[i], asked);

        was_asked = was_asked || registry;
        if (value.len > 0 || (registry && asked->caller->plan_ended &&
                              sl_str_eq(what, SL_STR("plan"))))
            return value;
    }
    return was_asked ? (struct sl_str){NULL, 0} : ask_registry(what, asked);
}

/* An address by its bits, in one notation; IPv6 by its prefix. What is no
 * address counts as none: no text that a client makes up opens an allowance of
 * its own. */
struct sl_str sl_identify_ip(const struct sl_policy *policy, struct sl_str text,
                             char out[SL_IP_TEXT + 5])
{
    unsigned prefix = policy->identity.ipv6_prefix;
    struct sl_ip ip;
    size_t len;

    if (text.len == 0 || !sl_ip_parse(text, &ip))
        return SL_STR("unknown");
    ip = sl_ip_untranslated(&ip);
    if (!sl_ip_is_v4(&ip))
        ip = sl_ip_prefix(&ip, prefix);
    len = sl_ip_print(&ip, out);
    if (!sl_ip_is_v4(&ip) && prefix < 128)
        len += (size_t)snprintf(out + len, SL_IP_TEXT + 5 - len, "/%u", prefix);
    return (struct sl_str){out, len};
}

struct sl_str sl_caller_ip(struct sl_caller *caller,
                           const struct sl_policy *policy,
                           const struct sl_request *facts)
{
    struct sl_str *ip = &caller->values[SL_SCOPE_IP];

    if (ip->len == 0) {
        *ip = sl_identify_ip(policy, facts->ip, caller->ip);
        caller->has_ip = ip->at == caller->ip;
    }
    return *ip;
}

/* Known is whoever has a name of any kind; an address is none. */
static bool is_nobody(const struct sl_identity *identity,
                      const struct sl_str *values)
{
    for (unsigned s = SL_SCOPE_NAMED; s < identity->scope_count; s++)
        if (values[s].len > 0)
            return false;
    return values[SL_SCOPE_USER].len == 0 && values[SL_SCOPE_ORG].len == 0;
}

/* Whose plan is told by somebody else is known well enough. */
static bool is_unregistered(const struct sl_caller *caller,
                            const struct sl_auth_info *known)
{
    return (caller->values[SL_SCOPE_USER].len > 0 ||
            caller->values[SL_SCOPE_ORG].len > 0) &&
           caller->plan.len == 0 && !sl_auth_info_has_subject(known) &&
           !known->subjects_failed;
}

/* An alias stands for a name: limits are kept by that one. */
static void resolve(struct sl_str *value, const struct sl_subject *subject)
{
    if (subject && subject->known)
        *value = subject->id;
}

void sl_identify(const struct sl_policy *policy, const struct sl_request *facts,
                 const struct sl_auth_info *known, struct sl_caller *ret)
{
    const struct sl_identity *identity = &policy->identity;
    const struct asked asked = {facts, known, ret};
    struct sl_str *values = ret->values;

    memset(values, 0, sizeof(ret->values));
    ret->anonymous_id = (struct sl_str){NULL, 0};
    ret->roles = NULL;
    ret->role_count = 0;
    ret->plan_ended = false;
    values[SL_SCOPE_USER] =
        given_or(facts->user, &identity->scopes[SL_SCOPE_USER], &asked);
    values[SL_SCOPE_ORG] =
        given_or(facts->org, &identity->scopes[SL_SCOPE_ORG], &asked);
    for (unsigned s = SL_SCOPE_NAMED; s < identity->scope_count; s++)
        values[s] = given_or(find_entry(facts, identity->scope_names[s]),
                             &identity->scopes[s], &asked);
    ret->plan = given_or_registered(facts->plan, &identity->plan,
                                    SL_STR("plan"), &asked);
    ret->role = given_or_registered(facts->role, &identity->role,
                                    SL_STR("role"), &asked);
    ret->anonymous = is_nobody(identity, values);
    ret->unregistered = is_unregistered(ret, known);
    resolve(&values[SL_SCOPE_USER], known->user);
    resolve(&values[SL_SCOPE_ORG], known->org);
}

/* A running hash over the parts, each closed by its length, so that nothing
 * can move from one to the next. */
static struct sl_hash128 fold(struct sl_hash128 so_far, struct sl_str part)
{
    struct sl_hash_key key = {so_far.lo ^ (uint64_t)part.len, so_far.hi};

    return sl_hash128(&key, part);
}

static void make_fingerprint(struct sl_caller *caller,
                             const struct sl_policy *policy,
                             const struct sl_request *facts,
                             const struct sl_hash_key *secret)
{
    const struct sl_sources *sources = &policy->identity.anonymous;
    struct sl_hash128 h = {secret->k0, secret->k1};

    for (unsigned i = 0; i < sources->count; i++)
        h = fold(h, sources->list[i].kind == SL_SOURCE_IP
                        ? sl_caller_ip(caller, policy, facts)
                        : sl_request_header(facts, sources->list[i].name));
    snprintf(caller->fingerprint, sizeof(caller->fingerprint), "%016llx%016llx",
             (unsigned long long)h.hi, (unsigned long long)h.lo);
    caller->anonymous_id = (struct sl_str){caller->fingerprint, 32};
}

struct sl_key_value sl_caller_anonymous(struct sl_caller *caller,
                                        const struct sl_policy *policy,
                                        const struct sl_request *facts,
                                        const struct sl_hash_key *secret)
{
    const struct sl_identity *identity = &policy->identity;

    if (identity->anonymous_is_ip)
        return (struct sl_key_value){identity->scope_names[SL_SCOPE_IP],
                                     sl_caller_ip(caller, policy, facts)};
    if (caller->anonymous_id.len == 0)
        make_fingerprint(caller, policy, facts, secret);
    return (struct sl_key_value){identity->scope_names[SL_SCOPE_ANON],
                                 caller->anonymous_id};
}

/* Whoever has a name could choose any number of fingerprints by his headers;
 * routes that keep callers without a name out, or let them pass, need no limit
 * by address beside a fingerprint. */
struct sl_key_value sl_caller_stand_in(struct sl_caller *caller,
                                       const struct sl_policy *policy,
                                       const struct sl_request *facts,
                                       const struct sl_hash_key *secret)
{
    if (!caller->anonymous)
        return (struct sl_key_value){policy->identity.scope_names[SL_SCOPE_IP],
                                     sl_caller_ip(caller, policy, facts)};
    return sl_caller_anonymous(caller, policy, facts, secret);
}
