/* digits.c -- numbers as text, against printf. */
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

#include "check.h"

static bool is_right(uint64_t n)
{
    char want[32], out[SL_DIGITS + 1];
    int len = snprintf(want, sizeof(want), "%" PRIu64, n);

    memset(out, '?', sizeof(out));
    return sl_digits(n, out) == (size_t)len &&
           memcmp(out, want, (size_t)len) == 0 && out[SL_DIGITS] == '?';
}

TEST(all)
{
    uint64_t power = 1, random = 1;
    unsigned wrong = 0;

    CASE("as printf writes them: small ones");
    for (uint64_t n = 0; n < 200000; n++)
        wrong += !is_right(n);
    CHECK_EQ(wrong, 0);

    CASE("around each power of ten, and the largest");
    for (int i = 0; i < 19; i++, power *= 10)
        for (uint64_t n = power - 1; n != power + 2; n++)
            CHECK(is_right(n));
    CHECK(is_right(power) && is_right(power - 1) && is_right(UINT64_MAX));

    CASE("of every length");
    for (unsigned i = 0; i < 200000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        wrong += !is_right(random >> i % 64);
    }
    CHECK_EQ(wrong, 0);
}

TEST(padded)
{
    char out[8] = "???????";

    CASE("the last digits, with zeros before them");
    CHECK(sl_digits_padded(7, 3, out) == out + 3);
    CHECK(memcmp(out, "007?", 4) == 0);
    CHECK(sl_digits_padded(12345, 2, out) == out + 2);
    CHECK(memcmp(out, "457?", 4) == 0);
}

CHECK_MAIN()
