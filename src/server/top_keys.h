/* top_keys.h -- the keys with the most denials, allowed requests and units.
 *
 * Names of callers are not labels of metrics: each would be a series for ever.
 * They are counted here in bounded memory, for /v1/top and `sluice top`. Each
 * thread counts for itself under a lock. A reader takes the lock for some
 * microseconds at a time and adds up.
 *
 * There are two windows: since the start, and recent. Recent is the present
 * span of SL_TOP_KEYS_SPAN and the span before it. Only the present span is
 * written. When it ends, the span before it is added to all earlier ones.
 *
 * For each limit of a decision these are counted:
 *   denied    1, if the limit denied and is enforced
 *   allowed   1, if the request was allowed and took units
 *   cost      the units
 */
#ifndef SL_SERVER_TOP_KEYS_H
#define SL_SERVER_TOP_KEYS_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"
#include "engine/decision.h"

/* ---- the sketch: the largest of many counts, in fixed memory ----
 *
 * An item (a key of a limit at an endpoint) has three counts: denials, allowed
 * requests and units. There is room for SL_SKETCH_ITEMS items. Until it is
 * full, every count is exact. Then items that are small in all three counts are
 * dropped, and the floors keep the largest dropped count: an item that is not
 * here, or that came back later, may have had that count before.
 *
 *     count      at least the true count
 *     error      the uncertain part: count - error is at most the true count
 *     floor      the largest possible count of an item that is not here
 *
 * This is Space-Saving (Metwally and others, 2005) in its lazy form: at least a
 * quarter of the room is freed at once, so that adding is one lookup in a hash
 * table.
 *
 * Invariants. (test/prop/sketch.c checks each by number.)
 *   (1) count - error <= true <= count, for what is here.
 *   (2) true <= floor <= count, for what is not here and what is.
 *   (3) floor * (SL_SKETCH_ITEMS / 4) <= all that was added: with 2048 items
 *       no number is wrong by more than a 512th of the sum of all.
 *   (4) There are at most SL_SKETCH_ITEMS, and nothing is ever allocated.
 *
 * Not safe for threads: see top_keys.c.
 */

#define SL_SKETCH_ITEMS 2048
#define SL_SKETCH_TEXT  80 /* bytes of a key that are kept */

enum sl_measure { SL_DENIED, SL_ALLOWED, SL_COST, SL_MEASURES };

struct sl_sketch_item {
    uint64_t fingerprint; /* fingerprint of all its names */
    uint64_t count[SL_MEASURES];
    uint64_t error[SL_MEASURES];
    uint16_t place; /* index of limit and endpoint */
    uint8_t key_len;
    bool cut; /* the key is longer; only its beginning is kept */
    char key[SL_SKETCH_TEXT];
};

struct sl_sketch {
    uint64_t floor[SL_MEASURES];
    uint64_t total[SL_MEASURES]; /* all that was added */
    unsigned count;
    uint16_t index[2 * SL_SKETCH_ITEMS]; /* by print; item + 1, 0: none */
    struct sl_sketch_item items[SL_SKETCH_ITEMS];
};

/* Counts to add. */
struct sl_counted {
    uint64_t fingerprint;
    uint16_t place;
    struct sl_str key; /* copied, and cut */
    uint64_t add[SL_MEASURES];
};

/* Empty. */
void sl_sketch_init(struct sl_sketch *sketch);

void sl_sketch_add(struct sl_sketch *sketch, const struct sl_counted *what);

/* Add all of `from`. Its place p is places[p] here. */
void sl_sketch_merge(struct sl_sketch *sketch, const struct sl_sketch *from,
                     const uint16_t *places);

/* Returns the item with this fingerprint, or NULL. */
const struct sl_sketch_item *sl_sketch_find(const struct sl_sketch *sketch,
                                            uint64_t fingerprint);

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

/* Count a decision that was to spend. Owner's thread only. Never fails and
 * allocates nothing. */
void sl_top_keys_decision(struct sl_top_keys *top, const struct sl_decision *d);

/* ---- reading ---- */

extern const char *const sl_measure_names[SL_MEASURES];

struct sl_top_keys_query {
    enum sl_measure by;
    struct sl_str limit;    /* "": any */
    struct sl_str endpoint; /* "": all of them, added up */
    bool recent;            /* else since the start */
    unsigned most;          /* rows, 1 to SL_TOP_KEYS_MOST */
    sl_ns now;
};

struct sl_top_keys_row {
    struct sl_str limit, scope, key;
    bool cut; /* the key is longer */
    uint64_t count[SL_MEASURES];
    uint64_t error[SL_MEASURES];
};

struct sl_top_keys_answer {
    sl_ns from;                   /* when the window begins */
    uint64_t total[SL_MEASURES];  /* of everything in the window */
    struct sl_top_keys_row *rows; /* the largest first, none with 0 */
    unsigned count;
};

/* Read the counts of all threads. The answer is allocated in `arena`. Returns
 * SLUICE_ENOMEM without memory. Any thread. */
SL_MUST_USE int sl_top_keys_read(struct sl_top_keys *const *all, unsigned count,
                                 const struct sl_top_keys_query *query,
                                 struct sl_arena *arena,
                                 struct sl_top_keys_answer *ret);

#endif
