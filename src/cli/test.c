/* test.c -- `sluice test`: run flow files and report as text, TAP or JSON. */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/flow/daemon.h"
#include "cli/flow/flow.h"

/* FILE:LINE: want retry=12s, got retry=11s */
static void print_miss(FILE *out, const char *file, unsigned line,
                       const struct sl_flow_mismatch *miss)
{
    const char *equals = miss->label[0] ? "=" : "";

    sl_out_clean(out, file);
    fprintf(out, ":%u: want ", line);
    sl_out_clean(out, miss->label);
    fputs(equals, out);
    sl_out_clean(out, miss->want);
    fputs(", got ", out);
    sl_out_clean(out, miss->label);
    fputs(equals, out);
    sl_out_clean(out, miss->got);
    fputc('\n', out);
}

/* A skipped flow did not fail. */
static bool is_good(const struct sl_flow_outcome *o)
{
    return o->end == SL_END_PASSED || o->end == SL_END_SKIPPED;
}

/* Print why a flow failed, each line after `prefix`. */
static void print_why(FILE *out, const char *prefix, const char *file,
                      const struct sl_flow_outcome *o)
{
    for (const struct sl_flow_mismatch *m = o->misses; m; m = m->next) {
        fputs(prefix, out);
        print_miss(out, file, o->line, m);
    }
    if (o->message[0] && o->end != SL_END_BAD_POLICY &&
        o->end != SL_END_SKIPPED) {
        fputs(prefix, out);
        sl_out_clean(out, file);
        fprintf(out, ":%u: ", o->line);
        sl_out_clean(out, o->message);
        fputc('\n', out);
    }
}

static void table_flow(struct sl_test *test, const char *file,
                       const struct sl_flow *flow,
                       const struct sl_flow_outcome *o)
{
    FILE *out = test->args->cli->out;
    bool passed = o->end == SL_END_PASSED;
    bool skipped = o->end == SL_END_SKIPPED;

    sl_out_colour(out, passed ? SL_GREEN : skipped ? SL_YELLOW : SL_RED);
    fputs(passed ? "ok  " : skipped ? "skip" : "FAIL", out);
    sl_out_colour(out, SL_PLAIN);
    fputc(' ', out);
    sl_out_clean(out, file);
    fputs(": ", out);
    sl_out_clean(out, flow->name);
    if (skipped)
        fprintf(out, " (%s)\n", o->message);
    else
        fprintf(out, " (%zu line%s)\n", o->acts, o->acts == 1 ? "" : "s");
    print_why(out, "", file, o);
}

static void tap_flow(struct sl_test *test, const char *file,
                     const struct sl_flow *flow,
                     const struct sl_flow_outcome *o)
{
    FILE *out = test->args->cli->out;

    print_why(out, "# ", file, o);
    if (o->end == SL_END_BAD_POLICY)
        fprintf(out, "# the policy is invalid\n");
    fprintf(out, "%sok %u - ", is_good(o) ? "" : "not ", test->flows);
    sl_out_clean(out, file);
    fputs(": ", out);
    sl_out_clean(out, flow->name);
    if (o->end == SL_END_SKIPPED)
        fprintf(out, " # SKIP %s", o->message);
    fputc('\n', out);
}

static void json_pair(FILE *out, const char *name, const char *value)
{
    fprintf(out, "\"%s\":", name);
    sl_out_json(out, value);
}

static void json_misses(FILE *out, const struct sl_flow_outcome *o)
{
    fputs(",\"misses\":[", out);
    for (const struct sl_flow_mismatch *m = o->misses; m; m = m->next) {
        fputs(m == o->misses ? "{" : ",{", out);
        json_pair(out, "field", m->label);
        fputc(',', out);
        json_pair(out, "want", m->want);
        fputc(',', out);
        json_pair(out, "got", m->got);
        fputc('}', out);
    }
    fputc(']', out);
}

