/* intent.c -- every step of a change, stopped, overtaken and killed.
 *
 * For each change and each step the victim is stopped there; others take from
 * the same keys and must get on; the victim's set is there as a whole or not
 * at all, by whether it had committed; and when the victim goes on, its set is
 * there exactly once. The same with a child that is stopped by SIGSTOP, and
 * with one that is killed. The numbers are those of intent.h.
 */
#include "schedule.h"

static const char *const step_names[SL_JOURNAL] = {
    "say",   "swap",    "lock",   "locked", "commit", "set",
    "write", "release", "finish", "help",   "undo"};

static bool is_committed(enum sl_step step)
{
    return step >= SL_STEP_SET;
}

/* What the victim adds to each key once it is through. */
static uint64_t victims(const struct world *w)
{
    return w->sweep ? 0 : 1;
}

static void check_locks(struct world *w)
{
    uint64_t stray;

    (void)locks_left(&w->table.region, &stray);
    CHECK_EQ(stray, 0); /* (3) */
}

/* Others come while the victim is at `step`. */
static uint64_t others_come(struct world *w, enum sl_step step)
{
    uint64_t others;

    check_locks(w);
    others = others_take(w);  /* (2) */
    CHECK_EQ(taken_by_all(w), /* (1) */
             others + (is_committed(step) ? victims(w) : 0));
    check_locks(w);
    return others;
}

/* A thread is stopped and goes on later. */
static bool stop_thread(struct world *w, enum sl_step step, unsigned nth)
{
    struct stop stop = {.world = w, .step = step, .nth = nth};
    uint64_t others;

    restore(w);
    if (!start_victim(&stop)) {
        CHECK_EQ(taken_by_all(w), victims(w));
        close_world(w);
        return false;
    }
    others = others_come(w, step);
    let_go(&stop);
    CHECK_EQ(taken_by_all(w), others + victims(w)); /* (4) */
    CHECK_EQ(taken_by_all(w), others + victims(w));
    close_world(w);
    return true;
}

/* A process is stopped and goes on later. */
static bool stop_process(struct world *w, enum sl_step step, unsigned nth)
{
    struct stop stop = {
        .world = w, .step = step, .nth = nth, .signal = SIGSTOP};
    uint64_t others;
    int status = 0;
    pid_t pid;

    restore(w);
    pid = start_child(w, &stop);
    if (!pid) {
        close_world(w);
        return false;
    }
    others = others_come(w, step);
    kill(pid, SIGCONT);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(taken_by_all(w), others + victims(w)); /* (4) */
    close_world(w);
    return true;
}

/* A process is killed. `late`: no thread meets it before its record is claimed
 * again, so that the cleaning up is all that brings its change to an end. */
static bool kill_process(struct world *w, enum sl_step step, unsigned nth,
                         bool late)
{
    struct stop stop = {
        .world = w, .step = step, .nth = nth, .signal = SIGKILL};
    uint64_t committed = is_committed(step) ? victims(w) : 0;
    uint64_t others = 0, stray;

    restore(w);
    if (!start_child(w, &stop)) {
        close_world(w);
        return false;
    }
    if (!late)
        others = others_come(w, step);
    sl_actors_reap(&w->table.actors);
    CHECK_EQ(locks_left(&w->table.region, &stray), 0); /* (2) */
    CHECK_EQ(taken_by_all(w), others + committed);     /* (1) */
    close_world(w);
    return true;
}

/* A helper is stopped as well: the owner at `step`, the helper where it is
 * about to help or undo; a third one has to get on. */
static bool stop_helper(struct world *w, enum sl_step step, unsigned nth)
{
    bool committed = is_committed(step);
    struct stop owner = {.world = w, .step = step, .nth = 1};
    struct stop helper = {.world = w,
                          .step = committed ? SL_STEP_HELP : SL_STEP_UNDO,
                          .nth = nth};
    uint64_t others;
    bool more;

    restore(w);
    more = start_victim(&owner);
    if (more) {
        more = start_victim(&helper);
        others = others_take(w) + (committed ? victims(w) : 0) +
                 (more ? 0 : victims(w));
        CHECK_EQ(taken_by_all(w), others); /* (1) */
        if (more) {
            let_go(&helper);
            others += victims(w);
            CHECK_EQ(taken_by_all(w), others); /* (4) */
        }
        let_go(&owner);
        CHECK_EQ(taken_by_all(w), others + (committed ? 0 : victims(w)));
    }
    close_world(w);
    return more;
}

typedef bool schedule_f(struct world *w, enum sl_step step, unsigned nth);

static bool kill_early(struct world *w, enum sl_step step, unsigned nth)
{
    return kill_process(w, step, nth, false);
}

static bool kill_late(struct world *w, enum sl_step step, unsigned nth)
{
    return kill_process(w, step, nth, true);
}

/* Run `schedule` for each time that the victim comes to each step. */
static void run_all(struct world *w, const char *what, schedule_f *schedule)
{
    static char text[CHANGES * 16][80];
    static unsigned next;
    char *label = text[next++];
    unsigned ran = 0;

    snprintf(label, sizeof(text[0]), "%s: %s", w->name, what);
    CASE(label);
    for (enum sl_step step = 0; step < SL_STEP_HELP; step++) {
        unsigned nth = 1;

        while (nth < 100 && schedule(w, step, nth))
            nth++;
        if (check_state.bad) {
            printf("# ... at %s, time %u\n", step_names[step], nth);
            return;
        }
        ran += nth - 1;
    }
    CHECK(ran > 0);
}

int main(void)
{
    static struct world w;
    char key[32];

    alarm(300); /* against a hang */
    sl_step_hook = on_step;
    for (enum change change = 0; change < CHANGES; change++) {
        make_world(&w, change, key, sizeof(key));
        run_all(&w, "a thread is overtaken at each step", stop_thread);
        run_all(&w, "a process is stopped at each step", stop_process);
        run_all(&w, "a process is killed at each step", kill_early);
        run_all(&w, "what a dead process left is brought to its end",
                kill_late);
        if (change >= SET) /* a single change cannot be helped */
            run_all(&w, "a helper is stopped as well", stop_helper);
        free_world(&w);
    }
    return CHECK_DONE();
}
