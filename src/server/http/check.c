/* check.c -- POST /v1/check and /v1/explain, and /v1/backlog.
 *
 *     {"method": "GET", "path": "/api/x", "user": "ann", "plan": "free",
 *      "ip": "192.0.2.7", "headers": {"User-Agent": "..."}, "cost": 1}
 *
 * or an array of these. Unknown members, repeated members and unknown limits
 * are refused. A null is ignored. Values are not checked here (an invalid
 * address, an unknown plan): they may come from a client, and the engine has
 * safe rules for them. Texts without escapes are slices of the request.
 */
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "server/http/http_int.h"
#include "server/http/static_files.h"

#define HEADERS_MOST 100
#define KEY_MOST     256                /* bytes of an idempotency key */
#define CHECKS_MOST  1000               /* checks in one array */
#define CHECK_BYTES  ((size_t)64 << 10) /* of a body with a single check */

struct check_input {
    struct sl_request request;
    struct check_input *next;
};

struct answering {
    struct sl_http_call *call;
    bool explain;
    bool is_array;
    unsigned count; /* of checks */
    struct check_input *first;
    const struct check_input *next; /* to be decided */
    bool failed;                    /* the call was refused */
};

/* ---- members ---- */

static bool read_headers(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_request *request = at;
    struct sl_header list[HEADERS_MOST], *kept;
    unsigned count = 0;
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return sl_json_body_wrong(r, member, "an object of strings");
    r->inside = "headers.";
    while (sl_json_member(&r->json, &name)) {
        for (unsigned i = 0; i < count; i++)
            if (sl_str_eq_nocase(list[i].name, name))
                return sl_json_body_refuse(r, "BAD_REQUEST",
                                           "\"headers\" has \"%.*s\" twice",
                                           SL_STR_ARG(name));
        if (count == HEADERS_MOST)
            return sl_json_body_refuse(r, "BAD_REQUEST",
                                       "\"headers\" has more than %d members",
                                       HEADERS_MOST);
        if (sl_json_null(&r->json))
            continue;
        list[count].name = name;
        if (!sl_json_body_text(r, name, &list[count].value))
            return false;
        count++;
    }
    if (r->json.why)
        return sl_json_body_broken(r);
    kept = sl_arena_take(r->json.arena, count * sizeof(list[0]) + 1);
    if (!kept)
        return sl_json_body_no_memory(r);
    memcpy(kept, list, count * sizeof(list[0]));
    request->headers = kept;
    request->header_count = count;
    return true;
}

/* Read the body of the checked request as text. */
static bool read_body(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_request *request = at;

    if (request->has_body)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "a check can have \"body\" or \"body_base64\", not both");
    request->has_body = true;
    return sl_json_body_text(r, member, &request->body);
}

static bool read_base64(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_request *request = at;
    struct sl_str text;
    uint8_t *bytes;

    if (!read_body(r, member, at))
        return false;
    text = request->body;
    bytes = sl_arena_take(r->json.arena, SL_BASE64_BYTES(text.len) + 1);
    if (!bytes)
        return sl_json_body_no_memory(r);
    request->body.at = (const char *)bytes;
    return sl_base64_decode(text, bytes, &request->body.len) ||
           sl_json_body_refuse(
               r, "BAD_REQUEST",
               "\"body_base64\" is not base64 (RFC 4648, with padding)");
}

static bool check_key(struct sl_json_body *r, struct sl_str key)
{
    if (key.len > 0 && key.len <= KEY_MOST)
        return true;
    return sl_json_body_refuse(
        r, "BAD_REQUEST", "an idempotency key must have 1 to %d bytes, not %zu",
        KEY_MOST, key.len);
}

static bool read_key(struct sl_json_body *r, struct sl_str member, void *at)
{
    return sl_json_body_text(r, member, at) &&
           check_key(r, *(struct sl_str *)at);
}

