/* dynamo.c -- DynamoDB as a back end of the remote store: clients. op.c has the
 * ops. */
#include "store/dynamo/dynamo.h"

#include "store/dynamo/dynamo_int.h"

#define IN_FLIGHT 1024
#define SPARES    64

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
    if (!answers && client->identity)
        sl_dynamo_identity_go(client->identity);
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
    else if (client->identity)
        sl_dynamo_identity_go(client->identity);
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
        client->lease_slot =
            (unsigned)(sl_jitter_next(&client->jitter) % SL_ROW_LEASES);
    if (!err)
        err = sl_dynamo_http_open(&http, &client->http);
    if (!err)
        err = sl_dynamo_identity_open(client, &client->identity);
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
    sl_recovery_close(of(base)->recovery);
    sl_dynamo_identity_close(of(base)->identity);
    sl_dynamo_http_close(of(base)->http);
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
