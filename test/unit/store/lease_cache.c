/* lease_cache.c -- the table of leases: what is asked for, spent, and given
 * back; and the denials that are answered without the store. */
#include "store/redis/redis_int.h"

#include <string.h>

#include "check.h"
#include "fail.h"
#include "limit.h"

#define T0 (1000 * SL_S)

struct world {
    struct sl_lease_cache *leases;
    struct sl_denial_forgets forgets;
    struct sl_limit limit;
    struct sl_limit_binding stored;
    struct sl_part parts[2];
    struct sl_take take;
    struct sl_lease_keys keys;
    struct sl_lease_requests asks;
    struct sl_lease_counts counts;
};

static void open_world(struct world *w, const char *rate_text, unsigned percent)
{
    memset(w, 0, sizeof(*w));
    w->limit = rate_of(SL_BUCKET, rate_text);
    w->stored = (struct sl_limit_binding){.name = "a", .lease = percent};
    w->take = (struct sl_take){.op = SL_TAKE_OP_TAKE, .parts = w->parts};
    CHECK_EQ(sl_lease_cache_open(64, sl_script_keep, false, &sl_alloc_libc,
                                 &w->leases),
             0);
}

static void set_keys(struct world *w, const char *one, const char *two,
                     uint64_t cost)
{
    const char *names[] = {one, two};

    w->take.count = 0;
    for (unsigned i = 0; i < 2 && names[i]; i++)
        w->parts[w->take.count++] = (struct sl_part){.binding = &w->stored,
                                                     .limit = &w->limit,
                                                     .name = sl_str_c(names[i]),
                                                     .cost = cost};
    sl_lease_keys(&w->forgets, &w->take, &w->keys);
}

static void ask(struct world *w, sl_ns now)
{
    sl_lease_cache_ask(w->leases, &w->keys, &w->take, 7, now, now, &w->asks);
}

static bool spend(struct world *w, sl_ns now)
{
    return sl_lease_cache_spend(w->leases, &w->keys, &w->take, now);
}

/* The server's time is 5000 s when ours is `sent`. */
static void land(struct world *w, int64_t has, sl_ns life, int64_t known,
                 sl_ns sent)
{
    int64_t numbers[3 + 16] = {1, 5000000000, 0};
    unsigned parts = w->asks.count;

    for (unsigned i = 0; i < parts; i++) {
        int64_t *lease = numbers + 3 + (size_t)5 * parts + (size_t)3 * i;

        memcpy(numbers + 3 + (size_t)5 * i, (int64_t[]){0, 90, -1, 3000000, 0},
               5 * sizeof(int64_t));
        memcpy(lease, (int64_t[]){has, 5000000000 + life / SL_US, known},
               3 * sizeof(int64_t));
    }
    sl_script_grant(w->leases, &w->asks, numbers, 3 + 8 * parts, sent,
                    &w->counts);
}

/* A key that has a lease of `has` for a second from T0. */
static void lease(struct world *w, const char *key, int64_t has)
{
    set_keys(w, key, NULL, (uint64_t)has);
    ask(w, T0 - SL_MS);
    ask(w, T0);
    land(w, has, SL_S, 1, T0);
    w->counts = (struct sl_lease_counts){0};
}

/* ---- what is wanted ---- */

TEST(wanted)
{
    static const struct {
        const char *why;
        uint64_t cost;
        sl_ns after;
        uint64_t want;
    } rows[] = {
        {"nothing, of a key that comes once", 1, 0,          0 },
        {"twice what it has taken so far",    1, SL_MS,      4 },
        {"and since it asked last",           3, SL_MS,      6 },
        {"but never more than its share",     9, SL_MS,      10},
        {"nor after a pause",                 1, 2 * SL_S,   0 },
        {"then it begins again",              1, SL_S,       4 },
        {"a clock that stepped back is one",  1, -10 * SL_S, 0 },
    };
    struct world w;
    sl_ns now = T0;

    open_world(&w, "50/s burst 100", 10);
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        now += rows[i].after;
        set_keys(&w, "k", NULL, rows[i].cost);
        ask(&w, now);
        CHECK_EQ(w.asks.words[0].want, rows[i].want);
        CHECK_EQ(w.asks.count, rows[i].want > 0);
        sl_lease_cache_lost(w.leases, &w.asks, true, &w.counts);
    }
    CASE("at least one of a small limit");
    w.limit.capacity = 5;
    set_keys(&w, "small", NULL, 1);
    ask(&w, T0);
    ask(&w, T0);
    CHECK_EQ(w.asks.words[0].want, 1);
    sl_lease_cache_close(w.leases);
}

