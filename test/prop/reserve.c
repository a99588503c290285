/* reserve.c -- slots for new keys against a plain model. The numbers are those
 * of the invariants in src/table/set.h.
 *
 * An episode fills a small table from several limits, some idle, some flooding,
 * with reserves of random size, while the clock moves on. Before each new key
 * the model reads the four buckets of the key and says which slots the rules
 * allow; afterwards it compares. It counts the slots of each limit itself.
 */
#include "limit.h"
#include "table/set.h"
#include "table/table.h"

#include "prop.h"

#define LIMITS 5
#define START  (INT64_C(1700000000) * SL_S)

struct model {
    struct rng rng;
    struct sl_table table;
    struct sl_limit_binding limit[LIMITS];
    char name[LIMITS][16];
    unsigned count;
    uint64_t slots, occupied[LIMITS], reserve[LIMITS], kept[LIMITS];
    sl_ns now;
    uint64_t forgotten;
};

/* What the rules say about one slot. */
struct seen {
    uint64_t tag;
    enum sl_evict_class owes;
    uint64_t units;
    bool allowed;
};

struct view {
    struct sl_slot slot[SL_CHOICES * SL_SLOTS];
    struct seen seen[SL_CHOICES * SL_SLOTS];
    bool any_free, any;
};

static unsigned model_of(const struct model *m, uint64_t tag)
{
    unsigned i = 0;

    while (i < m->count && m->limit[i].id != tag >> SL_TAG_BITS)
        i++;
    return i;
}

static void recount(struct model *m)
{
    const struct sl_region *r = &m->table.region;

    for (unsigned i = 0; i < m->count; i++)
        m->occupied[i] = 0;
    for (uint64_t at = 0; at < m->slots; at++) {
        struct sl_slot slot = {at / SL_SLOTS, (unsigned)(at % SL_SLOTS)};
        uint64_t tag = sl_load(r, sl_tag_at(r, slot));

        if (tag)
            m->occupied[model_of(m, tag)]++;
    }
}

/* Slots of all limits, where each has at least what is kept for it. */
static uint64_t claimed(const struct model *m)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < m->count; i++)
        sum += m->occupied[i] > m->kept[i] ? m->occupied[i] : m->kept[i];
    return sum;
}

static bool may_grow(const struct model *m, unsigned of)
{
    return m->occupied[of] < m->kept[of] || claimed(m) < m->slots / 16 * 14;
}

static bool is_allowed(const struct model *m, unsigned of,
                       const struct seen *seen)
{
    unsigned other;

    if (seen->owes == SL_EVICT_OWES)
        return false;
    if (seen->owes == SL_EVICT_OWES_NOTHING && may_grow(m, of))
        return true;
    if (seen->tag == 0)
        return false;
    other = model_of(m, seen->tag);
    if (other == of)
        return true;
    return m->occupied[other] > (seen->owes == SL_EVICT_OWES_LITTLE
                                     ? m->reserve[other]
                                     : m->kept[other]);
}

static uint64_t units_of(const struct model *m, uint64_t tag,
                         struct sl_cell cell)
{
    struct sl_limit limit = m->limit[model_of(m, tag)].strictest;
    struct sl_answer a = sl_take(&limit, cell, 0, m->now).answer;

    return a.capacity - a.remaining;
}

static void look(struct model *m, unsigned of, const struct sl_slot_key *key,
                 struct view *v)
{
    const struct sl_region *r = &m->table.region;