#define TEXT(name)                                                             \
    SL_JSON_FIELD(#name, offsetof(struct sl_request, name), sl_json_body_text)

static const struct sl_json_field members[] = {
    TEXT(method),
    TEXT(path),
    TEXT(user),
    TEXT(org),
    TEXT(plan),
    TEXT(ip),
    SL_JSON_FIELD("cost", 0, sl_json_body_cost),
    SL_JSON_FIELD("headers", 0, read_headers),
    TEXT(role),
    TEXT(job),
    TEXT(request_id),
    TEXT(limit),
    TEXT(key),
    SL_JSON_FIELD("hold", offsetof(struct sl_request, hold), sl_json_body_hold),
    SL_JSON_FIELD("wait", offsetof(struct sl_request, wait), sl_json_body_wait),
    SL_JSON_FIELD("idempotency_key",
                  offsetof(struct sl_request, idempotency_key), read_key),
    SL_JSON_FIELD("body", 0, read_body),
    SL_JSON_FIELD("body_base64", 0, read_base64),
};

/* ---- a check ---- */

/* Use the header Idempotency-Key for each check, with the check's index. */
static bool take_key(struct sl_json_body *r, struct sl_request *request)
{
    unsigned count = 0;
    struct sl_str key =
        sl_http1_field(r->call->request, SL_STR("idempotency-key"), &count);

    if (count == 0 || request->idempotency_key.len > 0)
        return true;
    if (count > 1)
        return sl_json_body_refuse(r, "BAD_REQUEST",
                                   "Idempotency-Key is sent twice");
    request->idempotency_key = key;
    request->idempotency_index = r->is_array ? r->index + 1 : 0;
    return check_key(r, key);
}

static bool check_facts(struct sl_json_body *r, struct sl_request *request)
{
    bool has_path = request->path.len > 0, has_job = request->job.len > 0;
    bool has_limit = request->limit.len > 0;
    struct sl_diag diag = {.sentence = ""};

    if (has_limit != (request->key.len > 0))
        return sl_json_body_refuse(
            r, "BAD_REQUEST", "\"limit\" and \"key\" must be given together");
    if (has_limit && sl_policy_rule(r->policy, request->limit) < 0)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "\"limit\" names the limit \"%.*s\", which is not in the policy%s",
            SL_STR_ARG(request->limit),
            sl_hint_limit(r->policy, request->limit, "").text);
    if (has_path + has_job + has_limit > 1)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            has_limit
                ? "a check with \"limit\" must not have \"path\" or \"job\""
                : "a check can have \"path\" or \"job\", not both");
    if (!has_path && !has_job && !has_limit)
        return sl_json_body_refuse(r, "BAD_REQUEST",
                                   "a check needs a \"path\" or a \"job\"");
    if (request->method.len == 0)
        request->method = SL_STR("GET");
    return !sl_request_check(r->policy, request, &diag) ||
           sl_json_body_refuse(r, "BAD_REQUEST", "%s", diag.sentence);
}

/* The client has the token or is local: it may name the caller. */
static bool add_check(struct sl_json_body *r, struct check_input ***last,
                      struct answering *a)
{
    struct check_input *check;

    r->index = a->count;
    if (a->count == CHECKS_MOST)
        return sl_json_body_refuse(
            r, "TOO_MANY", "the array has more than %d checks", CHECKS_MOST);
    check = sl_arena_take(r->json.arena, sizeof(*check));
    if (!check)
        return sl_json_body_no_memory(r);
    *check = (struct check_input){
        .request = {.trusted = true, .now = sl_http_now(r->call)}
    };
    **last = check;
    *last = &check->next;
    a->count++;
    return sl_json_body_fields(r, members, SL_LEN(members), NULL,
                               &check->request) &&
           check_facts(r, &check->request) && take_key(r, &check->request);
}

/* A single check is small, unless it has a body. */
static bool is_short(struct sl_json_body *r, const struct check_input *check)
{
    if (r->json.text.len <= CHECK_BYTES || check->request.has_body)
        return true;
    r->status = 413;
    return sl_json_body_refuse(
        r, "TOO_LARGE",
        "the body has %zu bytes; the maximum is %zu, and more for an array or "
        "a check with a \"body\"",
        r->json.text.len, CHECK_BYTES);
}

static bool read_checks(struct sl_json_body *r, struct answering *a)
{
    struct check_input **last = &a->first;

    if (r->json.text.len == 0)
        return sl_json_body_refuse(r, "BAD_REQUEST",
                                   "the body is empty; send a check such as "
                                   "{\"path\":\"/api/x\",\"user\":\"ann\"}");
    a->is_array = r->is_array = sl_json_enter(&r->json, '[');
    if (!a->is_array && (!add_check(r, &last, a) || !is_short(r, a->first)))
        return false;
    while (a->is_array && sl_json_item(&r->json))
        if (!add_check(r, &last, a))
            return false;
    r->is_array = false; /* later errors belong to no check */
    return sl_json_end(&r->json) || sl_json_body_broken(r);
}

