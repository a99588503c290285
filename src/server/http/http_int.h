/* inner.h -- what server and handlers share, and nobody else needs. */
#ifndef SL_HTTP_INNER_H
#define SL_HTTP_INNER_H

#include "server/http/http.h"

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

#endif
