/* ways_in.h -- the ways to ask, for ways.c: each over an engine of its own.
 *
 *   library   sluice_decide(), the reference of all others
 *   http      POST /v1/check, /v1/holds
 *   limit     the same, by {"limit","key"} where a request meets one limit
 *   resp      SLUICE.CHECK, SETTLE, RELEASE and EXTEND
 *   grpc      ShouldRateLimit
 *   auth      /v1/auth, in each family of headers
 *
 * Requests are bytes of the protocol and answers are what the protocol sends;
 * there are no sockets. What a way cannot express (a hold in forward-auth) is
 * asked by http of the same engine. Failed attempts are reported by http.
 * Reports of usage need a database and go to the engine.
 */
#ifndef SL_PROP_WAYS_IN_H
#define SL_PROP_WAYS_IN_H

#include <jansson.h>

#include "engine/engine_int.h"
#include "libpolicy/libpolicy.h"
#include "server/http/http.h"
#include "server/resp/resp_int.h"
#include "server/rls.h"
#include "ways.h"

enum way { WAY_HTTP, WAY_LIMIT, WAY_RESP, WAY_GRPC, WAY_AUTH, WAYS };

static const char *const way_names[WAYS + 1] = {"http", "limit", "resp",
                                                "grpc", "auth",  "flow"};

static uint64_t by_way[WAYS + 1]; /* answers by their own protocol */

/* ---- time and subjects, the same for all ---- */

#define SUBJECTS 16

static struct {
    sl_ns now;
    struct sl_clock clock;
    struct sl_loop *loop;
    struct registered {
        const char *scope, *id, *plan;
        sl_ns until;
        struct pair rate;
    } subjects[SUBJECTS];
    unsigned subject_count;
} scene;

static sl_ns scene_now(void *ctx)
{
    (void)ctx;
    return scene.now;
}

static int64_t scene_now_ns(void *ctx)
{
    return scene_now(ctx);
}

static const struct registered *find_subject(struct sl_str scope,
                                             struct sl_str id)
{
    for (unsigned i = 0; i < scene.subject_count; i++)
        if (sl_str_eq(scope, sl_str_c(scene.subjects[i].scope)) &&
            sl_str_eq(id, sl_str_c(scene.subjects[i].id)))
            return &scene.subjects[i];
    return NULL;
}

static void set_subject(const struct act *a)
{
    struct registered *r = (struct registered *)(uintptr_t)find_subject(
        sl_str_c(a->user), sl_str_c(a->key));

    if (!r && scene.subject_count < SUBJECTS)
        r = &scene.subjects[scene.subject_count++];
    if (r)
        *r = (struct registered){a->user, a->key, a->plan,
                                 a->until ? scene.now + a->until : SL_NS_NONE,
                                 a->costs};
}

struct found {
    struct sl_subject subject;
    struct sl_subject_override rate;
};

static void free_found(struct sl_subject *subject)
{
    free(subject);
}

/* The registry of the servers. */
static void on_find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    const struct registered *r = find_subject(lookup->scope, lookup->id);
    struct found *f = calloc(1, sizeof(*f));

    (void)subjects;
    if (!f)
        abort();
    f->subject = (struct sl_subject){.refs = 1,
                                     .free = free_found,
                                     .known = r != NULL,
                                     .id = r ? sl_str_c(r->id) : SL_STR(""),
                                     .expires = SL_NS_NONE};
    if (r) {
        f->subject.plan = sl_str_c(r->plan);
        f->subject.expires = r->until;
    }
    if (r && r->rate.name) {
        f->rate = (struct sl_subject_override){.limit = sl_str_c(r->rate.name),
                                               .rate = sl_str_c(r->rate.value),
                                               .until = r->until,
                                               .by = SL_STR("flow")};
        f->subject.rates = &f->rate;
        f->subject.rate_count = 1;
    }
    lookup->has_registered = scene.subject_count > 0;
    if (lookup->has_registered)
        lookup->found = &f->subject;
    else
        free(f);
    lookup->done(lookup);
}

static const struct sl_subjects_calls subject_calls = {on_find};
static struct sl_subjects subjects = {&subject_calls};
static const struct sl_engine_ctx ways_ctx = {.subjects = &subjects};

/* ---- answers ---- */

/* What all ways must agree on: the verdict of the library. */
struct answer {
    json_t *json; /* of a decision or of the end of a hold; NULL: refused */
    struct sluice_decision *d; /* of a decision */
};

