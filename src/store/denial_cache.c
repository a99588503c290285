/* denial_cache.c -- refusals that need not be asked for again.
 *
 * A table without chains: where two meet the newer one stays. Hashes are of 128
 * bits under a secret, so that nobody can make two of them meet.
 */
#include "store/caches.h"

#define LONGEST SL_S
#define PARTS   4 /* of a set that is remembered */

struct denial {
    struct sl_denial_key key;
    sl_ns made, until; /* until == 0: none */
    unsigned count;
    struct sl_answer answers[PARTS];
};

struct sl_denial_cache {
    const struct sl_alloc *alloc;
    unsigned most;
    struct denial list[];
};

/* ---- keys ---- */

struct sl_hash128 sl_part_name_hash(const struct sl_denial_forgets *forgets,
                                    const struct sl_part *part)
{
    return sl_hash128(&forgets->key, sl_take_part_name(part));
}

uint8_t sl_part_name_place(const struct sl_denial_forgets *forgets,
                           const struct sl_part *part)
{
    return (uint8_t)(sl_part_name_hash(forgets, part).hi % SL_FORGETS);
}

static uint32_t forgets_of(const struct sl_denial_forgets *forgets,
                           const struct sl_denial_key *key)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < key->count; i++)
        sum += atomic_load(&forgets->by_name[key->names[i]]);
    return sum;
}

void sl_denial_forgets_add(struct sl_denial_forgets *forgets,
                           const struct sl_denial_key *key)
{
    for (unsigned i = 0; i < key->count; i++)
        atomic_fetch_add(&forgets->by_name[key->names[i]], 1);
}

struct sl_hash128 sl_part_hash(const struct sl_denial_forgets *forgets,
                               const struct sl_part *part,
                               struct sl_hash128 name, struct sl_hash128 before)
{
    const struct sl_limit *l = part->limit;
    uint64_t words[] = {
        before.lo,
        before.hi,
        name.lo,
        name.hi,
        (uint64_t)l->kind << 1 | part->carried,
        l->count,
        l->capacity,
        (uint64_t)l->period,
        part->cost,
        l->calendar,
        l->calendar ? (uint64_t)l->cal.unit << 32 | l->cal.every : 0,
        l->calendar ? l->cal.anchor : 0,
        l->calendar ? (uint64_t)(uintptr_t)l->cal.zone : 0,
    };

    return sl_hash128(&forgets->key,
                      (struct sl_str){(const char *)words, sizeof(words)});
}

struct sl_denial_key sl_denial_key(struct sl_denial_forgets *forgets,
                                   const struct sl_take *take)
{
    struct sl_denial_key key = {.count = 0};

    for (unsigned i = 0; i < take->count && i < SL_PARTS; i++) {
        struct sl_hash128 name = sl_part_name_hash(forgets, &take->parts[i]);

        key.names[key.count++] = (uint8_t)(name.hi % SL_FORGETS);
        key.hash = sl_part_hash(forgets, &take->parts[i], name, key.hash);
    }
    key.forgets = forgets_of(forgets, &key);
    return key;
}

/* ---- refusals ---- */

static sl_ns less(sl_ns span, sl_ns passed)
{
    if (span == SL_NS_NONE)
        return span;
    return span > passed ? span - passed : 0;
}

bool sl_denial_cache_find(const struct sl_denial_cache *denials,
                          const struct sl_denial_key *key, struct sl_take *take,
                          sl_ns now)
{
    const struct denial *d = &denials->list[key->hash.lo % denials->most];

    if (d->key.hash.lo != key->hash.lo || d->key.hash.hi != key->hash.hi ||
        d->key.forgets != key->forgets || now < d->made || now >= d->until ||
        d->count != take->count)
        return false;
    for (unsigned i = 0; i < d->count; i++) {
        struct sl_answer *a = &take->parts[i].answer;

        *a = d->answers[i];
        a->retry_in = less(a->retry_in, now - d->made);
        a->reset_in = less(a->reset_in, now - d->made);
        take->parts[i].untracked = false;
    }
    take->allowed = false;
    take->err = 0;
    return true;
}

/* How long the refusal stands: the least of all that refuse. 0 if one of them
 * has no clock. */
static sl_ns stands_for(const struct sl_take *take)
{
    sl_ns least = LONGEST;

    for (unsigned i = 0; i < take->count; i++) {
        const struct sl_answer *a = &take->parts[i].answer;

        if (a->outcome == SL_ALLOW)
            continue;
        if (a->outcome == SL_NEVER || a->retry_in == SL_NS_NONE ||
            take->parts[i].limit->kind == SL_PERMITS)
            return 0;
        least = a->retry_in < least ? a->retry_in : least;
    }
    return least;
}

void sl_denial_cache_add(struct sl_denial_cache *denials,
                         const struct sl_denial_key *key,
                         const struct sl_denial_forgets *forgets,
                         const struct sl_take *take, sl_ns sent, sl_ns now)
{
    struct denial *d = &denials->list[key->hash.lo % denials->most];
    sl_ns span = stands_for(take);

    if (take->allowed || take->count > PARTS || span <= 0 ||
        forgets_of(forgets, key) != key->forgets)
        return;
    *d = (struct denial){
        .key = *key, .made = now, .until = sent + span, .count = take->count};
    for (unsigned i = 0; i < take->count; i++)
        d->answers[i] = take->parts[i].answer;
}

/* ---- life ---- */

static size_t size_of(unsigned most)
{
    return sizeof(struct sl_denial_cache) + most * sizeof(struct denial);
}

int sl_denial_caches_open(unsigned most, const struct sl_alloc *alloc,
                          struct sl_denial_cache **ret)
{
    struct sl_denial_cache *denials = sl_alloc_new(alloc, size_of(most));

    if (!denials)
        return SLUICE_ENOMEM;
    memset(denials, 0, size_of(most));
    denials->alloc = alloc;
    denials->most = most;
    *ret = denials;
    return 0;
}

void sl_denial_caches_close(struct sl_denial_cache *denials)
{
    if (denials)
        sl_alloc_free(denials->alloc, denials, size_of(denials->most));
}
