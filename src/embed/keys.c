/* keys.c -- the keys of tokens, from the policy's secret or a file. */
#include "embed/keys.h"

#include <errno.h>
#include <string.h>

#include "server/jwt_keys_file.h"

static bool is_same_file(const struct sl_embed_keys *keys,
                         const struct stat *st)
{
    return keys->inode == st->st_ino &&
           keys->changed.tv_sec == st->st_mtim.tv_sec &&
           keys->changed.tv_nsec == st->st_mtim.tv_nsec;
}

static int read_keys(struct sl_embed_keys *keys, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &keys->policy->identity.jwt;
    struct sl_token_rules rules = sl_jwt_keys_rules(jwt);
    struct sl_keyset *set = NULL;
    int err = sl_jwt_keys_read(jwt, keys->path, &sl_alloc_libc, &set, diag);

    if (!err)
        err = sl_jwks_current_put(keys->current, set, &rules);
    sl_keyset_unref(set);
    return err;
}

static int open_keys(struct sl_embed_keys *keys, struct sl_diag *diag)
{
    const struct sl_jwt *jwt = &keys->policy->identity.jwt;
    struct sl_tokens_options options = {.alloc = &sl_alloc_libc};
    struct stat st;
    int err;

    if (sl_jwt_keys_in_file(jwt)) {
        keys->path = sl_jwt_keys_path(jwt, keys->policy->file.at,
                                      &sl_alloc_libc, &keys->path_size);
        if (!keys->path)
            return SLUICE_ENOMEM;
        if (stat(keys->path, &st) == 0) {
            keys->changed = st.st_mtim;
            keys->inode = st.st_ino;
        }
    }
    err = sl_jwks_current_open(&sl_alloc_libc, &keys->current);
    if (!err)
        err = read_keys(keys, diag);
    if (err)
        return err;
    options.keys = keys->current;
    return sl_tokens_open(&options, &keys->tokens, diag);
}

int sl_embed_keys_open(struct sl_embed_keys *keys,
                       const struct sl_policy *policy, struct sl_diag *diag)
{
    int err = 0;

    *keys = (struct sl_embed_keys){.policy = policy};
    if (policy->identity.jwt.written)
        err = open_keys(keys, diag);
    if (err)
        sl_embed_keys_close(keys);
    return err;
}

int sl_embed_keys_refresh(struct sl_embed_keys *keys, struct sl_diag *diag)
{
    struct stat st;
    int err;

    if (!keys->path)
        return 0;
    if (stat(keys->path, &st))
        return sl_diag_error(diag, SLUICE_ESYS, "identity.jwt.jwks: %s: %s",
                             keys->path, strerror(errno));
    if (is_same_file(keys, &st))
        return 0;
    keys->changed = st.st_mtim;
    keys->inode = st.st_ino;
    err = read_keys(keys, diag);
    return err ? err : 1;
}

void sl_embed_keys_close(struct sl_embed_keys *keys)
{
    sl_tokens_close(keys->tokens);
    sl_jwks_current_close(keys->current);
    sl_alloc_free(&sl_alloc_libc, keys->path, keys->path_size);
    *keys = (struct sl_embed_keys){.policy = NULL};
}
