/* jwt_keys_file.c -- keys from the policy's secret or from a key set file. */
#include "server/jwt_keys_file.h"

#include <string.h>

#include "base/buf.h"
#include "identity/jwt.h"

#define PREFIX "file:"

bool sl_jwt_keys_in_file(const struct sl_jwt *jwt)
{
    return jwt->jwks.len > strlen(PREFIX) &&
           memcmp(jwt->jwks.at, PREFIX, strlen(PREFIX)) == 0;
}

bool sl_jwt_keys_elsewhere(const struct sl_jwt *jwt)
{
    return jwt->jwks.len > 0 && !sl_jwt_keys_in_file(jwt);
}

struct sl_token_rules sl_jwt_keys_rules(const struct sl_jwt *jwt)
{
    return (struct sl_token_rules){
        .algorithms = jwt->algorithms,
        .issuer = jwt->issuer,
        .audiences = jwt->audiences,
        .audience_count = jwt->audience_count,
        .leeway = jwt->leeway,
        .needs_no_expiry = jwt->expiry_optional,
    };
}

char *sl_jwt_keys_path(const struct sl_jwt *jwt, const char *policy_path,
                       const struct sl_alloc *alloc, size_t *size)
{
    struct sl_str path = sl_str_from(jwt->jwks, strlen(PREFIX));
    const char *slash = policy_path ? strrchr(policy_path, '/') : NULL;
    bool is_absolute = path.len > 0 && path.at[0] == '/';
    size_t folder =
        slash && !is_absolute ? (size_t)(slash - policy_path) + 1 : 0;
    char *whole = sl_alloc_new(alloc, folder + path.len + 1);

    SL_HOLDS(path.at);
    if (!whole)
        return NULL;
    *size = folder + path.len + 1;
    if (folder)
        memcpy(whole, policy_path, folder);
    memcpy(whole + folder, path.at, path.len);
    whole[*size - 1] = '\0';
    return whole;
}

static int read_file(const struct sl_jwt *jwt, const char *path,
                     const struct sl_alloc *alloc, struct sl_keyset **ret,
                     struct sl_diag *diag)
{
    struct sl_diag why = {.sentence = ""};
    struct sl_buf text;
    int err;

    sl_buf_init(&text, SL_KEYSET_BYTES + 1, alloc);
    err = sl_file_read(path, SL_KEYSET_BYTES, &text, &why);
    if (err == SLUICE_EFULL)
        err = SLUICE_ESYS;
    if (err)
        sl_diag_error(diag, err, "identity.jwt.jwks: %s", why.sentence);
    else
        err = sl_keyset_read(sl_buf_str(&text), jwt->algorithms, alloc, ret,
                             &why);
    if (err == SLUICE_ECONF)
        sl_diag_error(diag, err, "identity.jwt.jwks: %s: %s", path,
                      why.sentence);
    sl_buf_done(&text);
    return err;
}

int sl_jwt_keys_read(const struct sl_jwt *jwt, const char *path,
                     const struct sl_alloc *alloc, struct sl_keyset **ret,
                     struct sl_diag *diag)
{
    struct sl_diag why = {.sentence = ""};
    int err;

    if (jwt->secret.len == 0)
        return read_file(jwt, path, alloc, ret, diag);
    err = sl_keyset_secret(jwt->secret, jwt->algorithms, alloc, ret, &why);
    if (err)
        sl_diag_error(diag, err, "identity.jwt.secret: %s", why.sentence);
    return err;
}
