/* guard.h -- inside the engine: what is asked of a request before its limits,
 * and what is remembered of it after them.
 *
 *     sl_precheck_run()   while its routes are looked at: refused, or not
 *     sl_idempotency_claim()  its key, if it has one, and its fingerprint
 *     sl_idempotency_begin()  before the limits are asked: perhaps there is an
 *                        answer already
 *     sl_precheck_commit()  when it is decided: keep what was claimed, or drop
 * it
 */
#ifndef SL_GUARD_H
#define SL_GUARD_H

#include "engine/engine_int.h"

/* Ask what `route` asks. False if the request was refused. */
SL_MUST_USE bool sl_precheck_run(struct sl_decision *decision,
                                 struct sl_check_step *asking,
                                 const struct sl_route *route);

/* Find the key that repeats of this request have. guards may be NULL. */
void sl_idempotency_claim(struct sl_decision *decision,
                          struct sl_check_step *asking,
                          const struct sl_prechecks *guards);

/* Has it been answered? Then the decision is that answer, and true. It may be
 * refused, too. */
SL_MUST_USE bool sl_idempotency_begin(struct sl_decision *decision,
                                      const struct sl_active_policy *live);

static inline bool sl_claims_same(const struct sl_replay_cache_claim *a,
                                  const struct sl_replay_cache_claim *b)
{
    return a->key.lo == b->key.lo && a->key.hi == b->key.hi;
}

/* A fingerprint of several texts, one after the other: no two rows of texts
 * have the same. */
struct sl_hash128 sl_fingerprint_add(const struct sl_hash_key *secret,
                                     struct sl_hash128 before,
                                     struct sl_str text);

#endif
