/* replay_cache.c -- remembers idempotency keys and deduplicated requests, with
 * the answers that their repeats get again. In memory; replay_file.c keeps a
 * copy on disk, and store/repeats.h is the memory that daemons share. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/queue.h>

#include "engine/engine_int.h"

#define SHARDS   16
#define BUCKETS  1024 /* of a shard: 16 MiB are some 40 records in each */
#define LOOK_FAR 256  /* records checked for expiry when room is needed */
#define LOOK     4    /* strict cache: records checked with each new one */

struct record {
    LIST_ENTRY(record) chain;
    TAILQ_ENTRY(record) order; /* DONE only */
    struct sl_repeat_claim claim;
    bool running;
    uint32_t repeats; /* that this memo still answers */
    size_t len;
    unsigned char memo[];
};

struct shard {
    pthread_mutex_t lock;
    LIST_HEAD(chain, record) buckets[BUCKETS];
    TAILQ_HEAD(order, record) done; /* least recently used first */
    size_t bytes, count;
    uint64_t evicted;
};

struct sl_replay_cache {
    struct shard shards[SHARDS];
    _Atomic size_t most; /* bytes of a shard */
    bool strict;
    struct sl_replay_file *file; /* or NULL */
    unsigned which;              /* of the caches in the file */
    sl_ns loaded_at;
    const struct sl_alloc *alloc;
};

static size_t size_of(size_t len)
{
    return sizeof(struct record) + len;
}

static struct shard *shard_of(struct sl_replay_cache *once,
                              const struct sl_repeat_claim *claim)
{
    return &once->shards[claim->key.hi % SHARDS];
}

static struct chain *chain_of(struct shard *shard,
                              const struct sl_repeat_claim *claim)
{
    return &shard->buckets[claim->key.lo % BUCKETS];
}

static struct record *find(struct shard *shard,
                           const struct sl_repeat_claim *claim)
{
    struct record *record;

    LIST_FOREACH (record, chain_of(shard, claim), chain)
        if (sl_hash128_eq(record->claim.key, claim->key))
            break;
    return record;
}

/* ---- room ---- */

static void remove_record(struct sl_replay_cache *once, struct shard *shard,
                          struct record *record)
{
    size_t size = size_of(record->len);

    LIST_REMOVE(record, chain);
    if (!record->running)
        TAILQ_REMOVE(&shard->done, record, order);
    shard->bytes -= size;
    shard->count--;
    sl_alloc_free(once->alloc, record, size);
}

/* Free expired records among the first few. A strict cache moves the others to
 * the end, so that the next sweep checks other records. */
static void sweep(struct sl_replay_cache *once, struct shard *shard,
                  unsigned far, sl_ns now)
{
    struct record *record = TAILQ_FIRST(&shard->done), *next;
    const struct record *last = TAILQ_LAST(&shard->done, order);
    bool more = record != NULL;

    for (; more && far > 0; far--, record = next) {
        next = TAILQ_NEXT(record, order);
        more = next && record != last;
        if (record->claim.until <= now) {
            remove_record(once, shard, record);
        } else if (once->strict) {
            TAILQ_REMOVE(&shard->done, record, order);
            TAILQ_INSERT_TAIL(&shard->done, record, order);
        }
    }
}

static bool make_room(struct sl_replay_cache *once, struct shard *shard,
                      size_t size, sl_ns now)
{
    size_t most = atomic_load_explicit(&once->most, memory_order_relaxed);
    struct record *oldest;

    if (once->strict)
        sweep(once, shard, LOOK, now);
    if (shard->bytes + size > most)
        sweep(once, shard, LOOK_FAR, now);
    while (shard->bytes + size > most && !once->strict &&
           (oldest = TAILQ_FIRST(&shard->done)) != NULL) {
        remove_record(once, shard, oldest);
        shard->evicted++;
    }
    return shard->bytes + size <= most;
}

