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
#ifndef SL_LISTENER_H
#define SL_LISTENER_H

#include <stdatomic.h>

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

#endif
