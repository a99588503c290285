/* edges.c -- edge cases of the usage database: many credits, keys that are
 * used again for another report, counters that are full. */
#include "books.h"

TEST_WITH(many_credits, struct world *w)
{
    struct sl_usage_entry u = report("rich", 120, "");

    CASE("(5) many expired credits do not hide the used ones");
    for (int i = 1; i <= SL_SUBJECT_RECORD_CREDITS; i++)
        give(w, 1, DAY_0 - i * SL_HOUR);
    give(w, 40, SL_NS_NONE);
    put_one(w, u, SL_USAGE_RECORDED, 120, 0);
    CHECK_EQ(known_credit(w, DAY_0, true), 20);
    CHECK_EQ(known_credit(w, DAY_0, false), 20);
    CASE("nor do many valid ones");
    for (int i = 1; i <= 2 * SL_SUBJECT_RECORD_CREDITS; i++)
        give(w, 1, DAY_0 + i * SL_HOUR);
    CHECK_EQ(known_credit(w, DAY_0, true), 20);
    CHECK(known_credit(w, DAY_0, false) >= 20 + SL_SUBJECT_RECORD_CREDITS / 2);
    CASE("a credit that is used up is not shown as unused");
    u.amount = 19;
    put_one(w, u, SL_USAGE_RECORDED, 139, 0);
    CHECK_EQ(known_credit(w, DAY_0, true), 39);
}

TEST_WITH(names_of_keys, struct world *w)
{
    struct sl_usage_entry u = thing("k-a", 1);

    u.cap = UINT64_MAX;
    u.key = S("n1");
    CASE("(2) a key is for one name");
    put_one(w, u, SL_USAGE_RECORDED, 1, 0);
    put_one(w, u, SL_USAGE_REPLAYED, 1, 0);
    u.name = S("k-b");
    put_one(w, u, SL_USAGE_CONFLICT, 1, 0);
    u.name = S("");
    put_one(w, u, SL_USAGE_CONFLICT, 1, 0);
}

TEST_WITH(full, struct world *w)
{
    const int64_t most = SL_USAGE_MOST;
    struct sl_usage_entry u = thing("big-a", most - 10);

    u.id = S("vast");
    u.cap = UINT64_MAX;
    CASE("(1) things beyond 2^53 count as far as there is room");
    put_one(w, u, SL_USAGE_RECORDED, (uint64_t)most - 10, 0);
    u.name = S("big-b");
    put_one(w, u, SL_USAGE_RECORDED, (uint64_t)most, 0);
    CASE("(1) and take no more with them than that");
    u.amount = 0;
    put_one(w, u, SL_USAGE_RECORDED, (uint64_t)most - 10, 0);
    u.name = S("big-a");
    u.amount = 7;
    put_one(w, u, SL_USAGE_RECORDED, 7, 0);
    u.amount = 0;
    put_one(w, u, SL_USAGE_RECORDED, 0, 0);
}

int main(void)
{
    struct world w;

    world_open(&w);
    RUN_TESTS_WITH(&w);
    world_close(&w);
    return CHECK_DONE();
}
