/* systemd.h -- the protocols of systemd: notifications and sockets.
 *
 * They are simple and stable: messages of KEY=VALUE lines to the socket in
 * NOTIFY_SOCKET, and sockets from descriptor 3 on. Without systemd nothing
 * happens.
 */
#ifndef SL_SLUICED_SYSTEMD_H
#define SL_SLUICED_SYSTEMD_H

#include "base/diag.h"

/* Where to send messages. */
struct sl_notify {
    int fd;         /* -1: no notifications */
    sl_ns watchdog; /* period of WATCHDOG=1; 0: none */
};

/* Reads NOTIFY_SOCKET (a path, or an abstract name after '@'), WATCHDOG_USEC
 * and WATCHDOG_PID, and unsets them. Never fails: without a socket, messages
 * are dropped. */
void sl_notify_open(struct sl_notify *notify);
void sl_notify_close(struct sl_notify *notify);

/* Sends lines of KEY=VALUE, formatted like printf. */
void sl_notify(const struct sl_notify *notify, const char *fmt, ...)
    SL_PRINTF(2, 3);

#define SL_ACTIVATED 8

/* Sockets passed in, each with the name of its unit. */
struct sl_activated {
    unsigned count;
    int fds[SL_ACTIVATED];
    char names[SL_ACTIVATED][32];
};

/* Reads LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES and unsets them. Without
 * names, a single socket is "http". Returns SLUICE_ECONF for more than
 * SL_ACTIVATED sockets, or an unknown name. */
SL_MUST_USE int sl_activated_read(struct sl_activated *ret,
                                  struct sl_diag *diag);

/* Returns the socket of a name, or -1. */
int sl_activated_find(const struct sl_activated *activated, const char *name);

#endif