static json_t *read_json(struct sl_str text)
{
    json_t *json = json_loadb(text.at, text.len, JSON_DECODE_ANY, NULL);
    json_t *headers = json_object_get(json, "headers");
    json_t *holds[] = {json_object_get(json, "hold"),
                       json_object_get(headers, "X-Sluice-Hold")};

    for (size_t i = 0; i < SL_LEN(holds); i++)
        if (json_is_string(holds[i]))
            json_string_set(holds[i], "#"); /* it is random */
    return json;
}

static json_t *limit_of(const json_t *verdict, struct sl_str name)
{
    json_t *limits = json_object_get(verdict, "limits"), *limit;
    size_t i;

    json_array_foreach(
        limits, i,
        limit) if (sl_str_eq(name,
                             sl_str_c(json_string_value(json_object_get(
                                 limit, "name"))))) return limit;
    return NULL;
}

/* ---- a side: an engine that one way asks ---- */

struct side {
    enum way way;
    struct sl_engine *engine;
    struct sl_server http;
    struct sl_server_worker worker;
    struct sl_server resp;
    struct sl_resp_worker resp_worker;
    struct sl_resp_conn session;
    struct sl_rls_call *rls;
    struct sl_buf in, out;
    unsigned arg_count; /* in `in`, of a command */
    char holds[WAYS_ACTS][SL_HOLD_TEXT];
    char why[4096]; /* how an answer differs */
};

static void side_open(struct side *s, enum way way, struct sl_policy *policy)
{
    struct sl_memory_options memory = {.size = 1 << 20, .now = scene_now};
    struct sl_engine_options options = {.now = scene_now};
    struct sl_diag diag = {.line = 0};

    memset(s, 0, sizeof(*s));
    s->way = way;
    if (sl_memory_open(&memory, &options.store, &diag))
        abort();
    options.store->secret = (struct sl_hash_key){5, 6};
    if (sl_engine_open(&options, policy, &s->engine, &diag))
        abort();
    s->http = (struct sl_server){.protocol = &sl_protocol_http,
                                 .paths = sl_api_paths,
                                 .path_count = sl_api_path_count,
                                 .name = "http"};
    sl_server_worker_init(&s->worker, &s->http, s->engine, NULL, NULL);
    s->worker.engine_ctx = &ways_ctx;
    sl_buf_init(&s->in, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&s->out, 8 << 20, &sl_alloc_libc);
    if (way == WAY_RESP) {
        s->resp = (struct sl_server){
            .protocol = &sl_protocol_resp, .name = "resp", .token = SL_STR("")};
        sl_server_worker_init(&s->resp_worker.base, &s->resp, s->engine, NULL,
                              NULL);
        s->resp_worker.base.engine_ctx = &ways_ctx;
        sl_resp_conn_init(&s->session, &s->resp_worker, &s->out);
    }
    if (way == WAY_GRPC) {
        s->rls = calloc(1, sizeof(*s->rls));
        sl_rls_call_init(s->rls, s->engine, &ways_ctx, &sl_alloc_libc);
        s->rls->loop = scene.loop;
    }
}

static void side_close(struct side *s)
{
    if (s->way == WAY_RESP)
        sl_server_worker_close(&s->resp_worker.base);
    if (s->rls)
        sl_rls_call_done(s->rls);
    free(s->rls);
    sl_server_worker_close(&s->worker);
    sl_engine_close(s->engine);
    sl_buf_done(&s->in);
    sl_buf_done(&s->out);
}

static void keep_named(struct side *s, unsigned i, struct sl_str name,
                       struct sl_str value)
{
    if (sl_str_eq_nocase(name, SL_STR("X-Sluice-Hold")))
        snprintf(s->holds[i], sizeof(s->holds[i]), "%.*s", SL_STR_ARG(value));
}

/* ---- comparing ---- */

static bool differs(struct side *s, const char *what, const char *got)
{
    snprintf(s->why, sizeof(s->why), "%s is %s", what, got ? got : "missing");
    return false;
}

static bool differs_by(struct side *s, const char *what, struct sl_str got)
{
    snprintf(s->why, sizeof(s->why), "%s is %.*s", what, SL_STR_ARG(got));
    return false;
}

static bool same_json(struct side *s, const char *what, json_t *want,
                      json_t *got)
{
    char *text;

    if (want && got && json_equal(want, got))
        return true;
    text = got ? json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    differs(s, what, text);
    free(text);
    return false;
}

static bool same_number(struct side *s, const char *what, int64_t want,
                        int64_t got)
{
    char text[64];

    snprintf(text, sizeof(text), "%lld, not %lld", (long long)got,
             (long long)want);
    return want == got || differs(s, what, text);
}

