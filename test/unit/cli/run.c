/* run.c -- commands that use a policy, run in this process. */
#include <unistd.h>

#include "cli/flow/flow.h"
#include "fail.h"
#include "send.h"

#define POLICY "../../flow/a.yaml"

static const char good[] = "sluice: 1\n"
                           "limits:\n"
                           "  api: { kind: token-bucket, per: user, rate: "
                           "5/min burst 8 }\n"
                           "default: [api]\n";

static const char bad[] = "sluice: 1\n"
                          "limts: {}\n"
                          "default: []\n";

static void test_capacity(void)
{
    CASE("keys that fit");
    prints_in(good, 0, "check --capacity -",
              "67108864 bytes have 2390685 slots. With more than 1960292 keys");
    CHECK_OUT("\nLIMIT ");
    CHECK_OUT("\nCL.THROTTLE  ");
    prints_in(good, 0, "check --capacity --memory 1GiB -o json -",
              "{\"memory\":1073741824,\"slots\":38634345,\"keys\":31680126,"
              "\"limits\":[{\"name\":\"api\",\"alone\":");
    reports(2, "check --memory 1GiB " POLICY, "--memory needs --capacity");
    reports(2, "check --capacity --memory 1kB " POLICY,
            "--memory must be between 1MiB and 1TiB, not 1kB");
    reports(2, "check --capacity --memory x " POLICY, "--memory: ");
    ends_in(bad, 3, "check --capacity -");
    CHECK_STR(sent_out, "");
}

static void test_check(void)
{
    CASE("a policy that is right");
    ends(0, "check " POLICY);
    CHECK_STR(sent_out, POLICY ": ok: 4 limits, 6 routes, 2 plans\n");
    CHECK_STR(sent_err, "");
    ends_in(good, 0, "check -");
    CHECK_STR(sent_out, "-: ok: 1 limit, 0 routes, 1 plan\n");

    CASE("a policy that is not");
    ends_in(bad, 3, "check -");
    CHECK_STR(sent_out, "");
    CHECK_ERR("stdin:2:1: ");
    CHECK_ERR("limits");
    prints_in(bad, 3, "check " POLICY " -", "ok: 4 limits");
    reports(3, "check no/such.yaml", "no/such.yaml");

    CASE("as JSON");
    ends(0, "check -o json " POLICY);
    CHECK_STR(sent_out, "{\"file\":\"" POLICY "\",\"ok\":true,\"errors\":0,"
                        "\"warnings\":0,\"problems\":[]}\n");
    prints_in(bad, 3, "check - --output=json",
              "{\"file\":\"-\",\"ok\":false,\"errors\":");
    CHECK_OUT("{\"file\":\"stdin\",\"line\":2,\"column\":1,\"severity\":"
              "\"error\",\"message\":");
    CHECK_STR(sent_err, "");
    prints(3, "check -ojson no/such.yaml", "\"ok\":false,\"errors\":1");

    CASE("as it was understood");
    ends(0, "check --print " POLICY);
    CHECK(strncmp(sent_out, "sluice: 1\nenv: ", 15) == 0);
    CHECK_OUT("    on_full: allow\n");
    CHECK(!strstr(sent_out, ": ok"));
    CHECK_STR(sent_err, "");
    prints_in(good, 0, "check --print -", "    rate: 5/min burst 8\n");
    CHECK_OUT("\ndefault: [api]\n");
    prints_in("sluice: 1\n", 0, "check --print -", "sluice: 1\n");
    CHECK_ERR("warning");
    ends_in(bad, 3, "check --print -");
    CHECK_STR(sent_out, "");
    CHECK_ERR("stdin:2:1: ");
    ends(2, "check --print");
    reports(2, "check --print " POLICY " " POLICY,
            "--print accepts one policy, not 2");
    reports(2, "check --print -o json " POLICY, "--print writes YAML");

    CASE("the language");
    prints(0, "check --schema", "\"$schema\"");
    prints(0, "check --reference", "# ");
}

