/* dice.h -- a little chance, so that many who were cut off at one instant do
 * not all come back at another. */
#ifndef SL_DICE_H
#define SL_DICE_H

#include "base/hash.h"

struct sl_jitter {
    struct sl_hash_key key;
    uint64_t thrown;
};

SL_MUST_USE static inline int sl_jitter_init(struct sl_jitter *dice)
{
    dice->thrown = 0;
    return sl_hash_key_make(&dice->key);
}

static inline uint64_t sl_jitter_next(struct sl_jitter *dice)
{
    uint64_t turn = dice->thrown++;

    return sl_hash64(&dice->key,
                     (struct sl_str){(const char *)&turn, sizeof(turn)});
}

/* Between a half of `most` and `most`. */
static inline sl_ns sl_jitter_span(struct sl_jitter *dice, sl_ns most)
{
    uint64_t half = (uint64_t)(most / 2);

    return most - (sl_ns)(sl_jitter_next(dice) % (half + 1));
}

#endif
