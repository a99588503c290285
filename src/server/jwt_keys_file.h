/* jwt_keys_file.h -- the keys of tokens that a policy has at hand: its secret,
 * or those of a file. A library of its own, as keys stand on OpenSSL.
 */
#ifndef SL_SERVER_JWT_KEYS_FILE_H
#define SL_SERVER_JWT_KEYS_FILE_H

#include "identity/jwt.h"
#include "policy/policy.h"

/* Where they are; neither for a secret. */
bool sl_jwt_keys_in_file(const struct sl_jwt *jwt);
bool sl_jwt_keys_elsewhere(const struct sl_jwt *jwt); /* a URL */

/* Which tokens are believed. The texts are the policy's. */
struct sl_token_rules sl_jwt_keys_rules(const struct sl_jwt *jwt);

/* The path of the file with the keys, as seen from the working folder, in
 * *size bytes with its NUL: it is relative to the folder of `policy_path` (NULL
 * is the working folder). NULL without memory. */
char *sl_jwt_keys_path(const struct sl_jwt *jwt, const char *policy_path,
                       const struct sl_alloc *alloc, size_t *size);

/* Read them: the secret, or the file at `path`. SLUICE_ESYS if it can't be
 * read, SLUICE_ECONF if that are no keys, SLUICE_ENOMEM. */
SL_MUST_USE int sl_jwt_keys_read(const struct sl_jwt *jwt, const char *path,
                                 const struct sl_alloc *alloc,
                                 struct sl_keyset **ret, struct sl_diag *diag);

#endif
