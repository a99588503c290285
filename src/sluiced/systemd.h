/* systemd.h -- what systemd and a service say to each other, by hand.
 *
 * The protocol is plain and promised to stay: messages of KEY=VALUE lines to
 * the socket in NOTIFY_SOCKET, and sockets handed over from descriptor 3 on.
 * Without systemd all of this does nothing.
 */
#ifndef SL_SLUICED_SYSTEMD_H
#define SL_SLUICED_SYSTEMD_H

#include "base/diag.h"

/* Where to send messages. */
struct sl_notify {
    int fd;         /* -1: nobody wants to hear */
    sl_ns watchdog; /* how often to say WATCHDOG=1; 0: not asked for */
};

/* Find out from NOTIFY_SOCKET (a path, or an abstract name behind '@'),
 * WATCHDOG_USEC and WATCHDOG_PID, and take them out of the environment.
 * Never fails: whoever can't be reached is not told. */
void sl_notify_open(struct sl_notify *notify);
void sl_notify_close(struct sl_notify *notify);

/* Send lines of KEY=VALUE, as by printf. */
void sl_notify(const struct sl_notify *notify, const char *fmt, ...)
    SL_PRINTF(2, 3);

#define SL_ACTIVATED 8

/* Sockets that were handed in, each with the name of its unit. */
struct sl_activated {
    unsigned count;
    int fds[SL_ACTIVATED];
    char names[SL_ACTIVATED][32];
};

/* Read LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES and take them out of the
 * environment. Without names, a single socket is "http". Refuses more than
 * SL_ACTIVATED, and names that are no door. SLUICE_ECONF. */
SL_MUST_USE int sl_activated_read(struct sl_activated *ret,
                                  struct sl_diag *diag);

/* The socket of that name, or -1. */
int sl_activated_find(const struct sl_activated *activated, const char *name);

/* The number in an environment variable, or 0. */
uint64_t sl_systemd_number(const char *variable);

#endif
