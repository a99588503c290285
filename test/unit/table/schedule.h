/* schedule.h -- stopping an actor at a step, and what happens around it.
 *
 * A world is a region in shared memory that is set back to the same bytes for
 * every schedule, and a change: a set of keys of which the victim takes one
 * each. The victim is a thread or a child. It is stopped at the nth time that
 * it comes to a step; others then take from the same keys; and it goes on or
 * is killed.
 */
#ifndef SL_UNIT_TABLE_SCHEDULE_H
#define SL_UNIT_TABLE_SCHEDULE_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "rig.h"

#define BASE 5 /* what every key of the world has used at the beginning */

enum { POOL, RATE, DAY, WALL, LIMITS };

struct world {
    struct sl_table table;
    char *pages; /* the region */
    char *image; /* its bytes at the beginning of every schedule */
    struct sl_limit_binding limit[LIMITS];

    /* The change. */
    const char *name;
    struct sl_part parts[3];
    unsigned count;
    bool sweep;       /* the victim sweeps instead of taking */
    bool batch;       /* the parts are a batch, not a set */
    uint64_t base[3]; /* what the keys have used at the beginning */
    void (*act)(struct world *w, struct sl_table *table); /* or this instead */
};

static inline void run_change(struct world *w, struct sl_table *table)
{
    struct sl_part parts[3];
    struct sl_part *pointers[3] = {&parts[0], &parts[1], &parts[2]};
    enum sl_set_result verdicts[3];

    if (w->act) {
        w->act(w, table);
        return;
    }
    if (w->sweep) {
        struct sl_intent *intent = sl_actor_borrow(&table->actors);

        (void)sl_sweep(intent,
                       (unsigned)sl_region_head(&table->region)->buckets, NOW);
        sl_actor_return(&table->actors, intent);
        return;
    }
    memcpy(parts, w->parts, sizeof(parts));
    if (w->batch)
        sl_table_batch(table, pointers, verdicts, w->count, NOW, true);
    else
        verdicts[0] = sl_table_decide(table, parts, w->count, NOW, true);
    if (verdicts[0] != SL_SET_ALLOW)
        abort();
}

/* ---- stopping ---- */

struct stop {
    struct world *world;
    enum sl_step step;
    unsigned nth; /* from 1 */
    int signal;   /* raise this instead of waiting; 0 = wait */
    bool single;  /* once let go, stop at every further step */
    bool hit;
    bool done;
    sem_t reached; /* the victim is at the step, or done */
    sem_t go;
    pthread_t thread;
};

static _Thread_local struct stop *stop_here;
static _Thread_local uint64_t steps_made;

static inline void on_step(enum sl_step step)
{
    struct stop *stop = stop_here;

    steps_made++;
    if (!stop || (!stop->hit && (step != stop->step || --stop->nth > 0)) ||
        (stop->hit && !stop->single))
        return;
    stop->hit = true;
    if (stop->signal) {
        kill(getpid(), stop->signal);
        return;
    }
    sem_post(&stop->reached);
    sem_wait(&stop->go);
}

static inline void *victim_main(void *arg)
{
    struct stop *stop = arg;

    stop_here = stop;
    run_change(stop->world, &stop->world->table);
    stop_here = NULL;
    stop->done = true;
    sem_post(&stop->reached);
    return NULL;
}

/* Start a victim and wait until it stops. False if it ran through: it does not
 * come to that step so often. */
static inline bool start_victim(struct stop *stop)
{
    sem_init(&stop->reached, 0, 0);
    sem_init(&stop->go, 0, 0);
    if (pthread_create(&stop->thread, NULL, victim_main, stop))
        abort();
    sem_wait(&stop->reached);
    if (stop->done)
        pthread_join(stop->thread, NULL);
    return !stop->done;
}

/* Let it go on, to its end or to the next step. */
static inline void let_go(struct stop *stop)
{
    sem_post(&stop->go);
    sem_wait(&stop->reached);
    if (stop->done)
        pthread_join(stop->thread, NULL);
}

/* The same with a child, which has a table of its own. Returns its process id,
 * or 0 if it ran through. */
static inline pid_t start_child(struct world *w, struct stop *stop)
{
    struct sl_table *table;
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        stop_here = stop;
        table = malloc(sizeof(*table));
        if (table) {
            open_pages(table, w->pages, MIB);
            run_change(w, table);
        }
        _exit(table ? 0 : 1);
    }
    if (waitpid(pid, &status, WUNTRACED) != pid)
        abort();
    return WIFEXITED(status) ? 0 : pid;
}

/* ---- the world ---- */

/* Back to the beginning. The looking claims an actor: not that of a victim,
 * which would be cleaned up with it. */
static inline void restore(struct world *w)
{
    memcpy(w->pages, w->image, MIB);
    open_pages(&w->table, w->pages, MIB);
    (void)used(&w->table, &w->limit[WALL], "other");
}

static inline void close_world(struct world *w)
{
    uint64_t stray;

    CHECK_EQ(locks_left(&w->table.region, &stray), 0);
    CHECK_EQ(stray, 0);
    sl_table_done(&w->table);
}

