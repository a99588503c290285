/* token_cache.c -- tokens that were good a moment ago. */
#include <assert.h>
#include <string.h>

#include "identity/token_verifier.h"

struct sl_token_cache_entry {
    struct sl_digest digest;
    sl_ns from, until;
    struct sl_token_cache_entry *chained;       /* the next of the chain */
    struct sl_token_cache_entry *newer, *older; /* in the line of use */
    size_t size;                                /* of all this */
    sl_ns expires, begins;                      /* of the token */
    unsigned claim_count;
    struct sl_claim claims[]; /* and their texts */
};

int sl_token_cache_init(struct sl_token_cache *recall, unsigned most,
                        const struct sl_alloc *alloc)
{
    unsigned chains = 1;
    size_t size;

    while (chains < most)
        chains *= 2;
    size = chains * sizeof(recall->chains[0]);
    *recall = (struct sl_token_cache){
        .chain_count = chains, .most = most, .alloc = alloc};
    recall->chains = sl_alloc_new(alloc, size);
    if (!recall->chains)
        return SLUICE_ENOMEM;
    memset(recall->chains, 0, size);
    return 0;
}

void sl_token_cache_done(struct sl_token_cache *recall)
{
    if (!recall->chains)
        return;
    sl_token_cache_forget(recall);
    sl_alloc_free(recall->alloc, recall->chains,
                  recall->chain_count * sizeof(recall->chains[0]));
    recall->chains = NULL;
}

/* Digests of tokens that somebody signed: nobody can aim at a chain. */
static struct sl_token_cache_entry **
chain_of(const struct sl_token_cache *recall, const struct sl_digest *digest)
{
    uint32_t first;

    memcpy(&first, digest->bytes, sizeof(first));
    return &recall->chains[first & (recall->chain_count - 1)].first;
}

/* ---- the line of use ---- */

static void leave_line(struct sl_token_cache *recall,
                       struct sl_token_cache_entry *entry)
{
    *(entry->newer ? &entry->newer->older : &recall->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &recall->oldest) = entry->newer;
}

static void enter_line(struct sl_token_cache *recall,
                       struct sl_token_cache_entry *entry)
{
    entry->newer = NULL;
    entry->older = recall->newest;
    *(entry->older ? &entry->older->newer : &recall->oldest) = entry;
    recall->newest = entry;
}

static void drop(struct sl_token_cache *recall,
                 struct sl_token_cache_entry *entry)
{
    struct sl_token_cache_entry **link = chain_of(recall, &entry->digest);

    while (*link != entry)
        link = &(*link)->chained;
    *link = entry->chained;
    leave_line(recall, entry);
    recall->count--;
    recall->bytes -= entry->size;
    sl_alloc_free(recall->alloc, entry, entry->size);
}

void sl_token_cache_forget(struct sl_token_cache *recall)
{
    while (recall->oldest)
        drop(recall, recall->oldest);
}

/* ---- finding ---- */

bool sl_token_cache_find(struct sl_token_cache *recall,
                         const struct sl_digest *digest, sl_ns now,
                         struct sl_token *ret)
{
    struct sl_token_cache_entry *entry = *chain_of(recall, digest);

    while (entry && memcmp(&entry->digest, digest, sizeof(*digest)) != 0)
        entry = entry->chained;
    if (!entry)
        return false;
    if (now < entry->from || now >= entry->until) {
        drop(recall, entry);
        return false;
    }
    leave_line(recall, entry);
    enter_line(recall, entry);
    ret->expires = entry->expires;
    ret->begins = entry->begins;
    ret->claim_count = entry->claim_count;
    memcpy(ret->claims, entry->claims,
           entry->claim_count * sizeof(entry->claims[0]));
    return true;
}

/* ---- keeping ---- */