/* ---- deciding ----
 *
 * All checks of an array are read before the first is decided: if one is
 * invalid, nothing is spent. Then each is decided by itself, and answered, in
 * order. If the answer might not have room for another verdict, the remaining
 * checks are answered as undecided and spend nothing.
 */

/* The maximum size of a verdict with its headers and body. */
#define VERDICT_MOST ((size_t)16 << 20)

#define UNDECIDED                                                              \
    "{\"allowed\":false,\"status\":503,\"code\":\"ANSWER_TOO_LARGE\","         \
    "\"message\":\"The answer to this array is too long for another verdict: " \
    "this check was not decided and took nothing. Send fewer checks "          \
    "at once.\",\"by\":null,\"retry_after_ms\":null,\"request_id\":null,"      \
    "\"degraded\":false,\"hold\":null,\"limits\":[],\"headers\":{},"           \
    "\"body\":null}"

static bool write_verdict(struct answering *a)
{
    struct sl_http_call *call = a->call;
    const struct sl_decision *d = &call->check.decision;
    struct sl_buf *out = &call->text;
    struct sl_rendered rendered;
    int err = 0;

    if (!sl_http_decided(call, &rendered))
        return false;
    if (a->is_array)
        err = sl_buf_add(out, out->len > 0 ? SL_STR(",") : SL_STR("["));
    if (!err)
        err = sl_render_verdict(d, &rendered, a->explain, out);
    return !err || sl_http_no_memory(call);
}

static void finish(struct answering *a)
{
    struct sl_buf *out = &a->call->text;
    struct sl_str end = out->len > 0 ? SL_STR("]") : SL_STR("[]");

    if (!a->failed)
        sl_http_answer_json(a->call, a->is_array ? sl_buf_add(out, end) : 0);
    sl_http_resume_finish(a->call);
}

/* Answer the remaining checks as undecided if the answer is too long. */
static void end_early(struct answering *a)
{
    struct sl_buf *out = &a->call->text;

    if (out->ceiling - out->len >= VERDICT_MOST)
        return;
    for (; a->next && !a->failed; a->next = a->next->next)
        a->failed = sl_buf_add(out, SL_STR("," UNDECIDED)) != 0;
    if (a->failed)
        sl_http_no_memory(a->call);
}

static void add_verdict(struct answering *a)
{
    a->failed = !write_verdict(a);
    a->next = a->next->next;
    if (!a->failed)
        end_early(a);
}

static void on_later(struct sl_check *check);

/* Decide one check after the other, until one must wait. */
static void decide(struct answering *a)
{
    while (a->next && !a->failed) {
        a->call->check.no_wait = a->is_array;
        if (!sl_http_ask(a->call, &a->next->request, !a->explain, on_later, a))
            return;
        add_verdict(a);
    }
    finish(a);
}

static void on_later(struct sl_check *check)
{
    add_verdict(check->ctx);
    decide(check->ctx);
}

/* Browsers send an Origin with the posts of a page; other clients do not. A
 * page whose name resolves to this machine has a foreign Host. Without a token,
 * web pages must not spend units or read usage. */
bool sl_http_is_page(struct sl_http_call *call)
{
    const struct sl_server *server = call->worker->server;
    unsigned count = 0;
    struct sl_str origin =
        sl_http1_field(call->request, SL_STR("origin"), &count);

    if (sl_http_is_foreign(call))
        return true;
    if (count == 0 || server->token.len > 0 || server->accepts_client_cert)
        return false;
    sl_http_refuse(call, 403, "CROSS_ORIGIN",
                   "pages of %.*s are not allowed to ask here; to allow "
                   "browsers, set an access_token",
                   SL_STR_ARG(origin));
    return true;
}

/* call->arg: explain, and spend nothing. */
static void run(struct sl_http_call *call)
{
    struct answering *a = sl_http_new(call, sizeof(*a));
    struct sl_json_body body;

    if (!a)
        return;
    a->call = call;
    a->explain = call->arg;
    sl_json_body_begin(&body, call, "check");
    body.policy = call->check.active->policy;
    if (!read_checks(&body, a)) {
        sl_json_body_answer(&body);
        return;
    }
    a->next = a->first;
    sl_http_suspend(call);
    decide(a);
}

/* ---- checks of the engine ---- */

static struct sl_http_call *call_of(struct sl_check *check)
{
    return (
        struct sl_http_call *)(void *)((char *)check -
                                       offsetof(struct sl_http_call, check));
}

static void on_waits(struct sl_check *check)
{
    struct sl_http_call *call = call_of(check);

    if (call->conn)
        sl_conn_watch_close(call->conn);
}

