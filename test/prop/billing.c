/* billing.c -- two daemons and a scripted database in virtual time: usage is
 * recorded once, whatever dies.
 *
 * The buffers and the journals are the real ones. The loop, its timers and the
 * registry are models, so that an episode needs no thread and no waiting. The
 * database commits a job, or fails, or commits it and loses the answer, each
 * after a delay; or it is away for a while. A daemon is killed at any time,
 * perhaps together with the database: each of its jobs under way is committed
 * or not, and the next start reads the journal. What is in it is recorded while
 * the daemon goes on, some lines at a time, in any order within a segment.
 *
 *   (1) At no time does the database have more than was acknowledged.
 *   (2) In the end it has all of it, nothing was lost, and the journals are
 *       empty.
 *   (3) A report with a key is recorded once, at whichever daemons it was kept.
 *   (4) The sequences of a stream are recorded in order, without a gap.
 *   (5) A line that was recorded before its segment is not recorded with it.
 *   (6) A mark behind a line is not recorded before the line.
 *
 * `prop-billing [SEEDS [FIRST]]`: SL_LONG=1 in the environment tries 10,000.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "check.h"
#include "net/loop.h"
#include "registry/registry_int.h"
#include "registry/usage_buffer.h"
#include "rng.h"

#define DAEMONS  2
#define BUFFERS  2
#define SUBJECTS 4
#define KEYS     8 /* of a subject */
#define HOLDS    64
#define STREAMS  256
#define PARTS    256
#define STEPS    120
#define BEGUN    4 /* decisions of a thread that wait */
#define DAY_0    (20000 * SL_DAY)

/* ---- virtual time: the loop and its timers ---- */

static sl_ns now;

struct sl_timer {
    sl_loop_f *call;
    void *ctx;
    sl_ns due; /* SL_NS_NONE: not started */
    struct sl_timer *next;
};
static struct sl_timer *timers;

sl_ns sl_loop_mono(struct sl_loop *loop)
{
    (void)loop;
    return now;
}

int sl_loop_post(struct sl_loop *loop, sl_loop_f *f, void *ctx)
{
    (void)loop;
    f(ctx);
    return 0;
}

int sl_timer_new(struct sl_loop *loop, sl_loop_f *on_time, void *ctx,
                 struct sl_timer **ret)
{
    struct sl_timer *timer = calloc(1, sizeof(*timer));

    (void)loop;
    if (!timer)
        return SLUICE_ENOMEM;
    *timer = (struct sl_timer){on_time, ctx, SL_NS_NONE, timers};
    *ret = timers = timer;
    return 0;
}

void sl_timer_start(struct sl_timer *timer, sl_ns after)
{
    timer->due = now + after;
}

void sl_timer_free(struct sl_timer *timer)
{
    struct sl_timer **at = &timers;

    while (*at && *at != timer)
        at = &(*at)->next;
    if (*at)
        *at = timer->next;
    free(timer);
}

/* Calls what is due. A call may start timers, and does not free any. */
static void run_timers(void)
{
    for (struct sl_timer *t = timers; t; t = t->next)
        if (t->due != SL_NS_NONE && t->due <= now) {
            t->due = SL_NS_NONE;
            t->call(t->ctx);
        }
}

int sl_thread_start(pthread_t *ret, void *(*what)(void *), void *ctx,
                    struct sl_diag *diag)
{
    (void)diag;
    return pthread_create(ret, NULL, what, ctx) ? SLUICE_ESYS : 0;
}

/* ---- the registry: jobs under way ---- */

struct daemon {
    char path[96];
    uint64_t size; /* of the journal */
    struct sl_usage_journal *journal;
    struct sl_usage_buffer *buffers[BUFFERS];
    struct sl_job *jobs;     /* in the order of the calls */
    unsigned left;           /* the next segment of an earlier process */
    unsigned begun[BUFFERS]; /* decisions that wait for a store */
};

static struct sl_hash_key secret = {1, 2};

const struct sl_hash_key *sl_registry_secret(const struct sl_registry *registry)
{
    (void)registry;
    return &secret;
}

