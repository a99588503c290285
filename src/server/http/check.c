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
#include "server/http/admin.h"
#include "server/http/api.h"
#include "server/http/http_int.h"
#include "server/http/usage.h"
#include "wire/json.h"

#define KEY_MOST    256                /* bytes of an idempotency key */
#define CHECKS_MOST 1000               /* checks in one array */
#define CHECK_BYTES ((size_t)64 << 10) /* of a body with a single check */

struct check_input {
    struct sl_request request;
    struct check_input *next;
};

struct check_inputs {
    bool is_array;
    unsigned count;
    struct check_input *first;
};

/* Copy `count` items of `size` bytes from the stack to the arena. */
static void *keep(struct sl_json_body *r, const void *list, unsigned count,
                  size_t size)
{
    void *kept = sl_arena_take(&r->call->arena, count * size + 1);

    if (kept && count > 0)
        memcpy(kept, list, count * size);
    return kept;
}

static bool read_headers(struct sl_json_body *r, struct sl_request *request)
{
    struct sl_header list[SL_CHECK_FIELDS];
    unsigned count = 0;
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return sl_json_body_wrong(r, SL_STR("headers"), "an object of strings");
    r->inside = "headers.";
    while (sl_json_member(&r->json, &name)) {
        for (unsigned i = 0; i < count; i++)
            if (sl_str_eq_nocase(list[i].name, name))
                return sl_json_body_refuse(r, "BAD_REQUEST",
                                           "\"headers\" has \"%.*s\" twice",
                                           SL_STR_ARG(name));
        if (count == SL_CHECK_FIELDS)
            return sl_json_body_refuse(r, "BAD_REQUEST",
                                       "\"headers\" has more than %d members",
                                       SL_CHECK_FIELDS);
        if (sl_json_null(&r->json))
            continue;
        list[count].name = name;
        if (!sl_json_body_text(r, name, &list[count].value))
            return false;
        count++;
    }
    if (r->json.why)
        return sl_json_body_broken(r);
    request->headers = keep(r, list, count, sizeof(list[0]));
    request->header_count = count;
    return request->headers || sl_json_body_no_memory(r);
}

/* Refuse an unknown limit in `member`. */
static bool wrong_limit(struct sl_json_body *r, const char *member,
                        struct sl_str name)
{
    const char *near = sl_json_body_near_limit(r, name);

    return sl_json_body_refuse(
        r, "BAD_REQUEST",
        "\"%s\" names the limit \"%.*s\", which is not in the policy%s%s%s",
        member, SL_STR_ARG(name), near ? "; did you mean \"" : "",
        near ? near : "", near ? "\"?" : "");
}

static bool read_costs(struct sl_json_body *r, struct sl_request *request)
{
    const struct sl_policy *policy = r->call->check.active->policy;
    struct sl_cost list[SL_CHECK_FIELDS];
    unsigned count = 0;
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return sl_json_body_wrong(r, SL_STR("cost"),
                                  "a whole number or an object of them");
    r->inside = "cost.";
    while (sl_json_member(&r->json, &name)) {
        for (unsigned i = 0; i < count; i++)
            if (sl_str_eq(list[i].limit, name))
                return sl_json_body_refuse(r, "BAD_REQUEST",
                                           "\"cost\" has \"%.*s\" twice",
                                           SL_STR_ARG(name));
        if (sl_policy_rule(policy, name) < 0)
            return wrong_limit(r, "cost", name);
        if (count == SL_CHECK_FIELDS)
            return sl_json_body_refuse(r, "BAD_REQUEST",
                                       "\"cost\" has more than %d members",
                                       SL_CHECK_FIELDS);
        list[count].limit = name;
        if (!sl_json_body_whole(r, name, &list[count].cost))
            return false;
        count++;
    }
    if (r->json.why)
        return sl_json_body_broken(r);
    request->costs = keep(r, list, count, sizeof(list[0]));
    request->cost_count = count;
    return request->costs || sl_json_body_no_memory(r);
}

static bool read_cost(struct sl_json_body *r, struct sl_request *request)
{
    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return read_costs(r, request);
    request->has_cost = true;
    return sl_json_body_whole(r, SL_STR("cost"), &request->cost);
}