    v->any = v->any_free = false;
    for (unsigned i = 0; i < SL_CHOICES * SL_SLOTS; i++) {
        struct sl_slot slot = {sl_slot_key_bucket(r, key, i / SL_SLOTS),
                               i % SL_SLOTS};
        struct seen s = {.tag = sl_load(r, sl_tag_at(r, slot))};
        uint64_t at = sl_cell_at(r, slot);
        struct sl_cell cell =
            sl_cell_bare(sl_cell_of(sl_load(r, at), sl_load(r, at + 8)));

        if (s.tag) {
            s.owes = sl_evict_class(r, s.tag, cell, m->now);
            s.units = units_of(m, s.tag, cell);
        }
        s.allowed = is_allowed(m, of, &s);
        v->any = v->any || s.allowed;
        v->any_free =
            v->any_free || (s.allowed && s.owes == SL_EVICT_OWES_NOTHING);
        v->slot[i] = slot;
        v->seen[i] = s;
    }
}

/* The number of the view's slot that has the key; -1: none. */
static int find(const struct model *m, const struct view *v, uint64_t tag)
{
    for (unsigned i = 0; i < SL_CHOICES * SL_SLOTS; i++)
        if (sl_load(&m->table.region,
                    sl_tag_at(&m->table.region, v->slot[i])) == tag)
            return (int)i;
    return -1;
}

/* The key went to a slot that owed something: of those of its own limit, none
 * in the four buckets owed less. */
static bool owed_least(const struct view *v, int at)
{
    for (unsigned i = 0; i < SL_CHOICES * SL_SLOTS; i++)
        if (v->seen[i].allowed &&
            v->seen[i].tag >> SL_TAG_BITS == v->seen[at].tag >> SL_TAG_BITS &&
            v->seen[i].units < v->seen[at].units)
            return false;
    return true;
}

/* A slot was found: (R1) to (R3). */
static bool check_taken(struct model *m, unsigned of, const struct view *v,
                        int at)
{
    const struct seen *s = &v->seen[at];

    if (!CHECK(s->allowed))
        return false;
    if (s->owes == SL_EVICT_OWES_LITTLE) {
        m->forgotten += s->units;
        if (!CHECK(!v->any_free) || !CHECK(owed_least(v, at)))
            return false;
    }
    if (s->tag)
        m->occupied[model_of(m, s->tag)]--;
    m->occupied[of]++;
    return true;
}

static bool check_counts(struct model *m)
{
    const struct sl_region_head *head = sl_region_head(&m->table.region);
    uint64_t over = 0, kept = 0;
    struct sl_table_stats stats;
    bool ok = true;

    for (unsigned i = 0; i < m->count; i++) {
        const struct sl_limit_entry *e =
            sl_region_limit(&m->table.region, m->limit[i].id);

        ok = CHECK_EQ(sl_peek(&e->occupied), m->occupied[i]) && ok;
        kept += m->kept[i];
        if (m->occupied[i] > m->kept[i])
            over += m->occupied[i] - m->kept[i];
    }
    ok = CHECK_EQ(sl_peek(&head->over), over) && ok;
    ok = CHECK(kept > m->slots / 16 * 14 || claimed(m) <= m->slots / 16 * 14) &&
         ok; /* (R1) */
    sl_table_stats(&m->table, &stats);
    return CHECK_EQ(stats.forgotten, m->forgotten) && ok;
}

/* One take of a key that may be new. */
static bool take_one(struct model *m, unsigned of, unsigned number,
                     uint64_t cost)
{
    const struct sl_region_head *head = sl_region_head(&m->table.region);
    uint64_t hand = sl_peek(&head->hand);
    char text[32];
    struct sl_part part;
    struct sl_slot_key key;
    struct view v;
    int at;

    if (cost > m->limit[of].strictest.capacity)
        cost = m->limit[of].strictest.capacity;
    snprintf(text, sizeof(text), "k%u", number);
    part = (struct sl_part){.binding = &m->limit[of],
                            .limit = &m->limit[of].strictest,
                            .key = sl_str_c(text),
                            .cost = cost};
    sl_slot_key_hash(&m->table, &part, &key);
    look(m, of, &key, &v);
    if (find(m, &v, key.tag) >= 0)
        return CHECK(sl_table_decide(&m->table, &part, 1, m->now, true) !=
                     SL_SET_STALE) &&
               CHECK(!part.untracked);
    if (!CHECK(sl_table_decide(&m->table, &part, 1, m->now, true) !=
               SL_SET_STALE))
        return false;
    at = find(m, &v, key.tag);
    if (v.any)
        return CHECK_EQ(sl_peek(&head->hand), hand) && CHECK(at >= 0) &&
               check_taken(m, of, &v, at);
    recount(m); /* a sweep */
    look(m, of, &key, &v);
    return part.untracked ? CHECK(at < 0) && CHECK(!v.any) : CHECK(at >= 0);
}

