/* resolve.h -- names of hosts to addresses, without making the loop wait.
 *
 * The resolver of the C library blocks, for seconds if its servers are gone. It
 * is asked by a thread of its own for each question, which then ends.
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

/* An address in digits, or the path of a unix socket (port 0), needs nobody to
 * be asked. False if `name` is neither. */
SL_MUST_USE bool sl_resolve_digits(const char *name, unsigned port,
                                   struct sl_resolved *ret);

struct sl_resolve;

/* Ask; `done` is called on the loop's thread, once, and never before this
 * returns. `name` is copied. SLUICE_ENOMEM, SLUICE_ESYS. */
typedef void sl_resolve_f(void *ctx, const struct sl_resolved *resolved);
SL_MUST_USE int sl_resolve_begin(struct sl_loop *loop, const char *name,
                                 unsigned port, sl_resolve_f *done, void *ctx,
                                 struct sl_resolve **ret);

/* Do not wait for the answer any more. NULL is allowed; not after done(). */
void sl_resolve_cancel(struct sl_resolve *resolve);

#endif