static void test_explain(void)
{
    CASE("a request that passes");
    prints(0, "explain " POLICY " 'GET /x' user=ann plan=pro", "api");
    CHECK_OUT("ann");
    CHECK_OUT("pro");
    ends(0, "explain " POLICY " GET /x user=ann");
    ends(0, "explain " POLICY " 'job work' org=acme cost=10");
    ends(0, "explain " POLICY " 'take api ann'");
    ends_in(good, 0, "explain - 'GET /x' 'header.x-user=a b'");

    CASE("one that does not");
    prints(1, "explain " POLICY " 'job work' org=acme cost=11", "month");
    ends(1, "explain " POLICY " 'GET /x' user=a cost.api=4");

    CASE("as JSON, at an instant");
    prints(0,
           "explain -ojson " POLICY
           " 'job work' org=acme at=2026-01-31T23:59:59Z",
           "{\"allowed\":true,\"status\":200");
    CHECK_OUT("\"reset_ms\":1000");
    prints(0, "explain -ojson " POLICY " 'job work' org=acme at=30d",
           "\"reset_ms\":86400000");

    CASE("who asks, and what would be left");
    prints(0, "explain " POLICY " 'GET /x' user=ann 'role=r\nx'",
           "\ncaller   user ann, role r\\x0ax; plan ");
    CHECK_OUT(" left, ");
    CHECK_OUT(" after this\n");
}

static void test_explain_slips(void)
{
    CASE("slips");
    reports(2, "explain " POLICY " GET",
            "write 'GET /path', 'job NAME' or 'take LIMIT KEY'");
    ends(2, "explain " POLICY " ' '");
    reports(2, "explain " POLICY " 'GET /x' usr=ann", "write: user=ann");
    ends(2, "explain " POLICY " 'GET /x' at=noon");
    ends(2, "explain " POLICY " 'GET /x' at=60000d");
    reports(2, "explain " POLICY " 'GET /x' x2",
            "xN cannot be used with explain");
    reports(2, "explain " POLICY " 'GET /x' evry=1s",
            "idempotency_key and at\n");
    reports(2, "explain " POLICY " 'GET /x' att=1s", "write: at=1s");
    reports(2, "explain " POLICY " 'GET /x' 8x",
            "\"8x\" is not an input; write NAME=VALUE\n");
    ends(2, "explain " POLICY " 'GET /x' user=a cost.qq=10");
    CHECK_STR(sent_out, "");
    CHECK_ERR("the policy has no limit \"qq\"\n");
    reports(2, "explain " POLICY " 'GET /x' user=a cost.aip=10",
            "the policy has no limit \"aip\"; did you mean \"api\"?\n");
    ends(0, "explain " POLICY " 'GET /x' user=a cost.month=10");
    ends(2, "explain " POLICY " 'take aip x'");
    ends_in(bad, 3, "explain - 'GET /x'");
    ends(3, "explain no/such.yaml 'GET /x'");
    CHECK_STR(sent_err,
              "no/such.yaml: can't be read: No such file or directory\n");
}

static void test_flows(void)
{
    CASE("flows that pass");
    prints(0,
           "test ../../flow/a01-acts.flow ../../flow/a02-clock.flow "
           "../../flow/a03-subjects.flow ../../flow/a04-reload.flow",
           "ok   ../../flow/a04-reload.flow: what was used stays used (7 "
           "lines)\n");
    CHECK_OUT(" passed, 0 failed\n");
    ends(0, "test -otap ../../flow/a04-reload.flow");
    CHECK_STR(sent_out,
              "ok 1 - ../../flow/a04-reload.flow: what was used stays used\n"
              "ok 2 - ../../flow/a04-reload.flow: each flow begins with "
              "nothing used\n1..2\n");
    prints(0, "test -ojson ../../flow/a04-reload.flow",
           "{\"flows\":[{\"file\":\"../../flow/a04-reload.flow\",\"name\":"
           "\"what was used stays used\",\"ok\":true,\"lines\":7,\"line\":0,"
           "\"misses\":[],\"message\":\"\"},{");
    CHECK_OUT("],\"passed\":2,\"failed\":0}\n");
}

/* A flow on the policy, from standard input. */
static int flow(const char *lines, const char *format)
{
    char text[1024];

    snprintf(text, sizeof(text), "flow f\npolicy " POLICY "\n%s", lines);
    return SEND_IN(text, "test", "-", "-o", format);
}

