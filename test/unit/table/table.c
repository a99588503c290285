/* table.c -- what a table answers, one caller at a time. The numbers are those
 * of table.h. */
#include "rig.h"

enum { YES = SL_ALLOW, NO = SL_DENY, NEVER = SL_NEVER };

static struct sl_table table;
static struct sl_limit_binding ten, hundred, held, daily;

static void begin(void)
{
    open_heap(&table, MIB, SL_FULL_ALLOW);
    add_limit(&table, &ten, "ten", SL_BUCKET, "10/min", 0);
    add_limit(&table, &hundred, "hundred", SL_FIXED, "100/h", 0);
    add_limit(&table, &held, "held", SL_PERMITS, "3", 0);
    add_limit(&table, &daily, "daily", SL_QUOTA, "1000/day", 0);
}

static enum sl_set_result decide(struct sl_part *parts, unsigned count)
{
    return sl_table_decide(&table, parts, count, NOW, true);
}

/* The bytes of all buckets, before and after. */
static void *buckets_now(size_t *size)
{
    const struct sl_region_head *head = sl_region_head(&table.region);
    void *copy;

    *size = head->buckets * sizeof(struct sl_bucket);
    copy = malloc(*size);
    if (!copy)
        abort();
    return memcpy(copy, table.region.base + head->buckets_at, *size);
}

static bool buckets_same(void *before, size_t size)
{
    const char *now =
        table.region.base + sl_region_head(&table.region)->buckets_at;
    bool same = memcmp(before, now, size) == 0;

    free(before);
    return same;
}

TEST(sets)
{
    struct sl_part parts[16];
    void *before;
    size_t size;

    CASE("(1) a set is taken as a whole or not at all");
    begin();
    parts[0] = part_of(&ten, "ann", 6);
    parts[1] = part_of(&hundred, "ann", 50);
    parts[2] = part_of(&held, "ann", 2);
    CHECK_EQ(decide(parts, 3), SL_SET_ALLOW);
    CHECK_EQ(parts[0].answer.remaining, 4);
    CHECK_EQ(parts[1].answer.remaining, 50);
    CHECK_EQ(parts[2].answer.remaining, 1);
    before = buckets_now(&size);
    CHECK_EQ(decide(parts, 3), SL_SET_DENY);
    CHECK_EQ(parts[0].answer.outcome, NO);
    CHECK_EQ(parts[0].answer.remaining, 4);
    CHECK(parts[0].answer.retry_in > 0);
    CHECK_EQ(parts[1].answer.outcome, YES);
    CHECK_EQ(parts[1].answer.remaining, 50);
    CHECK_EQ(parts[2].answer.outcome, NO);
    CHECK_EQ(parts[2].answer.remaining, 1);
    CASE("(3) a refused set leaves every byte as it was");
    CHECK(buckets_same(before, size));

    CASE("(3) a refused set adds no key");
    before = buckets_now(&size);
    parts[0] = part_of(&ten, "new", 1);
    parts[1] = part_of(&ten, "ann", 5);
    CHECK_EQ(decide(parts, 2), SL_SET_DENY);
    CHECK(buckets_same(before, size));

    CASE("sixteen new keys in one set");
    for (unsigned i = 0; i < 16; i++) {
        static const char names[] = "abcdefghijklmnop";

        parts[i] = part_of(&held, "", 1);
        parts[i].key = (struct sl_str){names + i, 1};
    }
    CHECK_EQ(decide(parts, 16), SL_SET_ALLOW);
    for (unsigned i = 0; i < 16; i++)
        CHECK_EQ(parts[i].answer.remaining, 2);
    CHECK_EQ(used(&table, &held, "p"), 1);
    sl_table_done(&table);
}

TEST(merging)
{
    struct sl_part parts[16];

    CASE("the same key twice is one key");
    begin();
    parts[0] = part_of(&ten, "ann", 3);
    parts[1] = part_of(&hundred, "ann", 1);
    parts[2] = part_of(&ten, "ann", 4);
    CHECK_EQ(decide(parts, 3), SL_SET_ALLOW);
    CHECK_EQ(parts[0].answer.remaining, 3);
    CHECK_EQ(parts[2].answer.remaining, 3);
    CHECK_EQ(used(&table, &ten, "ann"), 7);
    CHECK_EQ(used(&table, &hundred, "ann"), 1);
    parts[0].cost = parts[2].cost = 2;
    CHECK_EQ(decide(parts, 3), SL_SET_DENY);
    CHECK_EQ(parts[0].answer.outcome, NO);
    CHECK_EQ(parts[2].answer.outcome, NO);
    CHECK_EQ(parts[1].answer.outcome, YES);
    parts[0].cost = 10;
    CHECK_EQ(decide(parts, 3), SL_SET_DENY);
    CHECK_EQ(parts[0].answer.outcome, NEVER);

    CASE("sixteen times the same new key");
    for (unsigned i = 0; i < 16; i++)
        parts[i] = part_of(&hundred, "bob", 6);
    CHECK_EQ(decide(parts, 16), SL_SET_ALLOW);
    CHECK_EQ(used(&table, &hundred, "bob"), 96);
    CHECK_EQ(parts[15].answer.remaining, 4);

    CASE("costs that add up to more than a number holds");
    parts[0].cost = parts[1].cost = UINT64_MAX;
    CHECK_EQ(decide(parts, 2), SL_SET_DENY);
    CHECK_EQ(parts[0].answer.outcome, NEVER);

    CASE("corrections of the same key add up");
    for (unsigned i = 0; i < 2; i++) {
        set_delta(&parts[i], i ? -10 : 4);
        parts[i].taken_at = NOW;
    }
    CHECK_EQ(decide(parts, 2), SL_SET_ALLOW);
    CHECK_EQ(used(&table, &hundred, "bob"), 90);
    sl_table_done(&table);
}

