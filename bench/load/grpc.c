/* grpc.c -- unary calls over HTTP/2 in the clear, for the load generator.
 *
 * A stream is one call. A reply is the message of the response, without its
 * prefix of five bytes; only its first bytes are kept.
 */
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "load/load.h"

#define PREFIX 5
#define KEPT   64

struct call {
    struct sl_str request;
    size_t sent;
    size_t got;
    char reply[PREFIX + KEPT];
};

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *buf,
                       size_t size, uint32_t *flags,
                       nghttp2_data_source *source, void *ctx)
{
    struct call *call = source->ptr;
    size_t len = call->request.len;

    (void)session, (void)stream, (void)ctx;
    if (size < len + PREFIX)
        die("a request is too long");
    buf[0] = 0;
    for (unsigned i = 0; i < 4; i++)
        buf[1 + i] = (uint8_t)(len >> (24 - 8 * i));
    memcpy(buf + PREFIX, call->request.at, len);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)(len + PREFIX);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream,
                   const uint8_t *data, size_t len, void *ctx)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, stream);
    size_t room = sizeof(call->reply) - call->got;

    (void)flags, (void)ctx;
    memcpy(call->reply + call->got, data, len < room ? len : room);
    call->got += len < room ? len : room;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name, size_t name_len, const uint8_t *value,
                     size_t len, uint8_t flags, void *ctx)
{
    (void)session, (void)frame, (void)flags, (void)ctx;
    if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0 &&
        (len != 1 || value[0] != '0'))
        die("grpc-status %.*s", (int)len, (const char *)value);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code,
                    void *ctx)
{
    struct call *call = nghttp2_session_get_stream_user_data(session, stream);

    if (code || call->got < PREFIX)
        die("a call failed: %s", nghttp2_http2_strerror(code));
    on_reply(ctx, (struct sl_str){call->reply + PREFIX, call->got - PREFIX});
    free(call);
    return 0;
}

static void flush(struct conn *c)
{
    const uint8_t *bytes;
    ssize_t len;

    while ((len = nghttp2_session_mem_send(c->session, &bytes)) > 0)
        if (sl_buf_add(&c->out,
                       (struct sl_str){(const char *)bytes, (size_t)len}))
            die("there is no memory");
}

static void grpc_open(struct conn *c)
{
    nghttp2_session_callbacks *calls;
    nghttp2_session *session;

    if (nghttp2_session_callbacks_new(&calls))
        die("there is no memory");
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    if (nghttp2_session_client_new(&session, calls, c) ||
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0))
        die("there is no memory");
    nghttp2_session_callbacks_del(calls);
    c->session = session;
}

static void grpc_close(struct conn *c)
{
    nghttp2_session_del(c->session);
}

#define FIELD(n, v)                                                            \
    {                                                                          \
        (uint8_t *)(n), (uint8_t *)(v), strlen(n), strlen(v),                  \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE       \
    }

static void grpc_put(struct conn *c, struct sl_str request)
{
    struct call *call = calloc(1, sizeof(*call));
    nghttp2_data_provider body = {.source.ptr = call, .read_callback = on_read};
    nghttp2_nv head[] = {
        FIELD(":method", "POST"),     FIELD(":scheme", "http"),
        FIELD(":path", options.path), FIELD(":authority", "127.0.0.1"),
        FIELD("te", "trailers"),      FIELD("content-type", "application/grpc"),
    };

    if (!call)
        die("there is no memory");
    call->request = request;
    if (nghttp2_submit_request(c->session, NULL, head, SL_LEN(head), &body,
                               call) < 0)
        die("a call could not be made");
    flush(c);
}

static void grpc_feed(struct conn *c)
{
    if (nghttp2_session_mem_recv(c->session, (const uint8_t *)c->in.bytes,
                                 c->in.len) < 0)
        die("this is not HTTP/2");
    c->in.len = 0;
    flush(c);
}

const struct codec codec_grpc = {grpc_open, grpc_close, grpc_put, grpc_feed,
                                 true};
