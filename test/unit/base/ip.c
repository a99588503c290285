/* ip.c -- addresses in every notation, prefixes and networks. */
#include "base/ip.h"

#include "check.h"
#include "row.h"

static const char *shown(const char *text)
{
    static char out[SL_IP_TEXT];
    struct sl_ip ip;
    size_t len;

    if (!sl_ip_parse(sl_str_c(text), &ip))
        return NULL;
    len = sl_ip_print(&ip, out);
    CHECK_EQ(strlen(out), len);
    return out;
}

TEST(notations)
{
    static const struct {
        const char *why, *text, *want;
    } rows[] = {
        {"IPv4",                 "203.0.113.5",            "203.0.113.5"      },
        {"the least",            "0.0.0.0",                "0.0.0.0"          },
        {"the most",             "255.255.255.255",        "255.255.255.255"  },
        {"with a port",          "203.0.113.5:443",        "203.0.113.5"      },
        {"with any port",        "203.0.113.5:0",          "203.0.113.5"      },
        {"mapped",               "::ffff:203.0.113.5",     "203.0.113.5"      },
        {"mapped, capital",      "::FFFF:203.0.113.5",     "203.0.113.5"      },
        {"mapped, without dots", "::ffff:102:304",         "1.2.3.4"          },
        {"mapped, in full",      "0:0:0:0:0:ffff:102:304", "1.2.3.4"          },
        {"mapped, with zeros",   "::0000:ffff:0102:0304",  "1.2.3.4"          },
        {"mapped, in brackets",  "[::ffff:1.2.3.4]:80",    "1.2.3.4"          },
        {"mapped, with a zone",  "::ffff:1.2.3.4%eth0",    "1.2.3.4"          },
        {"dots make no IPv4",    "2001:db8::1.2.3.4",      "2001:db8::102:304"},
        {"compatible is IPv6",   "::1.2.3.4",              "::102:304"        },
        {"translated is IPv6",   "::ffff:0:1.2.3.4",       "::ffff:0:102:304" },
        {"NAT64 is IPv6",        "64:ff9b::1.2.3.4",       "64:ff9b::102:304" },
        {"IPv6",                 "2001:db8::1",            "2001:db8::1"      },
        {"capitals",             "2001:DB8::ABCD",         "2001:db8::abcd"   },
        {"zeros in front",       "2001:0db8:0:0::0001",    "2001:db8::1"      },
        {"no address",           "::",                     "::"               },
        {"loopback",             "::1",                    "::1"              },
        {"in brackets",          "[::1]",                  "::1"              },
        {"with a port",          "[2001:db8::1]:65535",    "2001:db8::1"      },
        {"with a zone",          "fe80::1%eth0",           "fe80::1"          },
        {"zone in brackets",     "[fe80::1%25eth0]:443",   "fe80::1"          },
        {"a gap of one group",   "1:2:3:4:5:6:7::",        "1:2:3:4:5:6:7:0"  },
        {"and in front",         "::2:3:4:5:6:7:8",        "0:2:3:4:5:6:7:8"  },
        {"one zero is no gap",   "1:0:3:4:5:6:7:8",        "1:0:3:4:5:6:7:8"  },
        {"the longest gap",      "1:0:0:2:0:0:0:3",        "1:0:0:2::3"       },
        {"the first of equals",  "1:0:0:2:0:0:3:4",        "1::2:0:0:3:4"     },
        {"a gap at the end",     "1:0:0:0:0:0:0:0",        "1::"              },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_STR(shown(rows[i].text), rows[i].want);
        CHECK_STR(shown(rows[i].want), rows[i].want);
        CHECK_EQ(sl_ip_is_plain_v4(sl_str_c(rows[i].text)),
                 strcmp(rows[i].text, rows[i].want) == 0 &&
                     !strchr(rows[i].text, ':'));
    }
    CASE("the longest text");
    CHECK_STR(shown("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.254"),
              "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe");
}

