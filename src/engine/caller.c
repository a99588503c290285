/* caller.c -- the caller: from the request, its token and the registry. */
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/hash.h"
#include "engine/decision.h"
#include "engine/engine_int.h"
#include "engine/request.h"
#include "policy/policy.h"

struct sl_str sl_request_find(const struct sl_request *request,
                              struct sl_str name, unsigned *ret_count)
{
    struct sl_str value = {NULL, 0};

    *ret_count = 0;
    for (unsigned i = 0; i < request->header_count; i++)
        if (sl_str_eq_nocase(request->headers[i].name, name) &&
            (*ret_count)++ == 0)
            value = request->headers[i].value;
    return value;
}

struct sl_str sl_request_header(const struct sl_request *request,
                                struct sl_str name)
{
    for (unsigned i = 0; i < request->header_count; i++)
        if (sl_str_eq_nocase(request->headers[i].name, name))
            return request->headers[i].value;
    return (struct sl_str){NULL, 0};
}

struct sl_str sl_request_single(const struct sl_request *request,
                                struct sl_str name)
{
    unsigned count;
    struct sl_str value = sl_request_find(request, name, &count);

    return count == 1 ? value : (struct sl_str){NULL, 0};
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

/* ---- sources of names ---- */

struct asked {
    const struct sl_request *request;
    const struct sl_auth_info *known;
    struct sl_caller *caller; /* gets roles and plan_ended */
};

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

/* A cookie that was sent twice does not count: a proxy may have checked the
 * other one. */
static struct sl_str ask_source(const struct sl_source *source,
                                const struct asked *asked)
{
    const struct sl_request *request = asked->request;
    struct sl_str value = {NULL, 0};
    unsigned count = 1;

    switch (source->kind) {
    case SL_SOURCE_JWT:
        if (asked->known->token)
            value = sl_token_claim(asked->known->token, source->name);
        break;
    case SL_SOURCE_HEADER:
        if (request->trusted)
            value = sl_str_trim(sl_request_single(request, source->name));
        break;
    case SL_SOURCE_COOKIE:
        if (request->trusted)
            value = sl_request_cookie(request, source->name, &count);
        break;
    case SL_SOURCE_SUBJECT:
        value = ask_registry(source->name, asked);
        break;
    case SL_SOURCE_IP:
        break; /* of `anonymous` only */
    }
    return count == 1 ? value : (struct sl_str){NULL, 0};
}

/* The given value, or that of the first source that has one. For `what`, "plan"
 * or "role", the registry is the last source if it is not listed, and its
 * expired plan ends the search. */
static struct sl_str find_value(struct sl_str given,
                                const struct sl_sources *sources,
                                struct sl_str what, const struct asked *asked)
{
    bool was_asked = what.len == 0;

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

static struct sl_str find_entry(const struct sl_request *request,
                                struct sl_str scope)
{
    for (unsigned i = 0; i < request->entry_count; i++)
        if (sl_str_eq(request->entries[i].key, scope))
            return request->entries[i].value;
    return (struct sl_str){NULL, 0};
}

/* Has key number `i` of a request that names a limit this scope? */
static bool is_key_of(const struct sl_policy *policy,
                      const struct sl_request *request,
                      const struct sl_rule *rule, unsigned i, unsigned scope)
{
    if (i < request->key_count && request->key_scopes)
        return sl_str_eq(request->key_scopes[i],
                         policy->identity.scope_names[scope]);
    return rule->per[i] == scope;
}

/* The name that a member or an entry of the request gives. */
static struct sl_str find_member(const struct sl_policy *policy,
                                 const struct sl_request *request,
                                 unsigned scope)
{
    if (scope == SL_SCOPE_USER)
        return request->user;
    if (scope == SL_SCOPE_ORG)
        return request->org;
    return find_entry(request, policy->identity.scope_names[scope]);
}

struct sl_str sl_request_keyed(const struct sl_policy *policy,
                               const struct sl_request *request, unsigned scope)
{
    const struct sl_rule *rule;
    int index;

    if (request->limit.len == 0 ||
        find_member(policy, request, scope).len > 0 ||
        (index = sl_policy_rule(policy, request->limit)) < 0)
        return (struct sl_str){NULL, 0};
    rule = &policy->rules[index];
    for (unsigned i = 0; i < rule->per_count; i++)
        if (is_key_of(policy, request, rule, i, scope))
            return i < request->key_count ? request->keys[i] : request->key;
    return (struct sl_str){NULL, 0};
}

struct sl_str sl_request_given(const struct sl_policy *policy,
                               const struct sl_request *request, unsigned scope)
{
    struct sl_str given = find_member(policy, request, scope);

    return given.len > 0 ? given : sl_request_keyed(policy, request, scope);
}

/* A text that is not an address counts as "unknown", so that a client cannot
 * make up keys. */
struct sl_str sl_identify_ip(const struct sl_policy *policy, struct sl_str text,
                             char out[SL_IP_TEXT + 5])
{
    unsigned prefix = policy->identity.ipv6_prefix;
    struct sl_ip ip;
    size_t len;

    if (sl_ip_is_plain_v4(text)) { /* most are: nothing to rewrite */
        memcpy(out, text.at, text.len);
        return (struct sl_str){out, text.len};
    }
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

struct sl_str sl_ip_key_address(struct sl_str key)
{
    const char *slash = key.len > 0 ? memchr(key.at, '/', key.len) : NULL;

    return slash ? (struct sl_str){key.at, (size_t)(slash - key.at)} : key;
}

bool sl_identify_net(const struct sl_policy *policy, struct sl_str text,
                     struct sl_net *ret)
{
    struct sl_ip ip;

    if (sl_ip_key_address(text).len < text.len) {
        if (!sl_net_parse(text, ret))
            return false;
        if (ret->bits >= 96)
            ret->ip = sl_ip_untranslated(&ret->ip);
        return true;
    }
    if (!sl_ip_parse(text, &ip))
        return false;
    ip = sl_ip_untranslated(&ip);
    *ret =
        sl_net_of(&ip, sl_ip_is_v4(&ip) ? 128 : policy->identity.ipv6_prefix);
    return true;
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

/* Does no scope have a name? An address is not a name. */
static bool is_anonymous(const struct sl_identity *identity,
                         const struct sl_str *values)
{
    for (unsigned s = SL_SCOPE_NAMED; s < identity->scope_count; s++)
        if (values[s].len > 0)
            return false;
    return values[SL_SCOPE_USER].len == 0 && values[SL_SCOPE_ORG].len == 0;
}

/* Limits are kept by the name that an alias stands for. */
static void resolve(struct sl_str *value, const struct sl_subject *subject)
{
    if (is_known(subject))
        *value = subject->id;
}

void sl_identify(const struct sl_policy *policy,
                 const struct sl_request *request,
                 const struct sl_auth_info *known, struct sl_caller *ret)
{
    const struct sl_identity *identity = &policy->identity;
    const struct asked asked = {request, known, ret};
    const struct sl_str none = {NULL, 0};
    struct sl_str *values = ret->values;

    memset(values, 0, sizeof(ret->values));
    ret->anonymous_id = (struct sl_str){NULL, 0};
    ret->roles = NULL;
    ret->role_count = 0;
    ret->plan_ended = false;
    for (unsigned s = 0; s < identity->scope_count; s++)
        if (sl_scope_is_name(s))
            values[s] = find_value(sl_request_given(policy, request, s),
                                   &identity->scopes[s], none, &asked);
    ret->plan =
        find_value(request->plan, &identity->plan, SL_STR("plan"), &asked);
    ret->role =
        find_value(request->role, &identity->role, SL_STR("role"), &asked);
    ret->anonymous = is_anonymous(identity, values);
    ret->unregistered =
        (values[SL_SCOPE_USER].len > 0 || values[SL_SCOPE_ORG].len > 0) &&
        ret->plan.len == 0 && !is_known(known->user) && !is_known(known->org) &&
        !known->subjects_failed;
    resolve(&values[SL_SCOPE_USER], known->user);
    resolve(&values[SL_SCOPE_ORG], known->org);
}

/* Adds a part and its length to a hash of several parts. */
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

/* A caller with a name could make up fingerprints by its headers, so it gets
 * its address. */
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

/* ---- cookies ---- */

/* Cuts the first item off "a=1; b=2". False if there is none left. */
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

/* ---- tokens.
 *
 * A token that was sent twice is a bad token: a proxy may have checked the one,
 * and the application may read the other.
 */

/* Does it have the scheme "Bearer"? *rest is what follows. */
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

/* Other schemes of Authorization are ignored. In a header of its own a token
 * needs no scheme. False if there is no token. */
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
    struct sl_str value;

    if (source->kind == SL_SOURCE_COOKIE) {
        *ret = sl_request_cookie(request, source->name, count);
        return ret->len > 0 || *count > 1;
    }
    value = sl_request_find(request, source->name, count);
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

/* Bad tokens count against the client's address. A proxy that does not name its
 * client has none: one client could lock out all others. */
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

const struct sl_subject *sl_auth_info_of(const struct sl_auth_info *known,
                                         unsigned scope)
{
    return scope == SL_SCOPE_USER  ? known->user
           : scope == SL_SCOPE_ORG ? known->org
                                   : NULL;
}

const struct sl_subject *sl_auth_info_blocked(const struct sl_auth_info *known,
                                              sl_ns now, const char **ret_of)
{
    const struct {
        const char *of;
        const struct sl_subject *subject;
    } all[] = {
        {"user", known->user},
        {"org",  known->org },
        {"ip",   known->ip  },
    };
    const struct sl_subject *last = NULL;

    for (unsigned i = 0; i < SL_LEN(all); i++) {
        const struct sl_subject *s = all[i].subject;

        if (!s || !sl_block_is_on(&s->block, now) ||
            (last && !sl_block_ends_later(&s->block, &last->block)))
            continue;
        last = s;
        *ret_of = all[i].of;
    }
    return last;
}

bool sl_auth_info_credits(const struct sl_auth_info *known)
{
    return (known->user && known->user->credit_count > 0) ||
           (known->org && known->org->credit_count > 0);
}

uint64_t sl_auth_info_credit(const struct sl_auth_info *known, unsigned scope,
                             struct sl_str limit, uint64_t count, sl_ns start,
                             sl_ns now)
{
    const struct sl_subject *s = sl_auth_info_of(known, scope);
    uint64_t units = 0, unused = 0, unpaid = 0;

    for (unsigned i = 0; s && i < s->credit_count; i++) {
        const struct sl_credit *c = &s->credits[i];

        if (!sl_str_eq(c->limit, limit))
            continue;
        if (c->start == SL_NS_NONE && !is_over(c->expires, now)) {
            unused = sl_add_sat(unused, c->units);
        } else if (c->start == start) {
            units = c->units;
            unpaid = sl_sub_floor(c->used, sl_add_sat(count, c->units));
        }
    }
    units = sl_add_sat(units, unused);
    if (unused > 0)
        units = sl_add_sat(units, unpaid);
    return units < SL_AMOUNT_MAX ? units : SL_AMOUNT_MAX;
}

/* ---- the caller, for the explanation.
 *
 * Names are cut. Without memory a name is missing.
 */

static void add(struct sl_decision *d, struct sl_str what, struct sl_str name)
{
    const char *copy;

    if (d->who_count == SL_LEN(d->who))
        return;
    if (name.len > SL_WHO_BYTES)
        name.len = SL_WHO_BYTES;
    copy = sl_arena_copy(&d->arena, name);
    if (copy)
        d->who[d->who_count++] = (struct sl_key_value){
            what, {copy, name.len}
        };
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
        add(d,
            identity->anonymous_is_ip ? SL_STR("anonymous, by ip")
                                      : SL_STR("anonymous, by fingerprint"),
            identity->anonymous_is_ip ? sl_caller_ip(caller, d->policy, request)
                                      : SL_STR(""));
    for (unsigned s = 0; s < identity->scope_count; s++)
        if (s != SL_SCOPE_IP && caller->values[s].len > 0)
            add(d, identity->scope_names[s], caller->values[s]);
    if (caller->role.len > 0)
        add(d, SL_STR("role"), caller->role);
}
