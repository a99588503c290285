/* denial_cache.c -- a table without chains; a new entry replaces the one in its
 * place. Hashes have 128 bits under a secret, so that clients can't make keys
 * collide.
 */
#include "store/denial_cache.h"

#include <string.h>

#include "base/arith.h"

#define LONGEST SL_S
#define PARTS   4 /* larger sets are not cached */

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

void sl_denial_forgets_add_name(struct sl_denial_forgets *forgets,
                                struct sl_str name)
{
    uint64_t hash = sl_hash128(&forgets->key, name).hi;

    atomic_fetch_add(&forgets->by_name[hash % SL_FORGETS], 1);
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

struct sl_hash128 sl_denial_part_hash(const struct sl_denial_forgets *forgets,
                                      const struct sl_part *part,
                                      struct sl_hash128 before,
                                      uint8_t *ret_name)
{
    struct sl_hash128 name = sl_hash128(&forgets->key, sl_take_part_name(part));
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
        l->calendar ? (uint64_t)l->cal.time << 32 | l->cal.anchor : 0,
        l->calendar ? (uint64_t)(int64_t)l->cal.origin : 0,
        l->calendar ? (uint64_t)l->cal.cuts[0] : 0,
        l->calendar ? (uint64_t)l->cal.cuts[1] : 0,
        l->calendar ? (uint64_t)(uintptr_t)l->cal.zone : 0,
    };

    *ret_name = (uint8_t)(name.hi % SL_FORGETS);
    return sl_hash128(&forgets->key,
                      (struct sl_str){(const char *)words, sizeof(words)});
}

struct sl_denial_key sl_denial_key(struct sl_denial_forgets *forgets,
                                   const struct sl_take *take)
{
    struct sl_denial_key key = {.count = 0};

    for (unsigned i = 0; i < take->count && i < SL_PARTS; i++) {
        key.hash = sl_denial_part_hash(forgets, &take->parts[i], key.hash,
                                       &key.names[key.count]);
        key.count++;
    }
    key.forgets = forgets_of(forgets, &key);
    return key;
}

/* ---- entries ---- */

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

    if (!sl_hash128_eq(d->key.hash, key->hash) ||
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

/* How long the denial holds: the shortest retry time. 0: a part has none, or a
 * penalty must count the next denial. */
static sl_ns denied_for(const struct sl_take *take)
{
    sl_ns least = LONGEST;
    bool counts = false, blocked = false;

    for (unsigned i = 0; i < take->count; i++) {
        const struct sl_answer *a = &take->parts[i].answer;

        if (take->parts[i].limit->kind == SL_PENALTY) {
            counts = true;
            blocked |= a->outcome == SL_DENY;
        }
        if (a->outcome == SL_ALLOW)
            continue;
        if (a->outcome == SL_NEVER || a->retry_in == SL_NS_NONE ||
            take->parts[i].limit->kind == SL_PERMITS)
            return 0;
        least = a->retry_in < least ? a->retry_in : least;
    }
    return counts && !blocked ? 0 : least;
}

void sl_denial_cache_add(struct sl_denial_cache *denials,
                         const struct sl_denial_key *key,
                         const struct sl_denial_forgets *forgets,
                         const struct sl_take *take, sl_ns sent, sl_ns now)
{
    struct denial *d = &denials->list[key->hash.lo % denials->most];
    sl_ns span = denied_for(take);

    if (take->allowed || take->count > PARTS || span <= 0 ||
        forgets_of(forgets, key) != key->forgets)
        return;
    *d = (struct denial){
        .key = *key, .made = now, .until = sent + span, .count = take->count};
    for (unsigned i = 0; i < take->count; i++)
        d->answers[i] = take->parts[i].answer;
}

static size_t denials_size(unsigned most)
{
    return sizeof(struct sl_denial_cache) + most * sizeof(struct denial);
}

int sl_denial_cache_open(unsigned most, const struct sl_alloc *alloc,
                         struct sl_denial_cache **ret)
{
    struct sl_denial_cache *denials = sl_alloc_new(alloc, denials_size(most));

    if (!denials)
        return SLUICE_ENOMEM;
    memset(denials, 0, denials_size(most));
    denials->alloc = alloc;
    denials->most = most;
    *ret = denials;
    return 0;
}

void sl_denial_cache_close(struct sl_denial_cache *denials)
{
    if (denials)
        sl_alloc_free(denials->alloc, denials, denials_size(denials->most));
}
