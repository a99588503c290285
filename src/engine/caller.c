/* caller.c -- who is asking. */
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/hash.h"
#include "engine/decision.h"
#include "engine/engine_int.h"
#include "engine/request.h"
#include "policy/policy.h"

struct sl_str sl_request_header(const struct sl_request *request,
                                struct sl_str name)
{
    for (unsigned i = 0; i < request->header_count; i++)
        if (sl_str_eq_nocase(request->headers[i].name, name))
            return request->headers[i].value;
    return (struct sl_str){NULL, 0};
}

/* ---- the registry's plan and roles.
 *
 * The user's record comes before the organisation's. An expired record does not
 * count, except that the plan is then the default, whatever a token or a header
 * says.
 */

static bool is_over(sl_ns end, sl_ns now)
{
    return end != SL_NS_NONE && now >= end;
}

static bool is_known(const struct sl_subject *subject)
{
    return subject && subject->known;
}

static bool has_subject(const struct sl_auth_info *known)
{
    return is_known(known->user) || is_known(known->org);
}

/* "" if there is none. *ret_ended: there was one, and it has expired. */
static struct sl_str plan_of(const struct sl_auth_info *known, sl_ns now,
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

static const struct sl_str *roles_of(const struct sl_auth_info *known,
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

/* Who is asked, and what is known of him. */
struct asked {
    const struct sl_request *request;
    const struct sl_auth_info *known;
    struct sl_caller *caller; /* what the registry says beside a value */
};

/* Sent twice, it is not known which one a proxy has looked at. */
static struct sl_str ask_cookie(const struct sl_request *request,
                                struct sl_str name)
{
    unsigned count;
    struct sl_str value = sl_request_cookie(request, name, &count);

    return count == 1 ? value : (struct sl_str){NULL, 0};
}

static struct sl_str ask_registry(struct sl_str what, const struct asked *asked)
{
    struct sl_caller *caller = asked->caller;

    if (!asked->known->user && !asked->known->org)
        return (struct sl_str){NULL, 0};
    if (sl_str_eq(what, SL_STR("plan")))
        return plan_of(asked->known, asked->request->now, &caller->plan_ended);
    caller->roles = roles_of(asked->known, &caller->role_count);
    return caller->roles ? caller->roles[0] : (struct sl_str){NULL, 0};
}

static struct sl_str ask_source(const struct sl_source *source,
                                const struct asked *asked)
{
    const struct sl_request *request = asked->request;

    switch (source->kind) {
    case SL_SOURCE_JWT:
        if (asked->known->token)
            return sl_token_claim(asked->known->token, source->name);
        break;
    case SL_SOURCE_HEADER:
        if (request->trusted)
            return sl_str_trim(sl_request_single(request, source->name));
        break;
    case SL_SOURCE_COOKIE:
        if (request->trusted)
            return ask_cookie(request, source->name);
        break;
    case SL_SOURCE_SUBJECT:
        return ask_registry(source->name, asked);
    case SL_SOURCE_IP:
        break; /* of `anonymous` only */
    }
    return (struct sl_str){NULL, 0};
}

/* The first source that has a value. */
static struct sl_str check(const struct sl_sources *sources,
                           const struct asked *asked)
{
    struct sl_str value = {NULL, 0};

    for (unsigned i = 0; i < sources->count && value.len == 0; i++)
        value = ask_source(&sources->list[i], asked);
    return value;
}

static struct sl_str find_entry(const struct sl_request *request,
                                struct sl_str scope)
{
    for (unsigned i = 0; i < request->entry_count; i++)
        if (sl_str_eq(request->entries[i].key, scope))
            return request->entries[i].value;
    return (struct sl_str){NULL, 0};
}

static struct sl_str given_or(struct sl_str given,
                              const struct sl_sources *sources,
                              const struct asked *asked)
{
    return given.len > 0 ? given : check(sources, asked);
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
                           const struct sl_request *request)
{
    struct sl_str *ip = &caller->values[SL_SCOPE_IP];

    if (ip->len == 0) {
        *ip = sl_identify_ip(policy, request->ip, caller->ip);
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
           caller->plan.len == 0 && !has_subject(known) &&
           !known->subjects_failed;
}

/* An alias stands for a name: limits are kept by that one. */
static void resolve(struct sl_str *value, const struct sl_subject *subject)
{
    if (subject && subject->known)
        *value = subject->id;
}

void sl_identify(const struct sl_policy *policy,
                 const struct sl_request *request,
                 const struct sl_auth_info *known, struct sl_caller *ret)
{
    const struct sl_identity *identity = &policy->identity;
    const struct asked asked = {request, known, ret};
    struct sl_str *values = ret->values;

    memset(values, 0, sizeof(ret->values));
    ret->anonymous_id = (struct sl_str){NULL, 0};
    ret->roles = NULL;
    ret->role_count = 0;
    ret->plan_ended = false;
    values[SL_SCOPE_USER] =
        given_or(request->user, &identity->scopes[SL_SCOPE_USER], &asked);
    values[SL_SCOPE_ORG] =
        given_or(request->org, &identity->scopes[SL_SCOPE_ORG], &asked);
    for (unsigned s = SL_SCOPE_NAMED; s < identity->scope_count; s++)
        values[s] = given_or(find_entry(request, identity->scope_names[s]),
                             &identity->scopes[s], &asked);
    ret->plan = given_or_registered(request->plan, &identity->plan,
                                    SL_STR("plan"), &asked);
    ret->role = given_or_registered(request->role, &identity->role,
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
                             const struct sl_request *request,
                             const struct sl_hash_key *secret)
{
    const struct sl_sources *sources = &policy->identity.anonymous;
    struct sl_hash128 h = {secret->k0, secret->k1};

    for (unsigned i = 0; i < sources->count; i++)
        h = fold(h, sources->list[i].kind == SL_SOURCE_IP
                        ? sl_caller_ip(caller, policy, request)
                        : sl_request_header(request, sources->list[i].name));
    snprintf(caller->fingerprint, sizeof(caller->fingerprint), "%016llx%016llx",
             (unsigned long long)h.hi, (unsigned long long)h.lo);
    caller->anonymous_id = (struct sl_str){caller->fingerprint, 32};
}

struct sl_key_value sl_caller_anonymous(struct sl_caller *caller,
                                        const struct sl_policy *policy,
                                        const struct sl_request *request,
                                        const struct sl_hash_key *secret)
{
    const struct sl_identity *identity = &policy->identity;

    if (identity->anonymous_is_ip)
        return (struct sl_key_value){identity->scope_names[SL_SCOPE_IP],
                                     sl_caller_ip(caller, policy, request)};
    if (caller->anonymous_id.len == 0)
        make_fingerprint(caller, policy, request, secret);
    return (struct sl_key_value){identity->scope_names[SL_SCOPE_ANON],
                                 caller->anonymous_id};
}

/* Whoever has a name could choose any number of fingerprints by his headers;
 * routes that keep callers without a name out, or let them pass, need no limit
 * by address beside a fingerprint. */
struct sl_key_value sl_caller_stand_in(struct sl_caller *caller,
                                       const struct sl_policy *policy,
                                       const struct sl_request *request,
                                       const struct sl_hash_key *secret)
{
    if (!caller->anonymous)
        return (struct sl_key_value){policy->identity.scope_names[SL_SCOPE_IP],
                                     sl_caller_ip(caller, policy, request)};
    return sl_caller_anonymous(caller, policy, request, secret);
}

/* ---- the token that came with a request.
 *
 * What comes twice is nobody's: a proxy may have checked the one and the
 * application may read the other. Whoever sends it so is not known, and it
 * counts as a bad token.
 */

/* ---- cookies ---- */

/* Cut the first item off "a=1; b=2". False if there is none left. */
static bool cut_item(struct sl_str *list, struct sl_str *ret)
{
    const char *end;

    if (list->len == 0)
        return false;
    end = memchr(list->at, ';', list->len);
    *ret = *list;
    if (end)
        ret->len = (size_t)(end - list->at);
    *list = sl_str_from(*list, ret->len + 1);
    *ret = sl_str_trim(*ret);
    return true;
}

/* A value may stand in quotes (RFC 6265, 4.1.1). */
static struct sl_str unquote(struct sl_str value)
{
    if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
        return (struct sl_str){value.at + 1, value.len - 2};
    return value;
}

/* The last cookie of that name in one field; `count` grows with each. */
static struct sl_str find_cookie(struct sl_str field, struct sl_str name,
                                 unsigned *count)
{
    struct sl_str item, value = {NULL, 0};

    while (cut_item(&field, &item)) {
        const char *equals =
            item.len > 0 ? memchr(item.at, '=', item.len) : NULL;
        size_t len = equals ? (size_t)(equals - item.at) : 0;

        if (!equals || !sl_str_eq((struct sl_str){item.at, len}, name))
            continue;
        value = unquote(sl_str_from(item, len + 1));
        ++*count;
    }
    return value;
}

/* HTTP/2 may send each cookie in a field of its own. */
struct sl_str sl_request_cookie(const struct sl_request *request,
                                struct sl_str name, unsigned *count)
{
    struct sl_str value = {NULL, 0};

    *count = 0;
    for (unsigned i = 0; i < request->header_count; i++) {
        unsigned before = *count;
        struct sl_str found;

        if (!sl_str_eq_nocase(request->headers[i].name, SL_STR("cookie")))
            continue;
        found = find_cookie(request->headers[i].value, name, count);
        if (*count > before)
            value = found;
    }
    return value;
}

/* ---- tokens ---- */

/* Is it of the scheme? Then *rest is what follows. */
static bool is_bearer(struct sl_str value, struct sl_str *rest)
{
    static const struct sl_str scheme = {"Bearer", 6};
    struct sl_str word = value;

    if (value.len < scheme.len)
        return false;
    word.len = scheme.len;
    *rest = sl_str_from(value, scheme.len);
    return sl_str_eq_nocase(word, scheme) &&
           (rest->len == 0 || rest->at[0] == ' ');
}

/* Authorization is shared with other schemes, which are none of our business;
 * in a header of its own a token may stand alone. False if it has none. */
static bool read_header(const struct sl_source *source, struct sl_str value,
                        struct sl_str *ret)
{
    value = sl_str_trim(value);
    if (is_bearer(value, ret)) {
        *ret = sl_str_trim(*ret);
        return true;
    }
    *ret = value;
    return value.len > 0 &&
           !sl_str_eq_nocase(source->name, SL_STR("authorization"));
}

/* False if the source has no token. */
static bool token_ask(const struct sl_source *source,
                      const struct sl_request *request, struct sl_str *ret,
                      unsigned *count)
{
    struct sl_str value = {NULL, 0};

    *count = 0;
    if (source->kind == SL_SOURCE_COOKIE) {
        *ret = sl_request_cookie(request, source->name, count);
        return ret->len > 0 || *count > 1;
    }
    for (unsigned i = 0; i < request->header_count; i++)
        if (sl_str_eq_nocase(request->headers[i].name, source->name)) {
            value = request->headers[i].value;
            ++*count;
        }
    return *count > 1 || (*count == 1 && read_header(source, value, ret));
}

enum sl_token_error sl_request_token(const struct sl_policy *policy,
                                     const struct sl_request *request,
                                     struct sl_str *ret)
{
    const struct sl_sources *from = &policy->identity.jwt.from;
    struct sl_str text = {NULL, 0};
    unsigned count;

    *ret = text;
    for (unsigned i = 0; i < from->count; i++) {
        if (!token_ask(&from->list[i], request, &text, &count))
            continue;
        if (count > 1 || text.len == 0)
            return SL_TOKEN_MALFORMED;
        *ret = text;
        return SL_TOKEN_GOOD;
    }
    return SL_TOKEN_GOOD;
}

/* Whoever sends many bad ones is known by the address that he really has. If
 * that is a proxy's, which does not say whom it speaks for, nobody is blamed:
 * one of its clients could have all others shut out. */
void sl_auth_info_token(struct sl_auth_info *known, struct sl_tokens *tokens,
                        const struct sl_policy *policy,
                        const struct sl_request *request)
{
    struct sl_str text;
    struct sl_ip ip;
    bool has_ip;

    known->token = NULL;
    known->token_fault = SL_TOKEN_GOOD;
    if (!tokens || !policy->identity.jwt.written)
        return;
    known->token_fault = sl_request_token(policy, request, &text);
    if (text.len == 0)
        return;
    has_ip =
        sl_ip_parse(request->ip, &ip) && !sl_ip_trusted(&policy->identity, &ip);
    known->token = tokens->calls->verify(tokens, text, has_ip ? &ip : NULL,
                                         request->now, &known->token_fault);
}

/* ---- rates and credits of the registry ---- */

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

/* ---- who asked, kept for those who want to read it later.
 *
 * The facts are gone when somebody asks for the text of a decision. A name may
 * be as long as a header can be; what people look at is its beginning. Without
 * memory a name is missing in the text, and nothing else.
 */

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
                       const struct sl_request *request)
{
    if (d->policy->identity.anonymous_is_ip)
        add(d, SL_STR("anonymous, by ip"),
            sl_caller_ip(caller, d->policy, request));
    else
        add(d, SL_STR("anonymous, by fingerprint"), SL_STR(""));
}

void sl_decision_who(struct sl_decision *d, struct sl_caller *caller,
                     const struct sl_request *request)
{
    const struct sl_identity *identity = &d->policy->identity;

    d->who_count = 0;
    if (request->limit.len > 0) {
        add(d, SL_STR("key"), request->key);
        return;
    }
    if (caller->anonymous)
        add_nobody(d, caller, request);
    for (unsigned s = 0; s < identity->scope_count; s++)
        if (s != SL_SCOPE_IP && caller->values[s].len > 0)
            add(d, identity->scope_names[s], caller->values[s]);
    if (caller->role.len > 0)
        add(d, SL_STR("role"), caller->role);
}