/* ---- body and idempotency key ---- */

/* Read the body of the checked request, as text or in base64. */
static bool read_body(struct sl_json_body *r, bool base64,
                      struct sl_request *request)
{
    struct sl_str text;
    uint8_t *bytes;

    if (request->has_body)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "a check can have \"body\" or \"body_base64\", not both");
    if (!sl_json_body_text(r, base64 ? SL_STR("body_base64") : SL_STR("body"),
                           &text))
        return false;
    request->has_body = true;
    request->body = text;
    if (!base64)
        return true;
    bytes = sl_arena_take(&r->call->arena, SL_BASE64_BYTES(text.len) + 1);
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

/* ---- members ---- */

enum form { TEXT, HEADERS, COST, SPAN, WAIT, BODY_FORM, BASE64, KEY };

struct member {
    const char *name;
    size_t len;
    enum form form;
    size_t place; /* TEXT: offset of the slice in the facts */
};

#define AT(name)   offsetof(struct sl_request, name)
#define NAME(text) "" text, sizeof(text) - 1

static const struct member members[] = {
    {NAME("method"),          TEXT,      AT(method)    },
    {NAME("path"),            TEXT,      AT(path)      },
    {NAME("user"),            TEXT,      AT(user)      },
    {NAME("org"),             TEXT,      AT(org)       },
    {NAME("plan"),            TEXT,      AT(plan)      },
    {NAME("ip"),              TEXT,      AT(ip)        },
    {NAME("cost"),            COST,      0             },
    {NAME("headers"),         HEADERS,   0             },
    {NAME("role"),            TEXT,      AT(role)      },
    {NAME("job"),             TEXT,      AT(job)       },
    {NAME("request_id"),      TEXT,      AT(request_id)},
    {NAME("limit"),           TEXT,      AT(limit)     },
    {NAME("key"),             TEXT,      AT(key)       },
    {NAME("hold"),            SPAN,      AT(hold)      },
    {NAME("wait"),            WAIT,      AT(wait)      },
    {NAME("idempotency_key"), KEY,       0             },
    {NAME("body"),            BODY_FORM, 0             },
    {NAME("body_base64"),     BASE64,    0             },
};

static bool unknown(struct sl_json_body *r, struct sl_str name)
{
    const char *names[SL_LEN(members)];

    for (size_t i = 0; i < SL_LEN(members); i++)
        names[i] = members[i].name;
    return sl_json_body_unknown(r, name, names, SL_LEN(members));
}

static bool read_member(struct sl_json_body *r, const struct member *member,
                        struct sl_request *request)
{
    r->inside = "";
    if (sl_json_peek(&r->json) == SL_JSON_NULL)
        return sl_json_null(&r->json) || sl_json_body_broken(r);
    switch (member->form) {
    case TEXT:
        return sl_json_body_text(
            r, sl_str_c(member->name),
            (struct sl_str *)((char *)request + member->place));
    case HEADERS:
        return read_headers(r, request);
    case COST:
        return read_cost(r, request);
    case BODY_FORM:
    case BASE64:
        return read_body(r, member->form == BASE64, request);
    case KEY:
        return sl_json_body_text(r, sl_str_c(member->name),
                                 &request->idempotency_key) &&
               check_key(r, request->idempotency_key);
    case SPAN:
        return sl_json_body_span(r, sl_str_c(member->name), sl_hold_span,
                                 &request->hold);
    case WAIT:
        return sl_json_body_span(r, sl_str_c(member->name), sl_wait_span,
                                 &request->wait);
    }
    return false;
}

static const struct member *find_member(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(members); i++)
        if (members[i].len == name.len &&
            memcmp(members[i].name, name.at, name.len) == 0)
            return &members[i];
    return NULL;
}

/* Check a single limit: {"limit": "api", "key": "ann"}. */
static bool check_limit(struct sl_json_body *r,
                        const struct sl_request *request)
{
    const struct sl_policy *policy = r->call->check.active->policy;

    if (request->limit.len == 0 && request->key.len == 0)
        return true;
    if (request->limit.len == 0 || request->key.len == 0)
        return sl_json_body_refuse(
            r, "BAD_REQUEST", "\"limit\" and \"key\" must be given together");
    return sl_policy_rule(policy, request->limit) >= 0 ||
           wrong_limit(r, "limit", request->limit);
}

