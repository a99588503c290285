/* subject_cache.c -- what is at hand, and when it no longer holds. */
#include "registry/subject_cache.h"

#include <pthread.h>

#include "fail.h"
#include "filed.h"
#include "registry/registry_int.h"

static sl_ns steady = 100 * SL_S;

static sl_ns read_steady(void *ctx)
{
    (void)ctx;
    return steady;
}

/* A question, and what came of it. */
struct question {
    struct sl_lookup lookup;
    struct sl_loop *loop;
    unsigned answered;
    bool known, found, has_registered, blocked;
    char plan[32], id[64];
};

static void on_found(struct sl_lookup *lookup)
{
    struct question *q = lookup->ctx;

    q->answered++;
    q->found = lookup->found != NULL;
    q->has_registered = lookup->has_registered;
    if (lookup->found) {
        q->known = lookup->found->known;
        q->blocked = lookup->found->block.is_set;
        snprintf(q->plan, sizeof(q->plan), "%.*s",
                 SL_STR_ARG(lookup->found->plan));
        snprintf(q->id, sizeof(q->id), "%.*s", SL_STR_ARG(lookup->found->id));
    }
    sl_subject_unref(lookup->found);
    lookup->found = NULL;
    sl_loop_stop(q->loop);
}

struct place {
    struct world w;
    struct sl_clock clock;
    struct sl_loop *loop; /* the finder's: another than the writer's */
    struct sl_subject_cache *finder;
};

static void place_finder(struct place *p, unsigned most, unsigned loading)
{
    struct sl_subject_cache_options options = {.most = most,
                                               .most_loads = loading};

    CHECK_EQ(sl_subject_cache_open(p->w.registry, p->loop, &options, &p->finder,
                                   NULL),
             0);
}

/* The test notifies the registry itself. On PostgreSQL everything cached is
 * forgotten whenever the connection that listens is new, and on a busy machine
 * that may be at any time. */
static sl_notified_f *heard;

static int listen_to(struct sl_database *db, sl_notified_f *f, void *ctx,
                     struct sl_diag *diag)
{
    (void)db;
    (void)ctx;
    (void)diag;
    heard = f;
    return 0;
}

