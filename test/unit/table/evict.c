/* evict.c -- usage of cells, eviction, and the slot counts. */
#include "rig.h"

static struct sl_table table;

static uint64_t slots(void)
{
    return sl_region_head(&table.region)->buckets * SL_SLOTS;
}

static uint64_t tag_of(const struct sl_limit_binding *limit)
{
    return (uint64_t)limit->id << SL_TAG_BITS | 1;
}

static unsigned sweep_all(sl_ns now)
{
    struct sl_intent *intent = sl_actor_borrow(&table.actors);
    unsigned emptied =
        sl_sweep(intent, (unsigned)sl_region_head(&table.region)->buckets, now);

    sl_actor_return(&table.actors, intent);
    return emptied;
}

enum {
    NOTHING = SL_EVICT_OWES_NOTHING,
    LITTLE = SL_EVICT_OWES_LITTLE,
    MUCH = SL_EVICT_OWES
};

/* Each row: so much is taken at NOW from a full limit; `later` is when the
 * cell is looked at. */
static const struct {
    enum sl_kind kind;
    const char *rate;
    uint64_t cost;
    sl_ns later;
    int owes;
} owing[] = {
    {SL_BUCKET,   "100/h",       0,   0,              NOTHING},
    {SL_BUCKET,   "100/h",       1,   0,              LITTLE },
    {SL_BUCKET,   "100/h",       25,  0,              LITTLE },
    {SL_BUCKET,   "100/h",       26,  0,              MUCH   },
    {SL_BUCKET,   "100/h",       26,  36 * SL_S,      LITTLE },
    {SL_BUCKET,   "100/h",       26,  26 * 36 * SL_S, NOTHING},
    {SL_BUCKET,   "100/h",       100, SL_HOUR - 1,    LITTLE },
    {SL_BUCKET,   "100/h",       100, SL_HOUR,        NOTHING},
    {SL_BUCKET,   "1/h",         1,   0,              MUCH   },
    {SL_BUCKET,   "3/h",         1,   0,              MUCH   },
    {SL_BUCKET,   "4/h",         1,   0,              LITTLE },
    {SL_BUCKET,   "100/h",       100, -SL_DAY,        MUCH   },
    {SL_INTERVAL, "8/h burst 8", 2,   0,              LITTLE },
    {SL_INTERVAL, "8/h burst 8", 8,   0,              MUCH   },
    {SL_INTERVAL, "8/h burst 8", 8,   SL_HOUR,        NOTHING},
    {SL_LEAKY,    "1/s queue 7", 2,   0,              LITTLE },
    {SL_LEAKY,    "1/s queue 7", 3,   0,              MUCH   },
    {SL_FIXED,    "8/h",         2,   0,              LITTLE },
    {SL_FIXED,    "8/h",         3,   0,              MUCH   },
    {SL_FIXED,    "8/h",         8,   SL_HOUR,        NOTHING},
    {SL_SLIDING,  "8/h",         2,   0,              LITTLE },
    {SL_SLIDING,  "8/h",         8,   SL_HOUR / 4,    MUCH   },
    {SL_SLIDING,  "8/h",         8,   2 * SL_HOUR,    NOTHING},
    {SL_QUOTA,    "100/h",       1,   0,              MUCH   },
    {SL_QUOTA,    "100/h",       1,   SL_HOUR,        NOTHING},
    {SL_QUOTA,    "100/day",     1,   SL_DAY,         MUCH   },
    {SL_QUOTA,    "100/day",     1,   6 * SL_DAY,     NOTHING},
    {SL_QUOTA,    "100/month",   1,   34 * SL_DAY,    MUCH   },
    {SL_QUOTA,    "100/month",   1,   36 * SL_DAY,    NOTHING},
    {SL_PERMITS,  "100",         1,   400 * SL_DAY,   MUCH   },
    {SL_LEVEL,    "100",         1,   400 * SL_DAY,   MUCH   },
    {SL_LEVEL,    "100",         0,   0,              NOTHING},
};

