/* conflict.h -- inside the engine: what is done by one at a time.
 *
 *     sl_guard_claim()     while its routes are looked at: the key
 *     sl_guard_show()      before the limits are asked: a part for each
 *     sl_guard_conclude()  when they were: refused, if another one runs
 *
 * A guard is a permit of one, held under its key like any other and ended with
 * the hold of the check. It is no limit of the verdict: its parts stand behind
 * those that are shown.
 */
#ifndef SL_GUARD_H
#define SL_GUARD_H

#include "engine/engine_int.h"

/* Note the key that `guard` makes of this request, or refuse it if a value is
 * missing. Sets asking->no_memory. */
void sl_guard_claim(struct sl_decision *decision, struct sl_check_step *asking,
                    const struct sl_guard *guard);

void sl_guard_show(struct sl_decision *decision);
void sl_guard_conclude(struct sl_decision *decision);

#endif