/* A new record, running, in its chain; NULL without room. */
static struct record *add(struct sl_replay_cache *once, struct shard *shard,
                          const struct sl_repeat_claim *claim, size_t len,
                          sl_ns now)
{
    struct record *record;

    if (!make_room(once, shard, size_of(len), now))
        return NULL;
    record = sl_alloc_new(once->alloc, size_of(len));
    if (!record)
        return NULL;
    memset(record, 0, sizeof(*record));
    record->claim = *claim;
    record->running = true;
    record->len = len;
    LIST_INSERT_HEAD(chain_of(shard, claim), record, chain);
    shard->bytes += size_of(len);
    shard->count++;
    return record;
}

/* ---- claims ---- */

static enum sl_repeat_found repeat(struct shard *shard, struct record *record,
                                   const struct sl_repeat_claim *claim,
                                   bool look, void *memo, size_t size,
                                   size_t *ret_len)
{
    if (!sl_hash128_eq(record->claim.fingerprint, claim->fingerprint))
        return SL_REPEAT_OTHER;
    if (record->running)
        return SL_REPEAT_RUNNING;
    *ret_len = record->len < size ? record->len : size;
    if (*ret_len > 0)
        memcpy(memo, record->memo, *ret_len);
    if (!look) {
        record->repeats--;
        TAILQ_REMOVE(&shard->done, record, order);
        TAILQ_INSERT_TAIL(&shard->done, record, order);
    }
    return SL_REPEAT_AGAIN;
}

/* Has it expired, or been repeated often enough? */
static bool is_spent(const struct record *record, sl_ns now)
{
    return !record->running &&
           (record->claim.until <= now || record->repeats == 0);
}

static enum sl_repeat_found begin_locked(struct sl_replay_cache *once,
                                         struct shard *shard,
                                         const struct sl_repeat_claim *claim,
                                         sl_ns now, bool look, void *memo,
                                         size_t size, size_t *ret_len)
{
    struct record *record = find(shard, claim);

    if (record && !is_spent(record, now))
        return repeat(shard, record, claim, look, memo, size, ret_len);
    if (look)
        return SL_REPEAT_FIRST;
    if (record)
        remove_record(once, shard, record);
    return add(once, shard, claim, 0, now) ? SL_REPEAT_FIRST : SL_REPEAT_FULL;
}

enum sl_repeat_found sl_replay_cache_begin(struct sl_replay_cache *once,
                                           const struct sl_repeat_claim *claim,
                                           sl_ns now, bool look, void *memo,
                                           size_t size, size_t *ret_len)
{
    struct shard *shard = shard_of(once, claim);
    enum sl_repeat_found found;

    *ret_len = 0;
    pthread_mutex_lock(&shard->lock);
    found = begin_locked(once, shard, claim, now, look, memo, size, ret_len);
    pthread_mutex_unlock(&shard->lock);
    return found;
}

/* The claim is a record without a memo: another one takes its place. It was
 * counted, so `until` serves as a time at which nothing is over yet. */
static void finish_locked(struct sl_replay_cache *once, struct shard *shard,
                          const struct sl_repeat_claim *claim, const void *memo,
                          size_t len)
{
    struct record *record = find(shard, claim);

    if (record && len > 0) {
        remove_record(once, shard, record);
        record = len <= SL_REPEAT_MEMO ? add(once, shard, claim, len, 0) : NULL;
    }
    if (!record)
        return;
    if (len > 0)
        memcpy(record->memo, memo, len);
    record->running = false;
    record->repeats = claim->repeats;
    TAILQ_INSERT_TAIL(&shard->done, record, order);
}

void sl_replay_cache_finish(struct sl_replay_cache *once,
                            const struct sl_repeat_claim *claim,
                            const void *memo, size_t len)
{
    struct shard *shard = shard_of(once, claim);

    pthread_mutex_lock(&shard->lock);
    finish_locked(once, shard, claim, memo, len);
    pthread_mutex_unlock(&shard->lock);
    if (once->file)
        sl_replay_file_add(once->file, once->which, claim, memo, len);
}