/* The whole verdict, or its members that do not belong to a route. */
static bool same_verdict(struct side *s, const struct answer *want,
                         struct sl_str text, bool whole)
{
    static const char *const members[] = {
        "allowed",  "status",         "code",   "message", "by",
        "degraded", "retry_after_ms", "limits", "body"};
    json_t *got = read_json(text);
    bool good = got != NULL || differs_by(s, "the verdict", text);

    if (good && whole)
        good = same_json(s, "the verdict", want->json, got);
    for (size_t i = 0; good && !whole && i < SL_LEN(members); i++)
        good = same_json(s, members[i], json_object_get(want->json, members[i]),
                         json_object_get(got, members[i]));
    json_decref(got);
    return good;
}

/* Is the header of an answer one of the verdict, with the same value? */
static bool in_verdict(const struct answer *want, struct sl_str name,
                       struct sl_str value)
{
    json_t *headers = json_object_get(want->json, "headers"), *of;
    const char *member;

    json_object_foreach(
        headers, member,
        of) if (sl_str_eq_nocase(name, sl_str_c(member)) &&
                (sl_str_eq_nocase(name, SL_STR("X-Sluice-Hold")) ||
                 sl_str_eq(value,
                           sl_str_c(json_string_value(of))))) return true;
    return false;
}

static bool same_body(struct side *s, const struct answer *want,
                      struct sl_str text)
{
    json_t *body = json_object_get(want->json, "body"), *got;
    bool good;

    if (json_is_null(body))
        return text.len == 0 || differs_by(s, "the body", text);
    got = read_json(text);
    good = same_json(s, "the body", body, got);
    json_decref(got);
    return good;
}

/* ---- http ---- */

/* Sends what is in s->in. The answer stays until sl_http_call_done(). */
static struct sl_http_call *send_http(struct side *s, bool from_unix)
{
    static struct sl_http1 parser;
    struct sl_http1_limits limits = {16 << 10, 32 << 10, 1 << 20};
    struct sl_http_call *call = sl_http_call_new(&s->worker);

    s->worker.still = scene.now;
    sl_http1_begin(&parser, &limits);
    if (!call || sl_http1_read(&parser, &s->in) != SL_HTTP1_DONE) {
        printf("# not read: %.*s\n", SL_STR_ARG(sl_buf_str(&s->in)));
        abort();
    }
    call->request = &parser;
    call->has_peer = !from_unix;
    call->peer_is_unix = from_unix;
    if (!from_unix && !sl_ip_parse(SL_STR("127.0.0.1"), &call->peer))
        abort();
    if (!sl_http_handle(call))
        abort();
    return call;
}

static void put_post(struct side *s, const char *path, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    sl_buf_clear(&s->in);
    PUTF(&s->in,
         "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
         path, text ? strlen(text) : 0, text ? text : "");
    free(text);
    json_decref(body);
}

static void set_text(json_t *object, const char *name, const char *value)
{
    if (value)
        json_object_set_new(object, name, json_string(value));
}

static json_t *cost_json(const struct act *a)
{
    return a->costs.name
               ? json_pack("{s:I}", a->costs.name,
                           (json_int_t)strtoll(a->costs.value, NULL, 10))
               : json_integer((json_int_t)a->cost);
}

static json_t *check_json(const struct act *a)
{
    json_t *object = json_object(), *headers = json_object();
    char span[32];

    set_text(object, "method", a->method);
    set_text(object, "path", a->path);
    set_text(object, "job", a->job);
    set_text(object, "limit", a->limit);
    set_text(object, "key", a->key);
    set_text(object, "user", a->user);
    set_text(object, "org", a->org);
    set_text(object, "plan", a->plan);
    set_text(object, "role", a->role);
    set_text(object, "ip", a->ip);
    set_text(object, "body", a->body);
    set_text(object, "idempotency_key", a->repeat_key);
    for (unsigned i = 0; i < a->header_count; i++)
        set_text(headers, a->headers[i].name, a->headers[i].value);
    json_object_set_new(object, "headers", headers);
    if (a->has_cost || a->costs.name)
        json_object_set_new(object, "cost", cost_json(a));
    if (a->hold > 0)
        set_text(object, "hold", sl_format_duration(a->hold, span));
    return object;
}

static void keep_hold(struct side *s, unsigned i, struct sl_str text)
{
    json_t *json = json_loadb(text.at, text.len, 0, NULL);
    const char *hold = json_string_value(json_object_get(json, "hold"));

    snprintf(s->holds[i], sizeof(s->holds[i]), "%s", hold ? hold : "");
    json_decref(json);
}

