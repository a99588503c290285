/* link.h -- one connection to one Redis, kept up, and the commands on it.
 *
 * Commands go out together at the end of a turn, and their replies come in the
 * same order. A flight is a command on its way; it belongs to whoever sent it,
 * and the link borrows it until done().
 *
 *     DOWN --back-off--> FINDING --> CALLING --> GREETING --> UP
 *       ^                   |         |   ^         |          |
 *       |                   |         +---+ the next address   |
 *       +-------------------+---------+-------------+----------+
 *                                           lost, refused, silent
 *
 * A name is looked up whenever it is called, and its addresses are tried in
 * turn; what stands behind a name may move. Until it is UP flights wait on the
 * ground; when that comes to nothing they were never sent. While DOWN they are
 * not taken at all.
 *
 * A link that owes the oldest flight a reply for longer than `patience` is
 * given up: whoever is silent that long has lost us, or we him.
 */
#ifndef SL_REDIS_CONN_H
#define SL_REDIS_CONN_H

#include <sys/queue.h>

#include "net/conn.h"
#include "wire/resp.h"

/* How a flight ended. */
enum sl_redis_result {
    SL_REDIS_REPLIED,  /* there is a reply */
    SL_REDIS_NOT_SENT, /* it was not sent: nothing has happened */
    SL_UNCERTAIN,      /* it was sent; nobody knows whether it arrived */
};

struct sl_redis_wire_cmd {
    TAILQ_ENTRY(sl_redis_wire_cmd) link;
    struct sl_str command; /* stays until done() */
    bool asking;           /* with ASKING before it */
    unsigned skip;         /* the link's own: replies before the one */
    sl_ns sent;            /* steady; 0: not yet */
    /* `reply` is one whole reply, until done() returns. */
    void (*done)(struct sl_redis_wire_cmd *flight, enum sl_redis_result landing,
                 struct sl_str reply);
};

struct sl_redis_conn_options {
    struct sl_conns *conns; /* of the loop; borrowed */
    struct sl_loop *loop;
    const char *name;   /* of the host, or a path; it is who TLS must find */
    unsigned port;      /* 0: a path of a unix socket */
    struct sl_tls *tls; /* a client's, or NULL; counted */
    /* Said at the beginning, if not empty; copied. */
    struct sl_str user, password;
    unsigned database;
    unsigned most;  /* flights; more are grounded */
    sl_ns patience; /* 0: 1 s */
    const struct sl_alloc *alloc;
    /* It has come up, or gone down and why; a sentence without secrets. Not
     * said again while it stays down. Nothing is closed in there. */
    void (*on_change)(void *ctx, bool up, const char *why);
    void *ctx;
};

struct sl_redis_conn;

/* It begins to call at once. */
SL_MUST_USE int sl_redis_conn_open(const struct sl_redis_conn_options *options,
                                   struct sl_redis_conn **ret);

/* All flights end. NULL is allowed. Not from within a done(). */
void sl_redis_conn_close(struct sl_redis_conn *link);

/* Send. done() may be called before this returns: then it was grounded. */
void sl_redis_conn_send(struct sl_redis_conn *link,
                        struct sl_redis_wire_cmd *flight);

/* Take a flight back that is not sent yet; its done() is not called. False if
 * it is on its way. It was given to this link. */
SL_MUST_USE bool sl_redis_conn_cancel(struct sl_redis_conn *link,
                                      struct sl_redis_wire_cmd *flight);

bool sl_redis_conn_is_up(const struct sl_redis_conn *link);

/* May flights be sent, or at least wait? */
bool sl_redis_conn_is_accepting(const struct sl_redis_conn *link);

/* Flights that have not ended. */
unsigned sl_redis_conn_count(const struct sl_redis_conn *link);

/* Hang up and call again, at once: what answered is not what we want. Not from
 * within a done(). */
void sl_redis_conn_reconnect(struct sl_redis_conn *link, const char *why);

/* Until it calls again by itself; 0 unless DOWN. */
sl_ns sl_redis_conn_reconnect_in(const struct sl_redis_conn *link);

#endif
