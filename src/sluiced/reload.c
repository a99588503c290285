/* reload.c -- policy reload, and its triggers.
 *
 * A reload reads, checks and builds, and only then swaps: an error leaves
 * everything as it was. It runs on the first worker's loop, whose clients wait
 * (20 ms for a policy of a thousand limits and routes). Other loops go on.
 *
 * Settings of open objects (addresses, tokens, state) need a restart. A reload
 * reports them.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "policy/policy.h"
#include "server/what_if.h"
#include "sluiced/daemon.h"

#define REPORT_MOST ((size_t)512 * 1024)
#define LINES_MOST  50 /* of a report in the log */

static const char *const causes[] = {"signal", "file", "asked", "posted"};

struct reload {
    struct sl_daemon *daemon;
    enum sl_reload_cause cause;
    struct sl_policy_source policy_source;
    struct sl_settings settings;
    bool has_settings;
    struct sl_report problems;
    struct sl_buf report; /* changes or errors */
    struct sl_diag why;
};

/* ---- reports ---- */

/* Each line is its own event, so that none is suppressed as a repetition. */
static void log_lines(struct sl_str text)
{
    char line[1024];
    unsigned count = 0;

    while (text.len > 0 && count++ < LINES_MOST) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;

        snprintf(line, sizeof(line), "%.*s", sl_str_int(len), text.at);
        sl_log(SL_LOG_INFO, line, "of", "policy", NULL);
        text = sl_str_from(text, len + 1);
    }
    if (text.len > 0)
        sl_log(SL_LOG_INFO, "more changes omitted", NULL);
}

static void log_problem(const struct sl_diag *diag, bool warning)
{
    char at[512] = "";

    if (diag->line > 0)
        snprintf(at, sizeof(at), "%s:%u:%u", diag->file ? diag->file : "",
                 diag->line, diag->column);
    sl_log(warning ? SL_LOG_WARN : SL_LOG_ERROR,
           warning ? "policy warning" : "policy refused", "at",
           at[0] ? at : NULL, "why", diag->sentence, "write",
           diag->hint[0] ? diag->hint : NULL, NULL);
}

static void log_problems(const struct reload *r)
{
    for (unsigned i = 0; i < r->problems.kept; i++)
        log_problem(&r->problems.problems[i].diag,
                    r->problems.problems[i].warning);
    if (r->problems.errors == 0 && r->why.sentence[0])
        log_problem(&r->why, false);
}

/* ---- the files that are watched ---- */

enum {
    FILE_POLICY,
    FILE_CERTIFICATE,
    FILE_KEY,
    FILE_CA,
    FILE_JWKS,
    FILE_INCLUDED, /* the first of ${FILE:...} */
    FILES = FILE_INCLUDED + SL_POLICY_FILES
};

_Static_assert(FILES <= SL_WATCHED, "all of them are watched");

#define CERTIFICATES (1u << FILE_CERTIFICATE | 1u << FILE_KEY | 1u << FILE_CA)
#define INCLUDED     (~0u << FILE_INCLUDED)

static void name_files(const struct sl_daemon *daemon,
                       const char *paths[static FILES])
{
    const struct sl_settings *s = &daemon->latest;

    paths[FILE_POLICY] = daemon->path;
    paths[FILE_CERTIFICATE] = s->tls_certificate;
    paths[FILE_KEY] = s->tls_key;
    paths[FILE_CA] = s->tls_client_ca;
    paths[FILE_JWKS] = daemon->jwks->active.file;
    for (unsigned i = 0; i < SL_POLICY_FILES; i++)
        paths[FILE_INCLUDED + i] = i < daemon->policy_source.file_count
                                       ? daemon->policy_source.files[i].path
                                       : NULL;
}

static void warn_of_files(const struct sl_daemon *daemon)
{
    if (daemon->policy_source.files_left)
        sl_log(SL_LOG_WARN, "file watch incomplete", "why",
               "the policy has more than 24 different ${FILE:...}", "instead",
               "send SIGHUP after a change", NULL);
}

/* Watches the files of daemon->latest from now on. */
static void watch_again(struct sl_daemon *daemon)
{
    const char *paths[FILES];

    if (!daemon->watch)
        return;
    name_files(daemon, paths);
    if (sl_file_watch_others(daemon->watch, paths, FILES))
        sl_log(SL_LOG_WARN, "file watch incomplete", "why",
               "the path of a file is too long", "instead",
               "send SIGHUP after a change", NULL);
    warn_of_files(daemon);
}

