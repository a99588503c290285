/* identity.c -- the secret that lies in the table, and whether anybody is
 * there.
 *
 *     GET --> it is there: ready
 *      ^        | no
 *      +------ PUT, unless another did
 *
 * Once the secret was seen this is asked only while the endpoint does not
 * answer: who asks for nothing else should know when it is back.
 */
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define AGAIN    (200 * SL_MS)
#define CALM     (5 * SL_S)
#define PATIENCE (2 * SL_S)

struct sl_dynamo_identity {
    struct sl_dynamo_call call; /* first */
    struct sl_dynamo_client *client;
    struct sl_timer *timer;
    bool puts;
    sl_ns again;
};

static const struct sl_row secret_row = {
    .name = {"sluice:secret", 13},
    .sort = "SLUICE",
};

static void ask(struct sl_dynamo_identity *identity);

static void ask_later(struct sl_dynamo_identity *identity)
{
    sl_timer_start(identity->timer,
                   sl_jitter_span(&identity->client->jitter, identity->again));
    identity->again = identity->again < CALM / 2 ? 2 * identity->again : CALM;
}

/* ---- answers ---- */

static void on_secret(struct sl_dynamo_identity *identity, const char *text)
{
    struct sl_dynamo_client *client = identity->client;
    bool changed = false;

    if (!sl_store_identity_see_secret(client->base.identity, sl_str_c(text),
                                      &changed)) {
        sl_dynamo_client_error(
            client, SL_REFUSED,
            "the row sluice:secret was not written by Sluice");
        ask_later(identity);
        return;
    }
    atomic_store(&client->base.counts.ready, true);
    identity->again = AGAIN;
    if (client->recovery)
        sl_recovery_go(client->recovery);
}

static void on_got(struct sl_dynamo_identity *identity)
{
    struct sl_dynamo_call *call = &identity->call;
    char secret[SL_STORE_IDENTITY + 2], steps[8], why[SL_REPLY_WHY] = "";
    struct sl_dynamo_text texts[] = {
        {"secret", secret, sizeof(secret), false},
        {"steps",  steps,  sizeof(steps),  false},
    };
    bool there = false;
    enum sl_dynamo_status status =
        call->status == 0 ? SL_UNSENT
                          : sl_dynamo_texts(call->status, call->reply, texts,
                                            SL_LEN(texts), &there, why);

    sl_dynamo_client_heard(identity->client, call->status > 0,
                           call->status > 0 ? why : call->fetch.why);
    if (status == SL_DYNAMO_ANSWERED && there) {
        if (strcmp(steps, "yes") == 0)
            atomic_store(identity->client->has_journals, true);
        on_secret(identity, secret);
    } else if (status == SL_DYNAMO_ANSWERED) {
        identity->puts = true;
        ask(identity);
    } else {
        sl_dynamo_client_error(identity->client, status,
                               why[0] ? why : call->fetch.why);
        if (status == SL_FORBIDDEN)
            sl_dynamo_http_doubt(identity->client->http);
        ask_later(identity);
    }
}

static void on_done(struct sl_dynamo_call *call)
{
    struct sl_dynamo_identity *identity = (struct sl_dynamo_identity *)call;

    if (!identity->puts) {
        on_got(identity);
        return;
    }
    identity->puts = false;
    if (call->status == 200)
        ask(identity); /* whoever was first */
    else
        ask_later(identity);
}

/* ---- questions ---- */

static int put_secret(struct sl_dynamo_identity *identity)
{
    struct sl_dynamo_client *client = identity->client;
    struct sl_str table = client->options->where.table;
    char secret[SL_STORE_IDENTITY + 1];
    int err;

    sl_store_identity_secret(client->base.identity, secret);
    err = sl_buf_addf(&identity->call.body,
                      "{\"TableName\":\"%.*s\",\"Item\":{\"userId\":{\"S\":"
                      "\"%.*s\"},\"dataType\":{\"S\":\"%s\"},\"secret\":"
                      "{\"S\":\"%s\"}},\"ConditionExpression\":"
                      "\"attribute_not_exists(userId)\"}",
                      SL_STR_ARG(table), SL_STR_ARG(secret_row.name),
                      secret_row.sort, secret);
    explicit_bzero(secret, sizeof(secret));
    return err;
}

/* Whoever comes after a crash looks for pledges only where there are any. */
int sl_dynamo_identity_put_note(struct sl_buf *out, struct sl_str table)
{
    return sl_buf_addf(out,
                       "{\"TableName\":\"%.*s\",\"Key\":{\"userId\":{\"S\":"
                       "\"%.*s\"},\"dataType\":{\"S\":\"%s\"}},"
                       "\"UpdateExpression\":\"SET steps = :y\","
                       "\"ExpressionAttributeValues\":{\":y\":{\"S\":"
                       "\"yes\"}}}",
                       SL_STR_ARG(table), SL_STR_ARG(secret_row.name),
                       secret_row.sort);
}

static void ask(struct sl_dynamo_identity *identity)
{
    struct sl_dynamo_client *client = identity->client;
    int err;

    sl_buf_clear(&identity->call.body);
    err = identity->puts
              ? put_secret(identity)
              : sl_row_put_get(&identity->call.body,
                               client->options->where.table, &secret_row);
    if (!err)
        err = sl_dynamo_call_send(
            &identity->call, identity->puts ? "PutItem" : "GetItem", PATIENCE);
    if (!err)
        return;
    identity->puts = false;
    ask_later(identity);
}

static void on_timer(void *ctx)
{
    struct sl_dynamo_identity *identity = ctx;

    if (!sl_dynamo_call_is_open(&identity->call))
        ask(identity);
}

/* ---- life ---- */

void sl_dynamo_identity_go(struct sl_dynamo_identity *identity)
{
    sl_timer_start(identity->timer, 0);
}

int sl_dynamo_identity_open(struct sl_dynamo_client *client,
                            struct sl_dynamo_identity **ret)
{
    struct sl_dynamo_identity *identity =
        sl_alloc_new(client->base.options->alloc, sizeof(*identity));
    int err;

    if (!identity)
        return SLUICE_ENOMEM;
    memset(identity, 0, sizeof(*identity));
    identity->client = client;
    identity->again = AGAIN;
    sl_dynamo_call_init(&identity->call, client->http);
    identity->call.done = on_done;
    err = sl_timer_new(client->base.loop, on_timer, identity, &identity->timer);
    if (err) {
        sl_dynamo_identity_close(identity);
        return err;
    }
    *ret = identity;
    return 0;
}

void sl_dynamo_identity_close(struct sl_dynamo_identity *identity)
{
    if (!identity)
        return;
    sl_dynamo_call_done(&identity->call);
    sl_timer_free(identity->timer);
    sl_alloc_free(identity->client->base.options->alloc, identity,
                  sizeof(*identity));
}