static void json_flow(struct sl_test *test, const char *file,
                      const struct sl_flow *flow,
                      const struct sl_flow_outcome *o)
{
    FILE *out = test->args->cli->out;
    bool passed = is_good(o);

    fputs(test->flows > 1 ? ",{" : "{", out);
    json_pair(out, "file", file);
    fputc(',', out);
    json_pair(out, "name", flow ? flow->name : "");
    fprintf(out, ",\"ok\":%s%s,\"lines\":%zu,\"line\":%u",
            passed ? "true" : "false",
            o->end == SL_END_SKIPPED ? ",\"skipped\":true" : "", o->acts,
            passed ? 0 : o->line);
    json_misses(out, o);
    fputc(',', out);
    json_pair(out, "message", o->message);
    fputc('}', out);
}

void sl_test_begin(struct sl_test *test)
{
    if (test->args->format == SL_FORMAT_JSON)
        fputs("{\"flows\":[", test->args->cli->out);
}

/* Keep the most basic failure: invalid arguments, then an invalid policy, then
 * an unreachable daemon, a failed store, a failed flow. */
static void set_status(struct sl_test *test, int status)
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
static void print_once(struct sl_test *test, const char *text)
{
    size_t len = strlen(text);

    if (strcmp(test->last, text) == 0)
        return;
    snprintf(test->last, sizeof(test->last), "%s", text);
    fputs(text, test->args->cli->err);
    if (len == 0 || text[len - 1] != '\n')
        fputc('\n', test->args->cli->err);
}

void sl_test_flow(struct sl_test *test, const char *file,
                  const struct sl_flow *flow, const struct sl_flow_outcome *out)
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
    set_status(test, status[out->end]);
    if (out->end == SL_END_BAD_POLICY)
        print_once(test, out->message);
    if (test->args->format == SL_FORMAT_JSON)
        json_flow(test, file, flow, out);
    else if (test->args->format == SL_FORMAT_TAP)
        tap_flow(test, file, flow, out);
    else
        table_flow(test, file, flow, out);
}

void sl_test_refused(struct sl_test *test, const char *file, const char *why)
{
    struct sl_flow_outcome out = {.end = SL_END_FAILED, .message = why};
    FILE *to = test->args->cli->out;

    test->flows++;
    test->failed++;
    set_status(test, SL_EXIT_USAGE);
    print_once(test, why);
    if (test->args->format == SL_FORMAT_JSON) {
        json_flow(test, file, NULL, &out);
    } else if (test->args->format == SL_FORMAT_TAP) {
        fprintf(to, "not ok %u - ", test->flows);
        sl_out_clean(to, file);
        fputs(": cannot be read\n", to);
    }
}

void sl_test_end(struct sl_test *test)
{
    FILE *out = test->args->cli->out;
    unsigned passed = test->flows - test->failed - test->skipped;
    char skipped[48] = "";

    if (test->args->format == SL_FORMAT_JSON) {
        if (test->skipped > 0)
            snprintf(skipped, sizeof(skipped), ",\"skipped\":%u",
                     test->skipped);
        fprintf(out, "],\"passed\":%u,\"failed\":%u%s}\n", passed, test->failed,
                skipped);
    } else if (test->args->format == SL_FORMAT_TAP) {
        fprintf(out, "1..%u\n", test->flows);
    } else {
        if (test->skipped > 0)
            snprintf(skipped, sizeof(skipped), ", %u skipped", test->skipped);
        fprintf(out, "%u passed, %u failed%s\n", passed, test->failed, skipped);
    }
}

/* ---- running flow files ---- */

#define OUTCOME_BYTES (4 * 1024 * 1024) /* for the messages of one flow */
#define LINE_SHOWN    400               /* longer lines are not printed */

/* Report an invalid file with its line and a caret. */
static void refuse_file(struct sl_test *test, const char *path,
                        const struct sl_diag *diag, struct sl_str line)
{
    char text[2048];

    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    if (line.len > LINE_SHOWN)
        line.len = 0;
    sl_diag_print(diag, line, text, sizeof(text));
    sl_test_refused(test, path, text);
}

