/* table.h -- the memory store: cells by key, taken in sets, all or nothing.
 *
 * A key is kept as a fingerprint under a secret of the region, so that nobody
 * who chooses keys can aim at a bucket or make two keys meet. A single take
 * reads one or two neighbouring cache lines and swaps one cell; a set, or a
 * new key, is changed as one by an intent (intent.h). Nothing here allocates,
 * waits or makes a system call on the way of a decision.
 *
 * Invariants. (test/unit/table and test/threads check them.)
 *   (1) Either every part of a set is taken or none is.
 *   (2) The answers equal those of core/ for some serial order of the sets,
 *       looks at several keys included. (Where a set is refused, the parts
 *       that did not refuse show what was there while it was judged.)
 *   (3) A set that was refused leaves every cell as it was, mended if its
 *       clock had run ahead.
 *   (4) The region is all the memory that is used, whatever the keys.
 *   (5) A cell that owes more than a little is never given to another key.
 */
#ifndef SL_TABLE_TABLE_H
#define SL_TABLE_TABLE_H

#include "table/intent.h"
#include "table/part.h"

#define SL_SAVED_ANSWERS 4096 /* in rows of two */

struct sl_table {
    struct sl_region region;
    struct sl_actors actors;
    enum sl_on_full on_full;
    struct sl_saved_answer {
        _Alignas(16) sl_word word[2];
    } memo[SL_SAVED_ANSWERS]; /* who was refused a permit: see hold/soonest.h */
};

enum sl_set_result {
    SL_SET_ALLOW,
    SL_SET_DENY,
    SL_SET_STALE, /* `now` lies behind a cell by more than SL_JITTER: read
                   * the clock again and come back with fresh = true.
                   * Nothing was changed */
    SL_SET_NO_HOLD_ROOM, /* there is no room for the hold; see hold/hold.h.
                          * Nothing was changed */
};

/* Put a table over an open region. The region is taken over: closing the
 * table closes it. */
void sl_table_init(struct sl_table *table, const struct sl_region *region,
                   enum sl_on_full on_full);
void sl_table_done(struct sl_table *table);

/* Make a limit known, or its numbers. SLUICE_EFULL if the region knows too
 * many already. */
SL_MUST_USE int sl_table_add_limit(struct sl_table *table,
                                   struct sl_limit_binding *binding);

/* The fingerprint of a key under a limit that is known. */
static inline struct sl_hash128
sl_table_fingerprint(const struct sl_limit_binding *binding, struct sl_str key)
{
    return sl_hash128(&binding->hash_key, key);
}

/* The key with that fingerprint is about to be asked for: begin to fetch what
 * it lies in. */
void sl_table_prefetch(const struct sl_table *table,
                       struct sl_hash128 fingerprint);

/* Time. Those who share a table read their clocks at different moments: one has
 * kept his reading for a turn of his loop, another was taken off the processor
 * after it. A reading that lags behind what others have decided at by less
 * than SL_LAG is judged at their time, so that nothing is pulled back and
 * refilled twice. Only what lags by more is a step of the clock. */
#define SL_LAG (500 * SL_MS)
#define SL_LATEST_GRAIN                                                        \
    (100 * SL_US) /* how exactly that is kept; < SL_JITTER */

/* The latest instant that anybody decided at. */
sl_ns sl_table_latest(const struct sl_table *table);

/* Carrying. A part that is `carried` is looked at; the part behind it is then
 * judged as if it had used, beside its own, what the carried one has, and is
 * charged with its cost alone. Both are seen at one instant, as all parts of a
 * set are. It is exact where both end together: for fixed windows and quotas.
 *
 * Decide a set of 1 to SL_PARTS parts. Parts of the same limit and key are
 * merged: their costs add up, and they get the same answer. If the verdict is
 * DENY, parts that would have passed answer ALLOW with what is there.
 *
 * `fresh` says that `now` was read after the time that it lags behind was
 * seen, and is right: then any lag is a step. A thread that was stopped between
 * reading the clock and coming here must not take its old reading for a step
 * of the clock; see SL_SET_STALE. */
SL_MUST_USE enum sl_set_result sl_table_decide(struct sl_table *table,
                                               struct sl_part *parts,
                                               unsigned count, sl_ns now,
                                               bool fresh);

/* Decide `count` independent sets of one part each, with the waits for memory
 * overlapped. verdicts[i] belongs to parts[i]. */
void sl_table_batch(struct sl_table *table, struct sl_part *const *parts,
                    enum sl_set_result *verdicts, unsigned count, sl_ns now,
                    bool fresh);

struct sl_table_stats {
    uint64_t counted[SL_METRICS];
    uint64_t slots;
    uint64_t occupied; /* slots that carry a key */
    uint64_t bytes;    /* of the region */
};

void sl_table_stats(struct sl_table *table, struct sl_table_stats *ret);

/* Called for every slot that carries a key; return false to stop. Slots that
 * change meanwhile are seen before or after. */
typedef bool sl_table_visit_f(void *ctx, uint32_t limit_id,
                              uint64_t fingerprint, struct sl_cell cell);
void sl_table_visit(struct sl_table *table, sl_table_visit_f *visit, void *ctx);

#endif
