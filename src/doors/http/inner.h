/* inner.h -- what server and handlers share, and nobody else needs. */
#ifndef SL_HTTP_INNER_H
#define SL_HTTP_INNER_H

#include "doors/http/http.h"

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