static void world_notified(struct world *w)
{
    static struct sl_driver driver;
    struct sl_registry_options options = {
        .driver = &driver, .path = w->path, .on_fault = on_fault, .ctx = w};
    const struct sl_driver *backed_by = BACKED_BY;
    struct sl_diag diag = {0};

    driver = backed_by ? *backed_by : sl_driver_sqlite;
    driver.listen = listen_to;
    world_folder(w);
    if (sl_registry_open(&options, &w->registry, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
}

static void place_open(struct place *p)
{
    world_notified(&p->w);
    sl_clock_init_sources(&p->clock, read_steady, read_steady, NULL);
    CHECK_EQ(sl_loop_open(&p->clock, &p->loop, NULL), 0);
    place_finder(p, 0, 0);
}

static void place_close(struct place *p)
{
    sl_registry_stop(p->w.registry);
    sl_subject_cache_close(p->finder);
    sl_loop_close(p->loop);
    world_close(&p->w);
}

/* Ask; the answer may come at once or when the loop turns. */
static void begin(struct place *p, struct question *q, struct sl_str scope,
                  struct sl_str id)
{
    struct sl_subjects *subjects = sl_subject_cache_subjects(p->finder);

    *q = (struct question){
        .loop = p->loop,
        .lookup = {.scope = scope, .id = id, .done = on_found, .ctx = q}
    };
    subjects->calls->find(subjects, &q->lookup);
}

/* Looks up a user and waits. Returns the plan, "?" if unknown, "!" after a
 * failure, "-" for an empty registry. */
static const char *plan_of(struct place *p, struct sl_str id, bool at_once)
{
    static struct question q;

    begin(p, &q, S("user"), id);
    CHECK_EQ(q.answered, at_once);
    while (!q.answered)
        sl_loop_run(p->loop);
    CHECK_EQ(q.answered, 1);
    if (q.lookup.err)
        return "!";
    if (!q.found)
        return "-";
    return q.known ? q.plan : "?";
}

static void set_alias(struct place *p, struct sl_str id, struct sl_str alias)
{
    struct sl_subject_change change = {.kind = SL_CHANGE_PATCH,
                                       .scope = S("user"),
                                       .id = id,
                                       .has = SL_HAS_ALIASES,
                                       .aliases = &alias,
                                       .alias_count = alias.len > 0};
    struct sl_job job;

    ask_write(&p->w, &job, &change, 1);
    CHECK_EQ(job.result, SL_JOB_DONE);
    sl_job_clear(&job);
}

/* Blocks a subject, or ends the block. */
static void set_block_until(struct place *p, struct sl_str scope,
                            struct sl_str id, bool on, sl_ns until)
{
    struct sl_job job;

    sl_job_init(&job, SL_JOB_BLOCK, &sl_alloc_libc);
    job.scope = scope;
    job.id = id;
    job.on = on;
    job.since = until;
    ask(&p->w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, SL_JOB_DONE);
    sl_job_clear(&job);
}

/* The same for a user, without an end. */
static void set_block(struct place *p, struct sl_str id, bool on)
{
    set_block_until(p, S("user"), id, on, SL_NS_NONE);
}

static void look_up_in(struct place *p, struct question *q, struct sl_str scope,
                       struct sl_str id)
{
    begin(p, q, scope, id);
    while (!q->answered)
        sl_loop_run(p->loop);
}

/* Looks up a user and waits. */
static void look_up(struct place *p, struct question *q, struct sl_str id)
{
    look_up_in(p, q, S("user"), id);
}

/* The blocked network that has the address, "-" without one. */
static const char *network_of(struct place *p, struct sl_str address)
{
    static struct question q;

    look_up_in(p, &q, S("ip"), address);
    CHECK_EQ(q.lookup.err, 0);
    return q.found ? q.id : "-";
}

TEST_WITH(registered, struct place *p)
{
    struct question q;

    CASE("an empty registry is not asked");
    CHECK_STR(plan_of(p, S("ann"), true), "-");
    CASE("a block is looked up, and registers no subject");
    set_block(p, S("mallory"), true);
    look_up(p, &q, S("ann"));
    CHECK(q.found && !q.known && !q.has_registered);
    set_block(p, S("mallory"), false);
    look_up(p, &q, S("ann"));
    CHECK(!q.has_registered);
    CASE("a subject does, also for who was looked up before");
    set_plan(&p->w, S("first"), S("free"));
    look_up(p, &q, S("ann"));
    CHECK(q.found && q.has_registered);
}

TEST_WITH(addresses, struct place *p)
{
    static const struct {
        const char *id;
        sl_ns until;
    } blocks[] = {
        {"203.0.113.7",     SL_NS_NONE },
        {"198.51.100.0/24", 9000 * SL_S},
        {"198.51.100.9",    8000 * SL_S},
        {"198.51.100.10",   SL_NS_NONE },
        {"2001:db8:1::/48", SL_NS_NONE },
        {"::/0",            SL_NS_NONE },
        {"192.0.2.0/24",    1          }, /* over */
    };
    static const struct {
        const char *address, *network;
    } rows[] = {
        {"203.0.113.7",          "203.0.113.7"    },
        {"::ffff:203.0.113.7",   "203.0.113.7"    },
        {"64:ff9b::203.0.113.7", "203.0.113.7"    },
        {"203.0.113.7:4711",     "203.0.113.7"    },
        {"203.0.113.6",          "-"              },
        {"203.0.113.8",          "-"              },
        {"198.51.100.0",         "198.51.100.0/24"},
        {"198.51.100.255",       "198.51.100.0/24"},
        {"198.51.101.0",         "-"              },
        {"198.51.100.9",         "198.51.100.0/24"},
        {"198.51.100.10",        "198.51.100.10"  },
        {"2001:db8:2::",         "::/0"           },
        {"192.0.2.1",            "-"              },
        {"unknown",              "-"              },
    };
    struct question q;

    CASE("without blocked addresses there is no load");
    begin(p, &q, S("ip"), S("203.0.113.7"));
    CHECK_EQ(q.answered, 1);
    CHECK(!q.found);
    CASE("an address is found by the network whose block ends last");
    steady = 1000 * SL_S;
    for (size_t i = 0; i < SL_LEN(blocks); i++)
        set_block_until(p, S("ip"), sl_str_c(blocks[i].id), true,
                        blocks[i].until);
    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (!CHECK_STR(network_of(p, sl_str_c(rows[i].address)),
                       rows[i].network))
            printf("# %s\n", rows[i].address);
    CASE("the end of a block counts at once");
    set_block_until(p, S("ip"), S("203.0.113.7"), false, 0);
    CHECK_STR(network_of(p, S("203.0.113.7")), "-");
    steady = 8500 * SL_S;
    CASE("and a block that is over counts no longer");
    CHECK_STR(network_of(p, S("198.51.100.200")), "198.51.100.0/24");
    steady = 9000 * SL_S;
    CHECK_STR(network_of(p, S("198.51.100.200")), "-");
    for (size_t i = 1; i < SL_LEN(blocks); i++)
        if (blocks[i].until == SL_NS_NONE)
            set_block_until(p, S("ip"), sl_str_c(blocks[i].id), false, 0);
}

TEST_WITH(hits, struct place *p)
{
    CASE("an unknown subject is cached, until it is written");
    CHECK_STR(plan_of(p, S("ada"), false), "?");
    CHECK_STR(plan_of(p, S("ada"), true), "?");
    set_plan(&p->w, S("ann"), S("pro"));
    CHECK_STR(plan_of(p, S("ann"), false), "pro");

    CASE("who was asked for lately is at hand");
    CHECK_STR(plan_of(p, S("ann"), true), "pro");

    CASE("a write counts from the next question on");
    set_plan(&p->w, S("ann"), S("free"));
    CHECK_STR(plan_of(p, S("ann"), false), "free");
    CHECK_STR(plan_of(p, S("ann"), true), "free");

    CASE("an impossible id is answered without a load");
    static char longest[SL_SUBJECT_RECORD_ID + 1];
    memset(longest, 'x', sizeof(longest));
    CHECK_STR(plan_of(p, (struct sl_str){longest, sizeof(longest)}, true), "?");
    CHECK_STR(plan_of(p, S(""), true), "?");
}

TEST_WITH(aliases, struct place *p)
{
    CASE("an alias leads to its subject, whatever its case");
    set_alias(p, S("ann"), S("ann@x"));
    CHECK_STR(plan_of(p, S("Ann@X"), false), "free");
    CHECK_STR(plan_of(p, S("Ann@X"), true), "free");

    CASE("what is written to the subject counts for its aliases");
    set_plan(&p->w, S("ann"), S("team"));
    CHECK_STR(plan_of(p, S("Ann@X"), false), "team");

    CASE("an alias that is taken away leads nowhere at once");
    set_alias(p, S("ann"), S(""));
    CHECK_STR(plan_of(p, S("Ann@X"), false), "?");

    CASE("and then to another");
    set_plan(&p->w, S("bob"), S("solo"));
    set_alias(p, S("bob"), S("ann@x"));
    CHECK_STR(plan_of(p, S("Ann@X"), false), "solo");
}

TEST_WITH(notified, struct place *p)
{
    CASE("a daemon that may have missed notifications asks again");
    CHECK_STR(plan_of(p, S("bob"), false), "solo");
    CHECK_STR(plan_of(p, S("bob"), true), "solo");
    heard(p->w.registry, S(""));
    CHECK_STR(plan_of(p, S("bob"), false), "solo");

    CASE("and one that is notified of a subject asks for that one");
    heard(p->w.registry, S("s:user:BOB"));
    CHECK_STR(plan_of(p, S("bob"), false), "solo");
    heard(p->w.registry, S("s:user:another"));
    CHECK_STR(plan_of(p, S("bob"), true), "solo");
    steady += 5 * SL_S;
}

TEST_WITH(life, struct place *p)
{
    CASE("what is old is asked for again");
    CHECK_STR(plan_of(p, S("bob"), false), "solo");
    steady += 5 * SL_S - 1;
    CHECK_STR(plan_of(p, S("bob"), true), "solo");
    steady += 1;
    CHECK_STR(plan_of(p, S("bob"), false), "solo");
}

TEST_WITH(races, struct place *p)
{
    struct question before, with, after;

    CASE("who asks after a write does not share an answer from before it");
    set_plan(&p->w, S("cem"), S("old"));
    begin(p, &before, S("user"), S("cem"));
    begin(p, &with, S("user"), S("cem"));
    set_plan(&p->w, S("cem"), S("new")); /* acknowledged on another loop */
    begin(p, &after, S("user"), S("cem"));
    CHECK_EQ(before.answered + with.answered + after.answered, 0);
    while (!before.answered || !with.answered || !after.answered)
        sl_loop_run(p->loop);
    CHECK_STR(before.plan, "old");
    CHECK_STR(with.plan, "old");
    CHECK_STR(after.plan, "new");

    CASE("and an answer from before it is not kept");
    CHECK_STR(plan_of(p, S("cem"), true), "new");
    CHECK_EQ(atomic_load(&sl_subject_cache_counts(p->finder)->hits) > 0, 1);
}

TEST_WITH(bounds, struct place *p)
{
    const struct sl_subject_cache_counts *counts;
    char id[8];

    CASE("so many are kept, those that were asked for last");
    sl_subject_cache_close(p->finder);
    place_finder(p, 4, 0);
    counts = sl_subject_cache_counts(p->finder);
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof(id), "u%d", i);
        plan_of(p, sl_str_c(id), false);
        CHECK(atomic_load(&counts->entries) <= 4);
        if (i > 0)
            plan_of(p, S("u0"), true);
    }
    CHECK_STR(plan_of(p, S("u9"), true), "?");
    CHECK_STR(plan_of(p, S("u1"), false), "?");
}

