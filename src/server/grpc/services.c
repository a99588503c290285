/* services.c -- ShouldRateLimit: a message to a call, and its answer back. */
#include <string.h>

#include "server/grpc/grpc_int.h"

#define SPARE_TEXTS ((size_t)16 << 10) /* bytes */

/* ---- life ---- */

void sl_grpc_call_init(struct sl_server_worker *worker, struct sl_server_op *op)
{
    struct sl_grpc_call *call = (struct sl_grpc_call *)op;

    call->worker = (struct sl_grpc_worker *)worker;
    sl_buf_init(&call->detached, SL_GRPC_PREFIX + SL_GRPC_MESSAGE,
                worker->alloc);
    sl_rls_call_init(&call->rls, worker->engine, worker->engine_ctx,
                     worker->alloc);
    call->rls.loop = worker->loop;
    call->rls.stats = worker->stats;
    call->rls.door = "grpc";
    call->rls.ctx = call;
}

void sl_grpc_call_free(struct sl_server_op *op)
{
    struct sl_grpc_call *call = (struct sl_grpc_call *)op;

    sl_rls_call_done(&call->rls);
    sl_buf_done(&call->detached);
}

/* Keeps the call for the next request. Calls that are kept hold one policy, and
 * large texts only if there is no other. */
static void put(struct sl_grpc_call *call)
{
    struct sl_server_worker *worker = &call->worker->base;
    const struct sl_grpc_call *kept =
        (const struct sl_grpc_call *)LIST_FIRST(&worker->spare);
    struct sl_check *check = &call->rls.check;
    size_t held = check->decision.arena.held + call->rls.arena.held +
                  call->rls.text_arena.held;

    if (kept && held > SPARE_TEXTS) {
        sl_server_op_free(worker, &call->op);
        return;
    }
    if (kept && kept->rls.check.active != sl_check_ref_policy(check))
        sl_server_free_spare(worker);
    sl_server_op_put(worker, &call->op);
}

static void end(struct sl_grpc_call *call)
{
    if (call->stream)
        call->stream->call = NULL;
    call->stream = NULL;
    sl_buf_done(&call->detached);
    if (call->is_suspended)
        sl_server_op_resume(&call->op);
    sl_rls_call_reset(&call->rls);
    put(call);
}

void sl_grpc_call_leave(struct sl_grpc_call *call)
{
    struct sl_buf empty = call->detached;

    call->detached = call->stream->in;
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
    struct sl_pb_out out;

    if (!sl_grpc_message(stream, sl_rls_response_size(response), &out))
        return;
    sl_rls_response_write(response, &out);
    sl_grpc_send(stream, out.len);
    sl_grpc_end(stream);
}

/* Answers of a later turn send themselves. */
static void on_decided(struct sl_rls_call *rls)
{
    struct sl_grpc_call *call = rls->ctx;
    struct sl_grpc_stream *stream = call->stream;
    struct sl_grpc_conn *client = stream ? stream->client : NULL;
    bool late = call->is_suspended;

    if (stream && rls->err)
        refuse(stream, rls->err, &rls->check.diag);
    else if (stream && late && rls->deadline > 0 &&
             sl_loop_mono(call->worker->base.loop) >= rls->deadline)
        sl_grpc_refuse(stream, SL_GRPC_DEADLINE_EXCEEDED,
                       "the store did not answer within grpc-timeout");
    else if (stream)
        send_answer(stream, &rls->response);
    end(call);
    if (client && late) {
        sl_grpc_pump(client);
        sl_conn_flush(client->base.conn);
    }
}

/* ---- the question ---- */

void sl_grpc_should_rate_limit(struct sl_grpc_stream *stream,
                               struct sl_str message)
{
    struct sl_grpc_call *call =
        (struct sl_grpc_call *)sl_server_op_get(stream->client->base.worker);
    struct sl_rls_call *rls;
    int err;

