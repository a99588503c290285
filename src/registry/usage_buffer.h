/* usage_buffer.h -- one thread's own slip: what its decisions used, until it is
 * put down in the books.
 *
 *     decision --> spent() --> slip, added up by limit and subject
 *                                |  every PAUSE, or when it is full
 *                                v
 *                     one job to the registry: one transaction
 *
 * A decision waits for nobody. So the books are up to PAUSE behind the table;
 * what a process had on its slip is lost with it if it is killed, and not
 * otherwise: the table of a file knows it, and it is told at the end.
 *
 * A job that fails is tried again with all that has come meanwhile. Beyond
 * SL_SLIP keys nothing more is put down, but counted as lost.
 *
 * It belongs to one thread.
 */
#ifndef SL_REGISTRY_USAGE_BUFFER_H
#define SL_REGISTRY_USAGE_BUFFER_H

#include "registry/registry.h"

#define SL_SLIP 4096 /* keys that wait, and 16 times that under way */

struct sl_usage_buffer; /* begins with a struct sl_usage_sink */

/* An amount was put down that crossed marks: u->told_before, u->told. On the
 * loop. */
typedef void sl_marked_f(void *ctx, const struct sl_usage_entry *usage);

struct sl_usage_buffer_options {
    const struct sl_alloc *alloc;
    sl_marked_f *on_mark; /* or NULL */
    void *ctx;
    struct sl_str node; /* quotas are leased to it; "": they are not. It
                         * outlives the bookkeeper */
};

/* `registry` and `loop` outlive it. */
SL_MUST_USE int
sl_usage_buffer_open(struct sl_registry *registry, struct sl_loop *loop,
                     const struct sl_usage_buffer_options *options,
                     struct sl_usage_buffer **ret, struct sl_diag *diag);

/* When no job is under way any more: the registry has been stopped, and the
 * loop has called what was posted. NULL is allowed. */
void sl_usage_buffer_close(struct sl_usage_buffer *keeper);

struct sl_usage_sink *sl_usage_buffer_sink(struct sl_usage_buffer *keeper);
struct sl_registry *sl_usage_buffer_registry(const struct sl_usage_sink *meter);

/* Send what is on the slip now: whatever is asked of the registry afterwards
 * finds it there. NULL is allowed. */
void sl_usage_buffer_flush(struct sl_usage_sink *meter);

/* Somebody else's report was put down: tell of the marks that it crossed. */
void sl_usage_buffer_marked(struct sl_usage_sink *meter,
                            const struct sl_usage_entry *usage);

/* Read by any thread. */
struct sl_usage_buffer_counts {
    _Atomic uint64_t spent;   /* amounts that were put on the slip */
    _Atomic uint64_t written; /* of them, as they were put down: keys */
    _Atomic uint64_t failed;  /* jobs that have to be tried again */
    _Atomic uint64_t lost;    /* units for which there was no room */
    _Atomic uint64_t marks;   /* that were crossed */
};
const struct sl_usage_buffer_counts *
sl_usage_buffer_counts(const struct sl_usage_buffer *keeper);

#endif
