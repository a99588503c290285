/* jwt_keys_file.h -- keys from the policy's secret or from a key set file. This
 * is a separate library, because keys need OpenSSL.
 */
#ifndef SL_SERVER_JWT_KEYS_FILE_H
#define SL_SERVER_JWT_KEYS_FILE_H

#include "identity/jwt.h"
#include "policy/policy.h"

/* Are the keys in a file, or at a URL? Neither is true for a secret. */
bool sl_jwt_keys_in_file(const struct sl_jwt *jwt);
bool sl_jwt_keys_elsewhere(const struct sl_jwt *jwt);

/* Returns the rules for valid tokens. The texts belong to the policy. */
struct sl_token_rules sl_jwt_keys_rules(const struct sl_jwt *jwt);

/* Returns the path of the key file in *size bytes with its NUL. A relative path
 * of the policy starts in the folder of `policy_path` (NULL: the working
 * folder). Returns NULL without memory. */
char *sl_jwt_keys_path(const struct sl_jwt *jwt, const char *policy_path,
                       const struct sl_alloc *alloc, size_t *size);

/* Read the secret, or the file at `path`. Returns SLUICE_ESYS if the file
 * cannot be read, SLUICE_ECONF if it is not a valid key set, SLUICE_ENOMEM. */
SL_MUST_USE int sl_jwt_keys_read(const struct sl_jwt *jwt, const char *path,
                                 const struct sl_alloc *alloc,
                                 struct sl_keyset **ret, struct sl_diag *diag);

#endif
