/* compare.h -- what an act was answered, against what was expected. */
#ifndef SL_FLOW_COMPARE_H
#define SL_FLOW_COMPARE_H

#include "cli/flow/run.h"

/* How the repeats of an act went. */
struct sl_flow_counts {
    uint64_t allowed, denied;
};

/* Append to *ret what is not as expected; the texts live in `arena`.
 * `decision` is that of the last repeat. SLUICE_ENOMEM without memory. */
SL_MUST_USE int sl_compare(const struct sl_flow_act *act,
                           const struct sl_flow_counts *tally,
                           const struct sluice_decision *decision,
                           struct sl_arena *arena,
                           struct sl_flow_mismatch **ret);

/* The field of a JSON text at a dotted path, as text: strings without quotes,
 * everything else as JSON. NULL if there is no such field; *ret_err is
 * SLUICE_ENOMEM without memory. */
const char *sl_flow_body_field(const char *json, const char *path,
                               struct sl_arena *arena, int *ret_err);

#endif
