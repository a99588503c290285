/* startup.c -- from a command line to an engine. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluiced/daemon.h"

#define REPORT_MOST ((size_t)512 * 1024)
#define PATH_MOST   4096

/* ---- the process ---- */

int sl_process_begin(struct sl_daemon *daemon)
{
    struct rlimit limit;
    sigset_t set;

    /* A HUP right after the start means reload, but would end the process: it
     * is blocked until lifecycle.c handles it. TERM and INT may end it here. */
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* Each connection needs a descriptor. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* or continue with the old limit */
    }
    signal(SIGPIPE, SIG_IGN); /* a closed connection is noticed by the write */
    signal(SIGXFSZ, SIG_IGN); /* like a file over its size limit */
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

/* Prints all errors like `sluice check`. */
static int read_policy(struct sl_daemon *daemon)
{
    struct sl_report report;
    struct sl_buf out;
    int err = daemon->compat
                  ? sl_compat_read(&daemon->policy_source, daemon->path,
                                   &report, &daemon->why)
                  : sl_policy_source_read(&daemon->policy_source, daemon->path,
                                          NULL, NULL, &report, &daemon->why);

    sl_buf_init(&out, REPORT_MOST, &sl_alloc_libc);
    if (sl_report_print(&report, &out) == 0 && out.len > 0)
        fwrite(out.bytes, 1, out.len, stderr);
    sl_buf_done(&out);
    if (err && report.errors > 0)
        daemon->why.sentence[0] = '\0'; /* already printed */
    sl_report_done(&report);
    return err ? SL_EXIT_POLICY : 0;
}

int sl_policy_begin(struct sl_daemon *daemon)
{
    const struct sl_setting_source *given = &daemon->given;
    struct sl_settings *both[] = {&daemon->settings, &daemon->latest};
    const struct sl_policy *policy;
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
    policy = daemon->policy_source.policy;
    for (size_t i = 0; i < SL_LEN(both) && !status; i++)
        status = sl_settings_make(both[i], given, &policy->server, daemon->path,
                                  &daemon->why);
    if (status)
        return status;
    if (policy->identity.subjects.text.len > 0 && !daemon->settings.in_postgres)
        return sl_diag_error(
            &daemon->why, SL_EXIT_POLICY,
            "identity.subjects.query needs a PostgreSQL database in "
            "usage; write usage: \"postgres://USER@HOST/DATABASE\"");
    sl_log_open(daemon->settings.log_level, daemon->settings.log_format, 2);
    if (given->warning[0])
        sl_log(SL_LOG_WARN, "unknown environment variable", "why",
               given->warning, NULL);
    for (enum sl_setting i = 0; i < SL_SETTINGS; i++)
        if (daemon->settings.values[i].hides_policy)
            sl_log(SL_LOG_WARN, "setting of the policy not used", "setting",
                   sl_setting_rows[i].key, "precedence",
                   sl_setting_variable(i, false).text, NULL);
    return 0;
}

void sl_policy_end(struct sl_daemon *daemon)
{
    sl_policy_source_done(&daemon->policy_source);
    sl_settings_done(&daemon->latest);
    sl_settings_done(&daemon->settings);
}

/* ---- the state ---- */

/* The flag of the state file. */
static const char *how_to_name(const struct sl_daemon *daemon)
{
    return daemon->settings.shared ? "--state PATH" : "--store memory:PATH";
}

static int refuse_path(struct sl_daemon *daemon, const char *path)
{
    return sl_diag_error(
        &daemon->why, SL_EXIT_STORE,
        "cannot write the state file %s: %s; choose another file with %s, or "
        "keep state in memory only%s",
        path, strerror(errno), how_to_name(daemon),
        daemon->settings.shared ? "" : " with --store memory:");
}

/* The lock file has the id of the process. */
static int refuse_locked(struct sl_daemon *daemon, const char *path, int fd)
{
    char text[32] = "", who[32] = "";
    ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
    long pid = len > 0 ? strtol(text, NULL, 10) : 0;

    if (pid > 0)
        snprintf(who, sizeof(who), " (process %ld)", pid);
    return sl_diag_error(&daemon->why, SL_EXIT_STORE,
                         "another sluiced%s uses the state file %s; stop it, "
                         "or choose another file with %s",
                         who, path, how_to_name(daemon));
}

/* Waits for the lock: the kernel may still be ending a killed process that had
 * it. */
#define LOCK_WAIT     (2 * SL_S)
#define LOCK_PAUSE_MS 10

