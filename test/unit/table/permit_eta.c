/* permit_eta.c -- when permits come back: what is remembered of it, and which
 * records are looked at. */
#include "held.h"
#include "table/hold_record.h"
#include "table/set.h"

static struct sl_table table;
static struct sl_limit_binding pool;

static void begin(const char *permits)
{
    open_heap(&table, MIB, SL_FULL_ALLOW);
    add_limit(&table, &pool, "pool", SL_PERMITS, permits, 0);
}

static sl_ns retry_of(const char *key, uint64_t cost, sl_ns now)
{
    struct sl_part part = part_of(&pool, key, cost);

    CHECK_EQ(sl_table_decide(&table, &part, 1, now, true), SL_SET_DENY);
    return part.answer.retry_in;
}

/* ---- what was found last ---- */

/* Three permits of "a" are out until 2, 4 and 9 seconds, and a caller has asked
 * for two: the answer was the end of the second hold. */
static void begin_asked(void)
{
    begin("3");
    CHECK_EQ(hold_at(&table, &pool, "a", 1, 1, 2 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &pool, "a", 1, 2, 4 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &pool, "a", 1, 3, 9 * SL_S, NOW), SL_SET_ALLOW);
    CHECK_EQ(retry_of("a", 2, NOW), 4 * SL_S);
}

/* In each case as many are out as before, and the second hold is as it was. */
TEST(ended)
{
    sl_ns later = NOW + 2 * SL_S;

    CASE("a permit that is settled at its cost does not come back");
    begin_asked();
    CHECK_EQ(settle_at(&table, &pool, 1, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &pool, "a"), 3);
    CHECK_EQ(retry_of("a", 2, NOW), 9 * SL_S);
    sl_table_done(&table);

    CASE("nor one that is released, and taken for good");
    begin_asked();
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(take(&table, &pool, "a", 1), SL_SET_ALLOW);
    CHECK_EQ(retry_of("a", 2, NOW), 9 * SL_S);
    sl_table_done(&table);

    CASE("nor one that has expired, and is taken for good");
    begin_asked();
    CHECK_EQ(retry_of("a", 2, later - 1), 2 * SL_S + 1);
    CHECK_EQ(take_at(&table, &pool, "a", 1, later), SL_SET_ALLOW);
    CHECK_EQ(retry_of("a", 2, later), 7 * SL_S);
    sl_table_done(&table);
}

/* ---- which records ---- */

/* A key whose sign is 1: of 65,534 there is one. */
static struct sl_part part_of_first_sign(uint64_t cost)
{
    struct sl_part part = part_of(&pool, "rare", cost);

    part.fingerprint = (struct sl_hash128){UINT64_C(65534) * 12345, 678};
    return part;
}

/* All in the first block, in their order. */
static struct sl_hold_id id_in_first(uint64_t number)
{
    return (struct sl_hold_id){
        {(number + 1) << 4, (number + 1) << 4}
    };
}

static void hold_in_first(struct sl_part part, uint64_t number, sl_ns life)
{
    CHECK_EQ(
        sl_table_hold(&table, &part, 1, id_in_first(number), life, NOW, true),
        SL_SET_ALLOW);
}

/* A row has seven signs in two words; the eighth place is 0 for ever. After a
 * hit on the seventh it looks like a hit for the sign 1, and the record behind
 * it is the first of the next row: or beyond the last of all. */
TEST(eighth)
{
    struct sl_part part;

    CASE("no record is counted twice, whatever the sign of its key");
    begin("9");
    for (uint64_t i = 0; i < 6; i++)
        hold_in_first(part_of(&pool, "b", 1), i, 20 * SL_S);
    hold_in_first(part_of_first_sign(3), 6, 2 * SL_S);
    hold_in_first(part_of_first_sign(3), 7, 4 * SL_S);
    part = part_of_first_sign(3);
    CHECK_EQ(hold_set(&table, &part, 1, 100, 9 * SL_S, NOW), SL_SET_ALLOW);
    part = part_of_first_sign(9);
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW, true), SL_SET_DENY);
    CHECK_EQ(part.answer.retry_in, 9 * SL_S);
    part = part_of_first_sign(6);
    CHECK_EQ(sl_table_decide(&table, &part, 1, NOW, true), SL_SET_DENY);
    CHECK_EQ(part.answer.retry_in, 4 * SL_S);
    sl_table_done(&table);
}

/* ---- how many ---- */

/* `count` holds of two permits each expire before the only one of "a" does, and
 * each of them may be one of "a": when is it told? */
static sl_ns retry_among(uint64_t count)
{
    struct sl_limit_binding one, two;
    sl_ns retry;

    open_heap(&table, 64 * MIB, SL_FULL_ALLOW);
    add_limit(&table, &pool, "pool", SL_PERMITS, "1", 0);
    add_limit(&table, &one, "one", SL_PERMITS, "1M", 0);
    add_limit(&table, &two, "two", SL_PERMITS, "1M", 0);
    for (uint64_t i = 0; i < count; i++) {
        struct sl_part parts[] = {part_of(&one, "x", 1), part_of(&two, "y", 1)};

        CHECK_EQ(hold_set(&table, parts, 2, i, 5 * SL_S, NOW), SL_SET_ALLOW);
    }
    CHECK_EQ(hold_at(&table, &pool, "a", 1, count, SL_MIN, NOW), SL_SET_ALLOW);
    retry = retry_of("a", 1, NOW);
    sl_table_done(&table);
    return retry;
}

TEST(most)
{
    CASE("some 2,048 holds of several permits are read, and no more");
    CHECK_EQ(retry_among(2000), SL_MIN);
    CHECK_EQ(retry_among(2200), SL_NS_NONE);
}

CHECK_MAIN()