static bool check_facts(struct sl_json_body *r, struct sl_request *request)
{
    bool has_path = request->path.len > 0, has_job = request->job.len > 0;
    bool has_limit = request->limit.len > 0;

    if (!check_limit(r, request))
        return false;
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
    return true;
}

/* The client has the token or is local: it may name the caller. */
static bool read_check(struct sl_json_body *r, struct sl_request *request)
{
    const struct member *member;
    unsigned seen = 0;
    struct sl_str name;

    *request =
        (struct sl_request){.trusted = true, .now = sl_http_now(r->call)};
    if (!sl_json_body_enter(r))
        return false;
    while (sl_json_member(&r->json, &name)) {
        member = find_member(name);
        if (!member)
            return unknown(r, name);
        if (seen & 1u << (member - members))
            return sl_json_body_refuse(r, "BAD_REQUEST",
                                       "\"%s\" is given twice", member->name);
        seen |= 1u << (member - members);
        if (!read_member(r, member, request))
            return false;
    }
    return r->json.why ? sl_json_body_broken(r)
                       : check_facts(r, request) && take_key(r, request);
}

static bool add_check(struct sl_json_body *r, struct check_input ***last,
                      struct check_inputs *checks)
{
    struct check_input *check;

    r->index = checks->count;
    if (checks->count == CHECKS_MOST)
        return sl_json_body_refuse(
            r, "TOO_MANY", "the array has more than %d checks", CHECKS_MOST);
    check = sl_arena_take(&r->call->arena, sizeof(*check));
    if (!check)
        return sl_json_body_no_memory(r);
    check->next = NULL;
    **last = check;
    *last = &check->next;
    checks->count++;
    return read_check(r, &check->request);
}

/* ---- the body ---- */

/* A single check is small, unless it has a body. */
static bool is_short(struct sl_json_body *r, const struct check_inputs *checks)
{
    const struct check_input *check = checks->first;

    if (r->json.text.len <= CHECK_BYTES || (check && check->request.has_body))
        return true;
    sl_http_refuse(r->call, 413, "TOO_LARGE",
                   "the body has %zu bytes; the maximum is %zu, and more for "
                   "an array or a check with a \"body\"",
                   r->json.text.len, CHECK_BYTES);
    return false;
}

static bool read_all(struct sl_json_body *r, struct check_inputs *ret)
{
    struct check_input **last = &ret->first;

    ret->is_array = r->is_array = sl_json_enter(&r->json, '[');
    if (!ret->is_array) {
        if (!add_check(r, &last, ret) || !is_short(r, ret))
            return false;
    } else {
        while (sl_json_item(&r->json))
            if (!add_check(r, &last, ret))
                return false;
    }
    r->is_array = false; /* later errors belong to no check */
    return sl_json_end(&r->json) || sl_json_body_broken(r);
}