static const char *const refused[] = {
    "",
    " ",
    "x",
    "1",
    "1.2.3",
    "1.2.3.4.5",
    "1.2.3.4.",
    ".1.2.3.4",
    "1..3.4",
    "1.2.3.256",
    "1.2.3.1000",
    "01.2.3.4",
    "1.2.3.04",
    "1.2.3.00",
    "0x1.2.3.4",
    "0x01020304",
    "16909060",
    "+1.2.3.4",
    "1.2.3.-4",
    " 1.2.3.4",
    "1.2.3.4 ",
    "1.2.3.4%eth0",
    "[1.2.3.4]",
    "[1.2.3.4]:80",
    "1.2.3.4:",
    "1.2.3.4:65536",
    "1.2.3.4:123456",
    "1.2.3.4:8x",
    "1.2.3.4/32",
    "1.2.3.4:80:80",
    ":",
    ":::",
    "1",
    "1:",
    ":1",
    "1:2",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::1:2:3:4:5:6:7:8",
    "1:2:3:4::5:6:7:8",
    "1::2::3",
    "1:::2",
    "::12345",
    "::g",
    "::1.2.3",
    "::1.2.3.4.5",
    "::1.2.3.4:5",
    "::01.2.3.4",
    "1.2.3.4::",
    "1:2:3:4:5:6:7:1.2.3.4",
    "1:2:3:4:5:1.2.3.4",
    "::1%",
    "::1%a b",
    "::1%a/b",
    "%eth0",
    "[::1",
    "::1]",
    "[]",
    "[]:80",
    "[::1]x",
    "[::1]:",
    "[::1]:65536",
    "[[::1]]",
    "unknown",
    "_hidden",
    "localhost",
};

TEST(refused)
{
    CASE("what is no address is refused, and the result untouched");
    for (size_t i = 0; i < SL_LEN(refused); i++) {
        struct sl_ip ip = {{7}}, before = ip;

        if (!CHECK(!sl_ip_parse(sl_str_c(refused[i]), &ip)) ||
            !CHECK(memcmp(&ip, &before, sizeof(ip)) == 0) ||
            !CHECK(!sl_ip_is_plain_v4(sl_str_c(refused[i]))))
            printf("# %s\n", refused[i]);
    }
    CASE("a NUL inside is no end");
    CHECK(!sl_ip_parse(SL_STR("1.2.3.4\0"), &(struct sl_ip){{0}}));
    CHECK(!sl_ip_is_plain_v4(SL_STR("1.2.3.4\0")));
    CHECK(!sl_ip_parse(SL_STR("::1\0"), &(struct sl_ip){{0}}));
    CHECK(!sl_ip_parse((struct sl_str){NULL, 0}, &(struct sl_ip){{0}}));
}

static const char *prefix_of(const char *text, unsigned bits)
{
    static char out[SL_IP_TEXT];
    struct sl_ip ip;

    if (!sl_ip_parse(sl_str_c(text), &ip))
        return NULL;
    ip = sl_ip_prefix(&ip, bits);
    sl_ip_print(&ip, out);
    return out;
}

TEST(prefix)
{
    static const struct {
        const char *why, *text;
        unsigned bits;
        const char *want;
    } rows[] = {
        ROW("a /64", "2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::"),
        ROW("a /56", "2001:db8:1:2ff:3:4:5:6", 56, "2001:db8:1:200::"),
        ROW("a /33", "2001:db8:ffff::1", 33, "2001:db8:8000::"),
        ROW("all of it", "2001:db8::1", 128, "2001:db8::1"),
        ROW("more than all", "2001:db8::1", 200, "2001:db8::1"),
        ROW("nothing", "2001:db8::1", 0, "::"),
        ROW("IPv4 is kept whole", "1.2.3.4", 64, "1.2.3.4"),
        ROW("however it is written", "::ffff:102:304", 56, "1.2.3.4"),
        ROW("dots make no IPv4", "2001:db8::1.2.3.4", 64, "2001:db8::"),
        ROW("nor does being near", "::fffe:1.2.3.4", 96, "::fffe:0:0"),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_STR(prefix_of(rows[i].text, rows[i].bits), rows[i].want);
    }
}

/* What a thief with a /64 can do: change address 2^16 times, and be one. */
TEST(rotation)
{
    struct sl_ip ip, one, first = {{0}};
    unsigned other = 0;

    CASE("2^16 addresses of one /64 are one, those of IPv4 are not");
    CHECK(sl_ip_parse(SL_STR("2001:db8:1:2::"), &ip));
    for (unsigned i = 0; i < 1U << 16; i++) {
        ip.bytes[8 + i % 8] = (uint8_t)(i >> 8);
        ip.bytes[8 + (i + 3) % 8] = (uint8_t)i;
        one = sl_ip_prefix(&ip, 64);
        if (i == 0)
            first = one;
        other += memcmp(&one, &first, sizeof(one)) != 0;
    }
    CHECK_EQ(other, 0);
    CHECK(sl_ip_parse(SL_STR("::ffff:1.2.0.0"), &ip));
    for (unsigned i = 0; i < 1U << 16; i++) {
        ip.bytes[14] = (uint8_t)(i >> 8);
        ip.bytes[15] = (uint8_t)i;
        one = sl_ip_prefix(&ip, 56);
        other += memcmp(&one, &ip, sizeof(one)) == 0;
    }
    CHECK_EQ(other, 1U << 16);
}

