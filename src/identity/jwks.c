/* jwks.c -- the current key set, shared by all threads.
 *
 * A reference-counted block holds the set, the rules and their texts. Replacing
 * it and taking a reference lock for a few instructions. A verifier keeps its
 * reference until the version changes, so it locks once per change.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "identity/jwt.h"

struct block {
    atomic_uint refs;
    struct sl_alloc alloc;
    size_t size;
    struct sl_keyset *set;
    struct sl_token_rules rules;
    struct sl_str audiences[]; /* followed by all texts */
};

struct sl_jwks_current {
    struct sl_alloc alloc;
    pthread_mutex_t lock;
    struct block *block; /* NULL before the first put */
    _Atomic uint64_t version;
    atomic_bool wished;
};

static const struct sl_token_rules no_rules;

int sl_jwks_current_open(const struct sl_alloc *alloc,
                         struct sl_jwks_current **ret)
{
    struct sl_jwks_current *keys = sl_alloc_new(alloc, sizeof(*keys));

    if (!keys)
        return SLUICE_ENOMEM;
    *keys = (struct sl_jwks_current){.alloc = *alloc};
    if (pthread_mutex_init(&keys->lock, NULL)) {
        sl_alloc_free(alloc, keys, sizeof(*keys));
        return SLUICE_ENOMEM;
    }
    atomic_init(&keys->version, 1);
    atomic_init(&keys->wished, false);
    *ret = keys;
    return 0;
}

static void unref(struct block *block)
{
    struct sl_alloc alloc;

    if (!block ||
        atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) > 1)
        return;
    sl_keyset_unref(block->set);
    alloc = block->alloc;
    sl_alloc_free(&alloc, block, block->size);
}

void sl_jwks_current_close(struct sl_jwks_current *keys)
{
    struct sl_alloc alloc;

    if (!keys)
        return;
    unref(keys->block);
    pthread_mutex_destroy(&keys->lock);
    alloc = keys->alloc;
    sl_alloc_free(&alloc, keys, sizeof(*keys));
}

static struct sl_str put_text(char **at, struct sl_str text)
{
    struct sl_str copy = {*at, text.len};

    if (text.len)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static struct block *keys_make(const struct sl_alloc *alloc,
                               struct sl_keyset *set,
                               const struct sl_token_rules *rules)
{
    size_t heads = rules->audience_count * sizeof(struct sl_str);
    size_t size = sizeof(struct block) + heads + rules->issuer.len;
    struct block *block;
    char *at;

    for (unsigned i = 0; i < rules->audience_count; i++)
        size += rules->audiences[i].len;
    block = sl_alloc_new(alloc, size);
    if (!block)
        return NULL;
    *block = (struct block){.alloc = *alloc, .size = size, .rules = *rules};
    atomic_init(&block->refs, 1);
    block->set = set ? sl_keyset_ref(set) : NULL;
    at = (char *)block->audiences + heads;
    for (unsigned i = 0; i < rules->audience_count; i++)
        block->audiences[i] = put_text(&at, rules->audiences[i]);
    block->rules.audiences = block->audiences;
    block->rules.issuer = put_text(&at, rules->issuer);
    return block;
}

int sl_jwks_current_put(struct sl_jwks_current *keys, struct sl_keyset *set,
                        const struct sl_token_rules *rules)
{
    struct block *block = keys_make(&keys->alloc, set, rules), *old;

    if (!block)
        return SLUICE_ENOMEM;
    pthread_mutex_lock(&keys->lock);
    old = keys->block;
    keys->block = block;
    atomic_fetch_add_explicit(&keys->version, 1, memory_order_release);
    pthread_mutex_unlock(&keys->lock);
    unref(old);
    return 0;
}

uint64_t sl_jwks_current_version(const struct sl_jwks_current *keys)
{
    return atomic_load_explicit(&keys->version, memory_order_acquire);
}

void sl_jwks_current_hold(struct sl_jwks_current *keys,
                          struct sl_jwks_held *ret)
{
    struct block *block;

    pthread_mutex_lock(&keys->lock);
    block = keys->block;
    if (block)
        atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
    ret->version = sl_jwks_current_version(keys);
    pthread_mutex_unlock(&keys->lock);
    ret->set = block ? block->set : NULL;
    ret->rules = block ? &block->rules : &no_rules;
    ret->own = block;
}

void sl_jwks_current_release(struct sl_jwks_held *held)
{
    unref(held->own);
    *held = (struct sl_jwks_held){.version = 0};
}

void sl_jwks_current_request_refresh(struct sl_jwks_current *keys)
{
    /* Read first: an unconditional write would share a cache line between
     * threads. */
    if (!atomic_load_explicit(&keys->wished, memory_order_relaxed))
        atomic_store_explicit(&keys->wished, true, memory_order_relaxed);
}

bool sl_jwks_current_refresh_requested(struct sl_jwks_current *keys)
{
    return atomic_exchange_explicit(&keys->wished, false, memory_order_relaxed);
}
