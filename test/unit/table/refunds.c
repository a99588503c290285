/* refunds.c -- what others give back to the bucket of a hold, and what is left
 * for it. The rule is in core/hold.h. */
#include "held.h"
#include "table/hold_record.h"
#include "table/set.h"

static struct sl_table table;
static struct sl_limit_binding bucket, pool;

static void begin(void)
{
    open_heap(&table, MIB, SL_FULL_ALLOW);
    add_limit(&table, &bucket, "bucket", SL_BUCKET, "10/10s burst 20", 0);
    add_limit(&table, &pool, "pool", SL_PERMITS, "3", 0);
}

static void end(void)
{
    uint64_t stray;

    CHECK_EQ(locks_left(&table.region, &stray), 0);
    sl_table_done(&table);
}

static void test_others_returns(void)
{
    CASE("what others gave back is not given back again");
    begin();
    CHECK_EQ(hold_at(&table, &bucket, "a", 10, 1, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &bucket, "a", 10, 2, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &bucket, "a"), 10);
    CHECK_EQ(take_at(&table, &bucket, "a", 10, NOW + 10 * SL_S), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 2, NOW + 10 * SL_S), SL_HOLD_HELD);
    CHECK_EQ(used_at(&table, &bucket, "a", NOW + 10 * SL_S), 10);
    end();
}

/* What a key gets back is counted in words that others count in, too. With two
 * of 2048 for each key some 1 of 100 meets another in both; with one of 128,
 * nearly all. */
static void test_strangers(void)
{
    char key[16];
    unsigned lost = 0;

    CASE("what others give back to their own keys is not taken from mine");
    begin();
    for (unsigned i = 0; i < 50; i++) {
        snprintf(key, sizeof(key), "mine%u", i);
        CHECK_EQ(hold_at(&table, &bucket, key, 20, i, SL_HOUR, NOW),
                 SL_SET_ALLOW);
    }
    for (unsigned i = 0; i < 200; i++) {
        snprintf(key, sizeof(key), "other%u", i);
        CHECK_EQ(hold_at(&table, &bucket, key, 20, 100 + i, SL_HOUR, NOW),
                 SL_SET_ALLOW);
        CHECK_EQ(release_at(&table, 100 + i, NOW), SL_HOLD_HELD);
    }
    for (unsigned i = 0; i < 50; i++) {
        snprintf(key, sizeof(key), "mine%u", i);
        CHECK_EQ(release_at(&table, i, NOW), SL_HOLD_HELD);
        lost += used(&table, &bucket, key) > 0;
    }
    CHECK(lost < 10);
    end();
}

/* Of 20 at 1 a second, 10 are held, and 10 more; the younger ends first. */
TEST(younger_first)
{
    CASE("the end of a younger hold takes nothing from an older one");
    begin();
    CHECK_EQ(hold_at(&table, &bucket, "a", 10, 1, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &bucket, "a", 10, 2, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 2, NOW), SL_HOLD_HELD);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &bucket, "a"), 0);

    CASE("but what has drained since does not come back");
    CHECK_EQ(hold_at(&table, &bucket, "b", 10, 3, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &bucket, "b", 10, 4, SL_HOUR, NOW), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 4, NOW + 4 * SL_S), SL_HOLD_HELD);
    CHECK_EQ(take_at(&table, &bucket, "b", 6, NOW + 4 * SL_S), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 3, NOW + 4 * SL_S), SL_HOLD_HELD);
    CHECK_EQ(used_at(&table, &bucket, "b", NOW + 4 * SL_S), 6);
    end();
}

/* A refund of what was taken for good may reach into what is held. */
TEST(unheld)
{
    CASE("what was corrected is not given back by a hold again");
    begin();
    CHECK_EQ(hold_at(&table, &bucket, "a", 10, 1, SL_HOUR, NOW), SL_SET_ALLOW);
    adjust(&table, &bucket, "a", -10);
    CHECK_EQ(take(&table, &bucket, "a", 20), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &bucket, "a"), 20);
    end();
}

/* A key that counts its returns in word `which` of "mine", and in no other. */
static void meet_in(unsigned which, char *ret, size_t room)
{
    struct sl_part part = part_of(&bucket, "mine", 0);
    const sl_word *words[SL_REFUND_WORDS];
    struct sl_slot_key key;
    bool met = false;

    sl_slot_key_hash(&table, &part, &key);
    for (unsigned i = 0; i < SL_REFUND_WORDS; i++)
        words[i] = sl_refund_count(&table.region, key.tag, i);
    for (unsigned n = 0; !met; n++) {
        snprintf(ret, room, "other%u", n);
        part.key = sl_str_c(ret);
        sl_slot_key_hash(&table, &part, &key);
        met = true;
        for (unsigned i = 0; i < SL_REFUND_WORDS; i++)
            met = met &&
                  (i == which) ==
                      (words[i] == sl_refund_count(&table.region, key.tag, i));
    }
}

