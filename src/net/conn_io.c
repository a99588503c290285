/* conn_io.c -- reads and writes the bytes of a connection.
 *
 * The usual request costs one recv() and one send(). The read event stays
 * added; the write event is added only when the socket is full. The socket is
 * read once per event: epoll is level-triggered, and other connections get
 * their turn.
 *
 * TLS holds bytes that epoll does not see. There reading goes on until they
 * are used up, and resumes after a pause without an event.
 *
 * The read event is removed while `out` is full, after the end of the peer,
 * and when input comes during a pause. A client that waits for its answer
 * sends nothing, so most pauses cost no system call.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "net/net_int.h"

#define READ_SIZE  ((size_t)16 << 10) /* a record of TLS */
#define READ_LEAST ((size_t)2 << 10)  /* less is not worth a call */
#define LARGE      (2 * READ_SIZE)    /* a larger `in` is counted */
#define LARGE_MOST ((size_t)64 << 20) /* all large `in`s of a loop together */
#define PATIENCE   (10 * SL_S)        /* with a peer that reads nothing */
#define DROPS      ((size_t)4096)     /* bytes dropped at once */

static bool is_full(const struct sl_conn_impl *c)
{
    return c->face.out.len > c->out_high;
}

/* ---- in ---- */

static ssize_t read_plain(struct sl_conn_impl *c, char *bytes, size_t size)
{
    ssize_t n = recv(c->fd, bytes, size, 0);

    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? SL_IO_INPUT : SL_IO_BROKEN;
}

void sl_conn_io_count(struct sl_conn_impl *c)
{
    size_t is = c->face.in.size > LARGE ? c->face.in.size : 0;

    c->set->large = c->set->large - c->large + is;
    c->large = is;
}

/* One peer may send a large request. Thousands of unfinished ones must not take
 * all memory. */
static bool may_keep(struct sl_conn_impl *c)
{
    sl_conn_io_count(c);
    return c->large == 0 || c->set->large <= LARGE_MOST;
}

/* Make room in `in`. Returns its size; 0 without memory. */
static size_t make_room(struct sl_conn_impl *c)
{
    struct sl_buf *in = &c->face.in;
    size_t most = in->ceiling - in->len;

    sl_buf_pool_get(&c->set->pool, in);
    if (in->size - in->len < READ_LEAST && in->size < in->ceiling &&
        (sl_buf_reserve(in, most < READ_SIZE ? most : READ_SIZE) ||
         !may_keep(c)))
        return 0;
    return in->size - in->len;
}

/* Read once. Returns whether bytes came. */
static bool read_once(struct sl_conn_impl *c)
{
    struct sl_buf *in = &c->face.in;
    size_t room = make_room(c);
    ssize_t n;

    if (room == 0) { /* no memory: may_read() excludes a full `in` */
        c->doomed = true;
        return false;
    }
    n = c->ssl ? sl_tls_conn_read(c->ssl, in->bytes + in->len, room)
               : read_plain(c, in->bytes + in->len, room);
    if (n > 0) {
        in->len += (size_t)n;
        c->fresh = true;
        return true;
    }
    c->ended = n == SL_IO_END;
    c->dry = n == SL_IO_INPUT;
    c->doomed |= n == SL_IO_BROKEN;
    c->read_blocked = n == SL_IO_ROOM;
    c->blocked |= c->read_blocked;
    return false;
}

static bool may_read(const struct sl_conn_impl *c)
{
    return c->state == SL_CONN_OPEN && !c->ended && !c->doomed && !c->paused &&
           !is_full(c) && c->face.in.len < c->face.in.ceiling;
}

/* Has TLS more than the beginning of a record? */
static bool has_pending(const struct sl_conn_impl *c)
{
    return c->ssl && !c->dry && sl_tls_conn_pending(c->ssl);
}

static void fill(struct sl_conn_impl *c)
{
    while (may_read(c) && read_once(c) && has_pending(c))
        ;
}

