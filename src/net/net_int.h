/* net_int.h -- the state of a connection; private to this folder.
 *
 * conn.c opens and closes connections and has the owner's calls; conn_io.c
 * moves the bytes. Events and the owner's calls only change the fields below.
 * sl_conn_io_settle() acts on them at the end of the event. Only settle frees
 * a connection.
 *
 *   CONNECTING --> HANDSHAKE --> OPEN --> FLUSHING --> LINGERING --> (freed)
 *         |           |          |          |                         ^
 *         +-----------+----------+----------+------ doomed ----------+
 *
 *     CONNECTING -> HANDSHAKE   the socket is connected; OPEN without TLS
 *     HANDSHAKE -> OPEN         handshake()
 *     OPEN -> FLUSHING          sl_conn_finish()
 *     FLUSHING -> LINGERING     conclude(): all is sent; our side is shut down
 *     doomed                    error, deadline, abort, end of the peer
 *
 * Invariants.
 *   (1) reading and writing: the event is added.
 *   (2) busy: an event of this connection runs, and settle follows. Outside
 *       of an event, sl_conns_defer() schedules settle.
 *   (3) set->slots[slot].conn is this connection.
 */
#ifndef SL_NET_NET_INT_H
#define SL_NET_NET_INT_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/buf.h"
#include "net/conn.h"
#include "net/tls.h"

/* ---- pool of buffer memory ----
 *
 * Most connections are idle. An empty buffer returns its memory to the pool,
 * and the next buffer that is filled takes it: no allocation per request, and
 * no memory per idle connection.
 */

#define SL_BUF_POOL_COUNT 64
#define SL_BUF_POOL_MOST  ((size_t)64 << 10) /* larger ones are freed */

struct sl_buf_pool {
    struct {
        char *bytes;
        size_t size;
        const struct sl_alloc *alloc;
    } pieces[SL_BUF_POOL_COUNT];
    unsigned count;
};

/* Give `buf` pooled memory, if it has none and the pool has a block that
 * fits. */
void sl_buf_pool_get(struct sl_buf_pool *pool, struct sl_buf *buf);

/* Take the memory of `buf`, which is empty. */
void sl_buf_pool_put(struct sl_buf_pool *pool, struct sl_buf *buf);

void sl_buf_pool_done(struct sl_buf_pool *pool);

/* ---- TLS on one socket ----
 *
 * No call blocks. OpenSSL's error queue of the thread is empty before and after
 * each call.
 */

/* Results of reads and writes that moved no bytes. */
enum sl_io {
    SL_IO_END = 0,     /* the peer has closed its side */
    SL_IO_INPUT = -1,  /* retry when the socket is readable */
    SL_IO_ROOM = -2,   /* retry when the socket is writable */
    SL_IO_BROKEN = -3, /* the connection has failed */
};

/* A session on `fd`, or NULL. `fd` and `tls` are borrowed and outlive it. A
 * client verifies that the server is `server_name`. */
SSL *sl_tls_conn_open(struct sl_tls *tls, int fd, const char *server_name);

/* 1 when the handshake is done, or an enum sl_io. */
int sl_tls_conn_handshake(SSL *ssl);

ssize_t sl_tls_conn_read(SSL *ssl, char *bytes, size_t size);
ssize_t sl_tls_conn_write(SSL *ssl, const char *bytes, size_t len);

/* Has OpenSSL read bytes that sl_tls_conn_read() has not returned yet? */
bool sl_tls_conn_pending(SSL *ssl);

/* Send close_notify, if the socket has room. */
void sl_tls_conn_shutdown(SSL *ssl);

bool sl_tls_conn_has_client(SSL *ssl);
bool sl_tls_conn_is_h2(SSL *ssl);

enum sl_conn_state { /* in this order */
                     SL_CONN_CONNECTING,
                     SL_CONN_HANDSHAKE,
                     SL_CONN_OPEN,
                     SL_CONN_FLUSHING,
                     SL_CONN_LINGERING,
                     SL_CONN_CLOSED, /* inside on_close */
};

struct sl_conn_impl {
    struct sl_conn face; /* first: the part that the owner sees */
    struct sl_conns *set;
    struct event readable, writable;
    struct event *gone; /* sl_conn_watch_close(); or NULL */
    TAILQ_ENTRY(sl_conn_impl) deferred;
    TAILQ_ENTRY(sl_conn_impl) yielded;
    SSL *ssl; /* NULL: none */
    struct sl_tls *tls;
    const struct sl_alloc *alloc;
    size_t out_high;
    size_t large; /* bytes of `in` that count as the set's large ones */
    int fd;
    unsigned slot;
    enum sl_conn_state state;
    bool reading, writing; /* (1) */
    bool blocked;          /* the socket's send buffer is full */
    bool waits;            /* `out` is blocked: taken_by is set */
    bool read_blocked;     /* TLS: reading needs room to send */
    bool dry;              /* TLS: the socket had no more */
    bool paused;           /* by the owner */
    bool yields;           /* paused until the other connections had a turn */
    bool fresh;            /* on_input is due */
    bool fresh_open;       /* on_open is due */
    bool was_full;         /* `out` was full; on_room is due */
    bool ended, notified;  /* the peer has closed its side; on_end was called */
    bool doomed;           /* settle closes it */
    bool busy;             /* (2) */
    bool is_deferred;
    bool dialled; /* opened by sl_conn_connect(): on_open is called */
};

/* Deadlines stand in one array, so that a sweep over ten thousand connections
 * reads 240 kB in a row. Monotonic; SL_NS_MAX is never. */
struct sl_conn_entry {
    sl_ns deadline; /* of the owner, or of flushing and lingering */
    sl_ns taken_by; /* the peer must read some of `out` by then */
    struct sl_conn_impl *conn;
};

struct sl_conns {
    struct sl_loop *loop;
    struct sl_timer *sweep; /* runs while there are connections */
    struct sl_conn_entry *slots;
    unsigned count, size, most;
    sl_ns linger; /* how long a finished connection waits for the peer's end */
    struct sl_buf_pool pool;
    size_t large; /* bytes of all large `in`s together */
    struct event later;
    TAILQ_HEAD(, sl_conn_impl) deferred;
    struct sl_timer *turn; /* resumes yielded connections */
    TAILQ_HEAD(, sl_conn_impl) yielded;
};

/* In conn.c. */
void sl_conn_free(struct sl_conn_impl *c);
void sl_conn_set_deadline(struct sl_conn_impl *c, sl_ns after);

/* connect() has finished, with success or not. */
void sl_conn_connected(struct sl_conn_impl *c);

/* In conn_io.c: libevent's callbacks, and the end of each. */
void sl_conn_io_readable(evutil_socket_t fd, short what, void *arg);
void sl_conn_io_writable(evutil_socket_t fd, short what, void *arg);
void sl_conn_io_settle(struct sl_conn_impl *c);

/* Call after `in` has grown or has lost its memory. */
void sl_conn_io_count(struct sl_conn_impl *c);

/* Send what the socket takes; return empty buffers; add and remove events. */
void sl_conn_io_flush(struct sl_conn_impl *c);
void sl_conn_io_watch(struct sl_conn_impl *c);

#endif
