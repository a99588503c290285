/* proxy_protocol.c -- connections that begin with whom they are for.
 *
 * The header is read in two or three steps, each as long as is known to belong
 * to it: the head, the addresses, and what is left, which is dropped. Most
 * balancers send it at once, so it is tried before the loop is asked to wait.
 *
 * Invariants.
 *   (1) guest->at <= guest->need, or <= size once the header is understood: no
 *       byte behind it is ever read.
 *   (2) A guest is in the list from greet() to dismiss(), and count says how
 *       many are.
 */
#include "net/proxy_protocol.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define USUAL_DEADLINE (3 * SL_S)
#define USUAL_MOST     1024
#define DROPS          512 /* at once, of TLVs */

struct guest {
    TAILQ_ENTRY(guest) link;
    struct sl_proxy_accept *preface;
    struct event event;
    struct sl_timer *timer;
    struct sl_address peer;
    struct sl_proxy_header header;
    int fd;
    bool understood; /* header is complete; TLVs may follow */
    size_t at;       /* bytes that were read */
    size_t need;     /* (1) */
    unsigned char bytes[SL_PROXY_HEADER_KEPT];
};

struct sl_proxy_accept {
    struct sl_loop *loop;
    struct sl_proxy_accept_options options;
    TAILQ_HEAD(, guest) guests;
    unsigned count;
};

/* ---- coming and going ---- */

/* All but his descriptor. */
static void dismiss(struct guest *g)
{
    struct sl_proxy_accept *p = g->preface;

    event_del(&g->event);
    sl_timer_free(g->timer);
    TAILQ_REMOVE(&p->guests, g, link);
    p->count--;
    sl_alloc_free(p->options.alloc, g, sizeof(*g));
}

static void refuse(struct sl_proxy_accept *p, int fd,
                   const struct sl_address *peer, const char *why)
{
    close(fd);
    if (p->options.on_refused)
        p->options.on_refused(p->options.ctx, peer, why);
}

static void send_away(struct guest *g, const char *why)
{
    struct sl_proxy_accept *p = g->preface;
    struct sl_address peer = g->peer;
    int fd = g->fd;

    dismiss(g);
    refuse(p, fd, &peer, why);
}

/* The client as if he had connected himself. */
static struct sl_address client_of(const struct sl_proxy_header *header)
{
    struct sl_address client = {.len = sizeof(sa_family_t)};
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};

    client.bytes.ss_family = AF_UNSPEC;
    if (!header->has_ip)
        return client;
    sin6.sin6_port = htons((uint16_t)header->port);
    memcpy(&sin6.sin6_addr, header->ip.bytes, sizeof(header->ip.bytes));
    memcpy(&client.bytes, &sin6, sizeof(sin6));
    client.len = sizeof(sin6);
    return client;
}

static void hand_on(struct guest *g)
{
    struct sl_proxy_accept_options o = g->preface->options;
    struct sl_address client =
        g->header.local ? g->peer : client_of(&g->header);
    int fd = g->fd;

    dismiss(g);
    o.on_accept(o.door, fd, &client);
}

/* ---- reading ---- */

/* As much as belongs to the header, or is known to. */
static ssize_t read_some(struct guest *g)
{
    unsigned char dropped[DROPS];
    size_t left = g->need - g->at;

    if (!g->understood)
        return recv(g->fd, g->bytes + g->at, left, 0);
    return recv(g->fd, dropped, left < DROPS ? left : DROPS, 0);
}

/* Some bytes more are there. False if it is over with him. */
static bool understand(struct guest *g)
{
    if (!g->understood) {
        switch (sl_proxy_header_read(g->bytes, g->at, &g->header)) {
        case SL_PROXY_HEADER_REFUSED:
            send_away(g, g->header.why);
            return false;
        case SL_PROXY_HEADER_MORE:
            g->need = g->header.need;
            return true;
        case SL_PROXY_HEADER_DONE:
            g->understood = true;
            g->need = g->header.size;
        }
    }
    if (g->at < g->need)
        return true;
    hand_on(g);
    return false;
}

