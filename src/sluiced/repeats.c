/* repeats.c -- the memory of repeats that daemons share, and their backlogs.
 *
 * In a database, a call is a job of the registry (SL_JOB_REPEAT). It fails at
 * its deadline; the job goes on, and the engine drops what it may have claimed.
 * The secret of the keys is a row of the database, which is read at the start,
 * and again until it is known.
 *
 * Backlogs are read every PERIOD.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sluiced/daemon.h"

#define PERIOD   SL_S
#define DEADLINE (20 * SL_MS)
#define PATIENCE SL_S

/* A call in a database. */
struct request {
    struct sl_job job;
    struct sl_job_repeat repeat;
    struct sl_repeat_call *call;   /* NULL: answered, or a DROP */
    struct sl_daemon_repeats *own; /* of the secret */
    struct sl_timer *timer;
    char memo[SL_REPEAT_MEMO];
};

static void free_request(struct request *r)
{
    sl_timer_free(r->timer);
    sl_job_clear(&r->job);
    sl_alloc_free(&sl_alloc_libc, r, sizeof(*r));
}

/* What the job says is read only without `err`: a late one is still running. */
static void finish(struct request *r, int err)
{
    struct sl_repeat_call *call = r->call;

    r->call = NULL;
    if (!call)
        return;
    call->err = err ? SLUICE_ESTORE : 0;
    call->found = err ? SL_REPEAT_FIRST : (enum sl_repeat_found)r->repeat.found;
    call->len = 0;
    if (!err && call->found == SL_REPEAT_AGAIN && call->memo &&
        r->job.text.len <= SL_REPEAT_MEMO) {
        call->len = r->job.text.len;
        if (call->len > 0)
            memcpy(call->memo, r->job.text.bytes, call->len);
    }
    call->done(call);
}

static void on_late(void *ctx)
{
    finish(ctx, SLUICE_ESTORE);
}

static void on_answered(struct sl_job *job)
{
    struct request *r = job->ctx;

    sl_timer_stop(r->timer);
    finish(r, job->err);
    free_request(r);
}

static void put_hex(char *out, struct sl_hash128 hash)
{
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, hash.hi, hash.lo);
}

static void fill(struct request *r, const struct sl_repeat_call *call)
{
    const struct sl_repeat_claim *claim = &call->claim;
    struct sl_job_repeat *repeat = &r->repeat;

    repeat->op = (enum sl_job_repeat_op)call->op;
    put_hex(repeat->key, claim->key);
    put_hex(repeat->fingerprint, claim->fingerprint);
    snprintf(repeat->owner, sizeof(repeat->owner), "%016" PRIx64, claim->owner);
    repeat->now = call->now;
    repeat->until = claim->until;
    repeat->pending = claim->pending;
    repeat->repeats = claim->repeats;
    if (call->op == SL_REPEAT_FINISH || call->op == SL_REPEAT_PUT) {
        memcpy(r->memo, call->memo, call->len);
        repeat->memo = (struct sl_str){r->memo, call->len};
    }
}

static struct request *make(struct sl_loop *loop)
{
    struct request *r = loop ? sl_alloc_new(&sl_alloc_libc, sizeof(*r)) : NULL;

    if (!r)
        return NULL;
    memset(r, 0, offsetof(struct request, memo));
    sl_job_init(&r->job, SL_JOB_REPEAT, &sl_alloc_libc);
    r->job.loop = loop;
    r->job.done = on_answered;
    r->job.ctx = r;
    r->job.repeat = &r->repeat;
    if (sl_timer_new(loop, on_late, r, &r->timer) == 0)
        return r;
    free_request(r);
    return NULL;
}

static sl_ns timeout_of(const struct sl_daemon *daemon,
                        const struct sl_repeat_call *call)
{
    sl_ns span =
        daemon->settings.deadline ? daemon->settings.deadline : DEADLINE;
    sl_ns left = call->deadline - sl_loop_mono(call->loop);

    if (call->patient)
        return PATIENCE;
    if (call->deadline == 0 || left > span)
        return span;
    return left > 0 ? left : 0;
}

