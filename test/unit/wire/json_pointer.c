/* json_pointer.c -- values by a JSON pointer (RFC 6901). */
#include "wire/json.h"

#include <stdio.h>

#include "check.h"

static const struct {
    const char *pointer;
    bool ok;
} pointers[] = {
    {"/id",                true },
    {"/",                  true },
    {"/a~0b/c~1d",         true },
    {"/a/0/b",             true },
    {"/1/2/3/4/5/6/7/8",   true },
    {"/1/2/3/4/5/6/7/8/9", false},
    {"",                   false},
    {"id",                 false},
    {"#/id",               false},
    {"/a~2",               false},
    {"/a~",                false},
    {"/a\n",               false},
};

/* Instead of a value. */
static const char NOTHING[] = "nothing", WRONG[] = "wrong";

/* clang-format off */
static const struct {
    const char *text, *pointer, *value;
} finds[] = {
    {"{\"id\":\"evt_1\"}", "/id", "evt_1"},
    {" { \"a\" : [ ] , \"id\" : \"x\" } ", "/id", "x"},
    {"{\"id\":17}", "/id", "17"},
    {"{\"id\":-3}", "/id", "-3"},
    {"{\"id\":1.5}", "/id", WRONG},
    {"{\"id\":1e3}", "/id", WRONG},
    {"{\"id\":null}", "/id", WRONG},
    {"{\"id\":true}", "/id", WRONG},
    {"{\"id\":{}}", "/id", WRONG},
    {"{\"id\":[1]}", "/id", WRONG},
    {"{\"id\":\"\"}", "/id", WRONG},
    {"{}", "/id", NOTHING},
    {"null", "/id", NOTHING},
    {"{\"data\":null}", "/data/id", NOTHING},
    {"{\"no\":1}", "/id", NOTHING},
    {"{\"data\":{\"object\":{\"id\":\"in\"}}}", "/data/object/id", "in"},
    {"{\"data\":{\"id\":1},\"id\":2}", "/data/id", "1"},
    {"{\"data\":7}", "/data/id", NOTHING},
    {"[{\"id\":\"a\"},{\"id\":\"b\"}]", "/1/id", "b"},
    {"[1,2]", "/2", NOTHING},
    {"[1,2]", "/01", NOTHING},
    {"[1,2]", "/-", NOTHING},
    {"{\"a/b\":1,\"m~n\":2,\"\":3}", "/a~1b", "1"},
    {"{\"a/b\":1,\"m~n\":2,\"\":3}", "/m~0n", "2"},
    {"{\"a/b\":1,\"m~n\":2,\"\":3}", "/", "3"},
    {"{\"\\u0069d\":\"\\u00e9\\n\"}", "/id", "\xc3\xa9\n"},
    /* The name twice, in any spelling. */
    {"{\"id\":1,\"id\":1}", "/id", WRONG},
    {"{\"id\":1,\"\\u0069d\":2}", "/id", WRONG},
    {"{\"a\":{\"x\":1,\"x\":2},\"id\":5}", "/id", "5"},
    {"{\"a\":{},\"a\":{}}", "/a/id", WRONG},
    /* Not JSON, wherever that is. */
    {"{\"id\":1", "/id", WRONG},
    {"{\"id\":1}}", "/id", WRONG},
    {"{\"id\":1} 2", "/id", WRONG},
    {"{\"id\":1,\"b\":01}", "/id", WRONG},
    {"{\"id\":1,\"b\":[1,]}", "/id", WRONG},
    {"{\"id\":1,\"b\":-}", "/id", WRONG},
    {"{\"id\":1,\"b\":1.}", "/id", WRONG},
    {"{\"id\":1,\"b\":2e}", "/id", WRONG},
    {"{\"id\":1,\"b\":1.5e+7}", "/id", "1"},
    {"{\"b\":1,}", "/id", WRONG},
    {"", "/id", WRONG},
    {"\"id\"", "/id", NOTHING},
};
/* clang-format on */

static enum sl_json_found expected(const char *value)
{
    return value == NOTHING ? SL_JSON_FIND_NOTHING
           : value == WRONG ? SL_JSON_FIND_WRONG
                            : SL_JSON_FIND_VALUE;
}

int main(void)
{
    static const char deep[] = "{\"id\":1,\"b\":%.*s%.*s}";
    char open[] = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                  "[[[[[[[[",
         close[] =
             "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
             "]]]]]]]]",
         text[256];
    struct sl_arena arena;
    struct sl_str value;

    for (size_t i = 0; i < SL_LEN(pointers); i++) {
        CASE(pointers[i].pointer);
        CHECK_EQ(sl_json_pointer_ok(sl_str_c(pointers[i].pointer)),
                 pointers[i].ok);
    }
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(finds); i++) {
        enum sl_json_found found =
            sl_json_find(sl_str_c(finds[i].text), sl_str_c(finds[i].pointer),
                         &arena, &value);

        CASE(finds[i].text);
        CHECK_EQ(found, expected(finds[i].value));
        CHECK(found != SL_JSON_FIND_VALUE ||
              sl_str_eq(value, sl_str_c(finds[i].value)));
    }
    CASE("63 brackets in an object are as deep as may be");
    snprintf(text, sizeof(text), deep, 63, open, 63, close);
    CHECK_EQ(sl_json_find(sl_str_c(text), SL_STR("/id"), &arena, &value),
             SL_JSON_FIND_VALUE);
    snprintf(text, sizeof(text), deep, 64, open, 64, close);
    CHECK_EQ(sl_json_find(sl_str_c(text), SL_STR("/id"), &arena, &value),
             SL_JSON_FIND_WRONG);
    sl_arena_done(&arena);
    return CHECK_DONE();
}
