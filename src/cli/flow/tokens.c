/* tokens.c -- token=FILE: the token of a request, and who verifies it here. */
#include "cli/flow/tokens.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "doors/library/library.h"
#include "doors/local_keys.h"
#include "identity/tokens.h"
#include "identity/webhook.h"

#define TOKEN_BYTES ((size_t)64 << 10) /* too large ones are worth a test */

/* ---- who verifies ---- */

static int read_keys(const struct sl_jwt *jwt, const char *path,
                     struct sl_keyset **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc = &sl_alloc_libc;
    size_t size = 0;
    char *file = NULL;
    int err;

    if (sl_keys_elsewhere(jwt))
        return sl_refuse(
            diag, SLUICE_ECONF,
            "the keys of this policy are at a URL, and this command does not "
            "fetch URLs; use a policy with keys in a file");
    if (sl_keys_in_file(jwt)) {
        file = sl_keys_path(jwt, path, alloc, &size);
        if (!file)
            return SLUICE_ENOMEM;
    }
    err = sl_keys_read(jwt, file, alloc, ret, diag);
    sl_alloc_free(alloc, file, size);
    return err;
}

static int open_tokens(struct sl_flow_tokens *t, const struct sl_jwt *jwt,
                       struct sl_keyset *set)
{
    struct sl_token_rules rules = sl_keys_rules(jwt);
    struct sl_tokens_options options = {.alloc = &sl_alloc_libc};
    int err = sl_keys_open(&sl_alloc_libc, &t->keys);

    if (!err)
        err = sl_keys_put(t->keys, set, &rules);
    options.keys = t->keys;
    return err ? err : sl_tokens_open(&options, &t->tokens, &t->why);
}

int sl_flow_tokens_open(struct sl_flow_tokens *t, struct sluice_engine *engine,
                        const struct sluice_policy *policy, const char *path)
{
    const struct sl_jwt *jwt = &sl_library_policy(policy)->identity.jwt;
    struct sl_keyset *set = NULL;
    int err;

    sl_library_tokens(engine, NULL);
    sl_library_webhooks(engine, sl_webhook_verify);
    sl_flow_tokens_close(t);
    if (!jwt->written)
        return 0;
    err = read_keys(jwt, path, &set, &t->why);
    if (err)
        return err == SLUICE_ENOMEM ? err : 0;
    err = open_tokens(t, jwt, set);
    sl_keyset_unref(set);
    if (!err)
        sl_library_tokens(engine, t->tokens);
    return err;
}

void sl_flow_tokens_close(struct sl_flow_tokens *t)
{
    sl_tokens_close(t->tokens);
    sl_keys_close(t->keys);
    *t = (struct sl_flow_tokens){.keys = NULL};
}

/* ---- a token ---- */

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
        return sl_refuse(diag, SLUICE_ECONF,
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

static int bring(const struct sl_source *source, const char *path,
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
    static const struct sl_source usual = {
        .kind = SL_SOURCE_HEADER, .name = {"authorization", 13}
    };

    return bring(&usual, path, arena, ret, diag);
}

int sl_flow_tokens_header(const struct sl_flow_tokens *t,
                          const struct sluice_policy *policy, const char *path,
                          struct sl_arena *arena, struct sluice_header *ret,
                          struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &sl_library_policy(policy)->identity.jwt;

    if (!jwt->written)
        return sl_refuse(diag, SLUICE_ECONF,
                         "token=: the policy does not accept tokens; it has no "
                         "identity.jwt");
    if (!t->tokens)
        return sl_refuse(diag, SLUICE_ECONF, "token=: %s", t->why.sentence);
    return bring(&jwt->from.list[0], path, arena, ret, diag);
}
