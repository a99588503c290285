/* head.c -- what the fields of a request say. */
#include <string.h>

#include "doors/grpc/inner.h"

#define RLS  "/envoy.service.ratelimit.v3.RateLimitService/"
#define INFO "ServerReflection/ServerReflectionInfo"

static const struct sl_grpc_method methods[] = {
    {RLS "ShouldRateLimit",            sl_grpc_should,  false, true },
    {"/grpc.health.v1.Health/Check",   sl_grpc_check,   false, false},
    {"/grpc.health.v1.Health/Watch",   sl_grpc_watch,   false, false},
    {"/grpc.reflection.v1." INFO,      sl_grpc_reflect, true,  true },
    {"/grpc.reflection.v1alpha." INFO, sl_grpc_reflect, true,  true },
};

/* "20m", at most eight digits and a unit. False if it is none. */
static bool read_timeout(struct sl_str text, sl_ns *ret)
{
    static const struct {
        char letter;
        sl_ns length;
    } units[] = {
        {'H', SL_HOUR},
        {'M', SL_MIN },
        {'S', SL_S   },
        {'m', SL_MS  },
        {'u', SL_US  },
        {'n', 1      },
    };
    sl_ns value = 0;

    if (text.len < 2 || text.len > 9)
        return false;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        value = 10 * value + (text.at[i] - '0');
    }
    for (size_t i = 0; i < SL_LEN(units); i++)
        if (units[i].letter == text.at[text.len - 1]) {
            *ret = value < SL_NS_MAX / 4 / units[i].length
                       ? value * units[i].length
                       : SL_NS_MAX / 4;
            return true;
        }
    return false;
}

static void take_timeout(struct sl_grpc_stream *stream, struct sl_str value)
{
    sl_ns after;

    if (read_timeout(value, &after))
        stream->deadline = stream->began + after;
    else
        stream->bad_timeout = true;
}

static void find_method(struct sl_grpc_stream *stream, struct sl_str path)
{
    for (size_t i = 0; i < SL_LEN(methods); i++)
        if (sl_str_eq(path, sl_str_c(methods[i].path)))
            stream->method = &methods[i];
}

bool sl_grpc_stream_field(struct sl_grpc_stream *stream, struct sl_str name,
                          struct sl_str value)
{
    static const struct sl_str type = {"application/grpc", 16};

    stream->head_bytes += name.len + value.len + 32;
    if (stream->head_bytes > SL_GRPC_HEAD)
        return false;
    if (stream->answered || name.len < 5)
        return true;
    if (sl_str_eq(name, SL_STR(":path")))
        find_method(stream, value);
    else if (sl_str_eq(name, SL_STR(":method")))
        stream->is_post = sl_str_eq(value, SL_STR("POST"));
    else if (sl_str_eq(name, SL_STR("content-type")))
        stream->is_grpc =
            value.len >= type.len &&
            sl_str_eq((struct sl_str){value.at, type.len}, type) &&
            (value.len == type.len || strchr("+;", value.at[type.len]));
    else if (sl_str_eq(name, SL_STR("grpc-timeout")))
        take_timeout(stream, value);
    else if (sl_str_eq(name, SL_STR("authorization")) ||
             sl_str_eq(name, SL_STR("x-sluice-token")))
        sl_grpc_take_token(stream, name, value);
    return true;
}

void sl_grpc_stream_head(struct sl_grpc_stream *stream)
{
    const struct sl_grpc_worker *worker = stream->session->worker;

    if (!stream->is_post || !stream->is_grpc) {
        sl_grpc_refuse_http(stream);
    } else if ((!stream->method || stream->method->needs_token) &&
               !sl_grpc_admits(stream)) {
        sl_grpc_refuse(stream, SL_GRPC_UNAUTHENTICATED,
                       worker->door->token.len > 0
                           ? "missing or wrong token; send it as "
                             "authorization: Bearer TOKEN"
                           : "missing client certificate; it must be signed by "
                             "the listener's client_ca");
    } else if (!stream->method) {
        sl_grpc_refuse(stream, SL_GRPC_UNIMPLEMENTED,
                       "unknown method; the service is "
                       "envoy.service.ratelimit.v3.RateLimitService");
    } else if (stream->bad_timeout) {
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "grpc-timeout is not a duration; write one like 20m");
    }
}
