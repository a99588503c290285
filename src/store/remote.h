/* shared.h -- what the seats of one store have in common: the secret, the
 * marker, and what was forgotten. */
#ifndef SL_STORE_SHARED_H
#define SL_STORE_SHARED_H

#include <pthread.h>

#include "store/denials.h"

#define SL_STORE_IDENTITY 32 /* hex digits of a secret or a marker */

struct sl_store_identity {
    pthread_mutex_t lock;
    struct sl_store *store;    /* whose secret it is */
    struct sl_hash_key secret; /* written once, and then shown to others */
    bool has_secret, has_epoch;
    char secret_text[SL_STORE_IDENTITY + 1]; /* what we propose, or know */
    char epoch[SL_STORE_IDENTITY + 1];
    _Atomic uint64_t epochs;
    _Atomic bool memory_asked;
    struct sl_denial_forgets forgets;
};

SL_MUST_USE int sl_store_identity_init(struct sl_store_identity *shared,
                                       struct sl_store *store);
void sl_store_identity_done(struct sl_store_identity *shared);

/* What to put there if there is none. */
void sl_store_identity_secret(struct sl_store_identity *shared,
                              char ret[SL_STORE_IDENTITY + 1]);
SL_MUST_USE int sl_store_identity_fresh(char ret[SL_STORE_IDENTITY + 1]);

/* What is there. False if it is none of ours. *ret_changed if it is another
 * than before: a secret is then kept nevertheless. */
SL_MUST_USE bool sl_store_identity_see_secret(struct sl_store_identity *shared,
                                              struct sl_str text,
                                              bool *ret_changed);
SL_MUST_USE bool sl_store_identity_see_epoch(struct sl_store_identity *shared,
                                             struct sl_str text,
                                             bool *ret_changed);

#endif
