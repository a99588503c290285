/* conn.c -- opens, connects and closes connections; the owner's calls.
 *
 * All connections of a loop stand in one array without gaps, each beside its
 * deadline. Setting a deadline writes one number; a sweep checks all of them
 * four times a second, in some microseconds for ten thousand. Timers would have
 * to be moved twice with every request.
 *
 * The owner may call from a callback of this connection, of another one, or of
 * a store. These calls free nothing. Within an event of the same connection
 * sl_conn_io_settle() follows; otherwise sl_conns_defer() schedules it for the
 * end of the turn.
 */
#include "net/conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "net/net_int.h"

#define SWEEP       (250 * SL_MS)
#define FLUSH_TIME  (5 * SL_S)    /* to send `out` after sl_conn_finish() */
#define LINGER      (2 * SL_S)    /* to wait for the end of the peer */
#define LINGER_LAST (200 * SL_MS) /* the same during shutdown */
#define FIRST_SIZE  16

static struct sl_conn_impl *inner(struct sl_conn *conn)
{
    return (struct sl_conn_impl *)conn;
}

/* ---- the set ---- */

static void defer(struct sl_conn_impl *c)
{
    struct sl_conns *conns = c->set;

    if (c->busy || c->is_deferred)
        return;
    c->is_deferred = true;
    if (TAILQ_EMPTY(&conns->deferred))
        event_active(&conns->later, EV_TIMEOUT, 0);
    TAILQ_INSERT_TAIL(&conns->deferred, c, deferred);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct sl_conns *conns = arg;
    struct sl_conn_impl *c;

    (void)fd;
    (void)what;
    while ((c = TAILQ_FIRST(&conns->deferred)) != NULL) {
        TAILQ_REMOVE(&conns->deferred, c, deferred);
        c->is_deferred = false;
        c->busy = true;
        sl_conn_io_settle(c);
    }
}

static void on_turn(void *ctx)
{
    struct sl_conns *conns = ctx;
    struct sl_conn_impl *c;

    while ((c = TAILQ_FIRST(&conns->yielded)) != NULL) {
        TAILQ_REMOVE(&conns->yielded, c, yielded);
        c->yields = false;
        sl_conn_pause(&c->face, false); /* on_input follows */
    }
}

static void expire(struct sl_conn_impl *c)
{
    struct sl_conn *face = &c->face;
    struct sl_conn_entry *slot = &c->set->slots[c->slot];

    slot->deadline = SL_NS_MAX;
    c->busy = true;
    if (c->state == SL_CONN_OPEN && face->calls->on_deadline)
        face->calls->on_deadline(face);
    else
        c->doomed = true;
    slot = &c->set->slots[c->slot]; /* the array may have moved */
    if (c->state == SL_CONN_OPEN && slot->deadline == SL_NS_MAX) {
        if (face->out.len > 0)
            sl_conn_finish(face);
        else
            c->doomed = true;
    }
    sl_conn_io_settle(c);
}

/* Close it without a last answer. */
static void doom(struct sl_conn_impl *c)
{
    c->busy = true;
    c->doomed = true;
    sl_conn_io_settle(c);
}

/* Downwards: the last connection, already checked, takes a freed place. */
static void on_sweep(void *ctx)
{
    struct sl_conns *conns = ctx;
    sl_ns now = sl_loop_mono(conns->loop);

    for (unsigned i = conns->count; i-- > 0;)
        if (conns->slots[i].deadline <= now)
            expire(conns->slots[i].conn);
        else if (conns->slots[i].taken_by <= now)
            doom(conns->slots[i].conn);
    if (conns->count > 0)
        sl_timer_start(conns->sweep, SWEEP);
}

int sl_conns_open(struct sl_loop *loop, unsigned most, struct sl_conns **ret)
{
    struct sl_conns *conns = sl_alloc_new(&sl_alloc_libc, sizeof(*conns));
    int err;

    if (!conns)
        return SLUICE_ENOMEM;
    *conns = (struct sl_conns){.loop = loop, .most = most, .linger = LINGER};
    TAILQ_INIT(&conns->deferred);
    TAILQ_INIT(&conns->yielded);
    event_assign(&conns->later, sl_loop_base(loop), -1, 0, on_later, conns);
    err = sl_timer_new(loop, on_sweep, conns, &conns->sweep);
    if (!err)
        err = sl_timer_new(loop, on_turn, conns, &conns->turn);
    if (err) {
        sl_timer_free(conns->sweep);
        sl_alloc_free(&sl_alloc_libc, conns, sizeof(*conns));
        return err;
    }
    *ret = conns;
    return 0;
}