void sl_registry_ask(struct sl_registry *registry, struct sl_job *job)
{
    struct sl_job **at = &((struct daemon *)registry)->jobs;

    while (*at)
        at = &(*at)->next;
    job->next = NULL;
    *at = job;
}

void sl_job_init(struct sl_job *job, enum sl_job_kind kind,
                 const struct sl_alloc *alloc)
{
    (void)alloc;
    memset(job, 0, sizeof(*job));
    job->kind = kind;
}

void sl_job_clear(struct sl_job *job)
{
    (void)job;
}

bool sl_usage_join(const struct sl_str *values, unsigned count,
                   struct sl_buf *out)
{
    (void)values;
    (void)count;
    (void)out;
    return false; /* each subject here has one name */
}

void sl_usage_entry_period(struct sl_usage_entry *u,
                           const struct sl_limit *numbers)
{
    (void)u;
    (void)numbers;
}

/* ---- the database ---- */

struct stream {
    char node[SL_JOURNAL_NODE];
    uint64_t number, last;
};

/* A segment that is recorded in part. */
struct part {
    char node[SL_JOURNAL_NODE];
    uint64_t stream, sequence;
    bool lines[SL_JOURNAL_LINES];
};

struct hold {
    uint64_t id;
    enum { UNKNOWN, TAKEN, ENDED, DONE } state; /* ENDED: before its take */
    int64_t amount;
    unsigned who;
};

static struct {
    sl_ns away_until;
    int64_t used[SUBJECTS];
    bool keys[SUBJECTS][KEYS];
    struct stream streams[STREAMS];
    unsigned stream_count;
    struct part parts[PARTS];
    unsigned part_count;
    struct hold holds[HOLDS];
} db;

static unsigned subject_of(const struct sl_usage_entry *u)
{
    return (unsigned)(u->id.at[1] - '0');
}

static struct stream *find_stream(const struct sl_job *job)
{
    struct stream *s = db.streams;

    for (; s < db.streams + db.stream_count; s++)
        if (s->number == job->stream &&
            sl_str_eq(sl_str_c(s->node), job->journal))
            return s;
    if (!CHECK(db.stream_count < STREAMS))
        abort();
    db.stream_count++;
    snprintf(s->node, sizeof(s->node), "%.*s", SL_STR_ARG(job->journal));
    s->number = job->stream;
    s->last = 0;
    return s;
}

static void apply_hold(const struct sl_usage_entry *u)
{
    struct hold *h = &db.holds[u->hold[0] % HOLDS];

    if (u->act == SL_USAGE_ACT_HOLD && h->state == ENDED) {
        db.used[subject_of(u)] += h->amount;
        h->state = DONE;
    } else if (u->act == SL_USAGE_ACT_HOLD) {
        h->state = TAKEN;
        h->who = subject_of(u);
    } else if (h->state == TAKEN) {
        db.used[h->who] += u->amount;
        h->state = DONE;
    } else {
        h->state = ENDED;
        h->amount = u->amount;
    }
}

static void apply(const struct sl_usage_entry *u)
{
    unsigned who;

    if (u->act != SL_USAGE_ACT_TAKE) {
        apply_hold(u);
        return;
    }
    who = subject_of(u);
    if (u->key.len > 0) {
        bool *known = &db.keys[who][u->key.at[0] - '0'];

        if (*known)
            return;
        *known = true;
    }
    db.used[who] += u->amount;
}

/* The transaction of a job, as jobs.c runs it. */
static void commit(struct sl_job *job)
{
    struct stream *s = find_stream(job);

    if (s->last >= job->sequence)
        return; /* it was recorded before */
    if (job->after > s->last) {
        job->result = SL_JOB_CHANGED;
        return;
    }
    CHECK_EQ(job->sequence, s->last + 1); /* (4) */
    s->last = job->sequence;
    for (unsigned i = 0; i < job->change_count; i++)
        apply(&job->usage[i]);
}

/* ---- what was acknowledged ---- */

static int64_t acknowledged[SUBJECTS];
static bool reported[SUBJECTS][KEYS];
static struct {
    unsigned count;
    bool ended[HOLDS];
} holds;

