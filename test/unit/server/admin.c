/* admin.c -- the admin listener: what each path answers to whom. */
#include "server/http/admin.h"
#include "asking.h"
#include "counted.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  calls: { kind: token-bucket, per: user, rate: 10/min }\n"
    "features:\n"
    "  assistant: { enabled: true }\n"
    "  beta: { enabled: false }\n"
    "default: [calls]\n";

/* The program around the listener. */
struct program {
    bool ready, silent;
    int err;            /* of the next call that may fail */
    const char *report; /* of the next reload */
    char text[64];      /* of the last reload */
    sl_ns clock;
    struct rig rig;
    struct counted counted;
};

static struct program program;

static bool on_ready(void *ctx, struct sl_buf *why)
{
    struct program *p = ctx;

    if (!p->ready && !p->silent &&
        sl_buf_add(why, SL_STR("it is about to stop")))
        return false;
    return p->ready;
}

static int on_reload(void *ctx, struct sl_str text, struct sl_buf *report)
{
    struct program *p = ctx;

    snprintf(p->text, sizeof(p->text), "%.*s", SL_STR_ARG(text));
    return sl_buf_add(report, sl_str_c(p->report)) ? SLUICE_ENOMEM : p->err;
}

static int on_policy(void *ctx, struct sl_buf *out)
{
    (void)ctx;
    return sl_buf_add(out, SL_STR("sluice: 1\n"));
}

static int on_metrics(void *ctx, bool open_metrics, struct sl_buf *out)
{
    struct program *p = ctx;

    return p->err ? p->err
                  : sl_metrics_render(p->counted.stats, 1, &p->counted.now,
                                      open_metrics, out);
}

static int on_feature(void *ctx, struct sl_str name, int on,
                      struct sl_diag *diag)
{
    struct program *p = ctx;

    return p->err ? sl_diag_error(diag, p->err, "it is stuck")
                  : sl_engine_switch(p->rig.engine, name, on, diag);
}

static int on_top(void *ctx, const struct sl_top_keys_query *query,
                  struct sl_arena *arena, struct sl_top_keys_answer *ret)
{
    *ret = (struct sl_top_keys_answer){.from = query->now};
    return arena ? ((struct program *)ctx)->err : SLUICE_ENOMEM;
}

static int on_clock(void *ctx, sl_ns now)
{
    struct program *p = ctx;

    p->clock = now;
    return p->err;
}

static struct sl_admin admin = {
    .ctx = &program,
    .ready = on_ready,
    .reload = on_reload,
    .policy = on_policy,
    .metrics = on_metrics,
    .top = on_top,
    .feature = on_feature,
    .set_clock = on_clock,
};

static struct sl_server door = {
    .protocol = &sl_protocol_http, .name = "admin", .ctx = &admin};
static struct sl_server_worker worker;
static struct sl_http1 request;
static struct sl_http_call *call; /* the last one */
static char body[1 << 16];
static const char *host = "127.0.0.1:9090";
static bool by_unix; /* through a unix socket */

/* Ask; `field` is "Name: value" or NULL. Returns the status, and the body is
 * in `body`. */
static int ask(const char *method, const char *target, const char *field,
               const char *sent)
{
    const char *colon = field ? strchr(field, ':') : NULL;

    memset(&request, 0, sizeof(request));
    request.method = sl_str_c(method);
    request.target = sl_str_c(target);
    request.host = sl_str_c(host);
    request.body = sl_str_c(sent);
    if (colon) {
        request.fields[0].name =
            (struct sl_str){field, (size_t)(colon - field)};
        request.fields[0].value = sl_str_trim(sl_str_c(colon + 1));
        request.field_count = 1;
    }
    sl_http_call_done(call);
    call = sl_http_call_new(&worker);
    if (!call) /* the server closes the connection */
        return 0;
    call->request = &request;
    call->peer_is_unix = by_unix;
    CHECK(sl_http_handle(call));
    snprintf(body, sizeof(body), "%.*s", SL_STR_ARG(call->body));
    return call->status;
}

