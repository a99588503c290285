/* no_memory.c -- requests to the HTTP servers where an allocation fails: there
 * is an answer all the same, or the connection is closed, and nothing leaks.
 * Also every path of the admin server without its token. */
#include "fail.h"
#include "server/http/http_int.h"
#include "servers.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "features: { beta: { enabled: false } }\n"
    "limits:\n"
    "  minute:\n"
    "    { kind: token-bucket, per: user, rate: { free: 2/min, pro: 4/min } }\n"
    "  day: { kind: fixed-window, per: user, rate: 5/day }\n"
    "  member: { kind: fixed-window, per: [org, user], rate: 5/day }\n"
    "  tokens: { kind: quota, per: org, rate: 1000/day }\n"
    "routes:\n"
    "  - { match: /llm, limits: [tokens] }\n"
    "  - { match: /both, limits: [day, minute] }\n"
    "default: [minute]\n";

static char body[1 << 16]; /* of the last answer */

/* The status; 0 if the server would close the connection. */
static int check(struct sl_server_worker *worker, const char *method,
                 const char *target, const char *sent)
{
    static const struct sl_http1_field uri = {
        {"x-original-uri", 14},
        {"/x",             2 }
    };
    struct sl_http1 request = {.method = sl_str_c(method),
                               .target = sl_str_c(target),
                               .body = sl_str_c(sent),
                               .fields = {uri},
                               .field_count = 1};
    struct sl_http_call *call = sl_http_call_new(worker);
    int status;

    if (!call)
        return 0;
    call->request = &request;
    call->peer_is_unix = true;
    CHECK(sl_http_handle(call));
    status = call->status;
    snprintf(body, sizeof(body), "%.*s", SL_STR_ARG(call->body));
    sl_http_call_done(call);
    return status;
}

/* The nth allocation fails, for each n there is. */
static void check_each(struct sl_server *door, const char *method,
                       const char *target, const char *sent, int want)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    int status = 0;

    do {
        struct sl_server_worker worker;

        fail.nth++;
        fail.calls = 0;
        sl_server_worker_init(&worker, door, s.rig.engine, NULL, &alloc);
        status = check(&worker, method, target, sent);
        if (status == 503)
            CHECK(strstr(body, "\"code\":\"NO_MEMORY\""));
        CHECK(status == want || status == 503 || fail.nth == 1);
        sl_server_worker_close(&worker);
    } while (fail.calls >= fail.nth && fail.nth < 200);
    if (!CHECK_EQ(status, want) || !CHECK(fail.nth > 1))
        printf("# %s %s\n", method, target);
    fail_check(&fail);
}

static void check_requests(void)
{
    static const struct {
        struct sl_server *door;
        const char *method, *target, *sent;
        int status;
    } rows[] = {
#define ROW(...) {__VA_ARGS__}
        ROW(&s.door, "POST", "/v1/explain",
            "[{\"path\":\"/x\",\"user\":\"h\\u0061l\",\"cost\":{\"minute\":1},"
            "\"headers\":{\"a\":\"b\"}},{\"path\":\"/both\",\"user\":\"hal\"}]",
            200),
        ROW(&s.door, "GET", "/v1/auth?cost=0", "", 200),
        ROW(&servers.admin_door, "GET", "/readyz?verbose", "", 200),
        ROW(&servers.admin_door, "GET", "/metrics", "", 200),
        ROW(&servers.admin_door, "GET", "/v1/policy", "", 200),
        ROW(&servers.admin_door, "POST", "/v1/policy", "x", 200),
        ROW(&servers.admin_door, "GET", "/v1/features", "", 200),
        ROW(&servers.admin_door, "GET", "/v1/features/beta", "", 200),
        ROW(&servers.admin_door, "GET", "/v1/keys/member/o/ann?plan=pro", "",
            200),
        ROW(&servers.admin_door, "DELETE", "/v1/keys/day/ann", "", 200),
        ROW(&servers.admin_door, "GET", "/v1/keys/dai/ann", "", 404),
        ROW(&servers.admin_door, "GET", "/v1/top?limit=day", "", 200),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].target);
        check_each(rows[i].door, rows[i].method, rows[i].target, rows[i].sent,
                   rows[i].status);
    }
}

static void check_holds(void)
{
    struct sl_server_worker worker;
    const char *at;
    char target[96];

    CASE("a hold is not settled, or is, and the answer tells which");
    sl_server_worker_init(&worker, &s.door, s.rig.engine, NULL, NULL);
    CHECK_EQ(check(&worker, "POST", "/v1/check",
                   "{\"path\":\"/llm\",\"org\":\"b\",\"hold\":\"30s\"}"),
             200);
    at = strstr(body, "\"hold\":\"");
    snprintf(target, sizeof(target), "/v1/holds/%.40s/settle",
             at ? at + 8 : "");
    check_each(&s.door, "POST", target, "{\"cost\":{\"tokens\":1}}", 200);
    CHECK_EQ(check(&worker, "POST", target, ""), 200);
    CHECK(strstr(body, "\"again\":true"));
    sl_server_worker_close(&worker);
}

