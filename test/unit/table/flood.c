/* flood.c -- ten times as many keys as there are slots (with SL_SHORT three
 * times), while keys are held back.
 *
 * Before the flood a bucket is drained, a quota used up, a level filled, a
 * permit taken. The flood comes with one take a key, with keys that are
 * drained, and with keys of which one take is all; through all of it the first
 * ones stay refused. (4) and (5) of table.h.
 */
#include "rig.h"

enum { BUCKET, QUOTA, LEVEL, PERMIT, LIMITS };

static struct sl_table table;
static struct sl_limit_binding limit[LIMITS];
static uint64_t version = SL_REGION_SIPHASH;

static void begin(uint64_t size, enum sl_on_full on_full)
{
    open_heap(&table, size, on_full);
    set_version(&table.region, version);
    limit[BUCKET] = limit_of("bucket", SL_BUCKET, "100/day", 0);
    limit[QUOTA] = limit_of("quota", SL_QUOTA, "100/month", 0);
    limit[LEVEL] = limit_of("level", SL_LEVEL, "100", 0);
    limit[PERMIT] = limit_of("permit", SL_PERMITS, "100", 0);
    for (unsigned i = 0; i < LIMITS; i++) {
        limit[i].equal_parts = LIMITS;
        know(&table, &limit[i]);
        CHECK_EQ(take(&table, &limit[i], "watched", 100), SL_SET_ALLOW);
    }
}

static void check_watched(void)
{
    for (unsigned i = 0; i < LIMITS; i++) {
        CHECK_EQ(take(&table, &limit[i], "watched", 1), SL_SET_DENY);
        CHECK_EQ(used(&table, &limit[i], "watched"), 100);
    }
}

/* Kilobytes that are in memory. */
static uint64_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file) {
        if (fscanf(file, "%*u %lu", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Several times as many keys as slots, `cost` each, of limit `of`. */
static void flood(struct sl_limit_binding *of, uint64_t cost)
{
    struct sl_table_stats stats;
    uint64_t before = resident(), insisted = 0;
    uint64_t full = counted(&table, SL_STAT_FULL);
    uint64_t inserted = counted(&table, SL_STAT_INSERTED);
    unsigned keys;
    char key[32];

    sl_table_stats(&table, &stats);
    keys = (getenv("SL_SHORT") ? 3 : 10) * (unsigned)stats.slots;
    for (unsigned i = 0; i < keys; i++) {
        struct sl_part part;

        snprintf(key, sizeof(key), "flood%u", i);
        part = part_of(of, key, cost);
        CHECK(sl_table_decide(&table, &part, 1, NOW, true) ==
              (part.untracked && table.on_full == SL_FULL_DENY ? SL_SET_DENY
                                                               : SL_SET_ALLOW));
        insisted += part.untracked;
        if (i % 997 == 0)
            check_watched();
    }
    check_watched();
    sl_table_stats(&table, &stats);
    CHECK_EQ(stats.counted[SL_STAT_FULL] - full, insisted);
    CHECK_EQ(stats.counted[SL_STAT_INSERTED] - inserted, keys - insisted);
    CHECK_EQ(stats.counted[SL_STAT_INSERTED] - stats.counted[SL_STAT_EVICTED],
             slots_taken(&table.region));
    CHECK_EQ(stats.occupied, slots_taken(&table.region));
    CHECK(resident() < before + stats.bytes / 1024 + 1024);
    printf("# %u keys, %" PRIu64 " slots: %" PRIu64 " evicted, %" PRIu64
           " found no room\n",
           keys, stats.slots, stats.counted[SL_STAT_EVICTED],
           stats.counted[SL_STAT_FULL]);
}

/* The table is full of made-up keys, and more of them come. The caller asks for
 * one unit of a key of 10 an hour after every `pause` of them. Returns how many
 * it gets. */
static uint64_t washed_out(enum sl_kind kind, unsigned pause)
{
    struct sl_limit_binding one;
    struct sl_table_stats stats;
    uint64_t admitted = 0;
    char key[32];

    open_heap(&table, MIB, SL_FULL_ALLOW);
    set_version(&table.region, version);
    add_limit(&table, &one, "one", kind, "10/h", 0);
    for (unsigned i = 0; i < 240000; i++) {
        sl_ns now = NOW + i * (sl_ns)4 * SL_US; /* a quarter million a second */

        snprintf(key, sizeof(key), "made-up-%u", i);
        (void)take_at(&table, &one, key, 1, now);
        if (i >= 24000 && i % pause == 0)
            admitted += take_at(&table, &one, "own", 1, now) == SL_SET_ALLOW;
    }
    sl_table_stats(&table, &stats);
    CHECK(stats.counted[SL_STAT_EVICTED] > 0);
    CHECK(stats.forgotten >= stats.counted[SL_STAT_EVICTED]);
    CHECK(admitted <= 10 + stats.forgotten);
    sl_table_done(&table);
    return admitted;
}

/* A caller is blocked, and one has failed four times of five. Then come made-up
 * keys: one request each, drained, and failed. */
static void test_blocked(void)
{
    const struct sl_penalty_rate rate = {5, SL_DAY, SL_DAY, 7 * SL_DAY, 2};
    struct sl_limit_binding one, penalty = {.name = "one#penalty"};
    struct sl_part part;
    char key[32];

    CASE("made-up keys free no blocked caller");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    add_limit(&table, &one, "one", SL_FIXED, "10/day", 0);
    penalty.strictest = sl_limit_penalty(&rate, SL_QUANTUM_NS);
    know(&table, &penalty);
    for (unsigned i = 0; i < 2; i++) {
        part = part_of(&penalty, i ? "failed" : "blocked", i ? 4 : 5);
        part.op = SL_TAKE_OP_CHARGE;
        CHECK_EQ(sl_table_decide(&table, &part, 1, NOW, true), SL_SET_ALLOW);
    }
    for (unsigned i = 0; i < 300000; i++) {
        bool fails = i % 3 == 0;

        snprintf(key, sizeof(key), "made-up-%u", i);
        part = part_of(fails ? &penalty : &one, key, i % 3 == 1 ? 10 : 1);
        part.op = fails ? SL_TAKE_OP_CHARGE : SL_TAKE_OP_TAKE;
        CHECK(sl_table_decide(&table, &part, 1, NOW, true) == SL_SET_ALLOW);
    }
    part = part_of(&penalty, "blocked", 0);
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW, true), SL_SET_DENY);
    part = part_of(&penalty, "failed", 1);
    part.op = SL_TAKE_OP_CHARGE;
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW, true), SL_SET_ALLOW);
    CHECK(part.answer.retry_in > 0); /* the fifth */
    CHECK(counted(&table, SL_STAT_EVICTED) > 100000);
    sl_table_done(&table);
}

