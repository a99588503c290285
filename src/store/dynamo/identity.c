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
    struct sl_dynamo_client *seat;
    struct sl_timer *timer;
    bool puts;
    sl_ns again;
};

static const struct sl_row secret_row = {
    .name = {"sluice:secret", 13},
    .sort = "SLUICE",
};

static void ask(struct sl_dynamo_identity *hello);

static void ask_later(struct sl_dynamo_identity *hello)
{
    sl_timer_start(hello->timer,
                   sl_jitter_span(&hello->seat->dice, hello->again));
    hello->again = hello->again < CALM / 2 ? 2 * hello->again : CALM;
}

/* ---- answers ---- */

static void on_secret(struct sl_dynamo_identity *hello, const char *text)
{
    struct sl_dynamo_client *seat = hello->seat;
    bool changed = false;

    if (!sl_store_identity_see_secret(seat->shared, sl_str_c(text), &changed)) {
        sl_dynamo_client_trouble(
            seat, SL_REFUSED,
            "the row sluice:secret was not written by Sluice");
        ask_later(hello);
        return;
    }
    atomic_store(&seat->counts.ready, true);
    hello->again = AGAIN;
    if (seat->healer)
        sl_recovery_go(seat->healer);
}

static void on_got(struct sl_dynamo_identity *hello)
{
    struct sl_dynamo_call *call = &hello->call;
    char secret[SL_STORE_IDENTITY + 2], steps[8], why[SL_REPLY_WHY] = "";
    struct sl_dynamo_text texts[] = {
        {"secret", secret, sizeof(secret), false},
        {"steps",  steps,  sizeof(steps),  false},
    };
    bool there = false;
    enum sl_dynamo_status answered =
        call->status == 0 ? SL_UNSENT
                          : sl_dynamo_texts(call->status, call->reply, texts,
                                            SL_LEN(texts), &there, why);

    sl_dynamo_client_heard(hello->seat, call->status > 0,
                           call->status > 0 ? why : call->fetch.why);
    if (answered == SL_DYNAMO_ANSWERED && there) {
        if (strcmp(steps, "yes") == 0)
            atomic_store(hello->seat->in_notes, true);
        on_secret(hello, secret);
    } else if (answered == SL_DYNAMO_ANSWERED) {
        hello->puts = true;
        ask(hello);
    } else {
        sl_dynamo_client_trouble(hello->seat, answered,
                                 why[0] ? why : call->fetch.why);
        if (answered == SL_FORBIDDEN)
            sl_dynamo_http_doubt(hello->seat->client);
        ask_later(hello);
    }
}

static void on_done(struct sl_dynamo_call *call)
{
    struct sl_dynamo_identity *hello = (struct sl_dynamo_identity *)call;

    if (!hello->puts) {
        on_got(hello);
        return;
    }
    hello->puts = false;
    if (call->status == 200)
        ask(hello); /* whoever was first */
    else
        ask_later(hello);
}

/* ---- questions ---- */

static int put_secret(struct sl_dynamo_identity *hello)
{
    struct sl_dynamo_client *seat = hello->seat;
    struct sl_str table = seat->options.where.table;
    char secret[SL_STORE_IDENTITY + 1];
    int err;

    sl_store_identity_secret(seat->shared, secret);
    err = sl_buf_addf(&hello->call.body,
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

static void ask(struct sl_dynamo_identity *hello)
{
    struct sl_dynamo_client *seat = hello->seat;
    int err;

    sl_buf_clear(&hello->call.body);
    err = hello->puts ? put_secret(hello)
                      : sl_row_put_get(&hello->call.body,
                                       seat->options.where.table, &secret_row);
    if (!err)
        err = sl_dynamo_call_send(
            &hello->call, hello->puts ? "PutItem" : "GetItem", PATIENCE);
    if (!err)
        return;
    hello->puts = false;
    ask_later(hello);
}

static void on_timer(void *ctx)
{
    struct sl_dynamo_identity *hello = ctx;

    if (!sl_dynamo_call_is_open(&hello->call))
        ask(hello);
}

/* ---- life ---- */

void sl_dynamo_identity_go(struct sl_dynamo_identity *hello)
{
    sl_timer_start(hello->timer, 0);
}

int sl_dynamo_identity_open(struct sl_dynamo_client *seat,
                            struct sl_dynamo_identity **ret)
{
    struct sl_dynamo_identity *hello =
        sl_alloc_new(seat->options.alloc, sizeof(*hello));
    int err;

    if (!hello)
        return SLUICE_ENOMEM;
    memset(hello, 0, sizeof(*hello));
    hello->seat = seat;
    hello->again = AGAIN;
    sl_dynamo_call_init(&hello->call, seat->client);
    hello->call.done = on_done;
    err = sl_timer_new(seat->loop, on_timer, hello, &hello->timer);
    if (err) {
        sl_dynamo_identity_close(hello);
        return err;
    }
    *ret = hello;
    return 0;
}

void sl_dynamo_identity_close(struct sl_dynamo_identity *hello)
{
    if (!hello)
        return;
    sl_dynamo_call_done(&hello->call);
    sl_timer_free(hello->timer);
    sl_alloc_free(hello->seat->options.alloc, hello, sizeof(*hello));
}