static void check_warm(void)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_server_worker worker;

    CASE("once warm, a usual request takes no memory");
    sl_server_worker_init(&worker, &s.door, s.rig.engine, NULL, &alloc);
    for (int i = 0; i < 8; i++) {
        fail.calls = 0;
        CHECK_EQ(check(&worker, "POST", "/v1/check",
                       "{\"path\":\"/both\",\"user\":\"ann\"}"),
                 200);
        CHECK(check(&worker, "GET", "/v1/auth", "") > 0);
    }
    CHECK_EQ(fail.calls, 0);
    sl_server_worker_close(&worker);
    fail_check(&fail);
}

static void check_subject(void)
{
    struct fail f;
    struct sl_alloc alloc = fail_alloc(&f);

    CASE("the body of a subject");
    for (unsigned n = 1, enough = 0; !enough && n < 50; n++) {
        struct sl_subject_change change = {.id = SL_STR("ann")};
        struct sl_arena arena;
        struct sl_reading reading;
        bool good;

        f = (struct fail){.nth = n};
        sl_arena_init(&arena, 1 << 20, &alloc);
        sl_reading_init(&reading, &arena, SL_S);
        good = sl_subject_change_read_json(
            &reading,
            SL_STR("{\"aliases\":[\"A\\u0042\"],\"overrides\":{\"day\":"
                   "\"5/day\"}}"),
            &change);
        sl_arena_done(&arena);
        enough = f.calls < n;
        CHECK_EQ(good, enough);
        CHECK_STR(good ? "out of memory" : reading.body.sentence,
                  "out of memory");
        fail_check(&f);
    }
}

static void check_events(void)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_server_worker worker;
    unsigned whole = 0, cut = 0;
    uint64_t number = 0, lost;
    struct sl_event event;

    CASE("the event of a subject is JSON, whichever allocation fails");
    open_registry();
    must(sl_events_open(NULL, 0, &admin.events), "events", NULL);
    for (fail.nth = 1; fail.nth < 30; fail.nth++) {
        char sent[] = "{\"plan\":\"pro\",\"note\":\" \"}";
        struct sl_http1 request = {.method = SL_STR("PUT"),
                                   .target = SL_STR("/v1/subjects/user/ann"),
                                   .body = sl_str_c(sent)};
        struct sl_http_call *call;

        sent[strlen(sent) - 3] = (char)('0' + fail.nth); /* another note */
        fail.calls = 0;
        sl_server_worker_init(&worker, &servers.admin_door, s.rig.engine, NULL,
                              &alloc);
        worker.loop = s.loop;
        call = sl_http_call_new(&worker);
        if (call) {
            call->request = &request;
            call->peer_is_unix = true;
            if (sl_http_handle(call))
                sl_http_call_done(call);
        }
        WAIT_FOR(&s, LIST_EMPTY(&worker.suspended));
        sl_server_worker_close(&worker);
    }
    while (sl_events_next(admin.events, &number, &event, &lost)) {
        snprintf(body, sizeof(body), "%.*s", (int)event.len, event.data);
        CHECK(!strstr(body, ",,"));
        whole += strstr(body, "\"plan\":\"pro\"") != NULL;
        cut += strstr(body, "\"cut\":true") != NULL;
    }
    CHECK(whole > 0);
    CHECK(cut > 0);
    fail_check(&fail);
    sl_events_close(admin.events);
    admin.events = NULL;
}

/* Those that need no token are listed, so that none is added by mistake. */
static void check_guards(void)
{
    static const char *const open[] = {"/livez",   "/readyz", "/healthz",
                                       "/metrics", "/ui/",    "/v1/session"};
    struct sl_server_worker worker;

    CASE("every path of the admin server but a few needs the token");
    servers.admin_door.token = SL_STR("secret");
    sl_server_worker_init(&worker, &servers.admin_door, s.rig.engine, NULL,
                          NULL);
    for (unsigned i = 0; i < sl_admin_path_count; i++) {
        const struct sl_http_path *row = &sl_admin_paths[i];
        const char *method = row->method ? row->method : "GET";
        int want = 401;

        for (size_t k = 0; k < SL_LEN(open); k++)
            want = strcmp(open[k], row->path) == 0 ? 200 : want;
        if (strcmp(row->path, "/ui") == 0 ||
            strcmp(row->path, "/ui/usage") == 0)
            want = 308;
        if (strcmp(row->path, "/v1/session") == 0 &&
            strcmp(method, "POST") == 0)
            want = 400; /* the body is empty */
        if (!CHECK_EQ(check(&worker, method, row->path, ""), want))
            printf("# %s %s\n", method, row->path);
    }
    sl_server_worker_close(&worker);
}

int main(void)
{
    open_servers(policy, false);
    snprintf(program.report, sizeof(program.report), "one\ntwo");
    check_requests();
    check_holds();
    check_warm();
    check_subject();
    check_events();
    check_guards();
    close_servers();
    return CHECK_DONE();
}
