/* keys.h -- the keys of tokens, from the policy's secret or a file. */
#ifndef SL_EMBED_KEYS_H
#define SL_EMBED_KEYS_H

#include <sys/stat.h>

#include "identity/token_verifier.h"
#include "policy/policy.h"

struct sl_embed_keys {
    const struct sl_policy *policy;
    struct sl_jwks_current *current;
    struct sl_tokens *tokens; /* NULL: the policy accepts none */
    char *path;               /* of the file; NULL: a secret */
    size_t path_size;
    struct timespec changed;
    ino_t inode;
};

/* Opens the keys of a policy, which is borrowed. */
SL_MUST_USE int sl_embed_keys_open(struct sl_embed_keys *keys,
                                   const struct sl_policy *policy,
                                   struct sl_diag *diag);

/* 1: the file had changed and was read again; 0: it has not changed. */
SL_MUST_USE int sl_embed_keys_refresh(struct sl_embed_keys *keys,
                                      struct sl_diag *diag);

/* Zeros are allowed. */
void sl_embed_keys_close(struct sl_embed_keys *keys);

#endif
