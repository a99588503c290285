/* stream.c -- one request: messages in, messages and a status out.
 *
 * A message follows a byte (1: compressed, which is refused) and a length of
 * four bytes. Unary methods get their message at the end of the request, so
 * that a second message is refused. Streaming methods get each message when it
 * is complete.
 *
 * Every error ends with a status and a sentence, never with a decision.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/grpc/grpc_int.h"

#define KEPT ((size_t)4 << 10) /* bytes of each buffer of a spare stream */

/* ---- life ---- */

struct sl_grpc_stream *sl_grpc_stream_new(struct sl_grpc_conn *client,
                                          int32_t id)
{
    struct sl_grpc_worker *worker = client->worker;
    struct sl_grpc_stream *stream = TAILQ_FIRST(&worker->spare_streams);
    struct sl_buf in, out;

    if (stream) {
        TAILQ_REMOVE(&worker->spare_streams, stream, link);
        worker->spare_count--;
        in = stream->in;
        out = stream->out;
        sl_buf_clear(&in);
        sl_buf_clear(&out);
    } else {
        stream = sl_alloc_new(worker->base.alloc, sizeof(*stream));
        if (!stream)
            return NULL;
        sl_buf_init(&in, SL_GRPC_PREFIX + SL_GRPC_MESSAGE, worker->base.alloc);
        sl_buf_init(&out, SL_GRPC_OUT, worker->base.alloc);
    }
    memset(stream, 0, sizeof(*stream));
    stream->in = in;
    stream->out = out;
    stream->client = client;
    stream->id = id;
    stream->began = sl_loop_mono(worker->base.loop);
    TAILQ_INSERT_TAIL(&client->streams, stream, link);
    client->stream_count++;
    client->coming++;
    return stream;
}

static void discard(struct sl_grpc_worker *worker,
                    struct sl_grpc_stream *stream)
{
    sl_buf_done(&stream->in);
    sl_buf_done(&stream->out);
    sl_alloc_free(worker->base.alloc, stream, sizeof(*stream));
}

void sl_grpc_stream_free(struct sl_grpc_stream *stream)
{
    struct sl_grpc_conn *client;
    struct sl_grpc_worker *worker;

    if (!stream)
        return;
    client = stream->client;
    worker = client->worker;
    if (stream->watches)
        TAILQ_REMOVE(&worker->watchers, stream, watch_link);
    if (stream->call)
        sl_grpc_call_leave(stream->call);
    TAILQ_REMOVE(&client->streams, stream, link);
    client->stream_count--;
    client->coming -= !stream->whole;
    if (worker->spare_count == SL_GRPC_SPARES) {
        discard(worker, stream);
        return;
    }
    if (stream->in.size > KEPT)
        sl_buf_done(&stream->in);
    if (stream->out.size > KEPT)
        sl_buf_done(&stream->out);
    TAILQ_INSERT_HEAD(&worker->spare_streams, stream, link);
    worker->spare_count++;
}

void sl_grpc_streams_done(struct sl_grpc_worker *worker)
{
    struct sl_grpc_stream *stream;

    while ((stream = TAILQ_FIRST(&worker->spare_streams)) != NULL) {
        TAILQ_REMOVE(&worker->spare_streams, stream, link);
        discard(worker, stream);
    }
    worker->spare_count = 0;
}

/* ---- messages ---- */

static size_t length_of(const struct sl_buf *in)
{
    const unsigned char *at = (const unsigned char *)in->bytes;

    return (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 |
           at[4];
}

/* Refuses a compressed or too long message. */
static bool check_prefix(struct sl_grpc_stream *stream)
{
    if (stream->in.len > 0 && stream->in.bytes[0] != 0) {
        stream->only_identity = true;
        sl_grpc_refuse(stream, SL_GRPC_UNIMPLEMENTED,
                       "compressed messages are not supported; send "
                       "grpc-encoding: identity");
        return false;
    }
    if (stream->in.len >= SL_GRPC_PREFIX &&
        length_of(&stream->in) > SL_GRPC_MESSAGE) {
        sl_grpc_refuse(stream, SL_GRPC_RESOURCE_EXHAUSTED,
                       "the message has %zu bytes; the maximum is %zu",
                       length_of(&stream->in), SL_GRPC_MESSAGE);
        return false;
    }
    return true;
}

static bool has_message(const struct sl_grpc_stream *stream)
{
    return stream->in.len >= SL_GRPC_PREFIX &&
           stream->in.len - SL_GRPC_PREFIX >= length_of(&stream->in);
}

static void hand_on(struct sl_grpc_stream *stream)
{
    size_t len = length_of(&stream->in);

    stream->method->on_message(
        stream, (struct sl_str){stream->in.bytes + SL_GRPC_PREFIX, len});
    if (stream->method->streams)
        sl_buf_drop(&stream->in, SL_GRPC_PREFIX + len);
}

void sl_grpc_stream_data(struct sl_grpc_stream *stream, struct sl_str bytes)
{
    int err;

    if (stream->ended)
        return;
    err = sl_buf_add(&stream->in, bytes);
    if (!check_prefix(stream))
        return;
    if (err)
        sl_grpc_refuse(stream, SL_GRPC_RESOURCE_EXHAUSTED,
                       err == SLUICE_EFULL
                           ? "the request has more than one message"
                           : "out of memory");
    while (!stream->ended && stream->method->streams && check_prefix(stream) &&
           has_message(stream))
        hand_on(stream);
}

static void finish_unary(struct sl_grpc_stream *stream)
{
    if (!has_message(stream))
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       stream->in.len == 0
                           ? "the request has no message"
                           : "the message is shorter than its length prefix");
    else if (stream->in.len > SL_GRPC_PREFIX + length_of(&stream->in))
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the request has bytes after the message");
    else if (stream->deadline > 0 &&
             sl_loop_mono(stream->client->worker->base.loop) >=
                 stream->deadline)
        sl_grpc_refuse(stream, SL_GRPC_DEADLINE_EXCEEDED,
                       "the request did not arrive within grpc-timeout");
    else
        hand_on(stream);
}