/* Read and drop, below TLS. */
static void drop(struct sl_conn_impl *c)
{
    char bytes[DROPS];
    ssize_t n = read_plain(c, bytes, sizeof(bytes));

    if (n == SL_IO_END)
        c->ended = true;
    else if (n == SL_IO_BROKEN)
        c->doomed = true;
}

static void handshake(struct sl_conn_impl *c)
{
    int n = sl_tls_conn_handshake(c->ssl);

    c->blocked = n == SL_IO_ROOM;
    if (n == 1) {
        c->state = SL_CONN_OPEN;
        c->fresh_open = c->dialled;
        c->face.tls_client = sl_tls_conn_has_client(c->ssl);
        c->face.tls_h2 = sl_tls_conn_is_h2(c->ssl);
    } else if (n != SL_IO_INPUT && n != SL_IO_ROOM) {
        c->doomed = true;
    }
}

/* ---- out ---- */

static ssize_t write_plain(struct sl_conn_impl *c, const struct sl_buf *out)
{
    ssize_t n = send(c->fd, out->bytes, out->len, MSG_NOSIGNAL);

    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? SL_IO_ROOM : SL_IO_BROKEN;
}

/* A peer that reads gets more time. The kernel reports room only when a third
 * of its buffer is free, so a byte now and then does not count. */
static void extend_patience(struct sl_conn_impl *c, bool some)
{
    sl_ns *by = &c->set->slots[c->slot].taken_by;

    if (c->blocked && (some || !c->waits))
        *by = sl_loop_mono(c->set->loop) + PATIENCE;
    else if (!c->blocked && c->waits)
        *by = SL_NS_MAX;
    c->waits = c->blocked;
}

/* Write once. Returns whether the socket may take more. */
static bool write_once(struct sl_conn_impl *c)
{
    struct sl_buf *out = &c->face.out;
    ssize_t n = c->ssl ? sl_tls_conn_write(c->ssl, out->bytes, out->len)
                       : write_plain(c, out);

    if (n > 0) {
        sl_buf_drop(out, (size_t)n);
        /* A socket that took a part is full; TLS writes single records. */
        c->blocked = c->ssl ? c->read_blocked : out->len > 0;
    } else {
        c->blocked = c->read_blocked || n == SL_IO_ROOM;
        c->doomed |= n == SL_IO_BROKEN;
    }
    extend_patience(c, n > 0);
    return n > 0 && !c->blocked;
}

void sl_conn_io_flush(struct sl_conn_impl *c)
{
    if (c->state != SL_CONN_OPEN && c->state != SL_CONN_FLUSHING)
        return;
    while (c->face.out.len > 0 && !c->blocked && !c->doomed && write_once(c))
        ;
}

/* ---- the end of an event ---- */

static void return_buffers(struct sl_conn_impl *c)
{
    if (c->face.in.len == 0)
        sl_buf_pool_put(&c->set->pool, &c->face.in);
    if (c->large > 0)
        sl_conn_io_count(c);
    /* A paused owner is about to write. */
    if (c->face.out.len == 0 && !c->paused)
        sl_buf_pool_put(&c->set->pool, &c->face.out);
}

static bool wants_input(const struct sl_conn_impl *c)
{
    switch (c->state) {
    case SL_CONN_CONNECTING:
        return false;
    case SL_CONN_HANDSHAKE:
        return !c->blocked;
    case SL_CONN_OPEN:
        if (c->paused && !c->reading)
            return false;
        return !c->ended && !c->read_blocked && !is_full(c) &&
               c->face.in.len < c->face.in.ceiling;
    default:
        return !c->ended;
    }
}

static void watch_one(struct sl_conn_impl *c, struct event *event, bool wanted,
                      bool *is)
{
    if (wanted == *is)
        return;
    if (wanted && event_add(event, NULL)) {
        c->doomed = true;
        return;
    }
    if (!wanted)
        event_del(event);
    *is = wanted;
}

void sl_conn_io_watch(struct sl_conn_impl *c)
{
    return_buffers(c);
    watch_one(c, &c->readable, wants_input(c), &c->reading);
    watch_one(c, &c->writable, c->blocked, &c->writing);
}