static void test_misses(void)
{
    static const char lines[] =
        "GET /x user=ann x3\n"
        "GET /x user=ann -> 200 retry=12s by=other body.x=1 header.y=2\n"
        "GET /x user=ann -> 300\n";

    CASE("every field that is wrong on the first line that is");
    CHECK_EQ(flow(lines, "table"), 1);
    CHECK_STR(sent_out, "FAIL stdin: f (2 lines)\n"
                        "stdin:4: want 200, got 429\n"
                        "stdin:4: want retry=12s, got retry=500ms\n"
                        "stdin:4: want by=other, got by=api\n"
                        "stdin:4: want body.x=1, got body.x=none\n"
                        "stdin:4: want header.y=2, got header.y=none\n"
                        "0 passed, 1 failed\n");
    CHECK_STR(sent_err, "");
    CHECK_EQ(flow(lines, "tap"), 1);
    CHECK_OUT("# stdin:4: want retry=12s, got retry=500ms\n");
    CHECK_OUT("not ok 1 - stdin: f\n1..1\n");
    CHECK_EQ(flow(lines, "json"), 1);
    CHECK_OUT("\"ok\":false,\"lines\":2,\"line\":4,\"misses\":[{\"field\":\"\","
              "\"want\":\"200\",\"got\":\"429\"},{\"field\":\"retry\",");

    CASE("outcomes in words");
    CHECK_EQ(flow("GET /x user=a -> deny\n", "table"), 1);
    CHECK_OUT("want deny, got allow\n");
    CHECK_EQ(flow("GET /x user=a cost=9 -> ok\n", "table"), 1);
    CHECK_OUT("want ok, got never\n");
    CHECK_EQ(flow("GET /x user=a x4 -> never\n", "table"), 1);
    CHECK_OUT("want never, got deny\n");

    CASE("numbers and spans that are not there");
    CHECK_EQ(flow("GET /x user=a -> quota=1 wait=1s retry=0s\n", "table"), 1);
    CHECK_OUT("want quota=1, got quota=none\n");
    CHECK_OUT("want retry=0s, got retry=none\n");
    CHECK_EQ(flow("GET /x user=a -> limit=none allowed=2\n", "table"), 1);
    CHECK_OUT("want limit=none, got limit=2\n");
    CHECK_OUT("want allowed=2, got allowed=1\n");
}

static void test_stops(void)
{
    static const struct {
        const char *line, *sentence;
    } rows[] = {
        {"GET / token=t",
         "token=: the policy does not accept tokens; it has no "
         "identity.jwt"                                                       },
        {"settle h1 cost=1",
         "there is no hold \"h1\"; write as=h1 on the line that takes it"     },
        {"usage planet acme month 1", "usage is reported for user or org"     },
        {"feature nothing on",        "the policy has no feature \"nothing\"" },
        {"take nothing ann",          "the policy has no limit \"nothing\""   },
        {"GET / cost.nothing=1",      "the policy has no limit \"nothing\""   },
        {"subject user a nothing=5",  "the policy has no limit \"nothing\""   },
        {"GET / x2 every=106751d",    "the clock would be after the year 2115"},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].line);
        CHECK_EQ(flow(rows[i].line, "table"), 1);
        CHECK_OUT(": ");
        CHECK_OUT(rows[i].sentence);
    }
    CASE("the clock is moved beyond its end");
    CHECK_EQ(flow("at 42000d\nat +20000d\nGET /", "table"), 1);
    CHECK_OUT("stdin:4: the clock would be after the year 2115\n");

    CASE("files that are no flows are told on err, and go before failures");
    CHECK_EQ(flow("GET / -> 200 retri=1s\n", "table"), 2);
    CHECK_ERR("stdin:3:14: unknown expectation \"retri\"");
    CHECK_ERR("\n  GET / -> 200 retri=1s\n               ^\n  write: "
              "retry=1s\n");
    CHECK_EQ(flow("GET", "json"), 2);
    CHECK_OUT("\"ok\":false");
    CHECK_EQ(flow("GET", "tap"), 2);
    CHECK_OUT("not ok 1 - stdin: cannot be read\n1..1\n");
    ends(2, "test no/such.flow");
    CHECK_STR(sent_err, "no/such.flow: No such file or directory\n");

    CASE("policies that are refused");
    reports_in("policy no/such.yaml\nflow f\nGET /\nflow g\nGET /\n", 3,
               "test -", "no/such.yaml");
    CHECK_OUT("0 passed, 2 failed\n");
    CHECK_EQ(flow("reload no/such.yaml", "tap"), 3);
    CHECK_OUT("# the policy is invalid\nnot ok 1 - stdin: f\n");
}

