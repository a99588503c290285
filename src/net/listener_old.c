/* listener.c -- taking connections.
 *
 * Level-triggered and bounded: at each wake-up at most BATCH connections are
 * taken, so that a storm of new ones does not keep the old ones waiting; what
 * is left wakes the loop again. accept4() gives the descriptor its flags, and
 * TCP_NODELAY is inherited from the listening socket (sockets.c): one system
 * call for each connection.
 *
 * Out of descriptors, accept() fails and the connection stays in the queue,
 * which would wake the loop again at once, for ever. So accepting pauses:
 *
 *     LISTENING --(EMFILE)--> take one with the spare, close it
 *         ^                             |
 *         +------(timer)------------- PAUSED   10 ms, doubling up to 1 s
 *
 * The pause is short again after a connection was taken.
 */
#include "net/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <unistd.h>

#define BATCH       32
#define PAUSE_FIRST (10 * SL_MS)
#define PAUSE_MOST  SL_S

struct sl_listener {
    struct event event;
    struct sl_timer *timer;
    sl_accept_f *on_accept;
    void *ctx;
    int fd;
    int spare; /* or -1, if it could not be had again */
    bool closed;
    bool taking; /* inside on_accept; closing waits */
    sl_ns pause;
    _Atomic uint64_t *paused; /* whoever counts it, or NULL */
};

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void free_listener(struct sl_listener *listener)
{
    sl_timer_free(listener->timer);
    if (listener->spare >= 0)
        close(listener->spare);
    sl_alloc_free(&sl_alloc_libc, listener, sizeof(*listener));
}

static int take(struct sl_listener *listener, struct sl_address *peer)
{
    *peer = (struct sl_address){.len = sizeof(peer->bytes)};
    return accept4(listener->fd, (void *)&peer->bytes, &peer->len,
                   SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void rest(struct sl_listener *listener)
{
    event_del(&listener->event);
    if (listener->paused)
        atomic_fetch_add_explicit(listener->paused, 1, memory_order_relaxed);
    sl_timer_start(listener->timer, listener->pause);
    listener->pause *= 2;
    if (listener->pause > PAUSE_MOST)
        listener->pause = PAUSE_MOST;
}

/* One client learns that we can't, rather than wait for its own patience to
 * end. Another thread may snatch the descriptor meanwhile; then the next pause
 * tries again. */
static void turn_one_away(struct sl_listener *listener)
{
    struct sl_address peer;
    int fd;

    if (listener->spare >= 0) {
        close(listener->spare);
        fd = take(listener, &peer);
        if (fd >= 0)
            close(fd);
    }
    listener->spare = open_spare();
}

/* May the next one be tried after this failure? */
static bool is_passing(int err)
{
    switch (err) {
    case EINTR:
    case ECONNABORTED: /* gone before we came; and what Linux passes on: */
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM: /* a firewall */
        return true;
    default:
        return false;
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct sl_listener *listener = arg;
    struct sl_address peer;

    (void)what;
    listener->taking = true;
    for (unsigned i = 0; i < BATCH && !listener->closed; i++) {
        fd = take(listener, &peer);
        if (fd >= 0) {
            listener->pause = PAUSE_FIRST;
            listener->on_accept(listener->ctx, fd, &peer);
        } else if (errno == EAGAIN) {
            break;
        } else if (!is_passing(errno)) {
            if (errno == EMFILE || errno == ENFILE)
                turn_one_away(listener);
            rest(listener); /* whatever else it is, spinning won't help */
            break;
        }
    }
    listener->taking = false;
    if (listener->closed)
        free_listener(listener);
}

static void on_rested(void *ctx)
{
    struct sl_listener *listener = ctx;

    if (listener->spare < 0)
        listener->spare = open_spare();
    if (event_add(&listener->event, NULL))
        rest(listener);
}

int sl_listener_open(struct sl_loop *loop, int fd, sl_accept_f *on_accept,
                     void *ctx, struct sl_listener **ret)
{
    struct sl_listener *listener;
    int err;

    listener = sl_alloc_new(&sl_alloc_libc, sizeof(*listener));
    if (!listener)
        return SLUICE_ENOMEM;
    *listener = (struct sl_listener){
        .on_accept = on_accept,
        .ctx = ctx,
        .fd = fd,
        .spare = open_spare(),
        .pause = PAUSE_FIRST,
    };
    err = sl_timer_new(loop, on_rested, listener, &listener->timer);
    if (err) {
        free_listener(listener);
        return err;
    }
    event_assign(&listener->event, sl_loop_base(loop), fd, EV_READ | EV_PERSIST,
                 on_readable, listener);
    if (event_add(&listener->event, NULL)) {
        free_listener(listener);
        return SLUICE_ESYS;
    }
    *ret = listener;
    return 0;
}

void sl_listener_close(struct sl_listener *listener)
{
    if (!listener)
        return;
    event_del(&listener->event);
    listener->closed = true;
    if (!listener->taking)
        free_listener(listener);
}

void sl_listener_watch(struct sl_listener *listener, _Atomic uint64_t *paused)
{
    listener->paused = paused;
}
