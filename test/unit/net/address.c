/* address.c -- where to listen: what is read, refused and printed. */
#include "net/address.h"

#include <netinet/in.h>

#include "check.h"
#include "row.h"

#define P107                                                                   \
    "/tmp/"                                                                    \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"    \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

TEST(good)
{
    static const struct {
        const char *text, *printed;
        int family;
        bool local;
        unsigned port;
    } rows[] = {
        {"127.0.0.1:8080",       "127.0.0.1:8080",  AF_INET,  true,  8080 },
        {"127.255.0.9:1",        "127.255.0.9:1",   AF_INET,  true,  1    },
        {"10.0.0.1:65535",       "10.0.0.1:65535",  AF_INET,  false, 65535},
        {"0.0.0.0:0",            "0.0.0.0:0",       AF_INET,  false, 0    },
        {"localhost:80",         "127.0.0.1:80",    AF_INET,  true,  80   },
        {"LocalHost:80",         "127.0.0.1:80",    AF_INET,  true,  80   },
        {"[::1]:8080",           "[::1]:8080",      AF_INET6, true,  8080 },
        {"[::]:8080",            "[::]:8080",       AF_INET6, false, 8080 },
        {"[2001:DB8::1]:9",      "[2001:db8::1]:9", AF_INET6, false, 9    },
        {"[::ffff:127.0.0.1]:9", "127.0.0.1:9",     AF_INET,  true,  9    },
        {"*:8080",               "*:8080",          AF_INET6, false, 8080 },
        {"unix:/run/s",          "unix:/run/s",     AF_UNIX,  true,  0    },
        {"unix:h",               "unix:h",          AF_UNIX,  true,  0    },
        {"unix:" P107,           "unix:" P107,      AF_UNIX,  true,  0    },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_address a;
        struct sl_diag diag = {0};
        char text[200];

        CASE(rows[i].text);
        CHECK_EQ(sl_address_parse(sl_str_c(rows[i].text), &a, &diag), 0);
        CHECK_EQ(a.bytes.ss_family, rows[i].family);
        CHECK_EQ(sl_address_is_unix(&a), rows[i].family == AF_UNIX);
        CHECK_EQ(sl_address_is_local(&a), rows[i].local);
        CHECK_EQ(sl_address_port(&a), rows[i].port);
        CHECK_STR(a.text, rows[i].text);
        sl_address_print(&a, text, sizeof(text));
        CHECK_STR(text, rows[i].printed);
        CHECK(a.len <= sizeof(a.bytes));
    }
}

