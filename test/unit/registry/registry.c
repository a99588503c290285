/* registry.c -- the registry writes, finds, lists, remembers who did it, and
 * survives. */
#include "filed.h"

#define SL_AUDIT_TEST 200 /* lines that are kept */

static const struct sl_str ann_roles[] = {
    {"admin",  5},
    {"member", 6}
};
static const struct sl_str ann_alias = {"ann@x.org", 9};
static const struct sl_subject_override ann_rates[] = {
    {{"search", 6}, {"10/min", 6}, 1500 * SL_S, {"ops", 3}, {"launch", 6}},
    {{"ask", 3},    {"9/day", 5},  SL_NS_NONE,  {"ops", 3}, {"", 0}      },
};
static const struct sl_subject_change ann = {
    .kind = SL_CHANGE_PUT,
    .scope = {"user",         4 },
    .id = {"ann",          3 },
    .by = {"ops",          3 },
    .has = SL_HAS_PLAN | SL_HAS_EXPIRES | SL_HAS_ROLES | SL_HAS_ALIASES |
           SL_HAS_NOTE | SL_HAS_RATES,
    .plan = {"pro",          3 },
    .expires = 2000 * SL_S,
    .note = {"since spring", 12},
    .roles = ann_roles,
    .role_count = 2,
    .aliases = &ann_alias,
    .alias_count = 1,
    .rates = ann_rates,
    .rate_count = 2,
};

static void write_one(struct world *w, const struct sl_subject_change *change,
                      enum sl_job_result want)
{
    struct sl_job job;

    ask_write(w, &job, change, 1);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, want);
    sl_job_clear(&job);
}

static void check_ann(struct world *w, struct sl_str by_name)
{
    struct sl_job job;
    const struct sl_subject *s;

    ask_find(w, &job, S("user"), by_name);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, SL_JOB_DONE);
    s = &job.entries->subject;
    CHECK(s->known);
    CHECK(is(s->id, "ann"));
    CHECK(is(s->plan, "pro"));
    CHECK_EQ(s->expires, 2000 * SL_S);
    CHECK_EQ(s->role_count, 2);
    CHECK(is(s->roles[1], "member"));
    CHECK_EQ(s->rate_count, 2);
    CHECK(is(s->rates[0].limit, "ask")); /* by name */
    CHECK_EQ(s->rates[0].until, SL_NS_NONE);
    CHECK(is(s->rates[1].rate, "10/min"));
    CHECK_EQ(s->rates[1].until, 1500 * SL_S);
    CHECK(is(s->rates[1].by, "ops"));
    CHECK(is(s->rates[1].note, "launch"));
    CHECK(is(job.entries->aliases[0], "ann@x.org"));
    CHECK(is(job.entries->note, "since spring"));
    sl_job_clear(&job);
}

TEST_WITH(write, struct world *w)
{
    struct sl_job job;
    struct sl_subject_change again = ann;

    CASE("nothing is found in an empty registry");
    ask_find(w, &job, S("user"), S("ann"));
    CHECK_EQ(job.result, SL_JOB_NOT_FOUND);
    CHECK(!job.entries->subject.known);
    CHECK(is(job.entries->subject.id, "ann"));
    sl_job_clear(&job);

    CASE("what was put is found, by name and by alias in any case");
    write_one(w, &ann, SL_JOB_DONE);
    check_ann(w, S("ann"));
    check_ann(w, S("Ann@X.org"));
    ask_find(w, &job, S("user"), S("ANN")); /* names keep their case */
    CHECK_EQ(job.result, SL_JOB_NOT_FOUND);
    sl_job_clear(&job);
    ask_find(w, &job, S("org"), S("ann"));
    CHECK_EQ(job.result, SL_JOB_NOT_FOUND);
    sl_job_clear(&job);

    CASE("the same again changes nothing");
    again.by = S("admin");
    ask_write(w, &job, &again, 1);
    CHECK_EQ(job.same, 1);
    CHECK(is(job.entries->by, "ops"));
    sl_job_clear(&job);

    CASE("it is all there after a restart");
    world_stop(w);
    CHECK_EQ(world_start(w, NULL), 0);
    check_ann(w, S("ann"));
}

