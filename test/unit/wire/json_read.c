/* json_read.c -- JSON read a piece at a time; jansson is asked as well. */
#include "wire/json.h"

#include <jansson.h>
#include <stdlib.h>

#include "check.h"
#include "fail.h"

static struct sl_arena arena;

static struct sl_json_reader reader_of(struct sl_str text)
{
    struct sl_json_reader r;

    sl_arena_reset(&arena);
    sl_json_begin(&r, text, &arena);
    return r;
}

/* ---- strings ---- */

static bool ours(struct sl_str text, struct sl_str *ret)
{
    struct sl_json_reader r = reader_of(text);

    return sl_json_text(&r, ret) && sl_json_end(&r);
}

/* Both read the string alike, or both refuse it. */
static bool agree(struct sl_str text)
{
    json_t *other = json_loadb(text.at, text.len, JSON_DECODE_ANY, NULL);
    struct sl_str got = {NULL, 0};
    bool read = ours(text, &got);
    bool same = read == json_is_string(other);

    if (same && read)
        same = sl_str_eq(got, (struct sl_str){json_string_value(other),
                                              json_string_length(other)});
    json_decref(other);
    return same;
}

static const char *const strings[] = {
    "\"\"",
    "\"plain\"",
    " \t\r\n\"blanks\" \n",
    "\"a\\\"b\\\\c\\/d\\be\\ff\\ng\\rh\\ti\"",
    "\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"",
    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud800x\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud800\\u0041\"",
    "\"\\ud800\\ud800\"",
    "\"\\u12g4\"",
    "\"\\u123\"",
    "\"\\x\"",
    "\"\\\"",
    "\"open",
    "\"tab\there\"",
    "\"\x7f\"",
    "\"\xc0\x80\"",
    "\"\xed\xa0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xf4\x8f\xbf\xbf\"",
    "\"\xe0\x9f\xbf\"",
    "\"\xe0\xa0\x80\"",
    "\"\xf0\x8f\xbf\xbf\"",
    "\"\xf0\x90\x80\x80\"",
    "\"\xff\"",
    "\"\xc3\"",
    "\"\xe2\x82\"",
    "\"a\" b",
    "'a'",
    "",
    "\"end\\",
    "\"end\\u",
    "\"\\u00e9 then \xc3\xa9 then \\n\"",
};

TEST(strings)
{
    struct sl_str got;

    CASE("strings are read as jansson reads them");
    for (size_t i = 0; i < SL_LEN(strings); i++)
        if (!CHECK(agree(sl_str_c(strings[i]))))
            printf("# %s\n", strings[i]);
    CHECK(agree(SL_STR("\"a\0b\"")));
    CASE("and those without escapes are not copied");
    CHECK(ours(sl_str_c(strings[1]), &got));
    CHECK(got.at == strings[1] + 1);
}

/* Every sequence of up to three bytes from a set that has the edges. */
TEST(all_short)
{
    static const char set[] = "\"\\u0dD8a/\x1f\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1"
                              "\xc2\xe0\xed\xef\xf0\xf4\xf5\n";
    size_t n = sizeof(set), bad = 0;
    char text[] = "\"...\"";

    CASE("all short strings of the bytes that matter");
    for (size_t i = 0; i < n * n * n; i++) {
        text[1] = set[i % n];
        text[2] = set[i / n % n];
        text[3] = set[i / n / n];
        bad += !agree((struct sl_str){text, 5});
    }
    CHECK_EQ(bad, 0);
}

/* ---- numbers ---- */

static const struct {
    const char *text;
    bool good;
    uint64_t want;
} numbers[] = {
    {"0",                       true,  0               },
    {"7",                       true,  7               },
    {" 12 ",                    true,  12              },
    {"9007199254740991",        true,  9007199254740991},
    {"9007199254740992",        false, 0               },
    {"99999999999999999999999", false, 0               },
    {"-1",                      false, 0               },
    {"-0",                      false, 0               },
    {"-",                       false, 0               },
    {"01",                      false, 0               },
    {"00",                      false, 0               },
    {"1.0",                     false, 0               },
    {"1e1",                     false, 0               },
    {"1E1",                     false, 0               },
    {"+1",                      false, 0               },
    {"\"1\"",                   false, 0               },
    {"1 2",                     false, 0               },
    {"1x",                      false, 0               },
};

