/* api.h -- shared by the handlers of /v1 for applications and proxies. */
#ifndef SL_SERVER_HTTP_API_H
#define SL_SERVER_HTTP_API_H

#include "engine/hold_op.h"
#include "server/http/http_int.h"

/* Begin a check. done() is called with `ctx`, either before this returns or
 * from the loop. The facts must live until then, in the call's arena. */
void sl_http_ask(struct sl_http_call *call, const struct sl_request *request,
                 bool spend, void (*done)(struct sl_check *check), void *ctx);

/* In done(): count and render the decision. Returns false after a refusal. */
SL_MUST_USE bool sl_http_decided(struct sl_http_call *call,
                                 struct sl_rendered *ret);

#define SL_CHECK_FIELDS 100 /* headers or costs of a check */

/* Refuse requests of web pages. Returns true after a refusal. */
SL_MUST_USE bool sl_http_is_page(struct sl_http_call *call);

/* ---- handlers ---- */

void sl_http_backlogs(struct sl_http_call *call);
void sl_http_backlog_get(struct sl_http_call *call);
void sl_http_backlog_put(struct sl_http_call *call);
void sl_http_check(struct sl_http_call *call);
void sl_http_explain(struct sl_http_call *call);
void sl_http_holds(struct sl_http_call *call);
void sl_http_auth(struct sl_http_call *call);
void sl_http_deny(struct sl_http_call *call);
void sl_http_json(struct sl_http_call *call);
void sl_http_healthcheck(struct sl_http_call *call);

#endif