static void refuse_errno(struct sl_test *test, const char *path, int why)
{
    struct sl_diag diag = {.file = path};

    sl_diag_error(&diag, 0, "%s", strerror(why));
    refuse_file(test, path, &diag, (struct sl_str){NULL, 0});
}

static void run_flows(struct sl_test *test, const struct sl_flow_file *file,
                      struct sl_flow_daemon *daemon)
{
    const struct sl_flow *flow;
    struct sl_arena arena;
    struct sl_flow_outcome out;

    sl_arena_init(&arena, OUTCOME_BYTES, &sl_alloc_libc);
    for (flow = file->flows; flow; flow = flow->next) {
        sl_flow_run(flow, file->name, daemon, &arena, &out);
        sl_test_flow(test, file->name, flow, &out);
        sl_arena_reset(&arena);
    }
    sl_arena_done(&arena);
}

static void run_file(struct sl_test *test, const char *path,
                     struct sl_flow_daemon *daemon)
{
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
    struct sl_flow_file file;
    struct sl_diag diag;
    struct sl_str line;
    struct sl_buf buf;
    int err;

    /* One byte above the maximum, so that a longer file is noticed. */
    sl_buf_init(&buf, SL_FLOW_BYTES + 1, &sl_alloc_libc);
    if (sl_read_all(test->args->cli, path, &buf)) {
        refuse_errno(test, name, errno);
    } else {
        err = sl_flow_read(name, sl_buf_str(&buf), &sl_alloc_libc, &file, &diag,
                           &line);
        if (err == SLUICE_ENOMEM)
            refuse_errno(test, name, ENOMEM);
        else if (err)
            refuse_file(test, name, &diag, line);
        else
            run_flows(test, &file, daemon);
        if (!err)
            sl_flow_file_done(&file);
    }
    sl_buf_done(&buf);
}

static int run_all(struct sl_cli_args *args, struct sl_flow_daemon *daemon)
{
    struct sl_test test = {.args = args};

    sl_test_begin(&test);
    for (size_t i = 0; i < args->word_count; i++)
        run_file(&test, args->words[i], daemon);
    sl_test_end(&test);
    return test.status;
}

static int run_over_http(struct sl_cli_args *args, const char *url,
                         const char *admin)
{
    struct sl_flow_daemon daemon;
    int status;

    if (sl_flow_daemon_init(&daemon, url, admin, &sl_alloc_libc))
        status = sl_cli_error(args, SL_EXIT_USAGE, "%s", daemon.why.sentence);
    else
        status = run_all(args, &daemon);
    sl_flow_daemon_done(&daemon);
    return status;
}

static int run(struct sl_cli_args *args)
{
    const char *url = sl_cli_args_flag(args, "url");
    const char *admin = sl_cli_args_flag(args, "admin-url");

    if (!url && !admin)
        return run_all(args, NULL);
    if (!url || !admin)
        return sl_cli_error(args, SL_EXIT_USAGE,
                            "--url and --admin-url must be used together: "
                            "checks go to one, policy and clock to the other");
    return run_over_http(args, url, admin);
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
    .help = "Each flow starts with empty state at 1970-01-01T00:00:00Z and has "
            "its own clock.\n"
            "A flow stops at the first line whose answer differs from the "
            "expected one:\n"
            "\n"
            "  ai.flow:7: want retry=12s, got retry=11s\n"
            "\n"
            "  sluice test ai.flow\n"
            "  sluice test -o tap flows/*.flow\n"
            "\n"
            "With --url and --admin-url each line also goes to a daemon, over "
            "HTTP\n"
            "(http://127.0.0.1:8080) or the Redis protocol "
            "(redis://127.0.0.1:6380). Its\n"
            "verdicts must be identical byte for byte. The test replaces the "
            "daemon's policy\n"
            "and clears its state, so use a test build: sluiced-test "
            "--clock=virtual\n"
            "--store memory:\n",
    .words = "file",
    .formats = "table|json|tap",
    .flags = flags,
    .least = 1,
    .most = (unsigned)-1,
    .run = run,
};