/* 10 are used for good and 10 held; in 5 seconds 5 drain, and 15 are surely
 * still used: all 10 come back. If others took the 20 that they got back from
 * that, it would be 5. */
static void test_one_stranger(unsigned which)
{
    char other[24];

    CASE(which ? "a stranger in the second word takes nothing from a hold"
               : "a stranger in the first word takes nothing from a hold");
    begin();
    meet_in(which, other, sizeof(other));
    CHECK_EQ(take(&table, &bucket, "mine", 10), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &bucket, "mine", 10, 1, SL_HOUR, NOW),
             SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &bucket, other, 20, 2, SL_HOUR, NOW),
             SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 2, NOW), SL_HOLD_HELD);
    CHECK_EQ(release_at(&table, 1, NOW + 5 * SL_S), SL_HOLD_HELD);
    CHECK_EQ(used_at(&table, &bucket, "mine", NOW + 5 * SL_S), 5);
    end();
}

/* 20 are used, 10 of them held; 8 of the others are refunded. If they counted
 * twice, 16 of the 20 would seem to be refunded, and only 4 would come back. */
TEST(same_word)
{
    struct sl_part part = part_of(&bucket, "", 0);
    struct sl_slot_key hashed;
    char key[24];

    CASE("a key whose counters are the same word counts a refund once");
    begin();
    for (unsigned n = 0;; n++) {
        snprintf(key, sizeof(key), "twice%u", n);
        part.key = sl_str_c(key);
        sl_slot_key_hash(&table, &part, &hashed);
        if (sl_refund_count(&table.region, hashed.tag, 0) ==
            sl_refund_count(&table.region, hashed.tag, 1))
            break;
    }
    CHECK_EQ(take(&table, &bucket, key, 10), SL_SET_ALLOW);
    CHECK_EQ(hold_at(&table, &bucket, key, 10, 1, SL_HOUR, NOW), SL_SET_ALLOW);
    adjust(&table, &bucket, key, -8);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &bucket, key), 2);
    end();
}

/* Nothing is used, and something is held. */
TEST(reset_of_nothing)
{
    CASE("a reset of a key that owes nothing is one to its holds");
    begin();
    CHECK_EQ(hold_at(&table, &pool, "a", 2, 1, SL_S, NOW), SL_SET_ALLOW);
    adjust(&table, &pool, "a", -2);
    CHECK_EQ(used(&table, &pool, "a"), 0);
    reset(&table, &pool, "a");
    CHECK_EQ(take(&table, &pool, "a", 3), SL_SET_ALLOW);
    CHECK_EQ(release_at(&table, 1, NOW), SL_HOLD_HELD);
    CHECK_EQ(used(&table, &pool, "a"), 3);

    CASE("and what was held before it is no permit that comes back");
    {
        struct sl_part part = part_of(&pool, "b", 3);

        CHECK_EQ(hold_at(&table, &pool, "b", 3, 2, SL_S, NOW), SL_SET_ALLOW);
        reset(&table, &pool, "b");
        CHECK_EQ(take(&table, &pool, "b", 1), SL_SET_ALLOW);
        CHECK_EQ(sl_table_decide(&table, &part, 1, NOW, true), SL_SET_DENY);
        CHECK_EQ(part.answer.retry_in, SL_NS_NONE);
    }
    end();
}

/* A slot counts to 256 and begins again. */
TEST(resets)
{
    unsigned wrong = 0;

    CASE("however often a key was reset, its old holds give nothing back");
    begin();
    for (unsigned n = 1; n < 600; n += n < 250 ? 7 : 1) {
        CHECK_EQ(hold_at(&table, &pool, "a", 2, n, SL_S, NOW), SL_SET_ALLOW);
        for (unsigned i = 0; i < n; i++) {
            reset(&table, &pool, "a");
            (void)take(&table, &pool, "a", 1); /* or there is nothing to do */
        }
        reset(&table, &pool, "a");
        CHECK_EQ(take(&table, &pool, "a", 3), SL_SET_ALLOW);
        CHECK_EQ(release_at(&table, n, NOW), SL_HOLD_HELD);
        wrong += used(&table, &pool, "a") != 3;
        reset(&table, &pool, "a");
    }
    CHECK_EQ(wrong, 0);

    CASE("and those since then give all of theirs");
    for (unsigned n = 0; n < 300; n++) {
        CHECK_EQ(hold_at(&table, &pool, "a", 2, 1000 + n, SL_S, NOW),
                 SL_SET_ALLOW);
        CHECK_EQ(take(&table, &pool, "a", 1), SL_SET_ALLOW);
        CHECK_EQ(release_at(&table, 1000 + n, NOW), SL_HOLD_HELD);
        CHECK_EQ(used(&table, &pool, "a"), 1);
        reset(&table, &pool, "a");
    }
    end();
}

int main(void)
{
    test_others_returns();
    test_strangers();
    test_one_stranger(0);
    test_one_stranger(1);
    RUN_TESTS();
    return CHECK_DONE();
}
