/* reflection.c -- server reflection, so that tools know what can be called.
 *
 * grpc.reflection.v1 and v1alpha, which are the same but for their names: a
 * stream of questions, each answered by the files (as FileDescriptorProto)
 * that are asked for by name or by something in them, or by the list of
 * services.
 */
#include <string.h>

#include "doors/grpc/inner.h"

#define ANSWER_BYTES ((size_t)16 << 10)
#define NOT_FOUND    5

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

static void write_file(struct sl_pb_out *out, const char *name)
{
    size_t mark, inner;
    bool found;

    if (!name) {
        write_error(out, NOT_FOUND, "unknown file or symbol");
        return;
    }
    mark = sl_pb_open(out, ANSWER_FILES);
    inner = sl_pb_open(out, 1);
    found = sl_grpc_file(sl_str_c(name), out);
    sl_pb_close(out, inner);
    sl_pb_close(out, mark);
    out->full = out->full || !found;
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

static void write_answer(struct sl_pb_out *out, const struct sl_pb_field *ask)
{
    switch (ask->number) {
    case ASK_FILE:
        write_file(out, sl_grpc_file_named(ask->bytes));
        break;
    case ASK_SYMBOL:
        write_file(out, sl_grpc_file_of(ask->bytes));
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
    size_t room = ANSWER_BYTES + 2 * message.len;
    struct sl_pb_field ask;
    struct sl_pb_out out;
    struct sl_str host;

    if (!read_question(message, &host, &ask)) {
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the message is not a ServerReflectionRequest");
        return;
    }
    out = (struct sl_pb_out){.bytes = sl_grpc_message(stream, room),
                             .size = room};
    if (!out.bytes) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    sl_pb_bytes_if(&out, ANSWER_HOST, host);
    sl_pb_bytes(&out, ANSWER_QUESTION, message);
    write_answer(&out, &ask);
    if (out.full) {
        sl_grpc_refuse(stream, SL_GRPC_INTERNAL, "the answer is too long");
        return;
    }
    sl_grpc_send(stream, out.len);
    sl_grpc_flow(stream);
}