    if (!call) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    call->stream = stream;
    call->is_suspended = false;
    stream->call = call;
    rls = &call->rls;
    rls->deadline = stream->deadline;
    rls->done = on_decided;
    err = sl_rls_request_read(message, &rls->request, &rls->check.diag);
    if (err) {
        refuse(stream, err, &rls->check.diag);
        end(call);
        return;
    }
    sl_rls_decide(rls);
    if (stream->call) { /* it is not answered yet */
        call->is_suspended = true;
        sl_server_op_suspend(&call->worker->base, &call->op);
    }
}

/* ---- grpc.health.v1.
 *
 * All services are SERVING until the daemon drains. Watch answers at once, and
 * again on a change. For an unknown service Watch answers SERVICE_UNKNOWN, and
 * Check ends with NOT_FOUND.
 */

enum health { UNSENT = -1, SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

#define ANSWER_BYTES 16
#define NOT_FOUND    5

/* Reads the name of the service. An invalid message is refused. */
static bool read_service(struct sl_grpc_stream *stream, struct sl_str message,
                         struct sl_str *ret)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    *ret = (struct sl_str){"", 0};
    sl_pb_begin(&pb, message);
    while (sl_pb_next(&pb, &field))
        if (sl_pb_is(&field, 1, SL_PB_BYTES))
            *ret = field.bytes;
    if (pb.bad)
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the message is not a HealthCheckRequest");
    return !pb.bad;
}

static bool is_known(struct sl_str service)
{
    static const char *const services[] = {
        "",
        "ratelimit",
        "envoy.service.ratelimit.v3.RateLimitService",
        "grpc.health.v1.Health",
    };

    for (size_t i = 0; i < SL_LEN(services); i++)
        if (sl_str_eq(service, sl_str_c(services[i])))
            return true;
    return false;
}

static enum health health_of(const struct sl_grpc_worker *worker)
{
    return worker->base.draining ? NOT_SERVING : SERVING;
}

static bool write_health(struct sl_grpc_stream *stream, enum health health)
{
    struct sl_pb_out out;

    if (!sl_grpc_message(stream, ANSWER_BYTES, &out))
        return false;
    sl_pb_varint(&out, 1, (uint64_t)health);
    sl_grpc_send(stream, out.len);
    return true;
}

void sl_grpc_check(struct sl_grpc_stream *stream, struct sl_str message)
{
    struct sl_str service;

    if (!read_service(stream, message, &service))
        return;
    if (!is_known(service))
        sl_grpc_refuse(stream, (enum sl_grpc_status)NOT_FOUND,
                       "unknown service \"%.*s\"", SL_STR_ARG(service));
    else if (write_health(stream, health_of(stream->client->worker)))
        sl_grpc_end(stream);
}

static void notify(struct sl_grpc_stream *stream, enum health health)
{
    if (stream->watched == (int)health || stream->ended ||
        stream->watched == SERVICE_UNKNOWN) /* never changes */
        return;
    stream->watched = (int)health;
    if (write_health(stream, health))
        sl_grpc_flow(stream);
}

void sl_grpc_watch(struct sl_grpc_stream *stream, struct sl_str message)
{
    struct sl_grpc_worker *worker = stream->client->worker;
    struct sl_str service;

    if (!read_service(stream, message, &service))
        return;
    stream->watched = UNSENT;
    notify(stream, is_known(service) ? health_of(worker) : SERVICE_UNKNOWN);
    if (stream->ended)
        return;
    stream->watches = true;
    TAILQ_INSERT_TAIL(&worker->watchers, stream, watch_link);
}

void sl_grpc_notify_watchers(struct sl_server_worker *base)
{
    struct sl_grpc_worker *worker = (struct sl_grpc_worker *)base;
    struct sl_grpc_stream *stream, *next;

    for (stream = TAILQ_FIRST(&worker->watchers); stream; stream = next) {
        struct sl_grpc_conn *client = stream->client;

        next = TAILQ_NEXT(stream, watch_link);
        notify(stream, health_of(worker));
        sl_grpc_pump(client);
        sl_conn_flush(client->base.conn);
    }
}

void sl_grpc_end_watching(struct sl_grpc_conn *client)
{
    struct sl_grpc_stream *stream;

    TAILQ_FOREACH (stream, &client->streams, link) {
        if (!stream->watches)
            continue;
        TAILQ_REMOVE(&client->worker->watchers, stream, watch_link);
        stream->watches = false;
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE,
                       "the daemon is shutting down");
    }
}

