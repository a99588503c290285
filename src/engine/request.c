/* request.c -- which members of a request a policy can use; request ids. */
#include "engine/request.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/joined.h"
#include "engine/engine_int.h"

static bool names(const struct sl_sources *sources, struct sl_str header)
{
    for (unsigned i = 0; i < sources->count; i++) {
        const struct sl_source *source = &sources->list[i];

        if (source->kind == SL_SOURCE_HEADER &&
            sl_str_eq_nocase(source->name, header))
            return true;
        if (source->kind == SL_SOURCE_COOKIE &&
            sl_str_eq_nocase(SL_STR("cookie"), header))
            return true;
    }
    return false;
}

bool sl_request_wanted(const struct sl_policy *policy, struct sl_str header)
{
    static const struct sl_str always[] = {
        {"x-request-id",                  12},
        {"origin",                        6 },
        {"access-control-request-method", 29},
    };
    const struct sl_identity *identity = &policy->identity;

    for (size_t i = 0; i < SL_LEN(always); i++)
        if (sl_str_eq_nocase(always[i], header))
            return true;
    for (unsigned s = 0; s < identity->scope_count; s++)
        if (names(&identity->scopes[s], header))
            return true;
    for (const struct sl_prechecks *g = policy->guarded; g; g = g->next)
        if (sl_prechecks_read(g, header))
            return true;
    for (const struct sl_conditions *n = policy->conditions; n; n = n->next)
        for (unsigned i = 0; i < n->count; i++)
            if (n->list[i].of == SL_CONDITION_HEADER &&
                sl_str_eq_nocase(n->list[i].name, header))
                return true;
    return names(&identity->plan, header) || names(&identity->role, header) ||
           names(&identity->anonymous, header) ||
           names(&identity->jwt.from, header);
}

/* The limit with the most similar name, or NULL. */
static const struct sl_rule *nearest(const struct sl_policy *policy,
                                     struct sl_str typo)
{
    const struct sl_rule *best = NULL;
    unsigned least = UINT32_MAX;

    for (unsigned i = 0; i < policy->rule_count; i++) {
        const struct sl_rule *rule = &policy->rules[i];
        unsigned far = sl_str_distance(typo, rule->name, 3);

        if (far < least && sl_str_nearest(typo, &rule->name.at, 1)) {
            least = far;
            best = rule;
        }
    }
    return best;
}

static int check_name(const struct sl_policy *policy, struct sl_str name,
                      struct sl_diag *diag)
{
    const struct sl_rule *meant;

    if (sl_policy_rule(policy, name) >= 0)
        return 0;
    meant = nearest(policy, name);
    if (meant)
        return sl_diag_error(diag, SLUICE_ENOENT,
                             "the policy has no limit \"%.*s\"; did you mean "
                             "\"%.*s\"?",
                             SL_STR_ARG(name), SL_STR_ARG(meant->name));
    return sl_diag_error(diag, SLUICE_ENOENT,
                         "the policy has no limit \"%.*s\"", SL_STR_ARG(name));
}

/* ---- the key of a limit with several `per` ---- */

/* The limit that the request names, if its key has several values. */
static const struct sl_rule *find_joined(const struct sl_policy *policy,
                                         const struct sl_request *request)
{
    int index = request->limit.len > 0 && request->key_count == 0
                    ? sl_policy_rule(policy, request->limit)
                    : -1;

    return index >= 0 && policy->rules[index].per_count > 1
               ? &policy->rules[index]
               : NULL;
}

static int refuse_key(const struct sl_policy *policy,
                      const struct sl_rule *rule, struct sl_diag *diag)
{
    char per[96] = "";
    size_t len = 0;

    for (unsigned i = 0; i < rule->per_count && len < sizeof(per); i++)
        len += (size_t)snprintf(
            per + len, sizeof(per) - len, "%s%.*s", i > 0 ? ":" : "",
            SL_STR_ARG(policy->identity.scope_names[rule->per[i]]));
    return sl_diag_error(diag, SLUICE_EINVAL,
                         "limit \"%.*s\" has %u `per` values; write its key "
                         "as %s, with %%3A for a ':' and %%25 for a '%%' "
                         "inside a value",
                         SL_STR_ARG(rule->name), rule->per_count, per);
}

/* Cuts the key into values, which stay escaped. */
static int cut_key(const struct sl_policy *policy, const struct sl_rule *rule,
                   struct sl_str key, struct sl_str ret[SL_PER_MAX],
                   struct sl_diag *diag)
{
    if (!sl_str_cut_values(key, rule->per_count, ret))
        return refuse_key(policy, rule, diag);
    for (unsigned i = 0; i < rule->per_count; i++)
        if (ret[i].len == 0)
            return refuse_key(policy, rule, diag);
    return 0;
}

int sl_request_split(const struct sl_policy *policy,
                     const struct sl_request *request, struct sl_arena *arena,
                     struct sl_split_request *ret, struct sl_diag *diag)
{
    const struct sl_rule *rule = find_joined(policy, request);
    char *text;
    int err;

    ret->request = NULL;
    if (!rule)
        return 0;
    err = cut_key(policy, rule, request->key, ret->keys, diag);
    if (err)
        return err;
    text = sl_arena_take(arena, request->key.len + 1);
    if (!text)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    for (unsigned i = 0; i < rule->per_count; i++)
        ret->keys[i] = sl_str_unescape(
            ret->keys[i], text + (ret->keys[i].at - request->key.at));
    ret->copy = *request;
    ret->copy.keys = ret->keys;
    ret->copy.key_count = rule->per_count;
    ret->request = &ret->copy;
    return 0;
}

int sl_request_check(const struct sl_policy *policy,
                     const struct sl_request *request, struct sl_diag *diag)
{
    const struct sl_rule *joined = find_joined(policy, request);
    struct sl_str keys[SL_PER_MAX];
    int err = joined ? cut_key(policy, joined, request->key, keys, diag) : 0;

    for (unsigned i = 0; !err && i < request->cost_count; i++)
        err = check_name(policy, request->costs[i].limit, diag);
    for (unsigned i = 0; !err && i < request->override_count; i++)
        err = check_name(policy, request->overrides[i].limit, diag);
    return err;
}

/* ---- request ids ---- */

static bool is_clean(struct sl_str id)
{
    if (id.len == 0 || id.len > SL_REQUEST_ID)
        return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || (c && strchr("-_.:=+/@~", c))))
            return false;
    }
    return true;
}

/* A new id is unpredictable, and needs no system call. */
static void make_id(struct sl_decision *d, const struct sl_hash_key *secret)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    static _Thread_local uint64_t made;
    uint64_t seed[3] = {++made, (uint64_t)d->now, (uintptr_t)&made};
    struct sl_hash128 h =
        sl_hash128(secret, (struct sl_str){(const char *)seed, sizeof(seed)});
    char *at = d->request_id;

    memcpy(at, "req_", 4);
    at += 4;
    for (int i = 0; i < 12; i++)
        *at++ = digits[h.lo >> (5 * i) & 31];
    for (int i = 0; i < 12; i++)
        *at++ = digits[h.hi >> (5 * i) & 31];
    *at = '\0';
}

void sl_decision_choose_id(struct sl_decision *d,
                           const struct sl_request *request,
                           const struct sl_hash_key *secret)
{
    struct sl_str id = request->request_id;

    if (id.len == 0)
        id = sl_request_header(request, SL_STR("x-request-id"));
    if (!is_clean(id)) {
        make_id(d, secret);
        return;
    }
    memcpy(d->request_id, id.at, id.len);
    d->request_id[id.len] = '\0';
}