/* Run a flow with the nth allocation failing; returns the result. */
static enum sl_flow_result without_memory(const struct sl_flow_file *file,
                                          unsigned nth)
{
    struct fail f = {.nth = nth};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_arena arena;
    struct sl_flow_outcome out;

    sl_arena_init(&arena, 1 << 20, &alloc);
    sl_flow_run(file->flows, file->name, NULL, &arena, &out);
    if (out.end == SL_END_BROKEN)
        CHECK_STR(out.message, "out of memory");
    else
        CHECK(out.misses != NULL);
    sl_arena_done(&arena);
    fail_check(&f);
    return out.end;
}

static void test_memory(void)
{
    static const char text[] = "flow f\npolicy " POLICY "\n"
                               "subject user ann plan=pro\n"
                               "reload " POLICY "\n"
                               "GET /x user=ann -> 429 body.x=y retry=1s\n";
    struct sl_flow_file file;
    struct sl_diag diag;
    struct sl_str line;
    unsigned nth = 1;

    CASE("a run without memory");
    if (!CHECK_EQ(sl_flow_read("x", sl_str_c(text), &sl_alloc_libc, &file,
                               &diag, &line),
                  0))
        return;
    while (without_memory(&file, nth) == SL_END_BROKEN && nth < 100)
        nth++;
    CHECK(nth > 1 && nth < 100);
    CHECK_EQ(without_memory(&file, nth), SL_END_FAILED);
    sl_flow_file_done(&file);
}

static void test_init(void)
{
    char folder[] = "/tmp/sluice-init-XXXXXX", path[64];

    CASE("a starter that passes without a warning");
    ends(0, "init -");
    {
        char *starter = strdup(sent_out);

        ends_in(starter, 0, "check -");
        CHECK_STR(sent_out, "-: ok: 2 limits, 2 routes, 2 plans\n");
        CHECK_STR(sent_err, "");
        free(starter);
    }
    CASE("it is written once");
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/a.yaml", folder);
    CHECK_EQ(SEND("init", path), 0);
    CHECK_OUT("sluice check ");
    CHECK_EQ(SEND("check", path), 0);
    CHECK_EQ(SEND("init", path), 1);
    CHECK_ERR("already exists");
    unlink(path);
    rmdir(folder);
    CHECK_EQ(SEND("init", path), 1);
    CHECK_ERR("No such file or directory");
}

static void test_bench(void)
{
    CASE("a bench of a millisecond is exact too");
    prints(0, "bench --duration 1ms --threads=2 --keys 1k",
           "GET /bench: 2 threads, 1000 keys, 1ms\n");
    CHECK_OUT("yes: 10000 admitted");
    prints(0, "bench " POLICY " --duration=1ms -ojson",
           "{\"request\":\"GET /both\"");
    CHECK_OUT("\"exact\":true,\"admitted\":3,\"expected\":3}\n");

    CASE("what a bench can't do");
    reports(2, "bench --url http://x", "is not the URL of a server");
    reports(2, "bench --threads 0",
            "--threads must lie between 1 and 128, not 0");
    ends(2, "bench --threads many");
    ends(2, "bench --duration 1h");
    ends(2, "bench --duration 1");
    ends_in(bad, 3, "bench -");
    reports_in("sluice: 1\ndefault: []\n", 1, "bench -", "nothing to measure");
}

static void test_colours(void)
{
    CASE("colours are forced, and forbidden");
    unsetenv("NO_COLOR");
    setenv("CLICOLOR_FORCE", "1", 1);
    prints(0, "check " POLICY, "\033[32mok\033[0m");
    setenv("NO_COLOR", "1", 1);
    ends(0, "check " POLICY);
    CHECK(!strchr(sent_out, '\033'));
    unsetenv("CLICOLOR_FORCE");
    unsetenv("NO_COLOR");
    ends(0, "check " POLICY);
    CHECK(!strchr(sent_out, '\033'));
}

int main(void)
{
    test_colours();
    test_check();
    test_capacity();
    test_explain();
    test_explain_slips();
    test_flows();
    test_misses();
    test_stops();
    test_memory();
    test_init();
    test_bench();
    send_done();
    return CHECK_DONE();
}
