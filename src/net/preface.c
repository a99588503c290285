/* preface.c -- connections that begin with whom they are for.
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
#include "net/preface.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "net/proxy2.h"

#define USUAL_DEADLINE (3 * SL_S)
#define USUAL_MOST     1024
#define DROPS          512 /* at once, of TLVs */

struct guest {
    TAILQ_ENTRY(guest) link;
    struct sl_preface *preface;
    struct event event;
    struct sl_timer *timer;
    struct sl_address peer;
    struct sl_proxy2 header;
    int fd;
    bool understood; /* header is complete; TLVs may follow */
    size_t at;       /* bytes that were read */
    size_t need;     /* (1) */
    unsigned char bytes[SL_PROXY2_KEPT];
};

struct sl_preface {
    struct sl_loop *loop;
    struct sl_preface_options options;
    TAILQ_HEAD(, guest) guests;
    unsigned count;
};

/* ---- coming and going ---- */

/* All but his descriptor. */
static void dismiss(struct guest *g)
{
    struct sl_preface *p = g->preface;

    event_del(&g->event);
    sl_timer_free(g->timer);
    TAILQ_REMOVE(&p->guests, g, link);
    p->count--;
    sl_alloc_free(p->options.alloc, g, sizeof(*g));
}

static void refuse(struct sl_preface *p, int fd, const struct sl_address *peer,
                   const char *why)
{
    close(fd);
    if (p->options.on_refused)
        p->options.on_refused(p->options.ctx, peer, why);
}

static void send_away(struct guest *g, const char *why)
{
    struct sl_preface *p = g->preface;
    struct sl_address peer = g->peer;
    int fd = g->fd;

    dismiss(g);
    refuse(p, fd, &peer, why);
}

/* The client as if he had connected himself. */
static struct sl_address client_of(const struct sl_proxy2 *header)
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
    struct sl_preface_options o = g->preface->options;
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
        switch (sl_proxy2_read(g->bytes, g->at, &g->header)) {
        case SL_PROXY2_REFUSED:
            send_away(g, g->header.why);
            return false;
        case SL_PROXY2_MORE:
            g->need = g->header.need;
            return true;
        case SL_PROXY2_DONE:
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
static struct guest *greet(struct sl_preface *p, int fd,
                           const struct sl_address *peer)
{
    struct guest *g = sl_alloc_new(p->options.alloc, sizeof(*g));

    if (!g)
        return NULL;
    *g = (struct guest){
        .preface = p, .peer = *peer, .fd = fd, .need = SL_PROXY2_HEAD};
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

void sl_preface_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_preface *p = ctx;
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

int sl_preface_open(struct sl_loop *loop,
                    const struct sl_preface_options *options,
                    struct sl_preface **ret)
{
    struct sl_preface *p = sl_alloc_new(options->alloc, sizeof(*p));

    if (!p)
        return SLUICE_ENOMEM;
    *p = (struct sl_preface){.loop = loop, .options = *options};
    if (p->options.deadline == 0)
        p->options.deadline = USUAL_DEADLINE;
    if (p->options.most == 0)
        p->options.most = USUAL_MOST;
    TAILQ_INIT(&p->guests);
    *ret = p;
    return 0;
}

void sl_preface_close(struct sl_preface *preface)
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

unsigned sl_preface_count(const struct sl_preface *preface)
{
    return preface->count;
}
