/* test.c -- `sluice test`: run flow files and report as text, TAP or JSON. */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"

struct test {
    struct sl_cli_args *args;
    FILE *out;
    unsigned flows, failed, skipped;
    int status;      /* the exit status so far */
    char last[4096]; /* the last message, to print repeats once */
};

/* A skipped flow did not fail. */
static bool is_good(const struct sl_flow_outcome *o)
{
    return o->end == SL_END_PASSED || o->end == SL_END_SKIPPED;
}

/* Print why a flow failed, each line after `prefix`:
 * FILE:LINE: want retry=12s, got retry=11s */
static void print_why(FILE *out, const char *prefix, const char *file,
                      const struct sl_flow_outcome *o)
{
    for (const struct sl_flow_mismatch *m = o->misses; m; m = m->next) {
        const char *equals = m->label[0] ? "=" : "";

        sl_out_print(out, "%s%s:%u: want %s%s%s, got %s%s%s\n", prefix, file,
                     o->line, m->label, equals, m->want, m->label, equals,
                     m->got);
    }
    if (o->message[0] && o->end != SL_END_BAD_POLICY &&
        o->end != SL_END_SKIPPED)
        sl_out_print(out, "%s%s:%u: %s\n", prefix, file, o->line, o->message);
}

static void table_flow(struct test *test, const char *file,
                       const struct sl_flow *flow,
                       const struct sl_flow_outcome *o)
{
    bool passed = o->end == SL_END_PASSED;
    bool skipped = o->end == SL_END_SKIPPED;

    sl_out_coloured(test->out,
                    passed    ? SL_GREEN
                    : skipped ? SL_YELLOW
                              : SL_RED,
                    passed    ? "ok  "
                    : skipped ? "skip"
                              : "FAIL");
    sl_out_print(test->out, " %s: %s", file, flow->name);
    if (skipped)
        fprintf(test->out, " (%s)\n", o->message);
    else
        fprintf(test->out, " (%zu line%s)\n", o->acts, o->acts == 1 ? "" : "s");
    print_why(test->out, "", file, o);
}

/* `flow` is NULL for a file that cannot be read. */
static void tap_flow(struct test *test, const char *file,
                     const struct sl_flow *flow,
                     const struct sl_flow_outcome *o)
{
    if (flow)
        print_why(test->out, "# ", file, o);
    if (o->end == SL_END_BAD_POLICY)
        fprintf(test->out, "# the policy is invalid\n");
    sl_out_print(test->out, "%sok %u - %s: %s", is_good(o) ? "" : "not ",
                 test->flows, file, flow ? flow->name : "cannot be read");
    if (o->end == SL_END_SKIPPED)
        fprintf(test->out, " # SKIP %s", o->message);
    fputc('\n', test->out);
}

static void json_flow(struct test *test, const char *file,
                      const struct sl_flow *flow,
                      const struct sl_flow_outcome *o)
{
    FILE *out = test->out;
    bool passed = is_good(o);

    sl_out_json(out, test->flows > 1 ? ",{\"file\":" : "{\"file\":", file);
    sl_out_json(out, ",\"name\":", flow ? flow->name : "");
    fprintf(out, ",\"ok\":%s%s,\"lines\":%zu,\"line\":%u,\"misses\":[",
            passed ? "true" : "false",
            o->end == SL_END_SKIPPED ? ",\"skipped\":true" : "", o->acts,
            passed ? 0 : o->line);
    for (const struct sl_flow_mismatch *m = o->misses; m; m = m->next) {
        sl_out_json(out,
                    m == o->misses ? "{\"field\":" : ",{\"field\":", m->label);
        sl_out_json(out, ",\"want\":", m->want);
        sl_out_json(out, ",\"got\":", m->got);
        fputc('}', out);
    }
    sl_out_json(out, "],\"message\":", o->message);
    fputc('}', out);
}

/* Keep the most basic failure: invalid arguments, then an invalid policy, then
 * an unreachable daemon, a failed store, a failed flow. */
static void set_status(struct test *test, int status)
{
    static const int order[] = {SL_EXIT_FAILED, SL_EXIT_STORE,
                                SL_EXIT_UNREACHABLE, SL_EXIT_POLICY,
                                SL_EXIT_USAGE};
    int old = 0, new = 0;

    for (int i = 0; i < (int)SL_LEN(order); i++) {
        if (order[i] == test->status)
            old = i + 1;
        if (order[i] == status)
            new = i + 1;
    }
    if (new > old)
        test->status = status;
}

/* Print a message on err unless it repeats the last one: many flows share one
 * invalid policy. */
static void print_once(struct test *test, const char *text)
{
    if (strcmp(test->last, text) == 0)
        return;
    snprintf(test->last, sizeof(test->last), "%s", text);
    sl_out_line(test->args->cli->err, text);
}

/* Report a flow. `flow` is NULL for a file that is not a flow file; the message
 * is the reason. */
static void report(struct test *test, const char *file,
                   const struct sl_flow *flow,
                   const struct sl_flow_outcome *out)
{
    static const int status[] = {
        [SL_END_PASSED] = SL_EXIT_OK,
        [SL_END_FAILED] = SL_EXIT_FAILED,
        [SL_END_BAD_POLICY] = SL_EXIT_POLICY,
        [SL_END_BROKEN] = SL_EXIT_STORE,
        [SL_END_UNREACHABLE] = SL_EXIT_UNREACHABLE,
        [SL_END_SKIPPED] = SL_EXIT_OK,
    };

    test->flows++;
    test->failed += !is_good(out);
    test->skipped += out->end == SL_END_SKIPPED;
    set_status(test, flow ? status[out->end] : SL_EXIT_USAGE);
    if (!flow || out->end == SL_END_BAD_POLICY)
        print_once(test, out->message);
    if (test->args->format == SL_FORMAT_JSON)
        json_flow(test, file, flow, out);
    else if (test->args->format == SL_FORMAT_TAP)
        tap_flow(test, file, flow, out);
    else if (flow)
        table_flow(test, file, flow, out);
}

