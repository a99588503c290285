/* conn_limit.c -- counts connections over all loops and by address.
 *
 * A hash table with open addressing, at most half full. When the last
 * connection of an address ends, later entries move up: no tombstones.
 *
 * Invariants. (test/unit/net/conn_limit.c checks them.)
 *   (1) `count` is the number of connections and never above `most`.
 *   (2) The counts of all places add up to the connections with an address.
 *   (3) All places from the hash of an address to its place are taken.
 */
#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "net/listener.h"

#define PREFIX 64 /* bits of an IPv6 network of one user */

struct place {
    struct sl_ip ip;
    uint32_t count; /* 0: free */
};

struct sl_conn_limit {
    const struct sl_alloc *alloc;
    size_t size; /* of this block */
    pthread_mutex_t lock;
    struct sl_hash_key secret; /* clients choose their addresses */
    unsigned most, most_each, count;
    unsigned mask;
    struct place places[];
};

int sl_conn_limit_open(const struct sl_alloc *alloc, unsigned most,
                       unsigned most_each, struct sl_conn_limit **ret)
{
    struct sl_conn_limit *limit;
    size_t places = 2, size;

    if (!alloc)
        alloc = &sl_alloc_libc;
    while (places < 2 * (size_t)most)
        places *= 2;
    size = sizeof(*limit) + places * sizeof(limit->places[0]);
    limit = sl_alloc_new(alloc, size);
    if (!limit)
        return SLUICE_ENOMEM;
    memset(limit, 0, size);
    if (sl_hash_key_make(&limit->secret)) {
        sl_alloc_free(alloc, limit, size);
        return SLUICE_ESYS;
    }
    limit->alloc = alloc;
    limit->size = size;
    limit->most = most;
    limit->most_each = most_each;
    limit->mask = (unsigned)(places - 1);
    pthread_mutex_init(&limit->lock, NULL);
    *ret = limit;
    return 0;
}

void sl_conn_limit_close(struct sl_conn_limit *limit)
{
    if (!limit)
        return;
    pthread_mutex_destroy(&limit->lock);
    sl_alloc_free(limit->alloc, limit, limit->size);
}

/* ---- addresses ---- */

static unsigned home_of(const struct sl_conn_limit *limit,
                        const struct sl_ip *ip)
{
    struct sl_str bytes = {(const char *)ip->bytes, sizeof(ip->bytes)};

    return (unsigned)sl_hash64(&limit->secret, bytes) & limit->mask;
}

/* The place of `ip`, or the free place for it. */
static unsigned find(const struct sl_conn_limit *limit, const struct sl_ip *ip)
{
    unsigned i = home_of(limit, ip);

    while (limit->places[i].count > 0 &&
           memcmp(&limit->places[i].ip, ip, sizeof(*ip)) != 0)
        i = (i + 1) & limit->mask;
    return i;
}

/* How far an entry is behind the place of its hash. */
static unsigned distance(const struct sl_conn_limit *limit, unsigned at)
{
    return (at - home_of(limit, &limit->places[at].ip)) & limit->mask;
}

/* Restore (3) behind the free place `hole`. */
static void close_gap(struct sl_conn_limit *limit, unsigned hole)
{
    unsigned i = hole;

    for (;;) {
        i = (i + 1) & limit->mask;
        if (limit->places[i].count == 0)
            return;
        if (distance(limit, i) < ((i - hole) & limit->mask))
            continue; /* its hash is behind the hole */
        limit->places[hole] = limit->places[i];
        limit->places[i].count = 0;
        hole = i;
    }
}

static struct sl_ip counted_part(const struct sl_ip *ip)
{
    return sl_ip_is_v4(ip) ? *ip : sl_ip_prefix(ip, PREFIX);
}

/* ---- enter and leave ---- */

static enum sl_conn_limit_answer enter_locked(struct sl_conn_limit *limit,
                                              const struct sl_ip *ip)
{
    struct place *place;

    if (limit->count == limit->most)
        return SL_CONN_LIMIT_FULL;
    if (ip) {
        place = &limit->places[find(limit, ip)];
        if (place->count == limit->most_each)
            return SL_CONN_LIMIT_TOO_MANY;
        place->ip = *ip;
        place->count++;
    }
    limit->count++;
    return SL_CONN_LIMIT_IN;
}

enum sl_conn_limit_answer sl_conn_limit_enter(struct sl_conn_limit *limit,
                                              const struct sl_ip *ip)
{
    enum sl_conn_limit_answer answer;
    struct sl_ip own;

    if (ip)
        own = counted_part(ip);
    pthread_mutex_lock(&limit->lock);
    answer = enter_locked(limit, ip ? &own : NULL);
    pthread_mutex_unlock(&limit->lock);
    return answer;
}

void sl_conn_limit_leave(struct sl_conn_limit *limit, const struct sl_ip *ip)
{
    struct sl_ip own;
    unsigned at;

    if (ip)
        own = counted_part(ip);
    pthread_mutex_lock(&limit->lock);
    limit->count--;
    if (ip) {
        at = find(limit, &own);
        if (--limit->places[at].count == 0)
            close_gap(limit, at);
    }
    pthread_mutex_unlock(&limit->lock);
}

unsigned sl_conn_limit_count(struct sl_conn_limit *limit)
{
    unsigned count;

    pthread_mutex_lock(&limit->lock);
    count = limit->count;
    pthread_mutex_unlock(&limit->lock);
    return count;
}
