/* dynamo.c -- DynamoDB as a back end of the remote store: clients, the store
 * identity in the table, and recovery of journals. op.c has the ops.
 *
 * Store identity:
 *
 *     GET --> found: ready
 *      ^        | not found
 *      +------ PUT, unless another daemon did
 *
 * After the secret was read, it is read again only while the endpoint does not
 * answer, so that a client without takes notices when it is back.
 *
 * Recovery undoes or clears the journals that no daemon will finish:
 *
 *   QUERIES --> an old journal --> JUDGES, by its last row
 *      ^ page by page               | marked              | not marked
 *      |                            v                     v
 *      |                          CLEARS, a row each    REVIEWS <--> UNDOES
 *      |                            |                     |
 *      +---------- ENDS <-----------+---------------------+
 *
 * One client of every daemon looks for old journals. Two at the same journal do
 * no harm: a refund removes its mark in the same write, and marks are removed
 * from the first row to the last. A journal that can't be handled now is passed
 * over until the next round.
 *
 * OLD is longer than any op works on a journal: LIFE of op.c and the timeout of
 * a call.
 */
#include "store/dynamo/dynamo.h"

#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define IN_FLIGHT   1024
#define SPARES      64
#define RETRY_LEAST (200 * SL_MS)
#define RETRY_MOST  (5 * SL_S)
#define PATIENCE    (2 * SL_S)
#define OLD         (30 * SL_S)
#define EVERY       (5 * SL_S)
#define REC_TIMEOUT (5 * SL_S) /* of a call of the recovery */
#define NAMES_MOST  ((size_t)64 << 10)
#define KEY_MOST    ((size_t)4 << 10)
#define AGAIN_MOST  64
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

struct sl_recovery {
    struct sl_dynamo_call call; /* first */
    struct sl_dynamo_client *client;
    struct sl_timer *timer;
    enum { QUERIES, JUDGES, CLEARS, REVIEWS, UNDOES, ENDS } phase;
    struct sl_buf after; /* where the next page begins; empty: the first */
    struct sl_journal journal;
    struct sl_row row; /* of the journal */
    unsigned at;       /* its index */
    unsigned again;    /* conflicts so far */
    bool undone;       /* something was */
};

static void rec_rest(struct sl_recovery *recovery)
{
    sl_timer_start(recovery->timer,
                   sl_jitter_span(&recovery->client->jitter, EVERY));
}

/* ---- recovery: requests ---- */

static int rec_body(struct sl_recovery *recovery, const char **ret_operation)
{
    static const enum sl_row_request requests[] = {
        [JUDGES] = SL_ROW_GET,
        [REVIEWS] = SL_ROW_GET,
        [CLEARS] = SL_ROW_UNMARK,
        [UNDOES] = SL_ROW_SWAP,
    };
    struct sl_str table = recovery->client->options->where.table;
    struct sl_buf *out = &recovery->call.body;

    sl_buf_clear(out);
    if (recovery->phase == QUERIES) {
        *ret_operation = "Query";
        return sl_journal_put_query(out, table, sl_buf_str(&recovery->after));
    }
    if (recovery->phase == ENDS) {
        *ret_operation = "DeleteItem";
        return sl_journal_put_delete(out, table, recovery->journal.id);
    }
    return sl_row_put(out, table, &recovery->row, requests[recovery->phase],
                      ret_operation);
}

static void rec_ask(struct sl_recovery *recovery, unsigned phase)
{
    const char *operation = "";
    int err;

    recovery->phase = phase;
    err = rec_body(recovery, &operation);
    if (!err)
        err = sl_dynamo_call_send(&recovery->call, operation, REC_TIMEOUT);
    if (err)
        rec_rest(recovery); /* no keys, or out of memory */
}

/* Asks for row `at` of the journal; behind the last one the journal ends. */
static void rec_ask_at(struct sl_recovery *recovery, unsigned at,
                       unsigned phase)
{
    recovery->at = at;
    if (at == recovery->journal.count) {
        rec_ask(recovery, ENDS);
        return;
    }
    sl_journal_row_of(&recovery->journal.rows[at], recovery->journal.id,
                      &recovery->row);
    rec_ask(recovery, phase);
}

/* ---- recovery: replies ---- */

static void rec_on_page(struct sl_recovery *recovery)
{
    bool found = sl_journal_read(recovery->call.reply,
                                 sl_dynamo_client_wall(recovery->client) - OLD,
                                 &recovery->journal, &recovery->after);

    if (found) {
        recovery->undone = false;
        recovery->again = 0;
        rec_ask_at(recovery, recovery->journal.count - 1, JUDGES);
    } else if (recovery->after.len > 0) {
        rec_ask(recovery, QUERIES);
    } else {
        rec_rest(recovery);
    }
}

/* The row was read. It is undone if it has the mark. */
static void rec_review(struct sl_recovery *recovery)
{
    struct sl_row *row = &recovery->row;

    if (!row->marked) {
        rec_ask_at(recovery, recovery->at + 1, REVIEWS);
        return;
    }
    row->next =
        sl_journal_undo(&recovery->journal.rows[recovery->at], row->cell,
                        sl_dynamo_client_wall(recovery->client));
    row->unmarks = true;
    rec_ask(recovery, UNDOES);
}