static void print_end(struct test *test)
{
    unsigned passed = test->flows - test->failed - test->skipped;
    bool json = test->args->format == SL_FORMAT_JSON;
    char skipped[48] = "";

    if (test->skipped > 0)
        snprintf(skipped, sizeof(skipped),
                 json ? ",\"skipped\":%u" : ", %u skipped", test->skipped);
    if (test->args->format == SL_FORMAT_TAP)
        fprintf(test->out, "1..%u\n", test->flows);
    else
        fprintf(test->out,
                json ? "],\"passed\":%u,\"failed\":%u%s}\n"
                     : "%u passed, %u failed%s\n",
                passed, test->failed, skipped);
}

/* ---- running flow files ---- */

#define OUTCOME_BYTES (4 * 1024 * 1024) /* for the messages of one flow */
#define LINE_SHOWN    400               /* longer lines are not printed */

/* Report an invalid file with its line and a caret. */
static void refuse_file(struct test *test, const char *path,
                        const struct sl_diag *diag, struct sl_str line)
{
    struct sl_flow_outcome out = {.end = SL_END_FAILED};
    char text[2048];

    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    if (line.len > LINE_SHOWN)
        line.len = 0;
    sl_diag_print(diag, line, text, sizeof(text));
    out.message = text;
    report(test, path, NULL, &out);
}

static void run_flows(struct test *test, const struct sl_flow_file *file,
                      struct sl_flow_daemon *daemon)
{
    const struct sl_flow *flow;
    struct sl_arena arena;
    struct sl_flow_outcome out;

    sl_arena_init(&arena, OUTCOME_BYTES, &sl_alloc_libc);
    for (flow = file->flows; flow; flow = flow->next) {
        sl_flow_run(flow, file->name, daemon, &arena, &out);
        report(test, file->name, flow, &out);
        sl_arena_reset(&arena);
    }
    sl_arena_done(&arena);
}

static void run_file(struct test *test, const char *path,
                     struct sl_flow_daemon *daemon)
{
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
    struct sl_diag diag = {.file = name};
    struct sl_str line = {NULL, 0};
    struct sl_flow_file file;
    struct sl_buf buf;
    int err;

    /* One byte above the maximum, so that a longer file is noticed. */
    sl_buf_init(&buf, SL_FLOW_BYTES + 1, &sl_alloc_libc);
    err = sl_read_all(test->args->cli, path, &buf);
    if (err)
        sl_diag_error(&diag, 0, "%s", strerror(errno));
    else
        err = sl_flow_read(name, sl_buf_str(&buf), &sl_alloc_libc, &file, &diag,
                           &line);
    if (err == SLUICE_ENOMEM)
        sl_diag_error(&diag, 0, "%s", strerror(ENOMEM));
    if (err) {
        refuse_file(test, name, &diag, line);
    } else {
        run_flows(test, &file, daemon);
        sl_flow_file_done(&file);
    }
    sl_buf_done(&buf);
}

static int run_all(struct sl_cli_args *args, struct sl_flow_daemon *daemon)
{
    struct test test = {.args = args, .out = args->cli->out};

    if (args->format == SL_FORMAT_JSON)
        fputs("{\"flows\":[", test.out);
    for (size_t i = 0; i < args->word_count; i++)
        run_file(&test, args->words[i], daemon);
    print_end(&test);
    return test.status;
}

static int run(struct sl_cli_args *args)
{
    const char *url = sl_cli_flag(args, "url");
    const char *admin = sl_cli_flag(args, "admin-url");
    struct sl_flow_daemon daemon;
    int status;

    if (!url && !admin)
        return run_all(args, NULL);
    if (!url || !admin)
        return sl_cli_misuse(args,
                             "--url and --admin-url must be used together: "
                             "checks go to one, policy and clock to the other");
    if (sl_flow_daemon_init(&daemon, url, admin, &sl_alloc_libc))
        status = sl_cli_misuse(args, "%s", daemon.why.sentence);
    else
        status = run_all(args, &daemon);
    sl_flow_daemon_done(&daemon);
    return status;
}

static const struct sl_flag flags[] = {
    {'\0', "url",       "URL", "also run against a test daemon at this URL"},
    {'\0', "admin-url", "URL", "URL of its admin listener"                 },
    {'\0', NULL,        NULL,  NULL                                        },
};

const struct sl_command sl_command_test = {
    .name = "test",
    .usage = "FLOW...",
    .summary = "Test policies with flow files on a virtual clock",
    .help = "Each flow starts with empty state at 1970-01-01T00:00:00Z and\n"
            "has its own clock. A flow stops at the first line whose answer\n"
            "differs from the expected one:\n"
            "\n"
            "  ai.flow:7: want retry=12s, got retry=11s\n"
            "\n"
            "  sluice test ai.flow\n"
            "  sluice test -o tap flows/*.flow\n"
            "\n"
            "With --url and --admin-url each line also goes to a daemon,\n"
            "over HTTP (http://127.0.0.1:8080) or the Redis protocol\n"
            "(redis://127.0.0.1:6380). Its verdicts must be identical byte\n"
            "for byte. The test replaces the daemon's policy and clears its\n"
            "state, so use a test build: sluiced-test --clock=virtual\n"
            "--store memory:\n",
    .words = "file",
    .formats = "table|json|tap",
    .flags = flags,
    .least = 1,
    .most = (unsigned)-1,
    .run = run,
};