TEST(applies)
{
    struct world w;

    open_world(&w, "50/s burst 100", 10);
    set_keys(&w, "a", "b", 1);
    CASE("a set is leased if all of its limits are");
    CHECK(sl_lease_cache_can_lease(&w.take));
    w.parts[1].carried = true;
    CHECK(!sl_lease_cache_can_lease(&w.take));
    set_keys(&w, "a", "a", 1);
    CHECK(!sl_lease_cache_can_lease(&w.take)); /* one key twice */
    set_keys(&w, "a", "b", 1);
    w.take.hold.w[0] = 1;
    CHECK(!sl_lease_cache_can_lease(&w.take));
    w.take.hold.w[0] = 0;
    w.take.op = SL_TAKE_OP_PEEK;
    CHECK(!sl_lease_cache_can_lease(&w.take));
    w.take.op = SL_TAKE_OP_TAKE;
    w.limit.kind = SL_LEAKY;
    CHECK(!sl_lease_cache_can_lease(&w.take));
    w.limit.kind = SL_PERMITS;
    CHECK(!sl_lease_cache_can_lease(&w.take));
    w.limit.kind = SL_QUOTA;
    CHECK(sl_lease_cache_can_lease(&w.take));
    w.stored.lease = 0;
    CHECK(!sl_lease_cache_can_lease(&w.take));
    sl_lease_cache_close(w.leases);
}

/* ---- spending ---- */

TEST(spend)
{
    struct world w;

    open_world(&w, "50/s burst 100", 50);
    lease(&w, "k", 8);
    set_keys(&w, "k", NULL, 3);
    CASE("a lease is spent until it is over");
    CHECK(!spend(&w, T0 - 1));
    CHECK(spend(&w, T0));
    CHECK(w.take.allowed && w.take.err == 0);
    CHECK_EQ(w.parts[0].answer.outcome, SL_ALLOW);
    CHECK_EQ(w.parts[0].answer.remaining, 90 - 3);
    CHECK_EQ(w.parts[0].answer.reset_in, 3 * SL_S);
    CHECK(spend(&w, T0 + SL_S - 1));
    CHECK_EQ(w.parts[0].answer.remaining, 90 - 6);
    CHECK_EQ(w.parts[0].answer.reset_in, 2 * SL_S + 1);
    CHECK(!spend(&w, T0 + SL_S - 1)); /* two are left */
    set_keys(&w, "k", NULL, 2);
    CHECK(!spend(&w, T0 + SL_S));

    CASE("then it ends with the next take, which says what is left");
    set_keys(&w, "k", NULL, 3);
    ask(&w, T0 + SL_MS);
    CHECK_EQ(w.asks.words[0].all, 8);
    CHECK_EQ(w.asks.words[0].left, 2);
    CHECK_EQ(w.asks.words[0].till, 5001000000);
    CHECK_EQ(w.asks.words[0].want, 2 * (6 + 3));
    CHECK(w.asks.frees);

    CASE("meanwhile others ask without");
    set_keys(&w, "k", NULL, 1);
    CHECK(!spend(&w, T0 + SL_MS));
    {
        struct sl_lease_requests other;

        sl_lease_cache_ask(w.leases, &w.keys, &w.take, 7, T0, T0 + SL_MS,
                           &other);
        CHECK_EQ(other.count, 0);
    }
    sl_lease_cache_lost(w.leases, &w.asks, true, &w.counts);

    CASE("what was not sent has not ended");
    CHECK_EQ(w.counts.under, 0);
    CHECK(spend(&w, T0 + SL_MS));
    sl_lease_cache_close(w.leases);
}

