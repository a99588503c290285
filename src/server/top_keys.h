/* top_keys.h -- who is refused most, who passes most, who takes most.
 *
 * Names of callers are no labels of metrics: each would be a series for ever.
 * They are counted here instead, in bounded memory (top/sketch.h says what the
 * numbers are worth), for /v1/top and `sluice top`.
 *
 * Each thread counts for itself, under a lock that nobody else wants but
 * whoever is looking, and he for some microseconds at a time. Whoever looks
 * adds up.
 *
 * There are two windows: since the start, and of late. Of late is what came in
 * the present span of SL_TOP_KEYS_SPAN and in the one before it. Only the
 * present span is written to; when it ends, the one before it is added to all
 * earlier ones. So a decision is counted once, whatever window is looked at.
 *
 * What is counted of a decision, for each of its limits:
 *   denied    1, if the limit itself refused, and is enforced
 *   allowed   1, if the request passed and took something
 *   cost      what it took
 */
#ifndef SL_SERVER_TOP_KEYS_H
#define SL_SERVER_TOP_KEYS_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"
#include "engine/decision.h"

/* ---- the largest of very many counts, in a fixed piece of memory.
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

#define SL_TOP_KEYS_SPAN (5 * SL_MIN)
#define SL_TOP_KEYS_LABELS                                                     \
    1024                      /* limits at endpoints; the last: all others     \
                               */
#define SL_TOP_KEYS_NAME 64   /* bytes of a name that are kept */
#define SL_TOP_KEYS_MOST 1000 /* rows of an answer */

struct sl_top_keys; /* of one thread */

/* All threads have the same `secret`. `now` is the beginning. */
SL_MUST_USE int sl_top_keys_open(const struct sl_alloc *alloc,
                                 const struct sl_hash_key *secret, sl_ns now,
                                 struct sl_top_keys **ret);
void sl_top_keys_close(struct sl_top_keys *top); /* NULL is allowed */

/* A decision was made that was to spend. The owner's thread only; it never
 * fails and allocates nothing. */
void sl_top_keys_decision(struct sl_top_keys *top, const struct sl_decision *d);

/* ---- looking ---- */

extern const char *const sl_measure_names[SL_MEASURES];

struct sl_top_keys_query {
    enum sl_measure by;
    struct sl_str limit;    /* "": any */
    struct sl_str endpoint; /* "": all of them, added up */
    bool recent;            /* of late; else since the start */
    unsigned most;          /* rows, 1 to SL_TOP_KEYS_MOST */
    sl_ns now;
};

struct sl_top_keys_row {
    struct sl_str limit, scope, key;
    bool cut; /* the key is longer than that */
    uint64_t count[SL_MEASURES];
    uint64_t error[SL_MEASURES];
};

struct sl_top_keys_answer {
    sl_ns from;                   /* when the window begins */
    uint64_t total[SL_MEASURES];  /* of everything in the window */
    struct sl_top_keys_row *rows; /* the largest first, none with 0 */
    unsigned count;
};

/* Look at all threads. The answer lives in `arena`. Any thread. SLUICE_ENOMEM.
 */
SL_MUST_USE int sl_top_keys_read(struct sl_top_keys *const *all, unsigned count,
                                 const struct sl_top_keys_query *query,
                                 struct sl_arena *arena,
                                 struct sl_top_keys_answer *ret);

#endif