static bool ask_http(struct side *s, const struct act *a, unsigned i,
                     const struct answer *want, bool whole)
{
    struct sl_http_call *call;
    bool good;

    put_post(s, "/v1/check", check_json(a));
    call = send_http(s, false);
    if (!want->json)
        good = same_number(s, "the status", 400, call->status);
    else
        good = same_number(s, "the status", 200, call->status) &&
               same_verdict(s, want, call->body, whole);
    keep_hold(s, i, call->body);
    sl_http_call_done(call);
    return good;
}

static bool end_http(struct side *s, const struct act *a,
                     const struct answer *want)
{
    static const char *const verbs[] = {"settle", "release", "extend"};
    json_t *body = json_object();
    struct sl_http_call *call;
    char path[256];
    bool good;

    if (a->kind == ACT_EXTEND)
        json_object_set_new(body, "hold", json_string("30s"));
    if (a->kind == ACT_SETTLE && a->has_cost)
        json_object_set_new(body, "cost", cost_json(a));
    snprintf(path, sizeof(path), "/v1/holds/%s/%s", s->holds[a->of],
             verbs[a->kind - ACT_SETTLE]);
    put_post(s, path, body);
    call = send_http(s, false);
    if (want->json)
        good = same_verdict(s, want, call->body, true);
    else
        good = same_number(s, "the status", 404, call->status);
    sl_http_call_done(call);
    return good;
}

/* ---- by limit: a request that meets one limit, of one scope, asks for it by
 * its name ---- */

/* The key of the only limit of the verdict, or NULL. A repeat of another
 * request with the same idempotency key is refused, so there is none. */
static const char *only_key(const struct act *a, const struct answer *want)
{
    const struct sl_decision *d = &want->d->check.decision;
    const struct sl_limit_view *view = &d->shown[0];
    const struct sl_rule *rule = view->rule;

    if (!want->json || d->shown_count != 1 || view->skipped ||
        rule->per_count != 1 || d->reason != SL_REASON_NONE || d->replayed)
        return NULL;
    switch (rule->per[0]) {
    case SL_SCOPE_USER:
        return sl_str_eq(view->scope, SL_STR("user")) ? a->user : NULL;
    case SL_SCOPE_ORG:
        return sl_str_eq(view->scope, SL_STR("org")) ? a->org : NULL;
    case SL_SCOPE_IP:
        return a->ip[0] ? a->ip : NULL;
    default:
        return NULL;
    }
}

static bool ask_limit(struct side *s, const struct act *a, unsigned i,
                      const struct answer *want)
{
    const char *key =
        a->kind == ACT_LIMIT || a->repeat_key ? NULL : only_key(a, want);
    struct act by = *a;
    char cost[24];

    if (!key)
        return ask_http(s, a, i, want, true);
    by_way[WAY_LIMIT]++;
    by.method = by.path = by.job = NULL;
    by.limit = want->d->check.decision.shown[0].rule->name.at;
    by.key = key;
    snprintf(cost, sizeof(cost), "%llu",
             (unsigned long long)want->d->check.decision.shown[0].cost);
    by.costs = (struct pair){by.limit, cost};
    return ask_http(s, &by, i, want, false);
}

/* ---- resp ---- */

static void put_arg(struct side *s, const char *name, const char *value)
{
    if (!value)
        return;
    if (s->in.len == 0)
        s->arg_count = 0;
    if (name[0])
        PUTF(&s->in, "$%zu\r\n%s\r\n", strlen(name), name);
    PUTF(&s->in, "$%zu\r\n%s\r\n", strlen(value), value);
    s->arg_count += name[0] ? 2 : 1;
}

/* Puts the number of arguments before them, and returns the reply. */
static struct sl_str send_resp(struct side *s)
{
    struct sl_buf command;

    sl_buf_init(&command, 1 << 20, &sl_alloc_libc);
    PUTF(&command, "*%u\r\n%.*s", s->arg_count, SL_STR_ARG(sl_buf_str(&s->in)));
    sl_buf_clear(&s->in);
    sl_buf_clear(&s->out);
    s->resp_worker.base.still = scene.now;
    if (sl_resp_serve(&s->session, &command, 10) != SL_RESP_EMPTY)
        abort();
    sl_buf_done(&command);
    if (sl_buf_add(&s->out, (struct sl_str){"", 1}))
        abort();
    return (struct sl_str){s->out.bytes, s->out.len - 1};
}

/* The text of a bulk string; empty if the reply is none. */
static struct sl_str bulk(struct sl_str reply)
{
    const char *line = memchr(reply.at, '\n', reply.len);

    if (reply.at[0] != '$' || !line)
        return (struct sl_str){"", 0};
    return (struct sl_str){line + 1, strtoul(reply.at + 1, NULL, 10)};
}

