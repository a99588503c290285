/* session.c -- how a connection of a door ends for those who still hold it. */
#include "doors/http/session.h"

void sl_http_stream_forget(struct sl_http_session *s)
{
    struct sl_http_stream *stream = s->stream;

    s->stream = NULL;
    if (stream)
        stream->on_close(stream);
}

void sl_http_stream_end(struct sl_http_stream *stream)
{
    struct sl_http_session *s;

    if (!stream->conn)
        return;
    s = stream->conn->owner;
    s->stream = NULL;
    sl_conn_finish(s->conn);
}

void sl_http_session_free(struct sl_http_session *s)
{
    sl_alloc_free(s->worker->alloc, s, sizeof(*s));
}

void sl_http_leave_behind(struct sl_http_session *s)
{
    struct sl_http_call *call = s->call;
    struct sl_buf *in = &s->conn->in;

    call->session = NULL;
    call->conn = NULL;
    call->left = s;
    call->left_in = *in;
    sl_buf_init(in, in->ceiling, in->alloc);
    sl_check_cancel(&call->ask);
}
