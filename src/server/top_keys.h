/* top.h -- who is refused most, who passes most, who takes most.
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
#ifndef SL_TOP_KEYS_H
#define SL_TOP_KEYS_H

#include "base/arena.h"
#include "base/hash.h"
#include "doors/top/sketch.h"
#include "engine/decision.h"

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
