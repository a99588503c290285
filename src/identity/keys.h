/* keys.h -- the keys in force, shared by all threads and changed by one.
 *
 * Whoever fetches keys puts a new set in; whoever verifies sees by one atomic
 * read that there is another one and only then takes the lock. An unknown key
 * id leaves a wish, of which there is one at a time however many ask.
 */
#ifndef SL_KEYS_H
#define SL_KEYS_H

#include <stdatomic.h>

#include "identity/jwt.h"
#include "identity/keyset.h"

struct sl_jwks_current;

SL_MUST_USE int sl_jwks_current_open(const struct sl_alloc *alloc,
                                     struct sl_jwks_current **ret);
void sl_jwks_current_close(struct sl_jwks_current *keys); /* NULL is allowed */

/* Put keys (NULL: none yet) and rules in force; both are copied or counted. */
SL_MUST_USE int sl_jwks_current_put(struct sl_jwks_current *keys,
                                    struct sl_keyset *set,
                                    const struct sl_token_rules *rules);

/* Changes with every sl_jwks_current_put(); never 0. */
uint64_t sl_jwks_current_version(const struct sl_jwks_current *keys);

/* A reference to what is in force: give it back. */
struct sl_jwks_held {
    uint64_t version;
    struct sl_keyset *set; /* NULL: none yet */
    const struct sl_token_rules *rules;
    void *own;
};
void sl_jwks_current_hold(struct sl_jwks_current *keys,
                          struct sl_jwks_held *ret);
void sl_jwks_current_release(struct sl_jwks_held *held);

/* Somebody asked for a key that is not there. Cheap, from any thread. */
void sl_jwks_current_request_refresh(struct sl_jwks_current *keys);
/* Has somebody, since the last time this was asked? */
bool sl_jwks_current_refresh_requested(struct sl_jwks_current *keys);

#endif