static void done(void)
{
    sl_http_call_done(call);
    call = NULL;
    sl_server_worker_close(&worker);
}

static const char *type_of_answer(void)
{
    static char text[100];

    snprintf(text, sizeof(text), "%.*s", SL_STR_ARG(call->content_type));
    return text;
}

static void check_health(void)
{
    CASE("alive, whatever else is wrong");
    program.ready = false;
    CHECK_EQ(ask("GET", "/livez", NULL, ""), 200);
    CHECK_STR(body, "ok\n");
    CHECK_EQ(ask("GET", "/livez?verbose", NULL, ""), 200);
    CHECK_STR(body, "[+] process: it turns\nok\n");

    CASE("not ready, and why");
    CHECK_EQ(ask("GET", "/readyz", NULL, ""), 503);
    CHECK_STR(body, "it is about to stop\n");
    CHECK_EQ(ask("GET", "/readyz?verbose", NULL, ""), 503);
    CHECK_STR(body, "[+] process: it turns\n"
                    "[-] requests: it is about to stop\nnot ready\n");
    program.silent = true;
    CHECK_EQ(ask("GET", "/healthz", NULL, ""), 503);
    CHECK_STR(body, "it does not serve\n");

    CASE("ready");
    program.ready = true;
    CHECK_EQ(ask("GET", "/readyz", NULL, ""), 200);
    CHECK_STR(body, "ok\n");
    CHECK_EQ(ask("GET", "/healthz?verbose=1", NULL, ""), 200);
    CHECK_STR(body, "[+] process: it turns\n"
                    "[+] requests: they are served\nok\n");
    CHECK_STR(type_of_answer(), "text/plain; charset=utf-8");

    CASE("no cache may answer");
    CHECK_EQ(call->field_count, 1);
    CHECK(sl_str_eq(call->fields[0].value, SL_STR("no-store")));
}

/* What Prometheus sends. */
#define OPEN "application/openmetrics-text"
#define ACCEPT                                                                 \
    "Accept: " OPEN ";version=1.0.0," OPEN ";version=0.0.1;q=0.75,"            \
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

static void check_metrics(void)
{
    static const struct {
        bool open;
        const char *accept;
    } rows[] = {
        {false, NULL                                                 },
        {false, "Accept: */*"                                        },
        {false, "Accept: text/plain"                                 },
        {true,  "Accept: " OPEN                                      },
        {true,  "Accept: Application/OpenMetrics-Text; version=1.0.0"},
        {true,  ACCEPT                                               },
        {false, "Accept: " OPEN ";q=0"                               },
        {false, "Accept: " OPEN "; q=0.5, text/plain"                },
        {true,  "Accept: " OPEN "; q=0.6, text/plain;q=0.50"         },
        {false, "Accept: " OPEN ";q=high"                            },
        {false, "Accept: ,;,"                                        },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].accept ? rows[i].accept : "no Accept");
        CHECK_EQ(ask("GET", "/metrics", rows[i].accept, ""), 200);
        CHECK_EQ(strstr(body, "# EOF\n") != NULL, rows[i].open);
        CHECK(strstr(body, "\nsluice_build_info{version=\""));
        CHECK_STR(type_of_answer(),
                  rows[i].open ? "application/openmetrics-text; version=1.0.0; "
                                 "charset=utf-8"
                               : "text/plain; version=0.0.4; charset=utf-8");
    }

    CASE("a page that is too large, or for which there is no memory");
    program.err = SLUICE_EFULL;
    CHECK_EQ(ask("GET", "/metrics", NULL, ""), 500);
    program.err = SLUICE_ENOMEM;
    CHECK_EQ(ask("GET", "/metrics", NULL, ""), 503);
    program.err = 0;
}