/* Forty percent of the slots change hands between two of the 45 asks. */
static void test_washing(void)
{
    static const struct {
        enum sl_kind kind;
        unsigned most;
    } rows[] = {
        {SL_BUCKET,  11}, /* of equal keys the oldest is evicted */
        {SL_FIXED,   22}, /* of equal keys any */
        {SL_SLIDING, 22},
    };

    CASE("a key that asks again during a flood keeps its usage");
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        uint64_t admitted = washed_out(rows[i].kind, 4800);

        printf("# kind %d: %" PRIu64 " admitted\n", (int)rows[i].kind,
               admitted);
        CHECK(admitted >= 10);
        CHECK(admitted <= rows[i].most);
    }
}

static void test_floods(void)
{
    struct sl_limit_binding once;

    CASE("one take each");
    begin(MIB, SL_FULL_ALLOW);
    flood(&limit[BUCKET], 1);
    sl_table_done(&table);

    CASE("each drained");
    begin(MIB, SL_FULL_ALLOW);
    flood(&limit[BUCKET], 100);
    sl_table_done(&table);

    CASE("each drained, and new keys without room are denied");
    begin(MIB, SL_FULL_DENY);
    flood(&limit[BUCKET], 100);
    sl_table_done(&table);

    CASE("one take is all there is");
    begin(MIB, SL_FULL_ALLOW);
    add_limit(&table, &once, "once", SL_BUCKET, "1/day", 100);
    flood(&once, 1);
    sl_table_done(&table);

    CASE("a flood of permits, and then of takes");
    begin(MIB, SL_FULL_ALLOW);
    flood(&limit[PERMIT], 1);
    flood(&limit[BUCKET], 1);
    flood(&limit[QUOTA], 1);
    sl_table_done(&table);
}

int main(void)
{
    test_washing();
    test_blocked();
    test_floods();
    version = SL_REGION_AES;
    test_washing();
    CASE("one take each, keys hashed by AES");
    begin(MIB, SL_FULL_ALLOW);
    flood(&limit[BUCKET], 1);
    sl_table_done(&table);
    return CHECK_DONE();
}
