/* conn.h -- a connection: bytes in, bytes out, deadlines, perhaps TLS.
 *
 * The owner is told when there is input and reads it from conn->in, dropping
 * what he has used; what he appends to conn->out goes out at the end of the
 * turn, or later when the peer takes it. He never waits.
 *
 *     accept --> OPEN --> (owner says finish) FLUSHING --> CLOSED
 *                  |                                         ^
 *                  +-- peer gone, deadline, error -----------+
 *
 * on_close is called once, whatever the reason; the connection is freed after
 * it returns.
 *
 * Bounds. `in` and `out` have ceilings. While `out` holds more than its
 * high-water mark nothing is read: a client that does not take its answers is
 * not served more of them.
 */
#ifndef SL_CONN_H
#define SL_CONN_H

#include "base/buf.h"
#include "base/ip.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/tls.h"

struct sl_conn;

struct sl_conn_calls {
    /* There is new input in conn->in. Not called again before it returns. */
    void (*on_input)(struct sl_conn *conn);
    /* The peer has closed its side. What is unanswered may still be answered;
     * the connection closes when `out` is empty. */
    void (*on_end)(struct sl_conn *conn);
    /* Its deadline has passed. The owner may append a last answer and call
     * sl_conn_finish(); if he does neither, it is closed. */
    void (*on_deadline)(struct sl_conn *conn);
    void (*on_close)(struct sl_conn *conn);
};

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
};

struct sl_conn_options {
    const struct sl_conn_calls *calls;
    void *owner;
    size_t in_most, out_most; /* ceilings */
    size_t out_high;          /* high-water mark */
    struct sl_tls *tls;       /* NULL: none; counted */
    const struct sl_alloc *alloc;
};

/* All connections of one loop: for counting, sweeping and draining. */
struct sl_conns;
SL_MUST_USE int sl_conns_open(struct sl_loop *loop, unsigned most,
                              struct sl_conns **ret);
void sl_conns_close(struct sl_conns *conns); /* closes them all */
unsigned sl_conns_count(const struct sl_conns *conns);

/* Take over `fd`. At `most` connections it is closed at once: SLUICE_EFULL. */
SL_MUST_USE int sl_conn_open(struct sl_conns *conns, int fd,
                             const struct sl_address *peer,
                             const struct sl_conn_options *options,
                             struct sl_conn **ret);

/* Call on_deadline when `after` has passed; 0 is never. Deadlines are looked
 * at four times a second. */
void sl_conn_deadline(struct sl_conn *conn, sl_ns after);

/* Send what is in `out` now (it also goes out by itself when on_input
 * returns). */
void sl_conn_flush(struct sl_conn *conn);

/* Send what is in `out`, then close. */
void sl_conn_finish(struct sl_conn *conn);

/* Stop or go on calling on_input: for an owner who waits for a store. */
void sl_conn_pause(struct sl_conn *conn, bool pause);

/* Each connection once; for draining. */
typedef void sl_conn_f(struct sl_conn *conn, void *ctx);
void sl_conns_each(struct sl_conns *conns, sl_conn_f *f, void *ctx);

#endif
