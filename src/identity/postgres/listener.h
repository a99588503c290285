/* listener.h -- inside the driver: what other daemons have changed.
 *
 * A thread with a connection of its own LISTENs to what they NOTIFY. Whenever
 * it has (again) a connection, something may have been missed: the listener
 * then says so by an empty message, and says how every feature is switched.
 */
#ifndef SL_PG_NOTIFY_H
#define SL_PG_NOTIFY_H

#include <stdatomic.h>

#include "identity/postgres/link.h"
#include "registry/registry_int.h"

struct sl_pg_notify;

struct sl_pg_notify_options {
    const char *url; /* borrowed for its life */
    const struct sl_alloc *alloc;
    const _Atomic int *own; /* the process that serves us: it is not heard */
    sl_heard_f *heard;      /* on the listener's thread */
    void *ctx;
};

/* SLUICE_ENOMEM, SLUICE_ESYS. A server that is away is waited for. */
SL_MUST_USE int sl_pg_notify_open(const struct sl_pg_notify_options *options,
                                  struct sl_pg_notify **ret,
                                  struct sl_diag *diag);

/* Ends the thread. NULL is allowed. */
void sl_pg_notify_close(struct sl_pg_notify *listener);

#endif
