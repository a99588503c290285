/* holds.c -- holds of the table: taking, ending, expiring, filling up. */
#include "held.h"
#include "table/hold_record.h"

static struct sl_table table;
static struct sl_limit_binding pool, bucket, day, wide[SL_PARTS];

static void begin(void)
{
    open_heap(&table, MIB, SL_FULL_ALLOW);
    add_limit(&table, &pool, "pool", SL_PERMITS, "3", 0);
    add_limit(&table, &bucket, "bucket", SL_BUCKET, "10/10s burst 20", 0);
    add_limit(&table, &day, "day", SL_QUOTA, "1000/day", 0);
}

static void end(void)
{
    uint64_t stray;

    CHECK_EQ(locks_left(&table.region, &stray), 0);
    sl_table_done(&table);
}

/* ---- ending ---- */

TEST(release)
{
    CASE("a released hold gives all back, once");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "a", 2, 1, SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(used(&table, &pool, "a"), 2);
    CHECK_EQ(held_now(&table), 1);
    CHECK_EQ(state_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(hold_at(&table, &pool, "a", 2, 2, SL_S, NOW), SL_SET_DENY);
    CHECK_EQ(state_at(&table, 2, NOW), SL_HOLD_UNKNOWN);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &pool, "a"), 0);
    CHECK_EQ(take(&table, &pool, "a", 1), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_RELEASED);
    CHECK_EQ(settle_at(&table, &pool, 1, 3, NOW), SL_HOLD_RELEASED);
    CHECK_EQ(extend_at(&table, 1, SL_S, NOW), SL_HOLD_RELEASED);
    CHECK_EQ(used(&table, &pool, "a"), 1);
    CHECK_EQ(held_now(&table), 0);
    end();
}

TEST(settle)
{
    static const struct {
        const char *what;
        uint64_t cost, used;
        bool over;
    } rows[] = {
        {"less is given back",            30,   30,   false},
        {"the same changes nothing",      100,  100,  false},
        {"more is charged",               150,  150,  false},
        {"to the brim",                   1000, 1000, false},
        {"beyond the limit, and says so", 1001, 1000, true },
        {"nothing at all",                0,    0,    false},
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct numbers n = {&day, 1, rows[i].cost};
        struct sl_hold_result deed = deed_of(SL_HOLD_SETTLE, 1, &n);

        CASE(rows[i].what);
        begin();
        CHECK_EQ(hold_at(&table, &day, "a", 100, 1, SL_S, NOW), SL_SET_ALLOW);
        CHECK_EQ(sl_table_end(&table, &deed, NOW, true), SL_SET_ALLOW);
        CHECK_EQ(deed.state, SL_HOLD_HELD);
        CHECK_EQ(deed.count, 1);
        CHECK_EQ(deed.parts[0].limit_id, day.id);
        CHECK_EQ(deed.parts[0].held, 100);
        CHECK_EQ(deed.parts[0].cost, rows[i].cost);
        CHECK_EQ(deed.parts[0].over, rows[i].over);
        CHECK_EQ(deed.parts[0].answer.remaining, 1000 - rows[i].used);
        CHECK_EQ(used(&table, &day, "a"), rows[i].used);
        CHECK_EQ(settle_at(&table, &day, 1, 7, NOW), SL_HOLD_SETTLED);
        CHECK_EQ(used(&table, &day, "a"), rows[i].used);
        end();
    }
}

