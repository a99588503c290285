/* shared.c -- what the seats of one store have in common. */
#include "store/remote.h"

#include <string.h>

#include "base/digits.h"

static void print(uint64_t word, char out[16])
{
    for (unsigned i = 0; i < 16; i++, word <<= 4)
        out[i] = "0123456789abcdef"[word >> 60];
}

static bool read(const char *text, uint64_t *ret)
{
    uint64_t word = 0;

    for (unsigned i = 0; i < 16; i++) {
        int digit = sl_hex_value(text[i]);

        if (digit < 0)
            return false;
        word = word << 4 | (uint64_t)digit;
    }
    *ret = word;
    return true;
}

static bool read_key(struct sl_str text, struct sl_hash_key *ret)
{
    return text.len == SL_STORE_IDENTITY && read(text.at, &ret->k0) &&
           read(text.at + 16, &ret->k1);
}

int sl_store_identity_fresh(char ret[SL_STORE_IDENTITY + 1])
{
    struct sl_hash_key key;
    int err = sl_hash_key_make(&key);

    if (err)
        return err;
    print(key.k0, ret);
    print(key.k1, ret + 16);
    ret[SL_STORE_IDENTITY] = '\0';
    return 0;
}

int sl_store_identity_init(struct sl_store_identity *shared,
                           struct sl_store *store)
{
    int err;

    memset(shared, 0, sizeof(*shared));
    pthread_mutex_init(&shared->lock, NULL);
    shared->store = store;
    err = sl_store_identity_fresh(shared->secret_text);
    return err ? err : sl_hash_key_make(&shared->forgets.key);
}

void sl_store_identity_done(struct sl_store_identity *shared)
{
    pthread_mutex_destroy(&shared->lock);
    explicit_bzero(shared->secret_text, sizeof(shared->secret_text));
    explicit_bzero(&shared->secret, sizeof(shared->secret));
}

void sl_store_identity_secret(struct sl_store_identity *shared,
                              char ret[SL_STORE_IDENTITY + 1])
{
    pthread_mutex_lock(&shared->lock);
    memcpy(ret, shared->secret_text, SL_STORE_IDENTITY + 1);
    pthread_mutex_unlock(&shared->lock);
}

bool sl_store_identity_see_secret(struct sl_store_identity *shared,
                                  struct sl_str text, bool *ret_changed)
{
    struct sl_hash_key key;

    if (!read_key(text, &key))
        return false;
    pthread_mutex_lock(&shared->lock);
    if (!shared->has_secret) {
        shared->has_secret = true;
        memcpy(shared->secret_text, text.at, SL_STORE_IDENTITY);
        shared->secret = key;
        atomic_store_explicit(&shared->store->found, &shared->secret,
                              memory_order_release);
    }
    *ret_changed = memcmp(shared->secret_text, text.at, SL_STORE_IDENTITY) != 0;
    pthread_mutex_unlock(&shared->lock);
    return true;
}

bool sl_store_identity_see_epoch(struct sl_store_identity *shared,
                                 struct sl_str text, bool *ret_changed)
{
    struct sl_hash_key key;

    if (!read_key(text, &key))
        return false;
    pthread_mutex_lock(&shared->lock);
    *ret_changed = shared->has_epoch &&
                   memcmp(shared->epoch, text.at, SL_STORE_IDENTITY) != 0;
    shared->has_epoch = true;
    memcpy(shared->epoch, text.at, SL_STORE_IDENTITY);
    if (*ret_changed)
        shared->epochs++;
    pthread_mutex_unlock(&shared->lock);
    return true;
}
