/* conn.h -- a connection: bytes in, bytes out, deadlines, perhaps TLS.
 *
 * on_input reads conn->in and drops what it has used. Bytes appended to
 * conn->out are sent at the end of the turn, or when the peer reads. No call
 * blocks.
 *
 *     accept --> OPEN --> sl_conn_finish() FLUSHING --> CLOSED
 *    connect ----^ |                                      ^
 *                  +-- peer gone, deadline, error --------+
 *
 * on_close is called once; the connection is freed after it returns. No
 * function below frees a connection before its caller has returned.
 *
 * Bounds. `in` and `out` have ceilings. While `out` is above its high-water
 * mark nothing is read. A peer that reads nothing for ten seconds is closed.
 * The `in`s above 32 KiB of one loop have 64 MiB together; a connection that
 * needs more is closed, and so is one whose owner leaves a full `in` untouched.
 *
 * Memory. An empty buffer returns its memory to a pool. Keep no slice of it.
 */
#ifndef SL_NET_CONN_H
#define SL_NET_CONN_H

#include "base/buf.h"
#include "base/ip.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/tls.h"

struct sl_conn;

struct sl_conn_calls {
    /* sl_conn_connect() has succeeded, TLS included. `out` is sent now. */
    void (*on_open)(struct sl_conn *conn);
    /* conn->in has new bytes, or still has some after a pause or after `out`
     * was full. Not reentrant. */
    void (*on_input)(struct sl_conn *conn);
    /* `out` has fallen below its high-water mark. */
    void (*on_room)(struct sl_conn *conn);
    /* The peer has closed its side. Answers can still be sent; the connection
     * closes when `out` is empty and it is not paused. */
    void (*on_end)(struct sl_conn *conn);
    /* The deadline has passed. The connection closes after `out` is sent,
     * unless a new deadline is set. Not called during the TLS handshake or
     * after sl_conn_finish(): then it closes at once. */
    void (*on_deadline)(struct sl_conn *conn);
    void (*on_close)(struct sl_conn *conn);
}; /* all but on_input may be NULL */

struct sl_conn {
    const struct sl_conn_calls *calls;
    void *owner;
    struct sl_buf in, out;
    struct sl_loop *loop;
    bool is_unix;
    bool is_local;   /* loopback or unix */
    bool has_ip;     /* unix sockets have none */
    struct sl_ip ip; /* of the peer */
    bool tls_client; /* the peer has a certificate of client_ca */
    bool tls_h2;     /* the peer chose h2 by ALPN */
};

struct sl_conn_options {
    const struct sl_conn_calls *calls;
    void *owner;
    size_t in_most, out_most;     /* ceilings */
    size_t out_high;              /* high-water mark */
    struct sl_tls *tls;           /* NULL: none; counted */
    const char *server_name;      /* TLS client: name to verify */
    const struct sl_alloc *alloc; /* borrowed for the life of the sl_conns */
};

/* All connections of one loop. */
struct sl_conns;
SL_MUST_USE int sl_conns_open(struct sl_loop *loop, unsigned most,
                              struct sl_conns **ret);
/* Close all; not from a callback of a connection. NULL is allowed. */
void sl_conns_close(struct sl_conns *conns);
unsigned sl_conns_count(const struct sl_conns *conns);
/* Wait 0.2 s instead of 2 s for the end of the peer of a finished connection:
 * for shutdown. Many clients notice our end only with their next request. */
void sl_conns_shorten_linger(struct sl_conns *conns);

/* Take over `fd`, a nonblocking stream socket. It is closed on failure.
 * SLUICE_EFULL at `most` connections. NULL `peer`: a unix socket. */
SL_MUST_USE int sl_conn_open(struct sl_conns *conns, int fd,
                             const struct sl_address *peer,
                             const struct sl_conn_options *options,
                             struct sl_conn **ret);

/* Connect to `to`. options->tls is a client's context (sl_tls_open_client).
 * A failure to connect closes the connection. Set a deadline. */
SL_MUST_USE int sl_conn_connect(struct sl_conns *conns,
                                const struct sl_address *to,
                                const struct sl_conn_options *options,
                                struct sl_conn **ret);

/* Call on_deadline after `after`; 0 is never. Deadlines are checked four times
 * a second. Cheap enough for each request. */
void sl_conn_deadline(struct sl_conn *conn, sl_ns after);

/* Send `out` now. It is also sent when on_input returns. */
void sl_conn_flush(struct sl_conn *conn);

/* Send `out` at the end of this turn. */
void sl_conn_push(struct sl_conn *conn);

/* Send `out` within five seconds and shut our side down; close when the peer
 * has closed too. Its input is read and dropped for two seconds: unread input
 * would make the kernel send a reset, and the peer could lose our answer. */
void sl_conn_finish(struct sl_conn *conn);

/* Close soon and drop `out`. */
void sl_conn_abort(struct sl_conn *conn);

/* Is `out` above its high-water mark? on_input should then return and leave
 * the rest in `in`; it is called again. */
bool sl_conn_is_full(const struct sl_conn *conn);

/* Stop or resume on_input, for example while a store is asked. While paused,
 * the end of the peer is noticed only after sl_conn_watch_close(). */
void sl_conn_pause(struct sl_conn *conn, bool pause);

/* Pause until all other connections of the loop had a turn. */
void sl_conn_yield(struct sl_conn *conn);

/* Until the pause ends, close the connection when the peer closes its side.
 * For long waits; costs two system calls. */
void sl_conn_watch_close(struct sl_conn *conn);

/* Call `f` for each connection. */
typedef void sl_conn_f(struct sl_conn *conn, void *ctx);
void sl_conns_each(struct sl_conns *conns, sl_conn_f *f, void *ctx);

#endif
