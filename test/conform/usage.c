/* usage.c -- random histories of quotas, levels, credits and holds, put down in
 * the usage database and in a model beside them: the same on every database.
 *
 *   usage memory | file | postgres
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "net/loop.h"
#include "registry/pg.h"
#include "registry/registry.h"
#include "usage_model.h"

#define DAY_0 (20000 * SL_DAY)
#define STEPS 150
#define BATCH 3

static const char *const names[WHO] = {"acme", "j\xc3\xb6rg\x1b\xff"};

struct history {
    struct sl_registry *registry;
    struct sl_loop *loop;
    struct model model;
    struct rng rng;
    uint64_t seed;
    unsigned step;
    sl_ns now;
    uint64_t ids[HOLDS]; /* of the holds */
    bool bad;
};

static void same(struct history *h, const char *what, int64_t want, int64_t got)
{
    if (want != got && !h->bad)
        printf("# seed %llu step %u: %s: want %lld, got %lld\n",
               (unsigned long long)h->seed, h->step, what, (long long)want,
               (long long)got);
    h->bad |= want != got;
}

/* ---- asking ---- */

static void on_done(struct sl_job *job)
{
    sl_loop_stop(job->loop);
}

static void ask(struct history *h, struct sl_job *job)
{
    job->loop = h->loop;
    job->done = on_done;
    job->now = h->now;
    sl_registry_ask(h->registry, job);
    sl_loop_run(h->loop);
    same(h, "a failure", 0, job->err);
}

static sl_ns start_of(const struct model_report *r)
{
    return r->level ? 0 : DAY_0 + (sl_ns)r->period * 3 * SL_DAY;
}

static struct sl_usage_entry usage_of(const struct model_report *r, char key[8],
                                      char thing[8])
{
    struct sl_usage_entry u = {
        .scope = sl_str_c("org"),
        .id = sl_str_c(names[r->who]),
        .limit = sl_str_c(r->level ? "links" : "minutes"),
        .start = start_of(r),
        .at = r->at,
        .amount = r->amount,
        .key = SL_STR(""),
        .name = SL_STR(""),
        .cap = r->cap == CAP_NONE ? UINT64_MAX : (uint64_t)r->cap,
        .level = r->level,
        .enforce = r->enforce,
        .reset = r->reset};

    snprintf(key, 8, "k%d", r->key);
    snprintf(thing, 8, "t%d", r->thing);
    if (r->key >= 0)
        u.key = sl_str_c(key);
    if (r->thing >= 0)
        u.name = sl_str_c(thing);
    return u;
}

static struct model_report random_report(struct history *h)
{
    struct rng *rng = &h->rng;
    struct model_report r = {.who = (unsigned)rng_below(rng, WHO),
                             .at = h->now,
                             .key = -1,
                             .thing = -1};

    r.day = (unsigned)((h->now - DAY_0) / SL_DAY);
    r.period = r.day / 3;
    r.level = rng_once_in(rng, 3);
    r.enforce = rng_once_in(rng, 4);
    r.reset = rng_once_in(rng, 40);
    r.cap = r.level ? CAP_LEVEL : CAP_QUOTA;
    if (!r.level && rng_once_in(rng, 6)) /* another plan */
        r.cap = rng_once_in(rng, 3) ? CAP_NONE : CAP_QUOTA / 2;
    r.amount = (int64_t)rng_below(rng, 12);
    if (rng_once_in(rng, 5))
        r.amount = -r.amount;
    if (rng_once_in(rng, 3))
        r.key = (int)rng_below(rng, KEYS);
    if (r.level && rng_once_in(rng, 2)) {
        r.thing = (int)rng_below(rng, THINGS);
        r.amount = (int64_t)rng_below(rng, 4);
    }
    if (r.reset) {
        r.key = r.thing = -1;
        r.amount = 0;
        r.enforce = false;
    }
    return r;
}

/* ---- steps ---- */

