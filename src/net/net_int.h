/* net_int.h -- what is behind a connection; for this room only.
 *
 * conn.c has the life of connections and the owner's calls, flow.c moves the
 * bytes. Between them stands one rule: whatever happens in an event or a call
 * of the owner's only changes the words below; sl_conn_io_settle(), at the end
 * of the event, does what follows from them. Only there is a connection freed.
 *
 *   DIALLING --> HANDSHAKE --> OPEN --> FLUSHING --> LINGERING --> (freed)
 *         |           |          |          |                         ^
 *         +-----------+----------+----------+------ doomed ----------+
 *
 *     DIALLING -> HANDSHAKE     the socket is connected; or OPEN without TLS
 *     HANDSHAKE -> OPEN         shake(), or at once without TLS
 *     OPEN -> FLUSHING          sl_conn_finish()
 *     FLUSHING -> LINGERING     conclude(): all is sent; our side is shut down
 *     doomed                    error, deadline, abort, the peer's end
 *
 * Invariants.
 *   (1) reading and writing say which events are added.
 *   (2) busy: an event of this connection is being worked on, settle follows.
 *       What is to be done outside of that is put off (sl_conns_defer).
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

/* ---- memory of empty buffers, for the next one; this room only.
 *
 * Most connections are idle at any moment. A buffer that has become empty
 * leaves its memory here, and one that is about to be filled takes it from
 * here: no allocation per request, and no memory per idle connection.
 */

#define SL_BUF_POOL_COUNT 64
#define SL_BUF_POOL_MOST  ((size_t)64 << 10) /* what is larger is given back */

struct sl_buf_pool {
    struct {
        char *bytes;
        size_t size;
        const struct sl_alloc *alloc;
    } pieces[SL_BUF_POOL_COUNT];
    unsigned count;
};

/* Give `buf`, if it has no memory, some that it may have. */
void sl_buf_pool_get(struct sl_buf_pool *spares, struct sl_buf *buf);

/* Take the memory of `buf`, which is empty. */
void sl_buf_pool_put(struct sl_buf_pool *spares, struct sl_buf *buf);

void sl_buf_pool_done(struct sl_buf_pool *spares);

/* ---- TLS on one socket; for this room only.
 *
 * Nothing here waits: what can't be done now says what it waits for, and is
 * tried again then. The queue of OpenSSL's errors, one for each thread, is
 * empty before and after each call.
 */

/* What reading and writing answer when it is no number of bytes. */
enum sl_io {
    SL_IO_END = 0,     /* the peer has closed its side */
    SL_IO_INPUT = -1,  /* waits until there is input */
    SL_IO_ROOM = -2,   /* waits until there is room for output */
    SL_IO_BROKEN = -3, /* the connection is of no more use */
};

/* How sessions of a context use their sockets. */
BIO_METHOD *sl_tls_conn_method(void);

/* A session on `fd`, which is borrowed, or NULL. `tls` is borrowed too and
 * outlives it. A client's context wants to know whom it calls. */
SSL *sl_tls_conn_open(struct sl_tls *tls, int fd, const char *server_name);

/* 1 when the handshake is done, or an enum sl_io. */
int sl_tls_conn_handshake(SSL *ssl);

ssize_t sl_tls_conn_read(SSL *ssl, char *bytes, size_t size);
ssize_t sl_tls_conn_write(SSL *ssl, const char *bytes, size_t len);

/* Is there input that was read from the socket and not handed out? */
bool sl_tls_conn_pending(SSL *ssl);

/* Say goodbye, if there is room for it. */
void sl_tls_conn_shutdown(SSL *ssl);

bool sl_tls_conn_has_client(SSL *ssl);
bool sl_tls_conn_is_h2(SSL *ssl);

/* In tls.c: a fresh SSL, or NULL, and the method for its socket. */
SSL *sl_tls_ssl(struct sl_tls *tls, BIO_METHOD **method);
bool sl_tls_is_client(const struct sl_tls *tls);

enum sl_conn_state { /* in the order of a life */
                     SL_CONN_CONNECTING,
                     SL_CONN_HANDSHAKE,
                     SL_CONN_OPEN,
                     SL_CONN_FLUSHING,
                     SL_CONN_LINGERING,
                     SL_CONN_CLOSED, /* inside on_close */
};

struct sl_conn_impl {
    struct sl_conn face; /* first: what the owner sees */
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
    bool blocked;          /* waits for room in the socket */
    bool waits;            /* so does some of `out`: taken_by is set */
    bool read_blocked;     /* TLS: reading waits for it too */
    bool dry;              /* TLS: the socket had no more */
    bool paused;           /* by the owner */
    bool yields;           /* and until the others had their turn */
    bool fresh;            /* the owner should look at `in` */
    bool fresh_open;       /* on_open is to be called */
    bool was_full;         /* `out` was, and the owner was not told since */
    bool ended, told;      /* the peer has closed its side; on_end was called */
    bool doomed;           /* to be closed by settle */
    bool busy;             /* (2) */
    bool is_deferred;
    bool dialled; /* by us: on_open is called when it stands */
};

/* Deadlines beside their connection, so that a sweep over ten thousand reads
 * 240 kB in a row and nothing else. Steady; SL_NS_MAX is never. */
struct sl_conn_entry {
    sl_ns deadline; /* the owner's, or that of the end */
    sl_ns taken_by; /* for the peer to take some of what it was sent */
    struct sl_conn_impl *conn;
};

struct sl_conns {
    struct sl_loop *loop;
    struct sl_timer *sweep; /* runs while there are connections */
    struct sl_conn_entry *slots;
    unsigned count, size, most;
    bool hurried; /* sl_conns_shorten_linger() */
    struct sl_buf_pool spares;
    size_t large; /* bytes of all large `in`s together */
    struct event later;
    TAILQ_HEAD(, sl_conn_impl) deferred;
    struct sl_timer *turn; /* goes on with those who yielded */
    TAILQ_HEAD(, sl_conn_impl) yielded;
};

/* In conn.c. */
void sl_conns_defer(struct sl_conn_impl *c);
void sl_conn_free(struct sl_conn_impl *c);

/* A connection that is in no set yet, or NULL; give back all but a place in
 * the set; and make it one of the set (on failure it is given back). */
struct sl_conn_impl *sl_conn_make(struct sl_conns *conns, int fd,
                                  const struct sl_address *peer,
                                  const struct sl_conn_options *options);
void sl_conn_release(struct sl_conn_impl *c);
SL_MUST_USE int sl_conn_begin(struct sl_conn_impl *c, const char *server_name);
void sl_conn_set_deadline(struct sl_conn_impl *c, sl_ns after);

/* How long the peer's own end is waited for. */
sl_ns sl_conns_linger(const struct sl_conns *conns);

/* In dial.c: the socket is connected, or will never be. */
void sl_conn_connected(struct sl_conn_impl *c);

/* In flow.c: libevent's callbacks, and the end of each. */
void sl_conn_io_readable(evutil_socket_t fd, short what, void *arg);
void sl_conn_io_writable(evutil_socket_t fd, short what, void *arg);
void sl_conn_io_settle(struct sl_conn_impl *c);

/* `in` has grown, or given its memory back. */
void sl_conn_io_count(struct sl_conn_impl *c);

/* Send what can be sent; give empty buffers back; add and remove events. */
void sl_conn_io_flush(struct sl_conn_impl *c);
void sl_conn_io_watch(struct sl_conn_impl *c);

#endif
