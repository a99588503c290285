/* pb.c -- protocol buffers: each rule of reading and writing as a row. */
#include "wire/pb.h"

#include "check.h"

/* ---- reading ---- */

/* What was read, as text: "1v5 2b(ab) 3f7" and perhaps " !why". */
static const char *read_all(struct sl_str bytes)
{
    static char text[512];
    struct sl_pb_field field;
    struct sl_pb pb;
    size_t len = 0;

    text[0] = '\0';
    sl_pb_begin(&pb, bytes);
    while (sl_pb_next(&pb, &field)) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u",
                                len > 0 ? " " : "", field.number);
        if (field.wire == SL_PB_BYTES)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "b(%.*s)",
                                    SL_STR_ARG(field.bytes));
        else
            len +=
                (size_t)snprintf(text + len, sizeof(text) - len, "%c%" PRIu64,
                                 "vf???f"[field.wire], field.value);
    }
    if (pb.bad)
        snprintf(text + len, sizeof(text) - len, "!%s", pb.why);
    return text;
}

/* One row: what the bytes of a literal are read as. */
#define READS(why, bytes, fields)                                              \
    do {                                                                       \
        CASE(why);                                                             \
        CHECK_STR(read_all(SL_STR(bytes)), fields);                            \
    } while (0)

TEST(good)
{
    READS("nothing is a message", "", "");
    READS("a small number", "\x08\x05", "1v5");
    READS("a number of two bytes", "\x08\x96\x01", "1v150");
    READS("the largest", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
          "1v18446744073709551615");
    READS("bits beyond the 64th are dropped",
          "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
          "1v18446744073709551615");
    READS("a number may be written too long", "\x08\x85\x80\x00", "1v5");
    READS("bytes",
          "\x12\x03"
          "abc",
          "2b(abc)");
    READS("no bytes", "\x12\x00", "2b()");
    READS("four bytes", "\x1d\x01\x02\x00\x00", "3f513");
    READS("eight bytes", "\x19\x01\x00\x00\x00\x00\x00\x00\x80",
          "3f9223372036854775809");
    READS("several, in any order", "\x12\x01x\x08\x05\x12\x01y",
          "2b(x) 1v5 2b(y)");
    READS("a group is skipped", "\x0b\x10\x01\x0c\x08\x05", "1v5");
    READS("a group in a group too", "\x0b\x13\x08\x07\x14\x0c\x08\x05", "1v5");
    READS("the largest number of a field", "\xf8\xff\xff\xff\x0f\x01",
          "536870911v1");
}

TEST(bad)
{
    READS("field 0", "\x00\x01", "!a field has an invalid number");
    READS("a tag above 32 bits", "\x88\x80\x80\x80\x10\x01",
          "!a field has an invalid number");
    READS("type 6", "\x0e", "!a field has an invalid wire type");
    READS("type 7", "\x0f", "!a field has an invalid wire type");
    READS("a tag cut off", "\x80", "!the message ends inside a number");
    READS("no number behind a tag", "\x08",
          "!the message ends inside a number");
    READS("a number cut off", "\x08\x80", "!the message ends inside a number");
    READS("eleven bytes", "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
          "!a number has more than ten bytes");
    READS("four bytes cut off", "\x1d\x01\x02\x00",
          "!the message ends inside a number");
    READS("eight bytes cut off", "\x19\x01\x00\x00\x00\x00\x00\x00",
          "!the message ends inside a number");
    READS("bytes cut off",
          "\x12\x04"
          "abc",
          "!a field is longer than the message");
    READS("a length of 2^64 - 1",
          "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x",
          "!a field is longer than the message");
    READS("a group without end", "\x0b\x10\x01",
          "!the message ends inside a group");
    READS("the end of another group", "\x0b\x14",
          "!a group ends that did not begin");
    READS("an end without a group", "\x0c", "!a group ends that did not begin");
    READS("what was good before stays read", "\x08\x05\x0c",
          "1v5!a group ends that did not begin");
}

TEST(depth)
{
    char bytes[2 * (SL_PB_DEPTH + 1)];

    CASE("groups as deep as may be, and one deeper");
    memset(bytes, 0x0b, SL_PB_DEPTH);
    memset(bytes + SL_PB_DEPTH, 0x0c, SL_PB_DEPTH);
    CHECK_STR(read_all((struct sl_str){bytes, 2 * SL_PB_DEPTH}), "");
    memset(bytes, 0x0b, SL_PB_DEPTH + 1);
    memset(bytes + SL_PB_DEPTH + 1, 0x0c, SL_PB_DEPTH + 1);
    CHECK_STR(read_all((struct sl_str){bytes, 2 * (SL_PB_DEPTH + 1)}),
              "!groups are nested too deeply");
}