static void put_check(struct side *s, const struct act *a, bool json)
{
    char name[64], number[32], span[32];

    sl_buf_clear(&s->in);
    put_arg(s, "", "SLUICE.CHECK");
    put_arg(s, a->method ? a->method : "", a->path);
    put_arg(s, "job", a->job);
    put_arg(s, "limit", a->limit);
    put_arg(s, "", a->key);
    put_arg(s, "user", a->user);
    put_arg(s, "org", a->org);
    put_arg(s, "plan", a->plan);
    put_arg(s, "role", a->role);
    put_arg(s, "ip", a->ip);
    put_arg(s, "body", a->body);
    put_arg(s, "idempotency_key", a->repeat_key);
    for (unsigned i = 0; i < a->header_count; i++) {
        snprintf(name, sizeof(name), "header.%s", a->headers[i].name);
        put_arg(s, name, a->headers[i].value);
    }
    snprintf(number, sizeof(number), "%llu", (unsigned long long)a->cost);
    put_arg(s, "cost", a->has_cost && !a->costs.name ? number : NULL);
    if (a->costs.name) {
        snprintf(name, sizeof(name), "cost.%s", a->costs.name);
        put_arg(s, name, a->costs.value);
    }
    put_arg(s, "hold", a->hold > 0 ? sl_format_duration(a->hold, span) : NULL);
    put_arg(s, "as", json ? "json" : NULL);
}

static void put_member(struct sl_buf *out, const char *name,
                       const json_t *value)
{
    const char *text = json_string_value(value);

    PUTF(out, "$%zu\r\n%s\r\n", strlen(name), name);
    if (json_is_boolean(value))
        PUTF(out, ":%d\r\n", json_is_true(value));
    else if (text)
        PUTF(out, "$%zu\r\n%s\r\n", strlen(text), text);
    else
        put(out, "$-1\r\n");
}

static void put_number(struct sl_buf *out, const char *name, int64_t value)
{
    PUTF(out, "$%zu\r\n%s\r\n:%lld\r\n", strlen(name), name, (long long)value);
}

static int64_t number_or(const json_t *object, const char *name, int64_t none)
{
    const json_t *value = json_object_get(object, name);

    return json_is_integer(value) ? json_integer_value(value) : none;
}

/* The usual reply to a verdict. */
static void put_reply(struct sl_buf *out, const struct answer *want)
{
    const struct sl_decision *d = &want->d->check.decision;
    const json_t *v = want->json;
    int index = d->by >= 0 ? d->by : d->report;
    const json_t *limit =
        index < 0 ? NULL
                  : json_array_get(json_object_get(v, "limits"), (size_t)index);

    put(out, "*24\r\n");
    put_member(out, "allowed", json_object_get(v, "allowed"));
    put_number(out, "status", number_or(v, "status", 0));
    put_number(out, "limit", number_or(limit, "limit", -1));
    put_number(out, "remaining", number_or(limit, "remaining", -1));
    put_number(out, "retry_after_ms", number_or(v, "retry_after_ms", -1));
    put_number(out, "reset_ms", number_or(limit, "reset_ms", -1));
    put_number(out, "wait_ms", number_or(limit, "wait_ms", 0));
    put_member(out, "by", json_object_get(v, "by"));
    put_member(out, "code", json_object_get(v, "code"));
    put_member(out, "message", json_object_get(v, "message"));
    put_member(out, "request_id", json_object_get(v, "request_id"));
    put_member(out, "degraded", json_object_get(v, "degraded"));
}

/* Half of the replies are JSON, and those with a hold. */
static bool ask_resp(struct side *s, const struct act *a, unsigned i,
                     const struct answer *want)
{
    bool json = i % 2 == 0 || !want->json ||
                json_is_string(json_object_get(want->json, "hold"));
    struct sl_str reply;
    struct sl_buf usual;
    bool good;

    by_way[WAY_RESP]++;
    put_check(s, a, json);
    reply = send_resp(s);
    if (!want->json)
        return reply.at[0] == '-' || differs_by(s, "the reply", reply);
    if (json) {
        keep_hold(s, i, bulk(reply));
        return same_verdict(s, want, bulk(reply), true);
    }
    sl_buf_init(&usual, 1 << 20, &sl_alloc_libc);
    put_reply(&usual, want);
    good = sl_str_eq(sl_buf_str(&usual), reply) ||
           differs_by(s, "the reply", reply);
    sl_buf_done(&usual);
    return good;
}

