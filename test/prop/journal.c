/* journal.c -- whatever dies, usage is recorded once.
 *
 * Two buffers, as two threads have them, spend units of a few subjects and
 * report some, over one journal in a file. Their database is SQLite, with a
 * script: transactions fail, or are committed without an answer, or all fail
 * for a while. The process is killed at random: what was in memory is dropped,
 * and the file is opened again, perhaps with a database that fails meanwhile.
 * It may be killed again before all of the file is recorded.
 *
 *   (1) At no time does the database have more than was spent.
 *   (2) In the end it has what was spent, and nothing was lost.
 *   (3) A report with a key is recorded once, however often it was kept.
 *   (4) Right after a start, a reader sees all that was spent before.
 *   (5) So does the table: it is told the units that are recorded and pending.
 * These check (1) to (4) of usage_replay.c: (1) by (1) to (3), (2) by (4), (3)
 * by (5), and (4) by (2).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/loop.h"
#include "prop.h"
#include "registry/registry_int.h"
#include "registry/usage_buffer.h"

#define SUBJECTS 6
#define BUFFERS  2
#define STEPS    150
#define DAY_0    (20000 * SL_DAY)

/* ---- the scripted database ---- */

enum script { GOOD, FAILS, ANSWER_LOST, AWAY };

static _Atomic int script;
static struct sl_driver driver;

static int say(struct sl_database *db)
{
    return sl_diag_error(&db->diag, SLUICE_ESTORE, "the script says so");
}

static int run(struct sl_database *db, enum sl_query query)
{
    int now = atomic_load(&script);
    int err;

    if (query == SL_QUERY_BEGIN && now == AWAY)
        return say(db);
    if (query != SL_QUERY_COMMIT || now == GOOD)
        return sl_driver_sqlite.run(db, query);
    atomic_store(&script, now == AWAY ? AWAY : GOOD);
    if (now != ANSWER_LOST)
        return say(db);
    err = sl_driver_sqlite.run(db, query);
    return err ? err : say(db);
}

/* ---- the process ---- */

struct world {
    char folder[64], db[96], journal[96];
    struct sl_loop *loop;
    struct sl_registry *registry;
    struct sl_usage_journal *file;
    struct sl_usage_buffer *buffers[BUFFERS];
    uint64_t spent[SUBJECTS];
    uint64_t told[SUBJECTS]; /* at the last start */
    char reported[SUBJECTS]; /* by a key */
};

static void on_posted(void *ctx)
{
    sl_loop_stop(ctx);
}

/* Runs what was posted to the loop. */
static void turn(struct world *w)
{
    if (sl_loop_post(w->loop, on_posted, w->loop) == 0)
        sl_loop_run(w->loop);
}

static uint64_t on_usage(void *ctx, const struct sl_usage_entry *usage)
{
    struct world *w = ctx;

    w->told[usage->id.at[1] - '0'] += usage->used;
    return 0;
}

/* (4) (5) What was spent before is in the file or in the database. */
static void check_start(struct world *w);

static bool start(struct world *w)
{
    struct sl_usage_journal_options journal = {.path = w->journal,
                                               .size = SL_JOURNAL_LEAST};
    struct sl_registry_options registry = {
        .driver = &driver, .path = w->db, .on_usage = on_usage, .ctx = w};
    struct sl_usage_buffer_options options = {.alloc = NULL};
    struct sl_diag diag = {0};
    int err;

    if (!CHECK_EQ(sl_usage_journal_open(&journal, &w->file, &diag), 0))
        return false;
    CHECK(!sl_usage_journal_notice(w->file)[0]);
    registry.journal = options.journal = w->file;
    memset(w->told, 0, sizeof(w->told));
    err = sl_registry_open(&registry, &w->registry, &diag);
    if (err) { /* it fails while it replays; the next start goes on */
        CHECK(strstr(diag.sentence, "the script says so"));
        atomic_store(&script, GOOD);
        sl_usage_journal_close(w->file);
        return start(w);
    }
    for (int i = 0; i < BUFFERS; i++)
        CHECK_EQ(sl_usage_buffer_open(w->registry, w->loop, &options,
                                      &w->buffers[i], &diag),
                 0);
    check_start(w);
    return true;
}

/* Ends the process: jobs under way are carried out or fail, by the script. */
static void end(struct world *w)
{
    sl_registry_stop(w->registry);
    turn(w);
    for (int i = 0; i < BUFFERS; i++) {
        CHECK_EQ(sl_usage_buffer_counts(w->buffers[i])->lost, 0);
        sl_usage_buffer_close(w->buffers[i]);
    }
    sl_registry_close(w->registry);
    sl_usage_journal_close(w->file);
}

/* ---- the database's numbers ---- */

static void on_read(struct sl_job *job)
{
    *(bool *)job->ctx = true;
}

/* Returns false if the database fails. */
static bool read_used(struct world *w, const char *id, uint64_t *ret)
{
    const struct sl_usage_row *rows;
    struct sl_job job;
    bool done = false;

    sl_job_init(&job, SL_JOB_USAGE_READ, &sl_alloc_libc);
    job.scope = SL_STR("org");
    job.id = sl_str_c(id);
    job.loop = w->loop;
    job.done = on_read;
    job.ctx = &done;
    sl_registry_ask(w->registry, &job);
    while (!done)
        turn(w);
    rows = (const void *)job.text.bytes;
    *ret = 0;
    for (size_t i = 0; i < job.text.len / sizeof(*rows); i++)
        if (rows[i].kind == SL_ROW_COUNTER)
            *ret += rows[i].used;
    done = !job.err;
    sl_job_clear(&job);
    return done;
}

