/* usage_journal.h -- usage that is not in the database yet, in a file.
 *
 *     file:  head | segment | segment | ...         fixed size, mapped, shared
 *     segment:  head | line | line | ...            64-byte units
 *     line:  checked constants | two amounts | texts
 *
 * A line has the sum of the amounts of one limit and subject. Adding to it is a
 * write to memory: the kernel has it when the process is killed. A thread owns
 * the segments that it has taken. The lines of a segment are recorded in one
 * transaction, after which the segment is free.
 *
 *     FREE --> OPEN: (stream, sequence), lines --> SEALED: constant, may be
 *      ^             are added and summed          recorded
 *      +-------------------------------------------+
 *
 * The database has the last sequence of each stream of a journal, written in
 * the transaction of the amounts, so that a segment is recorded once, however
 * often it is sent. A segment gets its sequence when it is opened. A power
 * failure may undo the writes that sealed and freed it; the database still
 * knows its sequence, and it is not recorded again. Each opening of the journal
 * uses new streams, so that no sequence is used twice.
 *
 * On disk. A killed process loses nothing. A power failure loses what the
 * kernel had not written: about the last SL_JOURNAL_SYNC, since the file is
 * synced that often while there is something new, and by
 * sl_usage_journal_sync().
 *
 * Invariants. (test/unit/registry/usage_journal.c and test/prop/journal.c check
 * each by number.)
 *   (1) A line is complete before it is counted in `used` of its segment.
 *   (2) A change of an amount is complete or not there: a line has two copies
 *       of it. The one that is not valid is changed, and one store makes it
 *       the valid one.
 *   (3) A sealed segment never changes.
 *   (4) Nothing after damage is read, and nothing damaged is recorded.
 */
#ifndef SL_REGISTRY_USAGE_JOURNAL_H
#define SL_REGISTRY_USAGE_JOURNAL_H

#include <stdatomic.h>

#include "registry/usage_db.h"

#define SL_JOURNAL_UNIT    64 /* bytes; lines begin at multiples of it */
#define SL_JOURNAL_SEGMENT ((size_t)128 << 10)
#define SL_JOURNAL_LEAST   ((uint64_t)1 << 20)
#define SL_JOURNAL_MOST    ((uint64_t)16 << 30)
#define SL_JOURNAL_SIZE    ((uint64_t)64 << 20)
#define SL_JOURNAL_LINES   512 /* of a segment, at most */
#define SL_JOURNAL_SYNC    SL_S
#define SL_JOURNAL_NODE    20 /* bytes of its name, with the NUL */

/* What changes in a line. */
struct sl_usage_amount {
    int64_t amount;
    sl_ns at;
    uint64_t cap;
    sl_ns until; /* of a hold */
    sl_ns start, end;
    int64_t last_day;
    uint8_t act, level, spare[6];
};

struct sl_usage_line {
    uint32_t check;        /* of everything but `which` and the amounts */
    uint16_t size;         /* in units of 64 bytes */
    uint8_t flags;         /* enum sl_usage_line_flag */
    _Atomic uint8_t which; /* of the amounts */
    uint64_t hash;         /* by which it is found */
    struct sl_hash128 fingerprint;
    uint64_t hold[2];
    uint16_t lengths[8]; /* limit, scope, id, key, name, node, plan, zone */
    struct sl_usage_amount amounts[2];
    struct sl_thresholds thresholds;
    char texts[]; /* in the order of `lengths` */
};

#define SL_LINE_PLAN 6 /* of the texts */

enum sl_usage_line_flag {
    SL_LINE_RESET = 1,
    SL_LINE_REPORT = 2, /* a report: the limit is charged once it is recorded */
    SL_LINE_NEEDS_REFUND = 4,
};

enum sl_segment_state { SL_SEGMENT_FREE, SL_SEGMENT_OPEN, SL_SEGMENT_SEALED };

struct sl_usage_segment {
    uint64_t magic;
    uint64_t generation;    /* another one at each use; key of its checks */
    _Atomic uint64_t order; /* in which the segments were opened */
    _Atomic sl_ns since;    /* time of the first line */
    _Atomic uint32_t state;
    _Atomic uint32_t used;     /* bytes, with this head */
    uint64_t check_open;       /* of magic, order, stream and sequence */
    uint64_t stream, sequence; /* by which the database knows it */
    uint64_t check_sealed;     /* SEALED: of the segment */
    uint64_t spare[7];
};

struct sl_loop;
struct sl_usage_journal;

struct sl_usage_journal_options {
    const struct sl_alloc *alloc;
    const char *path; /* NULL: in memory, which ends with the process */
    bool shared;      /* several daemons have this path: if another one uses
                       * the file, PATH.2 is tried, and so on to PATH.64. What
                       * a daemon that is gone has left is recorded by the next
                       * one that finds it */
    uint64_t size;    /* 0: SL_JOURNAL_SIZE */
};

/* Opens or creates a journal and reads what is pending in it. Returns 0;
 * SLUICE_ESYS or SLUICE_EFULL with a sentence: the file cannot be created or
 * locked, the disk is full, or the file is not a journal; SLUICE_ENOMEM. */
SL_MUST_USE int
sl_usage_journal_open(const struct sl_usage_journal_options *options,
                      struct sl_usage_journal **ret, struct sl_diag *diag);

/* The file that was found. NULL: in memory. */
const char *sl_usage_journal_path(const struct sl_usage_journal *journal);

/* Segments that are not recorded stay in the file. NULL is allowed. */
void sl_usage_journal_close(struct sl_usage_journal *journal);

/* "" or a sentence about damage that was found, and what was done. */
const char *sl_usage_journal_notice(const struct sl_usage_journal *journal);