static void read_on(struct guest *g)
{
    ssize_t n;

    do {
        n = read_some(g);
        if (n > 0)
            g->at += (size_t)n;
    } while (n > 0 && understand(g));
    if (n > 0)
        return; /* he is gone */
    if (n == 0)
        send_away(g, "the connection was closed within its PROXY header");
    else if (errno != EAGAIN && errno != EINTR)
        send_away(g, "the connection failed within its PROXY header");
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    read_on(arg);
}

static void on_deadline(void *ctx)
{
    send_away(ctx, "the PROXY header did not arrive in time");
}

/* ---- the list ---- */

/* A guest who has not been heard yet, or NULL: then there is no memory. */
static struct guest *greet(struct sl_proxy_accept *p, int fd,
                           const struct sl_address *peer)
{
    struct guest *g = sl_alloc_new(p->options.alloc, sizeof(*g));

    if (!g)
        return NULL;
    *g = (struct guest){
        .preface = p, .peer = *peer, .fd = fd, .need = SL_PROXY_HEADER_HEAD};
    event_assign(&g->event, sl_loop_base(p->loop), fd, EV_READ | EV_PERSIST,
                 on_readable, g);
    if (sl_timer_new(p->loop, on_deadline, g, &g->timer)) {
        sl_alloc_free(p->options.alloc, g, sizeof(*g));
        return NULL;
    }
    if (event_add(&g->event, NULL)) {
        sl_timer_free(g->timer);
        sl_alloc_free(p->options.alloc, g, sizeof(*g));
        return NULL;
    }
    sl_timer_start(g->timer, p->options.deadline);
    TAILQ_INSERT_TAIL(&p->guests, g, link); /* (2) */
    p->count++;
    return g;
}

void sl_proxy_accept_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_proxy_accept *p = ctx;
    struct guest *g;

    if (!p->options.trusts(p->options.ctx, peer)) {
        refuse(p, fd, peer,
               "the peer is not a trusted proxy; if it is your load balancer, "
               "add it to identity: trusted_proxies in the policy");
        return;
    }
    if (p->count == p->options.most) {
        refuse(p, fd, peer,
               "too many connections are waiting for their PROXY header");
        return;
    }
    g = greet(p, fd, peer);
    if (g)
        read_on(g);
    else
        refuse(p, fd, peer, "out of memory");
}

int sl_proxy_accept_open(struct sl_loop *loop,
                         const struct sl_proxy_accept_options *options,
                         struct sl_proxy_accept **ret)
{
    struct sl_proxy_accept *p = sl_alloc_new(options->alloc, sizeof(*p));

    if (!p)
        return SLUICE_ENOMEM;
    *p = (struct sl_proxy_accept){.loop = loop, .options = *options};
    if (p->options.deadline == 0)
        p->options.deadline = USUAL_DEADLINE;
    if (p->options.most == 0)
        p->options.most = USUAL_MOST;
    TAILQ_INIT(&p->guests);
    *ret = p;
    return 0;
}

void sl_proxy_accept_close(struct sl_proxy_accept *preface)
{
    struct guest *g;

    if (!preface)
        return;
    while ((g = TAILQ_FIRST(&preface->guests)) != NULL) {
        close(g->fd);
        dismiss(g);
    }
    sl_alloc_free(preface->options.alloc, preface, sizeof(*preface));
}

unsigned sl_proxy_accept_count(const struct sl_proxy_accept *preface)
{
    return preface->count;
}

/* ---- the header of the PROXY protocol, version 2. */

#define SIGNATURE_LEN 12

static const unsigned char signature[SIGNATURE_LEN + 1] =
    "\r\n\r\n\0\r\nQUIT\n";
static const char version1[] = "PROXY ";

/* Families and protocols: two digits of one byte. */
enum {
    UNSPEC = 0x00,
    TCP4 = 0x11,
    TCP6 = 0x21,
    UNIX = 0x31,
};

static enum sl_proxy_header_result header_refuse(struct sl_proxy_header *ret,
                                                 const char *why)
{
    ret->why = why;
    return SL_PROXY_HEADER_REFUSED;
}