static bool end_resp(struct side *s, const struct act *a,
                     const struct answer *want)
{
    static const char *const verbs[] = {"SLUICE.SETTLE", "SLUICE.RELEASE",
                                        "SLUICE.EXTEND"};
    struct sl_str reply;
    char number[32];

    sl_buf_clear(&s->in);
    put_arg(s, "", verbs[a->kind - ACT_SETTLE]);
    put_arg(s, "", s->holds[a->of][0] ? s->holds[a->of] : "none");
    snprintf(number, sizeof(number), "%llu", (unsigned long long)a->cost);
    put_arg(s, "", a->kind == ACT_SETTLE && a->has_cost ? number : NULL);
    put_arg(s, "", a->kind == ACT_EXTEND ? "30s" : NULL);
    put_arg(s, "as", "json");
    reply = send_resp(s);
    if (want->json)
        return same_verdict(s, want, bulk(reply), true);
    return sl_str_begins(reply, SL_STR("-UNKNOWNHOLD")) ||
           differs_by(s, "the reply", reply);
}

/* ---- grpc ---- */

static void on_rls(struct sl_rls_call *call)
{
    call->ctx = call;
}

static void add_entry(struct sl_rls_request *r, const char *key,
                      const char *value)
{
    if (value)
        r->entries[r->entry_count++] =
            (struct sl_rls_entry){sl_str_c(key), sl_str_c(value)};
}

/* The request as bytes, and read again. */
static void put_should(struct side *s, const struct act *a)
{
    static struct sl_rls_request r;
    char names[WAYS_HEADERS][64];
    struct sl_pb_out out = {.size = 64 << 10};
    struct sl_diag diag;

    memset(&r, 0, sizeof(r));
    r.domain = SL_STR("edge");
    r.count = 1;
    add_entry(&r, "method", a->method);
    add_entry(&r, "path", a->path);
    add_entry(&r, "job", a->job);
    add_entry(&r, "user", a->user);
    add_entry(&r, "org", a->org);
    add_entry(&r, "plan", a->plan);
    add_entry(&r, "role", a->role);
    add_entry(&r, "ip", a->ip[0] ? a->ip : NULL);
    for (unsigned i = 0; i < a->header_count; i++) {
        snprintf(names[i], sizeof(names[i]), "header.%s", a->headers[i].name);
        add_entry(&r, names[i], a->headers[i].value);
    }
    r.descriptors[0] = (struct sl_rls_descriptor){.entries = r.entries,
                                                  .entry_count = r.entry_count};
    if (a->has_cost && a->cost % 2)
        r.hits = (uint32_t)a->cost;
    else if (a->has_cost) {
        r.descriptors[0].has_hits = true;
        r.descriptors[0].hits = a->cost;
    }
    sl_buf_clear(&s->in);
    if (sl_buf_reserve(&s->in, out.size))
        abort();
    out.bytes = s->in.bytes;
    sl_rls_request_write(&r, &out);
    if (out.full || sl_rls_request_read((struct sl_str){out.bytes, out.len},
                                        &s->rls->request, &diag))
        abort();
}

/* The reset is that of the header, which Envoy makes of it: it follows
 * `reset: next`. */
static bool same_status(struct side *s, const struct answer *want,
                        const struct sl_rls_status *status)
{
    const struct sl_decision *d = &want->d->check.decision;
    const json_t *limit = limit_of(want->json, status->name);
    sl_ns reset = SL_NS_NONE;

    if (!status->has_limit)
        return true;
    for (unsigned i = 0; i < d->shown_count; i++)
        if (sl_str_eq(d->shown[i].rule->name, status->name))
            reset = sl_limit_view_reset_in(d, &d->shown[i]);
    return (limit || differs_by(s, "the limit", status->name)) &&
           same_number(s, "limit", number_or(limit, "limit", -1),
                       status->requests_per_unit) &&
           same_number(s, "remaining", number_or(limit, "remaining", -1),
                       status->remaining) &&
           same_number(s, "reset", reset, status->reset_in);
}

static bool same_should(struct side *s, const struct answer *want,
                        const struct sl_rls_response *r)
{
    bool allowed = json_is_true(json_object_get(want->json, "allowed"));
    json_t *headers = json_object_get(want->json, "headers");

    if (!same_number(s, "the code", allowed ? SL_RLS_OK : SL_RLS_OVER_LIMIT,
                     r->code) ||
        !same_number(s, "statuses", 1, r->count) ||
        !same_number(s, "the code of the status",
                     allowed ? SL_RLS_OK : SL_RLS_OVER_LIMIT,
                     r->statuses[0].code) ||
        !same_status(s, want, &r->statuses[0]))
        return false;
    for (unsigned i = 0; i < r->header_count; i++)
        if (!in_verdict(want, r->headers[i].key, r->headers[i].value))
            return differs_by(s, "a header", r->headers[i].key);
    return same_number(s, "the count of headers",
                       (int64_t)json_object_size(headers), r->header_count) &&
           same_body(s, want, r->body);
}

