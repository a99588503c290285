/* forwarded.c -- the field Forwarded, from its end. */
#include "wire/http_fields.h"

#include "check.h"

/* The address of an element; "" is none. */
static const char *node(const char *element)
{
    static char text[SL_IP_TEXT];
    struct sl_ip ip = {{0}};

    if (!sl_forwarded_for(sl_str_c(element), &ip))
        return "";
    sl_ip_print(&ip, text);
    return text;
}

static void is(const char *what, const char *element, const char *want)
{
    CASE(what);
    CHECK_STR(node(element), want);
}

TEST(good)
{
    is("an address", "for=192.0.2.43", "192.0.2.43");
    is("names have no case", "For=192.0.2.43;PROTO=https", "192.0.2.43");
    is("in quotes", "for=\"192.0.2.43\"", "192.0.2.43");
    is("with a port", "for=\"192.0.2.43:4711\"", "192.0.2.43");
    is("a hidden port", "for=\"192.0.2.43:_p-0.x_\"", "192.0.2.43");
    is("IPv6", "for=\"[2001:db8::17]\"", "2001:db8::17");
    is("IPv6 and a port", "for=\"[2001:db8::17]:47011\"", "2001:db8::17");
    is("mapped IPv4", "for=\"[::ffff:192.0.2.1]\"", "192.0.2.1");
    is("behind others", "by=_x;proto=http;for=192.0.2.1", "192.0.2.1");
    is("before others", "for=192.0.2.1;host=\"a\\\",b;for=x\"", "192.0.2.1");
    is("empty pairs", ";;for=192.0.2.1;", "192.0.2.1");
}

static void is_none(const char *what, const char *element)
{
    is(what, element, "");
}

TEST(hidden)
{
    is_none("nothing", "");
    is_none("no for", "proto=https;by=192.0.2.1");
    is_none("for is twice there", "for=192.0.2.1;for=192.0.2.1");
    is_none("an unknown", "for=unknown");
    is_none("a hidden name", "for=_SEVKISEK");
    is_none("a hidden name, port", "for=\"_hidden:80\"");
    is_none("unknown with a port", "for=\"unknown:80\"");
}

TEST(garbage)
{
    is_none("IPv6 without quotes", "for=[2001:db8::17]");
    is_none("IPv6 in quotes alone", "for=\"2001:db8::17\"");
    is_none("IPv4 in brackets", "for=\"[192.0.2.1]\"");
    is_none("a port and no quotes", "for=192.0.2.43:80");
    is_none("no number of a port", "for=\"192.0.2.43:\"");
    is_none("a long port", "for=\"192.0.2.43:471100\"");
    is_none("a port of letters", "for=\"192.0.2.43:http\"");
    is_none("a nameless port", "for=\"192.0.2.43:_\"");
    is_none("a zone", "for=\"[fe80::1%eth0]\"");
    is_none("no bracket behind", "for=\"[2001:db8::17\"");
    is_none("more behind it", "for=\"[2001:db8::17]x\"");
    is_none("an open quote", "for=\"192.0.2.43");
    is_none("a backslash at last", "for=\"192.0.2.43\\\"");
    is_none("quoted bytes", "for=\"\\192.0.2.43\"");
    is_none("blanks around =", "for = 192.0.2.43");
    is_none("blanks behind ;", "proto=http; for=192.0.2.43");
    is_none("no =", "for");
    is_none("no value", "for=");
    is_none("an empty value", "for=\"\"");
    is_none("no name", "=192.0.2.1");
    is_none("two values", "for=\"192.0.2.1\"x");
    is_none("garbage behind", "for=192.0.2.1;@");
    is_none("octal", "for=192.0.2.010");
}

/* Its elements from the last to the first, a bar behind each. */
static const char *cut(const char *list)
{
    static char text[256];
    struct sl_str rest = sl_str_c(list);
    size_t len = 0;

    text[0] = '\0';
    while (rest.len > 0) {
        struct sl_str element = sl_forwarded_cut(&rest);

        len += (size_t)snprintf(text + len, sizeof(text) - len, "%.*s|",
                                SL_STR_ARG(element));
    }
    return text;
}

TEST(cutting)
{
    CASE("commas and blanks");
    CHECK_STR(cut("a=1, b=2 ,\tc=3"), "c=3|b=2|a=1|");
    CHECK_STR(cut("a"), "a|");
    CHECK_STR(cut(""), "");
    CHECK_STR(cut("a,,b,"), "|b||a|");
    CASE("commas in quotes");
    CHECK_STR(cut("a=\"1,2\", b=\"3,4\""), "b=\"3,4\"|a=\"1,2\"|");
    CHECK_STR(cut("a=\"\\\",\", b=2"), "b=2|a=\"\\\",\"|");
    CHECK_STR(cut("a=\"x\\\\\", b=2"), "b=2|a=\"x\\\\\"|");
    CASE("what is open on the left stays on the left");
    CHECK_STR(cut("for=\"x, for=192.0.2.1"), "for=192.0.2.1|for=\"x|");
    CHECK_STR(cut("for=\"x\\, for=\"[::1]\""), "for=\"[::1]\"|for=\"x\\|");
    CHECK_STR(cut("\", for=\"[::1]\", for=192.0.2.1"),
              "for=192.0.2.1|for=\"[::1]\"|\"|");
}

/* Ten thousand of anything take no more than a look at each byte. */
TEST(long)
{
    static char list[200000];
    static const char *const pieces[] = {"\\", "\"", ",", "\\\"",
                                         "for=\"\\\\,"};

    for (size_t p = 0; p < SL_LEN(pieces); p++) {
        struct sl_str rest = {list, 0};
        size_t count = 0;
        struct sl_ip ip;

        CASE(pieces[p]);
        for (int i = 0; i < 20000; i++)
            rest.len += (size_t)snprintf(list + rest.len, 16, "%s", pieces[p]);
        rest.len += (size_t)snprintf(list + rest.len, 32, ",for=192.0.2.7");
        CHECK(sl_forwarded_for(sl_forwarded_cut(&rest), &ip));
        for (; rest.len > 0; count++)
            (void)sl_forwarded_cut(&rest);
        CHECK(count <= 20001);
    }
}

CHECK_MAIN()