static void check_bound(void)
{
    for (unsigned i = 0; i < SUBJECTS; i++)
        CHECK(db.used[i] <= acknowledged[i]); /* (1) */
}

/* ---- daemons ---- */

/* Runs the next job of a daemon. `answers`: the daemon is there for it. */
static void run_job(struct daemon *d, struct rng *rng, bool answers)
{
    struct sl_job *job = d->jobs;
    bool fails = now < db.away_until || rng_once_in(rng, 6);

    d->jobs = job->next;
    if (!fails)
        commit(job);
    if (fails || rng_once_in(rng, 6))
        job->err = SLUICE_ESTORE;
    if (answers)
        job->done(job);
    check_bound();
}

static struct part *find_part(const struct sl_job *job)
{
    struct part *part = db.parts;

    for (; part < db.parts + db.part_count; part++)
        if (part->stream == job->stream && part->sequence == job->sequence &&
            sl_str_eq(sl_str_c(part->node), job->journal))
            return part;
    if (!CHECK(db.part_count < PARTS))
        abort();
    db.part_count++;
    memset(part, 0, sizeof(*part));
    snprintf(part->node, sizeof(part->node), "%.*s", SL_STR_ARG(job->journal));
    part->stream = job->stream;
    part->sequence = job->sequence;
    return part;
}

/* Records some lines of a segment, or the rest and its sequence. Returns
 * whether the segment is recorded. As usage_replay.c does it. */
static bool commit_some(struct sl_job *job, struct rng *rng)
{
    struct stream *s = find_stream(job);
    struct part *part;
    bool all = rng_once_in(rng, 3);

    if (s->last >= job->sequence)
        return true;
    part = find_part(job);
    for (unsigned i = 0; i < job->change_count; i++)
        if (!part->lines[i] && (all || rng_once_in(rng, 2))) { /* (5) */
            part->lines[i] = true;
            apply(&job->usage[i]);
        }
    if (!all)
        return false;
    CHECK_EQ(job->sequence, s->last + 1); /* (4) */
    s->last = job->sequence;
    *part = db.parts[--db.part_count];
    return true;
}

/* Records some of what an earlier process has left, until the database fails.
 */
static void replay(struct daemon *d, struct rng *rng)
{
    static struct sl_usage_entry lines[SL_JOURNAL_LINES];
    const struct sl_usage_segment *segment;

    while ((segment = sl_usage_journal_recovered(d->journal, d->left))) {
        const struct sl_usage_line *line = NULL;
        struct sl_job job = {.usage = lines,
                             .journal = sl_usage_journal_node(d->journal),
                             .stream = segment->stream,
                             .sequence = segment->sequence};
        bool recorded;

        if (now < db.away_until || rng_once_in(rng, 6))
            return;
        while ((line = sl_usage_segment_next(segment, line)))
            sl_usage_line_read(line, &lines[job.change_count++]);
        recorded = commit_some(&job, rng);
        check_bound();
        if (rng_once_in(rng, 6))
            return; /* the answer is lost: it is sent again */
        if (recorded)
            sl_usage_journal_drop_recovered(d->journal, d->left++);
    }
}

static void start(struct daemon *d, struct rng *rng)
{
    struct sl_usage_journal_options journal = {.path = d->path,
                                               .size = d->size};
    struct sl_diag diag = {0};

    if (!CHECK_EQ(sl_usage_journal_open(&journal, &d->journal, &diag), 0))
        abort();
    CHECK_STR(sl_usage_journal_notice(d->journal), "");
    d->jobs = NULL;
    d->left = 0;
    memset(d->begun, 0, sizeof(d->begun));
    replay(d, rng);
    for (unsigned i = 0; i < BUFFERS; i++) {
        struct sl_usage_buffer_options options = {.journal = d->journal};

        if (!CHECK_EQ(sl_usage_buffer_open((struct sl_registry *)d, NULL,
                                           &options, &d->buffers[i], &diag),
                      0))
            abort();
    }
}

