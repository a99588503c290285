/* sixteen.c -- sixteen bytes at once, against one after the other. */
#include "base/sixteen.h"

#include <stdlib.h>

#include "check.h"

/* The text ends where its memory does: reading on is seen by the sanitizer. */
TEST(load_few)
{
    char *text = malloc(15), want[16], got[16];
    unsigned wrong = 0;

    CASE("the bytes in their order, and NULs behind them");
    for (size_t i = 0; i < 15; i++)
        text[i] = (char)(0x81 + i);
    for (size_t len = 0; len < 16; len++) {
        memset(want, 0, sizeof(want));
        memcpy(want, text + 15 - len, len);
        sl_sixteen_store(sl_sixteen_load_few(text + 15 - len, len), got);
        wrong += memcmp(want, got, sizeof(got)) != 0;
    }
    CHECK_EQ(wrong, 0);
    free(text);
}

TEST(first)
{
    unsigned wrong = 0;

    CASE("the first byte that a comparison marks");
    for (unsigned bits = 0; bits < 1u << 16; bits++) {
        size_t want = bits ? (size_t)__builtin_ctz(bits) : 16;
        sl_sixteen v = {0};

        for (unsigned i = 0; i < 16; i++)
            if (bits >> i & 1)
                v[i] = 0xff;
        wrong += sl_sixteen_first(v) != want;
        wrong += sl_sixteen_first_portable(v) != want;
    }
    CHECK_EQ(wrong, 0);
}

TEST(put)
{
    char from[40], to[40];
    unsigned wrong = 0;

    CASE("sl_str_put() copies texts of all lengths");
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (char)('0' + i);
    for (size_t len = 0; len < sizeof(from); len++) {
        memset(to, 'x', sizeof(to));
        wrong += sl_str_put(to, (struct sl_str){from, len}) != to + len;
        wrong += memcmp(from, to, len) != 0 || to[len] != 'x';
    }
    CHECK_EQ(wrong, 0);
}

CHECK_MAIN()