TEST(unknown_limit)
{
    CASE("an unknown limit is settled, too");
    begin();
    CHECK_EQ(hold_at(&table, &day, "a", 100, 1, SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(settle_at(&table, NULL, 1, 40, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &day, "a"), 40);
    CHECK_EQ(hold_at(&table, &day, "a", 100, 2, SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(settle_at(&table, NULL, 2, 200, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &day, "a"), 140);

    CASE("permits of it come back, whatever it came to");
    CHECK_EQ(hold_at(&table, &pool, "a", 3, 3, SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(settle_at(&table, NULL, 3, 3, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &pool, "a"), 0);
    end();
}

/* ---- expiry ---- */

TEST(expiry)
{
    sl_ns end_at = NOW + 5 * SL_S;

    CASE("a hold frees itself on time, to the nanosecond");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "a", 3, 1, 5 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(take_at(&table, &pool, "a", 1, end_at - 1), SL_SET_DENY);
    CHECK_EQ(take_at(&table, &pool, "a", 1, end_at), SL_SET_ALLOW);
    CHECK_EQ(used_at(&table, &pool, "a", end_at), 1);
    CHECK_EQ(release_at(&table, 1, end_at), SL_HOLD_EXPIRED);
    CHECK_EQ(used_at(&table, &pool, "a", end_at), 1);
    CHECK(sl_none_held(&table.region));
    CHECK_EQ(counted(&table, SL_STAT_EXPIRED), 1);

    CASE("a late settlement finds it expired");
    CHECK_EQ(hold_at(&table, &day, "a", 10, 2, SL_S, end_at), SL_SET_ALLOW);
    CHECK_EQ(settle_at(&table, &day, 2, 10, end_at + SL_S), SL_HOLD_EXPIRED);
    CHECK_EQ(used_at(&table, &day, "a", end_at + SL_S), 0);
    end();
}

TEST(extend)
{
    CASE("a heartbeat keeps a hold alive, and may shorten it");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "a", 3, 1, SL_S, NOW), SL_SET_ALLOW);
    for (unsigned i = 1; i < 10; i++)
        CHECK_EQ(extend_at(&table, 1, SL_S, NOW + i * SL_S / 2), SL_HOLD_HELD);
    CHECK_EQ(take_at(&table, &pool, "a", 1, NOW + 5 * SL_S), SL_SET_DENY);
    CHECK_EQ(extend_at(&table, 1, SL_MS, NOW + 5 * SL_S), SL_HOLD_HELD);
    CHECK_EQ(take_at(&table, &pool, "a", 1, NOW + 5 * SL_S + SL_MS),
             SL_SET_ALLOW);
    CHECK_EQ(extend_at(&table, 1, SL_S, NOW + 5 * SL_S + SL_MS),
             SL_HOLD_EXPIRED);
    end();
}

/* An expired hold is given back as of its expiry: 20 of 20 are used, 10 of them
 * held for 5 seconds at 1 a second. On time, 10 of the 15 come back. */
TEST(as_of_expiry)
{
    CASE("a bucket is given back as of the expiry, however late that is found");
    begin();
    CHECK_EQ(take(&table, &bucket, "a", 10), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &bucket, "a", 10, 1, 5 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(used_at(&table, &bucket, "a", NOW + 8 * SL_S), 2);
    end();
}

TEST(reset)
{
    CASE("a hold on a key that was reset has nothing to give back");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "a", 2, 1, SL_S, NOW), SL_SET_ALLOW);
    reset(&table, &pool, "a");
    CHECK_EQ(used(&table, &pool, "a"), 0);
    CHECK_EQ(take(&table, &pool, "a", 3), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &pool, "a"), 3);
    end();
}

/* ---- when permits come back ---- */

static sl_ns retry_of(uint64_t cost, sl_ns now)
{
    struct sl_part part = part_of(&pool, "a", cost);

    CHECK_EQ(sl_table_decide(&table, &part, 1, now, true), SL_SET_DENY);
    return part.answer.retry_in;
}

TEST(retry)
{
    struct sl_part parts[2];

    CASE("a denied permit has the time of the next expiry");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "b", 1, 9, SL_MS, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &pool, "a", 1, 1, 9 * SL_S, NOW), SL_SET_ALLOW);
    parts[0] = part_of(&pool, "a", 1);
    parts[1] = part_of(&pool, "c", 1);
    CHECK_EQ(hold_set(&table, parts, 2, 2, 4 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(take(&table, &pool, "a", 1), SL_SET_ALLOW);
    CHECK_EQ(retry_of(1, NOW), 4 * SL_S);
    CHECK_EQ(retry_of(2, NOW + SL_S), 8 * SL_S);
    CHECK_EQ(retry_of(3, NOW), SL_NS_NONE); /* one is out for good */
    parts[0] = part_of(&day, "a", 1);
    parts[1] = part_of(&pool, "a", 1);
    CHECK_EQ(sl_table_decide(&table, parts, 2, NOW, true), SL_SET_DENY);
    CHECK_EQ(parts[1].answer.retry_in, 4 * SL_S);
    end();
}

/* The cell of the key looks the same before each question. */
TEST(retry_again)
{
    CASE("what was said before is said again, until another hold is out");
    begin();
    (void)hold_at(&table, &pool, "a", 1, 1, 9 * SL_S, NOW);
    (void)hold_at(&table, &pool, "a", 1, 2, 6 * SL_S, NOW);
    (void)hold_at(&table, &pool, "a", 1, 3, 4 * SL_S, NOW);
    CHECK_EQ(retry_of(1, NOW), 4 * SL_S);
    CHECK_EQ(retry_of(1, NOW + SL_MS), 4 * SL_S - SL_MS);
    CHECK_EQ(retry_of(2, NOW), 6 * SL_S);
    CHECK_EQ(retry_of(1, NOW), 4 * SL_S);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(hold_at(&table, &pool, "a", 1, 4, 2 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(retry_of(1, NOW), 2 * SL_S);
    CHECK_EQ(retry_of(2, NOW), 4 * SL_S);
    CHECK_EQ(extend_at(&table, 4, 20 * SL_S, NOW), SL_HOLD_HELD);
    CHECK_EQ(retry_of(1, NOW), 4 * SL_S);
    CHECK_EQ(retry_of(2, NOW), 6 * SL_S);
    CHECK_EQ(extend_at(&table, 2, 3 * SL_S, NOW), SL_HOLD_HELD);
    CHECK_EQ(retry_of(1, NOW), 3 * SL_S);
    CHECK_EQ(extend_at(&table, 2, 30 * SL_S, NOW), SL_HOLD_HELD);
    CHECK_EQ(retry_of(2, NOW), 20 * SL_S);
    CHECK_EQ(release_at(&table, 3, NOW), SL_HOLD_HELD);
    CHECK_EQ(take(&table, &pool, "a", 1), SL_SET_ALLOW);
    CHECK_EQ(retry_of(3, NOW), SL_NS_NONE);
    CHECK_EQ(retry_of(3, NOW), SL_NS_NONE);
    end();
}

/* ---- very many ---- */

#define MANY UINT64_C(6000)
#define KEYS 400

/* One in three holds a permit of "a"; none of the others is of that key. */
TEST(many)
{
    struct sl_limit_binding far;
    sl_ns gone = NOW + SL_MIN;

    CASE("of thousands of holds it is known when a permit comes back");
    open_heap(&table, 64 * MIB, SL_FULL_ALLOW);
    add_limit(&table, &pool, "pool", SL_PERMITS, "2000", 0);
    add_limit(&table, &far, "far", SL_PERMITS, "1000000", 0);
    add_limit(&table, &day, "day", SL_QUOTA, "10k/day", 0);
    for (uint64_t i = 0; i < MANY; i++) {
        struct sl_part parts[] = {
            part_of(i % 3 ? &far : &pool, i % 3 == 2 ? "b" : "a", 1),
            part_of(&day, "a", 1)};

        CHECK_EQ(hold_set(&table, parts, i % 3 ? 1 : 2, i,
                          9 * SL_S - (sl_ns)i * SL_MS, NOW),
                 SL_SET_ALLOW);
    }
    CHECK_EQ(retry_of(1, NOW), 9 * SL_S - (sl_ns)(MANY - 3) * SL_MS);
    CHECK_EQ(retry_of(100, NOW), 9 * SL_S - (sl_ns)(MANY - 300) * SL_MS);
    CHECK_EQ(retry_of(300, NOW), SL_NS_NONE); /* beyond the search */

    CASE("and they expire at once, all of them");
    CHECK_EQ(used_at(&table, &pool, "a", gone), 0);
    CHECK_EQ(used_at(&table, &far, "b", gone), 0);
    CHECK_EQ(used_at(&table, &day, "a", gone), 0);
    CHECK_EQ(held_now(&table), 0);
    CHECK(sl_none_held(&table.region));
    CHECK_EQ(counted(&table, SL_STAT_EXPIRED), MANY);
    end();
}

/* Of 30 at 1 a second 10 are used, 10 held for some 2 seconds and 10 for some
 * 8. In their order all comes back: 10 of 28 at 2, 10 of 12 at 8. If the later
 * one ended first there would be but 2 left for the other. */
TEST(in_order)
{
    struct sl_limit_binding thirty;
    unsigned wrong = 0;
    char key[16];

    CASE("what has expired ends in order, the earliest first");
    open_heap(&table, 64 * MIB, SL_FULL_ALLOW);
    add_limit(&table, &thirty, "thirty", SL_BUCKET, "10/10s burst 30", 0);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        CHECK_EQ(take(&table, &thirty, key, 10), SL_SET_ALLOW);
        CHECK_EQ(hold_at(&table, &thirty, key, 10, 2 * i,
                         2 * SL_S + i * 7919 % KEYS * SL_MS, NOW),
                 SL_SET_ALLOW);
        CHECK_EQ(hold_at(&table, &thirty, key, 10, 2 * i + 1,
                         8 * SL_S + i * 6101 % KEYS * SL_MS, NOW),
                 SL_SET_ALLOW);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        wrong += used_at(&table, &thirty, key, NOW + 10 * SL_S) > 0;
    }
    CHECK(wrong < 4); /* less if both counters are shared */
    end();
}

/* ---- many ---- */

/* Compares what is noted before and after a hold: the block whose record was
 * claimed, if it was the record that had been guessed, else SL_HOLD_NEXT. */
static unsigned block_guessed(const unsigned char *before)
{
    unsigned found = SL_HOLD_NEXT;

    for (unsigned i = 0; i < SL_HOLD_NEXT; i++) {
        unsigned char now = atomic_load(&table.hold_next[i]);

        if (now == before[i])
            continue;
        if (found != SL_HOLD_NEXT || now != (before[i] + 1) % SL_HOLD_BLOCK)
            return SL_HOLD_NEXT;
        found = i;
    }
    return found;
}

TEST(next_record)
{
    unsigned char before[SL_HOLD_NEXT];
    unsigned wrong = 0;

    CASE("holds that end in turns use the records that were guessed");
    begin();
    for (unsigned i = 0; i < 40 * SL_HOLD_BLOCK; i++) {
        sl_ns now = NOW + i * SL_MS;

        for (unsigned n = 0; n < SL_HOLD_NEXT; n++)
            before[n] = atomic_load(&table.hold_next[n]);
        CHECK_EQ(hold_at(&table, &pool, "a", 1, i, SL_S, now), SL_SET_ALLOW);
        CHECK_EQ(release_at(&table, i, now), SL_HOLD_HELD);
        wrong += block_guessed(before) >= sl_region_head(&table.region)->shorts;
    }
    CHECK_EQ(wrong, 0);
    end();
}

TEST(all_parts)
{
    struct sl_part parts[SL_PARTS];
    char names[SL_PARTS][8];

    CASE("sixteen limits in one hold");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    for (unsigned i = 0; i < SL_PARTS; i++) {
        snprintf(names[i], sizeof(names[i]), "w%u", i);
        wide[i] = limit_of(names[i], i % 2 ? SL_QUOTA : SL_FIXED, "10/day", 0);
        know(&table, &wide[i]);
        parts[i] = part_of(&wide[i], "a", 1 + i % 10);
    }
    CHECK_EQ(hold_set(&table, parts, SL_PARTS, 1, SL_S, NOW), SL_SET_ALLOW);
    for (unsigned i = 0; i < SL_PARTS; i++)
        CHECK_EQ(used(&table, &wide[i], "a"), 1 + i % 10);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    for (unsigned i = 0; i < SL_PARTS; i++)
        CHECK_EQ(used(&table, &wide[i], "a"), 0);
    end();
}

TEST(same_key)
{
    struct sl_part parts[2] = {part_of(&day, "a", 3), part_of(&day, "a", 4)};
    struct numbers n = {&day, 1, 5};
    struct sl_hold_result deed = deed_of(SL_HOLD_SETTLE, 1, &n);

    CASE("parts of one key are one part of the hold");
    begin();
    parts[0].binding = parts[1].binding = &day;
    CHECK_EQ(hold_set(&table, parts, 2, 1, SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(used(&table, &day, "a"), 7);
    CHECK_EQ(sl_table_end(&table, &deed, NOW, true), SL_SET_ALLOW);
    CHECK_EQ(deed.count, 1);
    CHECK_EQ(deed.parts[0].held, 7);
    CHECK_EQ(used(&table, &day, "a"), 5);
    end();
}

static uint64_t units_held(const struct sl_limit_binding *of, const char *key)
{
    return sl_table_held_units(&table, of->id,
                               sl_table_fingerprint(of, sl_str_c(key)));
}

TEST(units)
{
    CASE("the units of a key in holds");
    begin();
    CHECK_EQ(units_held(&day, "a"), 0);
    CHECK_EQ(take(&table, &day, "a", 2), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &day, "a", 3, 1, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &day, "a", 4, 2, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &day, "b", 5, 3, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &pool, "a", 1, 4, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(units_held(&day, "a"), 7);
    CHECK_EQ(units_held(&day, "b"), 5);
    CHECK_EQ(units_held(&day, "c"), 0);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(units_held(&day, "a"), 4);

    CASE("but not of holds before a reset");
    reset(&table, &day, "a");
    CHECK_EQ(hold_at(&table, &day, "a", 1, 5, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(units_held(&day, "a"), 1);
    end();
}

TEST(nothing)
{
    CASE("a hold of nothing can be settled for something");
    begin();
    CHECK_EQ(hold_at(&table, &day, "a", 0, 1, SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(state_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(settle_at(&table, &day, 1, 6, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &day, "a"), 6);
    end();
}

TEST(full)
{
    struct sl_hold_stats stats;
    uint64_t got = 0, refused = 0;

    CASE("when there is no room for a hold nothing is taken");
    begin();
    sl_table_hold_stats(&table, &stats);
    CHECK(stats.places >= 64);
    for (uint64_t i = 0; i <= stats.places; i++) {
        enum sl_set_result v =
            hold_at(&table, &day, "a", 1, i, SL_S + (sl_ns)i, NOW);

        got += v == SL_SET_ALLOW;
        refused += v == SL_SET_NO_HOLD_ROOM;
    }
    CHECK_EQ(got + refused, stats.places + 1);
    CHECK(got * 10 > stats.places * 8);
    CHECK(refused > 0);
    CHECK_EQ(used(&table, &day, "a"), got);
    CHECK_EQ(held_now(&table), got);

    CASE("all of them expire, each in its turn");
    for (uint64_t i = 0; i < stats.places; i += 5)
        CHECK(used_at(&table, &day, "a", NOW + SL_S + (sl_ns)i) <
              stats.places - i);
    CHECK_EQ(used_at(&table, &day, "a", NOW + 2 * SL_S), 0);
    CHECK(sl_none_held(&table.region));

    CASE("the room of what has ended is used again");
    for (uint64_t i = 0; i < 2000; i++) {
        CHECK_EQ(hold_at(&table, &day, "a", 1, 5000 + i, SL_S, NOW + 3 * SL_S),
                 SL_SET_ALLOW);
        CHECK_EQ(release_at(&table, 5000 + i, NOW + 3 * SL_S), SL_HOLD_HELD);
    }
    end();
}

/* ---- clocks ---- */

TEST(steps)
{
    CASE("a step back ends no hold early, and none lasts beyond its life");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "a", 3, 1, 10 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(take_at(&table, &pool, "a", 1, NOW + 4 * SL_S), SL_SET_DENY);
    CHECK_EQ(take_at(&table, &pool, "a", 1, NOW - SL_HOUR), SL_SET_DENY);
    CHECK_EQ(take_at(&table, &pool, "a", 1, NOW - SL_HOUR + 6 * SL_S),
             SL_SET_DENY);
    CHECK_EQ(take_at(&table, &pool, "a", 1, NOW - SL_HOUR + 10 * SL_S),
             SL_SET_ALLOW);
    end();

    CASE("while there are holds a late reading is made again");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "a", 3, 1, 10 * SL_S, NOW), SL_SET_ALLOW);
    {
        struct sl_part part = part_of(&day, "new", 1);

        CHECK_EQ(sl_table_decide(&table, &part, 1, NOW - SL_HOUR, false),
                 SL_SET_STALE);
        CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
        CHECK_EQ(used(&table, &day, "new"), 0);
    }
    end();

    CASE("and so it is before a hold is made");
    begin();
    CHECK_EQ(take(&table, &day, "a", 1), SL_SET_ALLOW);
    {
        struct sl_part part = part_of(&pool, "new", 1);

        CHECK_EQ(sl_table_hold(&table, &part, 1, id_of(1), SL_S, NOW - SL_HOUR,
                               false),
                 SL_SET_STALE);
        CHECK_EQ(held_now(&table), 0);
    }
    end();
}

TEST(step_refused)
{
    CASE("a denied hold after a step corrects the cells, and holds nothing");
    begin();
    CHECK_EQ(take(&table, &bucket, "a", 20), SL_SET_ALLOW);
    CHECK_EQ(take(&table, &bucket, "b", 20), SL_SET_ALLOW);
    {
        struct sl_part parts[] = {part_of(&bucket, "a", 1),
                                  part_of(&bucket, "b", 1)};

        CHECK_EQ(hold_set(&table, parts, 2, 1, SL_S, NOW - SL_HOUR),
                 SL_SET_DENY);
        CHECK_EQ(parts[0].answer.retry_in, SL_S);
        CHECK_EQ(held_now(&table), 0);
        CHECK_EQ(state_at(&table, 1, NOW - SL_HOUR), SL_HOLD_UNKNOWN);
    }
    end();

    CASE("a step back brings a bucket nothing that it has had already");
    begin();
    CHECK_EQ(hold_at(&table, &bucket, "a", 10, 1, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(take_at(&table, &bucket, "a", 10, NOW + 10 * SL_S), SL_SET_ALLOW);
    CHECK_EQ(used_at(&table, &bucket, "a", NOW - SL_HOUR), 10);
    CHECK_EQ(release_at(&table, 1, NOW - SL_HOUR), SL_HOLD_HELD);
    CHECK_EQ(used_at(&table, &bucket, "a", NOW - SL_HOUR), 10);
    end();
}

CHECK_MAIN()