static bool open_model(struct model *m)
{
    static const struct {
        enum sl_kind kind;
        const char *rate;
    } kinds[] = {
        {SL_BUCKET,  "8/h"    },
        {SL_BUCKET,  "1/h"    },
        {SL_FIXED,   "40/h"   },
        {SL_SLIDING, "20/h"   },
        {SL_QUOTA,   "100/day"},
        {SL_LEVEL,   "9"      },
    };
    struct sl_region region;
    unsigned equal = 0;

    if (sl_region_open_heap(&region, SL_REGION_MIN, NULL))
        return false;
    sl_table_init(&m->table, &region, SL_FULL_ALLOW);
    m->slots = sl_region_head(&region)->buckets * SL_SLOTS;
    m->count = 2 + (unsigned)rng_below(&m->rng, LIMITS - 1);
    for (unsigned i = 0; i < m->count; i++) {
        unsigned kind = (unsigned)rng_below(&m->rng, SL_LEN(kinds));

        snprintf(m->name[i], sizeof(m->name[i]), "limit-%u", i);
        m->limit[i] = (struct sl_limit_binding){
            .name = m->name[i],
            .strictest = rate_of(kinds[kind].kind, kinds[kind].rate),
            .share = rng_once_in(&m->rng, 3)
                         ? 1 + (uint32_t)rng_below(&m->rng, 150)
                         : 0};
        equal += m->limit[i].share == 0;
    }
    for (unsigned i = 0; i < m->count; i++) {
        uint32_t share = m->limit[i].share;

        m->limit[i].equal_parts = equal;
        if (sl_table_add_limit(&m->table, &m->limit[i]))
            return false;
        m->reserve[i] = share ? m->slots * share / 1000 : m->slots / 2 / equal;
        m->kept[i] = share ? m->reserve[i] : m->reserve[i] / 8;
    }
    return true;
}

/* A limit floods for a while, or several at once; keys of the others come in
 * between, and some keys come again. */
static bool episode(uint64_t seed, uint64_t *steps)
{
    static struct model model;
    struct model *m = &model;
    unsigned next = 0, flooding = 0;
    bool ok;

    *m = (struct model){.now = START, .rng = {seed}};
    ok = open_model(m);
    for (unsigned i = 0; ok && i < 40000; i++, ++*steps) {
        unsigned of = flooding, number = next++;
        uint64_t cost = 1;

        if (rng_once_in(&m->rng, 4000))
            flooding = (unsigned)rng_below(&m->rng, m->count);
        if (rng_once_in(&m->rng, 8))
            of = (unsigned)rng_below(&m->rng, m->count);
        if (rng_once_in(&m->rng, 10) && next > 1)
            number = (unsigned)rng_below(&m->rng, next);
        if (rng_once_in(&m->rng, 4))
            cost += rng_below(&m->rng, 8);
        if (rng_once_in(&m->rng, 5000))
            m->now += (sl_ns)rng_below(&m->rng, SL_HOUR);
        ok = take_one(m, of, number, cost);
        if (ok && i % 256 == 0)
            ok = check_counts(m);
    }
    sl_table_done(&m->table);
    return ok;
}

const struct property prop_reserve = {
    .name = "reserve",
    .steps = 80000,
    .cases = {{"reserves (R1) to (R4) hold while limits flood", episode}},
};
