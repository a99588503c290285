/* conn.h -- a connection: bytes in, bytes out, deadlines, perhaps TLS.
 *
 * The owner is told when there is input and reads it from conn->in, dropping
 * what he has used; what he appends to conn->out goes out at the end of the
 * turn, or later when the peer takes it. He never waits.
 *
 *     accept --> OPEN --> (owner says finish) FLUSHING --> CLOSED
 *       dial ----^ |                                         ^
 *                  +-- peer gone, deadline, error -----------+
 *
 * on_close is called once, whatever the reason; the connection is freed after
 * it returns. That never happens inside a call of the owner's to a function
 * below: what he holds stays valid until his own function has returned.
 *
 * Bounds. `in` and `out` have ceilings. While `out` holds more than its
 * high-water mark nothing is read: a client that does not take its answers is
 * not served more of them, and if it takes nothing at all for ten seconds it is
 * closed. All that is larger than 32 KiB in the `in`s of one loop is 64 MiB at
 * most; whoever would have more is closed. An owner who leaves a full `in`
 * untouched waits for what can't come, and the connection is closed.
 *
 * Memory. A buffer that is empty gives its memory to the next connection that
 * has something to say, so keep no slice of it: an idle connection has none.
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
    /* A connection that was dialled stands, and TLS too. What was appended to
     * `out` before goes out now. */
    void (*on_open)(struct sl_conn *conn);
    /* There is new input in conn->in; or there is still some when a pause has
     * ended or `out` is no more full. Not called again before it returns. */
    void (*on_input)(struct sl_conn *conn);
    /* `out` was above its high-water mark and no more is: for owners who have
     * more to send, whatever is in `in`. */
    void (*on_room)(struct sl_conn *conn);
    /* The peer has closed its side. What is unanswered may still be answered;
     * the connection closes when `out` is empty and it is not paused. */
    void (*on_end)(struct sl_conn *conn);
    /* Its deadline has passed. The owner may append a last answer and call
     * sl_conn_finish(); if he does neither, it is closed. If he sets a new
     * deadline it goes on. Not called during the handshake of TLS nor after
     * sl_conn_finish(): then it is closed. */
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
    bool tls_client; /* the peer showed a certificate of client_ca */
    bool tls_h2;     /* the peer chose h2 by ALPN */
};

struct sl_conn_options {
    const struct sl_conn_calls *calls;
    void *owner;
    size_t in_most, out_most;     /* ceilings */
    size_t out_high;              /* high-water mark */
    struct sl_tls *tls;           /* NULL: none; counted */
    const char *server_name;      /* dialling by TLS: who it must be */
    const struct sl_alloc *alloc; /* borrowed for the life of the sl_conns */
};

/* All connections of one loop: for counting, sweeping and draining. */
struct sl_conns;
SL_MUST_USE int sl_conns_open(struct sl_loop *loop, unsigned most,
                              struct sl_conns **ret);
/* Closes them all; not from a callback of one of them. NULL is allowed. */
void sl_conns_close(struct sl_conns *conns);
unsigned sl_conns_count(const struct sl_conns *conns);
/* We end: of those that are finished, now or later, the peer's own end is
 * waited for a fifth of a second, not two. Many clients see ours only when they
 * have something to ask again. */
void sl_conns_shorten_linger(struct sl_conns *conns);

/* Take over `fd`, a stream socket that does not block. At `most` connections
 * it is closed at once: SLUICE_EFULL; also at any other failure. A NULL `peer`
 * is taken for a unix socket. */
SL_MUST_USE int sl_conn_open(struct sl_conns *conns, int fd,
                             const struct sl_address *peer,
                             const struct sl_conn_options *options,
                             struct sl_conn **ret);

/* Connect to `to`. options->tls is a client's context (sl_tls_open_client), and
 * options->server_name whom it must be. Nothing is said about failures: it is
 * closed. So set a deadline. */
SL_MUST_USE int sl_conn_connect(struct sl_conns *conns,
                                const struct sl_address *to,
                                const struct sl_conn_options *options,
                                struct sl_conn **ret);

/* Call on_deadline when `after` has passed; 0 is never. Deadlines are looked
 * at four times a second. Costs next to nothing: may be set with each
 * request. */
void sl_conn_deadline(struct sl_conn *conn, sl_ns after);

/* Send what is in `out` now (it also goes out by itself when on_input
 * returns). */
void sl_conn_flush(struct sl_conn *conn);

/* Send what is in `out` at the end of this turn, with all that is appended
 * until then. */
void sl_conn_push(struct sl_conn *conn);

/* Send what is in `out`, then close: our side at once, so that the peer reads
 * to the end; the rest when the peer has closed too. What he still sends is
 * dropped, for two seconds (were it left unread, the kernel would answer with
 * a reset, and the peer might lose what we sent). Sending itself is given five
 * seconds. */
void sl_conn_finish(struct sl_conn *conn);

/* Close soon, whatever is in `out`: when something went wrong. */
void sl_conn_abort(struct sl_conn *conn);

/* Is `out` above its high-water mark? An owner who answers many requests from
 * one input stops here and leaves the rest in `in`; on_input comes again. */
bool sl_conn_is_full(const struct sl_conn *conn);

/* Stop or go on calling on_input: for an owner who waits for a store. While
 * paused, nobody notices that the peer has gone, unless he minds. */
void sl_conn_pause(struct sl_conn *conn, bool pause);

/* Stop calling on_input until all others of the loop had their turn: for an
 * owner who has done much for one peer at once. */
void sl_conn_yield(struct sl_conn *conn);

/* Until the pause ends: close the connection if the peer closes his side. For
 * owners who may wait for long; costs two system calls. */
void sl_conn_watch_close(struct sl_conn *conn);

/* Each connection once; for draining. */
typedef void sl_conn_f(struct sl_conn *conn, void *ctx);
void sl_conns_each(struct sl_conns *conns, sl_conn_f *f, void *ctx);

#endif
