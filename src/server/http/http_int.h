/* http_int.h -- what server and handlers share, and nobody else needs. */
#ifndef SL_SERVER_HTTP_HTTP_INT_H
#define SL_SERVER_HTTP_HTTP_INT_H

#include "server/http/http.h"
#include "server/server.h"
#include "wire/json.h"

/* ---- call.c ---- */

void sl_http_calls_free(struct sl_http_calls *calls);

/* ---- handle.c ---- */

/* May whoever sent this head send its body, too? If not, the call has its
 * refusal: nothing is kept for those who lack the token. */
SL_MUST_USE bool sl_http_access_check(struct sl_http_call *call);

/* The call has its answer: count it. */
void sl_http_count(const struct sl_http_call *call);

/* ---- date.c ---- */

/* RFC 9110, 5.6.7: "Sun, 15 Nov 2026 07:00:00 GMT" */
struct sl_str sl_http_date(struct sl_http_worker *worker);

/* ---- server.c ---- */

/* A call that was late is finished, and its client still there. */
void sl_http_resume(struct sl_http_call *call);

/* One whose connection is gone. */
void sl_http_session_free(struct sl_http_session *session);

/* ---- answer.c ---- */

/* Begin: 200 and nothing. */
void sl_http_begin(struct sl_http_call *call);

/* There is no memory: 503, with words that need none. */
void sl_http_no_memory(struct sl_http_call *call);

/* Fields and body of a decision; the status as given. */
void sl_http_show(struct sl_http_call *call, int status,
                  const struct sl_rendered *rendered);

/* ---- token.c ---- */

/* May the caller use what is guarded? If not, it was refused with 401. */
bool sl_http_admit(struct sl_http_call *call);

/* ---- a connection of a door: for server.c and session.c. */

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

/* ---- reading the JSON of a request, and refusing it.
 *
 * What checks, reports of use and errands for holds have in common: strict
 * reading, and refusals that say which of an array was wrong, where, and what
 * to write instead. Whatever refuses answers the call and is false, so that
 * refusing and leaving are one statement.
 */

struct sl_json_body {
    struct sl_http_call *call;
    struct sl_json_reader json;
    const char *one;    /* of what is read: "check" */
    const char *inside; /* "headers." inside of them; "" elsewhere */
    bool is_array;
    unsigned index; /* in the array, of the one that is being read */
};

/* The body of the call's request; `one` is a word for what is in it. */
void sl_json_body_begin(struct sl_json_body *body, struct sl_http_call *call,
                        const char *one);

/* ---- refusing ---- */

bool sl_json_body_refuse(struct sl_json_body *body, const char *code,
                         const char *fmt, ...) SL_PRINTF(3, 4);
bool sl_json_body_no_memory(struct sl_json_body *body);

/* The text itself is broken. */
bool sl_json_body_broken(struct sl_json_body *body);

/* Another kind of value than was wanted. */
bool sl_json_body_wrong(struct sl_json_body *body, struct sl_str member,
                        const char *wanted);

/* None of the `count` members in `names`. */
bool sl_json_body_unknown(struct sl_json_body *body, struct sl_str name,
                          const char *const *names, size_t count);

/* ---- reading ---- */

/* Into the object that one is. */
SL_MUST_USE bool sl_json_body_enter(struct sl_json_body *body);

SL_MUST_USE bool sl_json_body_text(struct sl_json_body *body,
                                   struct sl_str member, struct sl_str *ret);
SL_MUST_USE bool sl_json_body_whole(struct sl_json_body *body,
                                    struct sl_str member, uint64_t *ret);

typedef int sl_json_body_span_f(struct sl_str text, sl_ns *ret,
                                struct sl_diag *why);

/* For how long, as `read` reads it. */
SL_MUST_USE bool sl_json_body_span(struct sl_json_body *body,
                                   struct sl_str member,
                                   sl_json_body_span_f *read, sl_ns *ret);

/* The limit of the policy whose name comes nearest to one that it does not
 * have. NULL: none does. */
const char *sl_json_body_near_limit(struct sl_json_body *body,
                                    struct sl_str name);

#endif