void sl_conns_shorten_linger(struct sl_conns *conns)
{
    conns->linger = LINGER_LAST;
    for (unsigned i = 0; i < conns->count; i++)
        if (conns->slots[i].conn->state == SL_CONN_LINGERING)
            sl_conn_set_deadline(conns->slots[i].conn, LINGER_LAST);
}

void sl_conns_close(struct sl_conns *conns)
{
    if (!conns)
        return;
    while (conns->count > 0)
        sl_conn_free(conns->slots[conns->count - 1].conn);
    event_del(&conns->later);
    sl_timer_free(conns->sweep);
    sl_timer_free(conns->turn);
    sl_buf_pool_done(&conns->pool);
    sl_alloc_free(&sl_alloc_libc, conns->slots,
                  conns->size * sizeof(*conns->slots));
    sl_alloc_free(&sl_alloc_libc, conns, sizeof(*conns));
}

unsigned sl_conns_count(const struct sl_conns *conns)
{
    return conns->count;
}

/* `f` can't free a connection, so the index stays valid. */
void sl_conns_each(struct sl_conns *conns, sl_conn_f *f, void *ctx)
{
    for (unsigned i = 0; i < conns->count; i++)
        f(&conns->slots[i].conn->face, ctx);
}

/* ---- one connection ---- */

static int grow(struct sl_conns *conns)
{
    const struct sl_alloc *libc = &sl_alloc_libc;
    unsigned size = conns->size ? 2 * conns->size : FIRST_SIZE;
    struct sl_conn_entry *slots;

    if (conns->count < conns->size)
        return 0;
    slots = libc->resize(libc->ctx, conns->slots, conns->size * sizeof(*slots),
                         size * sizeof(*slots));
    if (!slots)
        return SLUICE_ENOMEM;
    conns->slots = slots;
    conns->size = size;
    return 0;
}

static void enter(struct sl_conns *conns, struct sl_conn_impl *c)
{
    if (conns->count == 0)
        sl_timer_start(conns->sweep, SWEEP);
    c->slot = conns->count++;
    conns->slots[c->slot] =
        (struct sl_conn_entry){SL_NS_MAX, SL_NS_MAX, c}; /* (3) */
}

static void leave(struct sl_conn_impl *c)
{
    struct sl_conns *conns = c->set;

    conns->slots[c->slot] = conns->slots[--conns->count];
    conns->slots[c->slot].conn->slot = c->slot; /* (3) */
    if (conns->count == 0)
        sl_timer_stop(conns->sweep);
}

static void unwatch_close(struct sl_conn_impl *c)
{
    if (c->gone)
        event_free(c->gone);
    c->gone = NULL;
}

/* Free all but the place in the set. */
static void release(struct sl_conn_impl *c)
{
    event_del(&c->readable);
    event_del(&c->writable);
    unwatch_close(c);
    SSL_free(c->ssl);
    sl_tls_unref(c->tls);
    sl_buf_done(&c->face.in);
    sl_buf_done(&c->face.out);
    close(c->fd);
    sl_alloc_free(c->alloc, c, sizeof(*c));
}

void sl_conn_free(struct sl_conn_impl *c)
{
    struct sl_conns *conns = c->set;

    c->state = SL_CONN_CLOSED;
    c->busy = true;
    if (c->is_deferred)
        TAILQ_REMOVE(&conns->deferred, c, deferred);
    if (c->yields)
        TAILQ_REMOVE(&conns->yielded, c, yielded);
    if (c->face.calls->on_close)
        c->face.calls->on_close(&c->face);
    leave(c);
    sl_buf_clear(&c->face.in);
    sl_buf_clear(&c->face.out);
    sl_buf_pool_put(&conns->pool, &c->face.in);
    sl_buf_pool_put(&conns->pool, &c->face.out);
    sl_conn_io_count(c);
    release(c);
}

static void fill_face(struct sl_conn_impl *c, const struct sl_address *peer,
                      const struct sl_conn_options *options)
{
    struct sl_conn *face = &c->face;

    face->calls = options->calls;
    face->owner = options->owner;
    face->loop = c->set->loop;
    face->is_unix = !peer || sl_address_is_unix(peer);
    face->is_local = !peer || sl_address_is_local(peer);
    face->has_ip = peer && sl_address_ip(peer, &face->ip);
    sl_buf_init(&face->in, options->in_most, options->alloc);
    sl_buf_init(&face->out, options->out_most, options->alloc);
}