TEST(length)
{
    struct sl_pb pb;

    CASE("a message that is too long is not looked at");
    sl_pb_begin(&pb, (struct sl_str){"", SL_PB_MOST + 1});
    CHECK(pb.bad);
    CHECK(!sl_pb_next(&pb, &(struct sl_pb_field){0}));
}

TEST(utf8)
{
    static const struct {
        const char *text;
        bool good;
    } texts[] = {
        {"",                         true },
        {"plain",                    true },
        {"\xc3\xa9\xe2\x82\xac",     true },
        {"\xf0\x9f\x98\x80",         true },
        {"\xf4\x8f\xbf\xbf",         true },
        {"\xed\x9f\xbf\xee\x80\x80", true },
        {"\xc0\x80",                 false},
        {"\xc1\xbf",                 false},
        {"\xe0\x9f\xbf",             false},
        {"\xed\xa0\x80",             false},
        {"\xf0\x8f\xbf\xbf",         false},
        {"\xf4\x90\x80\x80",         false},
        {"\xf5\x80\x80\x80",         false},
        {"\xff",                     false},
        {"\x80",                     false},
        {"\xc3",                     false},
        {"\xe2\x82",                 false},
        {"\xe2\x82x",                false},
        {"\xf0\x9f\x98",             false},
    };

    CASE("UTF-8 and what is not");
    for (size_t i = 0; i < SL_LEN(texts); i++)
        if (!CHECK_EQ(sl_pb_is_utf8(sl_str_c(texts[i].text)), texts[i].good))
            printf("# row %zu\n", i);
}

/* ---- writing ---- */

/* A submessage of `inside` bytes in one of as many and a few more. */
static void write_nested(struct sl_pb_out *out, size_t inside)
{
    static char x[20000];
    size_t outer, inner;

    memset(x, 'x', sizeof(x));
    outer = sl_pb_open(out, 1);
    inner = sl_pb_open(out, 2);
    sl_pb_bytes(out, 3, (struct sl_str){x, inside});
    sl_pb_close(out, inner);
    sl_pb_close(out, outer);
}

static size_t length_of(struct sl_str text, const char *what)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    for (; *what; what++) {
        sl_pb_begin(&pb, text);
        if (!CHECK(sl_pb_next(&pb, &field)) ||
            !CHECK(sl_pb_is(&field, (uint32_t)(*what - '0'), SL_PB_BYTES)) ||
            !CHECK(pb.at == pb.end))
            return SIZE_MAX;
        text = field.bytes;
    }
    return text.len;
}

TEST(nesting)
{
    static const size_t sizes[] = {0,   1,   123, 124,   125,   126,  127,
                                   128, 129, 200, 16376, 16384, 20000};
    static char bytes[32000];

    CASE("lengths of one, two and three bytes, inside each other");
    for (size_t i = 0; i < SL_LEN(sizes); i++) {
        struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};

        write_nested(&out, sizes[i]);
        CHECK(!out.full);
        CHECK_EQ(length_of((struct sl_str){bytes, out.len}, "123"), sizes[i]);
    }
}

TEST(full)
{
    char bytes[300], whole[300];
    struct sl_pb_out all = {.bytes = whole, .size = sizeof(whole)};

    CASE("whatever the room, nothing is written beyond it");
    write_nested(&all, 200);
    for (size_t size = 0; size <= all.len; size++) {
        struct sl_pb_out out = {.bytes = bytes, .size = size};

        memset(bytes, '?', sizeof(bytes));
        write_nested(&out, 200);
        CHECK_EQ(out.full, size < all.len);
        for (size_t i = size; i < sizeof(bytes); i++)
            CHECK(bytes[i] == '?');
    }
    CHECK(memcmp(bytes, whole, all.len) == 0);
}

TEST(numbers)
{
    char bytes[64];
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};

    CASE("numbers come back, zeros are left out where asked for");
    sl_pb_varint_if(&out, 1, 0);
    sl_pb_bytes_if(&out, 2, SL_STR(""));
    CHECK_EQ(out.len, 0);
    sl_pb_varint(&out, 1, 0);
    sl_pb_varint_if(&out, 2, UINT64_MAX);
    sl_pb_varint_if(&out, 536870911, 300);
    sl_pb_bytes(&out, 4, SL_STR(""));
    sl_pb_bytes_if(&out, 5, SL_STR("ab"));
    CHECK_STR(read_all((struct sl_str){bytes, out.len}),
              "1v0 2v18446744073709551615 536870911v300 4b() 5b(ab)");
}

CHECK_MAIN()
