/* dynamo.c -- DynamoDB as a back end of the remote store: clients, and the
 * store identity in the table. op.c has the ops.
 *
 *     GET --> found: ready
 *      ^        | not found
 *      +------ PUT, unless another daemon did
 *
 * After the secret was read, it is read again only while the endpoint does not
 * answer, so that a client without takes notices when it is back.
 */
#include "store/dynamo/dynamo.h"

#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define IN_FLIGHT   1024
#define SPARES      64
#define RETRY_LEAST (200 * SL_MS)
#define RETRY_MOST  (5 * SL_S)
#define PATIENCE    (2 * SL_S)
#define SECRET      "sluice:secret"
#define SORT        "SLUICE"

struct dynamo {
    struct sl_remote_store remote; /* first */
    struct sl_dynamo_options options;
    _Atomic bool has_journals;
    _Atomic bool recovers; /* a client does */
};

static struct sl_dynamo_client *of(struct sl_remote_client *base)
{
    return (struct sl_dynamo_client *)base;
}

/* ---- status ---- */

void sl_dynamo_client_heard(struct sl_dynamo_client *client, bool answers,
                            const char *why)
{
    if (atomic_exchange(&client->base.counts.up, answers) == answers)
        return;
    sl_store_log_write(&client->base.log,
                       answers ? SL_STORE_EVENT_UP : SL_STORE_EVENT_DOWN, why);
    if (!answers && client->timer)
        sl_timer_start(client->timer, 0);
}

void sl_dynamo_client_error(struct sl_dynamo_client *client,
                            enum sl_dynamo_status status, const char *why)
{
    struct sl_remote_client *base = &client->base;
    struct sl_diag message;

    if (!sl_store_log_is_due(&base->log, (int)status, sl_loop_mono(base->loop)))
        return;
    sl_diag_error(&message, 0, "%s%s%s%s", sl_dynamo_status_sentence(status),
                  why[0] ? " (" : "", why, why[0] ? ")" : "");
    sl_store_log_write(&base->log, SL_STORE_EVENT_TROUBLE, message.sentence);
}

static void on_keys(void *ctx, bool good, const char *sentence)
{
    struct sl_dynamo_client *client = ctx;

    if (!good)
        sl_dynamo_client_error(client, SL_FORBIDDEN, sentence);
    else if (client->timer)
        sl_timer_start(client->timer, 0);
}

/* ---- store identity ---- */

static void ask_later(struct sl_dynamo_client *client)
{
    sl_timer_start(client->timer,
                   sl_jitter_backoff(&client->jitter, client->failures++,
                                     RETRY_LEAST, RETRY_MOST));
}

static int put_secret(struct sl_dynamo_client *client)
{
    char secret[SL_STORE_IDENTITY + 1];
    int err;

    sl_store_identity_secret(client->base.identity, secret);
    err = sl_buf_addf(&client->call.body,
                      "{\"TableName\":\"%.*s\",\"Item\":{\"userId\":{\"S\":"
                      "\"" SECRET "\"},\"dataType\":{\"S\":\"" SORT
                      "\"},\"secret\":{\"S\":\"%s\"}},"
                      "\"ConditionExpression\":"
                      "\"attribute_not_exists(userId)\"}",
                      SL_STR_ARG(client->options->where.table), secret);
    explicit_bzero(secret, sizeof(secret));
    return err;
}

int sl_dynamo_client_put_note(struct sl_buf *out, struct sl_str table)
{
    return sl_buf_addf(out,
                       "{\"TableName\":\"%.*s\",\"Key\":{\"userId\":{\"S\":"
                       "\"" SECRET "\"},\"dataType\":{\"S\":\"" SORT "\"}},"
                       "\"UpdateExpression\":\"SET steps = :y\","
                       "\"ExpressionAttributeValues\":{\":y\":{\"S\":"
                       "\"yes\"}}}",
                       SL_STR_ARG(table));
}

/* Reads the secret, or writes it. */
static void ask(struct sl_dynamo_client *client, bool puts)
{
    static const struct sl_row row = {
        .name = {SECRET, sizeof(SECRET) - 1},
          .sort = SORT
    };
    struct sl_dynamo_call *call = &client->call;
    int err;

    client->puts = puts;
    sl_buf_clear(&call->body);
    err = puts
              ? put_secret(client)
              : sl_row_put_get(&call->body, client->options->where.table, &row);
    if (!err)
        err = sl_dynamo_call_send(call, puts ? "PutItem" : "GetItem", PATIENCE);
    if (err)
        ask_later(client);
}

static void on_secret(struct sl_dynamo_client *client, const char *text)
{
    bool changed = false;

    if (!sl_store_identity_see_secret(client->base.identity, sl_str_c(text),
                                      &changed)) {
        sl_dynamo_client_error(
            client, SL_REFUSED,
            "the row sluice:secret was not written by Sluice");
        ask_later(client);
        return;
    }
    atomic_store(&client->base.counts.ready, true);
    client->failures = 0;
    if (client->recovery)
        sl_recovery_go(client->recovery);
}

