/* reply.c -- what a stream answers: messages, and how it ended.
 *
 * Messages wait in `out` until nghttp2 asks for them; the status comes behind
 * the last one, as trailers. Where there is no message, all is in the head.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/grpc/grpc_int.h"

#define FIELD(name, value)                                                     \
    {                                                                          \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1,               \
            sizeof(value) - 1,                                                 \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE       \
    }

/* The text as grpc-message has it: what is not visible ASCII, and '%', as
 * %XX. */
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

/* The fields that say how it ended. Returns how many. */
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

/* Have it sent what there is: the head, if that has not gone yet. Nothing but
 * a status goes all in the head. */
static void go_on(struct sl_grpc_stream *stream)
{
    struct sl_grpc_session *session = stream->session;
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
        err = nghttp2_submit_response(session->h2, stream->id, fields, count,
                                      bare ? NULL : &from);
    else
        err = nghttp2_session_resume_data(session->h2, stream->id);
    if (err &&
        err != NGHTTP2_ERR_INVALID_ARGUMENT) /* that: it was not stopped */
        sl_conn_abort(session->conn);
    stream->answered = true;
}

char *sl_grpc_message(struct sl_grpc_stream *stream, size_t size)
{
    if (sl_buf_reserve(&stream->out, SL_GRPC_PREFIX + size))
        return NULL;
    return stream->out.bytes + stream->out.len + SL_GRPC_PREFIX;
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
    go_on(stream);
}

void sl_grpc_flow(struct sl_grpc_stream *stream)
{
    go_on(stream);
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
    go_on(stream);
}

/* No gRPC at all: in the words of HTTP. */
void sl_grpc_refuse_http(struct sl_grpc_stream *stream)
{
    static const nghttp2_nv fields[] = {
        FIELD(":status", "415"),
        FIELD("content-type", "text/plain"),
    };
    struct sl_grpc_session *session = stream->session;

    sl_grpc_refused(session->worker, "malformed");
    stream->answered = stream->ended = true;
    if (nghttp2_submit_response(session->h2, stream->id, fields, SL_LEN(fields),
                                NULL))
        sl_conn_abort(session->conn);
}
