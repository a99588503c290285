/* subject_cache.c -- a subject that is found was in the registry at that time.
 *
 * There are two subject caches, as two threads have them, and one writer: it
 * changes plans, adds, moves and removes aliases, and removes subjects. Writes
 * are carried out in the order of their requests, so the registry passes
 * through versions 0, 1, 2 and so on. The model has the meaning of each name in
 * every version.
 *
 *   (1) What is found is what the name stood for in some version between the
 *       last that was acknowledged before the question and the last that was
 *       asked for before the answer.
 *   (2) No more entries are kept than were allowed.
 *   (3) Every question is answered once.
 */
#include "registry/subject_cache.h"

#include <stdio.h>
#include <string.h>

#include "net/loop.h"
#include "prop.h"

#define USERS   5
#define ALIASES 3
#define NAMES   (USERS + ALIASES)
#define WRITES  60 /* of an episode */
#define ASKS    200
#define KEPT    4 /* entries of a cache: fewer than names */
#define CACHES  2

/* What each user has; plan 0: there is no such user. */
struct state {
    unsigned plan[USERS];  /* the version that gave it */
    int alias_of[ALIASES]; /* whose it is, or -1 */
};

struct question {
    struct sl_lookup lookup;
    struct world *world;
    unsigned name, from; /* the version that was acknowledged before it */
    bool busy;
};

struct order {
    struct sl_job job;
    struct sl_subject_change change;
    struct sl_str alias;
    struct world *world;
    char plan[16];
};

struct world {
    struct rng rng;
    struct sl_registry *registry;
    struct sl_loop *writer, *loops[CACHES];
    struct sl_subject_cache *caches[CACHES];
    struct state states[WRITES + 1];
    struct order orders[WRITES];
    unsigned asked, acknowledged; /* versions */
    struct question questions[ASKS];
    unsigned question_count, open;
    const char *broken;
};

static const char *const names[NAMES] = {"u0", "u1", "u2", "u3",
                                         "u4", "a0", "a1", "a2"};

/* ---- the model ---- */

/* The plan that a name stands for in a version; 0: no subject. */
static unsigned plan_of(const struct state *s, unsigned name)
{
    int user = name < USERS ? (int)name : s->alias_of[name - USERS];

    return user < 0 ? 0 : s->plan[user];
}

static void forget_aliases(struct state *s, int user)
{
    for (unsigned i = 0; i < ALIASES; i++)
        if (s->alias_of[i] == user)
            s->alias_of[i] = -1;
}

/* ---- writing ---- */

static void on_written(struct sl_job *job)
{
    struct order *order = job->ctx;

    order->world->acknowledged++;
    if (job->err)
        order->world->broken = "a write failed";
    sl_job_clear(job);
}

/* Carry it out in the model, and ask for it. */
static void write_one(struct world *w)
{
    struct order *order = &w->orders[w->asked];
    struct state *s = &w->states[w->asked + 1];
    unsigned user = (unsigned)rng_below(&w->rng, USERS);
    unsigned alias = (unsigned)rng_below(&w->rng, ALIASES);
    struct sl_subject_change *c = &order->change;

    *s = w->states[w->asked++];
    *c = (struct sl_subject_change){.kind = SL_CHANGE_PATCH,
                                    .scope = SL_STR("user"),
                                    .id = sl_str_c(names[user]),
                                    .expires = SL_NS_NONE};
    snprintf(order->plan, sizeof(order->plan), "p%u", w->asked);
    order->alias = sl_str_c(names[USERS + alias]);
    if (rng_once_in(&w->rng, 5)) {
        c->kind = SL_CHANGE_REMOVE;
        s->plan[user] = 0;
        forget_aliases(s, (int)user);
    } else if (rng_once_in(&w->rng, 2) || s->plan[user] == 0) {
        c->has = SL_HAS_PLAN;
        c->plan = sl_str_c(order->plan);
        s->plan[user] = w->asked;
    } else {
        c->has = SL_HAS_ALIASES;
        c->aliases = &order->alias;
        c->alias_count = !rng_once_in(&w->rng, 4);
        /* One that is another's is refused. */
        if (c->alias_count == 0 || s->alias_of[alias] < 0 ||
            s->alias_of[alias] == (int)user) {
            forget_aliases(s, (int)user);
            if (c->alias_count > 0)
                s->alias_of[alias] = (int)user;
        }
    }
    sl_job_init(&order->job, SL_JOB_WRITE, &sl_alloc_libc);
    order->world = w;
    order->job.loop = w->writer;
    order->job.done = on_written;
    order->job.ctx = order;
    order->job.changes = c;
    order->job.change_count = 1;
    sl_registry_ask(w->registry, &order->job);
}

