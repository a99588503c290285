/* test.c -- sluice test: run flow files. */
#include <errno.h>
#include <string.h>

#include "cli/errand.h"
#include "cli/flow/remote.h"
#include "cli/flow/run.h"
#include "cli/out.h"
#include "cli/report.h"

#define OUTCOME_BYTES (4 * 1024 * 1024) /* what can be said about one flow */
#define LINE_SHOWN    400               /* longer lines are not shown */

/* What is wrong with a file, with its line and a caret. */
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

    sl_refuse(&diag, 0, "%s", strerror(why));
    refuse_file(test, path, &diag, (struct sl_str){NULL, 0});
}

static void run_flows(struct sl_test *test, const struct sl_flow_file *file,
                      struct sl_remote *remote)
{
    const struct sl_flow *flow;
    struct sl_arena arena;
    struct sl_outcome out;

    sl_arena_init(&arena, OUTCOME_BYTES, &sl_alloc_libc);
    for (flow = file->flows; flow; flow = flow->next) {
        sl_flow_run(flow, file->name, remote, &arena, &out);
        sl_test_flow(test, file->name, flow, &out);
        sl_arena_reset(&arena);
    }
    sl_arena_done(&arena);
}

static void run_file(struct sl_test *test, const char *path,
                     struct sl_remote *remote)
{
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
    struct sl_flow_file file;
    struct sl_diag diag;
    struct sl_str line;
    struct sl_buf buf;
    int err;

    /* One byte more than is allowed, so that too much is seen. */
    sl_buf_init(&buf, SL_FLOW_BYTES + 1, &sl_alloc_libc);
    if (sl_read_all(test->call->cli, path, &buf)) {
        refuse_errno(test, name, errno);
    } else {
        err = sl_flow_read(name, sl_buf_str(&buf), &sl_alloc_libc, &file, &diag,
                           &line);
        if (err == SLUICE_ENOMEM)
            refuse_errno(test, name, ENOMEM);
        else if (err)
            refuse_file(test, name, &diag, line);
        else
            run_flows(test, &file, remote);
        if (!err)
            sl_flow_file_done(&file);
    }
    sl_buf_done(&buf);
}

static int run_all(struct sl_call *call, struct sl_remote *remote)
{
    struct sl_test test = {.call = call};

    sl_test_begin(&test);
    for (size_t i = 0; i < call->word_count; i++)
        run_file(&test, call->words[i], remote);
    sl_test_end(&test);
    return test.status;
}

static int run_over_http(struct sl_call *call, const char *url,
                         const char *admin)
{
    struct sl_remote remote;
    int status;

    if (sl_remote_init(&remote, url, admin, &sl_alloc_libc))
        status = sl_complain(call, SL_EXIT_USAGE, "%s", remote.why.sentence);
    else
        status = run_all(call, &remote);
    sl_remote_done(&remote);
    return status;
}

static int run(struct sl_call *call)
{
    const char *url = sl_call_flag(call, "url");
    const char *admin = sl_call_flag(call, "admin-url");

    if (!url && !admin)
        return run_all(call, NULL);
    if (!url || !admin)
        return sl_complain(call, SL_EXIT_USAGE,
                           "--url and --admin-url must be used together: "
                           "checks go to one, policy and clock to the other");
    return run_over_http(call, url, admin);
}

static const struct sl_flag flags[] = {
    {'\0', "url",       "URL", "also run against a test daemon at this URL"},
    {'\0', "admin-url", "URL", "URL of its admin listener"                 },
    {'\0', NULL,        NULL,  NULL                                        },
};

const struct sl_errand sl_errand_test = {
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
