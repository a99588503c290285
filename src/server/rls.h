/* rls.h -- a request of Envoy's rate limit service, decided.
 *
 * Whoever has read one, from protocol buffers or from JSON, puts it into a
 * call and has it decided; done() is told when the answer is there, perhaps
 * before sl_rls_decide() returns. How it came and how it goes is not known
 * here.
 *
 *   decide.c    rounds of questions to the engine
 *   describe.c  descriptors to facts, and a decision to statuses
 */
#ifndef SL_SERVER_RLS_H
#define SL_SERVER_RLS_H

#include "engine/check.h"
#include "engine/render.h"
#include "server/metrics.h"
#include "wire/rls.h"

struct sl_rls_call {
    struct sl_check ask;
    struct sl_loop *loop;     /* for the time */
    struct sl_metrics *stats; /* NULL: nothing is counted */
    const char *door;         /* for metrics */
    struct sl_arena arena, ink;
    void (*done)(struct sl_rls_call *call);
    void *ctx; /* the asker's, as is `done` */

    struct sl_rls_request request;   /* to be filled in */
    sl_ns deadline;                  /* steady; 0: none */
    bool gone;                       /* nobody waits any more */
    struct sl_rls_response response; /* the answer, if err is 0 */
    int err;                         /* the sentence is in ask.diag */

    /* While it is decided. */
    sl_ns asked_at;
    bool each;     /* every descriptor for itself */
    bool denied;   /* what follows is only looked at, unless `each` */
    bool inside;   /* of the engine's call */
    unsigned step; /* which of the rounds */
    struct sl_rendered rendered;
    bool has_rendered;
    struct sl_request facts[SL_RLS_DESCRIPTORS];
    const struct sl_route *routes[SL_RLS_DESCRIPTORS]; /* if `each` */
    unsigned quotas, quotas_over; /* `count: quota`: how many, and denied */
    unsigned chosen[SL_RLS_DESCRIPTORS]; /* of the round: which descriptors */
    unsigned chosen_count;
};

void sl_rls_call_init(struct sl_rls_call *call, struct sl_engine *engine,
                      const struct sl_engine_ctx *station,
                      const struct sl_alloc *alloc);
void sl_rls_call_done(struct sl_rls_call *call);

/* Forget the one before. */
void sl_rls_call_reset(struct sl_rls_call *call);

/* Decide call->request. SLUICE_EINVAL: it makes no sense; SLUICE_EFULL: too
 * much; SLUICE_ENOMEM; SLUICE_ESTORE: the store does not answer, and the policy
 * denies then. */
void sl_rls_decide(struct sl_rls_call *call);

#endif