/* ---- the steps ---- */

/* A posted policy does not change settings. */
static int read_settings(struct reload *r)
{
    struct sl_daemon *daemon = r->daemon;
    int err;

    if (r->cause == SL_RELOAD_POSTED)
        return 0;
    r->has_settings = true;
    if (sl_settings_make(&r->settings, &daemon->given,
                         &r->policy_source.policy->server, daemon->path,
                         &r->why))
        return SLUICE_ECONF;
    err = sl_settings_diff(&daemon->latest, &r->settings, true, &r->report);
    if (!err)
        err = sl_settings_diff(&daemon->settings, &r->settings, false,
                               &r->report);
    return err;
}

/* If the engine refuses the policy, the recorded units are those of the old one
 * again. */
static int use_engine(struct reload *r)
{
    struct sl_daemon *daemon = r->daemon;
    struct sl_diag diag;
    int err = sl_engine_use(daemon->engine, r->policy_source.policy, &r->why);

    if (err && sl_subjects_use(daemon, daemon->policy_source.policy, &diag))
        sl_log(SL_LOG_ERROR,
               "reload failed, units of the refused policy are recorded", "why",
               diag.sentence, NULL);
    return err;
}

/* Token keys first: new keys with the old policy are better than old keys with
 * the new one. A policy whose key file is missing is refused, as at the start.
 * Only with a virtual clock may the file of a posted policy be missing: a test
 * posts the policies of another folder. */
static int use(struct reload *r)
{
    struct sl_daemon *daemon = r->daemon;
    bool optional =
        r->cause == SL_RELOAD_POSTED && daemon->settings.virtual_clock;
    struct sl_diag diag;
    int err = sl_jwks_use(daemon->jwks, r->policy_source.policy, daemon->path,
                          optional, &r->why);

    if (err)
        return err;
    /* What needs no database comes first: a unit is recorded only if the policy
     * is used. */
    err = sl_policy_check_units(daemon->policy_source.policy,
                                r->policy_source.policy, &r->why);
    if (!err)
        err = sl_subjects_use(daemon, r->policy_source.policy, &r->why);
    if (!err)
        err = use_engine(r);
    if (err && sl_jwks_use(daemon->jwks, daemon->policy_source.policy,
                           daemon->path, true, &diag))
        sl_log(SL_LOG_ERROR,
               "reload failed, token keys of the refused policy in use", "why",
               diag.sentence, NULL);
    return err;
}

static int build(struct reload *r)
{
    struct sl_daemon *daemon = r->daemon;
    int err = sl_policy_diff(daemon->policy_source.policy,
                             r->policy_source.policy, &r->report);

    if (!err)
        err = read_settings(r);
    if (!err && r->report.len == 0)
        err = sl_buf_addf(&r->report, "no changes\n");
    if (err && !r->why.sentence[0])
        sl_diag_error(&r->why, err, "out of memory");
    if (!err && r->has_settings)
        err = sl_listeners_set_tls(daemon, &r->settings, &r->why);
    return err ? err : use(r);
}

/* The admin listener records what was asked there, with its author. */
static void note_policy(const struct reload *r)
{
    struct sl_daemon *daemon = r->daemon;
    struct sl_audit_note note = {
        .what = SL_STR("policy"),
        .scope = SL_STR("policy"),
        .id = SL_STR(""),
        .by = SL_STR("sluiced"),
        .origin = sl_str_c(causes[r->cause]),
        .note = SL_STR(""),
    };

    if (r->cause != SL_RELOAD_ASKED && r->cause != SL_RELOAD_POSTED)
        sl_daemon_audit(daemon, &note);
}

