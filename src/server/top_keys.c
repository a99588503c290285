/* read.c -- looking at what all threads have counted.
 *
 * Each thread's spans are copied, one at a time under its lock, and merged
 * into one sketch, which has the same bounds as each of them. What is kept of
 * one key at several endpoints is added up, unless an endpoint was asked for:
 * at each endpoint of the limit where the key is not found it may have had the
 * floor.
 */
#include <stdlib.h>
#include <string.h>

#include "server/top_keys_int.h"

#define TRIES 4

/* A megabyte, for as long as somebody looks. */
struct table {
    const struct sl_top_keys_query *query;
    struct sl_sketch copy, all;
    struct sl_top_keys_labels copied, places;
    uint16_t map[SL_TOP_KEYS_LABELS]; /* of copied to places */
    sl_ns from;
    unsigned count;
    struct entry {
        uint64_t group; /* limit, scope and key */
        const struct sl_sketch_item *item;
    } entries[SL_SKETCH_ITEMS];
    unsigned row_count;
    struct sl_top_keys_row rows[SL_SKETCH_ITEMS];
};

/* ---- copying ---- */

static void copy_places(struct table *t, const struct sl_top_keys *top)
{
    t->copied.count = top->places.count;
    memcpy(t->copied.list, top->places.list,
           top->places.count * sizeof(top->places.list[0]));
    t->copied.list[SL_TOP_KEYS_LABELS - 1] =
        top->places.list[SL_TOP_KEYS_LABELS - 1];
}

static void copy_span(struct table *t, const struct sl_sketch *span)
{
    size_t head = offsetof(struct sl_sketch, items);

    memcpy(&t->copy, span, head + span->count * sizeof(span->items[0]));
}

static void map_places(struct table *t)
{
    for (unsigned i = 0; i < t->copied.count; i++)
        t->map[i] = (uint16_t)sl_top_keys_label(&t->places, &t->copied.list[i]);
    t->map[SL_TOP_KEYS_LABELS - 1] = SL_TOP_KEYS_LABELS - 1;
    t->places.list[SL_TOP_KEYS_LABELS - 1] =
        t->copied.list[SL_TOP_KEYS_LABELS - 1];
}

/* Merge one of the spans. False if a span has ended since `turns`: then what
 * is where has changed. */
static bool merge_span(struct table *t, struct sl_top_keys *top, unsigned which,
                       uint64_t turns)
{
    bool good;

    pthread_mutex_lock(&top->lock);
    good = top->turns == turns;
    if (good) {
        copy_places(t, top);
        copy_span(t, sl_top_keys_span(top, which));
    }
    pthread_mutex_unlock(&top->lock);
    if (good) {
        map_places(t);
        sl_sketch_merge(&t->all, &t->copy, t->map);
    }
    return good;
}

static bool merge_thread(struct table *t, struct sl_top_keys *top)
{
    bool recent = t->query->recent;
    unsigned last = recent ? SL_TOP_KEYS_BEFORE : SL_TOP_KEYS_EARLIER;
    uint64_t turns;
    sl_ns from;

    pthread_mutex_lock(&top->lock);
    sl_top_keys_rotate(top, t->query->now);
    turns = top->turns;
    from = recent ? top->begun_before : top->started;
    pthread_mutex_unlock(&top->lock);
    if (t->from < 0 || from < t->from)
        t->from = from;
    for (unsigned which = SL_TOP_KEYS_SPANS; which-- > last;)
        if (!merge_span(t, top, which, turns))
            return false;
    return true;
}

static bool merge_all(struct table *t, struct sl_top_keys *const *all,
                      unsigned count)
{
    t->from = SL_NS_NONE;
    memset(&t->places, 0, sizeof(t->places));
    sl_sketch_init(&t->all);
    for (unsigned i = 0; i < count; i++)
        if (!merge_thread(t, all[i]))
            return false;
    return true;
}

/* ---- rows ---- */

static struct sl_str cut(struct sl_str name)
{
    name.len = name.len < SL_TOP_KEYS_NAME ? name.len : SL_TOP_KEYS_NAME;
    return name;
}

static bool is_asked_for(const struct table *t,
                         const struct sl_top_keys_label *place)
{
    struct sl_str limit = cut(t->query->limit);
    struct sl_str endpoint = cut(t->query->endpoint);

    return (limit.len == 0 ||
            sl_str_eq(limit,
                      (struct sl_str){place->limit, place->limit_len})) &&
           (endpoint.len == 0 ||
            sl_str_eq(endpoint,
                      (struct sl_str){place->endpoint, place->endpoint_len}));
}

static int by_group(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return (x->group > y->group) - (x->group < y->group);
}