/* One report, or several that are put down all or not at all. (4) */
static void do_reports(struct history *h)
{
    struct model_report reports[BATCH];
    struct model_counter want[BATCH];
    enum sl_usage_result result = SL_USAGE_RECORDED;
    struct sl_usage_entry usage[BATCH];
    char keys[BATCH][8], things[BATCH][8];
    struct model before = h->model;
    unsigned count = 1 + (unsigned)rng_below(&h->rng, BATCH), n = 0;
    struct sl_job job;

    for (unsigned i = 0; i < count; i++) {
        reports[i] = random_report(h);
        usage[i] = usage_of(&reports[i], keys[i], things[i]);
    }
    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    job.usage = usage;
    job.change_count = count;
    job.blocked_since = 1; /* a refund has waited for its usage by now */
    ask(h, &job);
    for (; n < count && result < SL_USAGE_CONFLICT; n++) {
        result = model_put(&h->model, &reports[n], &want[n]);
        same(h, "a result", result, usage[n].result);
        same(h, "used", want[n].used, (int64_t)usage[n].used);
        same(h, "overage", want[n].overage, (int64_t)usage[n].overage);
        same(h, "credited", want[n].credited, (int64_t)usage[n].credited);
    }
    same(h, "of all",
         result < SL_USAGE_CONFLICT ? SL_JOB_DONE : SL_JOB_CONFLICT,
         job.result);
    if (result >= SL_USAGE_CONFLICT)
        h->model = before;
    sl_job_clear(&job);
}

static void do_credit(struct history *h)
{
    struct model *m = &h->model;
    struct model_credit *c = &m->credits[m->credit_count];
    struct sl_credit_grant grant = {.scope = sl_str_c("org"),
                                    .limit = sl_str_c("minutes"),
                                    .note = SL_STR(""),
                                    .by = SL_STR("")};
    struct sl_job job;
    bool gives = m->credit_count == 0 || !rng_once_in(&h->rng, 6);

    if (gives && m->credit_count == CREDITS)
        return;
    if (!gives)
        c = &m->credits[rng_below(&h->rng, m->credit_count)];
    else
        *c = (struct model_credit){
            .who = (unsigned)rng_below(&h->rng, WHO),
            .amount = 1 + (int64_t)rng_below(&h->rng, 9),
            .expires = rng_once_in(&h->rng, 3)
                           ? SL_NS_NONE
                           : h->now + (sl_ns)rng_below(&h->rng, 40) * SL_HOUR};
    c->unused = gives ? c->amount : c->unused;
    grant.id = sl_str_c(names[c->who]);
    grant.amount = (uint64_t)c->amount;
    grant.expires = c->expires;
    grant.number = c->number;
    sl_job_init(&job, SL_JOB_GRANT, &sl_alloc_libc);
    job.grant = &grant;
    job.on = gives;
    ask(h, &job);
    c->number = grant.number;
    m->credit_count += gives;
    if (!gives)
        c->amount = c->unused = 0;
    sl_job_clear(&job);
}

/* Taken and ended in any order, the end perhaps twice. */
static void do_hold(struct history *h)
{
    unsigned hold = (unsigned)rng_below(&h->rng, HOLDS);
    struct model_hold *known = &h->model.holds[hold];
    struct model_report r = random_report(h);
    bool ends;
    char room[8], more[8];
    struct sl_arena names_in;
    struct sl_usage_entry u;
    struct sl_job job;

    /* What is long over is forgotten. */
    if (known->state != FREE && h->now - known->since > SL_HOLD_KEPT / 2) {
        known->state = FREE;
        h->ids[hold]++;
    }
    ends = known->state == HELD || rng_once_in(&h->rng, 4);
    if (known->state == ENDED)
        ends = rng_once_in(&h->rng, 2);
    r.level = r.enforce = r.reset = false;
    r.cap = rng_once_in(&h->rng, 4) ? CAP_QUOTA / 2 : CAP_QUOTA;
    r.key = r.thing = -1;
    r.amount = 1 + (int64_t)rng_below(&h->rng, 8);
    u = usage_of(&r, room, more);
    sl_arena_init(&names_in, 4096, &sl_alloc_libc);
    u.act = ends ? SL_USAGE_ACT_HOLD_END : SL_USAGE_ACT_HOLD;
    u.hold[0] = hold + 1;
    u.hold[1] = h->ids[hold];
    u.until = h->now + SL_HOUR;
    u.names_in = &names_in;
    if (ends)
        u.scope = u.id = SL_STR(""); /* without a subject */
    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    job.usage = &u;
    job.change_count = 1;
    ask(h, &job);
    if (ends)
        model_end(&h->model, hold, &r);
    else
        model_hold(&h->model, hold, &r);
    sl_job_clear(&job);
    sl_arena_done(&names_in);
}