/* ---- asking ---- */

static unsigned found_plan(const struct sl_subject *found)
{
    char text[16];
    unsigned plan = 0;

    if (!found || !found->known)
        return 0;
    snprintf(text, sizeof(text), "%.*s", SL_STR_ARG(found->plan));
    return sscanf(text, "p%u", &plan) == 1 ? plan : UINT32_MAX;
}

static void on_found(struct sl_lookup *lookup)
{
    struct question *q = lookup->ctx;
    struct world *w = q->world;
    unsigned plan = found_plan(lookup->found);
    bool good = false;

    if (!q->busy)
        w->broken = "(3)";
    q->busy = false;
    w->open--;
    for (unsigned v = q->from; v <= w->asked; v++)
        good = good || plan_of(&w->states[v], q->name) == plan;
    if (lookup->err || !good)
        w->broken = "(1)";
    sl_subject_unref(lookup->found);
}

static void ask_one(struct world *w)
{
    struct question *q = &w->questions[w->question_count++];
    struct sl_subject_cache *f = w->caches[rng_below(&w->rng, CACHES)];
    struct sl_subjects *subjects = sl_subject_cache_subjects(f);

    *q = (struct question){.world = w,
                           .name = (unsigned)rng_below(&w->rng, NAMES),
                           .from = w->acknowledged,
                           .busy = true};
    q->lookup = (struct sl_lookup){.scope = SL_STR("user"),
                                   .id = sl_str_c(names[q->name]),
                                   .done = on_found,
                                   .ctx = q};
    w->open++;
    subjects->calls->find(subjects, &q->lookup);
    if (atomic_load(&sl_subject_cache_counts(f)->entries) > KEPT)
        w->broken = "(2)";
}

/* ---- turning ---- */

static void on_stop(void *ctx)
{
    sl_loop_stop(ctx);
}

static void turn(struct sl_loop *loop)
{
    if (sl_loop_post(loop, on_stop, loop) == 0)
        sl_loop_run(loop);
}

static void turn_all(struct world *w)
{
    turn(w->writer);
    for (unsigned i = 0; i < CACHES; i++)
        turn(w->loops[i]);
}

static void step(struct world *w)
{
    switch (rng_below(&w->rng, 8)) {
    case 0:
    case 1:
        if (w->asked < WRITES)
            write_one(w);
        break;
    case 2:
        turn(w->writer);
        break;
    case 3:
        turn(w->loops[rng_below(&w->rng, CACHES)]);
        break;
    case 4:
        while (w->acknowledged < w->asked)
            turn(w->writer);
        break;
    default:
        if (w->question_count < ASKS)
            ask_one(w);
        break;
    }
}

static bool open_world(struct world *w)
{
    struct sl_registry_options options = {.path = ":memory:"};
    struct sl_subject_cache_options kept = {.most = KEPT};

    if (sl_registry_open(&options, &w->registry, NULL) ||
        sl_loop_open(NULL, &w->writer, NULL))
        return false;
    for (unsigned i = 0; i < CACHES; i++)
        if (sl_loop_open(NULL, &w->loops[i], NULL) ||
            sl_subject_cache_open(w->registry, w->loops[i], &kept,
                                  &w->caches[i], NULL))
            return false;
    for (unsigned i = 0; i < ALIASES; i++)
        w->states[0].alias_of[i] = -1;
    return true;
}

static void close_world(struct world *w)
{
    sl_registry_stop(w->registry);
    for (unsigned i = 0; i < CACHES; i++) {
        sl_subject_cache_close(w->caches[i]);
        sl_loop_close(w->loops[i]);
    }
    sl_loop_close(w->writer);
    sl_registry_close(w->registry);
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    w.rng.state = seed;
    if (!open_world(&w)) {
        printf("Bail out! no registry\n");
        return false;
    }
    for (unsigned i = 0; i < 400 && !w.broken; i++, ++*steps)
        step(&w);
    while (w.open > 0 || w.acknowledged < w.asked)
        turn_all(&w);
    close_world(&w);
    if (w.broken)
        printf("# subject_cache %s: after %u writes and %u questions\n",
               w.broken, w.asked, w.question_count);
    return !w.broken;
}

const struct property prop_subject_cache = {
    .name = "subject_cache",
    .steps = 40000,
    .cases = {{"subject_cache (1) (2) (3) a subject that is found was there",
               episode}},
};