static void check_policy(void)
{
    CASE("the policy in force");
    CHECK_EQ(ask("GET", "/v1/policy", NULL, ""), 200);
    CHECK_STR(body, "sluice: 1\n");
    CHECK_STR(type_of_answer(), "application/yaml");

    CASE("read again from its file: what changed");
    program.report = "a \"b\" 5/min -> 10/min; usage kept\nc is new\n";
    CHECK_EQ(ask("POST", "/v1/policy", NULL, ""), 200);
    CHECK_STR(program.text, "");
    CHECK_STR(body, "{\"ok\":true,\"changes\":["
                    "\"a \\\"b\\\" 5/min -> 10/min; usage kept\","
                    "\"c is new\"]}");
    CHECK_STR(type_of_answer(), "application/json");

    CASE("nothing changed");
    program.report = "";
    CHECK_EQ(ask("POST", "/v1/policy", NULL, ""), 200);
    CHECK_STR(body, "{\"ok\":true,\"changes\":[]}");

    CASE("read from the body, and refused: each problem with its lines");
    program.report = "body:1:1: no\n  slice: 1\n  ^\nbody:2:1: also no";
    program.err = SLUICE_ECONF;
    CHECK_EQ(ask("POST", "/v1/policy", NULL, "slice: 1"), 422);
    CHECK_STR(program.text, "slice: 1");
    CHECK_STR(body, "{\"ok\":false,\"code\":\"POLICY_REFUSED\",\"message\":"
                    "\"the policy was refused; the one before it stays in "
                    "force\",\"problems\":[\"body:1:1: no\\n  slice: 1\\n  "
                    "^\",\"body:2:1: also no\"]}");

    CASE("other failures are not the policy's");
    program.err = SLUICE_ENOMEM;
    CHECK_EQ(ask("POST", "/v1/policy", NULL, ""), 503);
    program.err = SLUICE_ESYS;
    program.report = "it is gone";
    CHECK_EQ(ask("POST", "/v1/policy", NULL, ""), 500);
    CHECK(strstr(body, "could not be put in force: it is gone"));
    program.err = 0;

    CASE("no other methods");
    CHECK_EQ(ask("DELETE", "/v1/policy", NULL, ""), 405);
}

static void check_features(void)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[true]",
        "true",
        "{\"enabled\":1}",
        "{\"enabled\":\"false\"}",
        "{\"enabled\":true,\"enabled\":false}",
        "{\"enabled\":true,\"why\":\"\"}",
        "{\"enabled\":true} x",
    };
    static char large[5000];

    CASE("all switches");
    CHECK_EQ(ask("GET", "/v1/features", NULL, ""), 200);
    CHECK(strstr(body, "{\"name\":\"beta\",\"enabled\":false,"
                       "\"by_hand\":false}]}"));

    CASE("one, off, on, and left to the policy again");
    CHECK_EQ(ask("PUT", "/v1/features/beta", NULL, "{\"enabled\":true}"), 200);
    CHECK(
        strstr(body, "\"enabled\":true,\"by_hand\":true,\"persisted\":false"));
    CHECK_EQ(ask("GET", "/v1/features/beta", NULL, ""), 200);
    CHECK_STR(body, "{\"name\":\"beta\",\"enabled\":true,\"by_hand\":true}");
    CHECK_EQ(ask("POST", "/v1/features/beta", NULL, "{\"enabled\":false}"),
             200);
    CHECK_EQ(ask("DELETE", "/v1/features/beta", NULL, ""), 200);
    CHECK(strstr(body, "\"enabled\":false,\"by_hand\":false"));

    CASE("one that there is not");
    CHECK_EQ(ask("GET", "/v1/features/gamma", NULL, ""), 404);
    CHECK_EQ(ask("PUT", "/v1/features/gamma", NULL, "{\"enabled\":true}"), 404);
    CHECK(strstr(body, "the policy has no feature \\\"gamma\\\""));
    CHECK_EQ(ask("PUT", "/v1/features/", NULL, "{\"enabled\":true}"), 404);

    CASE("bodies that say something else");
    for (size_t i = 0; i < SL_LEN(bad); i++)
        CHECK_EQ(ask("PUT", "/v1/features/beta", NULL, bad[i]), 400);
    memset(large, ' ', sizeof(large) - 1);
    CHECK_EQ(ask("PUT", "/v1/features/beta", NULL, large), 413);
    CHECK_EQ(ask("GET", "/v1/features/beta", NULL, ""), 200);
    CHECK(strstr(body, "\"enabled\":false"));

    CASE("a program that can't switch");
    program.err = SLUICE_ESTORE;
    CHECK_EQ(ask("PUT", "/v1/features/beta", NULL, "{\"enabled\":true}"), 500);
    CHECK(strstr(body, "it is stuck"));
    program.err = 0;
}

