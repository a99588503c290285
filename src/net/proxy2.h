/* proxy2.h -- the header of the PROXY protocol, version 2.
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
#ifndef SL_PROXY_HEADER_H
#define SL_PROXY_HEADER_H

#include "base/ip.h"

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