/* Writes a completed entry, whatever was there. */
static void put(struct sl_replay_cache *once,
                const struct sl_repeat_claim *claim, const void *memo,
                size_t len)
{
    struct shard *shard = shard_of(once, claim);
    struct record *record;

    pthread_mutex_lock(&shard->lock);
    record = find(shard, claim);
    if (record)
        remove_record(once, shard, record);
    if (add(once, shard, claim, 0, 0))
        finish_locked(once, shard, claim, memo, len);
    pthread_mutex_unlock(&shard->lock);
}

void sl_replay_cache_put(struct sl_replay_cache *once,
                         const struct sl_repeat_claim *claim, const void *memo,
                         size_t len)
{
    put(once, claim, memo, len);
    if (once->file)
        sl_replay_file_add(once->file, once->which, claim, memo, len);
}

/* One entry of the file. */
static void on_entry(void *ctx, unsigned which,
                     const struct sl_repeat_claim *claim, const void *memo,
                     size_t len)
{
    struct sl_replay_cache *once = ctx;

    if (which == once->which && claim->until > once->loaded_at)
        put(once, claim, memo, len);
}

void sl_replay_cache_load(struct sl_replay_cache *once,
                          struct sl_replay_file *file, unsigned which,
                          sl_ns now)
{
    once->which = which;
    once->loaded_at = now;
    sl_replay_file_each(file, on_entry, once);
    once->file = file;
}

void sl_replay_cache_drop(struct sl_replay_cache *once,
                          const struct sl_repeat_claim *claim)
{
    struct shard *shard = shard_of(once, claim);
    struct record *record;

    pthread_mutex_lock(&shard->lock);
    record = find(shard, claim);
    if (record)
        remove_record(once, shard, record);
    pthread_mutex_unlock(&shard->lock);
}

/* ---- open and close ---- */

int sl_replay_cache_open(size_t bytes, bool strict,
                         const struct sl_alloc *alloc,
                         struct sl_replay_cache **ret)
{
    struct sl_replay_cache *once = sl_alloc_new(alloc, sizeof(*once));

    if (!once)
        return SLUICE_ENOMEM;
    memset(once, 0, sizeof(*once));
    once->alloc = alloc;
    once->strict = strict;
    atomic_init(&once->most, bytes / SHARDS);
    for (unsigned i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&once->shards[i].lock, NULL);
        TAILQ_INIT(&once->shards[i].done);
    }
    *ret = once;
    return 0;
}

static void empty(struct sl_replay_cache *once, struct shard *shard)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        while (!LIST_EMPTY(&shard->buckets[i]))
            remove_record(once, shard, LIST_FIRST(&shard->buckets[i]));
}

void sl_replay_cache_close(struct sl_replay_cache *once)
{
    if (!once)
        return;
    for (unsigned i = 0; i < SHARDS; i++) {
        empty(once, &once->shards[i]);
        pthread_mutex_destroy(&once->shards[i].lock);
    }
    sl_alloc_free(once->alloc, once, sizeof(*once));
}

void sl_replay_cache_forget(struct sl_replay_cache *once)
{
    for (unsigned i = 0; once && i < SHARDS; i++) {
        struct shard *shard = &once->shards[i];

        pthread_mutex_lock(&shard->lock);
        while (!TAILQ_EMPTY(&shard->done))
            remove_record(once, shard, TAILQ_FIRST(&shard->done));
        pthread_mutex_unlock(&shard->lock);
    }
}

void sl_replay_cache_resize(struct sl_replay_cache *once, size_t bytes)
{
    atomic_store(&once->most, bytes / SHARDS);
}

void sl_replay_cache_stats(struct sl_replay_cache *once,
                           struct sl_replay_cache_stats *ret)
{
    *ret = (struct sl_replay_cache_stats){0};
    for (unsigned i = 0; i < SHARDS; i++) {
        struct shard *shard = &once->shards[i];

        pthread_mutex_lock(&shard->lock);
        ret->count += shard->count;
        ret->bytes += shard->bytes;
        ret->evicted += shard->evicted;
        pthread_mutex_unlock(&shard->lock);
    }
}