static void take_over(struct reload *r)
{
    struct sl_daemon *daemon = r->daemon;
    struct sl_policy_source old = daemon->policy_source;

    daemon->policy_source = r->policy_source;
    r->policy_source = old;
    if (r->has_settings) {
        struct sl_settings before = daemon->latest;

        daemon->latest = r->settings;
        r->settings = before;
        sl_log_open(daemon->latest.log_level, daemon->latest.log_format, 2);
    }
    if (sl_node_count_use(&daemon->remote.node_count,
                          daemon->policy_source.policy))
        sl_log(SL_LOG_WARN, "node count unchanged", "why", "out of memory",
               NULL);
    watch_again(daemon); /* they may have changed */
    daemon->reload_good = daemon->files_good = true;
    daemon->reloads_good++;
    daemon->reloaded_at = sl_loop_now(daemon->workers[0].loop);
    sl_denials_keep(daemon);
    sl_log(SL_LOG_INFO, "policy loaded", "file",
           daemon->path ? daemon->path : "demo", "cause", causes[r->cause],
           "hash", daemon->policy_source.hash, NULL);
    note_policy(r);
    log_problems(r);
    log_lines(sl_buf_str(&r->report));
    sl_event_publisher_policy(daemon, true, causes[r->cause],
                              sl_buf_str(&r->report));
    sl_notify(&daemon->notify, "READY=1\nSTATUS=Serving %s",
              daemon->path ? daemon->path : "the demo");
}

static void refuse(struct reload *r)
{
    struct sl_daemon *daemon = r->daemon;
    const struct sl_diag *first = &r->why;

    daemon->reload_good = false;
    if (r->cause != SL_RELOAD_POSTED)
        daemon->files_good = false;
    daemon->reloads_bad++;
    log_problems(r);
    sl_log(SL_LOG_ERROR, "reload failed, policy unchanged", "cause",
           causes[r->cause], NULL);
    sl_buf_clear(&r->report);
    if (r->problems.errors == 0
            ? sl_buf_addf(&r->report, "%s\n", r->why.sentence)
            : sl_report_print(&r->problems, &r->report))
        sl_buf_clear(&r->report);
    sl_event_publisher_policy(daemon, false, causes[r->cause],
                              sl_buf_str(&r->report));
    for (unsigned i = r->problems.kept; i-- > 0;)
        if (!r->problems.problems[i].warning)
            first = &r->problems.problems[i].diag;
    sl_notify(
        &daemon->notify,
        "READY=1\n"
        "STATUS=Policy refused (line %u: %s); the previous policy stays active",
        first->line, first->sentence);
}

int sl_reload(struct sl_daemon *daemon, enum sl_reload_cause cause,
              const struct sl_str *posted, struct sl_buf *report)
{
    struct reload r = {.daemon = daemon, .cause = cause};
    sl_ns mono = sl_loop_mono(daemon->workers[0].loop);
    int err;

    sl_notify(&daemon->notify, "RELOADING=1\nMONOTONIC_USEC=%lld",
              (long long)(mono / SL_US));
    sl_buf_init(&r.report, REPORT_MOST, &sl_alloc_libc);
    if (daemon->compat && !posted)
        err =
            sl_compat_read(&r.policy_source, daemon->path, &r.problems, &r.why);
    else
        err = sl_policy_source_read(&r.policy_source, daemon->path, posted,
                                    daemon->policy_source.policy, &r.problems,
                                    &r.why);
    if (!err)
        err = build(&r);
    if (err)
        refuse(&r);
    else
        take_over(&r);
    if (report && (sl_buf_add(report, sl_buf_str(&r.report)) ||
                   (!err && sl_report_print(&r.problems, report))))
        sl_log(SL_LOG_WARN, "reload report too long", NULL);
    sl_report_done(&r.problems);
    sl_policy_source_done(&r.policy_source);
    if (r.has_settings)
        sl_settings_done(&r.settings);
    sl_buf_done(&r.report);
    return err ? SLUICE_ECONF : 0;
}

/* ---- a policy that is only checked ---- */

static int ask_what_if(struct sl_daemon *daemon, struct sl_policy *candidate,
                       unsigned minutes, struct sl_buf *out)
{
    struct sl_recorder *recorders[SL_THREADS_MOST];
    struct sl_what_if of = {
        .recorders = recorders,
        .count = daemon->worker_count,
        .active = daemon->policy_source.policy,
        .candidate = candidate,
        .from = sl_loop_now(daemon->workers[0].loop) - minutes * SL_MIN,
        .alloc = &sl_alloc_libc,
    };

    for (unsigned i = 0; i < of.count; i++)
        recorders[i] = daemon->workers[i].recorder;
    return sl_what_if(&of, out);
}

int sl_reload_check(struct sl_daemon *daemon, struct sl_str text,
                    unsigned minutes, struct sl_buf *report,
                    struct sl_buf *what_if)
{
    struct reload r = {.daemon = daemon, .cause = SL_RELOAD_POSTED};
    const struct sl_policy *active = daemon->policy_source.policy;
    int err, full = 0;