static size_t size_of(const struct sl_token *token)
{
    size_t size = sizeof(struct sl_token_cache_entry) +
                  token->claim_count * sizeof(struct sl_claim);

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

static void copy_claims(struct sl_token_cache_entry *entry,
                        const struct sl_token *token)
{
    char *at = (char *)&entry->claims[token->claim_count];

    entry->claim_count = token->claim_count;
    entry->expires = token->expires;
    entry->begins = token->begins;
    for (unsigned i = 0; i < token->claim_count; i++) {
        entry->claims[i].path = put_text(&at, token->claims[i].path);
        entry->claims[i].value = put_text(&at, token->claims[i].value);
    }
}

/* (2) */
static void make_room(struct sl_token_cache *recall, size_t size)
{
    while (recall->oldest &&
           (recall->count == recall->most ||
            recall->bytes + size > (size_t)recall->most * SL_TOKEN_CACHE_BYTES))
        drop(recall, recall->oldest);
}

void sl_token_cache_keep(struct sl_token_cache *recall,
                         const struct sl_digest *digest,
                         const struct sl_token *token, sl_ns from, sl_ns until)
{
    size_t size = size_of(token);
    struct sl_token_cache_entry *entry = sl_alloc_new(recall->alloc, size);
    struct sl_token_cache_entry **chain = chain_of(recall, digest);

    if (!entry)
        return;
    make_room(recall, size);
    *entry = (struct sl_token_cache_entry){
        .digest = *digest, .from = from, .until = until, .size = size};
    copy_claims(entry, token);
    entry->chained = *chain;
    *chain = entry;
    enter_line(recall, entry);
    recall->count++;
    recall->bytes += size;
}

void sl_token_cache_check(const struct sl_token_cache *recall)
{
    const struct sl_token_cache_entry *entry, *newer = NULL;
    size_t bytes = 0;
    unsigned count = 0, chained = 0;

    for (entry = recall->newest; entry; newer = entry, entry = entry->older) {
        assert(entry->newer == newer);
        bytes += entry->size;
        count++;
    }
    assert(recall->oldest == newer);
    for (unsigned i = 0; i < recall->chain_count; i++)
        for (entry = recall->chains[i].first; entry; entry = entry->chained) {
            assert(chain_of(recall, &entry->digest) ==
                   &recall->chains[i].first);
            chained++;
        }
    assert(count == recall->count && chained == count); /* (1) */
    assert(bytes == recall->bytes);
    assert(count <= recall->most);
    assert(count <= 1 || bytes <= (size_t)recall->most * SL_TOKEN_CACHE_BYTES);
    (void)bytes;
    (void)chained;
}

/* ---- who sent bad tokens lately. */

#define SETS 512 /* a power of two */
#define WAYS 4
#define SIZE (SETS * WAYS * sizeof(struct sl_bad_token_place))

int sl_bad_token_init(struct sl_bad_token *blame, unsigned per_minute,
                      const struct sl_alloc *alloc)
{
    sl_ns step = SL_MIN / per_minute;
    unsigned burst = per_minute < 3 ? 1 : per_minute / 3;
    int err = sl_hash_key_make(&blame->secret);

    if (err)
        return err;
    blame->places = sl_alloc_new(alloc, SIZE);
    if (!blame->places)
        return SLUICE_ENOMEM;
    memset(blame->places, 0, SIZE);
    blame->alloc = alloc;
    blame->step = step;
    blame->most = burst * step;
    return 0;
}

void sl_bad_token_done(struct sl_bad_token *blame)
{
    if (blame->places)
        sl_alloc_free(blame->alloc, blame->places, SIZE);
    blame->places = NULL;
}

static uint64_t fingerprint(const struct sl_bad_token *blame,
                            const struct sl_ip *ip)
{
    struct sl_ip net = sl_ip_prefix(ip, 64);
    struct sl_str bytes = {(const char *)net.bytes, sizeof(net.bytes)};
    uint64_t who = sl_hash64(&blame->secret, bytes);

    return who ? who : 1;
}

static struct sl_bad_token_place *set_of(const struct sl_bad_token *blame,
                                         uint64_t who)
{
    return &blame->places[who % SETS * WAYS];
}

/* What is owed. A time left behind by a faster clock is pulled back, or whoever
 * it is would wait until the clock is there again. */
static sl_ns owed(const struct sl_bad_token *blame,
                  struct sl_bad_token_place *place, sl_ns now)
{
    if (place->over > now + blame->most)
        place->over = now + blame->most;
    return place->over > now ? place->over - now : 0;
}

bool sl_bad_token_holds(struct sl_bad_token *blame, const struct sl_ip *ip,
                        sl_ns now)
{
    uint64_t who = fingerprint(blame, ip);
    struct sl_bad_token_place *set = set_of(blame, who);

    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].who == who)
            return owed(blame, &set[i], now) > blame->most - blame->step;
    return false;
}

void sl_bad_token_note(struct sl_bad_token *blame, const struct sl_ip *ip,
                       sl_ns now)
{
    uint64_t who = fingerprint(blame, ip);
    struct sl_bad_token_place *set = set_of(blame, who), *place = &set[0];
    sl_ns owes;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].who == who) {
            place = &set[i];
            break;
        }
        if (owed(blame, &set[i], now) < owed(blame, place, now))
            place = &set[i];
    }
    owes = place->who == who ? owed(blame, place, now) : 0;
    owes += blame->step;
    place->who = who;
    place->over = now + (owes < blame->most ? owes : blame->most);
}
