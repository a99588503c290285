/* fixtures.c -- tokens, holds, subjects and usage of a flow. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "cli/flow/flow.h"
#include "identity/token_verifier.h"
#include "identity/webhook.h"
#include "libpolicy/libpolicy.h"
#include "server/jwt_keys_file.h"

#define TOKEN_BYTES                                                            \
    ((size_t)64 << 10) /* large enough for a test of the                       \
                        * maximum */

/* ---- tokens: the verifier ---- */

static int read_keys(const struct sl_jwt *jwt, const char *path,
                     struct sl_keyset **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc = &sl_alloc_libc;
    size_t size = 0;
    char *file = NULL;
    int err;

    if (sl_jwt_keys_elsewhere(jwt))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "the keys of this policy are at a URL, and this command does not "
            "fetch URLs; use a policy with keys in a file");
    if (sl_jwt_keys_in_file(jwt)) {
        file = sl_jwt_keys_path(jwt, path, alloc, &size);
        if (!file)
            return SLUICE_ENOMEM;
    }
    err = sl_jwt_keys_read(jwt, file, alloc, ret, diag);
    sl_alloc_free(alloc, file, size);
    return err;
}

static int open_tokens(struct sl_flow_tokens *t, const struct sl_jwt *jwt,
                       struct sl_keyset *set)
{
    struct sl_token_rules rules = sl_jwt_keys_rules(jwt);
    struct sl_tokens_options options = {.alloc = &sl_alloc_libc};
    int err = sl_jwks_current_open(&sl_alloc_libc, &t->keys);

    if (!err)
        err = sl_jwks_current_put(t->keys, set, &rules);
    options.keys = t->keys;
    return err ? err : sl_tokens_open(&options, &t->tokens, &t->why);
}

int sl_flow_tokens_open(struct sl_flow_tokens *t, struct sluice_engine *engine,
                        const struct sluice_policy *policy, const char *path)
{
    const struct sl_jwt *jwt = &sl_libpolicy_policy(policy)->identity.jwt;
    struct sl_keyset *set = NULL;
    int err;

    sl_libpolicy_tokens(engine, NULL);
    sl_libpolicy_webhooks(engine, sl_webhook_verify);
    sl_flow_tokens_close(t);
    if (!jwt->written)
        return 0;
    err = read_keys(jwt, path, &set, &t->why);
    if (err)
        return err == SLUICE_ENOMEM ? err : 0;
    err = open_tokens(t, jwt, set);
    sl_keyset_unref(set);
    if (!err)
        sl_libpolicy_tokens(engine, t->tokens);
    return err;
}

void sl_flow_tokens_close(struct sl_flow_tokens *t)
{
    sl_tokens_close(t->tokens);
    sl_jwks_current_close(t->keys);
    *t = (struct sl_flow_tokens){.keys = NULL};
}

/* ---- tokens: the header of a request ---- */

static int read_token(const char *path, struct sl_buf *out,
                      struct sl_diag *diag)
{
    int err = sl_file_read(path, TOKEN_BYTES, out, diag);

    if (err)
        return err == SLUICE_ENOMEM ? err : SLUICE_ECONF;
    while (out->len > 0 && strchr("\r\n \t", out->bytes[out->len - 1]))
        out->len--;
    if (out->len == 0 || memchr(out->bytes, '\0', out->len) ||
        memchr(out->bytes, '\n', out->len))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "%s: a token must be one line of text", path);
    return 0;
}

/* "Cookie: NAME=TOKEN", "Authorization: Bearer TOKEN" or "NAME: TOKEN". */
static int write_header(const struct sl_source *source, struct sl_str token,
                        struct sl_arena *arena, struct sluice_header *ret)
{
    bool cookie = source->kind == SL_SOURCE_COOKIE;
    bool shared = sl_str_eq(source->name, SL_STR("authorization"));
    size_t size = source->name.len + token.len + sizeof("Bearer =");
    char *value = sl_arena_take(arena, size);

    ret->name = cookie ? "cookie" : sl_arena_copy(arena, source->name);
    ret->value = value;
    if (!value || !ret->name)
        return SLUICE_ENOMEM;
    snprintf(value, size, "%.*s%s%s%.*s",
             cookie ? sl_str_int(source->name.len) : 0, source->name.at,
             cookie ? "=" : "", shared && !cookie ? "Bearer " : "",
             SL_STR_ARG(token));
    return 0;
}

static int make_header(const struct sl_source *source, const char *path,
                       struct sl_arena *arena, struct sluice_header *ret,
                       struct sl_diag *diag)
{
    struct sl_buf text;
    int err;

    sl_buf_init(&text, TOKEN_BYTES + 1, &sl_alloc_libc);
    err = read_token(path, &text, diag);
    if (!err)
        err = write_header(source, sl_buf_str(&text), arena, ret);
    sl_buf_done(&text);
    return err;
}

int sl_flow_bearer(const char *path, struct sl_arena *arena,
                   struct sluice_header *ret, struct sl_diag *diag)
{
    static const struct sl_source bearer = {
        .kind = SL_SOURCE_HEADER, .name = {"authorization", 13}
    };

    return make_header(&bearer, path, arena, ret, diag);
}

int sl_flow_tokens_header(const struct sl_flow_tokens *t,
                          const struct sluice_policy *policy, const char *path,
                          struct sl_arena *arena, struct sluice_header *ret,
                          struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &sl_libpolicy_policy(policy)->identity.jwt;

    if (!jwt->written)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "token=: the policy does not accept tokens; it has no "
            "identity.jwt");
    if (!t->tokens)
        return sl_diag_error(diag, SLUICE_ECONF, "token=: %s", t->why.sentence);
    return make_header(&jwt->from.list[0], path, arena, ret, diag);
}