TEST_WITH(patch, struct world *w)
{
    static const struct sl_subject_override less[] = {
        {{"search", 6}, {"", 0}, SL_NS_NONE, {"", 0}, {"", 0}}
    };
    struct sl_subject_change patch = {.kind = SL_CHANGE_PATCH,
                                      .scope = S("user"),
                                      .id = S("ANN@x.org"),
                                      .by = S("bob"),
                                      .has = SL_HAS_RATES,
                                      .rates = less,
                                      .rate_count = 1};
    struct sl_subject_change put = {.kind = SL_CHANGE_PUT,
                                    .scope = S("user"),
                                    .id = S("ann"),
                                    .by = S("bob"),
                                    .has = SL_HAS_PLAN,
                                    .plan = S("free")};
    struct sl_job job;

    CASE("a patch changes what it names, also by an alias");
    ask_write(w, &job, &patch, 1);
    CHECK_EQ(job.result, SL_JOB_DONE);
    CHECK(is(job.entries->subject.id, "ann"));
    CHECK(is(job.entries->subject.plan, "pro"));
    CHECK_EQ(job.entries->subject.rate_count, 1);
    CHECK(is(job.entries->by, "bob"));
    sl_job_clear(&job);

    CASE("another plan does not end when the old one would have");
    patch.has = SL_HAS_PLAN;
    patch.rate_count = 0;
    patch.plan = S("team");
    ask_write(w, &job, &patch, 1);
    CHECK_EQ(job.entries->subject.expires, SL_NS_NONE);
    sl_job_clear(&job);

    CASE("a put leaves nothing of before");
    ask_write(w, &job, &put, 1);
    CHECK(is(job.entries->subject.plan, "free"));
    CHECK_EQ(job.entries->subject.rate_count, 0);
    CHECK_EQ(job.entries->subject.role_count, 0);
    CHECK_EQ(job.entries->alias_count, 0);
    CHECK(is(job.entries->note, ""));
    sl_job_clear(&job);
    ask_find(w, &job, S("user"), S("ann@x.org"));
    CHECK_EQ(job.result, SL_JOB_NOT_FOUND);
    sl_job_clear(&job);
}

TEST_WITH(match, struct world *w)
{
    struct sl_subject_change change = ann;
    struct sl_job job;
    uint64_t revision;

    CASE("a write for another revision is refused");
    ask_write(w, &job, &ann, 1);
    revision = job.entries->revision;
    sl_job_clear(&job);
    change.must_match = true;
    change.match = revision + 1;
    change.note = S("other");
    write_one(w, &change, SL_JOB_CHANGED);
    change.match = 0; /* it must not exist */
    write_one(w, &change, SL_JOB_CHANGED);
    change.match = revision;
    write_one(w, &change, SL_JOB_DONE);
    write_one(w, &change, SL_JOB_CHANGED);
    change.id = S("unknown");
    write_one(w, &change, SL_JOB_NOT_FOUND);

    CASE("who is gone and comes again has a later revision");
    change = ann;
    change.kind = SL_CHANGE_REMOVE;
    write_one(w, &change, SL_JOB_DONE);
    write_one(w, &change, SL_JOB_NOT_FOUND);
    change.kind = SL_CHANGE_PUT;
    change.must_match = true;
    change.match = 0;
    ask_write(w, &job, &change, 1);
    CHECK(job.entries->revision > revision + 1);
    sl_job_clear(&job);
}