static void test_owing(void)
{
    CASE("what a cell owes");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    for (unsigned i = 0; i < SL_LEN(owing); i++) {
        char name[16];
        struct sl_limit_binding limit =
            limit_of(name, owing[i].kind, owing[i].rate, 0);
        struct sl_cell cell;

        snprintf(name, sizeof(name), "row-%u", i);
        know(&table, &limit);
        cell = sl_take(&limit.strictest, sl_cell_of(0, 0), owing[i].cost, NOW)
                   .next;
        cell.w[1] |= 3 * SL_GENERATION_ONE; /* is not its business */
        if (!CHECK_EQ(sl_evict_class(&table.region, tag_of(&limit), cell,
                                     NOW + owing[i].later),
                      owing[i].owes))
            printf("# row %u\n", i);
    }
    sl_table_done(&table);
}

/* The cell of a larger plan is judged by the strictest: it must not seem to
 * owe less than it does. */
static void test_plans(void)
{
    struct sl_limit_binding limit = limit_of("plans", SL_BUCKET, "10/min", 0);
    struct sl_limit large = rate_of(SL_BUCKET, "1000/min burst 100k");
    struct sl_part part;
    struct sl_cell cell;

    CASE("a key that has drained a larger plan owes until that is refilled");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    know(&table, &limit);
    cell = sl_take(&large, sl_cell_of(0, 0), 100000, NOW).next;
    CHECK_EQ(sl_evict_class(&table.region, tag_of(&limit), cell, NOW),
             SL_EVICT_OWES);
    CHECK_EQ(
        sl_evict_class(&table.region, tag_of(&limit), cell, NOW + 2 * SL_MIN),
        SL_EVICT_OWES);
    CHECK_EQ(
        sl_evict_class(&table.region, tag_of(&limit), cell, NOW + 90 * SL_MIN),
        SL_EVICT_OWES);
    part = part_of(&limit, "ann", 100000);
    part.limit = &large;
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW, true), SL_SET_ALLOW);
    CHECK_EQ(sweep_all(NOW + 5 * SL_MIN), 0);
    part.cost = 5001;
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW + 5 * SL_MIN, true),
             SL_SET_DENY);

    CASE("what is little for a large plan is not little for a small one");
    cell = sl_take(&limit.strictest, sl_cell_of(0, 0), 10, NOW).next;
    CHECK_EQ(sl_evict_class(&table.region, tag_of(&limit), cell, NOW),
             SL_EVICT_OWES);
    sl_table_done(&table);
}

/* Add keys name0, name1, ... one take each. Returns how many were tracked. */
static unsigned add(struct sl_limit_binding *limit, const char *name,
                    unsigned from, unsigned to, uint64_t cost)
{
    unsigned tracked = 0;
    char key[32];

    for (unsigned i = from; i < to; i++) {
        struct sl_part part;

        snprintf(key, sizeof(key), "%s%u", name, i);
        part = part_of(limit, key, cost);
        CHECK(sl_table_decide(&table, &part, 1, NOW, true) != SL_SET_STALE);
        tracked += !part.untracked;
    }
    return tracked;
}

/* The slots that each limit really has. */
static void count_slots(uint64_t *keys)
{
    uint64_t buckets = sl_region_head(&table.region)->buckets;

    for (uint64_t at = 0; at < buckets * SL_SLOTS; at++) {
        struct sl_slot slot = {at / SL_SLOTS, (unsigned)(at % SL_SLOTS)};
        uint64_t tag = sl_load(&table.region, sl_tag_at(&table.region, slot));

        keys[tag >> SL_TAG_BITS] += tag != 0;
    }
}

static void check_books(void)
{
    struct sl_region_head *head = sl_region_head(&table.region);
    uint64_t over = 0, keys[SL_LIMITS] = {0};

    count_slots(keys);
    for (unsigned i = 0; i < 4; i++) {
        const struct sl_limit_entry *e = sl_region_limit(&table.region, i);
        uint64_t kept = atomic_load(&e->kept);

        CHECK_EQ(atomic_load(&e->occupied), keys[i]);
        over += keys[i] > kept ? keys[i] - kept : 0;
    }
    CHECK_EQ(atomic_load(&head->over), over);
    sl_account_all(&table.region, keys);
    CHECK_EQ(atomic_load(&head->over), over);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(atomic_load(&sl_region_limit(&table.region, i)->occupied),
                 keys[i]);
}

