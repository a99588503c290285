/* token_cache.c -- the cache of verified tokens, and the limiter of bad ones.
 */
#include <string.h>

#include "identity/token_verifier.h"

struct entry {
    struct sl_map_entry map; /* first */
    struct sl_digest digest;
    sl_ns from;            /* valid from here until map.expires */
    sl_ns expires, begins; /* of the token */
    unsigned claim_count;
    struct sl_claim claims[]; /* followed by their texts */
};

static bool equals(const struct sl_map_entry *entry, const void *digest)
{
    return memcmp(&((const struct entry *)entry)->digest, digest,
                  sizeof(struct sl_digest)) == 0;
}

static void free_entry(void *alloc, struct sl_map_entry *entry)
{
    sl_alloc_free(alloc, entry, entry->size);
}

int sl_token_cache_init(struct sl_map *cache, unsigned most,
                        const struct sl_alloc *alloc)
{
    struct sl_map_options options = {
        .most = most,
        .most_bytes = (size_t)most * SL_TOKEN_CACHE_BYTES,
        .equals = equals,
        .free = free_entry,
        .ctx = (void *)alloc,
        .alloc = alloc,
    };

    return sl_map_init(cache, &options);
}

/* Only tokens with a valid signature are cached, so clients cannot choose
 * digests that share a chain. */
static uint64_t hash_of(const struct sl_digest *digest)
{
    uint64_t hash;

    memcpy(&hash, digest->bytes, sizeof(hash));
    return hash;
}

bool sl_token_cache_find(struct sl_map *cache, const struct sl_digest *digest,
                         sl_ns now, struct sl_token *ret)
{
    struct entry *entry =
        (struct entry *)sl_map_find(cache, hash_of(digest), digest, now);

    if (!entry)
        return false;
    if (now < entry->from) {
        sl_map_remove(cache, &entry->map);
        return false;
    }
    ret->expires = entry->expires;
    ret->begins = entry->begins;
    ret->claim_count = entry->claim_count;
    memcpy(ret->claims, entry->claims,
           entry->claim_count * sizeof(entry->claims[0]));
    return true;
}

static size_t size_of(const struct sl_token *token)
{
    size_t size =
        sizeof(struct entry) + token->claim_count * sizeof(struct sl_claim);

    for (unsigned i = 0; i < token->claim_count; i++)
        size += token->claims[i].path.len + token->claims[i].value.len;
    return size;
}

static struct sl_str put_text(char **at, struct sl_str text)
{
    struct sl_str copy = {*at, text.len};

    if (text.len)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

void sl_token_cache_add(struct sl_map *cache, const struct sl_digest *digest,
                        const struct sl_token *token, sl_ns from, sl_ns until)
{
    size_t size = size_of(token);
    struct entry *entry = sl_alloc_new(cache->options.alloc, size);
    char *at;

    if (!entry)
        return;
    *entry = (struct entry){
        .map = {.hash = hash_of(digest), .size = size, .expires = until},
        .digest = *digest,
        .from = from,
        .expires = token->expires,
        .begins = token->begins,
        .claim_count = token->claim_count,
    };
    at = (char *)&entry->claims[token->claim_count];
    for (unsigned i = 0; i < token->claim_count; i++) {
        entry->claims[i].path = put_text(&at, token->claims[i].path);
        entry->claims[i].value = put_text(&at, token->claims[i].value);
    }
    sl_map_add(cache, &entry->map);
}

/* ---- the limiter of bad tokens ---- */

#define SETS 512 /* a power of two */
#define WAYS 4
#define SIZE (SETS * WAYS * sizeof(struct sl_bad_token_slot))

int sl_bad_token_init(struct sl_bad_token *limiter, unsigned per_minute,
                      const struct sl_alloc *alloc)
{
    sl_ns step = SL_MIN / per_minute;
    unsigned burst = per_minute < 3 ? 1 : per_minute / 3;
    int err = sl_hash_key_make(&limiter->secret);

    if (err)
        return err;
    limiter->slots = sl_alloc_new(alloc, SIZE);
    if (!limiter->slots)
        return SLUICE_ENOMEM;
    memset(limiter->slots, 0, SIZE);
    limiter->alloc = alloc;
    limiter->step = step;
    limiter->most = burst * step;
    return 0;
}

void sl_bad_token_done(struct sl_bad_token *limiter)
{
    if (limiter->slots)
        sl_alloc_free(limiter->alloc, limiter->slots, SIZE);
    limiter->slots = NULL;
}

static uint64_t fingerprint_of(const struct sl_bad_token *limiter,
                               const struct sl_ip *ip)
{
    struct sl_ip net = sl_ip_prefix(ip, 64);
    struct sl_str bytes = {(const char *)net.bytes, sizeof(net.bytes)};
    uint64_t fingerprint = sl_hash64(&limiter->secret, bytes);

    return fingerprint ? fingerprint : 1;
}

static struct sl_bad_token_slot *set_of(const struct sl_bad_token *limiter,
                                        uint64_t fingerprint)
{
    return &limiter->slots[fingerprint % SETS * WAYS];
}

/* Returns the debt of a slot. Reduces a debt that a faster clock left behind:
 * the address would otherwise wait until the clock is there again. */
static sl_ns debt_of(const struct sl_bad_token *limiter,
                     struct sl_bad_token_slot *slot, sl_ns now)
{
    if (slot->paid_at > now + limiter->most)
        slot->paid_at = now + limiter->most;
    return slot->paid_at > now ? slot->paid_at - now : 0;
}

bool sl_bad_token_denies(struct sl_bad_token *limiter, const struct sl_ip *ip,
                         sl_ns now)
{
    uint64_t fingerprint = fingerprint_of(limiter, ip);
    struct sl_bad_token_slot *set = set_of(limiter, fingerprint);

    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].fingerprint == fingerprint)
            return debt_of(limiter, &set[i], now) >
                   limiter->most - limiter->step;
    return false;
}

void sl_bad_token_count(struct sl_bad_token *limiter, const struct sl_ip *ip,
                        sl_ns now)
{
    uint64_t fingerprint = fingerprint_of(limiter, ip);
    struct sl_bad_token_slot *set = set_of(limiter, fingerprint);
    struct sl_bad_token_slot *slot = &set[0];
    sl_ns debt;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].fingerprint == fingerprint) {
            slot = &set[i];
            break;
        }
        if (debt_of(limiter, &set[i], now) < debt_of(limiter, slot, now))
            slot = &set[i];
    }
    debt = slot->fingerprint == fingerprint ? debt_of(limiter, slot, now) : 0;
    debt += limiter->step;
    slot->fingerprint = fingerprint;
    slot->paid_at = now + (debt < limiter->most ? debt : limiter->most);
}
