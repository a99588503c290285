/* call.c -- one request under way, and how long it lasts.
 *
 *     spare --> handler --> answered at once -----------------> spare
 *                  |                                              ^
 *                  +-- sl_http_suspend() --> late --> finished -----+
 *
 * A thread whose store is in this process never has more than one. Where
 * answers come later there are as many as connections that wait, and those
 * beyond the first are given back, with the policies that they hold.
 */
#include "server/http/http_int.h"

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
