/* session.h -- a connection of a door: for server.c and session.c. */
#ifndef SL_HTTP_SESSION_H
#define SL_HTTP_SESSION_H

#include "doors/standing.h"
#include "server/http/http_int.h"

enum phase { IDLE, HEAD, BODY, LATE, STREAM };

struct sl_http_session {
    struct sl_http_worker *worker;
    struct sl_conn *conn;
    bool shakes; /* TLS: hands may not have been shaken yet */
    enum phase phase;
    struct sl_http_call *call;     /* LATE: the one that is under way */
    struct sl_http_stream *stream; /* STREAM: whose the connection is */
    struct sl_conn_count place;
    struct sl_http1 parser;
};

/* ---- session.c ---- */

/* Tell whoever streams that it is over. */
void sl_http_stream_forget(struct sl_http_session *session);

/* The client has gone, and somebody still works for him: what he said stays as
 * it is until that is finished. */
void sl_http_leave_behind(struct sl_http_session *session);

#endif
