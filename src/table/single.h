/* single.h -- one key alone: the short way to a verdict.
 *
 * Most questions are about one key, and most keys have their slot in one of
 * the two buckets where they are looked for first. Then nothing of a set is
 * needed: say in which bucket a cell may be swapped ("Single changes" in
 * intent.h), read it, judge, swap. Whatever else turns up (a key that is new or
 * elsewhere, a locked guard, a clock that seems to have stepped) goes the long
 * way, by set.h.
 */
#ifndef SL_SINGLE_H
#define SL_SINGLE_H

#include "table/set.h"

/* Take `part`, whose key has the tag `tag` and seems to be in `slot`; its
 * bucket was announced. False if the short way ends before there is a verdict:
 * then nothing has happened. */
SL_MUST_USE bool sl_set_decide_one(const struct sl_set *set,
                                   struct sl_part *part, uint64_t tag,
                                   struct sl_slot slot,
                                   enum sl_set_result *ret);

#endif
