/* listener.h -- sockets that take connections.
 *
 * One address is listened on by several loops: each has a socket of its own in
 * one SO_REUSEPORT group, so that the kernel spreads connections and loops
 * share nothing. A first socket without SO_REUSEPORT finds out whether another
 * program holds the port. Unix sockets and sockets handed in by systemd are
 * shared by all loops instead (dup); then a connection may wake several loops,
 * and one of them gets it.
 *
 * When the process is out of file descriptors, accepting pauses for a moment
 * instead of spinning; a spare descriptor is used to take and close one
 * connection so that the client learns of it.
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
    bool activated;            /* handed in by systemd */
    uint64_t device, inode;    /* of the unix socket that we made, else 0 */
};

/* Listen on `address` for `loops` (1 to 64) loops. Refuses a port that another
 * program holds and a unix socket that another program answers on (a dead one
 * is replaced); says which address and why. Unix sockets get mode 0660.
 * Connections queue up from here on: open a listener for each socket. */
SL_MUST_USE int sl_sockets_open(const struct sl_address *address,
                                unsigned loops, struct sl_sockets *ret,
                                struct sl_diag *diag);

/* Use the socket `fd`, handed in by systemd: it is taken if that succeeds, and
 * still the caller's if not. */
SL_MUST_USE int sl_sockets_adopt(int fd, unsigned loops, struct sl_sockets *ret,
                                 struct sl_diag *diag);

/* Close them all; a unix socket that we made is removed. Close the listeners
 * first. */
void sl_sockets_close(struct sl_sockets *sockets);

/* Take connections of one of the sockets on one loop. `on_accept` is handed
 * `fd`, which does not block and has no Nagle delay. */
struct sl_listener;
typedef void sl_accept_f(void *ctx, int fd, const struct sl_address *peer);

SL_MUST_USE int sl_listener_open(struct sl_loop *loop, int fd,
                                 sl_accept_f *on_accept, void *ctx,
                                 struct sl_listener **ret);

/* Stop taking connections; NULL is allowed. Does not close the socket. */
void sl_listener_close(struct sl_listener *listener);

/* Add to `paused` (borrowed until it is closed) whenever accepting pauses
 * because the process is out of descriptors or memory; any thread may read
 * it. */
void sl_listener_watch(struct sl_listener *listener, _Atomic uint64_t *paused);

/* ---- how many connections there may be: over all loops, and from one
 * address.
 *
 * Each loop takes connections for itself; what they share is this count. It is
 * asked once when a connection comes and once when it goes, under a lock.
 *
 * An address is counted by its first 64 bits if it is IPv6: whoever has one of
 * those has them all. Those who speak for many (a trusted proxy) and those who
 * have no address (a unix socket) are counted among all, and not by address.
 *
 * Memory is fixed: a place for each connection, twice over.
 */

struct sl_conn_limit; /* opaque */

enum sl_conn_limit_answer {
    SL_CONN_LIMIT_IN,
    SL_CONN_LIMIT_FULL,     /* there are as many as there may be */
    SL_CONN_LIMIT_TOO_MANY, /* of this address */
};

/* At most `most` (> 0), and of one address at most `most_each` (> 0). NULL
 * `alloc` is libc's. SLUICE_ENOMEM, SLUICE_ESYS. */
SL_MUST_USE int sl_conn_limit_open(const struct sl_alloc *alloc, unsigned most,
                                   unsigned most_each,
                                   struct sl_conn_limit **ret);
void sl_conn_limit_close(struct sl_conn_limit *limit); /* NULL is allowed */

/* One has come from `ip`; NULL: not counted by address. Whoever is in leaves
 * once, by the same. Any thread. */
SL_MUST_USE enum sl_conn_limit_answer
sl_conn_limit_enter(struct sl_conn_limit *limit, const struct sl_ip *ip);
void sl_conn_limit_leave(struct sl_conn_limit *limit, const struct sl_ip *ip);

/* How many are in; tests compare it with their own count. */
unsigned sl_conn_limit_count(struct sl_conn_limit *limit);

#endif
