/* faults.c -- the nth allocation fails, ours or SQLite's: an error or an
 * answer, never a crash, a leak or half a write. */
#include "fail.h"
#include "filed.h"
#include "sqlite_fail.h"

/* ---- a short life ---- */

static bool is_trouble(int err)
{
    return err == SLUICE_ENOMEM || err == SLUICE_ESTORE;
}

/* Write `plan` for one of many rows; true if it was acknowledged. */
static bool write_pair(struct world *w, struct sl_str plan)
{
    static const struct sl_str alias = {"ann@x", 5};
    const struct sl_subject_override rate = {S("search"), S("5/min"),
                                             SL_NS_NONE, S("ops"), S("")};
    struct sl_subject_change changes[2] = {
        {.kind = SL_CHANGE_PUT,
         .scope = S("user"),
         .id = S("ann"),
         .has = SL_HAS_PLAN | SL_HAS_ALIASES | SL_HAS_RATES,
         .plan = plan,
         .aliases = &alias,
         .alias_count = 1,
         .rates = &rate,
         .rate_count = 1},
        {.kind = SL_CHANGE_PUT,
         .scope = S("org"),
         .id = S("acme"),
         .has = SL_HAS_PLAN,
         .plan = plan},
    };
    struct sl_job job;
    bool good;

    ask_write(w, &job, changes, 2);
    CHECK(job.err == 0 || is_trouble(job.err));
    CHECK_EQ(job.result, SL_JOB_DONE);
    good = job.err == 0;
    sl_job_clear(&job);
    return good;
}

/* The plan that both have; "" if there is none or it could not be asked. */
static void read_pair(struct world *w, char plan[32], bool must)
{
    struct sl_job user, org;

    plan[0] = '\0';
    ask_find(w, &user, S("user"), S("ANN@x"));
    ask_find(w, &org, S("org"), S("acme"));
    CHECK(!must || (!user.err && !org.err));
    if (!user.err && !org.err) {
        CHECK(sl_str_eq(user.entries->subject.plan, org.entries->subject.plan));
        snprintf(plan, 32, "%.*s", SL_STR_ARG(org.entries->subject.plan));
    } else {
        CHECK(is_trouble(user.err ? user.err : org.err));
    }
    sl_job_clear(&user);
    sl_job_clear(&org);
}

/* One call to the memory of repeats. The key and the owner are `plan`. */
static int ask_repeat(struct world *w, enum sl_job_repeat_op op,
                      struct sl_str plan, enum sl_job_repeat_found *found)
{
    struct sl_job_repeat r = {.op = op,
                              .fingerprint = "0f",
                              .now = w->now,
                              .until = w->now + SL_DAY,
                              .pending = w->now + SL_S,
                              .repeats = 9,
                              .memo = plan};
    struct sl_job job;
    int err;

    snprintf(r.key, sizeof(r.key), "%.*s", SL_STR_ARG(plan));
    snprintf(r.owner, sizeof(r.owner), "%.*s", SL_STR_ARG(plan));
    sl_job_init(&job, SL_JOB_REPEAT, &sl_alloc_libc);
    job.repeat = &r;
    ask(w, &job);
    err = job.err;
    CHECK(err == 0 || is_trouble(err));
    if (!err && r.found == SL_JOB_REPEAT_AGAIN)
        CHECK(sl_str_eq(sl_buf_str(&job.text), plan));
    *found = r.found;
    sl_job_clear(&job);
    return err;
}

/* Claims a key and completes the claim; true if both were acknowledged. */
static bool write_repeat(struct world *w, struct sl_str plan)
{
    enum sl_job_repeat_found found;
    int err = ask_repeat(w, SL_JOB_REPEAT_BEGIN, plan, &found);

    if (!err)
        CHECK_EQ(found, SL_JOB_REPEAT_FIRST);
    if (!err)
        err = ask_repeat(w, SL_JOB_REPEAT_FINISH, plan, &found);
    return !err && found == SL_JOB_REPEAT_FIRST;
}

/* An answer that was saved is found, and half of one is not. */
static void check_repeat(struct world *w, bool saved, struct sl_str plan)
{
    enum sl_job_repeat_found found;

    CHECK_EQ(ask_repeat(w, SL_JOB_REPEAT_LOOK, plan, &found), 0);
    if (saved)
        CHECK_EQ(found, SL_JOB_REPEAT_AGAIN);
    else
        CHECK(found != SL_JOB_REPEAT_OTHER);
}

/* Open, write, read, close, with whatever fails on the way. `saved` NULL: no
 * calls about repeats, which keeps the many runs short. */
static bool live(struct world *w, const struct sl_alloc *alloc,
                 struct sl_str plan, bool *saved)
{
    struct sl_registry_options options = {.path = w->path, .alloc = alloc};
    struct sl_diag diag = {0};
    char seen[32];
    int err = sl_registry_open(&options, &w->registry, &diag);
    bool good = false;

    if (saved)
        *saved = false;
    if (err) {
        CHECK(is_trouble(err));
        CHECK(diag.sentence[0]);
        return false;
    }
    good = write_pair(w, plan);
    read_pair(w, seen, false);
    if (saved)
        *saved = write_repeat(w, plan);
    world_stop(w);
    return good;
}

/* What was acknowledged is there, and what was not is whole or not at all. */
static void check_after(struct world *w, bool good, const bool *saved,
                        struct sl_str plan, char was[32])
{
    char seen[32];

    if (!CHECK_EQ(world_start(w, NULL), 0))
        exit(1);
    read_pair(w, seen, true);
    if (good)
        CHECK(sl_str_eq(sl_str_c(seen), plan));
    else
        CHECK(sl_str_eq(sl_str_c(seen), plan) || strcmp(seen, was) == 0);
    snprintf(was, 32, "%s", seen);
    if (saved)
        check_repeat(w, *saved, plan);
    world_stop(w);
}

int main(void)
{
    struct world w;
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    char was[32] = "", plan[32];
    bool saved;
    unsigned n;

    take_over();
    world_folder(&w);

    CASE("our nth allocation fails");
    for (n = 1; n < 500; n++) {
        snprintf(plan, sizeof(plan), "a%u", n);
        f = (struct fail){.nth = n};
        bool good = live(&w, &alloc, sl_str_c(plan), &saved);
        unsigned calls = f.calls;
        fail_check(&f);
        check_after(&w, good, &saved, sl_str_c(plan), was);
        if (calls < n)
            break;
    }
    printf("# %u allocations\n", n);
    CHECK(n > 5 && n < 500);

    CASE("SQLite's nth allocation fails");
    for (n = 1; n < 30000; n += 1 + n / 60) {
        snprintf(plan, sizeof(plan), "b%u", n);
        atomic_store(&sqlite_calls, 0);
        atomic_store(&sqlite_nth, n);
        bool good = live(&w, &sl_alloc_libc, sl_str_c(plan), NULL);
        unsigned calls = atomic_load(&sqlite_calls);
        atomic_store(&sqlite_nth, 0);
        check_after(&w, good, NULL, sl_str_c(plan), was);
        if (calls < n)
            break;
    }
    printf("# up to %u allocations\n", n);
    CHECK(n > 100 && n < 30000);
    world_close(&w);
    return CHECK_DONE();
}