/* Limits a and b have a quarter each. */
static void test_shares(void)
{
    struct sl_limit_binding a = limit_of("a", SL_BUCKET, "1/h", 250);
    struct sl_limit_binding b = limit_of("b", SL_BUCKET, "1/h", 250);
    unsigned many, tracked, own;

    CASE("a limit may use slots that are not reserved, and no more");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    know(&table, &a);
    know(&table, &b);
    many = (unsigned)slots();
    tracked = add(&a, "a", 0, 2 * many, 1);
    CHECK(tracked > many * 10 / 16 - many / 50);
    CHECK(tracked <= many * 10 / 16 + 1);
    CHECK_EQ(counted(&table, SL_STAT_FULL), 2 * many - tracked);
    CHECK_EQ(counted(&table, SL_STAT_EVICTED), 0);
    check_books();

    CASE("what is reserved is there for its limit, all of it");
    own = many / 4;
    tracked = add(&b, "b", 0, own, 1);
    printf("# %u of %u\n", tracked, own);
    CHECK(tracked >= own - own / 100); /* bucket by bucket it is not exact */
    check_books();

    CASE("what is reserved and not used stays empty");
    CHECK(add(&b, "c", 0, many, 1) <= own / 100 + 1);
    check_books();

    CASE("a sweep empties what owes nothing, and the books know it");
    CHECK_EQ(sweep_all(NOW), 0);
    tracked = (unsigned)slots_taken(&table.region);
    CHECK_EQ(sweep_all(NOW + SL_HOUR), tracked);
    CHECK_EQ(slots_taken(&table.region), 0);
    CHECK_EQ(atomic_load(&sl_region_head(&table.region)->over), 0);
    check_books();
    sl_table_done(&table);
}

/* Three limits of a policy, which share the default reserve, and the limits of
 * CL.THROTTLE. */
static void open_policy(struct sl_limit_binding *limit)
{
    limit[0] = limit_of("a", SL_BUCKET, "8/h", 0);
    limit[1] = limit_of("b", SL_BUCKET, "8/h", 0);
    limit[2] = limit_of("c", SL_QUOTA, "100/day", 0);
    limit[3] = limit_of("throttle", SL_BUCKET, "8/h", 8);
    open_heap(&table, MIB, SL_FULL_ALLOW);
    for (unsigned i = 0; i < 4; i++) {
        limit[i].equal_parts = 3;
        know(&table, &limit[i]);
    }
}

static void test_lent(void)
{
    struct sl_limit_binding limit[4];
    uint64_t evicted;
    unsigned many, kept, reserve;

    for (unsigned busy = 0; busy < 4; busy++) {
        CASE("one busy limit uses four fifths of the slots, the others idle");
        open_policy(limit);
        many = (unsigned)slots();
        CHECK(add(&limit[busy], "x", 0, 3 * many, 8) >= many * 8 / 10);
        CHECK(slots_taken(&table.region) >= many * 8 / 10);
        check_books();

        CASE("and leaves the others what is kept for them");
        kept = many / 2 / 3 / 8;
        for (unsigned i = 0; i < 3; i++)
            if (i != busy)
                CHECK(add(&limit[i], "y", 0, kept, 8) >= kept - kept / 10);
        check_books();
        sl_table_done(&table);
    }

    CASE("a lent reserve comes back from cells that owe little");
    open_policy(limit);
    reserve = many / 2 / 3;
    (void)add(&limit[0], "x", 0, 3 * many, 1);
    CHECK(add(&limit[1], "y", 0, reserve, 1) >= reserve - reserve / 100);
    check_books();

    CASE("and cannot be taken again");
    evicted = atomic_load(&sl_region_limit(&table.region, 1)->occupied);
    (void)add(&limit[0], "z", 0, 3 * many, 1);
    CHECK_EQ(atomic_load(&sl_region_limit(&table.region, 1)->occupied),
             evicted);
    check_books();
    sl_table_done(&table);
}

