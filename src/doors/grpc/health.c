/* health.c -- grpc.health.v1: is it worth asking us?
 *
 * All services are as well as the daemon is: SERVING until it is being stopped.
 * Watch answers at once, and again when that changes; of a service that there
 * is not it says so, and Check ends with NOT_FOUND.
 */
#include "doors/grpc/inner.h"

enum health { UNTOLD = -1, SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

#define ANSWER_BYTES 16
#define NOT_FOUND    5

/* The service that is asked for. False if the message is none. */
static bool read_service(struct sl_str message, struct sl_str *ret)
{
    struct sl_pb_field field;
    struct sl_pb pb;

    *ret = (struct sl_str){"", 0};
    sl_pb_begin(&pb, message);
    while (sl_pb_next(&pb, &field))
        if (sl_pb_is(&field, 1, SL_PB_BYTES))
            *ret = field.bytes;
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
    return worker->draining ? NOT_SERVING : SERVING;
}

static bool say(struct sl_grpc_stream *stream, enum health health)
{
    struct sl_pb_out out = {.bytes = sl_grpc_message(stream, ANSWER_BYTES),
                            .size = ANSWER_BYTES};

    if (!out.bytes) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "out of memory");
        return false;
    }
    sl_pb_varint(&out, 1, (uint64_t)health);
    sl_grpc_send(stream, out.len);
    return true;
}

void sl_grpc_check(struct sl_grpc_stream *stream, struct sl_str message)
{
    struct sl_str service;

    if (!read_service(message, &service))
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the message is not a HealthCheckRequest");
    else if (!is_known(service))
        sl_grpc_refuse(stream, (enum sl_grpc_status)NOT_FOUND,
                       "unknown service \"%.*s\"", SL_STR_ARG(service));
    else if (say(stream, health_of(stream->session->worker)))
        sl_grpc_end(stream);
}

static void tell(struct sl_grpc_stream *stream, enum health health)
{
    if (stream->watched == (int)health || stream->ended ||
        stream->watched == SERVICE_UNKNOWN) /* there is no news of that */
        return;
    stream->watched = (int)health;
    if (say(stream, health))
        sl_grpc_flow(stream);
}

void sl_grpc_watch(struct sl_grpc_stream *stream, struct sl_str message)
{
    struct sl_grpc_worker *worker = stream->session->worker;
    struct sl_str service;

    if (!read_service(message, &service)) {
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the message is not a HealthCheckRequest");
        return;
    }
    stream->watched = UNTOLD;
    tell(stream, is_known(service) ? health_of(worker) : SERVICE_UNKNOWN);
    if (stream->ended)
        return;
    stream->watches = true;
    TAILQ_INSERT_TAIL(&worker->watchers, stream, watch_link);
}

static void pump(struct sl_grpc_session *session)
{
    sl_grpc_pump(session);
    sl_conn_flush(session->conn);
}

void sl_grpc_tell_watchers(struct sl_grpc_worker *worker)
{
    struct sl_grpc_stream *stream, *next;

    for (stream = TAILQ_FIRST(&worker->watchers); stream; stream = next) {
        next = TAILQ_NEXT(stream, watch_link);
        tell(stream, health_of(worker));
        pump(stream->session);
    }
}

void sl_grpc_end_watching(struct sl_grpc_worker *worker)
{
    struct sl_grpc_stream *stream;

    while ((stream = TAILQ_FIRST(&worker->watchers)) != NULL) {
        TAILQ_REMOVE(&worker->watchers, stream, watch_link);
        stream->watches = false;
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE,
                       "the daemon is shutting down");
        pump(stream->session);
    }
}