/* What is in memory is gone; the file stays as it is. */
static void kill_daemon(struct daemon *d, struct rng *rng)
{
    while (d->jobs)
        run_job(d, rng, false);
    for (unsigned i = 0; i < BUFFERS; i++) {
        CHECK_EQ(sl_usage_buffer_counts(d->buffers[i])->lost, 0); /* (2) */
        sl_usage_buffer_close(d->buffers[i]);
    }
    sl_usage_journal_close(d->journal);
}

/* ---- requests ---- */

static struct sl_usage_sink *a_sink(struct daemon *d, struct rng *rng)
{
    return sl_usage_buffer_sink(d->buffers[rng_below(rng, BUFFERS)]);
}

static void put_down(struct sl_usage_sink *sink,
                     const struct sl_usage_delta *delta)
{
    sink->calls->spent(sink, delta);
    CHECK(!sl_usage_buffer_is_recorded(sink, sl_usage_buffer_mark(sink)));
}

/* A check: without room it is denied. If not, it is allowed at once, or later
 * when its store has answered, whatever room is left then. */
static void spend(struct daemon *d, struct rng *rng)
{
    unsigned who = (unsigned)rng_below(rng, SUBJECTS);
    unsigned thread = (unsigned)rng_below(rng, BUFFERS);
    struct sl_usage_sink *sink = sl_usage_buffer_sink(d->buffers[thread]);
    char id[] = {'s', (char)('0' + who), '\0'};
    struct sl_str value = {id, 2};
    struct sl_usage_delta delta = {
        .fingerprint = {who + 1, 1},
        .limit = SL_STR("units"),
        .scope = SL_STR("org"),
        .values = &value,
        .value_count = 1,
        .start = DAY_0,
        .at = DAY_0 + now,
        .amount = 1 + (int64_t)rng_below(rng, 9),
        .cap = 1000
    };

    if (!sink->full && d->begun[thread] < BEGUN && rng_once_in(rng, 2)) {
        d->begun[thread]++;
        return;
    }
    if (d->begun[thread] > 0 && rng_once_in(rng, 2))
        d->begun[thread]--;
    else if (sink->full)
        return;
    if (rng_once_in(rng, 4) && holds.count < HOLDS) {
        delta.act = SL_USAGE_ACT_HOLD;
        delta.hold[0] = holds.count++;
        delta.hold[1] = 1;
        db.holds[delta.hold[0]] = (struct hold){.who = who};
        put_down(sink, &delta);
        return;
    }
    put_down(sink, &delta);
    acknowledged[who] += delta.amount;
}

/* Ends a hold, at any thread of any daemon. Whose it is the line does not say.
 */
static void settle(struct daemon *d, struct rng *rng, const unsigned *owners)
{
    unsigned number = (unsigned)rng_below(rng, holds.count);
    struct sl_usage_sink *sink = a_sink(d, rng);
    struct sl_usage_delta delta = {
        .act = SL_USAGE_ACT_HOLD_END,
        .hold = {number, 1},
        .limit = SL_STR("units"),
        .values = (struct sl_str[]){SL_STR("")     },
        .value_count = 1,
        .start = DAY_0,
        .at = DAY_0 + now,
        .amount = (int64_t)rng_below(rng, 9),
        .cap = UINT64_MAX
    };

    if (holds.count == 0 || holds.ended[number] || sink->no_room)
        return;
    holds.ended[number] = true;
    acknowledged[owners[number]] += delta.amount;
    put_down(sink, &delta);
}

/* Keeps a report, perhaps one that another daemon has kept. */
static void report(struct daemon *d, struct rng *rng)
{
    unsigned who = (unsigned)rng_below(rng, SUBJECTS);
    unsigned key = (unsigned)rng_below(rng, KEYS);
    char id[] = {'s', (char)('0' + who), '\0'};
    char name[] = {(char)('0' + key), '\0'};
    struct sl_usage_entry u = {
        .limit = SL_STR("units"),
        .scope = SL_STR("org"),
        .id = {id,   2},
        .key = {name, 1},
        .start = DAY_0,
        .at = DAY_0 + now,
        .amount = 100 + key,
        .cap = 1000
    };

    if (!sl_usage_buffer_keep(a_sink(d, rng), &u, 1))
        return;
    acknowledged[who] += reported[who][key] ? 0 : u.amount; /* (3) */
    reported[who][key] = true;
}

