/* top.c -- counting by key, by one thread for itself.
 *
 * On the way of a decision are: an uncontended lock, a short hash of each
 * key (limits of the same caller share one), one look at which limit and
 * endpoint it is (a cache by their indices, believed only if the names are the
 * same), one look into the sketch.
 */
#include "server/top_keys.h"

#include <string.h>

#include "server/top_keys_int.h"

const char *const sl_measure_names[SL_MEASURES] = {"denied", "allowed", "cost"};

/* What is kept of a name; how much. */
static uint8_t keep(char to[SL_TOP_KEYS_NAME], struct sl_str name)
{
    size_t len = name.len < SL_TOP_KEYS_NAME ? name.len : SL_TOP_KEYS_NAME;

    if (len > 0)
        memcpy(to, name.at, len);
    return (uint8_t)len;
}

/* ---- life ---- */

/* Its hashes are 0, as nobody else's are. */
static void name_others(struct sl_top_keys_label *place)
{
    place->limit_len = keep(place->limit, SL_STR("other"));
    place->scope_len = keep(place->scope, SL_STR("other"));
    place->endpoint_len = keep(place->endpoint, SL_STR("other"));
}

void sl_top_keys_close(struct sl_top_keys *top)
{
    if (!top)
        return;
    pthread_mutex_destroy(&top->lock);
    sl_alloc_free(top->alloc, top, sizeof(*top));
}

int sl_top_keys_open(const struct sl_alloc *alloc,
                     const struct sl_hash_key *secret, sl_ns now,
                     struct sl_top_keys **ret)
{
    struct sl_top_keys *top;

    if (!alloc)
        alloc = &sl_alloc_libc;
    top = sl_alloc_new(alloc, sizeof(*top));
    if (!top)
        return SLUICE_ENOMEM;
    memset(top, 0, offsetof(struct sl_top_keys, spans));
    top->alloc = alloc;
    top->secret = *secret;
    top->started = top->begun = top->begun_before = now;
    pthread_mutex_init(&top->lock, NULL);
    for (unsigned i = 0; i < SL_TOP_KEYS_LABELS; i++)
        top->own[i] = (uint16_t)i;
    for (unsigned i = 0; i < SL_TOP_KEYS_SPANS; i++) {
        top->order[i] = i;
        sl_sketch_init(&top->spans[i]);
    }
    name_others(&top->places.list[SL_TOP_KEYS_LABELS - 1]);
    *ret = top;
    return 0;
}

/* ---- spans ---- */

/* The present span is the one before from now on. */
static void end_span(struct sl_top_keys *top)
{
    unsigned free = top->order[SL_TOP_KEYS_BEFORE];

    sl_sketch_merge(sl_top_keys_span(top, SL_TOP_KEYS_EARLIER),
                    &top->spans[free], top->own);
    sl_sketch_init(&top->spans[free]);
    top->order[SL_TOP_KEYS_BEFORE] = top->order[SL_TOP_KEYS_PRESENT];
    top->order[SL_TOP_KEYS_PRESENT] = free;
    top->begun_before = top->begun;
    top->turns++;
}

void sl_top_keys_rotate(struct sl_top_keys *top, sl_ns now)
{
    sl_ns passed = now - top->begun;

    if (passed > -SL_TOP_KEYS_SPAN && passed < SL_TOP_KEYS_SPAN)
        return;
    end_span(top);
    if (passed >= 2 * SL_TOP_KEYS_SPAN) { /* nobody came for a whole span */
        end_span(top);
        top->begun_before = now;
    }
    top->begun = now;
}

/* ---- places ---- */

static bool same_place(const struct sl_top_keys_label *a,
                       const struct sl_top_keys_label *b)
{
    return a->limit_hash == b->limit_hash &&
           a->endpoint_hash == b->endpoint_hash;
}

unsigned sl_top_keys_label(struct sl_top_keys_labels *places,
                           const struct sl_top_keys_label *like)
{
    unsigned mask = SL_LEN(places->index) - 1;
    uint64_t hash = like->limit_hash + like->endpoint_hash;
    unsigned i = (unsigned)(hash >> 32) & mask;

    while (places->index[i]) {
        unsigned at = places->index[i] - 1u;

        if (same_place(&places->list[at], like))
            return at;
        i = (i + 1) & mask;
    }
    if (places->count == SL_TOP_KEYS_LABELS - 1)
        return SL_TOP_KEYS_LABELS - 1;
    places->list[places->count] = *like;
    places->index[i] = (uint16_t)++places->count;
    return places->count - 1;
}

