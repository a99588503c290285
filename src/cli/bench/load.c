/* load.c -- many threads that ask an engine.
 *
 * A thread reads the clock once per decision: the end of one is the beginning
 * of the next, so that what is shown includes that reading.
 */
#include "cli/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"

struct shared {
    const struct sl_load *load;
    struct sluice_engine *engine;
    sl_ns now;              /* hot: where time stands still */
    uint64_t attempts;      /* hot */
    _Atomic uint64_t asked; /* hot */
    atomic_bool stop;       /* a thread could not go on */
};

struct worker {
    struct shared *shared;
    pthread_t thread;
    uint64_t seed;
    int err;
    uint64_t allowed;
    struct sl_histogram latency;
};

static int64_t on_now(void *ctx)
{
    return ((struct shared *)ctx)->now;
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t x = *seed;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *seed = x;
}

static int ask(struct worker *w, struct sluice_decision *decision, uint64_t key)
{
    struct sluice_request request = w->shared->load->target.request;
    char name[32];
    int err;

    snprintf(name, sizeof(name), "k%llu", (unsigned long long)key);
    request.user = request.org = name;
    if (request.limit)
        request.key = name;
    err = sluice_decide(w->shared->engine, &request, decision);
    if (!err)
        w->allowed += sluice_decision_allowed(decision) != 0;
    return err;
}

static int drive(struct worker *w, struct sluice_decision *decision)
{
    const struct sl_load *load = w->shared->load;
    struct sl_clock clock;
    sl_ns now, before, end;
    int err = 0;

    sl_clock_init_real(&clock);
    before = sl_clock_now(&clock);
    end = before + load->duration;
    while (!err && before < end && !atomic_load(&w->shared->stop)) {
        err = ask(w, decision, next_random(&w->seed) % load->keys);
        now = sl_clock_now(&clock);
        /* A step of the wall clock is no latency. */
        sl_histogram_add(&w->latency,
                         now > before ? (uint64_t)(now - before) : 0);
        before = now;
    }
    return err;
}

static int hit(struct worker *w, struct sluice_decision *decision)
{
    struct shared *s = w->shared;
    int err = 0;

    while (!err && !atomic_load(&s->stop) &&
           atomic_fetch_add(&s->asked, 1) < s->attempts)
        err = ask(w, decision, 0);
    return err;
}

static void *on_thread(void *ctx)
{
    struct worker *w = ctx;
    struct sluice_decision *decision = sluice_decision_new();

    if (!decision)
        w->err = SLUICE_ENOMEM;
    else
        w->err = w->shared->attempts ? hit(w, decision) : drive(w, decision);
    if (w->err)
        atomic_store(&w->shared->stop, true);
    sluice_decision_free(decision);
    return NULL;
}

/* Begin all, wait for all. */
static int run_threads(struct shared *shared, struct worker *workers,
                       unsigned count)
{
    unsigned begun = 0;
    int err = 0;

    while (begun < count) {
        struct worker *w = &workers[begun];

        *w =
            (struct worker){.shared = shared,
                            .seed = UINT64_C(0x9e3779b97f4a7c15) * (begun + 1)};
        if (pthread_create(&w->thread, NULL, on_thread, w)) {
            atomic_store(&shared->stop, true);
            err = SLUICE_ESYS;
            break;
        }
        begun++;
    }
    for (unsigned i = 0; i < begun; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].err)
            err = workers[i].err;
    }
    return err;
}

/* Open an engine, let the threads at it, close it. */
static int with_engine(const struct sl_load *load, struct shared *shared,
                       struct worker *workers,
                       const struct sluice_engine_options *options)
{
    int err = sluice_engine_open(load->policy, options, &shared->engine);

    if (err)
        return err;
    err = run_threads(shared, workers, load->threads);
    sluice_engine_close(shared->engine);
    return err;
}

int sl_load_drive(const struct sl_load *load, struct sl_load_result *ret)
{
    size_t size = load->threads * sizeof(struct worker);
    struct worker *workers = sl_alloc_new(&sl_alloc_libc, size);
    struct shared shared = {.load = load};
    struct sl_clock clock;
    sl_ns begun;
    int err;

    if (!workers)
        return SLUICE_ENOMEM;
    sl_clock_init_real(&clock);
    begun = sl_clock_now(&clock);
    err = with_engine(load, &shared, workers, NULL);
    if (!err) {
        *ret = (struct sl_load_result){.elapsed = sl_clock_now(&clock) - begun};
        for (unsigned i = 0; i < load->threads; i++) {
            sl_histogram_merge(&ret->latency, &workers[i].latency);
            ret->allowed += workers[i].allowed;
        }
        ret->decisions = ret->latency.total;
    }
    sl_alloc_free(&sl_alloc_libc, workers, size);
    return err;
}

int sl_load_hot(const struct sl_load *load, uint64_t attempts, uint64_t *ret)
{
    size_t size = load->threads * sizeof(struct worker);
    struct worker *workers = sl_alloc_new(&sl_alloc_libc, size);
    struct shared shared = {
        .load = load, .now = sl_clock_wall(), .attempts = attempts};
    struct sluice_engine_options options = {.now = on_now, .now_ctx = &shared};
    uint64_t admitted = 0;
    int err;

    if (!workers)
        return SLUICE_ENOMEM;
    err = with_engine(load, &shared, workers, &options);
    for (unsigned i = 0; !err && i < load->threads; i++)
        admitted += workers[i].allowed;
    if (!err)
        *ret = admitted;
    sl_alloc_free(&sl_alloc_libc, workers, size);
    return err;
}