#define AT_ONCE 500 /* changes of a write */

/* Writes many subjects that were not looked up, as an import does. */
static void write_many(struct place *p, unsigned count)
{
    static struct sl_subject_change changes[AT_ONCE];
    static char ids[AT_ONCE][16];
    struct sl_job job;

    for (unsigned done = 0; done < count; done += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            int len = snprintf(ids[i], sizeof(ids[i]), "m%u", done + i);

            changes[i] = (struct sl_subject_change){
                .kind = SL_CHANGE_PUT,
                .scope = S("user"),
                .id = {ids[i], (size_t)len},
                .has = SL_HAS_PLAN,
                .plan = S("pro")
            };
        }
        ask_write(&p->w, &job, changes, AT_ONCE);
        CHECK_EQ(job.result, SL_JOB_DONE);
        sl_job_clear(&job);
    }
}

/* Looks up 200 users. Returns how many were cached. */
static uint64_t look_up_200(struct place *p)
{
    const struct sl_subject_cache_counts *counts;
    uint64_t before;
    char id[16];

    counts = sl_subject_cache_counts(p->finder);
    before = atomic_load(&counts->hits);
    for (int i = 0; i < 200; i++) {
        struct question q;

        snprintf(id, sizeof(id), "h%d", i);
        begin(p, &q, S("user"), sl_str_c(id));
        while (!q.answered)
            sl_loop_run(p->loop);
    }
    return atomic_load(&counts->hits) - before;
}

