/* policy_source.c -- a policy and its text: the demo, files, what is posted. */
#include "sluiced/policy_source.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "sluiced/daemon.h"

static struct sl_policy_source written;
static struct sl_report report;
static struct sl_diag why;
static const struct sl_policy *active;

static int read_it(const char *path, const char *posted)
{
    struct sl_str text = sl_str_c(posted);

    why = (struct sl_diag){0};
    return sl_policy_source_read(&written, path, posted ? &text : NULL, active,
                                 &report, &why);
}

static void done(void)
{
    sl_report_done(&report);
    sl_policy_source_done(&written);
}

TEST(demo)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    CASE("the demo is right, without a doubt");
    CHECK_EQ(read_it(NULL, NULL), 0);
    CHECK_EQ(report.errors + report.warnings, 0);
    CHECK_EQ(written.policy->rule_count, 4);
    done();

    CASE("what is to be tried names the addresses");
    sl_demo_print(out, "127.0.0.1:1234", "127.0.0.1:99", "unix:/x.sock", NULL);
    fclose(out);
    CHECK(strstr(text, "curl -s http://127.0.0.1:1234/v1/check -d '{") != NULL);
    CHECK(strstr(text, "curl -i http://127.0.0.1:1234/v1/auth -H ") != NULL);
    CHECK(strstr(text, "curl -s --unix-socket /x.sock "
                       "http://localhost/metrics") != NULL);
    CHECK(strstr(text, "redis-cli -p 99 CL.THROTTLE carol") != NULL);
    CHECK(strstr(text, "sluice init") != NULL);
    CHECK(strstr(text, "State is kept in memory only.") != NULL);

    CASE("and pages come first, unless they are on a unix socket");
    CHECK(strstr(text, "Open in a browser:\n\n"
                       "  what users see  http://127.0.0.1:1234/ui/demo/\n\n"
                       "sluiced runs") == text);
    CHECK(strstr(text, "the console") == NULL);
    free(text);

    CASE("unless it is kept");
    out = open_memstream(&text, &len);
    sl_demo_print(out, "*:1234", "unix:/r", "[::1]:90", "/x.state");
    fclose(out);
    CHECK(strstr(text, "http://127.0.0.1:1234/ui/demo/\n") != NULL);
    CHECK(strstr(text, "  the console     http://[::1]:90/ui/\n") != NULL);
    CHECK(strstr(text, "State is kept in /x.state.") != NULL);
    CHECK(strstr(text, "redis-cli -s /r CL.THROTTLE") != NULL);
    free(text);
}

static const char good[] =
    "sluice: 1\n"
    "server: { access_token: \"${FILE:./token}\", admin_token: \"abc\" }\n"
    "limits: { a: { kind: fixed-window, per: ip, rate: 5/min } }\n"
    "default: [a]\n";

TEST_WITH(files, const char *folder)
{
    char path[96], token[96];
    struct sl_buf out;

    snprintf(path, sizeof(path), "%s/p.yaml", folder);
    snprintf(token, sizeof(token), "%s/token", folder);
    put_file(path, good);
    put_file(token, "s3cret\n");

    CASE("files are found beside the policy");
    CHECK_EQ(read_it(path, NULL), 0);
    CHECK(sl_str_eq(written.policy->server.access_token, SL_STR("s3cret")));
    CHECK_EQ(strlen(written.hash), 64);

    CASE("what is shown has no secret");
    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_policy_source_print(&written, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    CHECK(strstr(out.bytes, "s3cret") == NULL);
    CHECK(strstr(out.bytes, "abc") == NULL);
    CHECK(strstr(out.bytes, "${FILE:./token}") != NULL);
    sl_buf_done(&out);
    done();

    CASE("what is sent with POST can read neither files nor variables");
    CHECK_EQ(read_it(path, good), SLUICE_ECONF);
    CHECK_EQ(report.errors, 1);
    CHECK(strstr(report.problems[0].diag.sentence, "sent with POST") != NULL);
    done();
    setenv("SL_TEST_SECRET", "s3cret", 1);
    CHECK_EQ(read_it(path, "sluice: 1\nenv: \"${ENV:SL_TEST_SECRET}\"\n"),
             SLUICE_ECONF);
    done();

    CASE("but its features follow the environment");
    setenv("FEATURE_CHAT", "false", 1);
    CHECK_EQ(read_it(path, "sluice: 1\nfeatures: { chat: { enabled: true } }\n"
                           "default: []\n"),
             0);
    CHECK(!written.policy->features[0].enabled);
    done();
    unlink(path);
    unlink(token);
}

TEST(posted)
{
    static const char file[] =
        "sluice: 1\nenv: \"${ENV:SL_TEST_SECRET}\"\ndefault: []\n";
    struct sl_policy_source first;
    char place[] = "/tmp/sluice-posted.XXXXXX";

    CASE("a posted policy has what the active one has under the same key");
    setenv("SL_TEST_SECRET", "s3cret", 1);
    setenv("SL_TEST_OTHER", "other", 1);
    close(mkstemp(place));
    put_file(place, file);
    CHECK_EQ(read_it(place, NULL), 0);
    sl_report_done(&report);
    first = written;
    active = first.policy;
    CHECK_EQ(read_it(place, file), 0);
    CHECK_STR(written.policy->env.at, "s3cret");
    done();
    CHECK_EQ(read_it(place,
                     "sluice: 1\nlimits: { a: { kind: fixed-window, rate: "
                     "1/s, deny: { message: \"${ENV:SL_TEST_SECRET}\" } } "
                     "}\ndefault: [a]\n"),
             SLUICE_ECONF);
    CHECK_EQ(report.errors, 1);
    done();
    CHECK_EQ(read_it(place, "sluice: 1\nerrors: { rate_limited: { body: { "
                            "x: \"${ENV:SL_TEST_SECRET}\" } } }\n"
                            "default: []\n"),
             SLUICE_ECONF);
    done();
    CHECK_EQ(read_it(place, "sluice: 1\nenv: \"${ENV:SL_TEST_SECRE}\"\n"),
             SLUICE_ECONF);
    done();

    CASE("a variable that it may not read has its default");
    CHECK_EQ(read_it(place, "sluice: 1\nenv: \"${ENV:SL_TEST_OTHER:-x}\"\n"
                            "default: []\n"),
             0);
    CHECK_STR(written.policy->env.at, "x");
    done();
    CHECK_EQ(read_it(place, "sluice: 1\nlimits: { a: { kind: fixed-window, "
                            "rate: 1/s, deny: { message: "
                            "\"${ENV:SL_TEST_SECRET:-x}\" } } }\n"
                            "default: [a]\n"),
             SLUICE_ECONF);
    done();
    active = NULL;
    sl_policy_source_done(&first);
    unlink(place);
}

TEST(bad)
{
    CASE("a file that is not there");
    CHECK_EQ(read_it("/nowhere/p.yaml", NULL), SLUICE_ESYS);
    CHECK(strstr(why.sentence, "/nowhere/p.yaml can't be read") != NULL);
    done();

    CASE("a mistake has its place");
    CHECK_EQ(read_it("p.yaml", "sluice: 1\nlimitz: {}\n"), SLUICE_ECONF);
    CHECK_EQ(report.problems[0].diag.line, 2);
    CHECK_STR(report.problems[0].diag.file, "posted");
    done();
}

int main(void)
{
    char folder[] = "/tmp/sluiced-written-XXXXXX";

    CHECK(mkdtemp(folder) != NULL);
    RUN_TESTS_WITH(folder);
    rmdir(folder);
    return CHECK_DONE();
}
