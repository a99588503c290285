/* router.c -- from a request to its handler.
 *
 * Paths of a door are few and compared as they are: no spelling but the one
 * that is documented leads anywhere. Whoever may not use the door learns
 * nothing of what it has: without the token, unknown paths are 401 too.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/request.h"
#include "server/http/http_int.h"
#include "wire/json.h"

#define ALLOW_MAX 128
#define PATHS_MAX 64

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

static bool is_at(const struct sl_http_path *row, struct sl_str path,
                  struct sl_str *rest)
{
    struct sl_str own = sl_str_c(row->path);

    *rest = sl_str_from(path, own.len);
    if (own.len > 1 && own.at[own.len - 1] == '/' && path.len > own.len)
        path.len = own.len;
    return sl_str_eq(own, path);
}

static bool takes(const struct sl_http_path *row, struct sl_str method)
{
    struct sl_str own;

    if (!row->method)
        return true;
    own = sl_str_c(row->method);
    return sl_str_eq(own, method) ||
           (sl_str_eq(method, SL_STR("HEAD")) && sl_str_eq(own, SL_STR("GET")));
}

/* ---- what leads nowhere ---- */

static void refuse_method(struct sl_http_call *call)
{
    const struct sl_http_door *door = call->worker->door;
    char *allow = sl_arena_take(&call->arena, ALLOW_MAX);
    struct sl_str rest;
    size_t len = 0;

    if (!allow) {
        sl_http_no_memory(call);
        return;
    }
    for (unsigned i = 0; i < door->path_count && len < ALLOW_MAX; i++) {
        const struct sl_http_path *row = &door->paths[i];

        if (is_at(row, call->path, &rest))
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

/* With a slash more or less, or with a letter or two mistaken. */
static const char *find_near(const struct sl_http_door *door,
                             struct sl_str path)
{
    const char *words[PATHS_MAX];
    unsigned count = 0;

    while (path.len > 1 && path.at[path.len - 1] == '/')
        path.len--;
    for (unsigned i = 0; i < door->path_count && count < PATHS_MAX; i++) {
        words[count++] = door->paths[i].path;
        if (sl_str_eq(sl_str_c(door->paths[i].path), path))
            return door->paths[i].path;
    }
    return sl_str_nearest(path, words, count);
}

static void refuse_path(struct sl_http_call *call)
{
    const char *near = find_near(call->worker->door, call->path);

    if (near)
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "unknown path %.*s; did you mean %s?",
                       SL_STR_ARG(call->path), near);
    else
        sl_http_refuse(call, 404, "NOT_FOUND", "unknown path %.*s",
                       SL_STR_ARG(call->path));
}

/* ---- the way ---- */

/* The handler's row, or NULL; `known` if there is one for other methods. */
static const struct sl_http_path *find(struct sl_http_call *call, bool *known)
{
    const struct sl_http_door *door = call->worker->door;
    struct sl_str rest;

    *known = false;
    for (unsigned i = 0; i < door->path_count; i++) {
        const struct sl_http_path *row = &door->paths[i];

        if (!is_at(row, call->path, &rest))
            continue;
        *known = true;
        call->rest = rest;
        if (takes(row, call->request->method))
            return row;
    }
    return NULL;
}

static void dispatch(struct sl_http_call *call)
{
    bool known;
    const struct sl_http_path *row = find(call, &known);

    if ((!row || row->guard == SL_HTTP_ACCESS_TOKEN) && !sl_http_admit(call))
        return;
    if (row)
        row->handle(call);
    else if (known)
        refuse_method(call);
    else
        refuse_path(call);
}

/* Find out whom we talk to. */
static void prepare(struct sl_http_call *call)
{
    static const struct sl_identity nobody;
    const struct sl_identity *identity = &nobody;
    struct sl_peer peer = {call->peer, call->has_peer, call->peer_is_unix};

    if (call->worker->engine)
        identity = &sl_check_hold(&call->ask)->policy->identity;
    call->trusted = sl_peer_trusted(identity, &peer);
    call->token_in_authorize = false;
}

bool sl_http_access_check(struct sl_http_call *call)
{
    const struct sl_http_path *row;
    bool known;

    prepare(call);
    sl_http_begin(call);
    split_target(call);
    row = find(call, &known);
    return (row && row->guard != SL_HTTP_ACCESS_TOKEN) || sl_http_admit(call);
}

void sl_http_count(const struct sl_http_call *call)
{
    const struct sl_http_worker *worker = call->worker;

    if (worker->stats)
        sl_metrics_request(worker->stats, worker->door->name, call->status);
}

bool sl_http_handle(struct sl_http_call *call)
{
    prepare(call);
    sl_http_begin(call);
    split_target(call);
    call->in_handler = true;
    dispatch(call);
    call->in_handler = false;
    if (call->stage == SL_HTTP_SUSPENDED) {
        TAILQ_INSERT_TAIL(&call->worker->late, call, link);
        return false;
    }
    sl_http_count(call);
    return true;
}

/* ---- one request under way, and how long it lasts.
 *
 *     spare --> handler --> answered at once -----------------> spare
 *                  |                                              ^
 *                  +-- sl_http_suspend() --> late --> finished -----+
 *
 * A thread whose store is in this process never has more than one. Where
 * answers come later there are as many as connections that wait, and those
 * beyond the first are given back, with the policies that they hold.
 */

#define TEXT_MOST  ((size_t)64 << 20) /* a large array's verdicts */
#define ARENA_MOST ((size_t)16 << 20)

/* What is kept from one request to the next. */
#define TEXT_KEPT ((size_t)1 << 20)

/* What a client who left before his answer has left behind. */
static void forget_left(struct sl_http_call *call)
{
    if (!call->left)
        return;
    sl_http_session_free(call->left);
    sl_buf_done(&call->left_in);
    call->left = NULL;
}

static void call_free(struct sl_http_call *call)
{
    forget_left(call);
    sl_check_done(&call->ask);
    sl_arena_done(&call->arena);
    sl_arena_done(&call->ink);
    sl_buf_done(&call->text);
    sl_alloc_free(call->worker->alloc, call, sizeof(*call));
}

void sl_http_calls_free(struct sl_http_calls *calls)
{
    struct sl_http_call *call;

    while ((call = TAILQ_FIRST(calls)) != NULL) {
        TAILQ_REMOVE(calls, call, link);
        call_free(call);
    }
}

static struct sl_http_call *make(struct sl_http_worker *worker)
{
    const struct sl_alloc *alloc = worker->alloc;
    struct sl_http_call *call = sl_alloc_new(alloc, sizeof(*call));

    if (!call)
        return NULL;
    call->worker = worker;
    call->left = NULL;
    sl_check_init(&call->ask, worker->engine, worker->station, alloc);
    sl_arena_init(&call->arena, ARENA_MOST, alloc);
    sl_arena_init(&call->ink, ARENA_MOST, alloc);
    sl_buf_init(&call->text, TEXT_MOST, alloc);
    return call;
}

struct sl_http_call *sl_http_call_new(struct sl_http_worker *worker)
{
    struct sl_http_call *call = TAILQ_FIRST(&worker->spare);

    if (call)
        TAILQ_REMOVE(&worker->spare, call, link);
    else
        call = make(worker);
    if (!call)
        return NULL;
    if (call->ask.engine != worker->engine) {
        sl_check_done(&call->ask);
        sl_check_init(&call->ask, worker->engine, worker->station,
                      worker->alloc);
    }
    call->session = NULL;
    call->conn = NULL;
    call->request = NULL;
    call->ask.no_wait = false;
    call->has_peer = call->peer_is_unix = call->shows_cert = false;
    call->stage = SL_HTTP_HANDLED;
    call->in_handler = false;
    return call;
}

void sl_http_call_done(struct sl_http_call *call)
{
    struct sl_http_worker *worker;

    if (!call)
        return;
    worker = call->worker;
    forget_left(call);
    if (!TAILQ_EMPTY(&worker->spare)) {
        call_free(call);
        return;
    }
    sl_arena_reset(&call->arena);
    sl_arena_reset(&call->ink);
    sl_buf_clear(&call->text);
    if (call->text.size > TEXT_KEPT)
        sl_buf_done(&call->text);
    TAILQ_INSERT_HEAD(&worker->spare, call, link);
}

/* ---- later ---- */

void sl_http_suspend(struct sl_http_call *call)
{
    call->stage = SL_HTTP_SUSPENDED;
}

void sl_http_resume_finish(struct sl_http_call *call)
{
    struct sl_http_worker *worker = call->worker;

    call->stage = SL_HTTP_FINISHED;
    if (call->in_handler)
        return; /* sl_http_handle() goes on */
    TAILQ_REMOVE(&worker->late, call, link);
    sl_http_count(call);
    if (call->session)
        sl_http_resume(call);
    else
        sl_http_call_done(call);
}

/* ---- what handlers say. */

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

void sl_http_no_memory(struct sl_http_call *call)
{
    sl_http_answer(call, 503, problem,
                   SL_STR("{\"type\":\"about:blank\",\"title\":\"Service "
                          "Unavailable\",\"status\":503,\"detail\":\"out of "
                          "memory\",\"code\":\"NO_MEMORY\"}"));
}

/* "Not Found" of "404 Not Found". */
static struct sl_str title_of(int status)
{
    return sl_str_from(sl_str_c(sl_http1_reason(status)), 4);
}

static int write_problem(struct sl_buf *out, int status, const char *code,
                         const char *sentence)
{
    int err = sl_buf_add(out, SL_STR("{\"type\":\"about:blank\",\"title\":"));

    if (!err)
        err = sl_json_string(out, title_of(status));
    if (!err)
        err = sl_buf_addf(out, ",\"status\":%d,\"detail\":", status);
    if (!err)
        err = sl_json_string(out, sl_str_c(sentence));
    if (!err)
        err = sl_buf_add(out, SL_STR(",\"code\":"));
    if (!err)
        err = sl_json_string(out, sl_str_c(code));
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

void sl_http_refuse(struct sl_http_call *call, int status, const char *code,
                    const char *fmt, ...)
{
    struct sl_buf *out = &call->text;
    char sentence[SENTENCE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    sl_buf_clear(out); /* of what the handler had begun */
    if (write_problem(out, status, code, sentence))
        sl_http_no_memory(call);
    else
        sl_http_answer(call, status, problem, sl_buf_str(out));
}

void sl_http_show(struct sl_http_call *call, int status,
                  const struct sl_rendered *rendered)
{
    for (unsigned i = 0; i < rendered->header_count; i++)
        sl_http_field(call, rendered->headers[i].name,
                      rendered->headers[i].value);
    sl_http_answer(call, status, rendered->content_type, rendered->body);
}

void sl_http_stream(struct sl_http_call *call, struct sl_http_stream *stream)
{
    call->stream = stream;
}

sl_ns sl_http_now(const struct sl_http_call *call)
{
    const struct sl_http_worker *worker = call->worker;

    return worker->loop ? sl_loop_now(worker->loop) : worker->still;
}