static bool read_inputs(struct sl_http_call *call, struct check_inputs *ret)
{
    struct sl_json_body r;

    sl_json_body_begin(&r, call, "check");
    *ret = (struct check_inputs){.count = 0};
    if (call->request->body.len == 0)
        return sl_json_body_refuse(&r, "BAD_REQUEST",
                                   "the body is empty; send a check such as "
                                   "{\"path\":\"/api/x\",\"user\":\"ann\"}");
    return read_all(&r, ret);
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

struct answering {
    struct sl_http_call *call;
    struct check_inputs checks;
    const struct check_input *next; /* to be decided */
    bool explain;
    bool stepping; /* step() is running */
    bool failed;   /* the call was refused */
};

static bool write_verdict(struct answering *a)
{
    struct sl_http_call *call = a->call;
    const struct sl_decision *d = &call->check.decision;
    struct sl_buf *out = &call->text;
    struct sl_rendered rendered;
    int err = 0;

    if (!sl_http_decided(call, &rendered))
        return false;
    if (a->checks.is_array)
        err = sl_buf_add(out, out->len > 0 ? SL_STR(",") : SL_STR("["));
    if (!err)
        err = sl_render_verdict(d, &rendered, a->explain, out);
    if (err)
        sl_http_no_memory(call);
    return !err;
}

static void finish(struct answering *a)
{
    struct sl_http_call *call = a->call;
    struct sl_buf *out = &call->text;
    struct sl_str end = out->len > 0 ? SL_STR("]") : SL_STR("[]");

    if (!a->failed && a->checks.is_array && sl_buf_add(out, end)) {
        sl_http_no_memory(call);
        a->failed = true;
    }
    if (!a->failed)
        sl_http_answer(call, 200, SL_STR("application/json"), sl_buf_str(out));
    sl_http_resume_finish(call);
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

static void step(struct answering *a);

static void on_decided(struct sl_check *check)
{
    struct answering *a = check->ctx;

    a->failed = !write_verdict(a);
    a->next = a->next->next;
    if (!a->failed)
        end_early(a);
    if (!a->stepping)
        step(a);
}

/* Decide one check after the other, until one must wait. */
static void step(struct answering *a)
{
    struct sl_http_call *call = a->call;

    a->stepping = true;
    while (a->next && !a->failed) {
        call->check.no_wait = a->checks.is_array;
        sl_http_ask(call, &a->next->request, !a->explain, on_decided, a);
        if (call->check.busy)
            break;
    }
    a->stepping = false;
    if (!call->check.busy)
        finish(a);
}

/* Browsers send an Origin with the posts of a page; other clients do not.
 * Without a token, web pages must not spend units. */
bool sl_http_is_page(struct sl_http_call *call)
{
    const struct sl_server *server = call->worker->server;
    unsigned count = 0;
    struct sl_str origin =
        sl_http1_field(call->request, SL_STR("origin"), &count);

    if (count == 0 || server->token.len > 0 || server->accepts_client_cert)
        return false;
    sl_http_refuse(call, 403, "CROSS_ORIGIN",
                   "pages of %.*s are not allowed to ask here; to allow "
                   "browsers, set an access_token",
                   SL_STR_ARG(origin));
    return true;
}

static void run(struct sl_http_call *call, bool explain)
{
    struct answering *a;

    if (sl_http_is_page(call))
        return;
    a = sl_arena_take(&call->arena, sizeof(*a));
    if (!a) {
        sl_http_no_memory(call);
        return;
    }
    *a = (struct answering){.call = call, .explain = explain};
    if (!read_inputs(call, &a->checks))
        return;
    a->next = a->checks.first;
    sl_http_suspend(call);
    step(a);
}

void sl_http_check(struct sl_http_call *call)
{
    run(call, false);
}

void sl_http_explain(struct sl_http_call *call)
{
    run(call, true);
}

/* ---- checks of the engine ----
 *
 * The handler continues in done(), which is called either before
 * sl_check_start() returns or from the loop.
 */

static void refuse(struct sl_http_call *call, int err,
                   const struct sl_diag *diag)
{
    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        sl_http_no_memory(call);
    else
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", diag->sentence);
}

static void on_waits(struct sl_check *check)
{
    struct sl_http_call *call =
        (struct sl_http_call *)(void *)((char *)check -
                                        offsetof(struct sl_http_call, check));

    if (call->conn)
        sl_conn_watch_close(call->conn);
}

void sl_http_ask(struct sl_http_call *call, const struct sl_request *request,
                 bool spend, void (*done)(struct sl_check *check), void *ctx)
{
    call->check.done = done;
    call->check.ctx = ctx;
    call->check.waits = on_waits;
    call->asked_at = sl_clock_wall();
    sl_check_start(&call->check, request, 1, spend);
}

bool sl_http_decided(struct sl_http_call *call, struct sl_rendered *ret)
{
    const struct sl_server_worker *worker = call->worker;
    const struct sl_check *check = &call->check;
    sl_ns took = sl_clock_wall() - call->asked_at;
    int err = check->err;

    if (check->in_turn)
        took = 0; /* waiting is counted by another metric */
    if (!err && check->spend && worker->stats)
        sl_metrics_decision(worker->stats, &check->decision,
                            worker->server->name, took > 0 ? took : 0);
    sl_arena_reset(&call->text_arena);
    if (!err)
        err = sl_render(&check->decision, &call->text_arena, ret);
    if (err)
        refuse(call, err, &check->diag);
    return !err;
}

/* ---- /v1/backlog: the number of waiting jobs, reported by workers ----
 *
 * Workers use the listener and the token of applications. A report is valid at
 * once, and until the time that the routes set.
 */

#define DEPTH_MOST ((INT64_C(1) << 53) - 1)

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

void sl_http_backlogs(struct sl_http_call *call)
{
    const struct sl_policy *policy = call->check.active->policy;
    struct sl_writer w = {.out = &call->text};

    sl_writer_add(&w, SL_STR("{\"backlogs\":["));
    for (unsigned i = 0; i < policy->backlog_count; i++)
        write_backlog(call, &w, i);
    sl_writer_add(&w, SL_STR("]}"));
    sl_admin_answer(call, w.err, sl_admin_json);
}

/* Returns the index of the backlog in the path, or -1 after a refusal. */
static int find(struct sl_http_call *call)
{
    const struct sl_policy *policy = sl_check_hold(&call->check)->policy;

    for (unsigned i = 0; i < policy->backlog_count; i++)
        if (sl_str_eq(policy->backlogs[i], call->rest))
            return (int)i;
    sl_http_refuse(call, 404, "NO_SUCH_BACKLOG",
                   "no route of the policy has a backlog \"%.*s\"",
                   SL_STR_ARG(call->rest));
    return -1;
}

void sl_http_backlog_get(struct sl_http_call *call)
{
    int index = find(call);
    struct sl_writer w = {.out = &call->text};

    if (index < 0)
        return;
    write_backlog(call, &w, (unsigned)index);
    sl_admin_answer(call, w.err, sl_admin_json);
}

static bool read_depth(struct sl_http_call *call, int64_t *ret)
{
    json_t *root = NULL,
           *member = sl_admin_member(call, "depth", "{\"depth\":12}", &root);
    bool good = json_is_integer(member) && json_integer_value(member) >= 0 &&
                json_integer_value(member) <= DEPTH_MOST;

    if (good)
        *ret = json_integer_value(member);
    else if (member)
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "\"depth\" must be a whole number of at least 0");
    json_decref(root);
    return good;
}

void sl_http_backlog_put(struct sl_http_call *call)
{
    struct sl_diag diag = {0};
    int64_t depth;

    if (find(call) < 0 || !read_depth(call, &depth))
        return;
    if (sl_engine_backlog(call->worker->engine, call->rest, (uint64_t)depth,
                          sl_http_now(call), &diag))
        sl_http_refuse(call, 404, "NO_SUCH_BACKLOG", "%s", diag.sentence);
    else
        sl_http_backlog_get(call);
}

void sl_admin_backlog_put(struct sl_http_call *call)
{
    if (sl_admin_admit(call))
        sl_http_backlog_put(call);
}

/* ---- the paths of the http listener ---- */

const struct sl_http_path sl_api_paths[] = {
    {"POST", "/v1/check",    sl_http_check,        SL_HTTP_ACCESS_TOKEN },
    {"POST", "/v1/explain",  sl_http_explain,      SL_HTTP_ACCESS_TOKEN },
    {"POST", "/v1/holds/",   sl_http_holds,        SL_HTTP_ACCESS_TOKEN },
    {NULL,   "/v1/auth",     sl_http_auth,         SL_HTTP_ACCESS_TOKEN },
    {NULL,   "/v1/auth/",    sl_http_auth,         SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/backlog",  sl_http_backlogs,     SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/backlog/", sl_http_backlog_get,  SL_HTTP_ACCESS_TOKEN },
    {"PUT",  "/v1/backlog/", sl_http_backlog_put,  SL_HTTP_ACCESS_TOKEN },
    {"POST", "/v1/usage",    sl_http_usage_report, SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/usage/",   sl_http_usage_read,   SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/v1/deny",     sl_http_deny,         SL_HTTP_ACCESS_TOKEN },
    {"POST", "/json",        sl_http_json,         SL_HTTP_ACCESS_TOKEN },
    {"GET",  "/healthcheck", sl_http_healthcheck,  SL_HTTP_ACCESS_PUBLIC},
};

const unsigned sl_api_path_count = SL_LEN(sl_api_paths);