static void check_start(struct world *w)
{
    uint64_t used;
    char id[8];

    for (unsigned i = 0; i < SUBJECTS; i++) {
        CHECK_EQ(w->told[i], w->spent[i]);
        snprintf(id, sizeof(id), "s%u", i);
        if (i % 2 == 0 && read_used(w, id, &used)) /* the others stay pending */
            CHECK_EQ(used, w->spent[i]);
    }
}

/* ---- steps ---- */

static void spend(struct world *w, struct rng *rng)
{
    unsigned who = (unsigned)rng_below(rng, SUBJECTS);
    unsigned by = (unsigned)rng_below(rng, BUFFERS);
    struct sl_usage_sink *sink = sl_usage_buffer_sink(w->buffers[by]);
    char id[8];
    struct sl_str value = {id, (size_t)snprintf(id, sizeof(id), "s%u", who)};
    struct sl_usage_delta delta = {
        .fingerprint = {who + 1, rng_below(rng, 2) ? who + 1 : 0},
        .limit = SL_STR("minutes"),
        .scope = SL_STR("org"),
        .values = &value,
        .value_count = 1,
        .start = DAY_0,
        .at = DAY_0,
        .amount = 1 + (int64_t)rng_below(rng, 9),
        .cap = 1000000,
    };

    if (sink->full)
        return; /* the decision is denied */
    if (delta.fingerprint.hi == 0)
        delta.fingerprint.lo = 0; /* found by its texts */
    sink->calls->spent(sink, &delta);
    w->spent[who] += (uint64_t)delta.amount;
}

/* Keeps a report, perhaps one that was kept before. */
static void report(struct world *w, struct rng *rng)
{
    unsigned who = (unsigned)rng_below(rng, SUBJECTS);
    unsigned by = (unsigned)rng_below(rng, BUFFERS);
    struct sl_usage_sink *sink = sl_usage_buffer_sink(w->buffers[by]);
    char id[8];
    struct sl_usage_entry u = {
        .limit = SL_STR("minutes"),
        .scope = SL_STR("org"),
        .id = {id, (size_t)snprintf(id, sizeof(id), "s%u", who)},
        .key = SL_STR("key"),
        .start = DAY_0,
        .at = DAY_0,
        .amount = 100,
        .cap = 1000000,
    };

    /* Without room it is refused; that may be before decisions are. */
    if (!sl_usage_buffer_keep(sink, &u, 1))
        return;
    w->spent[who] += w->reported[who] ? 0 : 100; /* (3) */
    w->reported[who] = 1;
}

static void check_one(struct world *w, struct rng *rng)
{
    unsigned who = (unsigned)rng_below(rng, SUBJECTS);
    uint64_t used;
    char id[8];

    snprintf(id, sizeof(id), "s%u", who);
    if (read_used(w, id, &used))
        CHECK(used <= w->spent[who]); /* (1) */
}

static bool step(struct world *w, struct rng *rng)
{
    unsigned by = (unsigned)rng_below(rng, BUFFERS);

    switch (rng_below(rng, 20)) {
    case 0:
        atomic_store(&script, (int)rng_below(rng, 4));
        break;
    case 1:
        if (rng_below(rng, 3) > 0)
            break;
        end(w);
        if (rng_below(rng, 2) || atomic_load(&script) == AWAY)
            atomic_store(&script, (int)rng_below(rng, 3));
        return start(w);
    case 2:
    case 3:
    case 4:
        sl_usage_buffer_flush(sl_usage_buffer_sink(w->buffers[by]));
        break;
    case 5:
    case 6:
        turn(w);
        break;
    case 7:
        check_one(w, rng);
        break;
    case 8:
        report(w, rng);
        break;
    default:
        spend(w, rng);
    }
    return true;
}

/* (2) After one more start all of it is recorded. */
static void check_all(struct world *w)
{
    struct sl_usage_journal_counts counts;
    uint64_t used = 0;
    char id[8];

    end(w);
    atomic_store(&script, GOOD);
    if (!start(w))
        return;
    do {
        CHECK(read_used(w, "s0", &used));
        sl_usage_journal_count(w->file, &counts);
    } while (counts.lines > 0);
    for (unsigned i = 0; i < SUBJECTS; i++) {
        snprintf(id, sizeof(id), "s%u", i);
        CHECK(read_used(w, id, &used));
        CHECK_EQ(used, w->spent[i]);
    }
    end(w);
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct world w = {.loop = NULL};
    char command[128];
    bool good;

    driver = sl_driver_sqlite;
    driver.run = run;
    atomic_store(&script, GOOD);
    snprintf(w.folder, sizeof(w.folder), "/tmp/sluice-journal-XXXXXX");
    if (!CHECK(mkdtemp(w.folder)) ||
        !CHECK_EQ(sl_loop_open(NULL, &w.loop, NULL), 0))
        return false;
    snprintf(w.db, sizeof(w.db), "%s/u.db", w.folder);
    snprintf(w.journal, sizeof(w.journal), "%s/usage", w.folder);
    good = start(&w);
    for (unsigned i = 0; i < STEPS && good; i++, ++*steps)
        good = step(&w, &rng);
    if (good)
        check_all(&w);
    sl_loop_close(w.loop);
    snprintf(command, sizeof(command), "rm -rf %s", w.folder);
    return system(command) == 0 && good;
}

const struct property prop_journal = {
    .name = "journal",
    .steps = 3000,
    .cases = {{"usage is recorded once, whatever dies", episode, 0}},
};