/* A peek asks whether one more hit would pass: it is another question. */
static bool can_grpc(const struct act *a, const struct answer *want)
{
    return want->json && a->kind <= ACT_JOB && !a->body && !a->repeat_key &&
           !a->costs.name && a->hold == 0 && !(a->has_cost && a->cost == 0);
}

static bool ask_grpc(struct side *s, const struct act *a, unsigned i,
                     const struct answer *want)
{
    static struct sl_rls_response back;
    struct sl_rls_call *call = s->rls;
    struct sl_pb_out out = {.size = 0};
    bool good;

    by_way[WAY_GRPC]++;
    sl_rls_call_reset(call);
    put_should(s, a);
    call->done = on_rls;
    call->ctx = NULL;
    sl_rls_decide(call);
    if (call->ctx != call)
        abort();
    if (call->err)
        return differs(s, "the error", call->check.diag.sentence);
    out.size = sl_rls_response_size(&call->response);
    sl_buf_clear(&s->out);
    if (sl_buf_reserve(&s->out, out.size))
        abort();
    out.bytes = s->out.bytes;
    sl_rls_response_write(&call->response, &out);
    good = !out.full &&
           !sl_rls_response_read((struct sl_str){out.bytes, out.len}, &back);
    for (unsigned h = 0; good && h < back.header_count; h++)
        keep_named(s, i, back.headers[h].key, back.headers[h].value);
    return (good || differs(s, "the answer", "unreadable")) &&
           same_should(s, want, &back);
}

/* ---- forward-auth ---- */

static bool is_plain(const char *path)
{
    for (; *path; path++)
        if (*path <= ' ' || *path > '~' || strchr("\\\"", *path))
            return false;
    return true;
}

/* A made-up address is what a proxy would not send. */
static bool can_auth(const struct act *a, const struct answer *want)
{
    return want->json && a->kind == ACT_REQUEST && !a->repeat_key &&
           !a->costs.name && a->hold == 0 && strcmp(a->ip, "nonsense") != 0;
}

static void put_field(struct side *s, const char *name, const char *value)
{
    if (value)
        PUTF(&s->in, "%s: %s\r\n", name, value);
}

/* The length of the client's body, or NULL. */
static const char *length_of(const struct act *a)
{
    for (unsigned h = 0; h < a->header_count; h++)
        if (strcmp(a->headers[h].name, "content-length") == 0)
            return a->headers[h].value;
    return NULL;
}

static void put_auth(struct side *s, const struct act *a, unsigned i)
{
    static const char *const families[] = {"Original", "Forwarded"};
    const char *length = length_of(a);
    enum sl_forward family = (enum sl_forward)(i % 3);
    size_t body = a->body ? strlen(a->body) : 0;
    char name[64];

    if (family == SL_FORWARD_PATH &&
        (a->has_cost || length || !is_plain(a->path)))
        family = SL_FORWARD_ORIGINAL;
    s->http.forward = family;
    sl_buf_clear(&s->in);
    if (family == SL_FORWARD_PATH)
        PUTF(&s->in, "%s /v1/auth%s HTTP/1.1\r\n", a->method, a->path);
    else if (a->has_cost)
        PUTF(&s->in, "GET /v1/auth?cost=%llu HTTP/1.1\r\n",
             (unsigned long long)a->cost);
    else
        put(&s->in, "GET /v1/auth HTTP/1.1\r\n");
    PUTF(&s->in, "Host: localhost\r\nContent-Length: %zu\r\n", body);
    if (family != SL_FORWARD_PATH) {
        snprintf(name, sizeof(name), "X-%s-Method", families[family]);
        put_field(s, name, a->method);
        snprintf(name, sizeof(name), "X-%s-Uri", families[family]);
        put_field(s, name, a->path);
        snprintf(name, sizeof(name), "X-%s-Content-Length", families[family]);
        put_field(s, name, length);
    }
    put_field(s, "X-Forwarded-For", a->ip[0] ? a->ip : NULL);
    put_field(s, "X-User", a->user);
    put_field(s, "X-Org", a->org);
    put_field(s, "X-Plan", a->plan);
    put_field(s, "X-Role", a->role);
    for (unsigned h = 0; h < a->header_count; h++)
        if (strcmp(a->headers[h].name, "content-length") != 0)
            put_field(s, a->headers[h].name, a->headers[h].value);
    PUTF(&s->in, "\r\n%s", a->body ? a->body : "");
}