/* A lease that shrinks as its bucket refills: 50 in a second. */
static void shrink(struct world *w, uint64_t has)
{
    struct sl_lease_grant grant = {.has = has, .life = SL_S, .remaining = 90};

    sl_lease_cache_close(w->leases);
    CHECK_EQ(sl_lease_cache_open(64, sl_script_keep, true, &sl_alloc_libc,
                                 &w->leases),
             0);
    set_keys(w, "k", NULL, 5);
    ask(w, T0);
    ask(w, T0);
    CHECK(sl_lease_cache_granted(w->leases, &w->asks, 0, &grant, T0));
}

TEST(shrinking)
{
    static const struct {
        const char *why;
        sl_ns at;
        uint64_t left;
    } rows[] = {
        {"all of it is there at first", 0,               10},
        {"a part counts as a whole",    1,               9 },
        {"to the instant",              20 * SL_MS,      9 },
        {"until nothing is left",       200 * SL_MS - 1, 0 },
        {"long after",                  900 * SL_MS,     0 },
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        sl_ns at = T0 + rows[i].at;
        struct sl_lease_end end;
        struct world w;

        CASE(rows[i].why);
        open_world(&w, "50/s burst 100", 50);
        shrink(&w, 10);
        set_keys(&w, "k", NULL, rows[i].left + 1);
        CHECK(!spend(&w, at));
        set_keys(&w, "k", NULL, rows[i].left);
        CHECK(spend(&w, at));
        CHECK(sl_lease_cache_end(w.leases, at, true, &end));
        CHECK_EQ(end.asks.words[0].left, 0);
        sl_lease_cache_close(w.leases);
    }
}

TEST(shrunk)
{
    struct sl_lease_end end;
    struct world w;

    open_world(&w, "50/s burst 100", 50);
    shrink(&w, 10);
    CASE("what shrinks away is wanted, too");
    set_keys(&w, "j", NULL, 5);
    ask(&w, T0);
    ask(&w, T0 + 60 * SL_MS);
    CHECK_EQ(w.asks.words[0].want, 2 * (5 + 5 + 3));
    sl_lease_cache_lost(w.leases, &w.asks, true, &w.counts);
    CASE("what has shrunk does not go back; what came back has shrunk once");
    for (unsigned ms = 60; ms <= 80; ms += 20) {
        CHECK(sl_lease_cache_end(w.leases, T0 + ms * SL_MS, true, &end));
        CHECK_EQ(end.asks.words[0].left, 10 - ms / 20);
        sl_lease_cache_lost(w.leases, &end.asks, true, &w.counts);
    }
    CASE("nor what is unknown after a step back");
    CHECK(sl_lease_cache_end(w.leases, T0 - 1, true, &end));
    CHECK_EQ(end.asks.words[0].left, 0);
    sl_lease_cache_close(w.leases);
}

TEST(sets)
{
    struct world w;

    open_world(&w, "50/s burst 100", 50);
    lease(&w, "one", 8);
    lease(&w, "two", 4);
    CASE("a set is spent all or not at all");
    set_keys(&w, "one", "two", 5);
    CHECK(!spend(&w, T0));
    set_keys(&w, "one", NULL, 8);
    CHECK(spend(&w, T0)); /* it was left alone */
    set_keys(&w, "two", NULL, 4);
    CHECK(spend(&w, T0));

    CASE("other numbers are another lease");
    lease(&w, "three", 8);
    w.limit.capacity++;
    set_keys(&w, "three", NULL, 1);
    CHECK(!spend(&w, T0));
    sl_lease_cache_close(w.leases);
}

/* ---- landing ---- */

