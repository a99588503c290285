/* nodes.c -- nodes beside each other: who goes first, who has a name, and whom
 * it keeps from writing when it comes back. */
#include "claims.h"
#include "fail.h"

/* ---- who goes first ---- */

#define LONG_JOBS  12
#define LONG_LINES 300

static const struct sl_job *order[LONG_JOBS + 2];
static unsigned ended;

static void on_ended(struct sl_job *job)
{
    order[ended++] = job;
    if (ended == SL_LEN(order))
        sl_loop_stop(job->loop);
}

static void leave(struct world *w, struct sl_job *job, enum sl_job_kind kind)
{
    sl_job_init(job, kind, &sl_alloc_libc);
    job->loop = w->loop;
    job->done = on_ended;
    job->now = w->now;
}

static unsigned place_of(const struct sl_job *job)
{
    unsigned i = 0;

    while (i < SL_LEN(order) && order[i] != job)
        i++;
    return i;
}

/* Reports, then a claim, then reports; `reset`: the first of them reset. */
static void queue(struct world *w, bool reset, unsigned *first,
                  unsigned *claimed)
{
    static struct sl_usage_entry lines[LONG_JOBS][LONG_LINES], last;
    static struct sl_job jobs[LONG_JOBS + 2];
    struct sl_usage_lease_claim c = claim("a", 1, 1);

    ended = 0;
    for (unsigned i = 0; i < LONG_JOBS; i++) {
        leave(w, &jobs[i], SL_JOB_USAGE);
        for (unsigned k = 0; k < LONG_LINES; k++)
            lines[i][k] = report("busy", 1, "");
        lines[i][LONG_LINES / 2].reset = reset && i == LONG_JOBS - 1;
        jobs[i].usage = lines[i];
        jobs[i].change_count = LONG_LINES;
    }
    leave(w, &jobs[LONG_JOBS], SL_JOB_LEASE);
    jobs[LONG_JOBS].claim = &c;
    jobs[LONG_JOBS].change_count = 1;
    leave(w, &jobs[LONG_JOBS + 1], SL_JOB_USAGE);
    last = report("busy", 1, "");
    jobs[LONG_JOBS + 1].usage = &last;
    jobs[LONG_JOBS + 1].change_count = 1;
    for (unsigned i = 0; i < SL_LEN(jobs); i++)
        sl_registry_ask(w->registry, &jobs[i]);
    sl_loop_run(w->loop);
    *first = place_of(&jobs[LONG_JOBS - 1]);
    *claimed = place_of(&jobs[LONG_JOBS]);
    CHECK_EQ(jobs[LONG_JOBS].err, 0);
    CHECK_EQ(c.granted, 1);
    for (unsigned i = 0; i < SL_LEN(jobs); i++)
        sl_job_clear(&jobs[i]);
    hand_back(w, "a", 1);
}

static void test_order(struct world *w)
{
    unsigned last, claimed;

    CASE("a claim runs before long writes");
    queue(w, false, &last, &claimed);
    CHECK(claimed < last);
    CASE("but not before one that it counts on");
    queue(w, true, &last, &claimed);
    CHECK(claimed > last);
}

#ifdef ON_POSTGRES
/* Another client locks every second slot while it restarts: it needs only that
 * of whom it is about, so that it is kept by one half of them at the most. */
static void test_portions_of_slots(struct world *w)
{
    struct back back = {.own = 0};
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_lease = on_lease,
                                          .node = S("c"),
                                          .ctx = &back};
    struct sl_diag diag = {0};
    unsigned opened = 0;

    CASE("coming back it keeps others only from whom it is about");
    CHECK_EQ(lease(w, "c", 10, 10), 10);
    world_stop(w);
    for (int odd = 0; odd < 2; odd++) {
        PGconn *conn = PQconnectdb(backed_url());
        char sql[160];

        snprintf(sql, sizeof(sql),
                 "BEGIN; SELECT pg_advisory_xact_lock(1936487779, n)"
                 " FROM generate_series(%d, 255, 2) n",
                 odd);
        PQclear(PQexec(conn, sql));
        if (sl_registry_open(&options, &w->registry, &diag) == 0)
            opened++;
        world_stop(w);
        PQfinish(conn);
    }
    CHECK_EQ(opened, 1);
    CHECK_EQ(world_start(w, NULL), 0);
    CHECK_EQ(look(w, "c").leased, 0);
}

/* Two with the same name. */
static void test_name(struct world *w)
{
    struct back back = {.own = 0};
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_lease = on_lease,
                                          .node = S("twin"),
                                          .ctx = &back};
    struct sl_usage_lease_claim c = claim("twin", 5, 5),
                                life = {.node = S("twin")};
    struct sl_registry *other = NULL;
    struct sl_job job;

    CASE("(5) a node loses its name to the node that starts with it");
    beat(w, "twin", DAY_0);
    CHECK_EQ(sl_registry_open(&options, &other, NULL), 0);
    sl_job_init(&job, SL_JOB_LEASE, &sl_alloc_libc);
    job.claim = &life;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, SL_JOB_CONFLICT);
    CASE("(5) and leases nothing new");
    job.claim = &c;
    job.result = SL_JOB_DONE;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, SL_JOB_CONFLICT);
    CHECK_EQ(c.granted, 0);
    CHECK_EQ(look(w, "twin").leased, 0);
    sl_job_clear(&job);
    sl_registry_close(other);
}
#endif

