/* proxy_protocol.c -- accepts connections that begin with a PROXY header.
 *
 * The header is read in steps: head, addresses, TLVs (dropped). The first read
 * happens before waiting, since most balancers send the header at once.
 *
 * Invariants.
 *   (1) pending->at <= pending->need, and <= header.size once it is complete:
 *       no byte behind the header is read.
 *   (2) A pending connection is in the list from add() to remove_pending();
 *       count is the length of the list.
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
#define DROPS          512 /* bytes of TLVs dropped at once */

struct pending {
    TAILQ_ENTRY(pending) link;
    struct sl_proxy_accept *owner;
    struct event event;
    struct sl_timer *timer;
    struct sl_address peer;
    struct sl_proxy_header header;
    int fd;
    bool complete; /* all but TLVs was read */
    size_t at;     /* bytes read */
    size_t need;   /* (1) */
    unsigned char bytes[SL_PROXY_HEADER_KEPT];
};

struct sl_proxy_accept {
    struct sl_loop *loop;
    struct sl_proxy_accept_options options;
    TAILQ_HEAD(, pending) list;
    unsigned count;
};

/* Free it, but leave its descriptor open. */
static void remove_pending(struct pending *g)
{
    struct sl_proxy_accept *p = g->owner;

    event_del(&g->event);
    sl_timer_free(g->timer);
    TAILQ_REMOVE(&p->list, g, link);
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

static void refuse_pending(struct pending *g, const char *why)
{
    struct sl_proxy_accept *p = g->owner;
    struct sl_address peer = g->peer;
    int fd = g->fd;

    remove_pending(g);
    refuse(p, fd, &peer, why);
}

/* The client's address, as accept() would return it. */
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

static void pass_on(struct pending *g)
{
    struct sl_proxy_accept_options o = g->owner->options;
    struct sl_address client =
        g->header.local ? g->peer : client_of(&g->header);
    int fd = g->fd;

    remove_pending(g);
    o.on_accept(o.server, fd, &client);
}

/* Read no further than the known part of the header. */
static ssize_t read_some(struct pending *g)
{
    unsigned char dropped[DROPS];
    size_t left = g->need - g->at;

    if (!g->complete)
        return recv(g->fd, g->bytes + g->at, left, 0);
    return recv(g->fd, dropped, left < DROPS ? left : DROPS, 0);
}

/* Parse what was read. False: `g` is freed. */
static bool advance(struct pending *g)
{
    if (!g->complete) {
        switch (sl_proxy_header_read(g->bytes, g->at, &g->header)) {
        case SL_PROXY_HEADER_REFUSED:
            refuse_pending(g, g->header.why);
            return false;
        case SL_PROXY_HEADER_MORE:
            g->need = g->header.need;
            return true;
        case SL_PROXY_HEADER_DONE:
            g->complete = true;
            g->need = g->header.size;
        }
    }
    if (g->at < g->need)
        return true;
    pass_on(g);
    return false;
}

static void read_header(struct pending *g)
{
    ssize_t n;

    do {
        n = read_some(g);
        if (n > 0)
            g->at += (size_t)n;
    } while (n > 0 && advance(g));
    if (n > 0)
        return; /* freed */
    if (n == 0)
        refuse_pending(g, "the connection was closed within its PROXY header");
    else if (errno != EAGAIN && errno != EINTR)
        refuse_pending(g, "the connection failed within its PROXY header");
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    read_header(arg);
}

static void on_deadline(void *ctx)
{
    refuse_pending(ctx, "the PROXY header did not arrive in time");
}

/* Add a connection to the list. NULL without memory. */
static struct pending *add(struct sl_proxy_accept *p, int fd,
                           const struct sl_address *peer)
{
    struct pending *g = sl_alloc_new(p->options.alloc, sizeof(*g));

    if (!g)
        return NULL;
    *g = (struct pending){
        .owner = p, .peer = *peer, .fd = fd, .need = SL_PROXY_HEADER_HEAD};
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
    TAILQ_INSERT_TAIL(&p->list, g, link); /* (2) */
    p->count++;
    return g;
}

void sl_proxy_accept_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_proxy_accept *p = ctx;
    struct pending *g;

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
    g = add(p, fd, peer);
    if (g)
        read_header(g);
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
    TAILQ_INIT(&p->list);
    *ret = p;
    return 0;
}

void sl_proxy_accept_close(struct sl_proxy_accept *p)
{
    struct pending *g;

    if (!p)
        return;
    while ((g = TAILQ_FIRST(&p->list)) != NULL) {
        close(g->fd);
        remove_pending(g);
    }
    sl_alloc_free(p->options.alloc, p, sizeof(*p));
}

unsigned sl_proxy_accept_count(const struct sl_proxy_accept *p)
{
    return p->count;
}

/* ---- the PROXY header, version 2 ---- */

#define SIGNATURE_LEN 12

static const unsigned char signature[SIGNATURE_LEN + 1] =
    "\r\n\r\n\0\r\nQUIT\n";
static const char version1[] = "PROXY ";

/* Family and protocol. */
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

/* Are the bytes so far the beginning of `text`? */
static bool may_be(const unsigned char *bytes, size_t len, const void *text,
                   size_t size)
{
    return memcmp(bytes, text, len < size ? len : size) == 0;
}

/* There is no signature of version 2. */
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

/* Size of both addresses and ports; -1: unknown family. */
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

/* Layout: client's address, our address, client's port, our port. */
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
    if (ret->local) /* its addresses are ignored */
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
