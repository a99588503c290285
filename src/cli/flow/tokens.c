/* tokens.c -- the tokens of a flow. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/flow/flow.h"
#include "identity/token_verifier.h"
#include "identity/webhook.h"
#include "libpolicy/libpolicy.h"
#include "server/jwt_keys_file.h"

#define TOKEN_BYTES ((size_t)64 << 10) /* above the maximum of a token */

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
    const struct sl_jwt *jwt = &policy->policy->identity.jwt;
    struct sl_keyset *set = NULL;
    int err;

    engine->ctx.tokens = NULL;
    engine->ctx.webhook = sl_webhook_verify;
    sl_flow_tokens_close(t);
    if (!jwt->written)
        return 0;
    err = read_keys(jwt, path, &set, &t->why);
    if (err)
        return err == SLUICE_ENOMEM ? err : 0;
    err = open_tokens(t, jwt, set);
    sl_keyset_unref(set);
    if (!err)
        engine->ctx.tokens = t->tokens;
    return err;
}

void sl_flow_tokens_close(struct sl_flow_tokens *t)
{
    sl_tokens_close(t->tokens);
    sl_jwks_current_close(t->keys);
    *t = (struct sl_flow_tokens){.keys = NULL};
}

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

int sl_flow_tokens_add(const struct sl_flow_tokens *t,
                       const struct sluice_policy *policy, const char *path,
                       struct sl_inputs *in, struct sl_arena *arena,
                       struct sl_diag *diag)
{
    static const struct sl_source bearer = {
        .kind = SL_SOURCE_HEADER, .name = {"authorization", 13}
    };
    const struct sl_jwt *jwt = t ? &policy->policy->identity.jwt : NULL;
    struct sluice_header header;
    struct sl_buf text;
    int err;

    if (t && !jwt->written)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "token=: the policy does not accept tokens; it has no "
            "identity.jwt");
    if (t && !t->tokens)
        return sl_diag_error(diag, SLUICE_ECONF, "token=: %s", t->why.sentence);
    sl_buf_init(&text, TOKEN_BYTES + 1, &sl_alloc_libc);
    err = read_token(path, &text, diag);
    if (!err)
        err = write_header(t ? &jwt->from.list[0] : &bearer, sl_buf_str(&text),
                           arena, &header);
    if (!err)
        err = sl_inputs_header(in, &header, arena);
    sl_buf_done(&text);
    return err;
}
