/* proxy_protocol.c -- connections that begin with whom they are for. */
#include "net/proxy_protocol.h"

#include "fail.h"
#include "proxy2_say.h"
#include "turns.h"

/* The door, and what it was told. */
static struct {
    bool trusts;
    unsigned accepted, refused;
    int fd; /* the last, or -1 */
    struct sl_address peer;
    char why[256];
} door;

static void on_accept(void *ctx, int fd, const struct sl_address *peer)
{
    (void)ctx;
    door.accepted++;
    door.fd = fd;
    door.peer = *peer;
}

static bool trusts(void *ctx, const struct sl_address *peer)
{
    (void)ctx;
    (void)peer;
    return door.trusts;
}

static void on_refused(void *ctx, const struct sl_address *peer,
                       const char *why)
{
    (void)ctx;
    (void)peer;
    door.refused++;
    snprintf(door.why, sizeof(door.why), "%s", why);
}

static struct sl_proxy_accept *open_preface(struct rig *rig, unsigned most,
                                            sl_ns deadline)
{
    struct sl_proxy_accept_options options = {.on_accept = on_accept,
                                              .trusts = trusts,
                                              .on_refused = on_refused,
                                              .deadline = deadline,
                                              .most = most,
                                              .alloc = &sl_alloc_libc};
    struct sl_proxy_accept *preface = NULL;

    memset(&door, 0, sizeof(door));
    door.trusts = true;
    door.fd = -1;
    CHECK_EQ(sl_proxy_accept_open(rig->loop, &options, &preface), 0);
    return preface;
}

/* Connect; the client's end. */
static int come(struct sl_proxy_accept *preface)
{
    struct sl_address peer;
    int fds[2];

    pair(fds);
    CHECK_EQ(sl_address_parse(SL_STR("10.0.0.1:80"), &peer, NULL), 0);
    door.fd = -1;
    sl_proxy_accept_accept(preface, fds[0], &peer);
    return fds[1];
}