static void rec_on_end(struct sl_recovery *recovery)
{
    if (recovery->undone) {
        SL_REMOTE_COUNT(&recovery->client->base, returned);
        sl_store_log_write(&recovery->client->base.log, SL_STORE_EVENT_TROUBLE,
                           "a daemon stopped in the middle of a take from "
                           "several limits; the take was refunded");
    }
    rec_ask(recovery, QUERIES);
}

static void rec_on_answered(struct sl_recovery *recovery)
{
    switch (recovery->phase) {
    case QUERIES:
        rec_on_page(recovery);
        break;
    case JUDGES:
        rec_ask_at(recovery, 0,
                   sl_journal_was_taken(&recovery->journal, &recovery->row,
                                        sl_dynamo_client_wall(recovery->client))
                       ? CLEARS
                       : REVIEWS);
        break;
    case REVIEWS:
        rec_review(recovery);
        break;
    case UNDOES:
        recovery->undone = true;
        rec_ask_at(recovery, recovery->at + 1, REVIEWS);
        break;
    case CLEARS:
        rec_ask_at(recovery, recovery->at + 1, CLEARS);
        break;
    case ENDS:
        rec_on_end(recovery);
        break;
    }
}

static void rec_give_up(struct sl_recovery *recovery,
                        enum sl_dynamo_status status, const char *why)
{
    if (recovery->phase == QUERIES)
        sl_buf_clear(&recovery->after);
    sl_dynamo_client_error(recovery->client, status, why);
    rec_rest(recovery);
}

static void rec_on_done(struct sl_dynamo_call *call)
{
    struct sl_recovery *recovery = (struct sl_recovery *)call;
    bool reads = recovery->phase == JUDGES || recovery->phase == REVIEWS;
    char why[SL_REPLY_WHY];
    bool has_rows;
    enum sl_dynamo_status status =
        call->status == 0
            ? SL_UNSENT
            : sl_dynamo_reply_read(
                  call->status, call->reply, &recovery->row, reads,
                  sl_dynamo_client_wall(recovery->client), &has_rows, why);

    if (status == SL_DYNAMO_ANSWERED)
        rec_on_answered(recovery);
    else if (status == SL_UNMET && recovery->phase == CLEARS)
        rec_ask_at(recovery, recovery->at + 1, CLEARS); /* another daemon did */
    else if (status == SL_UNMET && recovery->again++ < AGAIN_MOST)
        rec_ask(recovery, REVIEWS);
    else
        rec_give_up(recovery, status, call->status ? why : call->fetch.why);
}

/* ---- recovery: open and close ---- */

static void rec_on_timer(void *ctx)
{
    struct sl_recovery *recovery = ctx;

    if (sl_dynamo_call_is_open(&recovery->call))
        return;
    if (atomic_load(recovery->client->has_journals))
        rec_ask(recovery, QUERIES);
    else
        rec_rest(recovery);
}

static void recovery_go(struct sl_recovery *recovery)
{
    sl_timer_start(recovery->timer, 0);
}

static void recovery_close(struct sl_recovery *recovery)
{
    if (!recovery)
        return;
    sl_dynamo_call_done(&recovery->call);
    sl_timer_free(recovery->timer);
    sl_buf_done(&recovery->journal.names);
    sl_buf_done(&recovery->after);
    sl_alloc_free(recovery->client->base.options->alloc, recovery,
                  sizeof(*recovery));
}

static int recovery_open(struct sl_dynamo_client *client,
                         struct sl_recovery **ret)
{
    struct sl_recovery *recovery =
        sl_alloc_new(client->base.options->alloc, sizeof(*recovery));
    int err;

    if (!recovery)
        return SLUICE_ENOMEM;
    memset(recovery, 0, sizeof(*recovery));
    recovery->client = client;
    sl_dynamo_call_init(&recovery->call, client->http);
    recovery->call.done = rec_on_done;
    sl_buf_init(&recovery->journal.names, NAMES_MOST,
                client->base.options->alloc);
    sl_buf_init(&recovery->after, KEY_MOST, client->base.options->alloc);
    err = sl_timer_new(client->base.loop, rec_on_timer, recovery,
                       &recovery->timer);
    if (err) {
        recovery_close(recovery);
        return err;
    }
    rec_rest(recovery);
    *ret = recovery;
    return 0;
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
    const char *operation = "PutItem";
    int err;

    client->puts = puts;
    sl_buf_clear(&call->body);
    err = puts ? put_secret(client)
               : sl_row_put(&call->body, client->options->where.table, &row,
                            SL_ROW_GET, &operation);
    if (!err)
        err = sl_dynamo_call_send(call, operation, PATIENCE);
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
        recovery_go(client->recovery);
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

    TAILQ_INIT(&client->repeats);
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
        err = recovery_open(client, &client->recovery);
    return err;
}

static void client_stop(struct sl_remote_client *base)
{
    struct sl_remote_op *op;

    sl_dynamo_repeats_stop(of(base));
    while ((op = TAILQ_FIRST(&base->in_flight)) != NULL)
        sl_dynamo_op_abandon((struct sl_dynamo_op *)op);
}

static void client_close(struct sl_remote_client *base)
{
    struct sl_dynamo_client *client = of(base);

    recovery_close(client->recovery);
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
    .leases_shrink = true,
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
    .repeat = sl_dynamo_repeat,
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