/* A connection that is in no set yet, or NULL. */
static struct sl_conn_impl *make(struct sl_conns *conns, int fd,
                                 const struct sl_address *peer,
                                 const struct sl_conn_options *options)
{
    struct event_base *base = sl_loop_base(conns->loop);
    struct sl_conn_impl *c = sl_alloc_new(options->alloc, sizeof(*c));

    if (!c)
        return NULL;
    *c = (struct sl_conn_impl){
        .set = conns,
        .alloc = options->alloc,
        .out_high = options->out_high,
        .fd = fd,
        .state = options->tls ? SL_CONN_HANDSHAKE : SL_CONN_OPEN,
        .tls = sl_tls_ref(options->tls),
    };
    fill_face(c, peer, options);
    event_assign(&c->readable, base, fd, EV_READ | EV_PERSIST,
                 sl_conn_io_readable, c);
    event_assign(&c->writable, base, fd, EV_WRITE | EV_PERSIST,
                 sl_conn_io_writable, c);
    return c;
}

static int start(struct sl_conn_impl *c, const char *server_name)
{
    int err = grow(c->set);

    if (err)
        return err;
    if (c->tls) {
        c->ssl = sl_tls_conn_open(c->tls, c->fd, server_name);
        if (!c->ssl)
            return SLUICE_ENOMEM;
    }
    sl_conn_io_watch(c);
    return c->doomed ? SLUICE_ESYS : 0;
}

/* Add it to the set; on failure release it. */
static int begin(struct sl_conn_impl *c, const char *server_name)
{
    int err = start(c, server_name);

    if (err)
        release(c);
    else
        enter(c->set, c);
    return err;
}

int sl_conn_open(struct sl_conns *conns, int fd, const struct sl_address *peer,
                 const struct sl_conn_options *options, struct sl_conn **ret)
{
    struct sl_conn_impl *c = NULL;
    int err = SLUICE_EFULL;

    if (conns->count < conns->most) {
        c = make(conns, fd, peer, options);
        err = SLUICE_ENOMEM;
    }
    if (!c) {
        close(fd);
        return err;
    }
    err = begin(c, NULL);
    if (!err)
        *ret = &c->face;
    return err;
}

/* ---- the owner's calls ---- */

void sl_conn_set_deadline(struct sl_conn_impl *c, sl_ns after)
{
    sl_ns at = SL_NS_MAX;

    if (after > 0)
        at = sl_ns_add_sat(sl_loop_mono(c->set->loop), after);
    c->set->slots[c->slot].deadline = at;
}

void sl_conn_deadline(struct sl_conn *conn, sl_ns after)
{
    struct sl_conn_impl *c = inner(conn);

    if (c->state <= SL_CONN_OPEN)
        sl_conn_set_deadline(c, after);
}

void sl_conn_flush(struct sl_conn *conn)
{
    struct sl_conn_impl *c = inner(conn);

    if (c->state == SL_CONN_CLOSED || c->doomed)
        return;
    sl_conn_io_flush(c);
    if (c->busy)
        return;
    if (!c->doomed)
        sl_conn_io_watch(c);
    if (c->doomed)
        defer(c);
}

void sl_conn_push(struct sl_conn *conn)
{
    struct sl_conn_impl *c = inner(conn);

    if (c->state != SL_CONN_CLOSED)
        defer(c);
}

void sl_conn_finish(struct sl_conn *conn)
{
    struct sl_conn_impl *c = inner(conn);
    sl_ns by;

    if (c->state < SL_CONN_OPEN) {
        sl_conn_abort(conn); /* nothing can be sent yet */
        return;
    }
    if (c->state != SL_CONN_OPEN)
        return;
    c->state = SL_CONN_FLUSHING;
    by = c->set->slots[c->slot].deadline;
    sl_conn_set_deadline(c, FLUSH_TIME);
    if (by < c->set->slots[c->slot].deadline)
        c->set->slots[c->slot].deadline = by;
    defer(c);
}

void sl_conn_abort(struct sl_conn *conn)
{
    struct sl_conn_impl *c = inner(conn);

    if (c->state == SL_CONN_CLOSED)
        return;
    c->doomed = true;
    defer(c);
}

bool sl_conn_is_full(const struct sl_conn *conn)
{
    const struct sl_conn_impl *c = (const struct sl_conn_impl *)conn;

    return conn->out.len > c->out_high;
}