/* Is it the name that was kept? Of one that was cut nobody can tell. */
static inline bool is_kept(const char *kept, uint8_t len, struct sl_str name)
{
    return len == name.len && len < SL_TOP_KEYS_NAME &&
           (len == 0 || memcmp(kept, name.at, len) == 0);
}

static unsigned make_place(struct sl_top_keys *top,
                           const struct sl_limit_view *shown,
                           struct sl_str endpoint)
{
    struct sl_str limit = shown->rule->name;
    struct sl_top_keys_label like = {
        .limit_hash = sl_hash64(&top->secret, limit) +
                      3 * sl_hash64(&top->secret, shown->scope),
        .endpoint_hash = 5 * sl_hash64(&top->secret, endpoint),
    };

    like.limit_len = keep(like.limit, limit);
    like.scope_len = keep(like.scope, shown->scope);
    like.endpoint_len = keep(like.endpoint, endpoint);
    return sl_top_keys_label(&top->places, &like);
}

static unsigned find_place(struct sl_top_keys *top, const struct sl_decision *d,
                           const struct sl_limit_view *shown)
{
    struct sl_str endpoint = d->route->endpoint;
    unsigned hint = shown->rule->index * 7 + d->route->index * 31;
    uint16_t *cached = &top->cache[hint % SL_TOP_KEYS_CACHE];
    const struct sl_top_keys_label *place;

    if (*cached) {
        place = &top->places.list[*cached - 1];
        if (is_kept(place->limit, place->limit_len, shown->rule->name) &&
            is_kept(place->scope, place->scope_len, shown->scope) &&
            is_kept(place->endpoint, place->endpoint_len, endpoint))
            return *cached - 1u;
    }
    *cached = (uint16_t)(make_place(top, shown, endpoint) + 1);
    return *cached - 1u;
}

/* ---- decisions ---- */

/* What was hashed last: limits beside each other are mostly kept by the same
 * key. */
struct hashed {
    struct sl_str key; /* of length 0: nothing */
    uint64_t hash;
};

static uint64_t hash_key(const struct sl_top_keys *top, struct sl_str key,
                         struct hashed *last)
{
    if (last->key.len == 0 || !sl_str_eq(last->key, key)) {
        last->key = key;
        last->hash = sl_hash64(&top->secret, key);
    }
    return last->hash;
}

static void count_shown(struct sl_top_keys *top, const struct sl_decision *d,
                        const struct sl_limit_view *shown, struct hashed *last)
{
    struct sl_sketch *present = sl_top_keys_span(top, SL_TOP_KEYS_PRESENT);
    struct sl_counted what = {.add = {0}};
    const struct sl_top_keys_label *place;

    if (!d->allowed) {
        if (shown->allowed || shown->mode != SL_MODE_ENFORCE)
            return;
        what.add[SL_DENIED] = 1;
    } else {
        if (!shown->allowed || shown->cost == 0)
            return;
        what.add[SL_ALLOWED] = 1;
        what.add[SL_COST] = shown->cost;
    }
    what.place = (uint16_t)find_place(top, d, shown);
    place = &top->places.list[what.place];
    what.print = hash_key(top, shown->key, last) + place->limit_hash +
                 place->endpoint_hash;
    what.key =
        (struct sl_str){shown->id, strnlen(shown->id, SL_SKETCH_TEXT + 1)};
    sl_sketch_add(present, &what);
}

void sl_top_keys_decision(struct sl_top_keys *top, const struct sl_decision *d)
{
    struct hashed last = {
        {NULL, 0},
        0
    };

    if (d->blind || d->reason != SL_REASON_NONE)
        return; /* no limit was asked */
    pthread_mutex_lock(&top->lock);
    sl_top_keys_rotate(top, d->now);
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_limit_view *shown = &d->shown[i];

        if (!shown->skipped && sl_rate_has_numbers(shown->form))
            count_shown(top, d, shown, &last);
    }
    pthread_mutex_unlock(&top->lock);
}