/* ---- server reflection: grpc.reflection.v1 and v1alpha.
 *
 * A stream of questions. The answer is the FileDescriptorProto of a file, by
 * its name or by a symbol in it, or the list of services.
 */

#define REFLECTION_ANSWER_BYTES ((size_t)16 << 10)

enum {
    ASK_HOST = 1,
    ASK_FILE = 3,
    ASK_SYMBOL = 4,
    ASK_EXTENSION = 5,
    ASK_EXTENSION_NUMBERS = 6,
    ASK_SERVICES = 7,

    ANSWER_HOST = 1,
    ANSWER_QUESTION = 2,
    ANSWER_FILES = 4,
    ANSWER_EXTENSIONS = 5,
    ANSWER_SERVICES = 6,
    ANSWER_ERROR = 7,
};

static const char *const services[] = {
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
};

static void write_error(struct sl_pb_out *out, unsigned code, const char *why)
{
    size_t mark = sl_pb_open(out, ANSWER_ERROR);

    sl_pb_varint(out, 1, code);
    sl_pb_bytes(out, 2, sl_str_c(why));
    sl_pb_close(out, mark);
}

static void write_file(struct sl_pb_out *out, const struct sl_grpc_row *file)
{
    size_t mark, inner;

    if (!file) {
        write_error(out, NOT_FOUND, "unknown file or symbol");
        return;
    }
    mark = sl_pb_open(out, ANSWER_FILES);
    inner = sl_pb_open(out, 1);
    sl_grpc_file_write(file, out);
    sl_pb_close(out, inner);
    sl_pb_close(out, mark);
}

static void write_services(struct sl_pb_out *out)
{
    size_t mark = sl_pb_open(out, ANSWER_SERVICES);

    for (size_t i = 0; i < SL_LEN(services); i++) {
        size_t inner = sl_pb_open(out, 1);

        sl_pb_bytes(out, 1, sl_str_c(services[i]));
        sl_pb_close(out, inner);
    }
    sl_pb_close(out, mark);
}

static void write_answer(struct sl_pb_out *out, const struct sl_pb_field *check)
{
    switch (check->number) {
    case ASK_FILE:
        write_file(out, sl_grpc_file_named(check->bytes));
        break;
    case ASK_SYMBOL:
        write_file(out, sl_grpc_file_of(check->bytes));
        break;
    case ASK_SERVICES:
        write_services(out);
        break;
    default:
        write_error(out, NOT_FOUND, "there are no extensions");
    }
}

/* The question: the last of the oneof counts. False if it is none. */
static bool read_question(struct sl_str message, struct sl_str *host,
                          struct sl_pb_field *ret)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    *host = (struct sl_str){"", 0};
    ret->number = 0;
    sl_pb_begin(&pb, message);
    while (sl_pb_next(&pb, &field)) {
        if (field.wire != SL_PB_BYTES)
            continue;
        if (field.number == ASK_HOST)
            *host = field.bytes;
        else if (field.number >= ASK_FILE && field.number <= ASK_SERVICES)
            *ret = field;
    }
    return !pb.bad && ret->number > 0;
}

void sl_grpc_reflect(struct sl_grpc_stream *stream, struct sl_str message)
{
    size_t room = REFLECTION_ANSWER_BYTES + 2 * message.len;
    struct sl_pb_field check;
    struct sl_pb_out out;
    struct sl_str host;

    if (!read_question(message, &host, &check)) {
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the message is not a ServerReflectionRequest");
        return;
    }
    if (!sl_grpc_message(stream, room, &out))
        return;
    sl_pb_bytes_if(&out, ANSWER_HOST, host);
    sl_pb_bytes(&out, ANSWER_QUESTION, message);
    write_answer(&out, &check);
    if (out.full) {
        sl_grpc_refuse(stream, SL_GRPC_INTERNAL, "the answer is too long");
        return;
    }
    sl_grpc_send(stream, out.len);
    sl_grpc_flow(stream);
}
