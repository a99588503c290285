/* run.h -- a flow at work: an engine of its own, empty, on a clock that only
 * the flow moves; and if there is a daemon to be asked, that one too.
 */
#ifndef SL_FLOW_RUN_H
#define SL_FLOW_RUN_H

#include "cli/flow/flow.h"

struct sl_flow_daemon;

enum sl_flow_result {
    SL_END_PASSED,
    SL_END_FAILED,     /* an act was not answered as expected */
    SL_END_BAD_POLICY, /* a policy was refused; `message` has its problems */
    SL_END_BROKEN,     /* the engine failed; `message` says how */
    SL_END_NOBODY,     /* the daemon could not be reached; likewise */
    SL_END_SKIPPED,    /* it can't be run so; `message` says why */
};

/* One field that came out other than expected. */
struct sl_flow_mismatch {
    const char *label; /* "retry"; "" for a status or a word */
    const char *want, *got;
    struct sl_flow_mismatch *next;
};

struct sl_flow_outcome {
    enum sl_flow_result end;
    unsigned line; /* where it stopped; 0 before the first act */
    size_t acts;   /* done, the one that failed included */
    struct sl_flow_mismatch
        *misses;         /* FAILED: what was wrong, perhaps nothing */
    const char *message; /* or why else it failed; "" none */
};

/* Run one flow, with `remote` (may be NULL) over HTTP. The texts of *ret live
 * in `arena`. */
void sl_flow_run(const struct sl_flow *flow, const char *file,
                 struct sl_flow_daemon *remote, struct sl_arena *arena,
                 struct sl_flow_outcome *ret);

/* Put what a REQUEST, JOB or TAKE says into a request. */
void sl_flow_request_fill(const struct sl_flow_act *act,
                          struct sluice_request *ret);

/* What `usage SCOPE ID LIMIT AMOUNT` reports; in usage.c. SLUICE_ECONF with a
 * sentence. */
SL_MUST_USE int sl_usage_fill(const struct sl_flow_act *act,
                              struct sluice_request *ret, struct sl_diag *diag);

#endif