/* ---- answers.
 *
 * Messages wait in `out` until nghttp2 reads them. The status follows the last
 * one, as trailers. Without a message the status is in the head.
 */

#define FIELD(name, value)                                                     \
    {                                                                          \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1,               \
            sizeof(value) - 1,                                                 \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE       \
    }

/* Encodes a grpc-message: '%' and bytes that are not visible ASCII as %XX. */
static void encode(const char *text, char *out, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;

    for (; *text && len + 4 < size; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= 0x20 && c < 0x7f && c != '%') {
            out[len++] = (char)c;
            continue;
        }
        out[len++] = '%';
        out[len++] = digits[c >> 4];
        out[len++] = digits[c & 15];
    }
    out[len] = '\0';
}

/* Sets the fields of the status. Returns their number. */
static size_t end_fields(struct sl_grpc_stream *stream, nghttp2_nv *fields)
{
    static const char numbers[][3] = {"0",  "1",  "2",  "3",  "4",  "5",
                                      "6",  "7",  "8",  "9",  "10", "11",
                                      "12", "13", "14", "15", "16"};
    const char *number = numbers[stream->status];
    size_t count = 0;

    fields[count] = (nghttp2_nv)FIELD("grpc-status", "");
    fields[count].value = (uint8_t *)number;
    fields[count++].valuelen = strlen(number);
    if (stream->why[0]) {
        fields[count] = (nghttp2_nv)FIELD("grpc-message", "");
        fields[count].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
        fields[count].value = (uint8_t *)stream->why;
        fields[count++].valuelen = strlen(stream->why);
    }
    if (stream->only_identity)
        fields[count++] = (nghttp2_nv)FIELD("grpc-accept-encoding", "identity");
    return count;
}

static ssize_t on_read(nghttp2_session *h2, int32_t id, uint8_t *to,
                       size_t most, uint32_t *flags, nghttp2_data_source *from,
                       void *ctx)
{
    struct sl_grpc_stream *stream = from->ptr;
    size_t len = stream->out.len - stream->sent;
    nghttp2_nv fields[3];

    (void)ctx;
    if (len > most)
        len = most;
    if (len > 0)
        memcpy(to, stream->out.bytes + stream->sent, len);
    stream->sent += len;
    if (stream->sent < stream->out.len)
        return (ssize_t)len;
    sl_buf_clear(&stream->out);
    stream->sent = 0;
    if (!stream->ended)
        return len > 0 ? (ssize_t)len : NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (nghttp2_submit_trailer(h2, id, fields, end_fields(stream, fields)))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)len;
}

void sl_grpc_flow(struct sl_grpc_stream *stream)
{
    struct sl_grpc_conn *client = stream->client;
    nghttp2_nv fields[6] = {FIELD(":status", "200"),
                            FIELD("content-type", "application/grpc")};
    nghttp2_data_provider from = {.source.ptr = stream,
                                  .read_callback = on_read};
    bool bare = stream->ended && stream->out.len == 0 && !stream->answered;
    size_t count = 2;
    int err;

    if (bare)
        count += end_fields(stream, fields + count);
    if (!stream->answered)
        err = nghttp2_submit_response(client->h2, stream->id, fields, count,
                                      bare ? NULL : &from);
    else
        err = nghttp2_session_resume_data(client->h2, stream->id);
    if (err && err != NGHTTP2_ERR_INVALID_ARGUMENT) /* it was not deferred */
        sl_conn_abort(client->base.conn);
    stream->answered = true;
}

bool sl_grpc_message(struct sl_grpc_stream *stream, size_t size,
                     struct sl_pb_out *ret)
{
    if (sl_buf_reserve(&stream->out, SL_GRPC_PREFIX + size)) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "out of memory");
        return false;
    }
    *ret = (struct sl_pb_out){.bytes = stream->out.bytes + stream->out.len +
                                       SL_GRPC_PREFIX,
                              .size = size};
    return true;
}

void sl_grpc_send(struct sl_grpc_stream *stream, size_t len)
{
    char *at = stream->out.bytes + stream->out.len;

    at[0] = 0;
    for (int i = 0; i < 4; i++)
        at[1 + i] = (char)(len >> (24 - 8 * i));
    stream->out.len += SL_GRPC_PREFIX + len;
}