TEST(looking)
{
    struct sl_part parts[3];
    void *before;
    size_t size;

    CASE("a look says what a take would, and takes nothing");
    begin();
    CHECK_EQ(take(&table, &ten, "ann", 6), SL_SET_ALLOW);
    before = buckets_now(&size);
    parts[0] = part_of(&ten, "ann", 4);
    parts[1] = part_of(&ten, "bob", 10);
    parts[2] = part_of(&held, "ann", 0);
    for (unsigned i = 0; i < 3; i++)
        parts[i].op = SL_TAKE_OP_PEEK;
    CHECK_EQ(decide(parts, 3), SL_SET_ALLOW);
    CHECK_EQ(parts[0].answer.remaining, 4);
    CHECK_EQ(parts[1].answer.remaining, 10);
    parts[0].cost = 5;
    CHECK_EQ(decide(parts, 3), SL_SET_DENY);
    CHECK_EQ(parts[0].answer.outcome, NO);
    CHECK_EQ(parts[0].answer.retry_in, 6 * SL_S);
    CHECK_EQ(parts[1].answer.outcome, YES);
    CHECK(buckets_same(before, size));

    CASE("a take of nothing is a look");
    CHECK_EQ(take(&table, &ten, "carl", 0), SL_SET_ALLOW);
    CHECK_EQ(counted(&table, SL_STAT_INSERTED), 1);
    sl_table_done(&table);
}

TEST(correcting)
{
    CASE("a correction is charged, also beyond the limit");
    begin();
    adjust(&table, &held, "ann", 5);
    CHECK_EQ(take(&table, &held, "ann", 1), SL_SET_DENY);
    adjust(&table, &held, "ann", -2);
    CHECK_EQ(take(&table, &held, "ann", 1), SL_SET_DENY);
    adjust(&table, &held, "ann", -1);
    CHECK_EQ(take(&table, &held, "ann", 1), SL_SET_ALLOW);

    CASE("what is given back never makes more than full");
    adjust(&table, &held, "ann", -100);
    CHECK_EQ(used(&table, &held, "ann"), 0);
    adjust(&table, &held, "other", -100);
    CHECK_EQ(used(&table, &held, "other"), 0);
    CHECK_EQ(counted(&table, SL_STAT_INSERTED), 1);

    CASE("a reset forgets");
    CHECK_EQ(take(&table, &daily, "ann", 1000), SL_SET_ALLOW);
    CHECK_EQ(take(&table, &daily, "ann", 1), SL_SET_DENY);
    reset(&table, &daily, "ann");
    reset(&table, &daily, "other");
    CHECK_EQ(used(&table, &daily, "ann"), 0);
    CHECK_EQ(counted(&table, SL_STAT_INSERTED), 2);
    sl_table_done(&table);
}

TEST(time)
{
    struct sl_part part;
    void *before;
    size_t size;

    CASE("a reading that lags like a step is asked for again");
    begin();
    CHECK_EQ(take(&table, &ten, "ann", 10), SL_SET_ALLOW);
    before = buckets_now(&size);
    part = part_of(&ten, "ann", 1);
    part.answer.remaining = 77;
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW - SL_LAG, false),
             SL_SET_STALE);
    CHECK_EQ(part.answer.remaining, 77);
    CHECK(buckets_same(before, size));

    CASE("one that lags less is judged at the time of the others");
    before = buckets_now(&size);
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW - SL_LAG + 1, false),
             SL_SET_DENY);
    CHECK_EQ(part.answer.retry_in, 6 * SL_S + SL_LAG - 1);
    CHECK_EQ(part.answer.reset_in, 60 * SL_S + SL_LAG - 1);
    CHECK(buckets_same(before, size));
    CHECK_EQ(sl_table_latest(&table), NOW);

    CASE("(3) a clock that really stepped back mends the cell");
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW - SL_HOUR, true),
             SL_SET_DENY);
    CHECK_EQ(part.answer.retry_in, 6 * SL_S);
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW - SL_HOUR + 6 * SL_S, false),
             SL_SET_ALLOW);
    sl_table_done(&table);
}