static void on_got(struct sl_dynamo_client *client)
{
    struct sl_dynamo_call *call = &client->call;
    char secret[SL_STORE_IDENTITY + 2], steps[8], why[SL_REPLY_WHY] = "";
    struct sl_dynamo_text texts[] = {
        {"secret", secret, sizeof(secret), false},
        {"steps",  steps,  sizeof(steps),  false},
    };
    bool found = false;
    enum sl_dynamo_status status =
        call->status == 0 ? SL_UNSENT
                          : sl_dynamo_texts(call->status, call->reply, texts,
                                            SL_LEN(texts), &found, why);

    sl_dynamo_client_heard(client, call->status > 0,
                           call->status > 0 ? why : call->fetch.why);
    if (status == SL_DYNAMO_ANSWERED && found) {
        if (strcmp(steps, "yes") == 0)
            atomic_store(client->has_journals, true);
        on_secret(client, secret);
    } else if (status == SL_DYNAMO_ANSWERED) {
        ask(client, true);
    } else {
        sl_dynamo_client_error(client, status, why[0] ? why : call->fetch.why);
        if (status == SL_FORBIDDEN)
            sl_dynamo_http_doubt(client->http);
        ask_later(client);
    }
}

static void on_done(struct sl_dynamo_call *call)
{
    struct sl_dynamo_client *client = call->ctx;

    if (!client->puts)
        on_got(client);
    else if (call->status == 200)
        ask(client, false); /* the secret of the first daemon */
    else
        ask_later(client);
}

static void on_timer(void *ctx)
{
    struct sl_dynamo_client *client = ctx;

    if (!sl_dynamo_call_is_open(&client->call))
        ask(client, false);
}

/* ---- clients ---- */

static int client_open(struct sl_remote_client *base)
{
    struct sl_dynamo_client *client = of(base);
    struct dynamo *dynamo = (struct dynamo *)base->store;
    struct sl_dynamo_http_options http = {
        .where = &dynamo->options.where,
        .env = &dynamo->options.env,
        .loop = base->loop,
        .alloc = base->options->alloc,
        .on_keys = on_keys,
        .ctx = client,
    };
    int err = sl_jitter_init(&client->jitter);

    client->options = &dynamo->options;
    client->has_journals = &dynamo->has_journals;
    if (!err)
        err = sl_dynamo_http_open(&http, &client->http);
    if (err)
        return err;
    client->lease_slot =
        (unsigned)(sl_jitter_next(&client->jitter) % SL_ROW_LEASES);
    sl_dynamo_call_init(&client->call, client->http);
    client->call.done = on_done;
    client->call.ctx = client;
    err = sl_timer_new(base->loop, on_timer, client, &client->timer);
    if (!err && !atomic_exchange(&dynamo->recovers, true))
        err = sl_recovery_open(client, &client->recovery);
    return err;
}

static void client_stop(struct sl_remote_client *base)
{
    struct sl_remote_op *op;

    while ((op = TAILQ_FIRST(&base->in_flight)) != NULL)
        sl_dynamo_op_abandon((struct sl_dynamo_op *)op);
}

static void client_close(struct sl_remote_client *base)
{
    struct sl_dynamo_client *client = of(base);

    sl_recovery_close(client->recovery);
    sl_dynamo_call_done(&client->call);
    sl_timer_free(client->timer);
    sl_dynamo_http_close(client->http);
}

static bool accepts(const struct sl_remote_client *base, unsigned place)
{
    unsigned most = base->options->in_flight_most;

    (void)place;
    return base->in_flight_count < (most ? most : IN_FLIGHT);
}

/* ---- the store ---- */

static const struct sl_remote_backend backend = {
    .store_size = sizeof(struct dynamo),
    .client_size = sizeof(struct sl_dynamo_client),
    .op_size = sizeof(struct sl_dynamo_op),
    .spares = SPARES,
    .keep_part = sl_dynamo_op_keep_part,
    .leases_melt = true,
    .client_open = client_open,
    .client_stop = client_stop,
    .client_close = client_close,
    .accepts = accepts,
    .op_init = sl_dynamo_op_init,
    .op_reset = sl_dynamo_op_reset,
    .op_done = sl_dynamo_op_done,
    .encode_take = sl_dynamo_op_encode_take,
    .encode_refund = sl_dynamo_op_encode_refund,
    .encode_lease_end = sl_dynamo_op_encode_lease_end,
    .send = sl_dynamo_op_begin,
    .cancel = sl_dynamo_op_cancel,
};

int sl_dynamo_open(const struct sl_dynamo_options *options,
                   struct sl_store **ret, struct sl_diag *diag)
{
    struct sl_remote_store *remote;
    int err = sl_remote_store_open(&backend, &options->remote, &remote, diag);

    if (err)
        return err;
    ((struct dynamo *)remote)->options = *options;
    *ret = &remote->store;
    return 0;
}