static void check_clock(void)
{
    static const char *const bad[] = {
        "{\"now\":-1}",   "{\"now\":1.5}",
        "{\"now\":true}", "{\"now\":\"yesterday\"}",
        "{\"at\":1}",     "{\"now\":9223372036854775807}",
    };

    CASE("the clock of tests, by instant and by number");
    CHECK_EQ(ask("POST", "/v1/clock", NULL, "{\"now\":\"1970-01-01T00:01Z\"}"),
             400);
    CHECK_EQ(
        ask("POST", "/v1/clock", NULL, "{\"now\":\"2026-03-31T23:59:59.9Z\"}"),
        200);
    CHECK_EQ(program.clock, INT64_C(1775001599900000000));
    CHECK_STR(body, "{\"now\":\"2026-03-31T23:59:59.900Z\",\"ns\":"
                    "1775001599900000000}");
    CHECK_EQ(ask("POST", "/v1/clock", NULL, "{\"now\":1775001599900000001}"),
             200);
    CHECK_EQ(program.clock, INT64_C(1775001599900000001));

    CASE("no instants");
    for (size_t i = 0; i < SL_LEN(bad); i++)
        CHECK_EQ(ask("POST", "/v1/clock", NULL, bad[i]), 400);
    CHECK_EQ(program.clock, INT64_C(1775001599900000001));

    CASE("a clock that can't be set");
    program.err = SLUICE_EINVAL;
    CHECK_EQ(ask("POST", "/v1/clock", NULL, "{\"now\":0}"), 500);
    program.err = 0;

    CASE("there is none in the shipped program");
    admin.set_clock = NULL;
    CHECK_EQ(ask("POST", "/v1/clock", NULL, "{\"now\":0}"), 404);
    admin.set_clock = on_clock;
}

static void check_subjects(void)
{
    CASE("without a registry there are no subjects");
    CHECK_EQ(ask("GET", "/v1/subjects", NULL, ""), 501);
    CHECK_EQ(ask("PUT", "/v1/subjects/org/acme", NULL, "{}"), 501);
    CHECK(strstr(body, "\"code\":\"NO_REGISTRY\""));
}

static void check_token(void)
{
    CASE("with a token: health and metrics need none, all else does");
    door.token = SL_STR("secret");
    for (unsigned i = 0; i < sl_admin_path_count; i++) {
        const struct sl_http_path *row = &sl_admin_paths[i];
        bool open = strcmp(row->path, "/livez") == 0 ||
                    strcmp(row->path, "/readyz") == 0 ||
                    strcmp(row->path, "/healthz") == 0 ||
                    strcmp(row->path, "/metrics") == 0;
        const char *method = row->method ? row->method : "GET";
        int status;

        CHECK_EQ(ask(method, row->path, NULL, ""), open ? 200 : 401);
        CHECK_EQ(ask(method, row->path, "Authorization: Bearer wrong", ""),
                 open ? 200 : 401);
        status = ask(method, row->path, "Authorization: Bearer secret", "");
        CHECK(status != 401);
    }
    door.token = (struct sl_str){"", 0};
}