TEST_WITH(import, struct place *p)
{
    CASE("cached subjects stay while others are imported");
    sl_subject_cache_close(p->finder);
    place_finder(p, 0, 0);
    look_up_200(p);
    write_many(p, 10000);
    CHECK(look_up_200(p) > 150); /* one of 26 shares its version */
}

/* Asks for the same name again when the answer comes, like the next check of
 * an array. */
struct insistent {
    struct question first, again;
    struct place *place;
};

static void on_first(struct sl_lookup *lookup)
{
    struct insistent *who = lookup->ctx;

    who->first.answered++;
    begin(who->place, &who->again, lookup->scope, lookup->id);
    sl_loop_stop(who->place->loop);
}

static void begin_insistent(struct place *p, struct insistent *who,
                            struct sl_str id)
{
    struct sl_subjects *subjects = sl_subject_cache_subjects(p->finder);

    *who = (struct insistent){.place = p};
    who->first.lookup.scope = S("user");
    who->first.lookup.id = id;
    who->first.lookup.done = on_first;
    who->first.lookup.ctx = who;
    subjects->calls->find(subjects, &who->first.lookup);
}

/* ---- a source beside the registry ---- */

static struct source {
    enum { ANSWERS, ANSWERS_PARTLY, FAILS, WAITS } mode;
    sl_ns blocked_until; /* of "mallory" */
    struct sl_job *waiting;
    unsigned asked;
} source;

static void ask_source(void *ctx, struct sl_job *job)
{
    struct sl_subject_draft draft = {
        .scope = job->scope, .id = job->id, .expires = SL_NS_NONE};

    source.asked++;
    if (source.mode == WAITS) {
        source.waiting = job;
        return;
    }
    job->version = atomic_load(sl_registry_version(
        ((struct place *)ctx)->w.registry, job->scope, job->id));
    job->is_partial = source.mode == ANSWERS_PARTLY;
    if (source.mode == FAILS)
        job->err = SLUICE_ESTORE;
    draft.block.is_set = sl_str_eq(job->id, S("mallory"));
    draft.block.until = source.blocked_until;
    if (!job->err)
        job->entries = sl_subject_record_new(&draft, true, &sl_alloc_libc);
    job->done(job);
}

