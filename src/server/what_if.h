/* what_if.h -- what the last minutes would have been under another policy.
 *
 * The recorded requests (recorder.h) are decided again, at the times at which
 * they came: by the active policy and by a candidate, each with counts in
 * memory that begin at zero. The difference of the two is what the candidate
 * changes. Overrides, blocks, switches by hand, holds and headers other than
 * those that name the caller are not a part of it.
 */
#ifndef SL_SERVER_WHAT_IF_H
#define SL_SERVER_WHAT_IF_H

#include "server/recorder.h"

struct sl_what_if {
    struct sl_recorder *const *recorders;
    unsigned count;
    struct sl_policy *active, *candidate;
    sl_ns from; /* requests of this time and later */
    const struct sl_alloc *alloc;
};

/* Append {"from":TIME,"requests":N,"share":0.25,"denied":N,"active":N,
 * "candidate":N,"newly_denied":N,"newly_allowed":N,"endpoints":[...]}: how many
 * were denied then, would be by the active policy from zero, and by the
 * candidate; the same of each endpoint. SLUICE_ENOMEM, or what opening a store
 * returns. */
SL_MUST_USE int sl_what_if(const struct sl_what_if *of, struct sl_buf *out);

#endif