static void choose_entries(struct table *t)
{
    for (unsigned i = 0; i < t->all.count; i++) {
        const struct sl_sketch_item *item = &t->all.items[i];
        const struct sl_top_keys_label *place = &t->places.list[item->place];

        if (is_asked_for(t, place))
            t->entries[t->count++] =
                (struct entry){item->print - place->endpoint_hash, item};
    }
    qsort(t->entries, t->count, sizeof(t->entries[0]), by_group);
}

/* At how many of the endpoints that were asked for the limit has been seen. */
static unsigned count_endpoints(const struct table *t, uint64_t limit_hash)
{
    unsigned count = 0;

    for (unsigned i = 0; i < t->places.count; i++)
        count += t->places.list[i].limit_hash == limit_hash &&
                 is_asked_for(t, &t->places.list[i]);
    return count > 0 ? count : 1;
}

/* One row of the `count` entries of a group. */
static void add_row(struct table *t, const struct entry *entries,
                    unsigned count)
{
    const struct sl_sketch_item *item = entries[0].item;
    const struct sl_top_keys_label *place = &t->places.list[item->place];
    unsigned endpoints = count_endpoints(t, place->limit_hash);
    uint64_t missing = endpoints > count ? endpoints - count : 0;
    struct sl_top_keys_row row = {
        .limit = {place->limit, place->limit_len},
        .scope = {place->scope, place->scope_len},
        .key = {item->key,    item->key_len   },
        .cut = item->cut,
    };

    for (unsigned m = 0; m < SL_MEASURES; m++) {
        row.count[m] = row.error[m] = missing * t->all.floor[m];
        for (unsigned i = 0; i < count; i++) {
            row.count[m] += entries[i].item->count[m];
            row.error[m] += entries[i].item->error[m];
        }
    }
    if (row.count[t->query->by] > row.error[t->query->by])
        t->rows[t->row_count++] = row;
}

static void make_rows(struct table *t)
{
    for (unsigned i = 0, n; i < t->count; i += n) {
        for (n = 1; i + n < t->count &&
                    t->entries[i + n].group == t->entries[i].group;)
            n++;
        add_row(t, &t->entries[i], n);
    }
}

/* The largest first; equals by their keys, so that a page does not flicker. */
static int by_count(const void *a, const void *b, void *ctx)
{
    enum sl_measure by = ((const struct sl_top_keys_query *)ctx)->by;
    const struct sl_top_keys_row *x = a, *y = b;
    size_t len = x->key.len < y->key.len ? x->key.len : y->key.len;
    int order;

    if (x->count[by] != y->count[by])
        return x->count[by] < y->count[by] ? 1 : -1;
    order = len > 0 ? memcmp(x->key.at, y->key.at, len) : 0;
    return order ? order
                 : (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

/* ---- the answer ---- */

static int keep_text(struct sl_arena *arena, struct sl_str *text)
{
    text->at = sl_arena_copy(arena, *text);
    return text->at ? 0 : SLUICE_ENOMEM;
}

static int answer(struct table *t, struct sl_arena *arena,
                  struct sl_top_keys_answer *ret)
{
    unsigned count =
        t->row_count < t->query->most ? t->row_count : t->query->most;
    struct sl_top_keys_row *rows =
        sl_arena_take(arena, (count + 1) * sizeof(rows[0]));
    int err = rows ? 0 : SLUICE_ENOMEM;

    for (unsigned i = 0; i < count && !err; i++) {
        rows[i] = t->rows[i];
        err = keep_text(arena, &rows[i].limit);
        if (!err)
            err = keep_text(arena, &rows[i].scope);
        if (!err)
            err = keep_text(arena, &rows[i].key);
    }
    if (err)
        return err;
    *ret = (struct sl_top_keys_answer){
        .from = t->from, .rows = rows, .count = count};
    memcpy(ret->total, t->all.total, sizeof(ret->total));
    return 0;
}

int sl_top_keys_read(struct sl_top_keys *const *all, unsigned count,
                     const struct sl_top_keys_query *query,
                     struct sl_arena *arena, struct sl_top_keys_answer *ret)
{
    struct table *t = sl_alloc_new(arena->alloc, sizeof(*t));
    struct sl_top_keys_query asked = *query;
    int err;

    if (!t)
        return SLUICE_ENOMEM;
    t->query = &asked;
    t->count = t->row_count = 0;
    /* A span ends once in minutes: the second time is the last. */
    for (unsigned i = 0; i < TRIES && !merge_all(t, all, count); i++)
        ;
    choose_entries(t);
    make_rows(t);
    qsort_r(t->rows, t->row_count, sizeof(t->rows[0]), by_count, &asked);
    err = answer(t, arena, ret);
    sl_alloc_free(arena->alloc, t, sizeof(*t));
    return err;
}
