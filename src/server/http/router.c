/* router.c -- from a request to its handler, and the answers of handlers.
 *
 * Paths are compared byte by byte, without normalization. A client without the
 * token learns nothing about paths: unknown paths are 401, too.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/request.h"
#include "server/http/http_int.h"
#include "wire/json.h"

#define ALLOW_MAX 128
#define PATHS_MAX 64

/* Split the target into path and query. */
static void split_target(struct sl_http_call *call)
{
    struct sl_str target = call->request->target;
    const char *mark =
        target.len > 0 ? memchr(target.at, '?', target.len) : NULL;

    call->path = target;
    call->query = call->rest = (struct sl_str){"", 0};
    if (!mark)
        return;
    call->path.len = (size_t)(mark - target.at);
    call->query = sl_str_from(target, call->path.len + 1);
}

static bool matches_path(const struct sl_http_path *row, struct sl_str path,
                         struct sl_str *rest)
{
    struct sl_str own = sl_str_c(row->path);

    *rest = sl_str_from(path, own.len);
    if (own.len > 1 && own.at[own.len - 1] == '/' && path.len > own.len)
        path.len = own.len;
    return sl_str_eq(own, path);
}

static bool matches_method(const struct sl_http_path *row, struct sl_str method)
{
    struct sl_str own;

    if (!row->method)
        return true;
    own = sl_str_c(row->method);
    return sl_str_eq(own, method) ||
           (sl_str_eq(method, SL_STR("HEAD")) && sl_str_eq(own, SL_STR("GET")));
}

/* ---- refusals ---- */

static void refuse_method(struct sl_http_call *call)
{
    const struct sl_server *server = call->worker->server;
    char *allow = sl_arena_take(&call->arena, ALLOW_MAX);
    struct sl_str rest;
    size_t len = 0;

    if (!allow) {
        sl_http_no_memory(call);
        return;
    }
    for (unsigned i = 0; i < server->path_count && len < ALLOW_MAX; i++) {
        const struct sl_http_path *row = &server->paths[i];

        if (matches_path(row, call->path, &rest))
            len += (size_t)snprintf(
                allow + len, ALLOW_MAX - len, "%s%s%s", len > 0 ? ", " : "",
                row->method, strcmp(row->method, "GET") == 0 ? ", HEAD" : "");
    }
    if (len >= ALLOW_MAX)
        len = ALLOW_MAX - 1;
    sl_http_field(call, SL_STR("Allow"), (struct sl_str){allow, len});
    sl_http_refuse(call, 405, "METHOD_NOT_ALLOWED",
                   "%.*s does not support %.*s; it supports %s",
                   SL_STR_ARG(call->path), SL_STR_ARG(call->request->method),
                   allow);
}

/* The path that differs by trailing slashes, or the nearest one; or NULL. */
static const char *find_near(const struct sl_server *server, struct sl_str path)
{
    const char *words[PATHS_MAX];
    unsigned count = 0;

    while (path.len > 1 && path.at[path.len - 1] == '/')
        path.len--;
    for (unsigned i = 0; i < server->path_count && count < PATHS_MAX; i++) {
        words[count++] = server->paths[i].path;
        if (sl_str_eq(sl_str_c(server->paths[i].path), path))
            return server->paths[i].path;
    }
    return sl_str_nearest(path, words, count);
}

static void refuse_path(struct sl_http_call *call)
{
    const char *near = find_near(call->worker->server, call->path);

    sl_http_refuse(call, 404, "NOT_FOUND", "unknown path %.*s%s%s%s",
                   SL_STR_ARG(call->path), near ? "; did you mean " : "",
                   near ? near : "", near ? "?" : "");
}

/* ---- dispatch ---- */

/* The row of the request, or NULL. `known`: the path has other methods. */
static const struct sl_http_path *find(struct sl_http_call *call, bool *known)
{
    const struct sl_server *server = call->worker->server;
    struct sl_str rest;

    *known = false;
    for (unsigned i = 0; i < server->path_count; i++) {
        const struct sl_http_path *row = &server->paths[i];

        if (!matches_path(row, call->path, &rest))
            continue;
        *known = true;
        call->rest = rest;
        if (matches_method(row, call->request->method))
            return row;
    }
    return NULL;
}

