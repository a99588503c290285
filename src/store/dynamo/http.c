/* http.c -- requests to one endpoint, signed, on one loop. */
#include <stdio.h>
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define BODY_MOST ((size_t)256 << 10)
#define HEAD_MOST ((size_t)16 << 10)
/* A page of a query has up to 1 MiB of items; a byte may be six in JSON. */
#define REPLY_MOST ((size_t)8 << 20)

struct sl_dynamo_http {
    struct sl_dynamo_http_options options;
    struct sl_http_fetcher *fetcher;
    struct sl_aws_credentials *chain;
    struct sl_skew skew;
};

static sl_ns wall(const struct sl_dynamo_http *client)
{
    return sl_loop_now(client->options.loop);
}

/* Our time, corrected, in the range that can be signed. */
static sl_ns signing_time(const struct sl_dynamo_http *client)
{
    sl_ns at = wall(client) + sl_skew_of(&client->skew);

    return at < 0 ? 0 : at < SL_TIME_END ? at : SL_TIME_END - 1;
}

/* ---- headers ---- */

static int put_headers(struct sl_dynamo_call *call, const char *target,
                       const char *date, sl_ns now,
                       const struct sl_aws_keys *keys)
{
    const struct sl_dynamo_url *where = call->client->options.where;
    struct sl_sigv4_header headers[] = {
        {SL_STR("content-type"),         SL_STR("application/x-amz-json-1.0")},
        {SL_STR("host"),                 where->host                         },
        {SL_STR("x-amz-date"),           sl_str_c(date)                      },
        {SL_STR("x-amz-target"),         sl_str_c(target)                    },
        {SL_STR("x-amz-security-token"), keys->token                         },
    };
    struct sl_sigv4 what = {
        .keys = keys,
        .region = where->region,
        .service = SL_STR("dynamodb"),
        .method = SL_STR("POST"),
        .path = SL_STR("/"),
        .body = sl_buf_str(&call->body),
        .headers = headers,
        .header_count = SL_LEN(headers) - (keys->token.len == 0),
        .now = now,
    };
    struct sl_writer w = {&call->head, 0};

    sl_writer_add(&w, SL_STR("Authorization: "));
    if (!w.err)
        w.err = sl_sigv4_sign(&what, &call->head);
    sl_writer_addf(&w,
                   "%cContent-Type: application/x-amz-json-1.0%c"
                   "Host: %.*s%cX-Amz-Date: %s%cX-Amz-Target: %s%c",
                   '\0', '\0', SL_STR_ARG(where->host), '\0', date, '\0',
                   target, '\0');
    if (keys->token.len > 0)
        sl_writer_addf(&w, "X-Amz-Security-Token: %.*s%c",
                       SL_STR_ARG(keys->token), '\0');
    return w.err;
}

/* Writes the headers, each with its NUL, and then pointers to them. */
static int put_head(struct sl_dynamo_call *call, const char *operation,
                    sl_ns now, const struct sl_aws_keys *keys)
{
    char target[64], date[SL_SIGV4_DATE];
    unsigned count = 0;
    int err;

    snprintf(target, sizeof(target), "DynamoDB_20120810.%s", operation);
    sl_sigv4_date(now, date);
    sl_buf_clear(&call->head);
    err = put_headers(call, target, date, now, keys);
    for (size_t at = 0; !err && at < call->head.len;
         at += strlen(call->head.bytes + at) + 1)
        call->headers[count++] = call->head.bytes + at;
    call->headers[count] = NULL;
    return err;
}

/* ---- calls ---- */

static void on_fetched(struct sl_http_fetch *fetch)
{
    struct sl_dynamo_call *call = fetch->ctx;
    struct sl_dynamo_http *client = call->client;
    sl_ns date;

    call->status = fetch->result == SL_HTTP_FETCH_GOOD ||
                           fetch->result == SL_HTTP_FETCH_STATUS
                       ? fetch->status
                       : 0;
    call->unsent = call->status == 0 && !fetch->sent;
    call->reply = sl_buf_str(&fetch->body);
    if (call->status > 0 && !sl_date_read(sl_str_c(fetch->date), &date))
        sl_skew_note(&client->skew, date, call->sent_at, wall(client));
    call->done(call);
}

void sl_dynamo_call_init(struct sl_dynamo_call *call,
                         struct sl_dynamo_http *client)
{
    memset(call, 0, sizeof(*call));
    call->client = client;
    sl_buf_init(&call->body, BODY_MOST, client->options.alloc);
    sl_buf_init(&call->head, HEAD_MOST, client->options.alloc);
}

void sl_dynamo_call_done(struct sl_dynamo_call *call)
{
    if (!call->client)
        return;
    sl_http_fetch_forget(call->client->fetcher, &call->fetch);
    sl_buf_done(&call->body);
    sl_buf_done(&call->head);
}

int sl_dynamo_call_send(struct sl_dynamo_call *call, const char *operation,
                        sl_ns timeout)
{
    struct sl_dynamo_http *client = call->client;
    sl_ns now = signing_time(client); /* of the date and of its signature */
    const struct sl_aws_keys *keys =
        sl_aws_credentials_keys(client->chain, now);
    int err = keys ? put_head(call, operation, now, keys) : SLUICE_ESTORE;

    if (err)
        return err;
    call->sent_at = wall(client);
    call->fetch.url = client->options.where->endpoint;
    call->fetch.headers = call->headers;
    call->fetch.send = sl_buf_str(&call->body);
    call->fetch.once = true;
    call->fetch.most = REPLY_MOST;
    call->fetch.timeout = timeout;
    call->fetch.done = on_fetched;
    call->fetch.ctx = call;
    return sl_http_fetch_begin(client->fetcher, &call->fetch);
}

void sl_dynamo_call_cancel(struct sl_dynamo_call *call)
{
    sl_http_fetch_forget(call->client->fetcher, &call->fetch);
}

bool sl_dynamo_call_is_open(const struct sl_dynamo_call *call)
{
    return call->fetch.easy != NULL;
}

/* ---- the client ---- */

void sl_dynamo_http_doubt(struct sl_dynamo_http *client)
{
    sl_aws_credentials_refresh(client->chain);
}

sl_ns sl_dynamo_http_skew(const struct sl_dynamo_http *client)
{
    return sl_skew_of(&client->skew);
}

int sl_dynamo_http_open(const struct sl_dynamo_http_options *options,
                        struct sl_dynamo_http **ret)
{
    struct sl_dynamo_http *client =
        sl_alloc_new(options->alloc, sizeof(*client));
    struct sl_aws_credentials_options keys = {
        .env = options->env,
        .loop = options->loop,
        .alloc = options->alloc,
        .on_change = options->on_keys,
        .ctx = options->ctx,
    };
    struct sl_diag why;
    int err;

    if (!client)
        return SLUICE_ENOMEM;
    memset(client, 0, sizeof(*client));
    client->options = *options;
    err = sl_http_fetcher_open(options->loop, options->alloc, &client->fetcher,
                               &why);
    keys.fetcher = client->fetcher;
    if (!err)
        err = sl_aws_credentials_open(&keys, &client->chain);
    if (err) {
        sl_dynamo_http_close(client);
        return err;
    }
    *ret = client;
    return 0;
}

void sl_dynamo_http_close(struct sl_dynamo_http *client)
{
    if (!client)
        return;
    sl_aws_credentials_close(client->chain);
    sl_http_fetcher_close(client->fetcher);
    sl_alloc_free(client->options.alloc, client, sizeof(*client));
}