void sl_conn_pause(struct sl_conn *conn, bool pause)
{
    struct sl_conn_impl *c = inner(conn);

    if (c->state == SL_CONN_CLOSED || c->paused == pause)
        return;
    c->paused = pause;
    if (pause)
        return;
    unwatch_close(c);
    c->fresh |= conn->in.len > 0;
    if (c->busy)
        return;
    if (!c->doomed)
        sl_conn_io_watch(c);
    if (c->fresh || c->ended || c->doomed ||
        (c->ssl && sl_tls_conn_pending(c->ssl)))
        defer(c);
}

void sl_conn_yield(struct sl_conn *conn)
{
    struct sl_conn_impl *c = inner(conn);
    struct sl_conns *conns = c->set;

    if (c->state == SL_CONN_CLOSED || c->yields)
        return;
    if (TAILQ_EMPTY(&conns->yielded))
        sl_timer_start(conns->turn, 0);
    TAILQ_INSERT_TAIL(&conns->yielded, c, yielded);
    c->yields = true;
    sl_conn_pause(conn, true);
}

/* Unread input hides the end of the peer from recv(). */
static void on_gone(evutil_socket_t fd, short what, void *arg)
{
    struct sl_conn_impl *c = arg;

    (void)fd;
    (void)what;
    if (c->state != SL_CONN_OPEN)
        return;
    c->busy = true;
    c->doomed = true;
    sl_conn_io_settle(c);
}

void sl_conn_watch_close(struct sl_conn *conn)
{
    struct sl_conn_impl *c = inner(conn);

    if (c->gone || c->state != SL_CONN_OPEN || c->doomed)
        return;
    c->gone =
        event_new(sl_loop_base(c->set->loop), c->fd, EV_CLOSED, on_gone, c);
    /* Without memory the wait ends by its deadline. */
    if (c->gone && event_add(c->gone, NULL))
        unwatch_close(c);
}

/* ---- connect: the socket becomes writable when it has finished ---- */

void sl_conn_connected(struct sl_conn_impl *c)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error) {
        c->doomed = true;
        return;
    }
    c->state = c->ssl ? SL_CONN_HANDSHAKE : SL_CONN_OPEN;
    c->fresh_open = !c->ssl;
}

/* A socket that connects to `to`, or -1. */
static int dial(const struct sl_address *to)
{
    int fd = socket(to->bytes.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0)
        return -1;
    if (!sl_address_is_unix(to))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (const struct sockaddr *)&to->bytes, to->len) &&
        errno != EINPROGRESS && errno != EINTR) {
        close(fd);
        return -1;
    }
    return fd;
}

int sl_conn_connect(struct sl_conns *conns, const struct sl_address *to,
                    const struct sl_conn_options *options, struct sl_conn **ret)
{
    struct sl_conn_impl *c;
    int fd, err;

    if (conns->count >= conns->most)
        return SLUICE_EFULL;
    fd = dial(to);
    if (fd < 0)
        return SLUICE_ESYS;
    c = make(conns, fd, to, options);
    if (!c) {
        close(fd);
        return SLUICE_ENOMEM;
    }
    c->state = SL_CONN_CONNECTING;
    c->dialled = true;
    c->blocked = true; /* until it is writable */
    err = begin(c, options->server_name);
    if (!err)
        *ret = &c->face;
    return err;
}

/* ---- buffer pool: last in, first out, for the CPU cache ---- */

void sl_buf_pool_get(struct sl_buf_pool *pool, struct sl_buf *buf)
{
    unsigned last = pool->count - 1;

    if (buf->bytes || pool->count == 0 ||
        pool->pieces[last].size > buf->ceiling ||
        pool->pieces[last].alloc != buf->alloc)
        return;
    buf->bytes = pool->pieces[last].bytes;
    buf->size = pool->pieces[last].size;
    pool->count = last;
}

void sl_buf_pool_put(struct sl_buf_pool *pool, struct sl_buf *buf)
{
    assert(buf->len == 0);
    if (!buf->bytes)
        return;
    if (pool->count == SL_BUF_POOL_COUNT || buf->size > SL_BUF_POOL_MOST) {
        sl_buf_done(buf);
        return;
    }
    pool->pieces[pool->count].bytes = buf->bytes;
    pool->pieces[pool->count].size = buf->size;
    pool->pieces[pool->count].alloc = buf->alloc;
    pool->count++;
    buf->bytes = NULL;
    buf->size = 0;
}

void sl_buf_pool_done(struct sl_buf_pool *pool)
{
    while (pool->count > 0) {
        unsigned last = --pool->count;

        sl_alloc_free(pool->pieces[last].alloc, pool->pieces[last].bytes,
                      pool->pieces[last].size);
    }
}