    err = sl_policy_source_read(&r.policy_source, daemon->path, &text,
                                daemon->policy_source.policy, &r.problems,
                                &r.why);
    if (!err)
        err = sl_policy_check_units(active, r.policy_source.policy, &r.why);
    if (!err && !daemon->settings.virtual_clock)
        err = sl_jwks_check(r.policy_source.policy, daemon->path, &r.why);
    if (!err)
        full = sl_policy_diff(active, r.policy_source.policy, report);
    if (!err && !full && report->len == 0)
        full = sl_buf_addf(report, "no changes\n");
    if (!full && err && r.problems.errors == 0)
        full = sl_buf_addf(report, "%s\n", r.why.sentence);
    else if (!full)
        full = sl_report_print(&r.problems, report);
    if (!full && !err && minutes > 0)
        full = ask_what_if(daemon, r.policy_source.policy, minutes, what_if);
    sl_report_done(&r.problems);
    sl_policy_source_done(&r.policy_source);
    if (full)
        return SLUICE_ENOMEM;
    return err ? SLUICE_ECONF : 0;
}

/* ---- changes of the files ---- */

/* Returns whether the file has the active policy. */
static bool is_same(const struct sl_daemon *daemon)
{
    struct sl_diag why;
    struct sl_buf text;
    bool same;

    if (daemon->compat)
        return false; /* it is read to find out */
    sl_buf_init(&text, SL_YAML_BYTES + 8192, &sl_alloc_libc);
    same =
        sl_file_read(daemon->path, SL_YAML_BYTES, &text, &why) == 0 &&
        sl_str_eq(sl_buf_str(&text), sl_buf_str(&daemon->policy_source.text));
    sl_buf_done(&text);
    return same;
}

static void on_change(void *ctx, unsigned changed)
{
    struct sl_daemon *daemon = ctx;
    bool policy = changed & (1u << FILE_POLICY), again;
    bool included = changed & INCLUDED;
    struct sl_diag why = {0};

    if (daemon->draining)
        return;
    /* After a refused reload the old text is read again, too: the mistake was
     * reverted. A posted policy had no mistake of the files: the policy in
     * force may be an earlier posted one, and stays. */
    again = policy && !(daemon->reload_good && is_same(daemon));
    again = again || (included &&
                      !(daemon->files_good &&
                        sl_policy_source_files_same(&daemon->policy_source)));
    if ((policy || included) && !again)
        sl_log(SL_LOG_DEBUG, "policy unchanged", "file", daemon->path, NULL);
    if (again)
        sl_reload(daemon, SL_RELOAD_FILE, NULL, NULL);
    else if (changed & CERTIFICATES &&
             !sl_listeners_set_tls(daemon, &daemon->latest, &why))
        sl_log(SL_LOG_INFO, "certificates renewed", NULL);
    if (why.sentence[0]) {
        daemon->reloads_bad++;
        sl_log(SL_LOG_ERROR, "certificates refused", "why", why.sentence, NULL);
    }
    if (changed & (1u << FILE_JWKS)) /* also if the policy has changed and is
                                      * refused */
        sl_jwks_read_again(daemon->jwks);
}

int sl_reload_files_begin(struct sl_daemon *daemon)
{
    const char *paths[FILES];
    struct sl_diag why = {0};

    if (!daemon->settings.watch ||
        (!daemon->path && !daemon->latest.tls_certificate))
        return 0;
    name_files(daemon, paths);
    if (sl_file_watch_open(daemon->workers[0].loop, paths, FILES, on_change,
                           daemon, &daemon->watch, &why))
        sl_log(SL_LOG_WARN, "file watch failed", "why", why.sentence, "instead",
               "send SIGHUP after a change", NULL);
    else if (daemon->path && !daemon->compat &&
             !(is_same(daemon) &&
               sl_policy_source_files_same(&daemon->policy_source)))
        sl_reload(daemon, SL_RELOAD_FILE, NULL, NULL); /* during startup */
    if (daemon->watch)
        warn_of_files(daemon);
    return 0;
}

void sl_reload_files_end(struct sl_daemon *daemon)
{
    sl_file_watch_close(daemon->watch);
    daemon->watch = NULL;
}