static void test_giving_way(void)
{
    struct sl_limit_binding soft = limit_of("soft", SL_BUCKET, "100/h", 500);
    struct sl_limit_binding hard = limit_of("hard", SL_BUCKET, "100/h", 400);
    unsigned many, tracked;
    uint64_t full;

    CASE("cells that owe little are evicted, and counted");
    open_heap(&table, MIB, SL_FULL_DENY);
    know(&table, &soft);
    know(&table, &hard);
    many = (unsigned)slots();
    tracked = add(&soft, "first", 0, many, 1);
    CHECK(tracked > many * 95 / 100);
    check_books();
    full = counted(&table, SL_STAT_FULL);
    tracked = add(&soft, "second", 0, 1000, 1);
    CHECK(tracked > 950);
    CHECK(counted(&table, SL_STAT_EVICTED) > 900);
    CHECK_EQ(counted(&table, SL_STAT_FULL) - full, 1000 - tracked);
    CHECK_EQ(counted(&table, SL_STAT_INSERTED) -
                 counted(&table, SL_STAT_EVICTED),
             slots_taken(&table.region));
    check_books();

    CASE("a new key of another limit, within its share, is let in as well");
    tracked = add(&hard, "hard", 0, many / 5, 100);
    CHECK(tracked >= many / 5 - many / 1000);
    check_books();

    CASE("without eviction, on_full decides");
    (void)add(&soft, "third", 0, 4 * many, 100);
    full = counted(&table, SL_STAT_FULL);
    CHECK_EQ(take(&table, &soft, "one more", 1), SL_SET_DENY);
    CHECK_EQ(counted(&table, SL_STAT_FULL), full + 1);
    CHECK_EQ(take(&table, &soft, "one more", 0), SL_SET_ALLOW);
    CHECK_EQ(take(&table, &soft, "one more", 101), SL_SET_DENY);
    table.on_full = SL_FULL_ALLOW;
    CHECK_EQ(take(&table, &soft, "one more", 1), SL_SET_ALLOW);
    CHECK_EQ(take(&table, &soft, "one more", 101), SL_SET_DENY);
    adjust(&table, &soft, "one more", 1);
    check_books();
    sl_table_done(&table);
}

/* Another opener with a larger plan must not make cells seem to owe less; one
 * with a smaller plan makes them owe more. */
static void test_others(void)
{
    struct sl_limit_binding mine = limit_of("some", SL_BUCKET, "10/h", 0);
    struct sl_limit_binding larger = limit_of("some", SL_BUCKET, "1000/h", 0);
    struct sl_limit_binding smaller = limit_of("some", SL_BUCKET, "5/h", 0);
    struct sl_limit_entry *e;

    CASE("the strictest numbers of a limit count");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    know(&table, &mine);
    e = sl_region_limit(&table.region, mine.id);
    know(&table, &larger);
    CHECK_EQ(larger.id, mine.id);
    CHECK_EQ(atomic_load(&e->capacity), 10);
    know(&table, &smaller);
    CHECK_EQ(atomic_load(&e->capacity), 5);
    CASE("a limit is found behind a hole in the list");
    atomic_store(&sl_region_limit(&table.region, 0)->used, 0);
    atomic_store(&sl_region_limit(&table.region, 1)->used, 0);
    add_limit(&table, &larger, "first", SL_BUCKET, "1/h", 0);
    know(&table, &mine);
    CHECK_EQ(mine.id, 1);
    atomic_store(&sl_region_limit(&table.region, 0)->used, 0);
    know(&table, &mine);
    CHECK_EQ(mine.id, 1);
    sl_table_done(&table);
}

/* A cell that owes nothing is free space. After the clock was set back behind
 * the end of its window it is found as it was, or not at all: then the key has
 * a whole allowance, once, as after a step forward. */
static void test_step_back(bool given_away)
{
    struct sl_limit_binding limit = limit_of("window", SL_FIXED, "10/min", 0);
    sl_ns later = NOW + SL_MIN;

    CASE(given_away ? "a key that has gone begins anew after a step, once"
                    : "a key that is still there gets nothing by a step");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    know(&table, &limit);
    CHECK_EQ(take(&table, &limit, "a", 10), SL_SET_ALLOW);
    CHECK_EQ(take_at(&table, &limit, "b", 1, later), SL_SET_ALLOW);
    if (given_away) {
        struct sl_intent *intent = sl_actor_borrow(&table.actors);

        /* Nothing is left to sweep if the other key got its slot. */
        (void)sl_sweep(intent, (unsigned)sl_region_head(&table.region)->buckets,
                       later);
        sl_actor_return(&table.actors, intent);
    }
    CHECK_EQ(take(&table, &limit, "a", 10),
             given_away ? SL_SET_ALLOW : SL_SET_DENY);
    CHECK_EQ(take(&table, &limit, "a", 1), SL_SET_DENY);
    sl_table_done(&table);
}

int main(void)
{
    test_step_back(false);
    test_step_back(true);
    test_owing();
    test_others();
    test_plans();
    test_shares();
    test_lent();
    test_giving_way();
    return CHECK_DONE();
}
