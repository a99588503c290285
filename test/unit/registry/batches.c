/* batches.c -- jobs that one transaction runs have the same results as if each
 * had its own: no job reads what an earlier one has changed since.
 *
 * Random jobs of one organisation (reports, leases, resets, holds, releases,
 * credits) run twice: for one organisation at once, and for another one after
 * the other. PostgreSQL reads ahead what reports need; a stale read would show
 * as a difference. The first job is a reset of a third organisation: leases
 * that are queued after it stay in their place, in the same transaction.
 */
#include "claims.h"
#include "registry/registry_int.h"
#include "rng.h"

#define JOBS    24
#define ENTRIES 4
#define SEEDS   60

struct step {
    struct sl_job job;
    struct sl_usage_entry entries[ENTRIES];
    struct sl_usage_lease_claim claim;
    struct sl_credit_grant grant;
};

/* The same steps, for its own organisation and nodes. */
struct side {
    char org[24], nodes[2][24];
    uint64_t hold; /* the first of its holds */
    struct step steps[JOBS];
};

static unsigned open_jobs;

static void on_step(struct sl_job *job)
{
    if (--open_jobs == 0)
        sl_loop_stop(job->loop);
}

static void begin_side(struct side *side, char letter, unsigned seed)
{
    snprintf(side->org, sizeof(side->org), "%c%u", letter, seed);
    for (int i = 0; i < 2; i++)
        snprintf(side->nodes[i], sizeof(side->nodes[i]), "%c%u-%d", letter,
                 seed, i);
    side->hold = 100 * (uint64_t)seed + (letter == 'b' ? 50 : 0) + 1;
}

static struct sl_str some_node(struct side *side, struct rng *rng)
{
    return sl_str_c(side->nodes[rng_below(rng, 2)]);
}

static void fill_entry(struct side *side, struct rng *rng,
                       struct sl_usage_entry *u)
{
    static const char *const keys[] = {"", "", "k1", "k2"};

    *u = report(side->org, (int64_t)rng_between(rng, 1, 20),
                keys[rng_below(rng, SL_LEN(keys))]);
    if (rng_once_in(rng, 4))
        u->limit = S("seconds");
    if (rng_once_in(rng, 2))
        u->node = some_node(side, rng);
    u->enforce = rng_once_in(rng, 6);
    u->reset = rng_once_in(rng, 12);
    if (rng_once_in(rng, 8))
        u->amount = -u->amount;
    if (rng_once_in(rng, 8))
        u->name = S("thing");
    if (u->reset)
        u->key = SL_STR("");
    if (u->reset || u->name.len > 0 || !rng_once_in(rng, 5))
        return;
    u->act = rng_once_in(rng, 2) ? SL_USAGE_ACT_HOLD : SL_USAGE_ACT_HOLD_END;
    u->hold[0] = side->hold + rng_below(rng, 3);
    u->until = u->at + SL_HOUR;
    u->key = SL_STR("");
    u->amount = u->amount < 0 ? -u->amount : u->amount;
}

static void fill_claim(struct side *side, struct rng *rng, struct step *s)
{
    uint64_t most = rng_between(rng, 1, 30);

    s->claim = claim("", most, rng_between(rng, 1, most));
    s->claim.id = sl_str_c(side->org);
    s->claim.node = some_node(side, rng);
    s->claim.need = s->claim.least;
    s->claim.has_units = rng_once_in(rng, 4);
    if (rng_once_in(rng, 3)) {
        s->claim.give_back = rng_between(rng, 1, 10);
        s->claim.want = s->claim.least = 0;
    }
    sl_job_init(&s->job, SL_JOB_LEASE, &sl_alloc_libc);
    s->job.claim = &s->claim;
    s->job.change_count = 1;
}

static void fill_step(struct side *side, struct rng *rng, struct step *s)
{
    unsigned kind = (unsigned)rng_below(rng, 12), count = 1;

    if (kind == 0) {
        s->grant = (struct sl_credit_grant){.scope = S("org"),
                                            .id = sl_str_c(side->org),
                                            .limit = S("minutes"),
                                            .amount = 15,
                                            .expires = SL_NS_NONE,
                                            .by = S("test")};
        sl_job_init(&s->job, SL_JOB_GRANT, &sl_alloc_libc);
        s->job.grant = &s->grant;
        s->job.on = 1;
    } else if (kind == 1) {
        sl_job_init(&s->job, SL_JOB_RELEASE, &sl_alloc_libc);
        s->job.name = some_node(side, rng);
        s->job.since = DAY_0 + 2 * SL_HOUR;
    } else if (kind < 5) {
        fill_claim(side, rng, s);
    } else {
        if (kind == 5)
            count = (unsigned)rng_between(rng, 2, ENTRIES);
        sl_job_init(&s->job, SL_JOB_USAGE, &sl_alloc_libc);
        for (unsigned i = 0; i < count; i++)
            fill_entry(side, rng, &s->entries[i]);
        s->job.usage = s->entries;
        s->job.change_count = count;
        s->job.blocked_since = 1; /* refunds have waited for long enough */
    }
}

static void fill_side(struct side *side, unsigned seed)
{
    struct rng rng = {seed};

    for (unsigned i = 0; i < JOBS; i++)
        fill_step(side, &rng, &side->steps[i]);
}

