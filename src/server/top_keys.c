/* top_keys.c -- reads and counts the busiest keys.
 *
 * A reader copies the spans of each thread, one at a time under its lock, and
 * merges them into one sketch with the same error bounds. The counts of a key
 * at several endpoints are added up, unless the query names an endpoint. A key
 * that is missing at an endpoint of the limit may have had the floor there.
 */
#include "server/top_keys.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 4

/* ---- the counts of a thread ---- */

/* The beginning of a name. */
struct name {
    uint8_t len;
    char text[SL_TOP_KEYS_NAME];
};

static struct sl_str text_of(const struct name *name)
{
    return (struct sl_str){name->text, name->len};
}

/* A limit at an endpoint, for keys of one scope. */
struct sl_top_keys_label {
    uint64_t limit_hash;    /* of limit and scope */
    uint64_t endpoint_hash; /* both of the whole names */
    struct name limit, scope, endpoint;
};

struct sl_top_keys_labels {
    unsigned count;
    struct sl_top_keys_label list[SL_TOP_KEYS_LABELS];
    uint16_t index[2 * SL_TOP_KEYS_LABELS]; /* by hashes; place + 1, 0: none */
};

enum {
    SL_TOP_KEYS_EARLIER, /* all spans except the last two */
    SL_TOP_KEYS_BEFORE,
    SL_TOP_KEYS_PRESENT,
    SL_TOP_KEYS_SPANS
};

#define SL_TOP_KEYS_CACHE 256

/* The last place of a rule and route. The addresses are those of the names in a
 * policy, which decisions name by a number: with the same number they are the
 * same names. */
struct cached {
    uint64_t generation; /* 0: nothing */
    struct sl_str limit, endpoint;
    unsigned place;
};

struct sl_top_keys {
    const struct sl_alloc *alloc;
    struct sl_hash_key secret;
    pthread_mutex_t lock;
    uint64_t turns; /* spans that have ended */
    sl_ns started;
    sl_ns begun;                            /* of the present span */
    sl_ns begun_before;                     /* of the one before it */
    unsigned order[SL_TOP_KEYS_SPANS];      /* which of `spans` is which */
    uint16_t own[SL_TOP_KEYS_LABELS];       /* the identity map */
    struct cached cache[SL_TOP_KEYS_CACHE]; /* by rule and route */
    struct sl_top_keys_labels places;
    struct sl_sketch spans[SL_TOP_KEYS_SPANS];
};

static struct sl_sketch *span_of(struct sl_top_keys *top, unsigned which)
{
    return &top->spans[top->order[which]];
}

/* ---- counting, by one thread for itself ----
 *
 * The cost of a decision: an uncontended lock, a short hash of each key (limits
 * of the same caller share it), one lookup of the limit and endpoint (a cache
 * by their indices), one lookup in the sketch.
 */

const char *const sl_measure_names[SL_MEASURES] = {"denied", "allowed", "cost"};

static struct sl_str cut(struct sl_str name)
{
    name.len = name.len < SL_TOP_KEYS_NAME ? name.len : SL_TOP_KEYS_NAME;
    return name;
}

static void keep(struct name *to, struct sl_str name)
{
    name = cut(name);
    if (name.len > 0)
        memcpy(to->text, name.at, name.len);
    to->len = (uint8_t)name.len;
}

/* ---- life ---- */

static void keep_names(struct sl_top_keys_label *place, struct sl_str limit,
                       struct sl_str scope, struct sl_str endpoint)
{
    keep(&place->limit, limit);
    keep(&place->scope, scope);
    keep(&place->endpoint, endpoint);
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
    keep_names(&top->places.list[SL_TOP_KEYS_LABELS - 1], SL_STR("other"),
               SL_STR("other"), SL_STR("other")); /* its hashes are 0 */
    *ret = top;
    return 0;
}

/* ---- spans ---- */

