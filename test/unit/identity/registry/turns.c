/* turns.c -- who is served first when many wait for the books. */
#include "books.h"
#include "identity/ledger/lease.h"

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
    static struct sl_usage lines[LONG_JOBS][LONG_LINES], last;
    static struct sl_job jobs[LONG_JOBS + 2];
    struct sl_lease_claim c = {.node = S("a"),
                               .scope = S("org"),
                               .id = S("acme"),
                               .limit = S("minutes"),
                               .start = DAY_0,
                               .at = DAY_0 + SL_HOUR,
                               .cap = 100,
                               .want = 1,
                               .least = 1};

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
}

static void test_order(struct world *w)
{
    unsigned last, claimed;

    CASE("a claim, on which somebody waits, goes before long writes");
    queue(w, false, &last, &claimed);
    CHECK(claimed < last);
    CASE("but not before one that it counts on");
    queue(w, true, &last, &claimed);
    CHECK(claimed > last);
}

int main(void)
{
    struct world w;

    world_open(&w);
    test_order(&w);
    world_close(&w);
    return CHECK_DONE();
}