TEST(numbers)
{
    CASE("whole numbers and nothing else");
    for (size_t i = 0; i < SL_LEN(numbers); i++) {
        struct sl_json_reader r = reader_of(sl_str_c(numbers[i].text));
        uint64_t got = 0;
        bool good = sl_json_whole(&r, &got) && sl_json_end(&r);

        if (!CHECK(good == numbers[i].good) ||
            (good && !CHECK_EQ(got, numbers[i].want)))
            printf("# %s\n", numbers[i].text);
    }
}

/* ---- brackets ---- */

/* The names of an object's members, each followed by its kind. */
static const char *walk(const char *text)
{
    static char out[128];
    struct sl_json_reader r = reader_of(sl_str_c(text));
    struct sl_str name, value;
    size_t len = 0;
    uint64_t n;

    out[0] = '\0';
    if (!sl_json_enter(&r, '{'))
        return "no object";
    while (sl_json_member(&r, &name)) {
        len += (size_t)snprintf(out + len, sizeof(out) - len, "%.*s=%s;",
                                SL_STR_ARG(name),
                                sl_json_kind_name(sl_json_peek(&r)));
        if (sl_json_null(&r) || sl_json_text(&r, &value) ||
            sl_json_whole(&r, &n))
            continue;
        if (!sl_json_enter(&r, '['))
            break;
        while (sl_json_item(&r))
            if (!sl_json_whole(&r, &n))
                break;
    }
    if (r.why || !sl_json_end(&r))
        return r.why;
    return out;
}

TEST(brackets)
{
    CASE("objects and arrays");
    CHECK_STR(walk("{}"), "");
    CHECK_STR(walk(" { } "), "");
    CHECK_STR(walk("{\"a\":1,\"b\":\"x\" , \"c\" : null}"),
              "a=a number;b=a string;c=null;");
    CHECK_STR(walk("{\"a\":[],\"b\":[1,2 , 3],\"\":0}"),
              "a=an array;b=an array;=a number;");
    CASE("and what is broken");
    CHECK_STR(walk("["), "no object");
    CHECK_STR(walk("{"),
              "the name of a member in double quotes is expected here");
    CHECK_STR(walk("{,}"),
              "the name of a member in double quotes is expected here");
    CHECK_STR(walk("{\"a\"}"),
              "a colon is expected after the name of a member");
    CHECK_STR(walk("{\"a\":}"), "a value is expected here");
    CHECK_STR(walk("{\"a\":1,}"),
              "the name of a member in double quotes is expected here");
    CHECK_STR(walk("{\"a\":1 \"b\":2}"),
              "a comma or a closing brace is expected here");
    CHECK_STR(walk("{\"a\":[1,]}"), "a value is expected here");
    CHECK_STR(walk("{\"a\":[1 2]}"),
              "a comma or a closing bracket is expected here");
    CHECK_STR(walk("{\"a\":nil}"), "a value is expected here");
    CHECK_STR(walk("{\"a\":nul"), "a value is expected here");
    CHECK_STR(walk("{} {}"), "there is something after the value");
    CHECK_STR(walk("{1:2}"),
              "the name of a member in double quotes is expected here");
}

TEST(memory)
{
    struct fail fail = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_arena poor;
    struct sl_json_reader r;
    struct sl_str got;

    CASE("without memory it says so");
    sl_arena_init(&poor, 1 << 20, &alloc);
    sl_json_begin(&r, SL_STR("\"a\\n\""), &poor);
    CHECK(!sl_json_text(&r, &got));
    CHECK(r.no_memory);
    CHECK_STR(r.why, "out of memory");
    sl_arena_done(&poor);
    fail_check(&fail);
}

int main(void)
{
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    RUN_TESTS();
    sl_arena_done(&arena);
    return CHECK_DONE();
}