static bool same_auth(struct side *s, const struct answer *want,
                      const struct sl_http_call *call)
{
    json_t *headers = json_object_get(want->json, "headers");
    size_t shown = call->body.len > 0; /* Content-Type */

    if (!same_number(s, "the status", number_or(want->json, "status", 0),
                     call->status) ||
        !same_body(s, want, call->body))
        return false;
    for (unsigned i = 0; i < call->field_count; i++) {
        struct sl_str name = call->fields[i].name;

        if (in_verdict(want, name, call->fields[i].value))
            shown++;
        else if (!sl_str_eq_nocase(name, SL_STR("WWW-Authenticate")) &&
                 !sl_str_begins(name, SL_STR("X-Sluice-")))
            return differs_by(s, "a header", name);
    }
    return same_number(s, "the count of headers",
                       (int64_t)json_object_size(headers), (int64_t)shown);
}

static bool ask_auth(struct side *s, const struct act *a, unsigned i,
                     const struct answer *want)
{
    struct sl_http_call *call;
    bool good;

    by_way[WAY_AUTH]++;
    put_auth(s, a, i);
    call = send_http(s, !a->ip[0]);
    for (unsigned h = 0; h < call->field_count; h++)
        keep_named(s, i, call->fields[h].name, call->fields[h].value);
    good = same_auth(s, want, call);
    sl_http_call_done(call);
    return good;
}

/* ---- a report of usage, after its database ---- */

static bool report_used(struct side *s, const struct act *a,
                        const struct answer *want)
{
    bool is_user = strcmp(a->user, "user") == 0;
    struct sl_request request = {.limit = sl_str_c(a->limit),
                                 .key = sl_str_c(a->key),
                                 .user = sl_str_c(is_user ? a->key : NULL),
                                 .org = sl_str_c(is_user ? NULL : a->key),
                                 .request_id = SL_STR("r"),
                                 .trusted = true,
                                 .has_cost = true,
                                 .cost = a->cost,
                                 .charge = !a->back,
                                 .give_back = a->back,
                                 .metered = true,
                                 .now = scene.now};
    struct sl_rendered rendered;
    struct sl_arena arena;
    struct sl_check check;
    bool good;

    sl_check_init(&check, s->engine, &ways_ctx, &sl_alloc_libc);
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    sl_buf_clear(&s->out);
    sl_check_ref_policy(&check);
    sl_check_start(&check, &request, 1, true);
    if (check.err || sl_render(&check.decision, &arena, &rendered) ||
        sl_render_verdict(&check.decision, &rendered, false, &s->out))
        good = !want->json || differs(s, "the error", check.diag.sentence);
    else
        good = same_verdict(s, want, sl_buf_str(&s->out), true);
    sl_arena_done(&arena);
    sl_check_done(&check);
    return good;
}

/* ---- a failed attempt ---- */

/* A refused report stands for an error of the library, or for a key that the
 * limit's scope does not have. */
static bool report_failed(struct side *s, const struct act *a,
                          const struct answer *want)
{
    json_t *body = json_pack("{s:s,s:s,s:i}", "limit", a->limit, "key", a->key,
                             "failed", 1);
    const char *code = json_string_value(json_object_get(want->json, "code"));
    bool blocked = code && strcmp(code, "BLOCKED") == 0;
    struct sl_http_call *call;
    json_t *got;
    bool good;

    put_post(s, "/v1/usage", body);
    call = send_http(s, false);
    got = read_json(call->body);
    good = same_number(s, "the status", want->json ? 200 : 400, call->status);
    if (good && want->json)
        good = same_number(s, "blocked", blocked,
                           json_is_true(json_object_get(got, "blocked"))) &&
               same_number(s, "retry_after_ms",
                           blocked ? number_or(want->json, "retry_after_ms", -1)
                                   : -1,
                           number_or(got, "retry_after_ms", -1));
    json_decref(got);
    sl_http_call_done(call);
    return good;
}

/* ---- an act by any way ---- */

/* False with s->why if the answer differs. `i` is the number of the act. */
static bool side_act(struct side *s, const struct act *a, unsigned i,
                     const struct answer *want)
{
    if (a->kind == ACT_USED)
        return report_used(s, a, want);
    if (a->kind == ACT_FAILED)
        return report_failed(s, a, want);
    if (a->kind >= ACT_SETTLE)
        return s->way == WAY_RESP ? end_resp(s, a, want) : end_http(s, a, want);
    if (s->way == WAY_LIMIT)
        return ask_limit(s, a, i, want);
    if (s->way == WAY_RESP)
        return ask_resp(s, a, i, want);
    if (s->way == WAY_GRPC && can_grpc(a, want))
        return ask_grpc(s, a, i, want);
    if (s->way == WAY_AUTH && can_auth(a, want))
        return ask_auth(s, a, i, want);
    return ask_http(s, a, i, want, true);
}

#endif
