/* base64url.c -- each text of base64url stands for one string of bytes, and
 * each string of bytes has one text: the tails exhaustively. */
#include "made.h"

#include "identity/jwk.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789-_";

/* Is `text` read, and does it come out the same when written again? */
static bool is_read(const char *text, size_t len)
{
    uint8_t bytes[64];
    char again[64];
    size_t got = 99;

    if (!sl_base64url_decode((struct sl_str){text, len}, bytes, &got)) {
        CHECK_EQ(got, 99);
        return false;
    }
    made_base64(again, bytes, got);
    CHECK(strlen(again) == len && memcmp(again, text, len) == 0);
    return true;
}

TEST(tails)
{
    unsigned two = 0, three = 0, four = 0;
    char text[4];

    CASE("tails of two and three letters: one spelling for each");
    for (unsigned i = 0; i < 64 * 64 * 64; i++) {
        text[0] = letters[i / 4096];
        text[1] = letters[i / 64 % 64];
        text[2] = letters[i % 64];
        three += is_read(text, 3);
        if (i % 64 == 0)
            two += is_read(text, 2);
    }
    CHECK_EQ(two, 256);
    CHECK_EQ(three, 256 * 256);

    CASE("a letter alone stands for nothing");
    for (unsigned i = 0; i < 64; i++) {
        memcpy(text, "AAA", 3);
        CHECK(!is_read(&letters[i], 1));
        text[3] = letters[i];
        four += is_read(text, 4);
    }
    CHECK_EQ(four, 64);
}

TEST(letters)
{
    unsigned taken = 0;

    CASE("of 256 bytes 64 are letters, in every place");
    for (unsigned at = 0; at < 8; at++)
        for (unsigned c = 0; c < 256; c++) {
            char text[8] = "AAAAAAAA";

            text[at] = (char)c;
            taken += is_read(text, 8);
        }
    CHECK_EQ(taken, 8 * 64);
}

TEST(rows)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"",          true },
        {"Zg",        true },
        {"Zg==",      false},
        {"Zm8",       true },
        {"Zm8=",      false},
        {"Zm9v",      true },
        {"Zm9vYg",    true },
        {" Zm9v",     false},
        {"Zm9v\n",    false},
        {"Zm9v YmFy", false},
        {"Zm9v.mFy",  false},
        {"+/+/",      false},
        {"-_-_",      true },
        {"Zh",        false},
        {"Zm9",       false},
        {"A",         false},
        {"AAAAA",     false},
    };

    CASE("padding, blanks, other alphabets, bits left over");
    for (size_t i = 0; i < SL_LEN(rows); i++)
        CHECK_EQ(is_read(rows[i].text, strlen(rows[i].text)), rows[i].good);
}

TEST(copy)
{
    struct sl_arena arena;
    struct sl_str got = {"untouched", 9};

    CASE("into an arena");
    sl_arena_init(&arena, 128, &sl_alloc_libc);
    CHECK_EQ(sl_base64url_copy(SL_STR("Zm9vYmFy"), &arena, &got), 0);
    CHECK(sl_str_eq(got, SL_STR("foobar")));
    CHECK_EQ(sl_base64url_copy(SL_STR("Zm9vYmF"), &arena, &got), SLUICE_ECONF);
    CHECK(sl_str_eq(got, SL_STR("foobar")));
    sl_arena_done(&arena);
    sl_arena_init(&arena, 1, &sl_alloc_libc);
    CHECK_EQ(sl_base64url_copy(SL_STR("Zm9v"), &arena, &got), SLUICE_ENOMEM);
    sl_arena_done(&arena);
}

CHECK_MAIN()