/* ---- holds: settle, release, extend, and their expectations ----
 *
 * The outcome is `ok` if the act changed the hold. Otherwise it is the state of
 * the hold: settled, released, expired, held or unknown.
 */

static struct sl_flow_hold *find(const struct sl_flow_holds *holds,
                                 const char *name)
{
    struct sl_flow_hold *hold = holds->list;

    while (hold && strcmp(hold->name, name) != 0)
        hold = hold->next;
    return hold;
}

const struct sl_flow_hold *sl_flow_holds_find(const struct sl_flow_holds *holds,
                                              const char *name)
{
    return find(holds, name);
}

int sl_flow_holds_set(struct sl_flow_holds *holds, const char *name,
                      const char *own, const char *remote)
{
    struct sl_flow_hold *hold = find(holds, name);

    if (!hold) {
        hold = sl_arena_take(holds->arena, sizeof(*hold));
        if (!hold)
            return SLUICE_ENOMEM;
        *hold = (struct sl_flow_hold){.name = name, .next = holds->list};
        holds->list = hold;
    }
    hold->own = sl_arena_copy(holds->arena, sl_str_c(own));
    hold->remote =
        remote ? sl_arena_copy(holds->arena, sl_str_c(remote)) : NULL;
    return hold->own && (hold->remote || !remote) ? 0 : SLUICE_ENOMEM;
}

int sl_flow_holds_end(struct sluice_engine *engine,
                      const struct sl_flow_hold *hold,
                      const struct sl_flow_act *act, struct sluice_ended *ended,
                      bool *ret_known)
{
    const struct sluice_request *in = &act->in->request;
    struct sluice_actual actual = {
        .has_cost = in->has_cost,
        .cost = in->cost,
        .costs = in->costs,
        .cost_count = in->cost_count,
    };
    int err;

    if (act->kind == SL_FLOW_ACT_SETTLE)
        err = sluice_engine_settle(engine, hold->own, &actual, ended);
    else if (act->kind == SL_FLOW_ACT_RELEASE)
        err = sluice_engine_release(engine, hold->own, ended);
    else
        err = sluice_engine_extend(engine, hold->own, in->hold_ns, ended);
    *ret_known = err != SLUICE_ENOENT;
    return err == SLUICE_ENOENT ? 0 : err;
}

/* Compare one field. *ret_got is its text; NULL: out of memory. */
static bool is_right(const struct sl_expect *e, struct sluice_ended *ended,
                     bool known, struct sl_arena *arena, const char **ret_got)
{
    const char *state = known ? sluice_ended_state(ended) : "unknown";
    bool done = known && !sluice_ended_again(ended);
    const char *json;
    int err = 0;

    if (e->field == SL_FIELD_OUTCOME) {
        *ret_got = done ? "ok" : state;
        return strcmp(e->want, *ret_got) == 0;
    }
    if (e->field == SL_FIELD_STATUS) {
        *ret_got = known ? "200" : "404";
        return e->number == (known ? 200u : 404u);
    }
    json = known ? sluice_ended_json(ended) : "{}";
    *ret_got = json ? sl_flow_body_field(json, e->name, arena, &err) : NULL;
    if (!json || err)
        return false;
    if (!*ret_got)
        *ret_got = "none";
    return strcmp(e->want, *ret_got) == 0;
}

int sl_flow_holds_compare(const struct sl_flow_act *act,
                          struct sluice_ended *ended, bool known,
                          struct sl_arena *arena, struct sl_flow_mismatch **ret)
{
    for (size_t i = 0; i < act->expect_count; i++) {
        const struct sl_expect *e = &act->expects[i];
        struct sl_flow_mismatch *miss;
        const char *got = NULL;

        if (is_right(e, ended, known, arena, &got))
            continue;
        miss = sl_arena_take(arena, sizeof(*miss));
        if (!miss || !got)
            return SLUICE_ENOMEM;
        *miss = (struct sl_flow_mismatch){
            .label = e->label, .want = e->want, .got = got};
        *ret = miss;
        ret = &miss->next;
    }
    return 0;
}

/* ---- subjects ----
 *
 * A list, searched in O(n): a flow has a few subjects.
 */

static struct sl_flow_subject *
subjects_find(const struct sl_flow_subjects *subjects, const char *scope,
              const char *id)
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
    struct sl_flow_subject *s =
        subjects_find(subjects, act->names[0], act->names[1]);

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
    if (request->user && (s = subjects_find(subjects, "user", request->user)))
        request->user_subject = &s->subject;
    if (request->org && (s = subjects_find(subjects, "org", request->org)))
        request->org_subject = &s->subject;
}

/* ---- `usage SCOPE ID LIMIT AMOUNT`: report usage ---- */

/* A negative amount is a refund. */
int sl_usage_fill(const struct sl_flow_act *act, struct sluice_request *ret,
                  struct sl_diag *diag)
{
    const char *scope = act->names[0], *amount = act->names[3];

    *ret = (struct sluice_request){.limit = act->names[2],
                                   .key = act->names[1],
                                   .plan = act->in->request.plan,
                                   .trusted = 1,
                                   .has_cost = 1,
                                   .used = amount[0] == '-' ? -1 : 1};
    if (strcmp(scope, "user") == 0)
        ret->user = ret->key;
    else if (strcmp(scope, "org") == 0)
        ret->org = ret->key;
    else
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "usage is reported for user or org, not for \"%s\"", scope);
    return sl_parse_count(sl_str_c(amount + (ret->used < 0)), &ret->cost, diag);
}
