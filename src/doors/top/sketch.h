/* sketch.h -- the largest of very many counts, in a fixed piece of memory.
 *
 * Whatever is counted (a key of a limit at an endpoint) has three numbers: how
 * often it was refused, how often it passed, and what it took. There is room
 * for SL_SKETCH_ITEMS of them. As long as no more have come, every number is
 * exact. When there is no room, those that are small in all three numbers give
 * way, and the floors remember how small: whatever is not here, or came back
 * later, may have had that much before.
 *
 *     count      at least what is true
 *     error      what of it is not certain: count - error is at most true
 *     floor      of each number: the most that anything not here can have
 *
 * This is Space-Saving (Metwally and others, 2005) in its lazy form: a quarter
 * and more of the room is made at once, so that adding is one look into a hash
 * table, whatever the amount.
 *
 * Invariants. (test/prop/sketch.c checks each by number.)
 *   (1) count - error <= true <= count, for what is here.
 *   (2) true <= floor <= count, for what is not here and what is.
 *   (3) floor * (SL_SKETCH_ITEMS / 4) <= all that was added: with 2048 items
 *       no number is wrong by more than a 512th of the sum of all.
 *   (4) There are at most SL_SKETCH_ITEMS, and nothing is ever allocated.
 *
 * Not safe for threads: see top.c.
 */
#ifndef SL_SKETCH_H
#define SL_SKETCH_H

#include "base/str.h"

#define SL_SKETCH_ITEMS 2048
#define SL_SKETCH_TEXT  80 /* bytes of a key that are kept */

enum sl_measure { SL_DENIED, SL_ALLOWED, SL_COST, SL_MEASURES };

struct sl_sketch_item {
    uint64_t print; /* what it is: a fingerprint of all its names */
    uint64_t count[SL_MEASURES];
    uint64_t error[SL_MEASURES];
    uint16_t place; /* the owner's: which limit and endpoint */
    uint8_t key_len;
    bool cut; /* the key is longer, and this is how it begins */
    char key[SL_SKETCH_TEXT];
};

struct sl_sketch {
    uint64_t floor[SL_MEASURES];
    uint64_t total[SL_MEASURES]; /* all that was added */
    unsigned count;
    uint16_t index[2 * SL_SKETCH_ITEMS]; /* by print; item + 1, 0: none */
    struct sl_sketch_item items[SL_SKETCH_ITEMS];
};

/* What is to be counted. */
struct sl_counted {
    uint64_t print;
    uint16_t place;
    struct sl_str key; /* copied, and cut */
    uint64_t add[SL_MEASURES];
};

/* Empty. */
void sl_sketch_init(struct sl_sketch *sketch);

void sl_sketch_add(struct sl_sketch *sketch, const struct sl_counted *what);

/* Add all of `from`. What is at place p there is at places[p] here. */
void sl_sketch_merge(struct sl_sketch *sketch, const struct sl_sketch *from,
                     const uint16_t *places);

/* The item of this print, or NULL. */
const struct sl_sketch_item *sl_sketch_find(const struct sl_sketch *sketch,
                                            uint64_t print);

#endif