static void send_bytes(int fd, const void *bytes, size_t len)
{
    CHECK_EQ(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

static const char *shown(void)
{
    static char text[128];

    sl_address_print(&door.peer, text, sizeof(text));
    return text;
}

/* A header in pieces of `at_once`, then "hello": the door gets the client, and
 * all that is behind the header. */
static void hand_on(struct rig *rig, const unsigned char *bytes, size_t len,
                    size_t at_once, const char *want)
{
    struct sl_proxy_accept *preface = open_preface(rig, 10, 60 * SL_S);
    int client = come(preface);

    for (size_t at = 0; at < len; at += at_once) {
        CHECK_EQ(door.accepted, 0);
        send_bytes(client, bytes + at, len - at < at_once ? len - at : at_once);
        if (at_once < len) {
            turn(rig);
            turn(rig);
        }
    }
    say(client, "hello");
    WAIT_FOR(rig, door.accepted == 1);
    CHECK_STR(shown(), want);
    CHECK_STR(hear(door.fd), "hello");
    CHECK_EQ(sl_proxy_accept_count(preface), 0);
    CHECK_EQ(door.refused, 0);
    close(door.fd);
    close(client);
    sl_proxy_accept_close(preface);
}

TEST_WITH(hand_on, struct rig *rig)
{
    unsigned char bytes[5000];
    static const char path[2 * 108] = "/run/x";
    size_t len = proxy2_say(bytes, 0x21, 0x11, PROXY2_TCP4, 12, 5);

    CASE("IPv4, split at every byte");
    for (size_t at_once = 1; at_once <= len; at_once++)
        hand_on(rig, bytes, len, at_once, "203.0.113.9:4711");
    CASE("IPv6, and TLVs that are long");
    len = proxy2_say(bytes, 0x21, 0x21, PROXY2_TCP6, 36, 4000);
    hand_on(rig, bytes, len, len, "[2001:db8::9]:4711");
    hand_on(rig, bytes, len, 700, "[2001:db8::9]:4711");
    CASE("a client without an address is unknown");
    len = proxy2_say(bytes, 0x21, 0x31, path, sizeof(path), 1);
    hand_on(rig, bytes, len, 50, "unknown");
    CHECK(!sl_address_is_unix(&door.peer) && !sl_address_is_local(&door.peer));
    len = proxy2_say(bytes, 0x21, 0x00, NULL, 0, 0);
    hand_on(rig, bytes, len, len, "unknown");
    CASE("the balancer's own");
    len = proxy2_say(bytes, 0x20, 0x11, PROXY2_TCP4, 12, 0);
    hand_on(rig, bytes, len, 9, "10.0.0.1:80");
}

TEST_WITH(at_once, struct rig *rig)
{
    struct sl_proxy_accept *preface = open_preface(rig, 10, 60 * SL_S);
    unsigned char bytes[64];
    size_t len = proxy2_say(bytes, 0x21, 0x11, PROXY2_TCP4, 12, 0);
    struct sl_address peer;
    int fds[2];

    CASE("a header that is there already is not waited for");
    pair(fds);
    send_bytes(fds[1], bytes, len);
    CHECK_EQ(sl_address_parse(SL_STR("10.0.0.1:80"), &peer, NULL), 0);
    sl_proxy_accept_accept(preface, fds[0], &peer);
    CHECK_EQ(door.accepted, 1);
    close(door.fd);
    close(fds[1]);
    sl_proxy_accept_close(preface);
}

static void is_refused(struct rig *rig, int client, const char *why)
{
    WAIT_FOR(rig, door.refused > 0);
    CHECK(strstr(door.why, why));
    CHECK_STR(hear(client), "-");
    CHECK_EQ(door.accepted, 0);
    close(client);
}

TEST_WITH(refused, struct rig *rig)
{
    struct sl_proxy_accept *preface = open_preface(rig, 10, 60 * SL_S);
    unsigned char bytes[64];
    int client;

    CASE("who is not trusted is not even heard");
    door.trusts = false;
    client = come(preface);
    is_refused(rig, client, "is not a trusted proxy");
    door.trusts = true;

    CASE("no header");
    door.refused = 0;
    client = come(preface);
    say(client, "X");
    is_refused(rig, client, "missing PROXY header");

    CASE("version 1");
    door.refused = 0;
    client = come(preface);
    say(client, "PROXY ");
    is_refused(rig, client, "version 1");

    CASE("an end within it");
    door.refused = 0;
    client = come(preface);
    proxy2_say(bytes, 0x21, 0x11, PROXY2_TCP4, 12, 0);
    send_bytes(client, bytes, 27);
    shutdown(client, SHUT_WR);
    is_refused(rig, client, "closed within");
    CHECK_EQ(sl_proxy_accept_count(preface), 0);
    sl_proxy_accept_close(preface);
}

TEST_WITH(bounds, struct rig *rig)
{
    struct sl_proxy_accept *preface = open_preface(rig, 2, 50 * SL_MS);
    int slow = come(preface), silent = come(preface), third;

    CASE("so many at once");
    CHECK_EQ(sl_proxy_accept_count(preface), 2);
    third = come(preface);
    is_refused(rig, third, "too many");

    CASE("a deadline that bytes do not move");
    door.refused = 0;
    send_bytes(slow, "\r\n\r\n", 4);
    WAIT_FOR(rig, door.refused == 2);
    CHECK(strstr(door.why, "in time"));
    CHECK_STR(hear(slow), "-");
    CHECK_STR(hear(silent), "-");
    CHECK_EQ(sl_proxy_accept_count(preface), 0);
    close(slow);
    close(silent);

    CASE("closing takes all with it");
    slow = come(preface);
    sl_proxy_accept_close(preface);
    CHECK_STR(hear(slow), "-");
    close(slow);
    sl_proxy_accept_close(NULL);
}

TEST_WITH(faults, struct rig *rig)
{
    CASE("no memory for a guest");
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct fail fail = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&fail);
        struct sl_proxy_accept_options options = {.on_accept = on_accept,
                                                  .trusts = trusts,
                                                  .on_refused = on_refused,
                                                  .alloc = &alloc};
        struct sl_proxy_accept *preface = NULL;
        int client, err = sl_proxy_accept_open(rig->loop, &options, &preface);

        CHECK_EQ(err, nth == 1 ? SLUICE_ENOMEM : 0);
        if (!err) {
            memset(&door, 0, sizeof(door));
            door.trusts = true;
            client = come(preface);
            is_refused(rig, client, "out of memory");
        }
        sl_proxy_accept_close(preface);
        fail_check(&fail);
    }
}

int main(void)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RUN_TESTS_WITH(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