TEST(nets)
{
    static const struct {
        const char *net, *ip;
        bool has;
    } rows[] = {
        {"10.0.0.0/8",          "10.255.255.255",  true },
        {"10.0.0.0/8",          "::ffff:10.1.2.3", true },
        {"10.0.0.0/8",          "::ffff:a01:203",  true },
        {"10.0.0.0/8",          "11.0.0.0",        false},
        {"10.0.0.0/8",          "::10.1.2.3",      false},
        {"10.0.0.0/8",          "a00::",           false},
        {"::ffff:10.0.0.0/104", "10.1.2.3",        true },
        {"127.0.0.1",           "127.0.0.1",       true },
        {"127.0.0.1",           "127.0.0.2",       false},
        {"0.0.0.0/0",           "1.2.3.4",         true },
        {"0.0.0.0/0",           "::1",             false},
        {"::/0",                "2001:db8::1",     true },
        {"::/0",                "1.2.3.4",         false},
        {"::/64",               "::1",             true },
        {"::/64",               "1.2.3.4",         false},
        {"::ffff:0:0/96",       "1.2.3.4",         true },
        {"2001:db8::/33",       "2001:db8:7fff::", true },
        {"2001:db8::/33",       "2001:db8:8000::", false},
        {"::1",                 "::1",             true },
        {"::1/128",             "::2",             false},
        {"203.0.113.4/31",      "203.0.113.5",     true },
        {"203.0.113.4/31",      "203.0.113.6",     false},
    };

    CASE("what a network has in it");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_net net;
        struct sl_ip ip;

        CHECK(sl_net_parse(sl_str_c(rows[i].net), &net));
        CHECK(sl_ip_parse(sl_str_c(rows[i].ip), &ip));
        if (!CHECK(sl_net_has(&net, &ip) == rows[i].has))
            printf("# %s in %s\n", rows[i].ip, rows[i].net);
    }
    CASE("bits of IPv4 networks count from 96");
    struct sl_net net = {.bits = 1};

    CHECK(sl_net_parse(SL_STR("10.0.0.0/8"), &net));
    CHECK_EQ(net.bits, 104);
    CHECK(sl_net_parse(SL_STR("10.0.0.1"), &net));
    CHECK_EQ(net.bits, 128);
}

TEST(nets_printed)
{
    static const char *const rows[] = {
        "203.0.113.7",     "203.0.113.0/24",  "0.0.0.0/0",
        "2001:db8::1/128", "2001:db8:1::/48", "::/0",
    };
    struct sl_net net;
    struct sl_ip ip;
    char text[SL_NET_TEXT];

    CASE("a network as it is written");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CHECK(sl_net_parse(sl_str_c(rows[i]), &net));
        CHECK_EQ(sl_net_print(&net, text), strlen(rows[i]));
        CHECK_STR(text, rows[i]);
    }
    CASE("the network of an address");
    CHECK(sl_ip_parse(SL_STR("203.0.113.77"), &ip));
    net = sl_net_of(&ip, 96 + 26);
    sl_net_print(&net, text);
    CHECK_STR(text, "203.0.113.64/26");
}

TEST(nets_refused)
{
    static const char *const rows[] = {
        "",
        "/",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/8 ",
        "10.0.0.0/-1",
        "10.0.0.1/8",
        "10.0.0.0/8/8",
        "10.0.0/8",
        "10.0.0.0:80/8",
        "2001:db8::/129",
        "2001:db8::1/32",
        "[::]/0",
        "fe80::1%eth0",
        "::ffff:10.0.0.0/8",
        "10.0.0.0/255.0.0.0",
        "::1/1288",
        "*",
    };

    CASE("what is no network is refused, and the result untouched");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_net net = {.bits = 77};

        if (!CHECK(!sl_net_parse(sl_str_c(rows[i]), &net)) ||
            !CHECK(net.bits == 77))
            printf("# %s\n", rows[i]);
    }
}

CHECK_MAIN()
