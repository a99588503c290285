/* resolve.h -- looks host names up without blocking the loop.
 *
 * Each lookup runs getaddrinfo() on a short-lived thread, because it can block
 * for seconds.
 */
#ifndef SL_NET_RESOLVE_H
#define SL_NET_RESOLVE_H

#include "net/address.h"
#include "net/loop.h"

#define SL_RESOLVED_MOST 8

struct sl_resolved {
    struct sl_address list[SL_RESOLVED_MOST];
    unsigned count; /* 0: see `why` */
    char why[96];   /* a sentence behind the name: "is not known" */
};

/* Read a numeric address, or the path of a unix socket (port 0). False if
 * `name` is neither. */
SL_MUST_USE bool sl_resolve_digits(const char *name, unsigned port,
                                   struct sl_resolved *ret);

struct sl_resolve;

/* Look `name` (copied) up. `done` is called once on the loop's thread, after
 * this returns. SLUICE_ENOMEM, SLUICE_ESYS. */
typedef void sl_resolve_f(void *ctx, const struct sl_resolved *resolved);
SL_MUST_USE int sl_resolve_begin(struct sl_loop *loop, const char *name,
                                 unsigned port, sl_resolve_f *done, void *ctx,
                                 struct sl_resolve **ret);

/* Cancel before done() is called. NULL is allowed. */
void sl_resolve_cancel(struct sl_resolve *resolve);

#endif
