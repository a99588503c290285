/* map.c -- the hash map: finding, eviction, expiry, and its invariants after
 * random operations. */
#include "base/map.h"

#include "base/hash.h"
#include "check.h"
#include "fail.h"

struct item {
    struct sl_map_entry entry; /* first */
    unsigned key;
};

static unsigned live; /* items allocated and not freed */

static bool equals(const struct sl_map_entry *entry, const void *key)
{
    return ((const struct item *)entry)->key == *(const unsigned *)key;
}

static void free_item(void *ctx, struct sl_map_entry *entry)
{
    struct item *item = (struct item *)entry;

    live--;
    sl_alloc_free(ctx, item, sizeof(*item));
}

static void start(struct sl_map *map, unsigned most, size_t bytes)
{
    struct sl_map_options options = {.most = most,
                                     .most_bytes = bytes,
                                     .equals = equals,
                                     .free = free_item,
                                     .ctx = (void *)&sl_alloc_libc,
                                     .alloc = &sl_alloc_libc};

    CHECK_EQ(sl_map_init(map, &options), 0);
}

/* Only four hashes, so that chains hold several entries. */
static void put(struct sl_map *map, unsigned key, size_t size, sl_ns expires)
{
    struct item *item = sl_alloc_new(&sl_alloc_libc, sizeof(*item));

    CHECK(item);
    *item = (struct item){
        {.hash = key % 4, .size = size, .expires = expires},
        key
    };
    live++;
    sl_map_add(map, &item->entry);
    sl_map_check(map);
}

static bool has(struct sl_map *map, unsigned key, sl_ns now)
{
    struct sl_map_entry *found = sl_map_find(map, key % 4, &key, now);

    sl_map_check(map);
    CHECK(!found || ((struct item *)found)->key == key);
    return found != NULL;
}

TEST(count)
{
    struct sl_map map;

    CASE("the least recently used entry is evicted");
    start(&map, 3, 0);
    for (unsigned i = 0; i < 3; i++)
        put(&map, i, 1, SL_NS_MAX);
    CHECK(has(&map, 0, 0)); /* 1 is now the least recently used */
    put(&map, 3, 1, SL_NS_MAX);
    CHECK(has(&map, 0, 0) && !has(&map, 1, 0) && has(&map, 2, 0));
    CHECK(has(&map, 3, 0));
    CHECK_EQ(map.count, 3);
    sl_map_clear(&map);
    sl_map_check(&map);
    CHECK_EQ(map.count, 0);
    CHECK_EQ(live, 0);
    sl_map_done(&map);
    sl_map_done(&map);
}

TEST(bytes)
{
    struct sl_map map;

    CASE("bytes are limited, too");
    start(&map, 8, 100);
    put(&map, 0, 50, SL_NS_MAX);
    put(&map, 1, 50, SL_NS_MAX);
    CHECK(has(&map, 0, 0) && has(&map, 1, 0)); /* exactly full */
    put(&map, 2, 1, SL_NS_MAX);
    CHECK(!has(&map, 0, 0) && has(&map, 1, 0) && has(&map, 2, 0));
    put(&map, 3, 1000, SL_NS_MAX); /* too large: it stays, alone */
    CHECK_EQ(map.count, 1);
    CHECK(has(&map, 3, 0));
    put(&map, 4, 1, SL_NS_MAX);
    CHECK_EQ(map.count, 1);
    sl_map_done(&map);
    CHECK_EQ(live, 0);
}

TEST(expiry)
{
    struct sl_map map;

    CASE("an entry expires at its time, and is removed then");
    start(&map, 4, 0);
    put(&map, 0, 1, 10);
    CHECK(has(&map, 0, 9));
    CHECK(!has(&map, 0, 10));
    CHECK_EQ(map.count, 0);
    CHECK(!has(&map, 0, 9)); /* removed */
    sl_map_done(&map);
}

TEST(no_memory)
{
    struct fail f = {.nth = 1};
    struct sl_alloc none = fail_alloc(&f);
    struct sl_map_options options = {.most = 4, .alloc = &none};
    struct sl_map map;

    CASE("no memory for the chains");
    CHECK_EQ(sl_map_init(&map, &options), SLUICE_ENOMEM);
    sl_map_done(&map);
    fail_check(&f);
}

/* Any history keeps the invariants; what is found was added and has not
 * expired; the entry added last is always there. */
TEST(random)
{
    struct sl_jitter random = {
        .key = {1, 2}
    };
    sl_ns expires[32] = {0};
    struct sl_map map;

    CASE("random operations keep the invariants");
    start(&map, 8, 40);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned key = (unsigned)(sl_jitter_next(&random) % 32);
        unsigned what = (unsigned)(sl_jitter_next(&random) % 8);
        sl_ns now = i;

        if (what == 0) {
            struct sl_map_entry *e = sl_map_find(&map, key % 4, &key, now);

            if (e)
                sl_map_remove(&map, e);
            CHECK(!has(&map, key, now));
        } else if (has(&map, key, now)) {
            CHECK(now < expires[key]);
        } else if (what > 2) {
            expires[key] = now + 1 + (sl_ns)(sl_jitter_next(&random) % 50);
            put(&map, key, sl_jitter_next(&random) % 12, expires[key]);
            CHECK(has(&map, key, now));
        }
        CHECK_EQ(live, map.count);
    }
    sl_map_done(&map);
    CHECK_EQ(live, 0);
}

CHECK_MAIN()
