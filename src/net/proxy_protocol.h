/* proxy_protocol.h -- accepts connections that begin with a PROXY header.
 *
 * Stands between a listener and a server behind a load balancer. Reads the
 * header of each connection, and not a byte further, and passes the connection
 * on with the client's address:
 *
 *     accept --> trusted? --> header --> on_accept, with the client's address
 *                  |            |
 *                  +------------+-- no, invalid, too slow --> closed
 *
 * A client without an IP address (a unix socket at the balancer, an unknown
 * family) gets an address without a family: it is not trusted and counts as an
 * unknown caller. LOCAL connections keep the balancer's address.
 *
 * One loop. The number of connections in this state and their time are bounded.
 */
#ifndef SL_NET_PROXY_PROTOCOL_H
#define SL_NET_PROXY_PROTOCOL_H

#include "base/ip.h"
#include "net/listener.h"

struct sl_proxy_accept_options {
    sl_accept_f *on_accept; /* of the server */
    void *server;           /* ctx of on_accept */
    /* Is the peer a trusted proxy? Other peers are closed. */
    bool (*trusts)(void *ctx, const struct sl_address *peer);
    /* A connection was closed; `why` is a sentence. */
    void (*on_refused)(void *ctx, const struct sl_address *peer,
                       const char *why);
    void *ctx;
    sl_ns deadline; /* for the header; 0: 3 s */
    unsigned most;  /* connections at once; 0: 1024 */
    const struct sl_alloc *alloc;
};

struct sl_proxy_accept;

SL_MUST_USE int
sl_proxy_accept_open(struct sl_loop *loop,
                     const struct sl_proxy_accept_options *options,
                     struct sl_proxy_accept **ret);

/* Close all connections that it holds; not from its own callback. NULL is
 * allowed. */
void sl_proxy_accept_close(struct sl_proxy_accept *p);

/* An sl_accept_f whose ctx is the struct sl_proxy_accept. */
void sl_proxy_accept_accept(void *ctx, int fd, const struct sl_address *peer);

/* Number of connections whose header is incomplete. */
unsigned sl_proxy_accept_count(const struct sl_proxy_accept *p);

/* ---- the PROXY header, version 2 ----
 *
 *      0            12  13  14    16
 *     | signature    |vc |fp | len | addresses ... | TLVs ...
 *     |<---------- 16 bytes ------>|<---- len, at most 64 KiB ---->|
 *
 *     vc  version (2) and command: PROXY, or LOCAL for the balancer's own
 *         connections, such as health checks
 *     fp  family and protocol of the addresses
 *
 * Ambiguous headers, datagrams and version 1 are refused.
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
    size_t need; /* MORE: total bytes wanted; <= KEPT */
    size_t size; /* DONE: of the whole header, TLVs included */
    bool local;  /* DONE: a connection of the balancer itself */
    bool has_ip; /* DONE: `ip` and `port` are the client's */
    struct sl_ip ip;
    unsigned port;
    const char *why; /* REFUSED: a sentence */
};

/* Read the first `len` bytes of a connection. The result does not depend on how
 * they were split. */
enum sl_proxy_header_result sl_proxy_header_read(const unsigned char *bytes,
                                                 size_t len,
                                                 struct sl_proxy_header *ret);

#endif
