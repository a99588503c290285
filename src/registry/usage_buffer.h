/* usage_buffer.h -- the usage of one thread's decisions, until it is recorded.
 *
 *     decision --> spent() --> line of the journal, summed by limit and subject
 *                                |  every PAUSE, or when a segment is full
 *                                v
 *                     sealed --> one job to the registry: one transaction
 *
 * A decision never waits. The usage database is up to PAUSE behind the table. A
 * killed process leaves its lines in the journal (usage_journal.h), if that is
 * in a file: the next start records them.
 *
 * While the database fails, sealed segments are sent again after a pause that
 * grows, one at a time, and amounts are summed in open segments: an outage
 * costs room by the number of keys, not by its length. If the journal is full,
 * sink->full is set: decisions then follow `on_store_failure`. Each buffer has
 * a segment in reserve, for decisions that began before that. What is spent
 * without room is counted as lost.
 *
 * A buffer belongs to one thread.
 */
#ifndef SL_REGISTRY_USAGE_BUFFER_H
#define SL_REGISTRY_USAGE_BUFFER_H

#include "registry/registry.h"
#include "registry/usage_journal.h"

struct sl_usage_buffer; /* begins with a struct sl_usage_sink */

/* Called on the loop when a recorded amount crossed thresholds:
 * u->threshold_before, u->threshold. */
typedef void sl_threshold_f(void *ctx, const struct sl_usage_entry *usage);

/* Called on the loop when a report of the journal was recorded: the limit must
 * be charged with u->change. Texts live until it returns. */
typedef void sl_report_f(void *ctx, const struct sl_usage_entry *usage);

struct sl_usage_buffer_options {
    const struct sl_alloc *alloc;
    struct sl_usage_journal *journal; /* NULL: one in memory, of its own;
                                       * outlives the buffer */
    sl_threshold_f *on_threshold;     /* or NULL */
    sl_report_f *on_report;           /* or NULL */
    void *ctx;
    struct sl_str node; /* name of this node if quotas are leased to it, or "";
                         * outlives the buffer */
};

/* `registry` and `loop` are borrowed and outlive it. */
SL_MUST_USE int
sl_usage_buffer_open(struct sl_registry *registry, struct sl_loop *loop,
                     const struct sl_usage_buffer_options *options,
                     struct sl_usage_buffer **ret, struct sl_diag *diag);

/* Call it when no job is in flight: the registry has stopped, and the loop has
 * run all posted calls. NULL is allowed. */
void sl_usage_buffer_close(struct sl_usage_buffer *buffer);

struct sl_usage_sink *sl_usage_buffer_sink(struct sl_usage_buffer *buffer);
struct sl_registry *sl_usage_buffer_registry(const struct sl_usage_sink *sink);

/* Sends what was spent, unless the database fails. Registry jobs queued
 * afterwards see it. NULL is allowed. */
void sl_usage_buffer_flush(struct sl_usage_sink *sink);

/* A mark behind all that was spent, and whether everything before a mark is
 * recorded. */
uint64_t sl_usage_buffer_mark(const struct sl_usage_sink *sink);
bool sl_usage_buffer_is_recorded(const struct sl_usage_sink *sink,
                                 uint64_t mark);

/* Sends all of it once more, also if the database fails; before the registry
 * stops. */
void sl_usage_buffer_flush_last(struct sl_usage_sink *sink);

/* Writes reports that the database cannot take now to the journal: all of them
 * or none. They are recorded all or not at all, in one segment. Returns false
 * without room, or if the journal is not in a file. They are on disk after
 * sl_usage_journal_sync(). */
SL_MUST_USE bool sl_usage_buffer_keep(struct sl_usage_sink *sink,
                                      const struct sl_usage_entry *reports,
                                      unsigned count);
struct sl_usage_journal *
sl_usage_buffer_journal(const struct sl_usage_sink *sink);

/* Publishes the thresholds that a report from elsewhere has crossed. */
void sl_usage_buffer_report(struct sl_usage_sink *sink,
                            const struct sl_usage_entry *usage);

/* Read by any thread. */
struct sl_usage_buffer_counts {
    _Atomic uint64_t spent;      /* amounts added to lines */
    _Atomic uint64_t written;    /* lines recorded */
    _Atomic uint64_t failed;     /* jobs to retry */
    _Atomic uint64_t lost;       /* units dropped for lack of room */
    _Atomic uint64_t thresholds; /* thresholds crossed */
    _Atomic uint64_t units;      /* units added to lines */
    _Atomic uint64_t recorded;   /* units recorded */
};
const struct sl_usage_buffer_counts *
sl_usage_buffer_counts(const struct sl_usage_buffer *buffer);

#endif