static void place_source(struct place *p)
{
    struct sl_subject_cache_options options = {
        .most_loads = 1, .source = {.ask = ask_source, .ctx = p}
    };

    sl_subject_cache_close(p->finder);
    source = (struct source){.blocked_until = SL_NS_NONE};
    CHECK_EQ(sl_subject_cache_open(p->w.registry, p->loop, &options, &p->finder,
                                   NULL),
             0);
}

/* Looks up a user: 'b'locked, 'f'ree, '!': failed. */
static char state_of(struct place *p, struct sl_str id)
{
    struct question q;

    look_up(p, &q, id);
    return q.lookup.err ? '!' : q.blocked ? 'b' : 'f';
}

TEST_WITH(source_fails, struct place *p)
{
    CASE("while a source fails, a blocked caller stays blocked");
    place_source(p);
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    CHECK_EQ(state_of(p, S("ann")), 'f');
    source.mode = FAILS;
    steady += 6 * SL_S;
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    CASE("and no other record is used");
    CHECK_EQ(state_of(p, S("ann")), '!');
    CASE("not after a change");
    set_plan(&p->w, S("mallory"), S("pro"));
    CHECK_EQ(state_of(p, S("mallory")), '!');
    CASE("nor when the block is over");
    source.mode = ANSWERS;
    source.blocked_until = steady + 10 * SL_S;
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    source.mode = FAILS;
    steady += 9 * SL_S;
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    steady += SL_S;
    CHECK_EQ(state_of(p, S("mallory")), '!');
}

TEST_WITH(source_partly, struct place *p)
{
    unsigned asked;

    CASE("a record without the source's part counts for its block");
    place_source(p);
    source.mode = ANSWERS_PARTLY;
    source.blocked_until = steady + SL_S;
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    asked = source.asked;
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    CHECK_EQ(source.asked, asked);
    CASE("and not longer");
    steady += SL_S;
    source.mode = FAILS;
    CHECK_EQ(state_of(p, S("mallory")), '!');
}

TEST_WITH(source_busy, struct place *p)
{
    struct question open;

    CASE("while too many loads are open, a blocked caller stays blocked");
    place_source(p);
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    CHECK_EQ(state_of(p, S("ann")), 'f');
    steady += 6 * SL_S;
    source.mode = WAITS;
    begin(p, &open, S("user"), S("bob"));
    CHECK_EQ(open.answered, 0);
    CHECK_EQ(state_of(p, S("mallory")), 'b');
    CHECK_EQ(state_of(p, S("ann")), '!');
    source.mode = ANSWERS;
    ask_source(p, source.waiting);
    CHECK_EQ(open.answered, 1);
}

