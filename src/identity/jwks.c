/* jwks.c -- key sets, and the current one.
 *
 * Invariants.
 *   (1) Every key verifies at least one wanted algorithm.
 *   (2) All keys are secrets, or none is.
 *   (3) No two keys of one name verify the same algorithm.
 */
#include <openssl/err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "identity/jwk.h"
#include "identity/jwt.h"

static size_t size_of(unsigned room)
{
    return sizeof(struct sl_keyset) + room * sizeof(struct sl_jwk);
}

static struct sl_keyset *make(unsigned room, const struct sl_alloc *alloc)
{
    struct sl_keyset *set = sl_alloc_new(alloc, size_of(room));

    if (!set)
        return NULL;
    *set = (struct sl_keyset){.alloc = *alloc, .room = room};
    atomic_init(&set->refs, 1);
    return set;
}

static bool is_same_name(const struct sl_jwk *a, const struct sl_jwk *b)
{
    return a->has_kid && b->has_kid &&
           sl_str_eq((struct sl_str){a->kid, a->kid_len},
                     (struct sl_str){b->kid, b->kid_len});
}

/* (3) */
static int check_name(const struct sl_keyset *set, const struct sl_jwk *key,
                      size_t index, struct sl_diag *diag)
{
    for (unsigned i = 0; i < set->count; i++)
        if (is_same_name(&set->keys[i], key) &&
            (set->keys[i].algorithms & key->algorithms))
            return sl_diag_error(
                diag, SLUICE_ECONF,
                "key %zu has the same id (%.*s) and algorithm as "
                "another key, so tokens would be ambiguous",
                index + 1, (int)(key->kid_len > 40 ? 40 : key->kid_len),
                key->kid);
    return 0;
}

/* Adds the keys that can verify. Skipped keys count for (2) only. */
static int add_keys(struct sl_keyset *set, json_t *keys, unsigned wanted,
                    struct sl_diag *diag)
{
    unsigned seen = 0, could;

    for (size_t i = 0; i < json_array_size(keys); i++) {
        struct sl_jwk *key = &set->keys[set->count];
        int err =
            sl_jwk_read(json_array_get(keys, i), wanted, i, key, &could, diag);

        if (err)
            return err;
        seen |= could;
        if ((seen & SL_ALG_HMAC) && (seen & ~(unsigned)SL_ALG_HMAC)) /* (2) */
            err = sl_diag_error(
                diag, SLUICE_ECONF,
                "key %zu mixes secrets and public keys in one set; use two "
                "sets, because a public set must not contain secrets",
                i + 1);
        else if (key->algorithms)
            err = check_name(set, key, i, diag);
        if (err) {
            sl_jwk_done(key);
            return err;
        }
        set->count += key->algorithms != 0; /* (1) */
        set->has_private |= key->algorithms && key->is_private;
    }
    return 0;
}

static int refuse_none(size_t keys, struct sl_diag *diag)
{
    if (keys == 0)
        return sl_diag_error(diag, SLUICE_ECONF, "the set has no keys");
    return sl_diag_error(diag, SLUICE_ECONF,
                         "none of the %zu keys can be used: \"kty\", \"crv\", "
                         "\"alg\", \"use\" or \"key_ops\" do not match",
                         keys);
}

static int read_array(json_t *keys, unsigned wanted,
                      const struct sl_alloc *alloc, struct sl_keyset **ret,
                      struct sl_diag *diag)
{
    size_t count = json_array_size(keys);
    struct sl_keyset *set;
    int err;

    if (count > SL_KEYSET_KEYS)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "there are %zu keys; the maximum is %d", count,
                             SL_KEYSET_KEYS);
    set = make((unsigned)count, alloc);
    if (!set)
        return SLUICE_ENOMEM;
    err = add_keys(set, keys, wanted, diag);
    if (!err && set->count == 0)
        err = refuse_none(count, diag);
    if (err)
        sl_keyset_unref(set);
    else
        *ret = set;
    return err;
}

/* Returns a new reference to the array of keys, or NULL. A single key is an
 * array of one. */
static json_t *keys_of(json_t *root, struct sl_diag *diag, int *err)
{
    json_t *keys = json_object_get(root, "keys");

    *err = SLUICE_ENOMEM;
    if (keys && !json_is_array(keys)) {
        *err =
            sl_diag_error(diag, SLUICE_ECONF,
                          "\"keys\" must be a list of keys: {\"keys\": [{...}, "
                          "...]}");
        return NULL;
    }
    if (keys)
        return json_incref(keys);
    if (!json_object_get(root, "kty")) {
        *err = sl_diag_error(diag, SLUICE_ECONF,
                             "this is neither a JWKS, {\"keys\": [...]}, nor a "
                             "JWK, {\"kty\": ...}");
        return NULL;
    }
    keys = json_array();
    if (keys && json_array_append(keys, root)) {
        json_decref(keys);
        return NULL;
    }
    return keys;
}

