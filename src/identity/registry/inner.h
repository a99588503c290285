/* inner.h -- inside the registry: its thread and what it works on. */
#ifndef SL_REGISTRY_INNER_H
#define SL_REGISTRY_INNER_H

#include <pthread.h>

#include "registry/registry.h"
#include "registry/registry_int.h"

struct sl_registry {
    const struct sl_alloc *alloc;
    void (*on_fault)(void *ctx, const char *sentence);
    void (*on_switch)(void *ctx, struct sl_str name, int on);
    void *ctx;
    struct sl_hash_key secret;
    _Atomic uint64_t stamps[SL_REGISTRY_VERSIONS];
    _Atomic uint64_t reads, writes, commits, faults;
    _Atomic unsigned waiting;
    _Atomic bool has_any;
    struct sl_switched switches[SL_SWITCHES];
    unsigned switch_count;
    struct sl_arena names; /* of them */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t more;
    struct sl_job *first, **end;
    bool stop;

    /* The thread's own. */
    struct sl_database db;
    uint64_t touched[SL_REGISTRY_VERSIONS / 64]; /* stamps to be raised */
    struct sl_job *unheard; /* answers that could not be posted */
};

/* ---- carry.c: all on the registry's thread ---- */

/* A job that only reads. */
void sl_job_run_read(struct sl_registry *registry, struct sl_job *job);

/* Writes, as one transaction; then their stamps are raised. */
void sl_job_run_writes(struct sl_registry *registry, struct sl_job *first);

static inline bool sl_job_writes(const struct sl_job *job)
{
    return job->kind >= SL_JOB_WRITE;
}

/* Find out whether anybody is registered. */
SL_MUST_USE int sl_job_run_look(struct sl_registry *registry);

/* ---- share.c: with others who write to the same tables; nothing of it is done
 * where there are none ---- */

/* Find out which of the jobs were carried out by a transaction whose end was
 * not heard: job->is_done. */
SL_MUST_USE int sl_sharing_check_commit(struct sl_registry *registry,
                                        struct sl_job *first);

/* Within a transaction, first: keep others away from whom the jobs are about.
 * *ret_again: it is about more than was known; take it back and begin anew. */
SL_MUST_USE int sl_sharing_lock(struct sl_registry *registry,
                                struct sl_job *first, bool *ret_again);

/* COMMIT; if its answer is lost, find out. */
SL_MUST_USE int sl_sharing_commit(struct sl_registry *registry);

/* Hear what the others tell, from now on. */
SL_MUST_USE int sl_sharing_listen(struct sl_registry *registry,
                                  struct sl_diag *diag);

/* Tell the others what has changed, when it is committed. */
void sl_sharing_touch(struct sl_registry *registry, struct sl_str scope,
                      struct sl_str id);
void sl_sharing_touch_all(struct sl_registry *registry);
void sl_sharing_switch(struct sl_registry *registry, struct sl_str name,
                       int on);

/* Which stamp. */
unsigned sl_registry_version_of(const struct sl_registry *registry,
                                struct sl_str scope, struct sl_str id);

#endif
