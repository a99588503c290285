/* forwarded.c -- whose request it is that a proxy hands on. */
#include "engine/request.h"

#include "check.h"

static struct sl_net nets[2];
static struct sl_identity none, some = {.trusted = nets, .trusted_count = 2};

/* The client by what up to three X-Forwarded-For fields say; "" is none. */
static const char *client(const struct sl_identity *identity, const char *peer,
                          const char *a, const char *b, const char *c)
{
    static char text[SL_IP_TEXT];
    struct sl_header headers[] = {
        {SL_STR("X-Forwarded-For"), sl_str_c(a)          },
        {SL_STR("Forwarded"),       SL_STR("for=6.6.6.6")},
        {SL_STR("x-forwarded-for"), sl_str_c(b)          },
        {SL_STR("X-Real-IP"),       SL_STR("6.6.6.6")    },
        {SL_STR("X-FORWARDED-FOR"), sl_str_c(c)          },
    };
    struct sl_peer from = {.is_unix = !peer};
    struct sl_ip ip;

    if (peer)
        from.has_ip = sl_ip_parse(sl_str_c(peer), &from.ip);
    if (!sl_forwarded_client(identity, &from, headers, SL_LEN(headers), &ip))
        return "";
    sl_ip_print(&ip, text);
    return text;
}

/* The client by up to two Forwarded fields. */
static const char *said(const char *peer, const char *a, const char *b)
{
    static struct sl_identity by_rfc;
    static char text[SL_IP_TEXT];
    struct sl_header headers[] = {
        {SL_STR("X-Forwarded-For"), SL_STR("6.6.6.6")},
        {SL_STR("Forwarded"),       sl_str_c(a)      },
        {SL_STR("X-Forwarded-For"), SL_STR("6.6.6.6")},
        {SL_STR("forwarded"),       sl_str_c(b)      },
        {SL_STR("X-Forwarded-For"), SL_STR("6.6.6.6")},
    };
    struct sl_peer from = {.is_unix = false};
    struct sl_ip ip;

    by_rfc = some;
    by_rfc.forwarded = SL_FORWARDED_RFC7239;
    from.has_ip = sl_ip_parse(sl_str_c(peer), &from.ip);
    if (!sl_forwarded_client(&by_rfc, &from, headers, SL_LEN(headers), &ip))
        return "";
    sl_ip_print(&ip, text);
    return text;
}

static void hear(const char *what, const char *list, const char *want)
{
    CASE(what);
    CHECK_STR(said("10.0.0.1", list, NULL), want);
}

/* The other field is not looked at, whatever it has. */
static void test_rfc7239(void)
{
    hear("no header", NULL, "10.0.0.1");
    hear("one hop", "for=203.0.113.9", "203.0.113.9");
    hear("two hops", "for=203.0.113.9, for=10.0.0.2", "203.0.113.9");
    hear("three hops", "for=203.0.113.9,for=10.0.0.3 ,\tfor=\"10.0.0.2:80\"",
         "203.0.113.9");
    hear("IPv6", "for=\"[2001:db8:bb::9]:443\", for=\"[2001:db8:aa::2]\"",
         "2001:db8:bb::9");
    hear("spoofed left", "for=6.6.6.6, for=203.0.113.9, for=10.0.0.2",
         "203.0.113.9");
    hear("an open quote on the left", "for=\"6.6.6.6, for=203.0.113.9",
         "203.0.113.9");
    hear("all trusted", "for=10.0.0.3, for=10.0.0.2", "10.0.0.3");
    hear("hidden", "for=6.6.6.6, for=_hidden, for=10.0.0.2", "10.0.0.2");
    hear("unknown", "for=6.6.6.6, for=unknown, for=10.0.0.2", "10.0.0.2");
    hear("no for", "for=6.6.6.6, proto=https", "10.0.0.1");
    hear("garbage", "for=6.6.6.6, for=10.0.0.2 for=7.7.7.7", "10.0.0.1");
    hear("as in the other field", "203.0.113.9", "10.0.0.1");
    CASE("a stranger's word");
    CHECK_STR(said("203.0.113.9", "for=6.6.6.6", NULL), "203.0.113.9");
    CASE("several fields are one list");
    CHECK_STR(said("10.0.0.1", "for=6.6.6.6, for=203.0.113.9", "for=10.0.0.2"),
              "203.0.113.9");
    CHECK_STR(said("10.0.0.1", "for=\"6.6.6.6", "for=10.0.0.2"), "10.0.0.2");
}

/* 10.0.0.0/8 and 2001:db8:aa::/48 are trusted. */
static void walk(const char *what, const char *peer, const char *list,
                 const char *want)
{
    CASE(what);
    CHECK_STR(client(&some, peer, list, NULL, NULL), want);
}