TEST_WITH(conflicts, struct world *w)
{
    struct sl_subject_change bob = ann;
    struct sl_job job;

    CASE("an alias stands for one subject");
    bob.id = S("bob");
    ask_write(w, &job, &bob, 1);
    CHECK_EQ(job.result, SL_JOB_CONFLICT);
    CHECK_STR(job.diag.sentence, "the alias ann@x.org already belongs to the "
                                 "user ann; remove it there first");
    sl_job_clear(&job);

    CASE("a PUT or an import by an alias is refused");
    bob = ann;
    bob.id = S("ANN@x.org");
    bob.note = S("taken over");
    ask_write(w, &job, &bob, 1);
    CHECK_EQ(job.result, SL_JOB_CONFLICT);
    CHECK_STR(job.diag.sentence, "ANN@x.org is an alias of the user ann; "
                                 "change that subject, or remove the alias "
                                 "first");
    sl_job_clear(&job);
    bob.kind = SL_CHANGE_PATCH;
    bob.line = 2;
    write_one(w, &bob, SL_JOB_CONFLICT);

    CASE("and the alias is free");
    bob = ann;
    bob.id = S("bob");
    bob.alias_count = 1;
    bob.aliases = (const struct sl_str[]){S("ann")};
    ask_write(w, &job, &bob, 1);
    CHECK_EQ(job.result, SL_JOB_CONFLICT);
    sl_job_clear(&job);
    bob.scope = S("org"); /* where there is no ann */
    write_one(w, &bob, SL_JOB_DONE);
    bob.kind = SL_CHANGE_REMOVE;
    write_one(w, &bob, SL_JOB_DONE);
}

TEST_WITH(batch, struct world *w)
{
    struct sl_subject_change batch[3] = {ann, ann, ann};
    struct sl_job job;

    CASE("a batch is written as a whole or not at all");
    batch[0].id = S("b1");
    batch[1].id = S("b2");
    batch[0].alias_count = batch[1].alias_count = 0;
    batch[2].id = S("b3"); /* its alias is ann's */
    ask_write(w, &job, batch, 3);
    CHECK_EQ(job.result, SL_JOB_CONFLICT);
    CHECK_EQ(job.failed, 2);
    sl_job_clear(&job);
    ask_find(w, &job, S("user"), S("b1"));
    CHECK_EQ(job.result, SL_JOB_NOT_FOUND);
    sl_job_clear(&job);
    batch[2].alias_count = 0;
    ask_write(w, &job, batch, 3);
    CHECK_EQ(job.result, SL_JOB_DONE);
    CHECK(!job.entries);
    sl_job_clear(&job);
    ask_find(w, &job, S("user"), S("b3"));
    CHECK_EQ(job.result, SL_JOB_DONE);
    sl_job_clear(&job);
}

/* The ids of a page, with a blank behind each. */
static const char *page(struct world *w, struct sl_str scope,
                        struct sl_str prefix, struct sl_str after_scope,
                        struct sl_str after, unsigned most)
{
    static char text[256];
    struct sl_job job;
    size_t len = 0;

    sl_job_init(&job, SL_JOB_LIST, &sl_alloc_libc);
    job.scope = scope;
    job.prefix = prefix;
    job.after_scope = after_scope;
    job.id = after;
    job.most = most;
    ask(w, &job);
    text[0] = '\0';
    for (struct sl_subject_record *e = job.entries; e; e = e->next)
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%.*s/%.*s ",
                             SL_STR_ARG(e->scope), SL_STR_ARG(e->subject.id));
    sl_job_clear(&job);
    return text;
}

TEST_WITH(list, struct world *w)
{
    struct sl_subject_change acme = ann;

    CASE("subjects are listed in pages, in order");
    acme.scope = S("org");
    acme.id = S("acme");
    write_one(w, &acme, SL_JOB_DONE);
    CHECK_STR(page(w, S(""), S(""), S(""), S(""), 100),
              "org/acme user/ann user/b1 user/b2 user/b3 ");
    CHECK_STR(page(w, S(""), S(""), S(""), S(""), 2), "org/acme user/ann ");
    CHECK_STR(page(w, S(""), S(""), S("user"), S("ann"), 2),
              "user/b1 user/b2 ");
    CHECK_STR(page(w, S(""), S(""), S("org"), S("acme"), 1), "user/ann ");
    CHECK_STR(page(w, S("user"), S("b"), S("user"), S("b1"), 9),
              "user/b2 user/b3 ");
    CHECK_STR(page(w, S(""), S("a"), S(""), S(""), 9), "org/acme user/ann ");
    CHECK_STR(page(w, S("org"), S("b"), S(""), S(""), 9), "");
}

