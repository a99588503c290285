/* keys.c -- the keys that have a lease, in shards with a lock each. */
#include <stdatomic.h>
#include <string.h>

#include "store/store_int.h"

#define ID_MOST 4096

static struct sl_quota_leases_key **
row_of(const struct sl_quota_leases *l, unsigned shard, struct sl_hash128 hash)
{
    const struct sl_quota_leases_shard *s = &l->shards[shard];

    return &s->rows[hash.lo & (s->row_count - 1)];
}

struct sl_quota_leases_place
sl_quota_leases_place(const struct sl_quota_leases *l,
                      const struct sl_store_part *part)
{
    struct sl_quota_leases_place place = {
        .hash = sl_table_fingerprint(&part->of->table, part->key)};

    place.shard = (unsigned)(place.hash.hi % SHARDS);
    __builtin_prefetch(&l->shards[place.shard]);
    return place;
}

struct sl_quota_leases_key *sl_quota_leases_again(struct sl_quota_leases *l,
                                                  unsigned shard,
                                                  struct sl_hash128 hash,
                                                  uint32_t limit_id)
{
    struct sl_quota_leases_key *k = *row_of(l, shard, hash);

    while (k && (k->limit_id != limit_id || k->hash.lo != hash.lo ||
                 k->hash.hi != hash.hi))
        k = k->next;
    return k;
}

struct sl_quota_leases_key *
sl_quota_leases_find(struct sl_quota_leases *l,
                     const struct sl_quota_leases_place *place,
                     const struct sl_store_part *part)
{
    return sl_quota_leases_again(l, place->shard, place->hash,
                                 part->of->table.id);
}

static struct sl_str put_text(char **at, struct sl_str text)
{
    struct sl_str copy = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static struct sl_quota_leases_key *new_key(struct sl_quota_leases *l,
                                           struct sl_str scope,
                                           struct sl_str id,
                                           struct sl_str limit)
{
    size_t size =
        sizeof(struct sl_quota_leases_key) + scope.len + id.len + limit.len;
    struct sl_quota_leases_key *k = sl_alloc_new(l->alloc, size);
    char *at;

    if (!k)
        return NULL;
    memset(k, 0, sizeof(*k));
    at = (char *)(k + 1);
    k->size = size;
    k->waiting_end = &k->waiting;
    k->scope = put_text(&at, scope);
    k->id = put_text(&at, id);
    k->limit = put_text(&at, limit);
    return k;
}

/* As many rows as keys, so that few keys need few lines of the cache. Without
 * memory they stay as they are, and are longer. */
static void grow(struct sl_quota_leases *l, struct sl_quota_leases_shard *s)
{
    unsigned count = 2 * s->row_count, old_count = s->row_count;
    struct sl_quota_leases_key **old = s->rows;
    struct sl_quota_leases_key **rows =
        sl_alloc_new(l->alloc, count * sizeof(struct sl_quota_leases_key *));

    if (!rows)
        return;
    memset(rows, 0, count * sizeof(struct sl_quota_leases_key *));
    for (unsigned i = 0; i < old_count; i++)
        for (struct sl_quota_leases_key *k = old[i], *next; k; k = next) {
            struct sl_quota_leases_key **row = &rows[k->hash.lo & (count - 1)];

            next = k->next;
            k->next = *row;
            *row = k;
        }
    s->rows = rows;
    s->row_count = count;
    if (old != s->few)
        sl_alloc_free(l->alloc, old,
                      old_count * sizeof(struct sl_quota_leases_key *));
}

static void add_key(struct sl_quota_leases *l, unsigned shard,
                    struct sl_quota_leases_key *k)
{
    struct sl_quota_leases_shard *s = &l->shards[shard];
    struct sl_quota_leases_key **row;

    if (s->keys++ >= s->row_count)
        grow(l, s);
    row = row_of(l, shard, k->hash);
    k->next = *row;
    *row = k;
    atomic_fetch_add(&l->keys, 1);
}

struct sl_quota_leases_key *
sl_quota_leases_add(struct sl_quota_leases *l,
                    const struct sl_quota_leases_place *place,
                    const struct sl_store_part *part)
{
    struct sl_quota_leases_key *k = NULL;
    struct sl_str scope;
    struct sl_buf id;

    if (atomic_load(&l->keys) >= SL_LEASES_MOST)
        return NULL;
    sl_buf_init(&id, ID_MOST, l->alloc);
    if (l->options.lender->name(l->options.lender, part, &scope, &id))
        k = new_key(l, scope, sl_buf_str(&id), sl_str_c(part->of->name));
    sl_buf_done(&id);
    if (!k)
        return NULL;
    k->hash = place->hash;
    k->limit_id = part->of->table.id;
    add_key(l, place->shard, k);
    return k;
}

/* ---- all of them ---- */

static void visit_row(struct sl_quota_leases *l,
                      struct sl_quota_leases_shard *shard, unsigned row,
                      sl_quota_leases_f *f, void *ctx)
{
    struct sl_quota_leases_key **at = &shard->rows[row];

    while (*at) {
        struct sl_quota_leases_key *k = *at;

        if (!f(ctx, k)) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        sl_alloc_free(l->alloc, k, k->size);
        shard->keys--;
        atomic_fetch_sub(&l->keys, 1);
    }
}

void sl_quota_leases_each(struct sl_quota_leases *l, sl_quota_leases_f *f,
                          void *ctx)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        struct sl_quota_leases_shard *shard = &l->shards[i];

        pthread_mutex_lock(&shard->lock);
        for (unsigned row = 0; row < shard->row_count; row++)
            visit_row(l, shard, row, f, ctx);
        pthread_mutex_unlock(&shard->lock);
    }
}

/* ---- life ---- */

#define ALIGN      _Alignof(struct sl_quota_leases_shard)
#define SHARD_PART (SHARDS * sizeof(struct sl_quota_leases_shard) + ALIGN)

int sl_quota_leases_make_shards(struct sl_quota_leases *l)
{
    char *at = sl_alloc_new(l->alloc, SHARD_PART);

    if (!at)
        return SLUICE_ENOMEM;
    l->piece = at;
    pthread_mutex_init(&l->seeing, NULL);
    memset(at, 0, SHARD_PART);
    at += (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
    l->shards = (void *)at;
    for (unsigned i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&l->shards[i].lock, NULL);
        l->shards[i].rows = l->shards[i].few;
        l->shards[i].row_count = SL_QUOTA_LEASES_FEW;
    }
    return 0;
}

static bool always(void *ctx, struct sl_quota_leases_key *key)
{
    (void)ctx;
    (void)key;
    return true;
}

void sl_quota_leases_free_shards(struct sl_quota_leases *l)
{
    if (!l->piece)
        return;
    sl_quota_leases_each(l, always, NULL);
    for (unsigned i = 0; i < SHARDS; i++) {
        struct sl_quota_leases_shard *s = &l->shards[i];

        if (s->rows != s->few)
            sl_alloc_free(l->alloc, s->rows,
                          s->row_count * sizeof(struct sl_quota_leases_key *));
        pthread_mutex_destroy(&s->lock);
    }
    pthread_mutex_destroy(&l->seeing);
    sl_alloc_free(l->alloc, l->piece, SHARD_PART);
    l->piece = NULL;
}