/* Returns false after a refusal. */
static bool admit(struct sl_http_call *call, const struct sl_http_path *row)
{
    enum sl_access access = row ? row->access : SL_ACCESS_TOKEN;

    if (access == SL_ACCESS_PUBLIC)
        return true;
    if (!sl_http_admit(call))
        return false;
    if (access == SL_ACCESS_PROGRAM)
        return !sl_http_is_page(call);
    return access != SL_ACCESS_ADMIN || sl_admin_admit(call);
}

static void dispatch(struct sl_http_call *call)
{
    bool known;
    const struct sl_http_path *row = find(call, &known);

    if (!admit(call, row))
        return;
    call->arg = row ? row->arg : 0;
    if (row)
        row->handle(call);
    else if (known)
        refuse_method(call);
    else
        refuse_path(call);
}

/* Set the fields that depend on the request and the peer. */
static void prepare(struct sl_http_call *call)
{
    static const struct sl_identity no_identity;
    const struct sl_identity *identity = &no_identity;
    struct sl_peer peer = {.ip = call->peer,
                           .has_ip = call->has_peer,
                           .is_unix = call->peer_is_unix};

    if (call->worker->engine)
        identity = &sl_check_ref_policy(&call->check)->policy->identity;
    call->trusted = sl_peer_trusted(identity, &peer);
    call->token_in_authorize = false;
    sl_http_begin(call);
    split_target(call);
}

bool sl_http_access_check(struct sl_http_call *call, bool *is_public)
{
    const struct sl_http_path *row;
    bool known;

    prepare(call);
    row = find(call, &known);
    *is_public = row && row->access == SL_ACCESS_PUBLIC;
    return *is_public || sl_http_admit(call);
}

void sl_http_count(const struct sl_http_call *call)
{
    const struct sl_server_worker *worker = call->worker;

    if (worker->stats)
        sl_metrics_request(worker->stats, worker->server->name, call->status);
    if (worker->server->on_answer)
        worker->server->on_answer(call);
}

bool sl_http_handle(struct sl_http_call *call)
{
    prepare(call);
    call->in_handler = true;
    dispatch(call);
    call->in_handler = false;
    if (call->stage == SL_HTTP_SUSPENDED) {
        sl_server_op_suspend(call->worker, &call->op);
        return false;
    }
    sl_http_count(call);
    return true;
}

/* ---- the life of a call.
 *
 *     spare --> handler --> answered at once --------------------> spare
 *                  |                                                ^
 *                  +-- sl_http_suspend() --> suspended --> finished --+
 *
 * With a store in this process a thread has one call. With a remote store it
 * has one for each waiting connection; all but one are freed afterwards, with
 * the policies that they hold.
 */

#define MAX_TEXT  ((size_t)64 << 20) /* verdicts of a large array */
#define MAX_ARENA ((size_t)16 << 20)

/* Bytes that a spare call keeps. */
#define SPARE_TEXT ((size_t)1 << 20)

/* Free what a disconnected client left for the call. */
static void free_detached(struct sl_http_call *call)
{
    if (!call->detached)
        return;
    sl_server_conn_free(&call->detached->base);
    sl_buf_done(&call->detached_in);
    call->detached = NULL;
}

void sl_http_call_free(struct sl_server_op *op)
{
    struct sl_http_call *call = (struct sl_http_call *)op;

    free_detached(call);
    sl_check_done(&call->check);
    sl_arena_done(&call->arena);
    sl_arena_done(&call->text_arena);
    sl_buf_done(&call->text);
}

void sl_http_call_init(struct sl_server_worker *worker, struct sl_server_op *op)
{
    struct sl_http_call *call = (struct sl_http_call *)op;
    const struct sl_alloc *alloc = worker->alloc;

    call->worker = worker;
    call->detached = NULL;
    sl_check_init(&call->check, worker->engine, worker->engine_ctx, alloc);
    sl_arena_init(&call->arena, MAX_ARENA, alloc);
    sl_arena_init(&call->text_arena, MAX_ARENA, alloc);
    sl_buf_init(&call->text, MAX_TEXT, alloc);
}

struct sl_http_call *sl_http_call_new(struct sl_server_worker *worker)
{
    struct sl_http_call *call = (struct sl_http_call *)sl_server_op_get(worker);