static inline uint64_t used_of(struct world *w, unsigned i)
{
    char key[64];

    snprintf(key, sizeof(key), "%.*s", SL_STR_ARG(w->parts[i].key));
    return used(&w->table, w->parts[i].binding, key);
}

/* Others take one of each key, and then one of all of them at once. None of it
 * may take long, whatever the victim holds. */
static inline uint64_t others_take(struct world *w)
{
    struct sl_part parts[3];
    uint64_t before = steps_made;

    memcpy(parts, w->parts, sizeof(parts));
    for (unsigned i = 0; i < w->count; i++)
        CHECK_EQ(sl_table_decide(&w->table, &parts[i], 1, NOW, true),
                 SL_SET_ALLOW);
    CHECK_EQ(sl_table_decide(&w->table, parts, w->count, NOW, true),
             SL_SET_ALLOW);
    CHECK(steps_made - before < 500);
    return 2;
}

/* What all keys have used beyond the beginning; a set that is half taken is a
 * failed check. */
static inline uint64_t taken_by_all(struct world *w)
{
    uint64_t taken = used_of(w, 0) - w->base[0];

    for (unsigned i = 1; i < w->count; i++)
        CHECK_EQ(used_of(w, i) - w->base[i], taken);
    return taken;
}

static inline void add_part(struct world *w, unsigned limit, const char *key)
{
    w->parts[w->count++] = part_of(&w->limit[limit], key, 1);
}

/* Make the region with its limits, and the keys that all changes know. */
static inline void begin_world(struct world *w, const char *name)
{
    static const char *const keys[] = {"a", "b", "c"};

    memset(w, 0, sizeof(*w));
    w->name = name;
    w->pages = shared_pages(MIB);
    w->image = shared_pages(MIB);
    w->limit[POOL] = limit_of("pool", SL_PERMITS, "1000", 200);
    w->limit[RATE] = limit_of("rate", SL_BUCKET, "1000/min", 200);
    w->limit[DAY] = limit_of("day", SL_QUOTA, "1000/day", 200);
    w->limit[WALL] = limit_of("wall", SL_BUCKET, "1/min", 400);
    open_pages(&w->table, w->pages, MIB);
    for (unsigned i = 0; i < LIMITS; i++)
        know(&w->table, &w->limit[i]);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned l = POOL; l <= DAY; l++)
            CHECK_EQ(take(&w->table, &w->limit[l], keys[i], BASE),
                     SL_SET_ALLOW);
}

/* Remember how it is. */
static inline void end_world(struct world *w)
{
    for (unsigned i = 0; i < w->count; i++)
        w->base[i] = used_of(w, i);
    sl_table_done(&w->table);
    memcpy(w->image, w->pages, MIB);
}

static inline void free_world(struct world *w)
{
    munmap(w->pages, MIB);
    munmap(w->image, MIB);
}

/* A table with no slot free but for cells that owe little, and a key that
 * pushes one of them out: tried on a copy. */
static inline void make_filler(struct world *w, char *ret, size_t size)
{
    char key[32];

    for (unsigned i = 0; i < 40000; i++) {
        snprintf(key, sizeof(key), "filler%u", i);
        (void)take(&w->table, &w->limit[i % 8 ? WALL : RATE], key, 1);
    }
    for (unsigned i = 0; i < 10000; i++) {
        struct sl_table copy;
        bool evicts;

        snprintf(ret, size, "new%u", i);
        memcpy(w->image, w->pages, MIB);
        open_pages(&copy, w->image, MIB);
        (void)take(&copy, &w->limit[RATE], ret, 1);
        evicts = counted(&copy, SL_STAT_EVICTED) >
                 counted(&w->table, SL_STAT_EVICTED);
        sl_table_done(&copy);
        if (evicts)
            return;
    }
    abort();
}

enum change { SINGLE, PERMIT, SET, INSERT, INSERT_SET, EVICT, SWEEP, CHANGES };

/* The key of EVICT is put into `key`, which the world keeps. */
static inline void make_world(struct world *w, enum change change, char *key,
                              size_t size)
{
    static const char *const names[] = {
        "one take",     "one permit",        "a set of three", "a new key",
        "two new of 3", "a key that evicts", "a sweep"};

    begin_world(w, names[change]);
    if (change == SINGLE)
        add_part(w, RATE, "a");
    if (change == PERMIT || change == SET)
        add_part(w, POOL, "a");
    if (change == SET) {
        add_part(w, RATE, "b");
        add_part(w, DAY, "c");
    }
    if (change == INSERT || change == INSERT_SET)
        add_part(w, RATE, "new");
    if (change == INSERT_SET) {
        add_part(w, POOL, "b");
        add_part(w, DAY, "new");
    }
    if (change == EVICT) {
        make_filler(w, key, size);
        add_part(w, RATE, key);
    }
    if (change == SWEEP) {
        add_part(w, RATE, "a");
        reset(&w->table, &w->limit[RATE], "a");
        add_part(w, POOL, "b");
        adjust(&w->table, &w->limit[POOL], "b", -BASE);
        w->sweep = true;
    }
    end_world(w);
}

#endif
