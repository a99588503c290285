/* proxy_protocol.h -- connections that begin with whom they are for.
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
#ifndef SL_NET_PROXY_PROTOCOL_H
#define SL_NET_PROXY_PROTOCOL_H

#include "base/ip.h"
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

/* ---- the header of the PROXY protocol, version 2.
 *
 * A load balancer that only moves bytes can say whom it speaks for before the
 * first of them:
 *
 *      0            12  13  14    16
 *     | signature    |vc |fp | len | addresses ... | TLVs ...
 *     |<---------- 16 bytes ------>|<---- len, at most 64 KiB ---->|
 *
 *     vc  version (2) and command: LOCAL, the balancer speaks for itself, as
 *         for health checks; or PROXY
 *     fp  family and protocol of the addresses
 *
 * The sizes are known beforehand, so whoever reads can stop at the header's
 * end: what follows may be TLS, and belongs to somebody else.
 *
 * What is read here was written by somebody who is trusted; it is refused all
 * the same where it could be understood in two ways. Datagrams are no
 * connections, and version 1 is text that ends who knows where.
 */

#define SL_PROXY_HEADER_HEAD 16             /* before len */
#define SL_PROXY_HEADER_KEPT (16 + 2 * 108) /* with the longest addresses */
#define SL_PROXY_HEADER_MOST 4096           /* longer headers are refused */

enum sl_proxy_header_result {
    SL_PROXY_HEADER_MORE,
    SL_PROXY_HEADER_DONE,
    SL_PROXY_HEADER_REFUSED
};

struct sl_proxy_header {
    size_t need; /* MORE: bytes that are wanted, from the first; <= KEPT */
    size_t size; /* DONE: of the whole header; the rest of it is TLVs */
    bool local;  /* DONE: the balancer's own; else it is a client's, */
    bool has_ip; /* and this is where he is, if anybody knows: he may have
                  * come by a unix socket, or by something unheard of */
    struct sl_ip ip;
    unsigned port;
    const char *why; /* REFUSED: a sentence */
};

/* Read the first `len` bytes of a connection. What it says depends on the
 * bytes alone, not on how they were cut. */
enum sl_proxy_header_result sl_proxy_header_read(const unsigned char *bytes,
                                                 size_t len,
                                                 struct sl_proxy_header *ret);

#endif
