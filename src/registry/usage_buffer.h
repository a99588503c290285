/* usage_buffer.h -- the usage of one thread's decisions, until it is recorded.
 *
 *     decision --> spent() --> batch, summed by limit and subject
 *                                |  every PAUSE, or when it is full
 *                                v
 *                     one job to the registry: one transaction
 *
 * A decision never waits. The usage database is up to PAUSE behind the table. A
 * killed process loses its open batch, unless its table is in a file: the next
 * start compares the two.
 *
 * A failed job is retried together with newer amounts. Beyond SL_USAGE_BATCH
 * keys amounts are not recorded but counted as lost.
 *
 * A buffer belongs to one thread.
 */
#ifndef SL_REGISTRY_USAGE_BUFFER_H
#define SL_REGISTRY_USAGE_BUFFER_H

#include "registry/registry.h"

#define SL_USAGE_BATCH 4096 /* keys in a batch, and 16 times that in flight */

struct sl_usage_buffer; /* begins with a struct sl_usage_sink */

/* Called on the loop when a recorded amount crossed thresholds:
 * u->threshold_before, u->threshold. */
typedef void sl_threshold_f(void *ctx, const struct sl_usage_entry *usage);

struct sl_usage_buffer_options {
    const struct sl_alloc *alloc;
    sl_threshold_f *on_threshold; /* or NULL */
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

/* Sends the open batch now. Registry jobs queued afterwards see it. NULL is
 * allowed. */
void sl_usage_buffer_flush(struct sl_usage_sink *sink);

/* Publishes the thresholds that a report from elsewhere has crossed. */
void sl_usage_buffer_report(struct sl_usage_sink *sink,
                            const struct sl_usage_entry *usage);

/* Read by any thread. */
struct sl_usage_buffer_counts {
    _Atomic uint64_t spent;      /* amounts added to batches */
    _Atomic uint64_t written;    /* keys recorded */
    _Atomic uint64_t failed;     /* jobs to retry */
    _Atomic uint64_t lost;       /* units dropped for lack of room */
    _Atomic uint64_t thresholds; /* thresholds crossed */
};
const struct sl_usage_buffer_counts *
sl_usage_buffer_counts(const struct sl_usage_buffer *buffer);

#endif
