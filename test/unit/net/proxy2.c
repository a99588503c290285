/* proxy2.c -- the header of the PROXY protocol, version 2. */
#include "net/proxy_protocol.h"

#include "check.h"
#include "proxy2_say.h"

static unsigned char bytes[70000];
static size_t size;

static void say_(unsigned vc, unsigned fp, const void *addresses, size_t len,
                 size_t tlvs)
{
    size = proxy2_say(bytes, vc, fp, addresses, len, tlvs);
}

/* Read it as it comes, never more than was wanted; it must say the same as
 * when it is there at once. */
static enum sl_proxy_header_result trickle(size_t at_once,
                                           struct sl_proxy_header *ret)
{
    size_t have = 0, need = SL_PROXY_HEADER_HEAD;

    for (;;) {
        size_t most = need < size ? need : size;
        enum sl_proxy_header_result result;

        have = have + at_once < most ? have + at_once : most;
        result = sl_proxy_header_read(bytes, have, ret);
        if (result != SL_PROXY_HEADER_MORE || have == size)
            return result;
        CHECK(ret->need > have);
        CHECK(ret->need <= SL_PROXY_HEADER_KEPT);
        need = ret->need;
    }
}

static enum sl_proxy_header_result read_all(struct sl_proxy_header *ret)
{
    enum sl_proxy_header_result whole = sl_proxy_header_read(bytes, size, ret);
    struct sl_proxy_header other;

    for (size_t at_once = 1; at_once <= 17; at_once++) {
        CHECK_EQ(trickle(at_once, &other), whole);
        CHECK_EQ(other.size, ret->size);
        CHECK_EQ(other.local, ret->local);
        CHECK_EQ(other.has_ip, ret->has_ip);
        CHECK_EQ(other.port, ret->port);
        CHECK(memcmp(&other.ip, &ret->ip, sizeof(ret->ip)) == 0);
        CHECK_STR(other.why, ret->why);
    }
    return whole;
}

static void is_client(const char *ip, unsigned port)
{
    struct sl_proxy_header h;
    char text[SL_IP_TEXT];

    CHECK_EQ(read_all(&h), SL_PROXY_HEADER_DONE);
    CHECK(h.has_ip && !h.local);
    CHECK_EQ(h.size, size);
    sl_ip_print(&h.ip, text);
    CHECK_STR(text, ip);
    CHECK_EQ(h.port, port);
}

TEST(clients)
{
    struct sl_proxy_header h;
    static const char path[2 * 108] = "/run/x";

    CASE("IPv4");
    say_(0x21, 0x11, PROXY2_TCP4, 12, 0);
    is_client("203.0.113.9", 4711);
    CASE("with TLVs behind it");
    say_(0x21, 0x11, PROXY2_TCP4, 12, 300);
    is_client("203.0.113.9", 4711);
    CASE("IPv6");
    say_(0x21, 0x21, PROXY2_TCP6, 36, 7);
    is_client("2001:db8::9", 4711);
    CASE("mapped IPv4 is IPv4");
    say_(0x21, 0x21, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xcb\x00\x71\x09" PROXY2_TCP6,
         36, 0);
    is_client("203.0.113.9", 0);
    CASE("a unix socket has no address");
    say_(0x21, 0x31, path, sizeof(path), 0);
    CHECK_EQ(read_all(&h), SL_PROXY_HEADER_DONE);
    CHECK(!h.has_ip && !h.local);
    CASE("nor has an unknown family, whatever is behind it");
    say_(0x21, 0x00, PROXY2_TCP4, 12, 0);
    CHECK_EQ(read_all(&h), SL_PROXY_HEADER_DONE);
    CHECK(!h.has_ip && !h.local);
    CASE("the balancer's own");
    say_(0x20, 0x00, NULL, 0, 0);
    CHECK_EQ(read_all(&h), SL_PROXY_HEADER_DONE);
    CHECK(h.local && !h.has_ip);
    CHECK_EQ(h.size, 16);
    CASE("of which no address counts, good or bad");
    say_(0x20, 0x11, PROXY2_TCP4, 12, 3);
    CHECK_EQ(read_all(&h), SL_PROXY_HEADER_DONE);
    CHECK(h.local && !h.has_ip);
    CHECK_EQ(h.size, 31);
    say_(0x20, 0xff, NULL, 0, 3);
    CHECK_EQ(read_all(&h), SL_PROXY_HEADER_DONE);
}

static void is_refused(const char *what, const char *why)
{
    struct sl_proxy_header h;

    CASE(what);
    CHECK_EQ(read_all(&h), SL_PROXY_HEADER_REFUSED);
    CHECK(h.why && strstr(h.why, why));
}

static void is_refused_text(const char *what, const char *text, const char *why)
{
    size = strlen(text);
    memcpy(bytes, text, size);
    is_refused(what, why);
}

TEST(refused)
{
    is_refused_text("a request", "GET / HTTP/1.1\r\n", "missing PROXY header");
    is_refused_text("almost version 1", "PROXX TCP4 ", "missing PROXY header");
    is_refused_text("version 1", "PROXY TCP4 203.0.113.9 10.0.0.1 1 2\r\n",
                    "version 1");
    say_(0x11, 0x11, PROXY2_TCP4, 12, 0);
    is_refused("version 1 in binary", "neither LOCAL nor PROXY");
    say_(0x31, 0x11, PROXY2_TCP4, 12, 0);
    is_refused("version 3", "neither LOCAL nor PROXY");
    say_(0x22, 0x11, PROXY2_TCP4, 12, 0);
    is_refused("an unknown command", "neither LOCAL nor PROXY");
    for (unsigned fp = 1; fp < 256; fp++) {
        if (fp == 0x11 || fp == 0x21 || fp == 0x31)
            continue;
        say_(0x21, fp, NULL, 0, 250);
        is_refused("neither TCP nor unix", "does not describe a");
    }
    say_(0x21, 0x11, PROXY2_TCP4, 11, 0);
    is_refused("half an address", "ends within its addresses");
    say_(0x21, 0x21, PROXY2_TCP6, 35, 0);
    is_refused("half an IPv6 address", "ends within its addresses");
    say_(0x21, 0x31, bytes + 1000, 215, 0);
    is_refused("half a path", "ends within its addresses");
    say_(0x21, 0x11, PROXY2_TCP4, 12, 4096 - 16 - 12 + 1);
    is_refused("too long", "longer than 4096");
    say_(0x20, 0x00, NULL, 0, 65535);
    is_refused("too long, of the balancer's own", "longer than 4096");
    for (size_t i = 0; i < 12; i++) {
        say_(0x21, 0x11, PROXY2_TCP4, 12, 0);
        bytes[i] ^= 1;
        is_refused("a bit of the signature", "missing PROXY header");
    }
}

TEST(unfinished)
{
    struct sl_proxy_header h;

    CASE("nothing is decided before it is there");
    size = 0;
    CHECK_EQ(sl_proxy_header_read(bytes, 0, &h), SL_PROXY_HEADER_MORE);
    CHECK_EQ(h.need, 16);
    say_(0x21, 0x21, PROXY2_TCP6, 36, 100);
    for (size_t len = 0; len < 16 + 36; len++)
        CHECK_EQ(sl_proxy_header_read(bytes, len, &h), SL_PROXY_HEADER_MORE);
    CHECK_EQ(h.need, 16 + 36);
    CASE("the longest one");
    say_(0x21, 0x11, PROXY2_TCP4, 12, 4096 - 16 - 12);
    is_client("203.0.113.9", 4711);
}

CHECK_MAIN()
