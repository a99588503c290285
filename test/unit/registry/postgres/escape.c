/* escape.c -- any bytes as a text of PostgreSQL, and back. */
#include "registry/pg.h"

#include <string.h>

#include "check.h"
#include "wire/pb.h"

#define S(text) ((struct sl_str){(text), sizeof(text) - 1})

static struct sl_arena arena;

static struct sl_str there(struct sl_str text, bool is_id)
{
    struct sl_str out = {"?", 1};

    CHECK(sl_pg_escape(&arena, text, is_id, &out));
    return out;
}

static struct sl_str back(struct sl_str text)
{
    struct sl_str out = {"?", 1};

    CHECK(sl_pg_unescape(&arena, text, &out));
    return out;
}

TEST(table)
{
    static const struct {
        const char *why;
        struct sl_str text, want;
    } rows[] = {
        {"nothing stays nothing",   {"", 0},      {"", 0}     },
        {"what is clean stays",     {"ann@x", 5}, {"ann@x", 5}},
        {"also beyond ASCII",
         {"\xc3\xa9\xe2\x82\xac", 5},
         {"\xc3\xa9\xe2\x82\xac", 5}                          },
        {"NUL",
         {"a\0b", 3},
         {"a\x1b"
          "00b",
          5}                                                  },
        {"the escape itself",
         {"\x1b", 1},
         {"\x1b"
          "1b",
          3}                                                  },
        {"a byte that is no UTF-8",
         {"\xff"
          "a",
          2},
         {"\x1b"
          "ffa",
          4}                                                  },
        {"half a character",
         {"\xe2\x82", 2},
         {"\x1b"
          "e2\x1b"
          "82",
          6}                                                  },
        {"a surrogate",
         {"\xed\xa0\x80", 3},
         {"\x1b"
          "ed\x1b"
          "a0\x1b"
          "80",
          9}                                                  },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK(sl_str_eq(there(rows[i].text, false), rows[i].want));
        CHECK(sl_str_eq(back(rows[i].want), rows[i].text));
    }
}

TEST(long)
{
    char text[SL_PG_ID + 1];
    struct sl_str a = {text, sizeof(text)}, short_a, short_b;

    CASE("an id that no index holds is known by its digest");
    memset(text, 'x', sizeof(text));
    a.len--;
    CHECK_EQ(there(a, true).len, SL_PG_ID);
    a.len++;
    CHECK_EQ(there(a, false).len, SL_PG_ID + 1);
    short_a = there(a, true);
    CHECK_EQ(short_a.len, 66);
    text[700] = 'y';
    short_b = there(a, true);
    CHECK(!sl_str_eq(short_a, short_b));
    CASE("and so is one that grows too long");
    memset(text, '\xff', sizeof(text));
    a.len = SL_PG_ID / 3 + 1;
    CHECK_EQ(there(a, true).len, 66);
    CASE("it is no escape");
    CHECK_EQ(back(short_a).len, 66);
}

static size_t draw(uint64_t *seed, size_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(*seed >> 33) % below;
}

/* Whatever comes, (1) can be stored, and (3) is read back. */
TEST(any)
{
    uint64_t seed = 15;
    char text[40];

    CASE("(1) (3) any bytes");
    for (int i = 0; i < 20000; i++) {
        struct sl_str in = {text, draw(&seed, sizeof(text))};
        struct sl_str out;

        for (size_t k = 0; k < in.len; k++)
            text[k] = (char)("a\0\x1b\xc3\xa9\xff\xe2\x82\xac"
                             "f0"[draw(&seed, 11)]);
        sl_arena_reset(&arena);
        out = there(in, false);
        if (!sl_pb_is_utf8(out) || memchr(out.at, 0, out.len) ||
            !sl_str_eq(back(out), in)) {
            CHECK(false);
            return;
        }
    }
    CHECK(true);
}

TEST(memory)
{
    struct sl_arena small;
    struct sl_str out = {"", 0};

    CASE("without memory it fails");
    sl_arena_init(&small, 1, &sl_alloc_libc);
    CHECK(!sl_pg_escape(&small, S("\xff"), false, &out));
    CHECK(!sl_pg_unescape(&small,
                          S("\x1b"
                            "ff"),
                          &out));
    CHECK(sl_pg_escape(&small, S("clean"), true, &out));
    sl_arena_done(&small);
}

int main(void)
{
    sl_arena_init(&arena, (size_t)1 << 20, &sl_alloc_libc);
    RUN_TESTS();
    sl_arena_done(&arena);
    return CHECK_DONE();
}