static int wait_for_lock(int fd)
{
    sl_ns end = sl_clock_mono() + LOCK_WAIT;
    int err;

    while ((err = flock(fd, LOCK_EX | LOCK_NB)) && errno == EWOULDBLOCK &&
           sl_clock_mono() < end)
        poll(NULL, 0, LOCK_PAUSE_MS);
    return err;
}

/* The lock is beside the file itself: a link to the file is the same state. */
static int lock_state(struct sl_daemon *daemon, const char *path)
{
    struct sl_state *state = &daemon->state;
    char name[PATH_MOST], real[PATH_MAX], text[32];
    const char *file = realpath(path, real) ? real : path;
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

    if (snprintf(name, sizeof(name), "%s.lock", file) >= PATH_MOST)
        return sl_diag_error(&daemon->why, SL_EXIT_STORE,
                             "the path %.64s... is too long", path);
    state->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (state->lock < 0)
        return refuse_path(daemon, path);
    if (wait_for_lock(state->lock))
        return errno == EWOULDBLOCK ? refuse_locked(daemon, path, state->lock)
                                    : refuse_path(daemon, path);
    if (ftruncate(state->lock, 0) ||
        pwrite(state->lock, text, (size_t)len, 0) != len)
        errno = 0; /* only needed to name the process */
    return 0;
}

static sl_ns read_stopped(void *ctx)
{
    return sl_clock_now(ctx);
}

/* Lets an existing state grow to `memory`. Returns its size, or 0: there is
 * none. If it cannot grow (a full disk), it is used as it is: an empty one
 * would give every client a fresh allowance. */
static uint64_t grow_state(const char *path, uint64_t memory)
{
    uint64_t was = sl_region_file_size(path), size = was;
    struct sl_diag why = {0};
    char from[32], to[32];

    if (was == 0 || memory <= was)
        return was;
    if (sl_region_grow(path, memory, &size, &why)) {
        sl_log(SL_LOG_WARN, "state file did not grow", "why", why.sentence,
               NULL);
        return sl_region_file_size(path);
    }
    if (size == was)
        return was;
    snprintf(from, sizeof(from), "%" PRIu64, was);
    snprintf(to, sizeof(to), "%" PRIu64, size);
    sl_log(SL_LOG_INFO, "state file has grown; usage kept", "from", from,
           "bytes", to, NULL);
    return size;
}

static void report_size(uint64_t size, uint64_t asked)
{
    char text[32], wanted[32];

    snprintf(text, sizeof(text), "%" PRIu64, size);
    snprintf(wanted, sizeof(wanted), "%" PRIu64, asked);
    sl_log(SL_LOG_WARN, "state file size unchanged", "bytes", text, "asked_for",
           wanted, "why",
           "a state file keeps its contents if it grows to twice its size or "
           "more; to start empty with another size, remove the file",
           NULL);
}

static int open_table(struct sl_daemon *daemon)
{
    const struct sl_settings *s = &daemon->settings;
    struct sl_state *state = &daemon->state;
    struct sl_memory_options options = {
        .path = s->state,
        .size = s->memory,
        .now = s->virtual_clock ? read_stopped : NULL,
        .now_ctx = &daemon->stopped,
    };
    struct sl_diag why = {0};
    uint64_t existing = s->state ? grow_state(s->state, s->memory) : 0;

    if (existing > 0)
        options.size = existing;
    if (sl_memory_open(&options, &state->store, &why))
        return s->state ? sl_diag_error(
                              &daemon->why, SL_EXIT_STORE,
                              "cannot use the state file: %s; choose another "
                              "file with %s, or keep state in memory only%s",
                              why.sentence, how_to_name(daemon),
                              s->shared ? "" : " with --store memory:")
                        : sl_diag_error(
                              &daemon->why, SL_EXIT_STORE,
                              "cannot allocate the table: %s; reduce --memory",
                              why.sentence);
    state->table = sl_memory_table(state->store);
    if (sl_memory_notice(state->store)[0])
        sl_log(SL_LOG_WARN, "state file damaged, moved aside", "why",
               sl_memory_notice(state->store), NULL);
    if (options.size != s->memory)
        report_size(options.size, s->memory);
    return 0;
}

static void close_state(struct sl_state *state)
{
    sl_store_close(state->store);
    state->store = NULL;
    state->table = NULL;
    if (state->lock >= 0)
        close(state->lock);
    state->lock = -1;
}

/* The table, with quota leases if there are any. */
static int begin_table(struct sl_daemon *daemon)
{
    const char *path = daemon->settings.state;
    int status = path ? lock_state(daemon, path) : 0;

    if (!status)
        status = open_table(daemon);
    return status ? status : sl_quota_node_wrap(daemon);
}