TEST(landing)
{
    static const struct {
        const char *why;
        int64_t has;
        sl_ns life;
        bool good;
    } rows[] = {
        {"as much as was wanted",     8, SL_S,         true },
        {"less",                      1, SL_S,         true },
        {"nothing",                   0, SL_S,         false},
        {"more than was wanted",      9, SL_S,         false},
        {"for longer than they live", 8, SL_S + SL_US, false},
        {"that is over",              8, 0,            false},
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct world w;

        CASE(rows[i].why);
        open_world(&w, "50/s burst 100", 8);
        set_keys(&w, "k", NULL, 4);
        ask(&w, T0);
        ask(&w, T0);
        CHECK_EQ(w.asks.words[0].want, 8);
        land(&w, rows[i].has, rows[i].life, 1, T0);
        set_keys(&w, "k", NULL, 1);
        CHECK_EQ(spend(&w, T0), rows[i].good);
        CHECK_EQ(w.counts.granted, rows[i].good ? (uint64_t)rows[i].has : 0);
        sl_lease_cache_close(w.leases);
    }
}

TEST(counts)
{
    struct world w;

    open_world(&w, "50/s burst 100", 50);
    lease(&w, "k", 8);
    set_keys(&w, "k", NULL, 3);
    CHECK(spend(&w, T0));
    CASE(
        "a lease that the store does not know: spent too much, and too little");
    ask(&w, T0 + SL_MS);
    land(&w, 0, 0, 0, T0);
    CHECK_EQ(w.counts.over, 3);
    CHECK_EQ(w.counts.under, 5);

    CASE("one that was over is no surprise");
    lease(&w, "k", 8);
    set_keys(&w, "k", NULL, 3);
    CHECK(spend(&w, T0));
    ask(&w, T0 + 2 * SL_S);
    w.asks.words[0].till = 5000000000; /* the server's now */
    land(&w, 0, 0, 0, T0);
    CHECK_EQ(w.counts.over, 0);
    CHECK_EQ(w.counts.under, 5);

    CASE("nor is one without an answer");
    lease(&w, "j", 6);
    set_keys(&w, "j", NULL, 7);
    ask(&w, T0);
    sl_lease_cache_lost(w.leases, &w.asks, false, &w.counts);
    CHECK_EQ(w.counts.under, 6);
    CHECK(!spend(&w, T0));

    CASE("an answer without leases loses it");
    lease(&w, "i", 6);
    set_keys(&w, "i", NULL, 7);
    ask(&w, T0);
    sl_script_grant(w.leases, &w.asks, (int64_t[8]){1, 1}, 8, T0, &w.counts);
    CHECK_EQ(w.counts.under, 6);
    sl_lease_cache_close(w.leases);
}

/* ---- going back ---- */

TEST(end)
{
    struct sl_script_options how = {.own_now = true, .near = T0};
    struct sl_lease_end end;
    struct sl_buf out;
    struct world w;

    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    open_world(&w, "50/s burst 100", 50);
    CASE("nothing is due where nothing is leased");
    CHECK_EQ(sl_lease_cache_due(w.leases), SL_NS_NONE);
    CHECK(!sl_lease_cache_end(w.leases, T0, true, &end));
    lease(&w, "k", 8);
    lease(&w, "empty", 8);
    CHECK(spend(&w, T0));
    CASE("a lease goes back before it is over");
    CHECK_EQ(sl_lease_cache_due(w.leases), T0 + 800 * SL_MS);
    CHECK(!sl_lease_cache_end(w.leases, T0 + 799 * SL_MS, false, &end));
    CHECK(sl_lease_cache_end(w.leases, T0 + 800 * SL_MS, false, &end));
    CHECK(end.asks.frees);
    CHECK_EQ(sl_script_end_lease(end.name, end.numbers, &how,
                                 &end.asks.words[0], &out),
             0);
    CHECK(out.len > 0 && memmem(out.bytes, out.len, "$1\r\nk\r\n", 7));
    CHECK(memmem(out.bytes, out.len, "$1\r\n8\r\n$1\r\n8\r\n", 14));
    CHECK_EQ(end.slot, 7);
    set_keys(&w, "k", NULL, 1);
    CHECK(!spend(&w, T0));
    sl_lease_cache_lost(w.leases, &end.asks, false, &w.counts);
    CHECK_EQ(w.counts.under, 8);

    CASE("one that is spent goes quietly");
    CHECK(sl_lease_cache_end(w.leases, T0, true, &end));
    CHECK(!end.asks.frees);
    sl_lease_cache_lost(w.leases, &end.asks, false, &w.counts);
    CHECK_EQ(w.counts.under, 8);
    CHECK_EQ(sl_lease_cache_due(w.leases), SL_NS_NONE);
    sl_lease_cache_close(w.leases);
    sl_buf_done(&out);
}

