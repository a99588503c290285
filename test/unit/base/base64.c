/* base64.c -- one text for each string of bytes. */
#include "base/str.h"

#include "check.h"

static const struct {
    const char *bytes, *text; /* RFC 4648, section 10, and the last letters */
} good[] = {
    {"",             ""        },
    {"f",            "Zg=="    },
    {"fo",           "Zm8="    },
    {"foo",          "Zm9v"    },
    {"foob",         "Zm9vYg=="},
    {"fooba",        "Zm9vYmE="},
    {"foobar",       "Zm9vYmFy"},
    {"\xfb\xff\xbf", "+/+/"    },
};

static const char *const bad[] = {
    "Z",     "Zg",    "Zg=",     "Zh==",      "Zm9=", "====",
    "Z===",  "Zg==a", "Zm9v\n",  " Zm9v",     "Zm-_", "Zm9vYg==Zm9v",
    "=Zm9v", "Zg=a",  "Zm9\x80", "Zm9vYg= =",
};

/* Its tails are tried one by one in test/unit/identity. */
static void test_url(void)
{
    static const char *const no_url[] = {"A", "AAAAA", "Zg==", "Zh", "+/+/"};
    uint8_t bytes[16];
    size_t len = 99;

    CASE("base64url has no padding, and other last letters");
    for (size_t i = 0; i < SL_LEN(no_url); i++)
        CHECK(!sl_base64url_decode(sl_str_c(no_url[i]), bytes, &len));
    CHECK_EQ(len, 99);
    CHECK(sl_base64url_decode(SL_STR("-_-_Zg"), bytes, &len));
    CHECK(len == 4 && memcmp(bytes,
                             "\xfb\xff\xbf"
                             "f",
                             4) == 0);
}

int main(void)
{
    CASE("there and back");
    for (size_t i = 0; i < SL_LEN(good); i++) {
        uint8_t bytes[16];
        char text[16] = "";
        size_t len = 99;

        CHECK(sl_base64_decode(sl_str_c(good[i].text), bytes, &len));
        CHECK_EQ(len, strlen(good[i].bytes));
        CHECK(memcmp(bytes, good[i].bytes, len) == 0);
        sl_base64_encode(sl_str_c(good[i].bytes), text);
        CHECK_STR(text, good[i].text);
        CHECK_EQ(strlen(text), SL_BASE64_LETTERS(strlen(good[i].bytes)));
    }
    CASE("and nothing else is base64");
    for (size_t i = 0; i < SL_LEN(bad); i++) {
        uint8_t bytes[16];
        size_t len = 99;

        if (!CHECK(!sl_base64_decode(sl_str_c(bad[i]), bytes, &len)))
            printf("# %s\n", bad[i]);
        CHECK_EQ(len, 99);
    }
    test_url();
    return CHECK_DONE();
}