/* All at once, behind a reset: one transaction. */
static void run_together(struct world *w, struct side *side)
{
    struct sl_usage_entry other = report("other", 0, "");
    struct sl_registry *r = w->registry;
    uint64_t commits = atomic_load(&r->commits);
    struct sl_job first;

    other.reset = true;
    sl_job_init(&first, SL_JOB_USAGE, &sl_alloc_libc);
    first.usage = &other;
    first.change_count = 1;
    open_jobs = 1 + JOBS;
    atomic_fetch_add(&r->waiting, 1 + JOBS);
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i <= JOBS; i++) {
        struct sl_job *job = i == 0 ? &first : &side->steps[i - 1].job;

        job->loop = w->loop;
        job->done = on_step;
        job->now = w->now;
        *r->end = job;
        r->end = &job->next;
    }
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
    sl_loop_run(w->loop);
    CHECK_EQ(first.err, 0);
    CHECK_EQ(atomic_load(&r->commits) - commits, 1);
    sl_job_clear(&first);
}

static void run_alone(struct world *w, struct side *side)
{
    for (unsigned i = 0; i < JOBS; i++)
        ask(w, &side->steps[i].job);
}

static bool same_entry(const struct sl_usage_entry *a,
                       const struct sl_usage_entry *b)
{
    bool good = CHECK_EQ(a->result, b->result);

    good &= CHECK_EQ(a->change, b->change);
    good &= CHECK_EQ(a->used, b->used);
    good &= CHECK_EQ(a->overage, b->overage);
    good &= CHECK_EQ(a->credited, b->credited);
    good &= CHECK_EQ(a->threshold_before, b->threshold_before);
    good &= CHECK_EQ(a->threshold, b->threshold);
    return good;
}

static bool same_claim(const struct sl_usage_lease_claim *a,
                       const struct sl_usage_lease_claim *b)
{
    bool good = CHECK_EQ(a->granted, b->granted);

    good &= CHECK_EQ(a->found, b->found);
    good &= CHECK_EQ(a->no_row, b->no_row);
    good &= CHECK_EQ(a->used, b->used);
    good &= CHECK_EQ(a->leased, b->leased);
    good &= CHECK_EQ(a->base, b->base);
    good &= CHECK_EQ(a->spent, b->spent);
    good &= CHECK_EQ(a->leased_here, b->leased_here);
    return good;
}

static bool same_step(const struct step *a, const struct step *b)
{
    bool good = CHECK_EQ(a->job.err, 0) && CHECK_EQ(b->job.err, 0);

    good = good && CHECK_EQ(a->job.result, b->job.result) &&
           CHECK_EQ(a->job.units, b->job.units) &&
           CHECK_EQ(a->job.same, b->job.same);
    /* Entries after one that was refused have no result. */
    for (unsigned i = 0; good && a->job.kind == SL_JOB_USAGE &&
                         i < a->job.change_count && i <= a->job.failed;
         i++)
        good = same_entry(&a->entries[i], &b->entries[i]);
    return good && a->job.kind == SL_JOB_LEASE
               ? same_claim(&a->claim, &b->claim)
               : good;
}

/* What the database has in the end. */
static bool same_rows(struct world *w, struct side *a, struct side *b)
{
    struct sl_job jobs[2];
    size_t counts[2];
    const struct sl_usage_row *x = read_rows(w, a->org, &jobs[0], &counts[0]);
    const struct sl_usage_row *y = read_rows(w, b->org, &jobs[1], &counts[1]);
    bool good = CHECK_EQ(counts[0], counts[1]);

    for (size_t i = 0; good && i < counts[0]; i++) {
        good = CHECK_EQ(x[i].used, y[i].used);
        good &= CHECK_EQ(x[i].overage, y[i].overage);
        good &= CHECK_EQ(x[i].credited, y[i].credited);
    }
    sl_job_clear(&jobs[0]);
    sl_job_clear(&jobs[1]);
    for (int i = 0; i < 2; i++) {
        struct sl_usage_lease_claim c = look(w, ""), d = c;

        c.id = sl_str_c(a->org);
        c.node = sl_str_c(a->nodes[i]);
        d.id = sl_str_c(b->org);
        d.node = sl_str_c(b->nodes[i]);
        carry(w, &c);
        carry(w, &d);
        good &= same_claim(&c, &d);
    }
    return good;
}

static bool try_seed(struct world *w, unsigned seed)
{
    static struct side sides[2];
    bool good = true;

    memset(sides, 0, sizeof(sides));
    for (int i = 0; i < 2; i++) {
        begin_side(&sides[i], i == 0 ? 'a' : 'b', seed);
        fill_side(&sides[i], seed);
    }
    run_together(w, &sides[0]);
    run_alone(w, &sides[1]);
    for (unsigned i = 0; good && i < JOBS; i++) {
        good = same_step(&sides[0].steps[i], &sides[1].steps[i]);
        if (!good)
            printf("# step %u, kind %d\n", i, (int)sides[0].steps[i].job.kind);
    }
    good = good && same_rows(w, &sides[0], &sides[1]);
    for (unsigned i = 0; i < JOBS; i++) {
        sl_job_clear(&sides[0].steps[i].job);
        sl_job_clear(&sides[1].steps[i].job);
    }
    return good;
}

TEST_WITH(orders, struct world *w)
{
    bool good = true;

    CASE("jobs of one transaction have the results of single ones");
    for (unsigned seed = 1; seed <= SEEDS && good; seed++) {
        good = try_seed(w, seed);
        if (!good)
            printf("# seed %u\n", seed);
    }
}

int main(void)
{
    struct world w;

    world_open(&w);
    RUN_TESTS_WITH(&w);
    world_close(&w);
    return CHECK_DONE();
}