/* ---- room ---- */

TEST(full)
{
    struct world w;
    unsigned leased = 0;
    char key[16];

    open_world(&w, "50/s burst 100", 50);
    CASE("a take that finds no place goes without");
    for (unsigned i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        set_keys(&w, key, NULL, 1);
        ask(&w, T0);
        ask(&w, T0);
        leased += w.asks.count;
        if (w.asks.count)
            land(&w, 1, SL_S, 1, T0);
    }
    CHECK(leased > 32 && leased <= 64);
    CASE("until others have gone");
    set_keys(&w, "k499", NULL, 1);
    ask(&w, T0);
    CHECK_EQ(w.asks.count, 0);
    sl_lease_cache_close(w.leases);

    open_world(&w, "50/s burst 100", 50);
    for (unsigned i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        set_keys(&w, key, NULL, 1);
        ask(&w, T0 + 2 * i * SL_S);
        ask(&w, T0 + 2 * i * SL_S);
        CHECK_EQ(w.asks.count, 1);
        sl_lease_cache_lost(w.leases, &w.asks, false, &w.counts);
    }
    sl_lease_cache_close(w.leases);
}

/* Leases `key`, spends `cost` of the four `times` times, and returns it. */
static void use(struct world *w, const char *key, uint64_t cost, unsigned times,
                sl_ns now)
{
    struct sl_lease_end end;

    set_keys(w, key, NULL, 1);
    ask(w, now);
    ask(w, now + SL_S);
    CHECK_EQ(w->asks.words[0].want, 4);
    land(w, 4, SL_S, 1, now + SL_S);
    set_keys(w, key, NULL, cost);
    while (times-- > 0)
        CHECK(spend(w, now + SL_S));
    CHECK(sl_lease_cache_end(w->leases, now + 2 * SL_S, true, &end));
    sl_lease_cache_lost(w->leases, &end.asks, false, &w->counts);
}

/* Is a lease requested by the last of two takes, a second between them? */
static bool is_leased(struct world *w, const char *key, sl_ns now)
{
    set_keys(w, key, NULL, 1);
    ask(w, now);
    sl_lease_cache_lost(w->leases, &w->asks, true, &w->counts);
    ask(w, now + SL_S);
    sl_lease_cache_lost(w->leases, &w->asks, true, &w->counts);
    return w->asks.words[0].want > 0;
}

TEST(useful)
{
    struct world w;
    sl_ns now = T0;

    open_world(&w, "50/s burst 100", 50);
    CASE("as long as half of the leases are worth it, all keys have them");
    for (unsigned i = 0; i < 4 * 256; i++, now += 4 * SL_S)
        use(&w, "k", i % 4 == 1 ? 4 : 1, i % 4 < 2 ? 2 - i % 4 : i % 4 - 2,
            now);
    CHECK(is_leased(&w, "k", now));
    sl_lease_cache_close(w.leases);
}

