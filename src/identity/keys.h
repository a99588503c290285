/* keys.h -- the keys in force, shared by all threads and changed by one.
 *
 * Whoever fetches keys puts a new set in; whoever verifies sees by one atomic
 * read that there is another one and only then takes the lock. An unknown key
 * id leaves a wish, of which there is one at a time however many ask.
 */
#ifndef SL_KEYS_H
#define SL_KEYS_H

#include <stdatomic.h>

#include "identity/keyset.h"
#include "identity/verify.h"

struct sl_keys;

SL_MUST_USE int sl_keys_open(const struct sl_alloc *alloc,
                             struct sl_keys **ret);
void sl_keys_close(struct sl_keys *keys); /* NULL is allowed */

/* Put keys (NULL: none yet) and rules in force; both are copied or counted. */
SL_MUST_USE int sl_keys_put(struct sl_keys *keys, struct sl_keyset *set,
                            const struct sl_token_rules *rules);

/* Changes with every sl_keys_put(); never 0. */
uint64_t sl_keys_version(const struct sl_keys *keys);

/* A reference to what is in force: give it back. */
struct sl_keys_held {
    uint64_t version;
    struct sl_keyset *set; /* NULL: none yet */
    const struct sl_token_rules *rules;
    void *own;
};
void sl_keys_hold(struct sl_keys *keys, struct sl_keys_held *ret);
void sl_keys_release(struct sl_keys_held *held);

/* Somebody asked for a key that is not there. Cheap, from any thread. */
void sl_keys_wish(struct sl_keys *keys);
/* Has somebody, since the last time this was asked? */
bool sl_keys_wished(struct sl_keys *keys);

#endif
