/* subject_cache.h -- the registry as one thread sees it: what was asked for
 * lately is at hand.
 *
 * A finder keeps the entries of the subjects that were looked up last, also
 * that there is nobody of a name. It belongs to one thread and needs no lock:
 * whether an entry still holds is told by its stamp (registry.h). So what was
 * written on this machine counts from the next question on. An entry is also
 * asked for anew after some seconds, for registries that others write to; and
 * holds for longer while they do not answer.
 *
 * Whoever asks for the same name at once waits for one answer together, unless
 * a write came between them.
 */
#ifndef SL_REGISTRY_SUBJECT_CACHE_H
#define SL_REGISTRY_SUBJECT_CACHE_H

#include "identity/identity.h"
#include "registry/registry.h"

struct sl_subject_cache; /* begins with a struct sl_subjects */

/* Zeros are presets. */
struct sl_subject_cache_options {
    const struct sl_alloc *alloc;
    unsigned most;    /* entries at hand: 8,192 */
    size_t bytes;     /* of them: 16 MiB */
    sl_ns life;       /* of one: 5 s */
    sl_ns stale;      /* while the registry does not answer: 1 h */
    unsigned loading; /* questions to the registry at once: 1,024 */
    sl_ns patience;   /* of lookups that have no deadline; 0: for ever */
    /* Instead of sl_registry_ask(), for one that also knows what others write;
     * `life` is then also counted by the wall. Or NULL. */
    void (*ask)(void *ctx, struct sl_job *job);
    void *ctx;
};

/* `registry` and `loop` outlive it. */
SL_MUST_USE int
sl_subject_cache_open(struct sl_registry *registry, struct sl_loop *loop,
                      const struct sl_subject_cache_options *options,
                      struct sl_subject_cache **ret, struct sl_diag *diag);

/* When the registry has been stopped and the loop does not run. Those who
 * still wait are told that it failed. NULL is allowed. */
void sl_subject_cache_close(struct sl_subject_cache *finder);

struct sl_subjects *sl_subject_cache_subjects(struct sl_subject_cache *finder);

/* Counted by its own thread; read by any. */
struct sl_subject_cache_counts {
    _Atomic uint64_t hits, loads, unknown, late, faults, busy;
    _Atomic uint64_t entries, bytes;
};
const struct sl_subject_cache_counts *
sl_subject_cache_counts(const struct sl_subject_cache *finder);

#endif