/* The name of the journal in the database: 16 hexadecimal digits. */
struct sl_str sl_usage_journal_node(const struct sl_usage_journal *journal);
bool sl_usage_journal_is_file(const struct sl_usage_journal *journal);

/* Returns a new stream, for one thread. */
uint64_t sl_usage_journal_stream(struct sl_usage_journal *journal);

#define SL_JOURNAL_STREAMS 65536
/* Returns the first of the SL_JOURNAL_STREAMS streams of this opening. */
uint64_t sl_usage_journal_streams(const struct sl_usage_journal *journal);

/* Can each stream have a segment in reserve? Then there are three for each: one
 * is open, one is sent, one is reserved. */
bool sl_usage_journal_has_reserve(const struct sl_usage_journal *journal);

/* If not: returns how many segments are kept for all of them. */
unsigned sl_usage_journal_reserve(const struct sl_usage_journal *journal);

/* Returns segment `index` of an earlier process, sealed; they are in the order
 * in which they must be recorded. NULL: it was dropped, or there are not so
 * many. Call drop_recovered() when it is recorded. One thread. */
struct sl_usage_segment *
sl_usage_journal_recovered(const struct sl_usage_journal *journal,
                           unsigned index);
void sl_usage_journal_drop_recovered(struct sl_usage_journal *journal,
                                     unsigned index);

/* ---- segments: by the thread that owns them ---- */

/* Returns an empty open segment, or NULL: the journal is full. The segments of
 * a stream are opened, sealed and recorded in the order of their sequences. */
struct sl_usage_segment *sl_usage_segment_open(struct sl_usage_journal *journal,
                                               uint64_t stream,
                                               uint64_t sequence, sl_ns now);

/* Takes a segment out of the free ones, to open it later; NULL: there is none.
 * In the file it stays free. */
struct sl_usage_segment *
sl_usage_segment_reserve(struct sl_usage_journal *journal);
void sl_usage_segment_begin(struct sl_usage_journal *journal,
                            struct sl_usage_segment *segment, uint64_t stream,
                            uint64_t sequence, sl_ns now);

/* Adds a line. Returns NULL without room. */
struct sl_usage_line *sl_usage_segment_add(struct sl_usage_segment *segment,
                                           const struct sl_usage_entry *usage,
                                           uint64_t hash, unsigned flags);

/* Adds a line for each report: all of them or, without room, none. */
SL_MUST_USE bool
sl_usage_segment_add_reports(struct sl_usage_segment *segment,
                             const struct sl_usage_entry *reports,
                             unsigned count);

void sl_usage_segment_seal(struct sl_usage_segment *segment);
void sl_usage_segment_free(struct sl_usage_journal *journal,
                           struct sl_usage_segment *segment);

/* Number of segments; of free ones. */
unsigned sl_usage_journal_segments(const struct sl_usage_journal *journal);
unsigned sl_usage_journal_room(const struct sl_usage_journal *journal);
unsigned sl_usage_segment_index(const struct sl_usage_journal *journal,
                                const struct sl_usage_segment *segment);
struct sl_usage_segment *
sl_usage_segment_at(const struct sl_usage_journal *journal, unsigned index);

/* The line after `line` (NULL: the first), or NULL at the end. */
struct sl_usage_line *
sl_usage_segment_next(const struct sl_usage_segment *segment,
                      const struct sl_usage_line *line);

/* Checks a segment of SL_JOURNAL_SEGMENT bytes that may be damaged. Returns the
 * number of good lines before the first damage, which end at *ret_end. */
unsigned sl_usage_segment_check(const struct sl_usage_segment *segment,
                                uint32_t *ret_end, bool *ret_damaged);

/* Fills an entry. Its texts are in the line. */
void sl_usage_line_read(const struct sl_usage_line *line,
                        struct sl_usage_entry *ret);

static inline const struct sl_usage_amount *
sl_usage_line_amount(const struct sl_usage_line *line)
{
    return &line->amounts[atomic_load_explicit(&line->which,
                                               memory_order_relaxed) &
                          1];
}

/* Changes a line: fill the returned amount, then call show(). (2) */
static inline struct sl_usage_amount *
sl_usage_line_change(struct sl_usage_line *line)
{
    return &line->amounts[(atomic_load_explicit(&line->which,
                                                memory_order_relaxed) &
                           1) ^
                          1];
}

static inline void sl_usage_line_show(struct sl_usage_line *line)
{
    atomic_store_explicit(
        &line->which,
        atomic_load_explicit(&line->which, memory_order_relaxed) ^ 1,
        memory_order_release);
}

/* ---- all of it: any thread ---- */

/* Calls done(ctx) on the loop when everything that was written before this call
 * is on disk; `err` of it: 0 or SLUICE_ESYS. In memory: at once, by the loop.
 */
struct sl_journal_sync {
    struct sl_loop *loop;
    void (*done)(struct sl_journal_sync *sync);
    void *ctx;
    int err;
    struct sl_journal_sync *next;
};
void sl_usage_journal_sync(struct sl_usage_journal *journal,
                           struct sl_journal_sync *sync);

/* Completes the syncs under way and ends their thread. Later syncs are done by
 * the calling thread. */
void sl_usage_journal_stop(struct sl_usage_journal *journal);

/* Writes the file to the disk now, and waits. SLUICE_ESYS. */
SL_MUST_USE int sl_usage_journal_flush(struct sl_usage_journal *journal);

struct sl_usage_journal_counts {
    uint64_t bytes; /* of segments that are not free */
    uint64_t lines; /* read from an earlier process, not recorded yet */
    uint64_t units; /* of these lines */
    sl_ns oldest;   /* time of the oldest line; SL_NS_NONE: none */
};
void sl_usage_journal_count(const struct sl_usage_journal *journal,
                            struct sl_usage_journal_counts *ret);

#endif
