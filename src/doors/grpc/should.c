/* should.c -- ShouldRateLimit: a message to a call, and its answer back. */
#include <string.h>

#include "doors/grpc/inner.h"

/* ---- life ---- */

static struct sl_grpc_call *make(struct sl_grpc_worker *worker)
{
    struct sl_grpc_call *call = sl_alloc_new(worker->alloc, sizeof(*call));

    if (!call)
        return NULL;
    call->worker = worker;
    sl_buf_init(&call->left, SL_GRPC_PREFIX + SL_GRPC_MESSAGE, worker->alloc);
    sl_rls_call_init(&call->rls, worker->engine, worker->station,
                     worker->alloc);
    call->rls.loop = worker->loop;
    call->rls.stats = worker->stats;
    call->rls.door = "grpc";
    call->rls.ctx = call;
    return call;
}

static void discard(struct sl_grpc_call *call)
{
    sl_rls_call_done(&call->rls);
    sl_buf_done(&call->left);
    sl_alloc_free(call->worker->alloc, call, sizeof(*call));
}

static void discard_all(struct sl_grpc_calls *calls)
{
    struct sl_grpc_call *call;

    while ((call = TAILQ_FIRST(calls)) != NULL) {
        TAILQ_REMOVE(calls, call, link);
        discard(call);
    }
}

void sl_grpc_calls_done(struct sl_grpc_worker *worker)
{
    discard_all(&worker->spare_calls);
    discard_all(&worker->late_calls);
}

static struct sl_grpc_call *begin(struct sl_grpc_stream *stream)
{
    struct sl_grpc_worker *worker = stream->session->worker;
    struct sl_grpc_call *call = TAILQ_FIRST(&worker->spare_calls);

    if (call)
        TAILQ_REMOVE(&worker->spare_calls, call, link);
    else
        call = make(worker);
    if (!call)
        return NULL;
    call->stream = stream;
    call->is_late = false;
    stream->call = call;
    call->rls.deadline = stream->deadline;
    return call;
}

/* One is kept for the next request. */
static void end(struct sl_grpc_call *call)
{
    struct sl_grpc_worker *worker = call->worker;

    if (call->stream)
        call->stream->call = NULL;
    call->stream = NULL;
    sl_buf_done(&call->left);
    if (call->is_late)
        TAILQ_REMOVE(&worker->late_calls, call, link);
    if (!TAILQ_EMPTY(&worker->spare_calls)) {
        discard(call);
        return;
    }
    sl_rls_call_reset(&call->rls);
    TAILQ_INSERT_HEAD(&worker->spare_calls, call, link);
}

void sl_grpc_call_leave(struct sl_grpc_call *call)
{
    struct sl_buf empty = call->left;

    call->left = call->stream->in;
    call->stream->in = empty;
    call->stream = NULL;
    call->rls.gone = true;
}

/* ---- the answer ---- */

static void refuse(struct sl_grpc_stream *stream, int err,
                   const struct sl_diag *diag)
{
    enum sl_grpc_status status = SL_GRPC_INVALID_ARGUMENT;

    if (err == SLUICE_EFULL)
        status = SL_GRPC_RESOURCE_EXHAUSTED;
    else if (err == SLUICE_ENOMEM || err == SLUICE_ESTORE)
        status = SL_GRPC_UNAVAILABLE;
    sl_grpc_refuse(stream, status, "%s", diag->sentence);
}

static void send_answer(struct sl_grpc_stream *stream,
                        const struct sl_rls_response *response)
{
    size_t size = sl_rls_response_size(response);
    struct sl_pb_out out = {.bytes = sl_grpc_message(stream, size),
                            .size = size};

    if (!out.bytes) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    sl_rls_response_write(response, &out);
    sl_grpc_send(stream, out.len);
    sl_grpc_end(stream);
}

static bool is_too_late(const struct sl_grpc_call *call)
{
    return call->is_late && call->rls.deadline > 0 &&
           sl_loop_steady(call->worker->loop) >= call->rls.deadline;
}

/* Answers of a later turn send themselves. */
static void on_decided(struct sl_rls_call *rls)
{
    struct sl_grpc_call *call = rls->ctx;
    struct sl_grpc_stream *stream = call->stream;
    struct sl_grpc_session *session = stream ? stream->session : NULL;
    bool late = call->is_late;

    if (stream && rls->err)
        refuse(stream, rls->err, &rls->ask.diag);
    else if (stream && is_too_late(call))
        sl_grpc_refuse(stream, SL_GRPC_DEADLINE_EXCEEDED,
                       "the store did not answer within grpc-timeout");
    else if (stream)
        send_answer(stream, &rls->response);
    end(call);
    if (session && late) {
        sl_grpc_pump(session);
        sl_conn_flush(session->conn);
    }
}

/* ---- the question ---- */

void sl_grpc_should(struct sl_grpc_stream *stream, struct sl_str message)
{
    struct sl_grpc_call *call = begin(stream);
    struct sl_rls_call *rls;
    int err;

    if (!call) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    rls = &call->rls;
    rls->done = on_decided;
    err = sl_rls_request_read(message, &rls->request, &rls->ask.diag);
    if (err) {
        refuse(stream, err, &rls->ask.diag);
        end(call);
        return;
    }
    sl_rls_decide(rls);
    if (stream->call) { /* it is not answered yet */
        call->is_late = true;
        TAILQ_INSERT_TAIL(&call->worker->late_calls, call, link);
    }
}