TEST_WITH(audit, struct world *w)
{
    struct sl_job job;

    CASE("the history says who, what and from what to what");
    sl_job_init(&job, SL_JOB_AUDIT, &sl_alloc_libc);
    job.scope = S("user");
    job.id = S("ann");
    job.most = 2;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(sl_buf_add(&job.text, (struct sl_str){"", 1}), 0);
    CHECK(strstr(job.text.bytes, "\"by\":\"ops\",\"what\":\"create\","
                                 "\"before\":null,\"after\":{\"scope\":\"user\""
                                 ",\"id\":\"ann\",\"plan\":\"pro\""));
    CHECK(strstr(job.text.bytes, "\"what\":\"remove\""));
    sl_job_clear(&job);

    CASE("it keeps the latest two hundred lines");
    for (int i = 0; i < 2 * SL_AUDIT_TEST; i++)
        set_plan(w, S("busy"), i % 2 ? S("a") : S("b"));
    sl_job_init(&job, SL_JOB_AUDIT, &sl_alloc_libc);
    job.scope = S("user");
    job.id = S("busy");
    job.most = 1000;
    ask(w, &job);
    CHECK_EQ(sl_buf_add(&job.text, (struct sl_str){"", 1}), 0);
    unsigned lines = 0;
    for (const char *at = job.text.bytes; (at = strstr(at, "\"what\"")); at++)
        lines++;
    CHECK_EQ(lines, SL_AUDIT_TEST);
    sl_job_clear(&job);
}

TEST_WITH(switches, struct world *w)
{
    const struct sl_switched *list;
    unsigned count = 9;
    struct sl_job job;

    CASE("a feature that was switched stays so over a restart");
    sl_job_init(&job, SL_JOB_SWITCH, &sl_alloc_libc);
    job.name = S("assistant");
    job.by = S("ops");
    job.on = 0;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    world_stop(w);
    CHECK_EQ(world_start(w, NULL), 0);
    list = sl_registry_switches(w->registry, &count);
    CHECK_EQ(count, 1);
    CHECK(is(list[0].name, "assistant"));
    CHECK(!list[0].on);
    job.on = -1;
    ask(w, &job);
    world_stop(w);
    CHECK_EQ(world_start(w, NULL), 0);
    sl_registry_switches(w->registry, &count);
    CHECK_EQ(count, 0);
}

/* Two switches, the second of which the answer to the first queues. */
struct late {
    struct sl_job first, second;
    struct sl_registry *registry;
    unsigned answers;
};

static void on_second(struct sl_job *job)
{
    struct late *late = job->ctx;

    late->answers++;
}

static void on_first(struct sl_job *job)
{
    struct late *late = job->ctx;

    late->answers++;
    sl_registry_ask(late->registry, &late->second);
}

TEST_WITH(late, struct world *w)
{
    struct late late = {.registry = w->registry};
    struct sl_job *jobs[] = {&late.first, &late.second};
    unsigned count = 9;

    CASE("what the last answers queue is recorded, too");
    for (unsigned i = 0; i < 2; i++) {
        sl_job_init(jobs[i], SL_JOB_SWITCH, &sl_alloc_libc);
        jobs[i]->name = i == 0 ? S("one") : S("two");
        jobs[i]->by = S("ops");
        jobs[i]->now = w->now;
        jobs[i]->loop = w->loop;
        jobs[i]->done = i == 0 ? on_first : on_second;
        jobs[i]->ctx = &late;
    }
    sl_registry_ask(w->registry, &late.first);
    sl_registry_stop(w->registry);
    sl_loop_stop(w->loop);
    sl_loop_run(w->loop);
    CHECK_EQ(late.answers, 1);
    sl_registry_finish(w->registry);
    sl_loop_stop(w->loop);
    sl_loop_run(w->loop);
    CHECK_EQ(late.answers, 2);
    CHECK_EQ(late.second.err, 0);
    world_stop(w);
    CHECK_EQ(world_start(w, NULL), 0);
    sl_registry_switches(w->registry, &count);
    CHECK_EQ(count, 2);
    sl_job_clear(&late.first);
    sl_job_clear(&late.second);
}

int main(void)
{
    struct world w;

    world_open(&w);
    RUN_TESTS_WITH(&w);
    world_close(&w);
    return CHECK_DONE();
}
