/* tokens.h -- verified tokens of one thread, remembered until they expire.
 *
 * A signature costs more than all else of a decision. A token that was good a
 * moment ago is known by its digest; one that was bad is verified again, but
 * whoever sends many bad ones from one address has to wait before the next
 * signature is checked (the check of his good ones that are remembered costs
 * nothing and goes on).
 *
 * Keys and rules come from keys.h, which all threads share, and change while
 * tokens are verified: what was remembered under other keys is forgotten.
 */
#ifndef SL_TOKENS_H
#define SL_TOKENS_H

#include "base/hash.h"
#include "identity/jwt.h"
#include "identity/keys.h"

struct sl_tokens_options {
    struct sl_jwks_current *keys; /* borrowed, outlives it */
    unsigned remembered;          /* tokens; 0: 4096 */
    unsigned bad_per_minute;      /* from one address; 0: 60, in bursts of 20 */
    const struct sl_alloc *alloc;
};

/* `remembered` of the `good` ones cost no check of a signature. */
struct sl_tokens_stats {
    uint64_t good, remembered, bad[SL_TOKEN_ERRORS];
};

SL_MUST_USE int sl_tokens_open(const struct sl_tokens_options *options,
                               struct sl_tokens **ret, struct sl_diag *diag);
void sl_tokens_close(struct sl_tokens *tokens); /* NULL is allowed */
const struct sl_tokens_stats *sl_tokens_stats(const struct sl_tokens *tokens);

#endif