static void check_browsers(void)
{
    static const char *const own[] = {
        "localhost:9090", "LOCALHOST", "10.0.0.1", "[::1]:9090", "",
    };

    CASE("a page of somebody else may not post");
    program.report = "";
    CHECK_EQ(ask("POST", "/v1/policy", "Origin: http://evil.example", ""), 403);
    CHECK(strstr(body, "CROSS_ORIGIN"));
    CHECK_EQ(ask("POST", "/v1/policy", "Origin: null", ""), 403);
    CHECK_EQ(ask("PUT", "/v1/features/beta", "Origin: http://127.0.0.1:80",
                 "{\"enabled\":true}"),
             403);
    CHECK_EQ(ask("POST", "/v1/clock", "Origin: file://", "{\"now\":0}"), 403);

    CASE("a page of this listener may");
    CHECK_EQ(ask("POST", "/v1/policy", "Origin: http://127.0.0.1:9090", ""),
             200);
    CHECK_EQ(ask("POST", "/v1/policy", "Origin: https://127.0.0.1:9090", ""),
             200);

    CASE("nor may it read by a name that it let point here");
    host = "localhost.evil.example:9090";
    CHECK_EQ(ask("GET", "/v1/policy", NULL, ""), 403);
    CHECK(strstr(body, "WRONG_HOST"));
    CHECK_EQ(ask("GET", "/v1/features", NULL, ""), 403);
    CHECK_EQ(ask("GET", "/v1/features/beta", NULL, ""), 403);

    CASE("health and metrics are for everybody");
    CHECK_EQ(ask("GET", "/readyz", NULL, ""), 200);
    CHECK_EQ(ask("GET", "/metrics", "Origin: http://evil.example", ""), 200);

    CASE("with a token, or on a unix socket, any name will do");
    door.token = SL_STR("secret");
    CHECK_EQ(ask("GET", "/v1/policy", "Authorization: Bearer secret", ""), 200);
    door.token = (struct sl_str){"", 0};
    by_unix = true;
    CHECK_EQ(ask("GET", "/v1/policy", NULL, ""), 200);
    by_unix = false;

    CASE("people and scripts on this machine");
    for (size_t i = 0; i < SL_LEN(own); i++) {
        host = own[i];
        CHECK_EQ(ask("GET", "/v1/policy", NULL, ""), 200);
    }
    host = "127.0.0.1:9090";
}

/* Every answer with the nth allocation failing: an answer all the same. */
static void check_no_memory(void)
{
    static const char *const targets[] = {"/readyz?verbose", "/metrics",
                                          "/v1/policy", "/v1/features",
                                          "/v1/features/beta"};
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    int status;

    CASE("without memory there is still an answer");
    for (size_t i = 0; i < SL_LEN(targets); i++) {
        f.nth = 0;
        do {
            f.nth++;
            f.calls = 0;
            sl_server_worker_init(&worker, &door, program.rig.engine, NULL,
                                  &alloc);
            status = ask("GET", targets[i], NULL, "");
            CHECK(status == 200 || status == 503 || f.nth == 1);
            done();
        } while (f.calls >= f.nth);
        CHECK_EQ(status, 200);
        CHECK(f.nth > 1);
    }
    program.report = "one\ntwo";
    f.nth = 0;
    do {
        f.nth++;
        f.calls = 0;
        sl_server_worker_init(&worker, &door, program.rig.engine, NULL, &alloc);
        status = ask("POST", "/v1/policy", NULL, "x");
        CHECK(status == 200 || status == 503 || f.nth == 1);
        done();
    } while (f.calls >= f.nth);
    CHECK_EQ(status, 200);
    fail_check(&f);
}

int main(void)
{
    door.paths = sl_admin_paths;
    door.path_count = sl_admin_path_count;
    rig_open(&program.rig, policy);
    counted_open(&program.counted, 1);
    sl_server_worker_init(&worker, &door, program.rig.engine, NULL, NULL);
    program.report = "";
    check_health();
    check_metrics();
    check_policy();
    check_features();
    check_clock();
    check_subjects();
    check_token();
    check_browsers();
    done();
    check_no_memory();
    counted_close(&program.counted);
    rig_close(&program.rig);
    return CHECK_DONE();
}