/* ---- all of it ---- */

static void compare_row(struct history *h, unsigned who,
                        const struct sl_usage_row *row, int64_t *credits)
{
    const struct model *m = &h->model;
    bool level = strcmp(row->limit, "links") == 0;
    const struct model_counter *c = &m->level[who];

    if (row->kind == SL_ROW_CREDIT)
        *credits += (int64_t)row->used;
    if (row->kind == SL_ROW_DAY && !level) {
        same(h, "a day", m->days[who][row->when - 20000], (int64_t)row->used);
        same(h, "its overage", m->over[who][row->when - 20000],
             (int64_t)row->overage);
    }
    if (row->kind != SL_ROW_COUNTER)
        return;
    if (!level)
        c = &m->quota[who][(row->when - DAY_0) / (3 * SL_DAY)];
    same(h, "a counter", c->used, (int64_t)row->used);
    same(h, "its overage", c->overage, (int64_t)row->overage);
    same(h, "its credits", c->credited, (int64_t)row->credited);
}

static void compare_all(struct history *h)
{
    for (unsigned who = 0; who < WHO; who++) {
        int64_t credits = 0;
        struct sl_job job;

        sl_job_init(&job, SL_JOB_USAGE_READ, &sl_alloc_libc);
        job.scope = sl_str_c("org");
        job.id = sl_str_c(names[who]);
        ask(h, &job);
        for (size_t i = 0; i < job.text.len / sizeof(struct sl_usage_row); i++)
            compare_row(h, who, (const struct sl_usage_row *)job.text.bytes + i,
                        &credits);
        same(h, "unused credits", model_credits(&h->model, who, h->now),
             credits);
        sl_job_clear(&job);
    }
}

static void forget(struct history *h)
{
    struct sl_job job;

    sl_job_init(&job, SL_JOB_CLEAR, &sl_alloc_libc);
    ask(h, &job);
    sl_job_clear(&job);
}

static bool play(struct history *h, uint64_t seed)
{
    h->model = (struct model){.credit_count = 0};
    h->rng = (struct rng){seed};
    h->seed = seed;
    h->now = DAY_0;
    forget(h);
    for (h->step = 0; h->step < STEPS && !h->bad; h->step++) {
        uint64_t pick = rng_below(&h->rng, 10);

        h->now += (sl_ns)rng_below(&h->rng, 100) * SL_MIN;
        if (h->now >= DAY_0 + DAYS * SL_DAY)
            h->now = DAY_0 + DAYS * SL_DAY - 1;
        if (pick < 1)
            do_credit(h);
        else if (pick < 4)
            do_hold(h);
        else
            do_reports(h);
        if (h->step % 25 == 0 || h->step == STEPS - 1)
            compare_all(h);
    }
    return !h->bad;
}

int main(int argc, char **argv)
{
    const char *on = argc > 1 ? argv[1] : "memory";
    bool in_memory = strcmp(on, "memory") == 0;
    char folder[] = "/tmp/sluice-usage-XXXXXX", path[64], command[64];
    struct sl_registry_options options = {.path = ":memory:"};
    static struct history h;
    struct sl_diag diag = {0};

    alarm(300); /* ends what hangs */
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/usage.db", folder);
    if (strcmp(on, "file") == 0)
        options.path = path;
    if (strcmp(on, "postgres") == 0) {
        options.driver = &sl_driver_postgres;
        options.path = getenv("SLUICE_TEST_POSTGRES");
    }
    if (sl_loop_open(NULL, &h.loop, NULL) ||
        sl_registry_open(&options, &h.registry, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        return 1;
    }
    CASE("the usage database says what was reported, history by history");
    for (uint64_t seed = 1; seed <= (in_memory ? 40 : 8); seed++)
        if (!CHECK(play(&h, seed)))
            break;
    sl_registry_close(h.registry);
    sl_loop_close(h.loop);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK_EQ(system(command), 0);
    return CHECK_DONE();
}
