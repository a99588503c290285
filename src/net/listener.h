/* listener.h -- listening sockets and the limit on connections.
 *
 * Several loops listen on one address. Each has its own socket in a
 * SO_REUSEPORT group, and the kernel spreads the connections. Loops share (dup)
 * unix sockets and sockets passed by systemd; a connection may then wake
 * several loops, and one of them gets it.
 *
 * Without free file descriptors, accepting pauses, and one connection is
 * accepted with a spare descriptor and closed.
 */
#ifndef SL_NET_LISTENER_H
#define SL_NET_LISTENER_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/ip.h"
#include "net/address.h"
#include "net/loop.h"

/* The bound sockets of one address, one for each loop. */
struct sl_sockets {
    int fds[64];
    unsigned count;
    struct sl_address address; /* with the real port */
    bool activated;            /* passed by systemd */
    uint64_t device, inode;    /* of a unix socket that we created, else 0 */
};

/* Listen on `address` for `loops` (1 to 64) loops. Fails if another program
 * listens there; a dead unix socket is replaced. Unix sockets get mode 0660.
 * Connections queue up from now on: open a listener for each socket. */
SL_MUST_USE int sl_sockets_open(const struct sl_address *address,
                                unsigned loops, struct sl_sockets *ret,
                                struct sl_diag *diag);

/* Use the socket `fd`, passed by systemd. Takes `fd` over on success. */
SL_MUST_USE int sl_sockets_adopt(int fd, unsigned loops, struct sl_sockets *ret,
                                 struct sl_diag *diag);

/* Close all and remove a unix socket that we created. Close the listeners
 * first. */
void sl_sockets_close(struct sl_sockets *sockets);

/* Accept connections of one socket on one loop. The `fd` of `on_accept` is
 * nonblocking and has TCP_NODELAY. */
struct sl_listener;
typedef void sl_accept_f(void *ctx, int fd, const struct sl_address *peer);

SL_MUST_USE int sl_listener_open(struct sl_loop *loop, int fd,
                                 sl_accept_f *on_accept, void *ctx,
                                 struct sl_listener **ret);

/* Stop accepting. Does not close the socket. NULL is allowed. */
void sl_listener_close(struct sl_listener *listener);

/* Count pauses of accept() in `paused`, borrowed until the listener closes. Any
 * thread may read it. */
void sl_listener_watch(struct sl_listener *listener, _Atomic uint64_t *paused);

/* ---- connection limit: over all loops, and per address ----
 *
 * All loops share one count, under a lock. An IPv6 address is counted by its
 * first 64 bits. Trusted proxies and unix sockets are not counted by address.
 * Memory is fixed: two places for each possible connection.
 */

struct sl_conn_limit; /* opaque */

enum sl_conn_limit_answer {
    SL_CONN_LIMIT_IN,
    SL_CONN_LIMIT_FULL,     /* the total is reached */
    SL_CONN_LIMIT_TOO_MANY, /* the number per address is reached */
};

/* Allow `most` (> 0) connections, `most_each` (> 0) per address. NULL `alloc`:
 * libc. SLUICE_ENOMEM, SLUICE_ESYS. */
SL_MUST_USE int sl_conn_limit_open(const struct sl_alloc *alloc, unsigned most,
                                   unsigned most_each,
                                   struct sl_conn_limit **ret);
void sl_conn_limit_close(struct sl_conn_limit *limit); /* NULL is allowed */

/* Count a connection from `ip`; NULL: not counted by address. After IN, call
 * leave once with the same `ip`. Any thread. */
SL_MUST_USE enum sl_conn_limit_answer
sl_conn_limit_enter(struct sl_conn_limit *limit, const struct sl_ip *ip);
void sl_conn_limit_leave(struct sl_conn_limit *limit, const struct sl_ip *ip);

/* The number of connections; for tests. */
unsigned sl_conn_limit_count(struct sl_conn_limit *limit);

#endif