static enum sl_proxy_header_result want(struct sl_proxy_header *ret,
                                        size_t need)
{
    ret->need = need;
    return SL_PROXY_HEADER_MORE;
}

/* Is what is there of `bytes` the beginning of `text`? */
static bool may_be(const unsigned char *bytes, size_t len, const void *text,
                   size_t size)
{
    return memcmp(bytes, text, len < size ? len : size) == 0;
}

/* The signature is not there. */
static enum sl_proxy_header_result refuse_other(const unsigned char *bytes,
                                                size_t len,
                                                struct sl_proxy_header *ret)
{
    size_t size = sizeof(version1) - 1;

    if (!may_be(bytes, len, version1, size))
        return header_refuse(ret,
                             "missing PROXY header; let the load balancer send "
                             "it, or remove this listener from proxy_protocol");
    if (len < size)
        return want(ret, SL_PROXY_HEADER_HEAD);
    return header_refuse(
        ret, "version 1 of the PROXY protocol is not supported; let "
             "the load balancer send version 2 (send-proxy-v2)");
}

static unsigned number(const unsigned char *bytes)
{
    return (unsigned)bytes[0] << 8 | bytes[1];
}

/* Bytes of both addresses and ports; -1 if the family is none of ours. */
static int addresses_size(unsigned char family)
{
    switch (family) {
    case UNSPEC:
        return 0;
    case TCP4:
        return 2 * (4 + 2);
    case TCP6:
        return 2 * (16 + 2);
    case UNIX:
        return 2 * 108;
    default:
        return -1;
    }
}

/* The first address is the client's; ours is between them and the ports. */
static void read_client(const unsigned char *at, unsigned char family,
                        struct sl_proxy_header *ret)
{
    static const struct sl_ip mapped = {
        {[10] = 0xff, [11] = 0xff}
    };

    ret->ip = mapped;
    ret->has_ip = family == TCP4 || family == TCP6;
    if (family == TCP4) {
        memcpy(ret->ip.bytes + 12, at, 4);
        ret->port = number(at + 2 * 4);
    } else if (family == TCP6) {
        memcpy(ret->ip.bytes, at, 16);
        ret->port = number(at + 2 * 16);
    }
}

enum sl_proxy_header_result sl_proxy_header_read(const unsigned char *bytes,
                                                 size_t len,
                                                 struct sl_proxy_header *ret)
{
    size_t behind;
    int addresses;

    *ret = (struct sl_proxy_header){.need = 0};
    if (!may_be(bytes, len, signature, SIGNATURE_LEN))
        return refuse_other(bytes, len, ret);
    if (len < SL_PROXY_HEADER_HEAD)
        return want(ret, SL_PROXY_HEADER_HEAD);
    if (bytes[12] >> 4 != 2 || (bytes[12] & 15) > 1)
        return header_refuse(ret,
                             "the PROXY header is neither LOCAL nor PROXY of "
                             "version 2");
    behind = number(bytes + 14);
    ret->local = (bytes[12] & 15) == 0;
    ret->size = SL_PROXY_HEADER_HEAD + behind;
    if (ret->size > SL_PROXY_HEADER_MOST)
        return header_refuse(ret, "the PROXY header is longer than 4096 bytes");
    if (ret->local) /* whatever it says of addresses */
        return SL_PROXY_HEADER_DONE;
    addresses = addresses_size(bytes[13]);
    if (addresses < 0)
        return header_refuse(ret,
                             "the PROXY header does not describe a TCP or unix "
                             "socket connection");
    if (behind < (size_t)addresses)
        return header_refuse(ret, "the PROXY header ends within its addresses");
    if (len < SL_PROXY_HEADER_HEAD + (size_t)addresses)
        return want(ret, SL_PROXY_HEADER_HEAD + (size_t)addresses);
    read_client(bytes + SL_PROXY_HEADER_HEAD, bytes[13], ret);
    return SL_PROXY_HEADER_DONE;
}
