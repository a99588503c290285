/* table.h -- the memory store: cells by key, taken in sets, all or none.
 *
 * Keys are stored as fingerprints under a secret of the region, so a client
 * that chooses keys cannot aim at a bucket or make two keys collide. A single
 * take reads one or two neighbouring cache lines and swaps one cell. A set, or
 * a new key, is changed as one step by an intent (intent.h). A decision never
 * allocates, waits or makes a system call.
 *
 * Invariants. (test/unit/table and test/threads check them.)
 *   (1) Either every part of a set is taken or none is.
 *   (2) The answers equal those of core/ for some serial order of the sets,
 *       also for peeks at several keys. (In a denied set, the parts that do
 *       not deny show the state at some instant of the decision.)
 *   (3) A denied set leaves every cell as it was, corrected if its time was in
 *       the future.
 *   (4) The region is all the memory that is used, whatever the keys.
 *   (5) A cell that owes more than a little is never given to another key.
 */
#ifndef SL_TABLE_TABLE_H
#define SL_TABLE_TABLE_H

#include "table/intent.h"
#include "table/part.h"

#define SL_SAVED_ANSWERS 4096 /* in rows of two */
#define SL_HOLD_NEXT     8192 /* blocks of holds whose next record is known */

struct sl_table {
    struct sl_region region;
    struct sl_actors actors;
    enum sl_on_full on_full;
    struct sl_saved_answer {
        _Alignas(16) sl_word word[2];
    } memo[SL_SAVED_ANSWERS]; /* when permits come back: see hold_record.h */
    _Atomic unsigned char hold_next[SL_HOLD_NEXT]; /* see hold_record.h, too */
};

enum sl_set_result {
    SL_SET_ALLOW,
    SL_SET_DENY,
    SL_SET_STALE, /* `now` is behind a cell by more than SL_JITTER. Nothing has
                   * changed: read the clock again and repeat with fresh */
    SL_SET_NO_HOLD_ROOM, /* no room for the hold. Nothing has changed */
};

/* Opens a table in a region. The table owns the region. */
void sl_table_init(struct sl_table *table, const struct sl_region *region,
                   enum sl_on_full on_full);
void sl_table_done(struct sl_table *table);

/* Slots that other limits cannot take from a limit, and how many of them they
 * leave free. */
struct sl_reserve {
    uint64_t slots, kept;
};

/* Of `slots`, how many limits may use together. */
static inline uint64_t sl_slots_usable(uint64_t slots)
{
    return slots / 16 * 14;
}

/* Of `slots`, how many keys can be added until one in 10,000 has found its four
 * buckets full (measured; test/unit/table/evict.c). */
static inline uint64_t sl_slots_calm(uint64_t slots)
{
    return slots / 100 * 82;
}

/* The reserve of a limit; `share` and `equal_parts` as in its binding. */
struct sl_reserve sl_reserve_of(uint64_t slots, uint32_t share,
                                uint32_t equal_parts);

/* Returns whether the table has keys of a limit of this name that are counted
 * in another unit; *ret is its sl_unit_mark(). */
bool sl_table_has_unit(const struct sl_table *table,
                       const struct sl_limit_binding *binding, uint64_t *ret);

/* Registers a limit or changes its numbers. SLUICE_EFULL: too many limits. */
SL_MUST_USE int sl_table_add_limit(struct sl_table *table,
                                   struct sl_limit_binding *binding);

/* The fingerprint of a key of a registered limit. */
static inline struct sl_hash128
sl_table_fingerprint(const struct sl_limit_binding *binding, struct sl_str key)
{
    return sl_fingerprint(&binding->hasher, key);
}

/* Prefetches the bucket of a key. */
void sl_table_prefetch(const struct sl_table *table,
                       struct sl_hash128 fingerprint);

/* Time. Threads that share a table read their clocks at different moments: one
 * reading is kept for a turn of a loop, another thread is suspended after it. A
 * reading that lags behind the latest decision by less than SL_LAG is judged at
 * the time of that decision, so that nothing is refilled twice. A larger lag is
 * a step of the clock. */
#define SL_LAG          (500 * SL_MS)
#define SL_LATEST_GRAIN (100 * SL_US) /* precision of `latest`; < SL_JITTER */

/* The latest instant of a decision. */
sl_ns sl_table_latest(const struct sl_table *table);

/* The caller's reading of its clock, for one call. */
struct sl_clock_reading {
    sl_ns (*source)(void *ctx); /* NULL: the wall clock */
    void *ctx;
    sl_ns now;
    bool fresh;
    unsigned tries;
};

/* To [0, SL_TIME_END). */
static inline sl_ns sl_clock_clamp(sl_ns now)
{
    if (now < 0)
        return 0;
    return now < SL_TIME_END ? now : SL_TIME_END - 1;
}

/* The time of a caller's clock, clamped. */
sl_ns sl_clock_read(sl_ns (*source)(void *ctx), void *ctx);

/* After SL_SET_STALE: reads the clock again. It has stepped only if this
 * reading is before what was decided before it. */
void sl_clock_read_again(struct sl_clock_reading *r,
                         const struct sl_table *table);

/* Carrying. A part that is `carried` is only read. The part after it is judged
 * as if it had also used what the carried key has used, and is charged with its
 * own cost alone. Both are read at one instant, as all parts of a set. This is
 * exact where both periods end together: for fixed windows and quotas.
 *
 * Decides a set of 1 to SL_PARTS parts with the same op. Parts of the same
 * limit and key are merged: their costs add up, and they get the same answer.
 * If the result is DENY, parts that would have passed answer ALLOW with their
 * state.
 *
 * `fresh`: `now` was read after the time that it lags behind was seen, so any
 * lag is a step. A thread that was suspended between reading the clock and this
 * call must not take its old reading for a step; see SL_SET_STALE. */
SL_MUST_USE enum sl_set_result sl_table_decide(struct sl_table *table,
                                               struct sl_part *parts,
                                               unsigned count, sl_ns now,
                                               bool fresh);

/* Decides `count` independent sets of one part each and overlaps their memory
 * accesses. results[i] belongs to parts[i]. */
void sl_table_batch(struct sl_table *table, struct sl_part *const *parts,
                    enum sl_set_result *results, unsigned count, sl_ns now,
                    bool fresh);

struct sl_table_stats {
    uint64_t counted[SL_METRICS];
    uint64_t slots;
    uint64_t occupied;  /* slots with a key */
    uint64_t bytes;     /* of the region */
    uint64_t forgotten; /* units that evicted cells owed */
};

void sl_table_stats(struct sl_table *table, struct sl_table_stats *ret);

/* Called for every slot with a key; false stops. A slot that changes meanwhile
 * is seen before or after its change. */
typedef bool sl_table_visit_f(void *ctx, uint32_t limit_id,
                              uint64_t fingerprint, struct sl_cell cell);
void sl_table_visit(struct sl_table *table, sl_table_visit_f *visit, void *ctx);

#endif