int sl_state_begin(struct sl_daemon *daemon)
{
    int status = 0;

    sl_clock_init_virtual(&daemon->stopped, 0);
    daemon->state = (struct sl_state){.lock = -1};
    if (!daemon->settings.shared || daemon->settings.leases)
        status = begin_table(daemon);
    if (!status && daemon->settings.shared)
        status = sl_daemon_store_open(daemon);
    return status;
}

void sl_state_end(struct sl_daemon *daemon)
{
    close_state(&daemon->state);
}

int sl_engine_begin(struct sl_daemon *daemon)
{
    struct sl_engine_options options = {.store = daemon->state.store};
    int err;

    sl_daemon_repeats_choose(daemon, &options);
    err = sl_engine_open(&options, daemon->policy_source.policy,
                         &daemon->engine, &daemon->why);

    if (err == SLUICE_ECONF)
        return SL_EXIT_POLICY;
    if (err)
        return err == SLUICE_EFULL ? SL_EXIT_STORE : SL_EXIT_FAILED;
    daemon->state.store = NULL; /* owned by the engine */
    daemon->reload_good = daemon->certificates_good = true;
    daemon->files_good = true;
    daemon->reloaded_at = daemon->started_at;
    return 0;
}

void sl_engine_end(struct sl_daemon *daemon)
{
    sl_engine_close(daemon->engine);
    daemon->engine = NULL;
}

#ifdef SL_VIRTUAL_CLOCK
/* Empties the remote store, and the table of the quota leases. */
static int reset_remote(struct sl_daemon *daemon)
{
    struct sl_state state = daemon->state;
    struct sl_store *old;
    int err = daemon->settings.in_dynamo
                  ? sl_test_reset_dynamo(&daemon->settings.dynamo)
                  : sl_test_reset(&daemon->settings.redis);

    sl_wait_timer_engine(&daemon->workers[0].waiting, daemon->engine);
    if (!err && daemon->settings.leases) {
        if (begin_table(daemon)) {
            daemon->state = state;
            return SLUICE_ENOMEM;
        }
        old = sl_combined_store_replace(daemon->remote.combined,
                                        daemon->state.store);
        sl_store_close(old);
        daemon->state.store = NULL;
    }
    return err ? err : sl_engine_forget(daemon->engine, &daemon->why);
}

int sl_engine_reset(struct sl_daemon *daemon)
{
    struct sl_worker *worker = &daemon->workers[0]; /* the only worker */
    struct sl_engine *engine = daemon->engine;
    struct sl_state state = daemon->state;

    if (daemon->settings.state)
        return SLUICE_EINVAL;
    if (daemon->settings.shared)
        return reset_remote(daemon);
    if (sl_state_begin(daemon) || sl_engine_begin(daemon)) {
        close_state(&daemon->state);
        daemon->state = state;
        daemon->engine = engine;
        return SLUICE_ENOMEM;
    }
    sl_wait_timer_engine(&worker->waiting, daemon->engine);
    for (int i = 0; i < SL_PROTOCOLS; i++)
        if (worker->listeners[i].server)
            sl_server_set_engine(worker->listeners[i].server, daemon->engine);
    sl_engine_close(engine);
    close_state(&state);
    return 0;
}
#endif

/* ---- the demo, which runs without a policy. */

const char sl_demo_policy[] =
    "# The demo of sluiced. 'sluice init' writes a sample policy.\n"
    "sluice: 1\n"
    "env: demo\n"
    "\n"
    "plans:\n"
    "  default: free\n"
    "  free: {}\n"
    "  pro: {}\n"
    "\n"
    "identity:\n"
    "  user: [header.x-user-id]\n"
    "  org: [header.x-org-id]\n"
    "  plan: [header.x-plan]\n"
    "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n"
    "\n"
    "limits:\n"
    "  per-address:             # one allowance for each address\n"
    "    kind: sliding-window\n"
    "    per: ip\n"
    "    missing: skip          # asked over a unix socket, without an "
    "address\n"
    "    rate: 100/min\n"
    "  per-user:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    missing: anonymous\n"
    "    rate: { free: 5/min, pro: 60/min burst 20 }\n"
    "    deny: { message: \"{limit} a minute; again in {retry_after} s.\" }\n"
    "\n"
    "  # For the page of the demo, /ui/demo/.\n"
    "  finalize:                # recordings wait for it in a queue\n"
    "    kind: sliding-window\n"
    "    per: org\n"
    "    rate: 2/10s\n"
    "  minutes:                 # of transcription: 402 when they are used up\n"
    "    kind: quota\n"
    "    per: org\n"
    "    unit: minutes\n"
    "    rate: { free: 120/month, pro: 1200/month }\n"
    "    deny:\n"
    "      status: 402\n"
    "      message: \"{remaining} of {limit} minutes are left this month.\"\n"
    "\n"
    "features:\n"
    "  exports:\n"
    "    enabled: false\n"
    "    message: \"Exports are paused for maintenance.\"\n"
    "    retry_after: 20s\n"
    "\n"
    "routes:\n"
    "  - match: POST /demo/finalize\n"
    "    endpoint: finalize\n"
    "    limits: [finalize]\n"
    "    guard: { key: \"finalize:{header.x-recording-id}\", hold: 1h, "
    "missing: skip }\n"
    "    dedupe: { key: header.idempotency-key, fingerprint: "
    "[header.x-size] }\n"
    "  - match: POST /demo/transcribe\n"
    "    endpoint: transcribe\n"
    "    cost: { minutes: 25 }\n"
    "    limits: [minutes]\n"
    "  - match: POST /demo/export\n"
    "    endpoint: export\n"
    "    feature: exports\n"
    "    limits: [per-user]\n"
    "  - match: /**\n"
    "    endpoint: demo\n"
    "    limits: [per-user, per-address]\n"
    "    report: per-user\n"
    "\n"
    "default: [per-user, per-address]\n"
    "reset: next               # X-RateLimit-Reset: when one more is "
    "allowed\n";

