/* due.h -- when the next hold expires.
 *
 * Every block of records has a pair of words, and so has the region: the
 * earliest expiry of all that is held below, and a number. It may be too early
 * (then whoever looks finds nothing due and corrects it) but never too late.
 *
 *   lower    by whoever makes an expiry come true, before it does and while
 *            the head of its record is locked
 *   recount  by whoever finds it due: set it to 0, which is always due; look
 *            through everything below; set it to the earliest that was found,
 *            if the number is still the same
 *
 * Why none is missed: whoever lowers has locked the head of the record and
 * then reads the word. If it is 0, a recount is under way that may have passed
 * by; he changes the number, and that recount is void. If it is not, any
 * recount that is still to come finds the head locked, and waits to see what
 * becomes of it. A recount whose owner has died leaves 0, and the next decision
 * does it again.
 */
#ifndef SL_HOLD_EXPIRY_H
#define SL_HOLD_EXPIRY_H

#include "table/intent.h"

#define SL_HOLD_EXPIRY_NONE SL_NS_MAX

/* Has anything expired at `now`? All that a decision pays when there are no
 * holds. */
static inline bool sl_is_due(const struct sl_region *r, sl_ns now)
{
    return (sl_ns)atomic_load_explicit(&sl_region_head(r)->due[0],
                                       memory_order_relaxed) <= now;
}

/* Are there no holds at all? */
static inline bool sl_none_held(const struct sl_region *r)
{
    return sl_is_due(r, SL_HOLD_EXPIRY_NONE - 1) == false;
}

/* The words of a block, and of the region. */
sl_word *sl_hold_expiry_of(const struct sl_region *r, uint64_t block);
sl_word *sl_hold_expiry_of_all(const struct sl_region *r);

/* The earliest expiry below; 0 while nobody knows. */
static inline sl_ns sl_hold_expiry_read(const sl_word *due)
{
    return (sl_ns)atomic_load(due);
}

/* A hold in this block is about to expire at `expires`. */
void sl_hold_expiry_lower(const struct sl_region *r, uint64_t block,
                          sl_ns expires);

/* Begin a recount, and end it with what was found. False if it was void, and
 * nobody knows. */
uint64_t sl_hold_expiry_begin(sl_word *due);
bool sl_hold_expiry_finish(sl_word *due, uint64_t number, sl_ns found);

#endif