static void on_done(struct sl_check *check)
{
    struct sl_http_call *call = call_of(check);

    if (!call->asking)
        call->later(check);
}

bool sl_http_ask(struct sl_http_call *call, const struct sl_request *request,
                 bool spend, void (*later)(struct sl_check *check), void *ctx)
{
    call->later = later;
    call->check.done = on_done;
    call->check.ctx = ctx;
    call->check.waits = on_waits;
    call->asked_at = sl_clock_wall();
    call->asking = true;
    sl_check_start(&call->check, request, 1, spend);
    call->asking = false;
    return !call->check.busy;
}

bool sl_http_decided(struct sl_http_call *call, struct sl_rendered *ret)
{
    const struct sl_server_worker *worker = call->worker;
    const struct sl_check *check = &call->check;
    sl_ns took = sl_clock_wall() - call->asked_at;
    int err = check->err;

    if (check->in_turn)
        took = 0; /* waiting is counted by another metric */
    if (!err && check->spend && worker->stats) {
        sl_metrics_decision(worker->stats, &check->decision,
                            worker->server->name, took > 0 ? took : 0);
        sl_metrics_record(worker->stats, check);
    }
    sl_arena_reset(&call->text_arena);
    if (!err)
        err = sl_render(&check->decision, &call->text_arena, ret);
    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        return sl_http_no_memory(call);
    return !err ||
           sl_http_refuse(call, 400, "BAD_REQUEST", "%s", check->diag.sentence);
}

/* ---- /v1/backlog: the number of waiting jobs, reported by workers ----
 *
 * Workers use the listener and the token of applications. A report is valid at
 * once, and until the time that the routes set.
 */

/* Write {"name":"transcribe","depth":12,"age_ms":300}. Without a report, depth
 * and age are null. */
static void write_backlog(struct sl_http_call *call, struct sl_writer *w,
                          unsigned index)
{
    const struct sl_active_policy *active = call->check.active;
    const struct sl_depth *depth = &active->depths[index];
    sl_ns at = atomic_load_explicit(&depth->at, memory_order_acquire);
    sl_ns age = sl_http_now(call) - at;

    sl_json_open(w, '{');
    sl_json_member_str(w, "name", active->policy->backlogs[index]);
    if (at == SL_NS_NONE)
        sl_writer_add(w, SL_STR(",\"depth\":null,\"age_ms\":null}"));
    else
        sl_writer_addf(w, ",\"depth\":%llu,\"age_ms\":%lld}",
                       (unsigned long long)atomic_load(&depth->depth),
                       (long long)(age > 0 ? age / SL_MS : 0));
}

static void backlogs(struct sl_http_call *call)
{
    const struct sl_policy *policy = call->check.active->policy;
    struct sl_writer w = {.out = &call->text};

    sl_writer_add(&w, SL_STR("{\"backlogs\":["));
    for (unsigned i = 0; i < policy->backlog_count; i++)
        write_backlog(call, &w, i);
    sl_writer_add(&w, SL_STR("]}"));
    sl_admin_answer_json(call, w.err);
}

/* Returns the index of the backlog in the path, or -1 after a refusal. */
static int find(struct sl_http_call *call)
{
    const struct sl_policy *policy = sl_check_ref_policy(&call->check)->policy;

    for (unsigned i = 0; i < policy->backlog_count; i++)
        if (sl_str_eq(policy->backlogs[i], call->rest))
            return (int)i;
    sl_http_refuse(call, 404, "NO_SUCH_BACKLOG",
                   "no route of the policy has a backlog \"%.*s\"",
                   SL_STR_ARG(call->rest));
    return -1;
}

static void backlog_get(struct sl_http_call *call)
{
    int index = find(call);
    struct sl_writer w = {.out = &call->text};

    if (index < 0)
        return;
    write_backlog(call, &w, (unsigned)index);
    sl_admin_answer_json(call, w.err);
}

/* The report is where other daemons and the next start find it, or not. */
static void on_shared(void *ctx, int err)
{
    struct sl_http_call *call = ctx;

    if (err)
        sl_http_refuse(call, 503, "SERVICE_UNAVAILABLE",
                       "the report counts at this daemon only: the store or "
                       "the database does not answer; report again");
    else
        backlog_get(call);
    sl_http_resume_finish(call);
}