    if (!call)
        return NULL;
    if (call->check.engine != worker->engine) { /* set while it was in use */
        sl_check_done(&call->check);
        sl_check_init(&call->check, worker->engine, worker->engine_ctx,
                      worker->alloc);
    }
    call->client = NULL;
    call->conn = NULL;
    call->request = NULL;
    call->check.no_wait = false;
    call->has_peer = call->peer_is_unix = call->shows_cert = false;
    call->stage = SL_HTTP_HANDLED;
    call->in_handler = false;
    return call;
}

void sl_http_call_done(struct sl_http_call *call)
{
    if (!call)
        return;
    free_detached(call);
    sl_arena_reset(&call->arena);
    sl_arena_reset(&call->text_arena);
    sl_buf_clear(&call->text);
    if (call->text.size > SPARE_TEXT)
        sl_buf_done(&call->text);
    sl_server_op_put(call->worker, &call->op);
}

/* ---- suspended calls ---- */

void sl_http_suspend(struct sl_http_call *call)
{
    call->stage = SL_HTTP_SUSPENDED;
}

void sl_http_resume_finish(struct sl_http_call *call)
{
    call->stage = SL_HTTP_FINISHED;
    if (call->in_handler)
        return; /* sl_http_handle() continues */
    sl_server_op_resume(&call->op);
    sl_http_count(call);
    if (call->client) {
        sl_http_resume(call);
        return;
    }
    if (call->stream)
        call->stream->on_close(call->stream); /* it never began */
    sl_http_call_done(call);
}

/* ---- answers ---- */

#define SENTENCE 512

static const struct sl_str problem = {"application/problem+json", 24};

void sl_http_begin(struct sl_http_call *call)
{
    call->status = 200;
    call->content_type = call->body = (struct sl_str){"", 0};
    call->field_count = 0;
    call->close = false;
    call->stream = NULL;
}

void sl_http_answer(struct sl_http_call *call, int status,
                    struct sl_str content_type, struct sl_str body)
{
    call->status = status;
    call->content_type = content_type;
    call->body = body;
}

void sl_http_field(struct sl_http_call *call, struct sl_str name,
                   struct sl_str value)
{
    if (call->field_count < SL_LEN(call->fields))
        call->fields[call->field_count++] =
            (struct sl_http1_field){name, value};
}

bool sl_http_no_memory(struct sl_http_call *call)
{
    sl_http_answer(call, 503, problem,
                   SL_STR("{\"type\":\"about:blank\",\"title\":\"Service "
                          "Unavailable\",\"status\":503,\"detail\":\"out of "
                          "memory\",\"code\":\"NO_MEMORY\"}"));
    return false;
}

void *sl_http_new(struct sl_http_call *call, size_t size)
{
    void *memory = sl_arena_take(&call->arena, size);

    if (memory)
        memset(memory, 0, size);
    else
        sl_http_no_memory(call);
    return memory;
}

void sl_http_answer_json(struct sl_http_call *call, int err)
{
    if (err)
        sl_http_no_memory(call);
    else
        sl_http_answer(call, 200, SL_STR("application/json"),
                       sl_buf_str(&call->text));
}

bool sl_http_refuse(struct sl_http_call *call, int status, const char *code,
                    const char *fmt, ...)
{
    struct sl_writer w = {&call->text, 0};
    char sentence[SENTENCE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    sl_buf_clear(w.out); /* the handler may have begun an answer */
    sl_json_open(&w, '{');
    sl_json_member_text(&w, "type", "about:blank");
    sl_json_member_str(&w, "title",
                       sl_str_from(sl_str_c(sl_http1_reason(status)), 4));
    sl_json_key(&w, SL_STR("status"));
    sl_json_int(&w, status);
    sl_json_member_text(&w, "detail", sentence);
    sl_json_member_text(&w, "code", code);
    sl_json_close(&w, '}');
    if (w.err)
        return sl_http_no_memory(call);
    sl_http_answer(call, status, problem, sl_buf_str(w.out));
    return false;
}

void sl_http_show(struct sl_http_call *call, int status,
                  const struct sl_rendered *rendered)
{
    for (unsigned i = 0; i < rendered->header_count; i++)
        sl_http_field(call, rendered->headers[i].name,
                      rendered->headers[i].value);
    sl_http_answer(call, status, rendered->content_type, rendered->body);
}

sl_ns sl_http_now(const struct sl_http_call *call)
{
    return sl_server_now(call->worker);
}
