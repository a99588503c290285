/* json.c -- what becomes of every byte in a string. */
#include "wire/json.h"

#include "check.h"
#include "fail.h"
#include "row.h"
#include "wire/json.c"

#define CEILING 4096

static const struct {
    const char *why, *text, *want;
} rows[] = {
    ROW("nothing", "", ""),
    ROW("letters", "ai-minute", "ai-minute"),
    ROW("quotes", "a\"b", "a\\\"b"),
    ROW("backslashes", "\\", "\\\\"),
    ROW("a slash is nothing special", "a/b", "a/b"),
    ROW("short escapes", "\b\f\n\r\t", "\\b\\f\\n\\r\\t"),
    ROW("other control bytes", "\x01\x1f", "\\u0001\\u001f"),
    ROW("delete", "\x7f", "\\u007f"),
    ROW("two bytes", "\xc3\xa4", "\xc3\xa4"),
    ROW("the first of two bytes", "\xc2\x80", "\xc2\x80"),
    ROW("three bytes", "\xe2\x82\xac", "\xe2\x82\xac"),
    ROW("four bytes", "\xf0\x9f\x92\xa7", "\xf0\x9f\x92\xa7"),
    ROW("the last character", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"),
    ROW("line separator",
        "a\xe2\x80\xa8"
        "b",
        "a\\u2028b"),
    ROW("paragraph separator", "\xe2\x80\xa9", "\\u2029"),
    ROW("their neighbour", "\xe2\x80\xaa", "\xe2\x80\xaa"),
    ROW("a lone second byte", "a\x80z", "a\\ufffdz"),
    ROW("a character that breaks off", "a\xc3", "a\\ufffd"),
    ROW("another", "\xe2\x82", "\\ufffd\\ufffd"),
    ROW("and one in the middle", "\xf0\x9f\x92z", "\\ufffd\\ufffd\\ufffdz"),
    ROW("overlong, two bytes", "\xc0\xaf", "\\ufffd\\ufffd"),
    ROW("overlong, three bytes", "\xe0\x9f\xbf", "\\ufffd\\ufffd\\ufffd"),
    ROW("overlong, four bytes", "\xf0\x8f\xbf\xbf",
        "\\ufffd\\ufffd\\ufffd\\ufffd"),
    ROW("incomplete surrogate pair", "\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"),
    ROW("the last before surrogates", "\xed\x9f\xbf", "\xed\x9f\xbf"),
    ROW("beyond the last character", "\xf4\x90\x80\x80",
        "\\ufffd\\ufffd\\ufffd\\ufffd"),
    ROW("what no character begins with", "\xf5\xff", "\\ufffd\\ufffd"),
};

static const char *held(struct sl_buf *buf)
{
    if (sl_buf_add(buf, (struct sl_str){"", 1}))
        return "(no memory)";
    return buf->bytes;
}

static void strings(void)
{
    struct sl_buf buf;
    char quoted[64];

    sl_buf_init(&buf, CEILING, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        sl_buf_clear(&buf);
        CHECK_EQ(sl_json_inside(&buf, sl_str_c(rows[i].text)), 0);
        CHECK_STR(held(&buf), rows[i].want);
        sl_buf_clear(&buf);
        CHECK_EQ(sl_json_string(&buf, sl_str_c(rows[i].text)), 0);
        snprintf(quoted, sizeof(quoted), "\"%s\"", rows[i].want);
        CHECK_STR(held(&buf), quoted);
    }
    CASE("a NUL is a byte like others");
    sl_buf_clear(&buf);
    CHECK_EQ(sl_json_string(&buf, (struct sl_str){"a\0b", 3}), 0);
    CHECK_STR(held(&buf), "\"a\\u0000b\"");
    sl_buf_done(&buf);
}

/* Each byte at each place of a text, since eight are looked at together. */
static void every_byte(void)
{
    struct sl_buf alone, among;
    char text[24], want[64];

    CASE("a byte is escaped alike wherever it stands");
    sl_buf_init(&alone, CEILING, &sl_alloc_libc);
    sl_buf_init(&among, CEILING, &sl_alloc_libc);
    for (int c = 0; c < 256; c++)
        for (size_t at = 0; at < sizeof(text); at++) {
            memset(text, 'a', sizeof(text));
            text[at] = (char)c;
            sl_buf_clear(&alone);
            sl_buf_clear(&among);
            CHECK_EQ(sl_json_inside(&alone, (struct sl_str){text + at, 1}), 0);
            CHECK_EQ(
                sl_json_string(&among, (struct sl_str){text, sizeof(text)}), 0);
            snprintf(want, sizeof(want), "\"%.*s%.*s%.*s\"", (int)at,
                     "aaaaaaaaaaaaaaaaaaaaaaaa", SL_STR_ARG(sl_buf_str(&alone)),
                     (int)(sizeof(text) - 1 - at), "aaaaaaaaaaaaaaaaaaaaaaaa");
            CHECK_STR(held(&among), want);
        }
    CASE("and is itself only if it is plain");
    for (int c = 0; c < 256; c++) {
        bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';

        text[0] = (char)c;
        sl_buf_clear(&alone);
        CHECK_EQ(sl_json_inside(&alone, (struct sl_str){text, 1}), 0);
        CHECK_EQ(alone.len == 1 && alone.bytes[0] == (char)c, plain);
    }
    sl_buf_done(&alone);
    sl_buf_done(&among);
}

/* The bytes of `text` in quotes, into exactly the room that it may need. */
static void check_room(struct sl_str text, struct sl_buf *want)
{
    char *copy = malloc(text.len + 1), *room = malloc(SL_JSON_ROOM(text.len));
    char *end;

    sl_buf_clear(want);
    CHECK_EQ(sl_buf_add(want, SL_STR("\"")), 0);
    CHECK_EQ(sl_json_inside(want, text), 0);
    CHECK_EQ(sl_buf_add(want, SL_STR("\"")), 0);
    if (copy && room) {
        memcpy(copy, text.at, text.len);
        end = sl_json_put_string(room, (struct sl_str){copy, text.len});
        CHECK_EQ((size_t)(end - room), want->len);
        CHECK(memcmp(room, want->bytes, want->len) == 0);
    }
    free(copy);
    free(room);
}

/* Words of sixteen and eight bytes, and what is left, at each length. */
static void in_room(void)
{
    static const char odd[] = "a\"\\\n\x1f\x7f\x80\xc3\xff";
    struct sl_buf want;
    char text[40];

    CASE("a string in reserved memory is the same at each length");
    sl_buf_init(&want, CEILING, &sl_alloc_libc);
    for (size_t len = 0; len <= sizeof(text); len++)
        for (size_t at = 0; at < len; at++)
            for (size_t c = 0; c < sizeof(odd); c++) {
                memset(text, 'b', sizeof(text));
                text[at] = odd[c];
                check_room((struct sl_str){text, len}, &want);
                memset(text + at, odd[c], sizeof(text) - at);
                check_room((struct sl_str){text, len}, &want);
            }
    check_room(SL_STR(""), &want);
    sl_buf_done(&want);
}

static void numbers(void)
{
    static const struct {
        uint64_t number;
        const char *want;
    } list[] = {
        {0,               "0"               },
        {9,               "9"               },
        {10,              "10"              },
        {1234567890,      "1234567890"      },
        {SL_JSON_MAX - 1, "9007199254740990"},
        {SL_JSON_MAX,     "9007199254740991"},
        {SL_JSON_MAX + 1, "9007199254740991"},
        {UINT64_MAX,      "9007199254740991"},
    };
    struct sl_buf buf;

    CASE("whole numbers, up to what every reader keeps");
    sl_buf_init(&buf, CEILING, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(list); i++) {
        sl_buf_clear(&buf);
        CHECK_EQ(sl_json_number(&buf, list[i].number), 0);
        CHECK_STR(held(&buf), list[i].want);
    }
    sl_buf_done(&buf);
}

/* Whatever the ceiling, there is all of it or nothing. */
static void check_ceilings(struct sl_str text, size_t want)
{
    struct sl_buf buf;
    bool fitted = false;

    for (size_t ceiling = 1; !fitted && ceiling < 64; ceiling++) {
        int err;

        sl_buf_init(&buf, ceiling, &sl_alloc_libc);
        CHECK_EQ(sl_buf_add(&buf, SL_STR("x")), 0);
        err = sl_json_string(&buf, text);
        fitted = err == 0;
        CHECK_EQ(err, fitted ? 0 : SLUICE_EFULL);
        CHECK_EQ(buf.len, fitted ? want : 1);
        if (!fitted)
            CHECK_EQ(sl_json_inside(&buf, text) ? buf.len : 1, 1);
        sl_buf_done(&buf);
    }
    CHECK(fitted);
}

static void ceilings(void)
{
    CASE("beyond the ceiling nothing is written");
    check_ceilings(SL_STR("abc\"def\x01\xff"), 23);
    check_ceilings(SL_STR("abcdefghijkl"), 15);
}

static void no_memory(void)
{
    char text[300];
    bool done = false;

    CASE("without memory nothing is written");
    memset(text, '"', sizeof(text));
    for (unsigned nth = 1; !done && nth < 100; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf buf;
        int err;

        sl_buf_init(&buf, CEILING, &alloc);
        err = sl_json_string(&buf, (struct sl_str){text, sizeof(text)});
        done = err == 0;
        CHECK_EQ(err, done ? 0 : SLUICE_ENOMEM);
        CHECK_EQ(buf.len, done ? 602 : 0);
        sl_buf_done(&buf);
        fail_check(&f);
    }
    CHECK(done);
}

/* Every byte at every place of texts of up to two and a half registers. */
static void runs(void)
{
    char out[32];
    unsigned wrong = 0;

    CASE("plain bytes are passed up to the first that is not");
    for (size_t len = 0; len <= 40; len++)
        for (size_t at = 0; at < len; at++)
            for (int c = 0; c < 256; c++) {
                bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
                char text[40];

                memset(text, 'x', sizeof(text));
                text[at] = (char)c;
                wrong += sl_json_run(text, len) != (plain ? len : at);
            }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(sl_json_run("ab\"\\", 4), 2);
    CHECK_EQ(sl_json_run(NULL, 0), 0);
    CHECK(sl_json_put_string(out, (struct sl_str){NULL, 0}) == out + 2);
    CHECK_EQ(memcmp(out, "\"\"", 2), 0);
}

/* A document of every kind of value, with commas where they belong. */
static void write_document(struct sl_writer *w)
{
    sl_json_open(w, '{');
    sl_json_key(w, SL_STR("a"));
    sl_json_open(w, '[');
    sl_json_uint(w, 1);
    sl_json_int(w, -2);
    sl_json_int(w, INT64_MIN);
    sl_json_str(w, SL_STR("x\"y"));
    sl_json_open(w, '[');
    sl_json_close(w, ']');
    sl_json_open(w, '{');
    sl_json_close(w, '}');
    sl_json_close(w, ']');
    sl_json_key(w, SL_STR("b"));
    sl_json_flag(w, true);
    sl_json_key(w, SL_STR("c"));
    sl_json_flag(w, false);
    sl_json_key(w, SL_STR("d"));
    sl_json_nothing(w);
    sl_json_key(w, SL_STR("e"));
    sl_json_raw(w, SL_STR("{\"f\":0}"));
    sl_json_close(w, '}');
}

static void test_writer(void)
{
    static const char want[] =
        "{\"a\":[1,-2,-9007199254740991,\"x\\\"y\",[],{}],\"b\":true,"
        "\"c\":false,\"d\":null,\"e\":{\"f\":0}}";
    struct sl_writer w;
    struct sl_buf out;

    CASE("a writer puts the commas");
    sl_buf_init(&out, CEILING, &sl_alloc_libc);
    w = (struct sl_writer){.out = &out};
    write_document(&w);
    CHECK_EQ(w.err, 0);
    CHECK(sl_str_eq(sl_buf_str(&out), sl_str_c(want)));
    sl_buf_done(&out);

    CASE("a writer keeps its first error, whichever call it was");
    for (size_t ceiling = 1; ceiling < sizeof(want) - 1; ceiling++) {
        sl_buf_init(&out, ceiling, &sl_alloc_libc);
        w = (struct sl_writer){.out = &out};
        write_document(&w);
        CHECK_EQ(w.err, SLUICE_EFULL);
        sl_writer_add(&w, SL_STR(""));
        sl_writer_addf(&w, "%s", "");
        CHECK_EQ(w.err, SLUICE_EFULL);
        CHECK(out.len <= ceiling);
        CHECK(memcmp(out.bytes, want, out.len) == 0);
        sl_buf_done(&out);
    }
}

int main(void)
{
    runs();
    strings();
    every_byte();
    in_room();
    numbers();
    ceilings();
    no_memory();
    test_writer();
    return CHECK_DONE();
}
