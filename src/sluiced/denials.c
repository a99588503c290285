/* denials.c -- the denial history of the daemon.
 *
 * The workers record denials in their rings. Once a second the newest are
 * written to the database, if there is one: at most MOST, so that a flood of
 * denials is no flood of writes. A batch that could not be written is kept and
 * tried again; meanwhile the rings overwrite their oldest records, which are
 * counted. After an erasure it is not tried again: it may have the name. All of
 * this runs on the first worker's loop.
 */
#include <stdio.h>
#include <unistd.h>

#include "sluiced/daemon.h"

#define PERIOD SL_S
#define MOST   200 /* records of one batch */

struct sl_denial_copies {
    struct sl_denial_copy copies[MOST];
    struct sl_denial_record records[MOST];
};

static bool is(const struct sl_daemon *daemon, const char *mode)
{
    return sl_str_eq(daemon->policy_source.policy->server.denials,
                     sl_str_c(mode));
}

/* Gives up a batch. */
static void drop(struct sl_daemon_denials *h)
{
    h->skipped += h->batch.count;
    h->batch.count = 0;
}

static void on_written(struct sl_job *job)
{
    struct sl_daemon_denials *h = job->ctx;

    h->writing = false;
    if (!job->err) {
        h->batch.count = 0;
        h->key = h->batch.key;
        for (unsigned i = 0; i < h->daemon->worker_count; i++)
            sl_denial_ring_written(h->daemon->workers[i].ring);
    } else if (h->erased) {
        drop(h);
    }
    sl_job_clear(job);
}

/* Takes records from all rings, of each as many as there is room for. A worker
 * that could not be opened has none. */
static void gather(struct sl_daemon *daemon)
{
    struct sl_daemon_denials *h = &daemon->denials;
    unsigned count = 0;

    for (unsigned i = 0; i < daemon->worker_count; i++) {
        unsigned others = daemon->worker_count - i;

        if (!daemon->workers[i].ring)
            continue;
        count += sl_denial_ring_take(daemon->workers[i].ring,
                                     h->copies->copies + count,
                                     (MOST - count) / others, &h->skipped);
    }
    for (unsigned i = 0; i < count; i++) {
        h->copies->records[i] = h->copies->copies[i].record;
        h->copies->records[i].node = sl_str_c(h->node);
    }
    h->erased = false;
    h->batch.records = h->copies->records;
    h->batch.count = count;
    h->batch.hashed = !is(daemon, "ids");
}

void sl_denials_flush(struct sl_daemon *daemon)
{
    struct sl_daemon_denials *h = &daemon->denials;
    struct sl_loop *loop = daemon->workers[0].loop;

    if (h->writing || !daemon->registry || !h->copies)
        return;
    if (h->batch.count == 0)
        gather(daemon);
    if (h->batch.count == 0)
        return;
    h->writing = true;
    sl_job_init(&h->job, SL_JOB_PUT_DENIALS, &sl_alloc_libc);
    h->job.loop = loop;
    h->job.now = sl_loop_now(loop);
    h->job.done = on_written;
    h->job.ctx = h;
    h->job.denials = &h->batch;
    sl_registry_ask(daemon->registry, &h->job);
}

void sl_denials_keep(struct sl_daemon *daemon)
{
    bool keep = !is(daemon, "off");

    for (unsigned i = 0; i < daemon->worker_count; i++) {
        sl_denial_ring_keep(daemon->workers[i].ring, keep);
        sl_recorder_keep(daemon->workers[i].recorder, keep);
    }
}

void sl_denials_poll(struct sl_daemon *daemon)
{
    struct sl_daemon_denials *h = &daemon->denials;
    sl_ns mono = sl_loop_mono(daemon->workers[0].loop);

    if (daemon->draining || mono - h->flushed < PERIOD)
        return;
    h->flushed = mono;
    sl_denials_flush(daemon);
}

int sl_denials_find(struct sl_daemon *daemon,
                    const struct sl_denial_query *query, bool all,
                    struct sl_buf *out)
{
    struct sl_denial_ring *rings[SL_THREADS_MOST];
    struct sl_denial_rings of = {
        .rings = rings,
        .count = daemon->worker_count,
        .all = all,
        .key = is(daemon, "ids") ? NULL : &daemon->denials.key,
        .node = sl_str_c(daemon->denials.node),
        .alloc = &sl_alloc_libc,
    };

    for (unsigned i = 0; i < of.count; i++)
        rings[i] = daemon->workers[i].ring;
    return sl_denial_rings_find(&of, query, out);
}

void sl_denials_forget(struct sl_daemon *daemon, struct sl_str scope,
                       struct sl_str id)
{
    struct sl_daemon_denials *h = &daemon->denials;

    h->erased = true;
    if (!h->writing)
        drop(h);
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        sl_denial_ring_erase(daemon->workers[i].ring, scope, id);
        sl_recorder_erase(daemon->workers[i].recorder, id);
    }
}

int sl_denials_begin(struct sl_daemon *daemon)
{
    struct sl_daemon_denials *h = &daemon->denials;

    h->daemon = daemon;
    h->copies = sl_alloc_new(&sl_alloc_libc, sizeof(*h->copies));
    if (!h->copies || sl_hash_key_make(&h->key))
        return sl_daemon_no_memory(daemon);
    if (daemon->quota_node.node[0])
        snprintf(h->node, sizeof(h->node), "%s", daemon->quota_node.node);
    else
        gethostname(h->node, sizeof(h->node) - 1);
    return 0;
}

void sl_denials_end(struct sl_daemon *daemon)
{
    struct sl_daemon_denials *h = &daemon->denials;

    if (h->copies)
        sl_alloc_free(&sl_alloc_libc, h->copies, sizeof(*h->copies));
    h->copies = NULL;
}