/* The registry's thread waits here while it tells of a fault. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool at_gate, open_gate;

static void on_gate(void *ctx, const char *sentence)
{
    (void)ctx;
    (void)sentence;
    pthread_mutex_lock(&gate);
    at_gate = true;
    pthread_cond_broadcast(&moved);
    while (!open_gate)
        pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

static void wait_at_gate(void)
{
    pthread_mutex_lock(&gate);
    while (!at_gate)
        pthread_cond_wait(&moved, &gate);
    pthread_mutex_unlock(&gate);
}

static void pass_gate(void)
{
    pthread_mutex_lock(&gate);
    open_gate = true;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&gate);
}

static void test_stale(struct place *p, struct fail *f)
{
    uint64_t faults = atomic_load(&sl_subject_cache_counts(p->finder)->faults);

    CASE("while the registry does not answer, what it said last holds");
    CHECK_STR(plan_of(p, S("first"), false), "free");
    steady += 6 * SL_S;
    f->nth = f->calls + 1;
    CHECK_STR(plan_of(p, S("first"), false), "free");
    CHECK_EQ(atomic_load(&sl_subject_cache_counts(p->finder)->faults),
             faults + 1);
    CASE("for a second, and then it is asked again");
    steady += SL_S - 1;
    CHECK_STR(plan_of(p, S("first"), true), "free");
    steady += 1;
    CHECK_STR(plan_of(p, S("first"), false), "free");
    CASE("but not after a change");
    set_plan(&p->w, S("first"), S("pro"));
    f->nth = f->calls + 1;
    CHECK_STR(plan_of(p, S("first"), false), "!");
    CHECK_STR(plan_of(p, S("first"), false), "pro");
    CASE("nor after an hour");
    steady += SL_HOUR;
    f->nth = f->calls + 1;
    CHECK_STR(plan_of(p, S("first"), false), "!");
    CHECK_STR(plan_of(p, S("first"), false), "pro");
}

static void test_few_bytes(struct place *p, struct fail *f)
{
    unsigned failed = 0;
    struct question q;

    CASE("the nth allocation of a load of blocked addresses fails");
    for (unsigned nth = 1; nth < 12; nth++) {
        set_block_until(p, S("ip"), S("203.0.113.7"), true, SL_NS_NONE);
        f->nth = f->calls + nth;
        look_up_in(p, &q, S("ip"), S("203.0.113.7"));
        failed += q.lookup.err != 0;
        CHECK(q.lookup.err ? !q.found : q.blocked);
        f->nth = 0;
    }
    CHECK(failed > 0);
    CHECK_STR(network_of(p, S("203.0.113.7")), "203.0.113.7");
    CASE("while the registry does not answer, the last list holds");
    steady += 6 * SL_S;
    f->nth = f->calls + 1;
    CHECK_STR(network_of(p, S("203.0.113.7")), "203.0.113.7");
    f->nth = 0;
}

static void test_insistent(struct place *p, struct fail *f)
{
    struct insistent who;

    CASE("and who asks again at once is answered, too");
    f->nth = f->calls + 1;
    begin_insistent(p, &who, S("twice"));
    while (!who.first.answered)
        sl_loop_run(p->loop);
    CHECK_EQ(who.first.lookup.err, SLUICE_ENOMEM);
    while (!who.again.answered)
        sl_loop_run(p->loop);
    CHECK_EQ(who.again.lookup.err, 0);
    test_stale(p, f);
    test_few_bytes(p, f);
}

static void test_busy(struct place *p)
{
    struct question more;

    CASE("and is not asked more than it can take");
    begin(p, &more, S("user"), S("more"));
    CHECK_EQ(more.answered, 1);
    CHECK_EQ(more.lookup.err, SLUICE_ESTORE);
    CASE("what it said last holds then");
    steady += 6 * SL_S;
    CHECK_STR(plan_of(p, S("first"), true), "free");
    steady += SL_S;
}

TEST_WITH(late, struct place *p)
{
    static struct fail f;
    static struct sl_alloc alloc;
    struct sl_registry_options options = {
        .on_fault = on_gate, .alloc = &alloc, .path = ":memory:"};
    struct question stuck, late, more;
    struct sl_subjects *subjects;

    alloc = fail_alloc(&f);
    sl_registry_stop(p->w.registry);
    sl_subject_cache_close(p->finder);
    world_stop(&p->w);
    CHECK_EQ(sl_registry_open(&options, &p->w.registry, NULL), 0);
    set_plan(&p->w, S("first"), S("free"));
    place_finder(p, 0, 2);
    subjects = sl_subject_cache_subjects(p->finder);
    CHECK_STR(plan_of(p, S("first"), false), "free");

    CASE("a registry that does not answer is not waited for");
    f.nth = f.calls + 1;
    begin(p, &stuck, S("user"), S("stuck"));
    wait_at_gate();
    late = (struct question){
        .loop = p->loop,
        .lookup = {.scope = S("user"),
                   .id = S("late"),
                   .done = on_found,
                   .ctx = &late,
                   .deadline = steady + 20 * SL_MS}
    };
    subjects->calls->find(subjects, &late.lookup);
    CHECK_EQ(late.answered, 0);
    steady += 20 * SL_MS;
    while (!late.answered)
        sl_loop_run(p->loop);
    CHECK_EQ(late.lookup.err, SLUICE_ESTORE);
    CHECK_EQ(atomic_load(&sl_subject_cache_counts(p->finder)->late), 1);

    test_busy(p);
    CASE("all lookups of a failed load fail");
    pass_gate();
    while (!stuck.answered)
        sl_loop_run(p->loop);
    CHECK_EQ(stuck.lookup.err, SLUICE_ENOMEM);
    CHECK_STR(plan_of(p, S("stuck"), false), "?");
    test_insistent(p, &f);
    CASE("open lookups fail at the end");
    begin(p, &more, S("user"), S("more"));
    sl_registry_stop(p->w.registry);
    sl_subject_cache_close(p->finder);
    p->finder = NULL;
    CHECK_EQ(more.answered, 1);
    CHECK_EQ(more.lookup.err, SLUICE_ESTORE);
    world_stop(&p->w);
    fail_check(&f);
}

int main(void)
{
    struct place p;

    place_open(&p);
    RUN_TESTS_WITH(&p);
    place_close(&p);
    return CHECK_DONE();
}