static void notify_room(struct sl_conn_impl *c)
{
    struct sl_conn *face = &c->face;

    if (!c->was_full || is_full(c) || c->doomed || c->state != SL_CONN_OPEN)
        return;
    c->was_full = false;
    if (!face->calls->on_room)
        return;
    sl_buf_pool_get(&c->set->pool, &face->out);
    face->calls->on_room(face);
    sl_conn_io_flush(c);
}

/* Call on_input until `in` is used up or `out` is full; then on_end. */
static void deliver(struct sl_conn_impl *c)
{
    struct sl_conn *face = &c->face;

    if (c->fresh_open && !c->doomed) {
        c->fresh_open = false;
        if (face->calls->on_open)
            face->calls->on_open(face);
    }
    if (has_pending(c))
        fill(c);
    while (c->fresh && face->in.len > 0 && c->state == SL_CONN_OPEN &&
           !c->paused && !c->doomed && !is_full(c)) {
        c->fresh = false;
        sl_buf_pool_get(&c->set->pool, &face->out);
        face->calls->on_input(face);
        c->fresh |= is_full(c); /* on_input may have stopped for that */
        sl_conn_io_flush(c);
        if (has_pending(c))
            fill(c);
    }
    if (c->ended && !c->notified && c->state == SL_CONN_OPEN && !c->paused &&
        !c->doomed && !is_full(c)) {
        c->notified = true;
        if (face->calls->on_end)
            face->calls->on_end(face);
    }
}

/* Does the owner wait for more than `in` can hold? */
static bool is_stuck(const struct sl_conn_impl *c)
{
    return c->face.in.len == c->face.in.ceiling && !c->paused && !c->fresh &&
           !c->ended && !is_full(c);
}

/* All is sent: shut our side down and wait for the end of the peer. */
static void linger(struct sl_conn_impl *c)
{
    if (c->ssl)
        sl_tls_conn_shutdown(c->ssl);
    shutdown(c->fd, SHUT_WR);
    sl_buf_clear(&c->face.in);
    c->state = SL_CONN_LINGERING;
    c->blocked = false;
    sl_conn_set_deadline(c, c->set->linger);
}

static void conclude(struct sl_conn_impl *c)
{
    if (c->state == SL_CONN_OPEN && is_stuck(c))
        c->doomed = true;
    if (c->doomed || (c->face.out.len > 0 && c->state != SL_CONN_LINGERING))
        return;
    if (c->state == SL_CONN_FLUSHING && !c->ended)
        linger(c);
    else if (c->ended &&
             (c->state != SL_CONN_OPEN || (c->notified && !c->paused)))
        c->doomed = true;
}

void sl_conn_io_settle(struct sl_conn_impl *c)
{
    notify_room(c);
    deliver(c);
    sl_conn_io_flush(c);
    c->was_full = c->was_full || is_full(c);
    conclude(c);
    c->busy = false;
    if (!c->doomed)
        sl_conn_io_watch(c);
    if (c->doomed)
        sl_conn_free(c);
}

void sl_conn_io_readable(evutil_socket_t fd, short what, void *arg)
{
    struct sl_conn_impl *c = arg;

    (void)fd;
    (void)what;
    c->busy = true;
    switch (c->state) {
    case SL_CONN_HANDSHAKE:
        handshake(c);
        break;
    case SL_CONN_OPEN:
        if (c->paused) /* see the top of this file */
            watch_one(c, &c->readable, false, &c->reading);
        c->dry = false;
        fill(c);
        break;
    default:
        drop(c);
    }
    sl_conn_io_settle(c);
}

void sl_conn_io_writable(evutil_socket_t fd, short what, void *arg)
{
    struct sl_conn_impl *c = arg;

    (void)fd;
    (void)what;
    c->busy = true;
    c->blocked = false;
    if (c->state == SL_CONN_CONNECTING)
        sl_conn_connected(c);
    if (c->state == SL_CONN_HANDSHAKE && !c->doomed) {
        handshake(c);
    } else {
        sl_conn_io_flush(c);
        if (c->read_blocked) {
            c->read_blocked = false;
            fill(c);
        }
    }
    sl_conn_io_settle(c);
}
