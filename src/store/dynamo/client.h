/* client.h -- requests to one endpoint, signed, on one loop.
 *
 * Connections are kept by libcurl. A request that can't be sent for want of
 * keys fails at once. What the server's Date says of its clock is taken into
 * account from the next request on, in signatures and for whoever asks.
 */
#ifndef SL_DYNAMO_HTTP_H
#define SL_DYNAMO_HTTP_H

#include "store/dynamo/aws/keychain.h"
#include "store/dynamo/reply.h"
#include "store/dynamo/skew.h"
#include "store/dynamo/where.h"

struct sl_dynamo_http;

/* One request. It belongs to whoever asks. */
struct sl_dynamo_call {
    struct sl_http_fetch fetch;
    struct sl_buf body; /* to be sent: filled by who asks */
    struct sl_buf head; /* the headers' texts */
    const char *headers[8];
    struct sl_dynamo_http *client;
    sl_ns sent_at; /* by our wall clock */
    void (*done)(struct sl_dynamo_call *call);
    void *ctx;

    /* Until the next one: what came. Status 0: see fetch.why. */
    int status;
    struct sl_str reply;
    bool unsent; /* certainly */
};

struct sl_dynamo_http_options {
    const struct sl_dynamo_url *where;
    const struct sl_aws_env *env;
    struct sl_loop *loop;
    const struct sl_alloc *alloc;
    void (*on_keys)(void *ctx, bool good, const char *sentence);
    void *ctx;
};

SL_MUST_USE int
sl_dynamo_http_open(const struct sl_dynamo_http_options *options,
                    struct sl_dynamo_http **ret);

/* No call is under way. NULL is allowed. */
void sl_dynamo_http_close(struct sl_dynamo_http *client);

void sl_dynamo_call_init(struct sl_dynamo_call *call,
                         struct sl_dynamo_http *client);
void sl_dynamo_call_done(struct sl_dynamo_call *call); /* cancels it, too */

/* Ask for `operation` ("UpdateItem") with call->body. done() is called once,
 * later; not if this fails: SLUICE_ESTORE without keys, SLUICE_ENOMEM. */
SL_MUST_USE int sl_dynamo_call_send(struct sl_dynamo_call *call,
                                    const char *operation, sl_ns timeout);

/* Give up without a word. */
void sl_dynamo_call_cancel(struct sl_dynamo_call *call);
bool sl_dynamo_call_is_open(const struct sl_dynamo_call *call);

/* Are there keys? */
bool sl_dynamo_http_has_keys(const struct sl_dynamo_http *client);

/* They were refused: get others. */
void sl_dynamo_http_doubt(struct sl_dynamo_http *client);

/* What to add to our wall time. */
sl_ns sl_dynamo_http_skew(const struct sl_dynamo_http *client);

#endif