static const struct {
    const char *text, *sentence, *hint;
    size_t at;
} bad[] = {
    ROW("",
        "the address is missing; write one like 127.0.0.1:8080 or "
        "unix:/run/sluice.sock",
        "", 0),
    ROW("8080",
        "\"8080\" is not an address with a port; write one like "
        "127.0.0.1:8080, "
        "[::1]:8080, *:8080 or unix:/run/sluice.sock",
        "127.0.0.1:8080", 0),
    ROW("127.0.0.1",
        "\"127.0.0.1\" is not an address with a port; write one like "
        "127.0.0.1:8080, [::1]:8080, *:8080 or unix:/run/sluice.sock",
        "127.0.0.1:8080", 0),
    ROW("*",
        "\"*\" is not an address with a port; write one like 127.0.0.1:8080, "
        "[::1]:8080, *:8080 or unix:/run/sluice.sock",
        "*:8080", 0),
    ROW("::1",
        "\"::1\" is not an address with a port; write one like 127.0.0.1:8080, "
        "[::1]:8080, *:8080 or unix:/run/sluice.sock",
        "[::1]:8080", 0),
    ROW("[::1]",
        "\"[::1]\" is not an address with a port; write one like "
        "127.0.0.1:8080, "
        "[::1]:8080, *:8080 or unix:/run/sluice.sock",
        "[::1]:8080", 0),
    ROW(":8080",
        "the address before the port is missing; write 127.0.0.1 for this "
        "machine only, or * for all addresses",
        "127.0.0.1:8080", 0),
    ROW("::1:8080", "an IPv6 address with a port needs brackets", "[::1]:8080",
        0),
    ROW("example.com:80",
        "\"example.com\" is not a numeric address, and names are not looked "
        "up; write a numeric address, localhost, or * for all addresses",
        "", 0),
    ROW("127.1:80",
        "\"127.1\" is not a numeric address, and names are not looked up; "
        "write a numeric address, localhost, or * for all addresses",
        "", 0),
    ROW("[::1]x:80",
        "\"[::1]x\" is not a numeric address, and names are not looked up; "
        "write a numeric address, localhost, or * for all addresses",
        "", 0),
    ROW("[::1]:9:80",
        "\"[::1]:9\" is not a numeric address, and names are not looked up; "
        "write a numeric address, localhost, or * for all addresses",
        "", 0),
    ROW("[fe80::1%lo]:80",
        "\"[fe80::1%lo]\" has a zone, which is not supported; write the "
        "address without it, or [::] for all IPv6 addresses",
        "", 0),
    ROW("127.0.0.1:", "a port must be a number from 0 to 65535, not \"\"", "",
        10),
    ROW("127.0.0.1:65536",
        "a port must be a number from 0 to 65535, not \"65536\"", "", 10),
    ROW("127.0.0.1:http",
        "a port must be a number from 0 to 65535, not \"http\"", "", 10),
    ROW("127.0.0.1:-1", "a port must be a number from 0 to 65535, not \"-1\"",
        "", 10),
    ROW("unix:",
        "a unix socket needs a path; write one like "
        "unix:/run/sluice/http.sock",
        "", 0),
    ROW("unix:@x",
        "abstract unix sockets have no owner and no mode, so every local user "
        "could "
        "connect; write a path",
        "", 5),
    ROW("unix:/tmp/", "\"/tmp/\" is not the path of a file", "", 5),
    ROW("unix:" P107 "b",
        "the path of a unix socket has at most 107 bytes, not 108; write a "
        "shorter path",
        "", 5),
};

TEST(bad)
{
    for (size_t i = 0; i < SL_LEN(bad); i++) {
        struct sl_address a = {.len = 77};
        struct sl_diag diag = {0};

        CASE(bad[i].text);
        CHECK_EQ(sl_address_parse(sl_str_c(bad[i].text), &a, &diag),
                 SLUICE_ECONF);
        CHECK_STR(diag.sentence, bad[i].sentence);
        CHECK_STR(diag.hint, bad[i].hint);
        CHECK_EQ(diag.at, bad[i].at);
        CHECK_EQ(a.len, 77);
    }
    CASE("a NUL in a path is none");
    {
        struct sl_address a;

        CHECK_EQ(sl_address_parse(SL_STR("unix:/tmp/a\0b"), &a, NULL),
                 SLUICE_ECONF);
    }
}

TEST(peers)
{
    struct sl_address a = {.len = sizeof(sa_family_t)};
    struct sockaddr_in6 sin6 = {
        .sin6_family = AF_INET6,
        .sin6_addr = {{{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}}},
        .sin6_port = htons(9),
    };
    struct sl_ip ip = {{1}};
    char text[64], tiny[6];

    CASE("a client on a unix socket has no name and no address");
    a.bytes.ss_family = AF_UNIX;
    sl_address_print(&a, text, sizeof(text));
    CHECK_STR(text, "unix:");
    CHECK(!sl_address_ip(&a, &ip));
    CHECK_EQ(ip.bytes[0], 1);
    CHECK(sl_address_is_local(&a));

    CASE("IPv4 that comes by way of IPv6 is IPv4");
    memcpy(&a.bytes, &sin6, sizeof(sin6));
    a.len = sizeof(sin6);
    sl_address_print(&a, text, sizeof(text));
    CHECK_STR(text, "127.0.0.1:9");
    CHECK(sl_address_is_local(&a));
    CHECK(sl_address_ip(&a, &ip) && sl_ip_is_v4(&ip));

    CASE("printing stops where there is no more room");
    sl_address_print(&a, tiny, sizeof(tiny));
    CHECK_STR(tiny, "127.0");

    CASE("other families are unknown, and not local");
    a.bytes.ss_family = AF_UNSPEC;
    sl_address_print(&a, text, sizeof(text));
    CHECK_STR(text, "unknown");
    CHECK(!sl_address_is_local(&a));
    CHECK_EQ(sl_address_port(&a), 0);
}

CHECK_MAIN()