static void call_database(struct sl_repeats *repeats,
                          struct sl_repeat_call *call)
{
    struct sl_daemon *daemon = ((struct sl_daemon_repeats *)repeats)->daemon;
    bool drops = call->op == SL_REPEAT_DROP;
    struct request *r = daemon->registry ? make(call->loop) : NULL;

    if (!r) {
        call->err = SLUICE_ESTORE;
        if (!drops)
            call->done(call);
        return;
    }
    fill(r, call);
    if (!drops) {
        r->call = call;
        sl_timer_start(r->timer, timeout_of(daemon, call));
    }
    sl_registry_ask(daemon->registry, &r->job);
}

/* ---- the secret ---- */

static const struct sl_hash_key *
database_secret(const struct sl_repeats *repeats)
{
    const struct sl_daemon_repeats *own =
        (const struct sl_daemon_repeats *)repeats;

    return atomic_load_explicit(&own->has_secret, memory_order_acquire)
               ? &own->secret
               : NULL;
}

static void on_secret(struct sl_job *job)
{
    struct request *r = job->ctx;
    struct sl_daemon_repeats *own = r->own;
    struct sl_hash_key key;

    own->asking = false;
    if (!job->err && job->text.len == 32 &&
        sscanf(job->text.bytes, "%16" SCNx64 "%16" SCNx64, &key.k0, &key.k1) ==
            2) {
        own->secret = key;
        atomic_store_explicit(&own->has_secret, true, memory_order_release);
    }
    free_request(r);
}

static void ask_secret(struct sl_daemon_repeats *own, struct sl_loop *loop)
{
    struct sl_hash_key key;
    struct request *r;

    if (own->asking || sl_hash_key_make(&key))
        return;
    r = make(loop);
    if (!r)
        return;
    own->asking = true;
    r->repeat.op = SL_JOB_REPEAT_SECRET;
    snprintf(r->repeat.fingerprint, sizeof(r->repeat.fingerprint),
             "%016" PRIx64 "%016" PRIx64, key.k0, key.k1);
    r->own = own;
    r->job.done = on_secret;
    sl_registry_ask(own->daemon->registry, &r->job);
}

/* ---- life ---- */

static void on_timer(void *ctx)
{
    struct sl_daemon *daemon = ctx;
    struct sl_daemon_repeats *own = &daemon->repeats;
    struct sl_loop *loop = daemon->workers[0].loop;

    if (own->shared == &own->in_database && !atomic_load(&own->has_secret)) {
        ask_secret(own, loop);
        sl_timer_start(own->timer, PERIOD / 10);
        return;
    }
    if (daemon->settings.virtual_clock)
        return; /* its time stands still */
    sl_engine_backlog_refresh(daemon->engine, loop, sl_loop_now(loop));
    if (own->shared)
        sl_timer_start(own->timer, PERIOD);
}

void sl_daemon_repeats_choose(struct sl_daemon *daemon,
                              struct sl_engine_options *options)
{
    struct sl_daemon_repeats *own = &daemon->repeats;
    const char *state = daemon->settings.state;

    own->daemon = daemon;
    own->in_database = (struct sl_repeats){call_database, database_secret};
    own->shared = NULL;
    if (daemon->remote.store)
        own->shared = sl_remote_store_repeats(daemon->remote.store);
    else if (daemon->settings.leases)
        own->shared = &own->in_database;
    options->repeats = own->shared;
    if (!own->shared && state &&
        (size_t)snprintf(own->path, sizeof(own->path), "%s.repeats", state) <
            sizeof(own->path))
        options->repeats_path = own->path;
}

int sl_daemon_repeats_begin(struct sl_daemon *daemon)
{
    struct sl_daemon_repeats *own = &daemon->repeats;

    if (sl_timer_new(daemon->workers[0].loop, on_timer, daemon, &own->timer))
        return sl_daemon_no_memory(daemon);
    sl_timer_start(own->timer, 0);
    return 0;
}

void sl_daemon_repeats_end(struct sl_daemon *daemon)
{
    sl_timer_free(daemon->repeats.timer);
    daemon->repeats.timer = NULL;
}