/* ---- coming back without memory ---- */

#define MANY 150 /* more than are gone through at once */

static void lease_many(struct world *w, const char *node)
{
    for (unsigned i = 0; i < MANY; i++) {
        struct sl_usage_lease_claim c = claim(node, 1, 1);
        char id[16];

        snprintf(id, sizeof(id), "id-%03u", i);
        c.id = sl_str_c(id);
        carry(w, &c);
    }
}

#ifdef ON_POSTGRES
struct slow {
    struct back back; /* the first: on_lease() has it */
    long long seen;
};

static long long read_seen(void)
{
    PGconn *conn = PQconnectdb(backed_url());
    PGresult *result =
        PQexec(conn, "SELECT seen FROM sluice.usage_nodes WHERE node = 'slow'");
    long long seen = PQntuples(result) == 1
                         ? strtoll(PQgetvalue(result, 0, 0), NULL, 10)
                         : 0;

    PQclear(result);
    PQfinish(conn);
    return seen;
}

/* While it is at its first row a long time goes by. */
static uint64_t on_slow(void *ctx, const struct sl_usage_lease_row *row,
                        uint64_t *held, sl_ns *at)
{
    struct slow *slow = ctx;
    uint64_t left = on_lease(&slow->back, row, held, at);

    if (slow->back.rows == 1)
        backed_run("UPDATE sluice.usage_nodes SET seen = 1");
    if (slow->back.rows == MANY)
        slow->seen = read_seen();
    return left;
}

static void test_alive(struct world *w)
{
    struct slow slow = {.seen = 0};
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_lease = on_slow,
                                          .node = S("slow"),
                                          .now = DAY_0 + SL_HOUR,
                                          .ctx = &slow};

    CASE("while it goes through many it says that it lives");
    lease_many(w, "slow");
    world_stop(w);
    CHECK_EQ(sl_registry_open(&options, &w->registry, NULL), 0);
    CHECK_EQ(slow.back.rows, MANY);
    CHECK(slow.seen >= DAY_0 + SL_HOUR);
    world_stop(w);
    CHECK_EQ(world_start(w, NULL), 0);
}

/* While it is at its first row another comes with its name. */
static uint64_t on_twin(void *ctx, const struct sl_usage_lease_row *row,
                        uint64_t *held, sl_ns *at)
{
    backed_run("UPDATE sluice.usage_nodes SET word = 'another'");
    return on_lease(ctx, row, held, at);
}

static void test_twin(struct world *w)
{
    struct back back = {.own = 0};
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_lease = on_twin,
                                          .node = S("pair"),
                                          .ctx = &back};
    struct sl_diag diag = {0};

    CASE("(5) one that loses its name while it comes back does not start");
    CHECK_EQ(lease(w, "pair", 10, 10), 10);
    world_stop(w);
    CHECK_EQ(sl_registry_open(&options, &w->registry, &diag), SLUICE_ESTORE);
    CHECK(strstr(diag.sentence, "with the node name of this daemon, pair;"));
    CHECK_EQ(world_start(w, NULL), 0);
    CHECK_EQ(look(w, "pair").leased, 10);
}
#endif

static void test_no_memory(struct world *w)
{
    struct back back = {.own = 0};
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .alloc = &alloc,
                                          .on_lease = on_lease,
                                          .node = S("many"),
                                          .ctx = &back};
    struct sl_diag diag = {0};
    struct sl_job job;
    int err = SLUICE_ENOMEM;

    CASE("the nth allocation fails while it comes back: it comes again");
    lease_many(w, "many");
    world_stop(w);
    while (err && f.nth < 1000) {
        f = (struct fail){.nth = f.nth + 1};
        err = sl_registry_open(&options, &w->registry, &diag);
        CHECK(!err || err == SLUICE_ENOMEM || err == SLUICE_ESTORE);
        world_stop(w);
        CHECK_EQ(f.pieces, 0);
    }
    CHECK_EQ(err, 0);
    CHECK(f.nth > 3);
    CHECK(back.rows >= MANY);
    CASE("and all that it had is free again, once");
    CHECK_EQ(world_start(w, NULL), 0);
    sl_job_init(&job, SL_JOB_LEASES, &sl_alloc_libc);
    job.most = 1;
    ask(w, &job);
    CHECK_EQ(job.text.len, 0);
    sl_job_clear(&job);
}

int main(void)
{
    struct world w;

    world_open(&w);
    test_order(&w);
    test_no_memory(&w);
#ifdef ON_POSTGRES
    test_portions_of_slots(&w);
    test_name(&w);
    test_alive(&w);
    test_twin(&w);
#endif
    world_close(&w);
    return CHECK_DONE();
}