/* Prints "http://HOST:PORT" of an address that is not a unix socket. */
static void print_url(FILE *out, const char *address, const char *path)
{
    bool is_any = strncmp(address, "*:", 2) == 0;

    fprintf(out, "http://%s%s%s", is_any ? "127.0.0.1" : "",
            is_any ? address + 1 : address, path);
}

static bool is_unix(const char *address)
{
    return strncmp(address, "unix:", 5) == 0;
}

/* Prints a command with "127.0.0.1:8080" or "unix:PATH" as a URL. */
static void print_curl(FILE *out, const char *options, const char *address,
                       const char *path)
{
    fprintf(out, "  curl %s ", options);
    if (is_unix(address))
        fprintf(out, "--unix-socket %s http://localhost%s", address + 5, path);
    else
        print_url(out, address, path);
}

/* A newcomer begins in a browser. */
static void print_pages(FILE *out, const char *http, const char *admin)
{
    bool demo = http && !is_unix(http), console = admin && !is_unix(admin);

    if (!demo && !console)
        return;
    fputs("Open in a browser:\n\n", out);
    if (demo) {
        fputs("  what users see  ", out);
        print_url(out, http, "/ui/demo/\n");
    }
    if (console) {
        fputs("  the console     ", out);
        print_url(out, admin, "/ui/\n");
    }
    fputc('\n', out);
}

void sl_demo_print(FILE *out, const char *http, const char *resp,
                   const char *admin, const char *state)
{
    print_pages(out, http, admin);
    fprintf(out,
            "sluiced runs a demo policy: 5 requests per minute for each user "
            "(60 on the\n"
            "plan \"pro\"), 100 for each address. State is kept in %s.\n"
            "\n",
            state ? state : "memory only");
    if (http)
        fprintf(out, "  HTTP API     %s\n", http);
    if (resp)
        fprintf(out, "  Redis (RESP) %s\n", resp);
    if (admin)
        fprintf(out, "  admin        %s\n", admin);
    fputc('\n', out);
    if (http) {
        fputs("Check a request of the user ann, who is allowed five per "
              "minute:\n\n",
              out);
        print_curl(out, "-s", http, "/v1/check");
        fputs(" -d '{\"method\":\"GET\",\"path\":\"/search\","
              "\"user\":\"ann\"}'\n\n"
              "Check a request as a proxy does (forward auth):\n\n",
              out);
        print_curl(out, "-i", http, "/v1/auth");
        fputs(" -H 'X-Original-URI: /search' -H 'X-User-Id: bob'\n\n", out);
    }
    if (resp) {
        const char *port = strrchr(resp, ':');

        fprintf(out,
                "Check with a Redis client, with the rate in the command:\n\n"
                "  redis-cli %s %s CL.THROTTLE carol 15 30 60\n\n",
                is_unix(resp) ? "-s" : "-p",
                is_unix(resp) ? resp + 5
                : port        ? port + 1
                              : "6380");
    }
    if (admin) {
        fputs("Read the metrics:\n\n", out);
        print_curl(out, "-s", admin, "/metrics");
        fputs("\n\n", out);
    }
    fputs(
        "Next: 'sluice init' writes a sample policy, sluice.yaml. Run it with\n"
        "'sluiced -c sluice.yaml'. Ctrl-C stops the demo.\n",
        out);
    fflush(out);
}
