/* handle.c -- from a request to its handler.
 *
 * Paths of a door are few and compared as they are: no spelling but the one
 * that is documented leads anywhere. Whoever may not use the door learns
 * nothing of what it has: without the token, unknown paths are 401 too.
 */
#include <stdio.h>
#include <string.h>

#include "doors/http/inner.h"
#include "engine/forwarded.h"

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

    if ((!row || row->guard == SL_GUARD_TOKEN) && !sl_http_admit(call))
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
        identity = &sl_ask_hold(&call->ask)->policy->identity;
    call->trusted = sl_peer_trusted(identity, &peer);
    call->token_in_authorize = false;
}

bool sl_http_welcome(struct sl_http_call *call)
{
    const struct sl_http_path *row;
    bool known;

    prepare(call);
    sl_http_begin(call);
    split_target(call);
    row = find(call, &known);
    return (row && row->guard != SL_GUARD_TOKEN) || sl_http_admit(call);
}

void sl_http_count(const struct sl_http_call *call)
{
    const struct sl_http_worker *worker = call->worker;

    if (worker->stats)
        sl_stats_request(worker->stats, worker->door->name, call->status);
}

bool sl_http_handle(struct sl_http_call *call)
{
    prepare(call);
    sl_http_begin(call);
    split_target(call);
    call->in_handler = true;
    dispatch(call);
    call->in_handler = false;
    if (call->stage == SL_HTTP_LATER) {
        TAILQ_INSERT_TAIL(&call->worker->late, call, link);
        return false;
    }
    sl_http_count(call);
    return true;
}