/* Two threads keep their readings for 10 ms, out of phase, and share a bucket
 * of 1000 a second: the late one must not set the cell back for the other. */
TEST(loops)
{
    struct sl_limit_binding limit =
        limit_of("api", SL_BUCKET, "1000/s burst 100", 0);
    sl_ns turn[2] = {NOW, NOW};
    unsigned admitted = 0;

    CASE("readings of two loops admit no more than the bound");
    open_heap(&table, MIB, SL_FULL_ALLOW);
    know(&table, &limit);
    for (unsigned ms = 0; ms < 1000; ms++) {
        if (ms % 5 == 0)
            turn[ms / 5 % 2] = NOW + ms * SL_MS;
        for (unsigned i = 0; i < 20; i++) {
            struct sl_part part = part_of(&limit, "ann", 1);

            admitted += sl_table_decide(&table, &part, 1, turn[i % 2], false) ==
                        SL_SET_ALLOW;
        }
    }
    CHECK(admitted <= 1100);
    CHECK(admitted >= 1080);
    sl_table_done(&table);
}

/* V10: tenant and user. */
TEST(tenant_and_user)
{
    struct sl_limit_binding tenant =
        limit_of("tenant", SL_BUCKET, "1000/day", 0);
    struct sl_limit_binding user = limit_of("user", SL_BUCKET, "100/day", 0);
    unsigned allowed = 0;

    CASE("V10: a denied user costs the tenant nothing");
    begin();
    know(&table, &tenant);
    know(&table, &user);
    for (unsigned i = 0; i < 1000; i++) {
        struct sl_part parts[] = {part_of(&tenant, "acme", 1),
                                  part_of(&user, "ann", 1)};

        if (decide(parts, 2) == SL_SET_ALLOW)
            allowed++;
        else
            CHECK_EQ(parts[0].answer.remaining, 900);
    }
    CHECK_EQ(allowed, 100);
    CHECK_EQ(used(&table, &user, "ann"), 100);
    CHECK_EQ(used(&table, &tenant, "acme"), 100);
    sl_table_done(&table);
}

static bool on_slot(void *ctx, uint32_t limit, uint64_t print,
                    struct sl_cell cell)
{
    uint64_t *sums = ctx;

    sums[0]++;
    sums[1] += limit == held.id ? cell.w[1] : 0;
    return print != 0 && sums[0] < sums[2];
}

TEST(visiting)
{
    uint64_t sums[3] = {0, 0, 1000};
    struct sl_table_stats stats;
    char key[16];

    CASE("a visit sees every key once");
    begin();
    for (unsigned i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        CHECK_EQ(take(&table, i % 2 ? &held : &ten, key, 1 + i % 3),
                 SL_SET_ALLOW);
    }
    sl_table_visit(&table, on_slot, sums);
    CHECK_EQ(sums[0], 500);
    CHECK_EQ(sums[1], 500);
    sl_table_stats(&table, &stats);
    CHECK_EQ(stats.occupied, 500);
    CHECK_EQ(stats.counted[SL_STAT_INSERTED], 500);
    CHECK_EQ(stats.counted[SL_STAT_TAKES], 500);
    CHECK_EQ(stats.bytes, MIB);

    CASE("a visit can be stopped");
    sums[0] = 0;
    sums[2] = 10;
    sl_table_visit(&table, on_slot, sums);
    CHECK_EQ(sums[0], 10);
    sl_table_done(&table);
}

TEST(knowing)
{
    struct sl_limit_binding again = limit_of("ten", SL_BUCKET, "20/min", 0);
    struct sl_limit_binding other = limit_of("ten", SL_BUCKET, "10/h", 0);
    struct sl_limit_binding more;
    char name[16];
    unsigned known = 0;

    CASE("the same name and period is the same limit, with new numbers");
    begin();
    CHECK_EQ(take(&table, &ten, "ann", 10), SL_SET_ALLOW);
    know(&table, &again);
    CHECK_EQ(again.id, ten.id);
    CHECK_EQ(take(&table, &again, "ann", 10), SL_SET_ALLOW);
    CHECK_EQ(take(&table, &again, "ann", 1), SL_SET_DENY);

    CASE("another period starts afresh");
    know(&table, &other);
    CHECK(other.id != ten.id);
    CHECK_EQ(take(&table, &other, "ann", 10), SL_SET_ALLOW);

    CASE("a region knows so many limits and no more");
    for (unsigned i = 0; i < SL_LIMITS; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        more = limit_of(name, SL_PERMITS, "1", 1);
        known += sl_table_add_limit(&table, &more) == 0;
    }
    CHECK_EQ(known, SL_LIMITS - 5);
    CHECK_EQ(sl_table_add_limit(&table, &more), SLUICE_EFULL);
    CHECK_EQ(sl_table_add_limit(&table, &again), 0);
    sl_table_done(&table);
}

CHECK_MAIN()