/* ---- episodes ---- */

static void step(struct daemon *daemons, unsigned *owners, struct rng *rng)
{
    struct daemon *d = &daemons[rng_below(rng, DAEMONS)];
    unsigned before = holds.count;

    now += (sl_ns)rng_below(rng, 40) * SL_MS;
    run_timers();
    switch (rng_below(rng, 24)) {
    case 0:
        if (rng_once_in(rng, 2))
            db.away_until = now + (sl_ns)rng_below(rng, 3000) * SL_MS;
        kill_daemon(d, rng);
        start(d, rng);
        break;
    case 1:
        db.away_until = now + (sl_ns)rng_below(rng, 2000) * SL_MS;
        break;
    case 2:
    case 3:
        report(d, rng);
        break;
    case 4:
    case 5:
    case 6:
        settle(d, rng, owners);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
        replay(d, rng);
        for (unsigned n = (unsigned)rng_below(rng, 4); n > 0 && d->jobs; n--)
            run_job(d, rng, true);
        break;
    default:
        spend(d, rng);
        if (holds.count > before)
            owners[before] = db.holds[before].who;
    }
}

/* All that the buffers have is recorded. (6) */
static void check_recorded(const struct daemon *d)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        const struct sl_usage_sink *sink = sl_usage_buffer_sink(d->buffers[i]);

        CHECK(sl_usage_buffer_is_recorded(sink, sl_usage_buffer_mark(sink)));
    }
}

/* The database works from now on, more often than not. */
static void let_end(struct daemon *daemons, struct rng *rng)
{
    db.away_until = now;
    for (unsigned i = 0; i < 1000; i++) {
        now += 100 * SL_MS;
        run_timers();
        for (unsigned k = 0; k < DAEMONS; k++) {
            replay(&daemons[k], rng);
            while (daemons[k].jobs)
                run_job(&daemons[k], rng, true);
        }
    }
}

static void episode(uint64_t seed, const char *folder)
{
    struct rng rng = {seed};
    struct daemon daemons[DAEMONS];
    unsigned owners[HOLDS];

    now = SL_S;
    memset(&db, 0, sizeof(db));
    memset(&holds, 0, sizeof(holds));
    memset(acknowledged, 0, sizeof(acknowledged));
    memset(reported, 0, sizeof(reported));
    for (unsigned i = 0; i < DAEMONS; i++) {
        snprintf(daemons[i].path, sizeof(daemons[i].path), "%s/%u", folder, i);
        /* The small one is full soon, the large one sends several segments. */
        daemons[i].size = SL_JOURNAL_LEAST * (seed % 2 ? 1 : 4);
        start(&daemons[i], &rng);
    }
    for (unsigned i = 0; i < STEPS; i++)
        step(daemons, owners, &rng);
    let_end(daemons, &rng);
    for (unsigned i = 0; i < SUBJECTS; i++)
        CHECK_EQ(db.used[i], acknowledged[i]); /* (2) */
    for (unsigned i = 0; i < DAEMONS; i++) {
        CHECK_EQ(sl_usage_journal_room(daemons[i].journal) + BUFFERS,
                 sl_usage_journal_segments(daemons[i].journal)); /* (2) */
        check_recorded(&daemons[i]);
        kill_daemon(&daemons[i], &rng);
        unlink(daemons[i].path);
    }
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10)
                              : (getenv("SL_LONG") ? 10000 : 300);
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    char folder[64];

    snprintf(folder, sizeof(folder), "%s/sluice-billing-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    CASE("two daemons, one database: recorded once, whatever dies");
    if (!CHECK(mkdtemp(folder) != NULL))
        return CHECK_DONE();
    for (uint64_t i = 0; i < count && !check_state.bad; i++) {
        episode(first + i, folder);
        if (check_state.bad)
            printf("# replay: prop-billing 1 %llu\n",
                   (unsigned long long)(first + i));
    }
    rmdir(folder);
    return CHECK_DONE();
}
