/* http_int.h -- what the files of this folder share. */
#ifndef SL_SERVER_HTTP_HTTP_INT_H
#define SL_SERVER_HTTP_HTTP_INT_H

#include "server/http/http.h"
#include "wire/json.h"

/* ---- connections: server.c ---- */

enum sl_http_phase {
    SL_HTTP_PHASE_IDLE,
    SL_HTTP_PHASE_HEAD,
    SL_HTTP_PHASE_BODY,
    SL_HTTP_PHASE_SUSPENDED,
    SL_HTTP_PHASE_STREAM,
};

struct sl_http_conn {
    struct sl_server_conn base; /* first */
    enum sl_http_phase phase;
    struct sl_http_call *call;     /* SUSPENDED: the call in progress */
    struct sl_http_stream *stream; /* STREAM: the stream it belongs to */
    struct sl_http1 parser;
};

/* Send the answer of a suspended call whose client is still connected. */
void sl_http_resume(struct sl_http_call *call);

/* May the caller use what needs a token? If not, it was refused with 401. */
bool sl_http_admit(struct sl_http_call *call);

/* The text of the Date field (RFC 9110, 5.6.7): "Sun, 15 Nov 2026 07:00:00
 * GMT". */
struct sl_str sl_http_date(struct sl_server_worker *worker);

/* ---- requests: router.c ---- */

/* The protocol's op_init and op_done. */
void sl_http_call_init(struct sl_server_worker *worker,
                       struct sl_server_op *op);
void sl_http_call_free(struct sl_server_op *op);

/* May the client send the body of this head? If not, the call has its refusal:
 * a body without a token is not buffered. */
SL_MUST_USE bool sl_http_access_check(struct sl_http_call *call);

/* The call has its answer: count it. */
void sl_http_count(const struct sl_http_call *call);

/* Reset the answer: 200, without a body. */
void sl_http_begin(struct sl_http_call *call);

/* Out of memory: 503, with a text that needs none. */
void sl_http_no_memory(struct sl_http_call *call);

/* Fields and body of a decision; the status as given. */
void sl_http_show(struct sl_http_call *call, int status,
                  const struct sl_rendered *rendered);

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
