/* arena.c -- memory that dies together: alignment, ceilings, failures. */
#include "base/arena.h"

#include "check.h"
#include "fail.h"
#include "row.h"

#define KB ((size_t)1024)

static bool is_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

TEST(take)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_arena arena;
    char *a, *b, *c;

    sl_arena_init(&arena, 64 * KB, &alloc);
    CASE("a new arena holds nothing");
    CHECK_EQ(arena.held, 0);
    CHECK_EQ(f.calls, 0);
    sl_arena_check(&arena);

    CASE("what it hands out is aligned and apart");
    a = sl_arena_take(&arena, 1);
    b = sl_arena_take(&arena, 17);
    c = sl_arena_take(&arena, 16);
    CHECK(a && b && c);
    CHECK(is_aligned(a) && is_aligned(b) && is_aligned(c));
    CHECK_EQ(b - a, 16);
    CHECK_EQ(c - b, 32);
    memset(a, 1, 1);
    memset(b, 2, 17);
    memset(c, 3, 16);
    CHECK_EQ(a[0], 1);
    CHECK_EQ(b[16], 2);
    sl_arena_check(&arena);

    CASE("small things share a block");
    CHECK_EQ(f.calls, 1);

    CASE("nothing is something that differs from the next");
    a = sl_arena_take(&arena, 0);
    CHECK(a && is_aligned(a));
    CHECK(a != sl_arena_take(&arena, 0));

    CASE("done gives all back, and the arena may be used again");
    sl_arena_done(&arena);
    fail_check(&f);
    CHECK_EQ(arena.held, 0);
    CHECK(sl_arena_take(&arena, 8) != NULL);
    sl_arena_done(&arena);
    fail_check(&f);
}

TEST(blocks)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_arena arena;
    size_t first;
    char *big;

    sl_arena_init(&arena, 1024 * KB, &alloc);
    CASE("many small things cost few calls");
    for (unsigned i = 0; i < 4000; i++)
        CHECK(sl_arena_take(&arena, 100) != NULL);
    CHECK(f.calls <= 9);
    CHECK_EQ(arena.held, f.bytes);
    sl_arena_check(&arena);

    CASE("a thing larger than a block gets a block of its own size");
    big = sl_arena_take(&arena, 300 * KB);
    CHECK(big != NULL);
    memset(big, 7, 300 * KB);
    sl_arena_check(&arena);

    CASE("a reset keeps one block, and that costs no call");
    sl_arena_reset(&arena);
    CHECK_EQ(f.pieces, 1);
    CHECK_EQ(arena.held, f.bytes);
    first = arena.held;
    CHECK_EQ(first, 4 * KB);
    f.calls = 0;
    CHECK(sl_arena_take(&arena, 3 * KB) != NULL);
    CHECK_EQ(f.calls, 0);
    sl_arena_check(&arena);

    CASE("a block is used to its last byte");
    sl_arena_reset(&arena);
    CHECK(sl_arena_take(&arena, 2032) != NULL);
    CHECK(sl_arena_take(&arena, 2032) != NULL);
    CHECK_EQ(f.calls, 0);
    CHECK(sl_arena_take(&arena, 1) != NULL);
    CHECK_EQ(f.calls, 1);
    sl_arena_check(&arena);

    CASE("resetting twice, and when empty, is harmless");
    sl_arena_reset(&arena);
    sl_arena_reset(&arena);
    sl_arena_check(&arena);
    sl_arena_done(&arena);
    sl_arena_reset(&arena);
    CHECK_EQ(arena.held, 0);
    fail_check(&f);
}

TEST(ceiling)
{
    static const struct {
        const char *why;
        size_t ceiling, size;
        bool fits;
    } rows[] = {
        ROW("an empty arena has room for a header and more", 1000, 960, true),
        ROW("not for the ceiling itself", 1000, 1000, false),
        ROW("not beyond it", 1000, 1001, false),
        ROW("rounding up counts", 1000, 961, false),
        ROW("a ceiling too small for any block", 16, 1, false),
        ROW("sizes at the end of all numbers", 1000, SIZE_MAX, false),
        ROW("with a ceiling there too", SIZE_MAX, SIZE_MAX - 20, false),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct fail f = {0};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_arena arena;

        CASE(rows[i].why);
        sl_arena_init(&arena, rows[i].ceiling, &alloc);
        CHECK_EQ(sl_arena_take(&arena, rows[i].size) != NULL, rows[i].fits);
        sl_arena_check(&arena);
        sl_arena_done(&arena);
        fail_check(&f);
    }
}

TEST(fill)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_arena arena;
    size_t got = 0;

    CASE("a full arena refuses, keeps what it has, and is not over");
    sl_arena_init(&arena, 50 * KB, &alloc);
    while (sl_arena_take(&arena, 1000))
        got += 1000;
    CHECK(got >= 45 * KB && got <= 50 * KB);
    CHECK(arena.held <= 50 * KB);
    CHECK(sl_arena_take(&arena, 1000) == NULL);
    sl_arena_check(&arena);
    sl_arena_reset(&arena);
    CHECK(sl_arena_take(&arena, 1000) != NULL);
    sl_arena_done(&arena);
    fail_check(&f);
}

TEST(copy)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_arena arena;
    char *copy;

    sl_arena_init(&arena, 8 * KB, &alloc);
    CASE("a copy ends in NUL");
    copy = sl_arena_copy(&arena, (struct sl_str){"abcdef", 3});
    CHECK_STR(copy, "abc");

    CASE("a copy of nothing is the empty string");
    CHECK_STR(sl_arena_copy(&arena, (struct sl_str){NULL, 0}), "");

    CASE("no copy beyond the ceiling, however far");
    CHECK(!sl_arena_copy(&arena, (struct sl_str){"", 9 * KB}));
    CHECK(!sl_arena_copy(&arena, (struct sl_str){"", SIZE_MAX}));
    sl_arena_done(&arena);
    fail_check(&f);
}

/* A small life of an arena; false if memory ran out. */
static bool live(struct sl_arena *arena)
{
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 40; i++) {
            char *p = sl_arena_copy(arena, SL_STR("some bytes to be kept"));

            sl_arena_check(arena);
            if (!p || !sl_arena_take(arena, 500))
                return false;
            CHECK_STR(p, "some bytes to be kept");
        }
        sl_arena_reset(arena);
    }
    return true;
}

TEST(failures)
{
    bool lived = false;
    unsigned n;

    CASE("with the nth allocation failing: NULL, no leak, still usable");
    for (n = 1; !lived; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_arena arena;

        sl_arena_init(&arena, 64 * KB, &alloc);
        lived = live(&arena);
        sl_arena_check(&arena);
        CHECK(lived || sl_arena_take(&arena, 500));
        sl_arena_done(&arena);
        fail_check(&f);
    }
    CHECK(n > 4);
}

CHECK_MAIN()
