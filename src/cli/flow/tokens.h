/* tokens.h -- token=FILE: the token of a request, and who verifies it here.
 *
 * The engine that runs in this process verifies tokens by the keys that the
 * policy has at hand. Keys at a URL are not fetched.
 */
#ifndef SL_FLOW_TOKENS_H
#define SL_FLOW_TOKENS_H

#include "base/arena.h"
#include "base/diag.h"
#include "sluice_policy.h"

struct sl_jwks_current;
struct sl_tokens;

/* Zeros are good: nobody verifies. */
struct sl_flow_tokens {
    struct sl_jwks_current *keys;
    struct sl_tokens *tokens;
    struct sl_diag why; /* there are no keys; "" if none are asked for */
};

/* Let `engine` believe webhooks, and the tokens of its policy, which was read
 * from `path`. What was open before is closed. If the keys can't be read, that
 * is said when the first token comes: see below. SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_tokens_open(struct sl_flow_tokens *tokens,
                                    struct sluice_engine *engine,
                                    const struct sluice_policy *policy,
                                    const char *path);
void sl_flow_tokens_close(struct sl_flow_tokens *tokens);

/* The header that brings the token in the file `path` to where the policy
 * looks first; its texts live in `arena`. SLUICE_ECONF, with a sentence, if
 * that can't be done. */
SL_MUST_USE int sl_flow_tokens_header(const struct sl_flow_tokens *tokens,
                                      const struct sluice_policy *policy,
                                      const char *path, struct sl_arena *arena,
                                      struct sluice_header *ret,
                                      struct sl_diag *diag);

/* The same where the policy is not known: Authorization: Bearer TOKEN. */
SL_MUST_USE int sl_flow_bearer(const char *path, struct sl_arena *arena,
                               struct sluice_header *ret, struct sl_diag *diag);

#endif
