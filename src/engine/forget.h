/* forget.h -- what was taken from the limits of a decision, forgotten. */
#ifndef SL_FORGET_H
#define SL_FORGET_H

#include "engine/engine.h"

struct sl_loop;

/* Make `take` one that empties all limits that `decision`, which took nothing,
 * shows: candidates too, as far as `parts` (SL_PARTS of them) has room. All of
 * them must last until it is done. Returns how many they are. */
unsigned sl_forget_prepare(const struct sl_decision *decision,
                           const struct sl_live *live, struct sl_take *take,
                           struct sl_take_part *parts);

/* Have it carried out; take->done is called once. Not if there is no part. */
void sl_forget(struct sl_engine *engine, struct sl_take *take,
               struct sl_loop *loop);

#endif