static void test_one_field(void)
{
    walk("direct", "203.0.113.9", NULL, "203.0.113.9");
    walk("a stranger's word", "203.0.113.9", "6.6.6.6", "203.0.113.9");
    walk("a trusted one's own", "10.0.0.1", NULL, "10.0.0.1");
    walk("one hop", "10.0.0.1", "203.0.113.9", "203.0.113.9");
    walk("two hops", "10.0.0.1", "203.0.113.9, 10.0.0.2", "203.0.113.9");
    walk("three hops", "10.0.0.1", "203.0.113.9,10.0.0.3 ,\t10.0.0.2",
         "203.0.113.9");
    walk("spoofed left", "10.0.0.1", "6.6.6.6, 203.0.113.9, 10.0.0.2",
         "203.0.113.9");
    walk("spoofed as trusted", "10.0.0.1", "10.6.6.6, 203.0.113.9",
         "203.0.113.9");
    walk("all trusted", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3");
    walk("garbage on the left", "10.0.0.1", "<x>, 203.0.113.9", "203.0.113.9");
    walk("garbage stops the walk", "10.0.0.1", "6.6.6.6, unknown, 10.0.0.2",
         "10.0.0.2");
    walk("garbage at once", "10.0.0.1", "6.6.6.6, 203.0.113.09", "10.0.0.1");
    walk("an empty item is garbage", "10.0.0.1", "6.6.6.6, , 10.0.0.2",
         "10.0.0.2");
    walk("a comma at the end", "10.0.0.1", "6.6.6.6,", "10.0.0.1");
    walk("with a port", "10.0.0.1", "203.0.113.9:4711", "203.0.113.9");
    walk("mapped notation is the same address", "::ffff:10.0.0.1",
         "203.0.113.9, ::ffff:10.0.0.2", "203.0.113.9");
    walk("IPv6", "2001:db8:aa::1", "[2001:db8:bb::9]:443, 2001:db8:aa::2",
         "2001:db8:bb::9");
    walk("a unix socket's word", NULL, "6.6.6.6, 203.0.113.9", "203.0.113.9");
    walk("a unix socket and no header", NULL, NULL, "");
    walk("a unix socket and garbage", NULL, "6.6.6.6, x", "");
}

static void test_several_fields(void)
{
    CASE("an empty field says nothing");
    CHECK_STR(client(&some, "10.0.0.1", "203.0.113.9", "", NULL),
              "203.0.113.9");
    CASE("several fields are one list");
    CHECK_STR(client(&some, "10.0.0.1", "6.6.6.6", "203.0.113.9", "10.0.0.2"),
              "203.0.113.9");
    CASE("the last field first");
    CHECK_STR(client(&some, "10.0.0.1", "6.6.6.6", NULL, "203.0.113.9"),
              "203.0.113.9");
}

static void test_default(void)
{
    CASE("a policy that names no proxy trusts loopback");
    CHECK_STR(client(&none, "127.0.0.1", "203.0.113.9", NULL, NULL),
              "203.0.113.9");
    CHECK_STR(client(&none, "127.9.9.9", "203.0.113.9, 127.0.0.1", NULL, NULL),
              "203.0.113.9");
    CHECK_STR(client(&none, "::1", "203.0.113.9, ::ffff:127.0.0.1", NULL, NULL),
              "203.0.113.9");
    CHECK_STR(client(&none, "10.0.0.1", "203.0.113.9", NULL, NULL), "10.0.0.1");
    CHECK_STR(client(&none, "::2", "203.0.113.9", NULL, NULL), "::2");
    CHECK_STR(client(&none, "128.0.0.1", "203.0.113.9", NULL, NULL),
              "128.0.0.1");
    CASE("a policy that names some trusts those alone");
    CHECK_STR(client(&some, "127.0.0.1", "203.0.113.9", NULL, NULL),
              "127.0.0.1");
}

static void test_long(void)
{
    static char list[10000 * 10 + 16];
    size_t len = 0;

    CASE("ten thousand entries");
    len += (size_t)snprintf(list, 16, "203.0.113.9");
    for (int i = 0; i < 10000; i++)
        len += (size_t)snprintf(list + len, 16, ",10.0.0.1");
    CHECK_STR(client(&some, "10.0.0.1", list, NULL, NULL), "203.0.113.9");

    CASE("and by the other field");
    len = (size_t)snprintf(list, 24, "for=203.0.113.9");
    for (int i = 0; i < 6000; i++)
        len += (size_t)snprintf(list + len, 16, ",for=10.0.0.1");
    CHECK_STR(said("10.0.0.1", list, NULL), "203.0.113.9");
}

int main(void)
{
    CASE("the networks");
    CHECK(sl_net_parse(SL_STR("10.0.0.0/8"), &nets[0]));
    CHECK(sl_net_parse(SL_STR("2001:db8:aa::/48"), &nets[1]));
    test_one_field();
    test_several_fields();
    test_rfc7239();
    test_default();
    test_long();
    return CHECK_DONE();
}
