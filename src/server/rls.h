/* rls.h -- decides a request of Envoy's rate limit service.
 *
 * A server reads the request, from protocol buffers or JSON, into a call.
 * done() is called once, either before sl_rls_decide() returns or from the
 * loop.
 */
#ifndef SL_SERVER_RLS_H
#define SL_SERVER_RLS_H

#include "engine/check.h"
#include "engine/render.h"
#include "server/metrics.h"
#include "wire/rls.h"

struct sl_rls_call {
    struct sl_check check;
    struct sl_loop *loop;     /* for the time */
    struct sl_metrics *stats; /* NULL: nothing is counted */
    const char *door;         /* for metrics */
    struct sl_arena arena, text_arena;
    void (*done)(struct sl_rls_call *call);
    void *ctx; /* of the caller, as is `done` */

    struct sl_rls_request request;   /* to be filled in */
    sl_ns deadline;                  /* monotonic; 0: none */
    bool gone;                       /* the client is gone */
    struct sl_rls_response response; /* the answer, if err is 0 */
    int err;                         /* the sentence is in ask.diag */

    /* While it is decided. */
    sl_ns asked_at;
    bool each;     /* decide every descriptor by itself */
    bool denied;   /* only peek the rest, unless `each` */
    bool inside;   /* the engine's call runs */
    unsigned step; /* which of the rounds */
    struct sl_rendered rendered;
    bool has_rendered;
    struct sl_request *requests; /* of the round; in `arena` */
    const struct sl_route *routes[SL_RLS_DESCRIPTORS]; /* if `each` */
    unsigned quotas, quotas_over; /* `count: quota`: how many, and denied */
    unsigned chosen[SL_RLS_DESCRIPTORS]; /* of the round: which descriptors */
    unsigned chosen_count;
};

void sl_rls_call_init(struct sl_rls_call *call, struct sl_engine *engine,
                      const struct sl_engine_ctx *engine_ctx,
                      const struct sl_alloc *alloc);
void sl_rls_call_done(struct sl_rls_call *call);

/* Prepare for the next request. */
void sl_rls_call_reset(struct sl_rls_call *call);

/* Decide call->request. call->err is SLUICE_EINVAL for an invalid request,
 * SLUICE_EFULL for a request that is too large, SLUICE_ENOMEM, or SLUICE_ESTORE
 * if the store does not answer and the policy denies in this case. */
void sl_rls_decide(struct sl_rls_call *call);

#endif
