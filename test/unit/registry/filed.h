/* filed.h -- a registry in a folder of its own, and a loop that asks it. */
#ifndef SL_TEST_REGISTRY_H
#define SL_TEST_REGISTRY_H

#include <stdlib.h>
#include <unistd.h>

#include "backed.h"
#include "check.h"
#include "net/loop.h"
#include "registry/registry.h"

#define S(text) ((struct sl_str){(text), sizeof(text) - 1})

struct world {
    char folder[64], path[96];
    struct sl_loop *loop;
    struct sl_registry *registry;
    char fault[256]; /* the last sentence of a job that failed */
    sl_ns now;
};

static inline void on_fault(void *ctx, const char *sentence)
{
    struct world *w = ctx;

    snprintf(w->fault, sizeof(w->fault), "%s", sentence);
}

/* Open the registry of the world's folder; 0 or an error. */
static inline int world_start(struct world *w, struct sl_diag *diag)
{
    struct sl_registry_options options = {
        .driver = BACKED_BY, .path = w->path, .on_fault = on_fault, .ctx = w};

    return sl_registry_open(&options, &w->registry, diag);
}

static inline void world_stop(struct world *w)
{
    sl_registry_close(w->registry);
    w->registry = NULL;
}

static inline void world_folder(struct world *w)
{
    *w = (struct world){.now = 1000 * SL_S};
    snprintf(w->folder, sizeof(w->folder), "/tmp/sluice-registry-XXXXXX");
    if (!mkdtemp(w->folder)) {
        printf("Bail out! no folder\n");
        exit(1);
    }
    snprintf(w->path, sizeof(w->path), "%s/sluice.db", w->folder);
    backed_begin(w->path, sizeof(w->path));
    if (sl_loop_open(NULL, &w->loop, NULL)) {
        printf("Bail out! no loop\n");
        exit(1);
    }
    alarm(300); /* ends what hangs */
}

static inline void world_open(struct world *w)
{
    struct sl_diag diag = {0};

    world_folder(w);
    if (world_start(w, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
}

static inline void world_close(struct world *w)
{
    char command[128];

    world_stop(w);
    sl_loop_close(w->loop);
    snprintf(command, sizeof(command), "rm -rf %s", w->folder);
    if (system(command))
        printf("# %s stays\n", w->folder);
}

static inline void on_done(struct sl_job *job)
{
    sl_loop_stop(job->loop);
}

/* Ask, and wait for the answer. */
static inline void ask(struct world *w, struct sl_job *job)
{
    job->loop = w->loop;
    job->done = on_done;
    job->now = w->now;
    sl_registry_ask(w->registry, job);
    sl_loop_run(w->loop);
}

static inline void ask_find(struct world *w, struct sl_job *job,
                            struct sl_str scope, struct sl_str id)
{
    sl_job_init(job, SL_JOB_FIND, &sl_alloc_libc);
    job->scope = scope;
    job->id = id;
    ask(w, job);
}

static inline void ask_write(struct world *w, struct sl_job *job,
                             const struct sl_subject_change *changes,
                             unsigned count)
{
    sl_job_init(job, SL_JOB_WRITE, &sl_alloc_libc);
    job->changes = changes;
    job->change_count = count;
    ask(w, job);
}

/* A user's plan, by one write. */
static inline void set_plan(struct world *w, struct sl_str id,
                            struct sl_str plan)
{
    struct sl_subject_change change = {.kind = SL_CHANGE_PATCH,
                                       .scope = S("user"),
                                       .id = id,
                                       .by = S("test"),
                                       .has = SL_HAS_PLAN,
                                       .plan = plan};
    struct sl_job job;

    ask_write(w, &job, &change, 1);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, SL_JOB_DONE);
    sl_job_clear(&job);
}

static inline bool is(struct sl_str text, const char *want)
{
    bool same = sl_str_eq(text, sl_str_c(want));

    if (!same)
        printf("# got \"%.*s\", want \"%s\"\n", SL_STR_ARG(text), want);
    return same;
}

#endif