static int refuse_object(const struct sl_json_object_why *why,
                         struct sl_diag *diag)
{
    static const char *const sentences[] = {
        [SL_OBJECT_BROKEN] =
            "the JWKS is not valid JSON, or has a duplicate name",
        [SL_OBJECT_OTHER] = "a JWKS is a JSON object: {\"keys\": [...]}",
        [SL_OBJECT_DEEP] = "the JWKS is nested more than 8 levels deep",
    };

    if (why->fault == SL_OBJECT_NO_MEMORY)
        return SLUICE_ENOMEM;
    if (diag && why->line) {
        diag->line = why->line;
        diag->column = why->column;
    }
    return sl_diag_error(diag, SLUICE_ECONF, "%s", sentences[why->fault]);
}

int sl_keyset_read(struct sl_str json, unsigned algorithms,
                   const struct sl_alloc *alloc, struct sl_keyset **ret,
                   struct sl_diag *diag)
{
    unsigned wanted =
        algorithms ? algorithms : SL_ALG_ALL & ~(unsigned)SL_ALG_HMAC;
    struct sl_json_object_why why;
    json_t *root, *keys;
    int err;

    if (json.len > SL_KEYSET_BYTES)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the JWKS has %zu bytes; the maximum is 256 KiB",
                             json.len);
    root = sl_json_object_read(json, &why);
    if (!root)
        return refuse_object(&why, diag);
    keys = keys_of(root, diag, &err);
    if (keys) {
        /* Errors of OpenSSL must not reach the next caller. */
        ERR_set_mark();
        err = read_array(keys, wanted, alloc, ret, diag);
        ERR_pop_to_mark();
    }
    for (size_t i = 0; i < json_array_size(keys); i++)
        sl_jwk_wipe(json_array_get(keys, i));
    json_decref(keys);
    json_decref(root);
    return err;
}

int sl_keyset_secret(struct sl_str secret, unsigned algorithms,
                     const struct sl_alloc *alloc, struct sl_keyset **ret,
                     struct sl_diag *diag)
{
    unsigned wanted = algorithms ? algorithms : SL_ALG_HMAC;
    unsigned fits = sl_alg_hmac_fits(secret.len);
    struct sl_keyset *set;
    struct sl_jwk *key;

    if (!(wanted & SL_ALG_HMAC))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret can only be used with HS256, HS384 and HS512");
    if (!(fits & wanted))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret of %zu bytes is too short: HS256 needs 32 "
            "bytes, HS384 48, HS512 64",
            secret.len);
    if (sl_secure_mem_is_blank((const uint8_t *)secret.at, secret.len))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret that repeats one byte is not secure; create "
            "one with openssl rand -base64 64");
    if (secret.len > SL_SECRET_BYTES)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret of %zu bytes is too long; the maximum is 4096",
            secret.len);
    set = make(1, alloc);
    if (!set)
        return SLUICE_ENOMEM;
    key = &set->keys[0];
    *key = (struct sl_jwk){.algorithms = fits & wanted};
    if (sl_secure_mem_new(secret.len, &key->secret)) {
        sl_keyset_unref(set);
        return SLUICE_ENOMEM;
    }
    memcpy(key->secret.bytes, secret.at, secret.len);
    key->secret.len = secret.len;
    set->count = 1;
    *ret = set;
    return 0;
}

struct sl_keyset *sl_keyset_ref(struct sl_keyset *set)
{
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    return set;
}

void sl_keyset_unref(struct sl_keyset *set)
{
    struct sl_alloc alloc;

    if (!set ||
        atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (unsigned i = 0; i < set->count; i++)
        sl_jwk_done(&set->keys[i]);
    alloc = set->alloc;
    sl_alloc_free(&alloc, set, size_of(set->room));
}

unsigned sl_keyset_count(const struct sl_keyset *set)
{
    return set->count;
}

bool sl_keyset_has_private(const struct sl_keyset *set)
{
    return set->has_private;
}

/* ---- the current key set.
 *
 * A reference-counted block holds the set, the rules and their texts. Replacing
 * it and taking a reference lock for a few instructions. A verifier keeps its
 * reference until the version changes, so it locks once per change.
 */

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