void sl_grpc_end(struct sl_grpc_stream *stream)
{
    stream->ended = true;
    sl_grpc_flow(stream);
}

void sl_grpc_refuse(struct sl_grpc_stream *stream, enum sl_grpc_status status,
                    const char *fmt, ...)
{
    char sentence[sizeof(stream->why)];
    va_list args;

    if (stream->ended)
        return;
    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    encode(sentence, stream->why, sizeof(stream->why));
    stream->status = status;
    stream->ended = true;
    sl_grpc_flow(stream);
}

/* A request that is not gRPC gets a status of HTTP and a text, when it is
 * complete: its frames are checked until then. */

#define NOT_GRPC                                                               \
    "this is the grpc listener, which needs POST and content-type: "           \
    "application/grpc\n"

static ssize_t on_read_text(nghttp2_session *h2, int32_t id, uint8_t *to,
                            size_t most, uint32_t *flags,
                            nghttp2_data_source *from, void *ctx)
{
    struct sl_grpc_stream *stream = from->ptr;
    size_t len = sizeof(NOT_GRPC) - 1 - stream->sent;

    (void)h2;
    (void)id;
    (void)ctx;
    if (len > most)
        len = most;
    memcpy(to, NOT_GRPC + stream->sent, len);
    stream->sent += len;
    if (stream->sent == sizeof(NOT_GRPC) - 1)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

static void answer_http(struct sl_grpc_stream *stream)
{
    static const nghttp2_nv fields[] = {
        FIELD(":status", "415"),
        FIELD("content-type", "text/plain"),
    };
    struct sl_grpc_conn *client = stream->client;
    nghttp2_data_provider from = {.source.ptr = stream,
                                  .read_callback = on_read_text};

    stream->answered = true;
    if (nghttp2_submit_response(client->h2, stream->id, fields, SL_LEN(fields),
                                &from))
        sl_conn_abort(client->base.conn);
}

void sl_grpc_stream_end(struct sl_grpc_stream *stream)
{
    if (stream->whole)
        return;
    stream->whole = true;
    stream->client->coming--;
    if (stream->not_grpc)
        answer_http(stream);
    if (stream->ended)
        return;
    if (!stream->method->streams)
        finish_unary(stream);
    else if (stream->in.len > 0)
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the message is shorter than its length prefix");
    else
        sl_grpc_end(stream);
}

/* ---- the fields of a request ---- */

#define RLS  "/envoy.service.ratelimit.v3.RateLimitService/"
#define INFO "ServerReflection/ServerReflectionInfo"

static const struct sl_grpc_method methods[] = {
    {RLS "ShouldRateLimit",            sl_grpc_should_rate_limit, false, true },
    {"/grpc.health.v1.Health/Check",   sl_grpc_check,             false, false},
    {"/grpc.health.v1.Health/Watch",   sl_grpc_watch,             false, false},
    {"/grpc.reflection.v1." INFO,      sl_grpc_reflect,           true,  true },
    {"/grpc.reflection.v1alpha." INFO, sl_grpc_reflect,           true,  true },
};

/* Reads "20m": at most eight digits and a unit. */
static void read_timeout(struct sl_grpc_stream *stream, struct sl_str text)
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

    stream->bad_timeout = true;
    if (text.len < 2 || text.len > 9)
        return;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return;
        value = 10 * value + (text.at[i] - '0');
    }
    for (size_t i = 0; i < SL_LEN(units); i++)
        if (units[i].letter == text.at[text.len - 1]) {
            stream->deadline =
                stream->began + (value < SL_NS_MAX / 4 / units[i].length
                                     ? value * units[i].length
                                     : SL_NS_MAX / 4);
            stream->bad_timeout = false;
        }
}

/* The token is in `authorization: Bearer TOKEN` or `x-sluice-token`. */
static void read_token(struct sl_grpc_stream *stream, struct sl_str token)
{
    const struct sl_server_worker *worker = stream->client->base.worker;

    if (worker->server->token.len > 0 && token.len > 0 &&
        sl_server_token_ok(worker, token))
        stream->shows_token = true;
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
        read_timeout(stream, value);
    else if (sl_str_eq(name, SL_STR("authorization")))
        read_token(stream, sl_server_bearer(value));
    else if (sl_str_eq(name, SL_STR("x-sluice-token")))
        read_token(stream, value);
    return true;
}

void sl_grpc_stream_head(struct sl_grpc_stream *stream)
{
    const struct sl_server_conn *base = &stream->client->base;

    if (!stream->is_post || !stream->is_grpc) {
        sl_server_count_refusal(base->worker, "malformed");
        stream->not_grpc = stream->ended = true;
    } else if ((!stream->method || stream->method->needs_token) &&
               !sl_server_admits(base->worker, stream->shows_token,
                                 base->conn->tls_client)) {
        sl_grpc_refuse(stream, SL_GRPC_UNAUTHENTICATED,
                       base->worker->server->token.len > 0
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
