/* preface.h -- connections that begin with whom they are for.
 *
 * Stands between a listener and a door whose clients come through a load
 * balancer. Each connection's PROXY header is read to its end, and not a byte
 * further; then the connection is handed on as if its client had come himself:
 *
 *     accept --> trusted? --> header --> on_accept, with the client's address
 *                  |            |
 *                  +------------+-- no, garbage, too slow --> closed
 *
 * Who is behind the balancer but has no address (a unix socket there, or
 * something unheard of) is handed on with an address of no family: he is not
 * trusted, and shares what all unknown callers share. LOCAL connections are
 * the balancer's own and keep its address.
 *
 * Everything happens on one loop. Bounded: so many connections may be at their
 * header at once, each for a while; more are closed.
 */
#ifndef SL_PROXY_ACCEPT_H
#define SL_PROXY_ACCEPT_H

#include "net/listener.h"

struct sl_proxy_accept_options {
    sl_accept_f *on_accept; /* the door's */
    void *door;             /* and its ctx */
    /* May the peer say whom it speaks for? Nobody else gets in. */
    bool (*trusts)(void *ctx, const struct sl_address *peer);
    /* A connection was closed; `why` is a sentence. */
    void (*on_refused)(void *ctx, const struct sl_address *peer,
                       const char *why);
    void *ctx;
    sl_ns deadline; /* for the header; 0: 3 s */
    unsigned most;  /* at once; 0: 1024 */
    const struct sl_alloc *alloc;
};

struct sl_proxy_accept;

SL_MUST_USE int
sl_proxy_accept_open(struct sl_loop *loop,
                     const struct sl_proxy_accept_options *options,
                     struct sl_proxy_accept **ret);

/* Closes those that are at their header; not from a callback of its own. NULL
 * is allowed. */
void sl_proxy_accept_close(struct sl_proxy_accept *preface);

/* A connection has come: an sl_accept_f whose ctx is the preface. */
void sl_proxy_accept_accept(void *ctx, int fd, const struct sl_address *peer);

/* How many are at their header. */
unsigned sl_proxy_accept_count(const struct sl_proxy_accept *preface);

#endif