TEST(wasted)
{
    struct sl_lease_end end;
    struct world w;
    sl_ns now = T0;

    open_world(&w, "50/s burst 100", 50);
    for (unsigned i = 0; i < 255; i++, now += 4 * SL_S)
        use(&w, "k", 1, i < 127 ? 2 : 1, now);
    CHECK(is_leased(&w, "j", now));
    CASE("if most are wasted, keys that come now and then have none");
    use(&w, "k", 1, 0, now);
    now += 2 * SL_S; /* the judgement */
    CHECK(!is_leased(&w, "j", now));
    CASE("a key whose takes follow each other soon has");
    for (unsigned i = 0; i < 3; i++) {
        set_keys(&w, "hot", NULL, 1);
        ask(&w, now + i * 249 * SL_MS);
        CHECK_EQ(w.asks.count, i == 2);
    }
    now += 498 * SL_MS;
    land(&w, 6, SL_S, 1, now);
    CHECK(spend(&w, now) && spend(&w, now));
    CHECK(sl_lease_cache_end(w.leases, now, true, &end));
    sl_lease_cache_lost(w.leases, &end.asks, false, &w.counts);
    CASE("and again at once, because it was good");
    ask(&w, now + SL_S);
    CHECK_EQ(w.asks.count, 1);
    sl_lease_cache_lost(w.leases, &w.asks, true, &w.counts);
    CASE("but not if it comes seldom");
    ask(&w, now + 2 * SL_S);
    CHECK_EQ(w.asks.count, 0);
    CASE("after a while all are tried again; likewise after a clock step");
    now += 30 * SL_S - 498 * SL_MS;
    CHECK(!is_leased(&w, "i", now - SL_S - 1));
    CHECK(is_leased(&w, "h", now - SL_S));
    CHECK(is_leased(&w, "g", T0));
    sl_lease_cache_close(w.leases);
}

/* Is a denial by the first of two limits cached, if the second is of this kind
 * and has this answer? */
static bool caches(enum sl_kind kind, struct sl_answer second)
{
    struct sl_limit limits[2] = {rate_of(SL_BUCKET, "5/s"), {.kind = kind}};
    struct sl_part parts[2] = {
        {.limit = &limits[0],
         .name = SL_STR("a"),
         .answer = {.outcome = SL_DENY, .retry_in = SL_S / 5}      },
        {.limit = &limits[1], .name = SL_STR("b"), .answer = second}
    };
    struct sl_take take = {.op = SL_TAKE_OP_TAKE, .parts = parts, .count = 2};
    struct sl_denial_forgets forgets = {0};
    struct sl_denial_key key = sl_denial_key(&forgets, &take);
    struct sl_denial_cache *denials;
    bool found;

    CHECK_EQ(sl_denial_cache_open(16, &sl_alloc_libc, &denials), 0);
    sl_denial_cache_add(denials, &key, &forgets, &take, T0, T0);
    found = sl_denial_cache_find(denials, &key, &take, T0 + 1);
    sl_denial_cache_close(denials);
    return found;
}

TEST(denials)
{
    const struct sl_answer pass = {.outcome = SL_ALLOW},
                           block = {.outcome = SL_DENY, .retry_in = SL_S};

    CASE("a denial is cached");
    CHECK(caches(SL_BUCKET, pass));
    CASE("not if a penalty must count it");
    CHECK(!caches(SL_PENALTY, pass));
    CASE("unless it blocks already");
    CHECK(caches(SL_PENALTY, block));
}

TEST(memory)
{
    unsigned n = 1;

    CASE("without memory nothing is leased");
    for (bool failed = true; failed && n < 20; n++) {
        struct fail fail = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&fail);
        struct world w;

        open_world(&w, "50/s burst 100", 50);
        sl_lease_cache_close(w.leases);
        if (sl_lease_cache_open(64, sl_script_keep, false, &alloc, &w.leases) ==
            0) {
            set_keys(&w, "k", NULL, 1);
            ask(&w, T0);
            ask(&w, T0);
            CHECK(w.asks.count == 1 || fail.calls >= n);
            sl_lease_cache_lost(w.leases, &w.asks, true, &w.counts);
            sl_lease_cache_close(w.leases);
        }
        failed = fail.calls >= n;
        fail_check(&fail);
    }
    CHECK(n > 2);
}

CHECK_MAIN()
