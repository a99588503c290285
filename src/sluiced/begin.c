/* begin.c -- from a command line to an engine. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "sluiced/daemon.h"
#ifdef SL_VIRTUAL_CLOCK
#include "sluiced/flush.h"
#endif

#define REPORT_MOST ((size_t)512 * 1024)

/* ---- the process ---- */

/* As many descriptors as we may have: connections are what we are for. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* or go on with what there is */
    }
}

/* Whoever sends HUP right after the start wants a policy read, and would end
 * us instead: it waits until living.c hears it. TERM and INT may end us here;
 * there is nothing yet to be finished. */
static void hold_hangups(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int sl_process_begin(struct sl_daemon *daemon)
{
    hold_hangups();
    raise_descriptors();
    signal(SIGPIPE, SIG_IGN); /* whoever has gone is seen when we write */
    signal(SIGXFSZ, SIG_IGN); /* and a file that may not grow as well */
    sl_notify_open(&daemon->notify);
    if (sl_activated_read(&daemon->activated, &daemon->why))
        return SL_EXIT_FAILED;
    daemon->started_at = sl_clock_wall();
    return 0;
}

void sl_process_end(struct sl_daemon *daemon)
{
    sl_notify_close(&daemon->notify);
}

/* ---- the policy ---- */

/* Everything that is wrong with it, as `sluice check` prints it. */
static void print_report(const struct sl_report *report)
{
    struct sl_buf out;

    sl_buf_init(&out, REPORT_MOST, &sl_alloc_libc);
    if (sl_report_print(report, &out) == 0 && out.len > 0)
        fwrite(out.bytes, 1, out.len, stderr);
    sl_buf_done(&out);
}

static int read_policy(struct sl_daemon *daemon)
{
    struct sl_report report;
    int err = daemon->compat ? sl_compat_read(&daemon->written, daemon->path,
                                              &report, &daemon->why)
                             : sl_written_read(&daemon->written, daemon->path,
                                               NULL, &report, &daemon->why);

    print_report(&report);
    if (err && report.errors > 0)
        daemon->why.sentence[0] = '\0'; /* it was said */
    sl_report_done(&report);
    return err ? SL_EXIT_POLICY : 0;
}

/* Tables of others are asked for plans where the registry is. */
static int check_query(struct sl_daemon *daemon)
{
    if (daemon->written.policy->identity.subjects.text.len == 0 ||
        daemon->settings.in_postgres)
        return 0;
    return sl_refuse(&daemon->why, SL_EXIT_POLICY,
                     "identity.subjects.query needs a PostgreSQL database in "
                     "usage; write usage: \"postgres://USER@HOST/DATABASE\"");
}

int sl_policy_begin(struct sl_daemon *daemon)
{
    const struct sl_given *given = &daemon->given;
    int status = sl_compat_choose(given, &daemon->path, &daemon->why);

    if (status)
        return status;
    daemon->compat = daemon->path != NULL;
    if (!daemon->compat)
        daemon->path = given->flags[SL_SET_policy]
                           ? given->flags[SL_SET_policy]
                           : given->variables[SL_SET_policy];
    status = read_policy(daemon);
    if (status)
        return status;
    status = sl_settings_make(&daemon->settings, given,
                              &daemon->written.policy->server, daemon->path,
                              &daemon->why);
    if (!status)
        status = sl_settings_make(&daemon->latest, given,
                                  &daemon->written.policy->server, daemon->path,
                                  &daemon->why);
    if (!status)
        status = check_query(daemon);
    if (status)
        return status;
    sl_log_open(daemon->settings.log_level, daemon->settings.log_format, 2);
    if (given->doubt[0])
        sl_log(SL_LOG_WARN, "unknown environment variable", "why", given->doubt,
               NULL);
    return 0;
}

void sl_policy_end(struct sl_daemon *daemon)
{
    sl_written_done(&daemon->written);
    sl_settings_done(&daemon->latest);
    sl_settings_done(&daemon->settings);
}

/* ---- the state ---- */

static sl_ns read_stopped(void *ctx)
{
    return sl_clock_now(ctx);
}

static void say_state(const struct sl_state *state)
{
    const char *notice = sl_memory_notice(state->store);
    char is[32], wanted[32];

    if (notice[0])
        sl_log(SL_LOG_WARN, "state file damaged, moved aside", "why", notice,
               NULL);
    if (state->size == state->wanted)
        return;
    snprintf(is, sizeof(is), "%llu", (unsigned long long)state->size);
    snprintf(wanted, sizeof(wanted), "%llu", (unsigned long long)state->wanted);
    sl_log(SL_LOG_WARN, "state file size unchanged", "bytes", is, "asked_for",
           wanted, "why",
           "a state file of another size would start empty; to start empty, "
           "remove the file",
           NULL);
}

int sl_state_begin(struct sl_daemon *daemon)
{
    bool stopped = daemon->settings.virtual_clock;
    int status;

    sl_clock_init_virtual(&daemon->stopped, 0);
    if (daemon->settings.shared)
        return sl_shared_open(daemon);
    status = sl_state_open(&daemon->state, &daemon->settings,
                           stopped ? read_stopped : NULL, &daemon->stopped,
                           &daemon->why);
    if (status)
        return status;
    say_state(&daemon->state);
    return sl_lending_wrap(daemon);
}

void sl_state_end(struct sl_daemon *daemon)
{
    sl_state_close(&daemon->state);
}

int sl_engine_begin(struct sl_daemon *daemon)
{
    struct sl_engine_options options = {.store = daemon->state.store};
    int err = sl_engine_open(&options, daemon->written.policy, &daemon->engine,
                             &daemon->why);

    if (err == SLUICE_ECONF)
        return SL_EXIT_POLICY;
    if (err)
        return err == SLUICE_EFULL ? SL_EXIT_STORE : SL_EXIT_FAILED;
    daemon->state.store = NULL; /* the engine's */
    daemon->reload_good = daemon->certificates_good = true;
    daemon->reloaded_at = daemon->started_at;
    return 0;
}

void sl_engine_end(struct sl_daemon *daemon)
{
    sl_engine_close(daemon->engine);
    daemon->engine = NULL;
}

#ifdef SL_VIRTUAL_CLOCK
int sl_engine_again(struct sl_daemon *daemon)
{
    struct sl_worker *worker = &daemon->workers[0]; /* there is no other */
    struct sl_engine *engine = daemon->engine;
    struct sl_state state = daemon->state;

    if (daemon->settings.shared) {
        int err = daemon->settings.in_dynamo
                      ? sl_flush_dynamo(&daemon->settings.dynamo)
                      : sl_flush(&daemon->settings.redis);

        sl_waiting_engine(&worker->waiting, engine);
        return err ? err : sl_engine_forget(engine, &daemon->why);
    }
    if (daemon->settings.state)
        return SLUICE_EINVAL;
    if (sl_state_begin(daemon) || sl_engine_begin(daemon)) {
        sl_state_close(&daemon->state);
        daemon->state = state;
        daemon->engine = engine;
        return SLUICE_ENOMEM;
    }
    sl_waiting_engine(&worker->waiting, daemon->engine);
    for (int i = 0; i < SL_DOORS; i++)
        if (worker->stands[i].up)
            sl_door_kinds[i]->move(&worker->stands[i], daemon->engine);
    sl_engine_close(engine);
    sl_state_close(&state);
    return 0;
}
#endif
