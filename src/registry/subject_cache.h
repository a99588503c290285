/* subject_cache.h -- the subjects that one thread has looked up lately.
 *
 * The cache keeps records of subjects, also of unknown ones. It belongs to one
 * thread and has no lock. A record is valid while its version in the registry
 * is the same, so writes of this process count from the next lookup on. After
 * `life` it is loaded again, because other programs may write too. While the
 * registry does not answer, or too many loads are open, it is used until
 * `stale`.
 *
 * Lookups of the same subject at the same time wait for one load, unless a
 * write came between them.
 */
#ifndef SL_REGISTRY_SUBJECT_CACHE_H
#define SL_REGISTRY_SUBJECT_CACHE_H

#include "identity/identity.h"
#include "registry/registry.h"

struct sl_subject_cache; /* begins with a struct sl_subjects */

/* Where subjects are loaded from, if not from the registry alone: a query in
 * PostgreSQL, a table in DynamoDB. */
struct sl_subject_source {
    /* Looks up job->scope and job->id. Sets job->entries or job->err, and then
     * calls job->done() once on the loop, perhaps before this returns. */
    void (*ask)(void *ctx, struct sl_job *job);
    /* Drops a job whose done() was not called, and does not call it. NULL: all
     * jobs are done when the cache is closed. */
    void (*cancel)(void *ctx, struct sl_job *job);
    void *ctx;
};

/* Zeros are defaults. */
struct sl_subject_cache_options {
    const struct sl_alloc *alloc;
    unsigned most;       /* records: 8,192 */
    size_t bytes;        /* of all records: 16 MiB */
    sl_ns life;          /* of a record: 5 s; < 0: none is kept */
    sl_ns stale;         /* while the registry does not answer: 1 h */
    unsigned most_loads; /* at the same time: 1,024 */
    size_t most_id;      /* longer ids are unknown: SL_SUBJECT_RECORD_ID */
    sl_ns timeout;       /* of lookups without a deadline; 0: none */
    /* With a source, `life` also counts by the wall clock, and no record is
     * used longer than that, except of a subject that is blocked. */
    struct sl_subject_source source;
};

/* `registry` and `loop` are borrowed and outlive the cache. `registry` may be
 * NULL if there is a source. */
SL_MUST_USE int
sl_subject_cache_open(struct sl_registry *registry, struct sl_loop *loop,
                      const struct sl_subject_cache_options *options,
                      struct sl_subject_cache **ret, struct sl_diag *diag);

/* Call it when the registry has stopped and the loop does not run. Open lookups
 * fail with SLUICE_ESTORE. NULL is allowed. */
void sl_subject_cache_close(struct sl_subject_cache *cache);

struct sl_subjects *sl_subject_cache_subjects(struct sl_subject_cache *cache);

/* Written by the thread of the cache; read by any thread. */
struct sl_subject_cache_counts {
    _Atomic uint64_t hits, loads, unknown, late, faults, busy;
    _Atomic uint64_t entries, bytes;
};
const struct sl_subject_cache_counts *
sl_subject_cache_counts(const struct sl_subject_cache *cache);

#endif