void sl_backlog_put(struct sl_http_call *call)
{
    struct sl_diag diag = {0};
    uint64_t depth;

    if (find(call) < 0 || !sl_admin_member(call, "depth", sl_json_body_whole,
                                           "{\"depth\":12}", &depth))
        return;
    if (sl_engine_backlog(call->worker->engine, call->rest, depth,
                          sl_http_now(call), &diag)) {
        sl_http_refuse(call, 404, "NO_SUCH_BACKLOG", "%s", diag.sentence);
        return;
    }
    sl_http_suspend(call);
    sl_engine_backlog_share(call->worker->engine, call->worker->loop,
                            call->rest, depth, sl_http_now(call), on_shared,
                            call);
}

static void openapi(struct sl_http_call *call)
{
    sl_http_answer(call, 200, SL_STR("application/json"), sl_openapi);
}

/* ---- the paths of the http listener ---- */

/* A row that is too wide for columns. */
#define PROGRAM(method, path, handle)                                          \
    {                                                                          \
        method, path, handle, SL_ACCESS_PROGRAM, 0                             \
    }

const struct sl_http_path sl_api_paths[] = {
    {"POST", "/v1/check",        run,                  SL_ACCESS_PROGRAM, 0   },
    {"POST", "/v1/explain",      run,                  SL_ACCESS_PROGRAM, 1   },
    {"POST", "/v1/holds/",       sl_http_holds,        SL_ACCESS_PROGRAM, 0   },
    {NULL,   "/v1/auth",         sl_http_auth,         SL_ACCESS_TOKEN,   0   },
    {NULL,   "/v1/auth/",        sl_http_auth,         SL_ACCESS_TOKEN,   0   },
    {"GET",  "/v1/backlog",      backlogs,             SL_ACCESS_PROGRAM, 0   },
    {"GET",  "/v1/backlog/",     backlog_get,          SL_ACCESS_PROGRAM, 0   },
    {"PUT",  "/v1/backlog/",     sl_backlog_put,       SL_ACCESS_PROGRAM, 0   },
    {"POST", "/v1/usage",        sl_http_usage_report, SL_ACCESS_PROGRAM, 0   },
    {"GET",  "/v1/usage/",       sl_http_usage_read,   SL_ACCESS_PROGRAM, 0   },
    {"POST", "/v1/usage-tokens", sl_usage_token_post,  SL_ACCESS_PROGRAM, 0   },
    {"GET",  "/ui/usage",        sl_http_add_slash,    SL_ACCESS_PUBLIC,  0   },
    {NULL,   "/ui/usage/data",   sl_usage_data,        SL_ACCESS_PUBLIC,  0   },
    {"GET",  "/ui/usage/",       sl_http_static,       SL_ACCESS_PUBLIC,  0   },
    {"GET",  "/ui/components/",  sl_http_static,       SL_ACCESS_PUBLIC,  0   },
    {"GET",  "/ui/demo/",        sl_http_static,       SL_ACCESS_PUBLIC,  true},
    {"POST", "/ui/demo/token",   sl_usage_demo_token,  SL_ACCESS_PUBLIC,  0   },
    {"GET",  "/v1/deny",         sl_http_deny,         SL_ACCESS_TOKEN,   0   },
    {"POST", "/json",            sl_http_json,         SL_ACCESS_PROGRAM, 0   },
    {"GET",  "/healthcheck",     sl_http_healthcheck,  SL_ACCESS_PUBLIC,  0   },
    {"GET",  "/openapi.json",    openapi,              SL_ACCESS_PUBLIC,  0   },
    PROGRAM("POST", "/v1/webhooks/endpoints", sl_webhook_endpoint_make),
    PROGRAM("GET", "/v1/webhooks/endpoints", sl_webhook_endpoint_list),
    PROGRAM("GET", "/v1/webhooks/endpoints/", sl_webhook_endpoint_get),
    PROGRAM("PATCH", "/v1/webhooks/endpoints/", sl_webhook_endpoint_change),
    PROGRAM("DELETE", "/v1/webhooks/endpoints/", sl_webhook_endpoint_drop),
    PROGRAM("POST", "/v1/webhooks/endpoints/", sl_webhook_endpoint_act),
    PROGRAM("POST", "/v1/webhooks/messages", sl_webhook_message_put),
    PROGRAM("GET", "/v1/webhooks/messages", sl_webhook_message_list),
    PROGRAM("GET", "/v1/webhooks/messages/", sl_webhook_message_get),
    PROGRAM("POST", "/v1/webhooks/messages/", sl_webhook_message_replay),
    PROGRAM("GET", "/v1/webhooks/attempts", sl_webhook_attempts),
};

const unsigned sl_api_path_count = SL_LEN(sl_api_paths);