/* End the present span. */
static void end_span(struct sl_top_keys *top)
{
    unsigned free = top->order[SL_TOP_KEYS_BEFORE];

    sl_sketch_merge(span_of(top, SL_TOP_KEYS_EARLIER), &top->spans[free],
                    top->own);
    sl_sketch_init(&top->spans[free]);
    top->order[SL_TOP_KEYS_BEFORE] = top->order[SL_TOP_KEYS_PRESENT];
    top->order[SL_TOP_KEYS_PRESENT] = free;
    top->begun_before = top->begun;
    top->turns++;
}

/* End the present span if it is over. The caller has the lock. Threads read the
 * clock at different moments, so `now` may be slightly behind. */
static void rotate(struct sl_top_keys *top, sl_ns now)
{
    sl_ns passed = now - top->begun;

    if (passed > -SL_TOP_KEYS_SPAN && passed < SL_TOP_KEYS_SPAN)
        return;
    end_span(top);
    if (passed >= 2 * SL_TOP_KEYS_SPAN) { /* a whole span had no decision */
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

/* Find or add the place with these hashes and names. Returns the last place,
 * `other`, if there is no room. */
static unsigned place_of(struct sl_top_keys_labels *places,
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

/* Is this the stored name? A shortened name is never equal. */
static inline bool is_kept(const struct name *kept, struct sl_str name)
{
    return kept->len == name.len && name.len < SL_TOP_KEYS_NAME &&
           (name.len == 0 || memcmp(kept->text, name.at, name.len) == 0);
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

    keep_names(&like, limit, shown->scope, endpoint);
    return place_of(&top->places, &like);
}

static unsigned find_place(struct sl_top_keys *top, const struct sl_decision *d,
                           const struct sl_limit_view *shown)
{
    const struct sl_route *route = d->route;
    const struct sl_rule *rule = shown->rule;
    unsigned hint = rule->index * 7 + route->index * 31;
    struct cached *cached = &top->cache[hint % SL_TOP_KEYS_CACHE];

    if (d->generation == 0 || cached->generation != d->generation ||
        !sl_is_same_text(cached->limit, rule->name) ||
        !sl_is_same_text(cached->endpoint, route->endpoint) ||
        !is_kept(&top->places.list[cached->place].scope, shown->scope)) {
        cached->place = make_place(top, shown, route->endpoint);
        cached->generation = d->generation;
        cached->limit = rule->name;
        cached->endpoint = route->endpoint;
    }
    return cached->place;
}

/* ---- decisions ---- */

/* The last hash. Limits of one decision mostly have the same key. */
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
    struct sl_sketch *present = span_of(top, SL_TOP_KEYS_PRESENT);
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
    what.fingerprint = hash_key(top, shown->key, last) + place->limit_hash +
                       place->endpoint_hash;
    what.key =
        (struct sl_str){shown->id, strnlen(shown->id, SL_SKETCH_TEXT + 1)};
    sl_sketch_add(present, &what);
}

/* A request of a blocked caller asked no limit. It is counted at a limit of the
 * name (blocked), which no policy has, for the key that is blocked. */
static void count_blocked(struct sl_top_keys *top, const struct sl_decision *d,
                          struct hashed *last)
{
    static const struct sl_rule rule = {
        .name = {"(blocked)", sizeof("(blocked)") - 1}
    };
    const struct sl_limit_view *by = d->by >= 0 ? &d->shown[d->by] : NULL;
    struct sl_limit_view view = {.rule = &rule, .mode = SL_MODE_ENFORCE};

    if (d->reason == SL_REASON_PENALTY && by) {
        view.scope = by->scope;
        view.id = by->id;
        view.key = by->key;
    } else if (d->reason == SL_REASON_BLOCKED && d->block_id) {
        view.scope = sl_str_c(d->block_of);
        view.id = d->block_id;
        view.key = sl_str_c(d->block_id);
    }
    if (view.id)
        count_shown(top, d, &view, last);
}

void sl_top_keys_decision(struct sl_top_keys *top, const struct sl_decision *d)
{
    bool blocked =
        d->reason == SL_REASON_PENALTY || d->reason == SL_REASON_BLOCKED;

    struct hashed last = {
        {NULL, 0},
        0
    };

    if (d->no_numbers || (d->reason != SL_REASON_NONE && !blocked))
        return; /* no limit was asked */
    pthread_mutex_lock(&top->lock);
    rotate(top, d->now);
    if (blocked)
        count_blocked(top, d, &last);
    for (unsigned i = 0; i < d->shown_count && !blocked; i++) {
        const struct sl_limit_view *shown = &d->shown[i];

        if (!shown->skipped && sl_rate_has_numbers(shown->form))
            count_shown(top, d, shown, &last);
    }
    pthread_mutex_unlock(&top->lock);
}

/* ---- reading ---- */

/* The working memory of a query: one megabyte. */
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
        t->map[i] = (uint16_t)place_of(&t->places, &t->copied.list[i]);
    t->map[SL_TOP_KEYS_LABELS - 1] = SL_TOP_KEYS_LABELS - 1;
    t->places.list[SL_TOP_KEYS_LABELS - 1] =
        t->copied.list[SL_TOP_KEYS_LABELS - 1];
}

/* Merge one span. Returns false if a span has ended since `turns`: the spans
 * have moved. */
static bool merge_span(struct table *t, struct sl_top_keys *top, unsigned which,
                       uint64_t turns)
{
    bool good;

    pthread_mutex_lock(&top->lock);
    good = top->turns == turns;
    if (good) {
        copy_places(t, top);
        copy_span(t, span_of(top, which));
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
    rotate(top, t->query->now);
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

static bool is_asked_for(const struct table *t,
                         const struct sl_top_keys_label *place)
{
    struct sl_str limit = cut(t->query->limit);
    struct sl_str endpoint = cut(t->query->endpoint);

    return (limit.len == 0 || sl_str_eq(limit, text_of(&place->limit))) &&
           (endpoint.len == 0 ||
            sl_str_eq(endpoint, text_of(&place->endpoint)));
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
                (struct entry){item->fingerprint - place->endpoint_hash, item};
    }
    qsort(t->entries, t->count, sizeof(t->entries[0]), by_group);
}

/* Count the endpoints of the query where the limit was seen. */
static unsigned count_endpoints(const struct table *t, uint64_t limit_hash)
{
    unsigned count = 0;

    for (unsigned i = 0; i < t->places.count; i++)
        count += t->places.list[i].limit_hash == limit_hash &&
                 is_asked_for(t, &t->places.list[i]);
    return count > 0 ? count : 1;
}

/* Add one row for the `count` entries of a group. */
static void add_row(struct table *t, const struct entry *entries,
                    unsigned count)
{
    const struct sl_sketch_item *item = entries[0].item;
    const struct sl_top_keys_label *place = &t->places.list[item->place];
    unsigned endpoints = count_endpoints(t, place->limit_hash);
    uint64_t missing = endpoints > count ? endpoints - count : 0;
    struct sl_top_keys_row row = {
        .limit = text_of(&place->limit),
        .scope = text_of(&place->scope),
        .key = {item->key, item->key_len},
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

/* The largest first. Equal rows are ordered by key, so that the order is
 * stable. */
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

static bool keep_text(struct sl_arena *arena, struct sl_str *text)
{
    text->at = sl_arena_copy(arena, *text);
    return text->at;
}

static int answer(struct table *t, struct sl_arena *arena,
                  struct sl_top_keys_answer *ret)
{
    unsigned count =
        t->row_count < t->query->most ? t->row_count : t->query->most;
    struct sl_top_keys_row *rows =
        sl_arena_take(arena, (count + 1) * sizeof(rows[0]));

    if (!rows)
        return SLUICE_ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        rows[i] = t->rows[i];
        if (!keep_text(arena, &rows[i].limit) ||
            !keep_text(arena, &rows[i].scope) ||
            !keep_text(arena, &rows[i].key))
            return SLUICE_ENOMEM;
    }
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
    /* A span ends once in minutes, so the second try succeeds. */
    for (unsigned i = 0; i < TRIES && !merge_all(t, all, count); i++)
        ;
    choose_entries(t);
    make_rows(t);
    qsort_r(t->rows, t->row_count, sizeof(t->rows[0]), by_count, &asked);
    err = answer(t, arena, ret);
    sl_alloc_free(arena->alloc, t, sizeof(*t));
    return err;
}

/* ---- the largest of very many counts.
 *
 * Making room. For each of the three numbers the floor rises to what the
 * ITEMS / 4 largest have at least; items above a floor stay. So fewer than
 * three quarters stay, and (3) holds: let the excess of an item be count -
 * floor. Adding w raises the sum of all excesses by w; raising the floor by d
 * takes d from at least ITEMS / 4 of them, and no excess is ever negative.
 * Hence floor * ITEMS / 4 never passes what was added.
 *
 * It is O(ITEMS), some ten microseconds, and at least ITEMS / 4 new keys come
 * between two of them.
 */

#define RANK (SL_SKETCH_ITEMS / 4)
#define MASK (2 * SL_SKETCH_ITEMS - 1)

void sl_sketch_init(struct sl_sketch *sketch)
{
    memset(sketch->floor, 0, sizeof(sketch->floor));
    memset(sketch->total, 0, sizeof(sketch->total));
    memset(sketch->index, 0, sizeof(sketch->index));
    sketch->count = 0;
}

/* ---- finding ---- */

/* Returns the place of a fingerprint in the index. Fingerprints are keyed
 * hashes: a client cannot choose keys that collide. */
static unsigned sketch_find_place(const struct sl_sketch *sketch,
                                  uint64_t fingerprint)
{
    unsigned i = (unsigned)(fingerprint >> 32) & MASK;

    while (sketch->index[i] &&
           sketch->items[sketch->index[i] - 1].fingerprint != fingerprint)
        i = (i + 1) & MASK;
    return i;
}

const struct sl_sketch_item *sl_sketch_find(const struct sl_sketch *sketch,
                                            uint64_t fingerprint)
{
    unsigned at = sketch->index[sketch_find_place(sketch, fingerprint)];

    return at ? &sketch->items[at - 1] : NULL;
}

/* ---- making room ---- */

/* Keep the values whose `bit` is equal to `set`. Returns their number. */
static unsigned keep_bit(uint64_t *values, unsigned count, uint64_t bit,
                         bool set)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++) {
        values[kept] = values[i];
        kept += ((values[i] & bit) != 0) == set;
    }
    return kept;
}

/* Returns the largest bit in which values differ; 0 if all are equal. */
static uint64_t find_difference(const uint64_t *values, unsigned count)
{
    uint64_t differ = 0;

    for (unsigned i = 1; i < count; i++)
        differ |= values[i] ^ values[0];
    return differ ? UINT64_C(1) << (63 - __builtin_clzll(differ)) : 0;
}

/* Returns the value of rank `rank`. It works bit by bit from the top, so no
 * order of the values makes it slow. */
static uint64_t select_largest(uint64_t *values, unsigned count, unsigned rank)
{
    uint64_t bit;

    while ((bit = find_difference(values, count)) != 0) {
        unsigned with = 0;

        for (unsigned i = 0; i < count; i++)
            with += (values[i] & bit) != 0;
        count = keep_bit(values, count, bit, with >= rank);
        if (with < rank)
            rank -= with;
    }
    return values[0];
}

static void raise_floor(struct sl_sketch *sketch, enum sl_measure m)
{
    uint64_t values[SL_SKETCH_ITEMS], floor;

    for (unsigned i = 0; i < SL_SKETCH_ITEMS; i++)
        values[i] = sketch->items[i].count[m];
    floor = select_largest(values, SL_SKETCH_ITEMS, RANK);
    if (floor > sketch->floor[m])
        sketch->floor[m] = floor;
}

/* Raise counts below the floors to the floors. Returns false if no count is
 * above its floor. */
static bool lift(const struct sl_sketch *sketch, struct sl_sketch_item *item)
{
    bool above = false;

    for (unsigned m = 0; m < SL_MEASURES; m++)
        if (item->count[m] > sketch->floor[m])
            above = true;
        else
            item->count[m] = item->error[m] = sketch->floor[m];
    return above;
}

/* Drop small items. The sketch is full. */
static void make_room(struct sl_sketch *sketch)
{
    unsigned kept = 0;

    for (unsigned m = 0; m < SL_MEASURES; m++)
        raise_floor(sketch, (enum sl_measure)m);
    memset(sketch->index, 0, sizeof(sketch->index));
    for (unsigned i = 0; i < SL_SKETCH_ITEMS; i++) {
        struct sl_sketch_item *item = &sketch->items[i];

        if (!lift(sketch, item))
            continue;
        if (kept != i)
            sketch->items[kept] = *item;
        sketch->index[sketch_find_place(sketch, item->fingerprint)] =
            (uint16_t)++kept;
    }
    sketch->count = kept;
}

/* ---- adding ---- */

static struct sl_sketch_item *insert(struct sl_sketch *sketch,
                                     uint64_t fingerprint)
{
    struct sl_sketch_item *item;

    if (sketch->count == SL_SKETCH_ITEMS)
        make_room(sketch);
    item = &sketch->items[sketch->count++];
    sketch->index[sketch_find_place(sketch, fingerprint)] =
        (uint16_t)sketch->count;
    item->fingerprint = fingerprint;
    return item;
}

/* A new key may have had the floors before. */
static struct sl_sketch_item *begin(struct sl_sketch *sketch,
                                    const struct sl_counted *what)
{
    struct sl_sketch_item *item = insert(sketch, what->fingerprint);

    memcpy(item->count, sketch->floor, sizeof(item->count));
    memcpy(item->error, sketch->floor, sizeof(item->error));
    item->place = what->place;
    item->cut = what->key.len > SL_SKETCH_TEXT;
    item->key_len =
        (uint8_t)(item->cut ? (size_t)SL_SKETCH_TEXT : what->key.len);
    if (item->key_len > 0)
        memcpy(item->key, what->key.at, item->key_len);
    return item;
}

void sl_sketch_add(struct sl_sketch *sketch, const struct sl_counted *what)
{
    unsigned at = sketch->index[sketch_find_place(sketch, what->fingerprint)];
    struct sl_sketch_item *item =
        at ? &sketch->items[at - 1] : begin(sketch, what);

    for (unsigned m = 0; m < SL_MEASURES; m++) {
        item->count[m] += what->add[m];
        sketch->total[m] += what->add[m];
    }
}

/* ---- merging ---- */

/* An item that is missing in `from` may have had the floors there. */
static void add_known(struct sl_sketch *sketch, const struct sl_sketch *from)
{
    for (unsigned i = 0; i < sketch->count; i++) {
        struct sl_sketch_item *item = &sketch->items[i];
        const struct sl_sketch_item *other =
            sl_sketch_find(from, item->fingerprint);

        for (unsigned m = 0; m < SL_MEASURES; m++) {
            item->count[m] += other ? other->count[m] : from->floor[m];
            item->error[m] += other ? other->error[m] : from->floor[m];
        }
    }
}

/* An item that is only in `from` may have had `floors` here. */
static void add_unknown(struct sl_sketch *sketch,
                        const struct sl_sketch_item *other,
                        const uint64_t *floors, uint16_t place)
{
    struct sl_sketch_item item = *other;

    item.place = place;
    for (unsigned m = 0; m < SL_MEASURES; m++) {
        item.count[m] += floors[m];
        item.error[m] += floors[m];
    }
    if (sketch->count == SL_SKETCH_ITEMS)
        make_room(sketch);
    if (lift(sketch, &item))
        *insert(sketch, item.fingerprint) = item;
}

void sl_sketch_merge(struct sl_sketch *sketch, const struct sl_sketch *from,
                     const uint16_t *places)
{
    uint64_t floors[SL_MEASURES];

    memcpy(floors, sketch->floor, sizeof(floors));
    add_known(sketch, from);
    for (unsigned m = 0; m < SL_MEASURES; m++) {
        sketch->floor[m] += from->floor[m];
        sketch->total[m] += from->total[m];
    }
    for (unsigned i = 0; i < from->count; i++)
        if (!sl_sketch_find(sketch, from->items[i].fingerprint))
            add_unknown(sketch, &from->items[i], floors,
                        places[from->items[i].place]);
}
