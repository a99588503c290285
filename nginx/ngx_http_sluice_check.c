/* ngx_http_sluice_check.c -- one request: decide, delay, refuse, end its hold.
 *
 * A main request is decided once, in the PREACCESS phase of the first location
 * that has `sluice on`; internal redirects keep the decision. Subrequests are
 * not decided. What the decision holds is ended in the log phase, when the
 * response has been sent, or with the memory of the request. A request that
 * outlives its hold extends it. A worker that is killed extends none: what its
 * requests held is free again when it expires.
 */
#include "ngx_http_sluice.h"

/* How long what is settled later is held at once. It is extended. */
#define SETTLE_LIFE (60 * SL_S)

/* How often a worker logs that the state is full. */
#define FULL_SECONDS 60

static struct sl_str text_of(const ngx_str_t *text)
{
    return (struct sl_str){(const char *)text->data, text->len};
}

/* ---- contexts ---- */

/* Ends a hold of sluiced with what it took. */
static void release(ngx_http_sluice_pass_t *pass, struct sl_str hold)
{
    ngx_http_sluice_call_t *call = ngx_http_sluice_call_new(pass);

    if (call && sl_pass_write_settle(hold, NULL, text_of(&pass->token),
                                     ngx_http_sluice_call_text(call)) == 0)
        ngx_http_sluice_call_start(call, NULL, NULL);
    else if (call)
        ngx_http_sluice_call_drop(call);
}

/* A verdict without a request: what it holds is given back. */
static void on_orphan(void *data, const struct sl_pass_reply *reply)
{
    struct sl_embed_answer answer;
    struct sl_rendered rendered;
    struct sl_arena arena;

    if (!reply || reply->status != 200)
        return;
    sl_arena_init(&arena, SL_PASS_REPLY, &sl_alloc_libc);
    if (sl_pass_read_verdict(reply->body, &arena, &answer, &rendered) == 0 &&
        answer.hold.len > 0)
        release(data, answer.hold);
    sl_arena_done(&arena);
}

static void cleanup_ctx(void *data)
{
    ngx_http_sluice_ctx_t *ctx = data;

    if (ctx->call)
        ngx_http_sluice_call_turn(ctx->call, on_orphan, ctx->conf->pass);
    ngx_http_sluice_end(ctx, NULL);
}

ngx_http_sluice_ctx_t *ngx_http_sluice_ctx(ngx_http_request_t *r)
{
    ngx_http_sluice_ctx_t *ctx;

    r = r->main;
    ctx = ngx_http_get_module_ctx(r, ngx_http_sluice_module);
    if (ctx || (!r->internal && !r->filter_finalize))
        return ctx;
    /* An internal redirect has cleared the contexts. */
    for (ngx_pool_cleanup_t *c = r->pool->cleanup; c; c = c->next)
        if (c->handler == cleanup_ctx) {
            ngx_http_set_ctx(r, c->data, ngx_http_sluice_module);
            return c->data;
        }
    return NULL;
}

static ngx_http_sluice_ctx_t *new_ctx(ngx_http_request_t *r,
                                      ngx_http_sluice_loc_conf_t *conf)
{
    ngx_pool_cleanup_t *cleanup =
        ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_sluice_ctx_t));
    ngx_http_sluice_ctx_t *ctx;

    if (!cleanup)
        return NULL;
    ctx = cleanup->data;
    ngx_memzero(ctx, sizeof(*ctx));
    cleanup->handler = cleanup_ctx;
    ctx->request = r;
    ctx->conf = conf;
    ctx->retry_after = -1;
    ngx_http_set_ctx(r, ctx, ngx_http_sluice_module);
    return ctx;
}

/* ---- holds ---- */

/* A hold that sluiced is told to settle. */
typedef struct {
    ngx_http_sluice_pass_t *pass;
    size_t len;
    char hold[];
} settling_t;

/* sluiced refuses a cost of a limit that its policy does not have. */
static void on_settled(void *data, const struct sl_pass_reply *reply)
{
    settling_t *settling = data;

    if (!reply || reply->status < 400 || reply->status >= 500 ||
        reply->status == 404)
        return;
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "sluice: the actual cost is not counted: sluiced refuses it");
    release(settling->pass, (struct sl_str){settling->hold, settling->len});
}

/* Tells sluiced to extend a hold, or to settle it. */
static int tell(ngx_http_sluice_ctx_t *ctx, struct sl_str hold, int64_t life,
                const struct sl_embed_actual *actual, struct sl_diag *diag)
{
    ngx_http_sluice_pass_t *pass = ctx->conf->pass;
    ngx_http_sluice_call_t *call = ngx_http_sluice_call_new(pass);
    settling_t *settling = NULL;
    struct sl_buf *text;
    int err;

    if (call)
        settling =
            ngx_http_sluice_call_alloc(call, sizeof(*settling) + hold.len);
    if (!settling) {
        if (call)
            ngx_http_sluice_call_drop(call);
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    }
    settling->pass = pass;
    settling->len = hold.len;
    ngx_memcpy(settling->hold, hold.at, hold.len);
    text = ngx_http_sluice_call_text(call);
    err = life > 0
              ? sl_pass_write_extend(hold, life, text_of(&pass->token), text)
              : sl_pass_write_settle(hold, actual, text_of(&pass->token), text);
    if (err) {
        ngx_http_sluice_call_drop(call);
        return sl_diag_error(diag, err, "the call to sluiced is too long");
    }
    ngx_http_sluice_call_start(call, actual ? on_settled : NULL, settling);
    return 0;
}

static int end_hold(ngx_http_sluice_ctx_t *ctx, struct sl_str hold,
                    const struct sl_embed_actual *actual, struct sl_diag *diag)
{
    return ctx->embed ? sl_embed_end(ctx->embed, hold, actual, diag)
                      : tell(ctx, hold, 0, actual, diag);
}

/* If the actual cost is refused, the hold ends with the cost that it took. */
void ngx_http_sluice_end(ngx_http_sluice_ctx_t *ctx,
                         const struct sl_embed_actual *actual)
{
    const ngx_http_sluice_main_conf_t *main =
        ngx_http_get_module_main_conf(ctx->request, ngx_http_sluice_module);
    struct sl_str hold = text_of(&ctx->hold);
    struct sl_diag diag; /* of 400 bytes; most requests hold nothing */

    if (ctx->extend.timer_set)
        ngx_del_timer(&ctx->extend);
    if (ctx->hold.len == 0)
        return;
    diag.sentence[0] = '\0';
    ctx->hold.len = 0;
    ngx_queue_remove(&ctx->queue);
    if (!ctx->embed && main->is_closing)
        return; /* it expires */
    if (actual && end_hold(ctx, hold, actual, &diag) == 0)
        return;
    if (actual)
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                      "sluice: the actual cost is not counted: %s",
                      diag.sentence);
    if (end_hold(ctx, hold, NULL, &diag))
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                      "sluice: the hold of the request cannot be ended: %s",
                      diag.sentence);
}

static void extend_later(ngx_http_sluice_ctx_t *ctx)
{
    ngx_msec_t half = (ngx_msec_t)(ctx->hold_life / 2000000);

    ngx_add_timer(&ctx->extend, half > 0 ? half : 1);
}

static void on_extend(ngx_event_t *event)
{
    ngx_http_sluice_ctx_t *ctx = event->data;
    struct sl_str hold = text_of(&ctx->hold);
    struct sl_diag diag = {.sentence = ""};
    int err;

    err = ctx->embed ? sl_embed_extend(ctx->embed, hold, ctx->hold_life, &diag)
                     : tell(ctx, hold, ctx->hold_life, NULL, &diag);
    if (err == 0) {
        extend_later(ctx);
        return;
    }
    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                  "sluice: the hold of the request cannot be extended: %s",
                  diag.sentence);
}

static ngx_int_t keep_hold(ngx_http_sluice_ctx_t *ctx,
                           ngx_http_sluice_main_conf_t *main,
                           const struct sl_embed_answer *answer)
{
    ngx_http_request_t *r = ctx->request;

    ctx->hold.data = ngx_pnalloc(r->pool, answer->hold.len);
    if (!ctx->hold.data)
        return NGX_ERROR;
    ngx_memcpy(ctx->hold.data, answer->hold.at, answer->hold.len);
    ctx->hold.len = answer->hold.len;
    ctx->hold_life = answer->hold_for;
    ctx->extend = (ngx_event_t){.handler = on_extend,
                                .data = ctx,
                                .log = r->connection->log,
                                .cancelable = 1};
    ngx_queue_insert_tail(&main->held, &ctx->queue);
    extend_later(ctx);
    return NGX_OK;
}

/* ---- the request as Sluice sees it ---- */

#define COSTS 16

typedef struct {
    struct sl_request request;
    struct sl_peer peer;
    struct sl_cost costs[COSTS];
} question_t;

static void fill_peer(const ngx_connection_t *c, struct sl_peer *peer)
{
    static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    ngx_memzero(peer, sizeof(*peer));
    if (c->sockaddr->sa_family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)c->sockaddr;

        ngx_memcpy(peer->ip.bytes, v4, sizeof(v4));
        ngx_memcpy(peer->ip.bytes + 12, &in->sin_addr, 4);
        peer->has_ip = 1;
        peer->text = text_of(&c->addr_text); /* IPv6 has several forms */
    } else if (c->sockaddr->sa_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)c->sockaddr;

        ngx_memcpy(peer->ip.bytes, &in6->sin6_addr, 16);
        peer->has_ip = 1;
    } else {
        peer->is_unix = 1;
    }
}

static ngx_int_t fill_headers(ngx_http_request_t *r, struct sl_request *q)
{
    ngx_list_part_t *part = &r->headers_in.headers.part;
    struct sl_header *headers;
    ngx_uint_t room = 0, count = 0;

    for (ngx_list_part_t *p = part; p; p = p->next)
        room += p->nelts;
    headers = ngx_palloc(r->pool, (room + 1) * sizeof(*headers));
    if (!headers)
        return NGX_ERROR;
    for (; part; part = part->next) {
        ngx_table_elt_t *elts = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++) {
            if (elts[i].hash == 0)
                continue;
            headers[count].name = text_of(&elts[i].key);
            headers[count++].value = text_of(&elts[i].value);
        }
    }
    q->headers = headers;
    q->header_count = (unsigned)count;
    return NGX_OK;
}

static ngx_int_t fill_identity(ngx_http_request_t *r, const ngx_array_t *pairs,
                               struct sl_request *q)
{
    ngx_http_sluice_pair_t *all = pairs->elts;

    for (ngx_uint_t i = 0; i < pairs->nelts; i++) {
        ngx_str_t value;
        struct sl_str *into = &q->user;

        if (ngx_http_complex_value(r, &all[i].value, &value) != NGX_OK)
            return NGX_ERROR;
        switch (all[i].name.data[0]) {
        case 'o':
            into = &q->org;
            break;
        case 'p':
            into = &q->plan;
            break;
        case 'r':
            into = &q->role;
            break;
        case 'i':
            into = &q->ip;
            break;
        }
        *into = text_of(&value);
    }
    return NGX_OK;
}

/* A number that is too large for off_t is the largest one: were it ignored, a
 * larger cost would take less. NGX_ERROR if it is not a whole number. */
static off_t cost_of(const ngx_str_t *text)
{
    off_t number = ngx_atoof(text->data, text->len);

    for (size_t i = 0; number == NGX_ERROR && i < text->len; i++)
        if (text->data[i] < '0' || text->data[i] > '9')
            return NGX_ERROR;
    return number == NGX_ERROR ? NGX_MAX_OFF_T_VALUE : number;
}

/* Reads costs. An empty value is none; one that is not a number is logged and
 * ignored. Returns how many are for one limit each. */
static ngx_int_t read_costs(ngx_http_request_t *r, const ngx_array_t *pairs,
                            struct sl_cost *costs, bool *has_cost,
                            uint64_t *cost)
{
    ngx_http_sluice_pair_t *all = pairs->elts;
    ngx_int_t count = 0;

    for (ngx_uint_t i = 0; i < pairs->nelts && count < COSTS; i++) {
        ngx_str_t value;
        off_t number;

        if (ngx_http_complex_value(r, &all[i].value, &value) != NGX_OK)
            return NGX_ERROR;
        if (value.len == 0)
            continue;
        number = cost_of(&value);
        if (number == NGX_ERROR) {
            ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                          "sluice: \"%V\" is not a cost, and is ignored; a "
                          "cost is a whole number",
                          &value);
            continue;
        }
        if (all[i].name.len == 0) {
            *has_cost = 1;
            *cost = (uint64_t)number;
        } else {
            costs[count].limit = text_of(&all[i].name);
            costs[count++].cost = (uint64_t)number;
        }
    }
    return count;
}

static ngx_int_t fill_question(ngx_http_request_t *r,
                               const ngx_http_sluice_loc_conf_t *conf,
                               question_t *q)
{
    ngx_int_t count = 0;

    ngx_memzero(&q->request, sizeof(q->request));
    q->request.method = text_of(&r->method_name);
    q->request.path = text_of(&r->unparsed_uri);
    fill_peer(r->connection, &q->peer);
    if (fill_headers(r, &q->request) != NGX_OK)
        return NGX_ERROR;
    if (conf->identity &&
        fill_identity(r, conf->identity, &q->request) != NGX_OK)
        return NGX_ERROR;
    if (conf->cost)
        count = read_costs(r, conf->cost, q->costs, &q->request.has_cost,
                           &q->request.cost);
    if (count < 0)
        return NGX_ERROR;
    q->request.costs = q->costs;
    q->request.cost_count = (unsigned)count;
    if (conf->settle)
        q->request.hold = SETTLE_LIFE;
    return NGX_OK;
}

/* ---- the answer ---- */

/* A copy in the memory of the request; *at is moved. Most texts of a request
 * that passes are empty. */
static ngx_str_t copy(u_char **at, struct sl_str text)
{
    ngx_str_t ret = {text.len, *at};

    if (text.len > 0)
        *at = ngx_cpymem(*at, text.at, text.len);
    return ret;
}

static ngx_str_t borrow(struct sl_str text)
{
    return (ngx_str_t){text.len, (u_char *)text.at};
}

/* Names that the worker has rendered itself are constants. */
static ngx_int_t copy_headers(ngx_http_sluice_ctx_t *ctx,
                              const struct sl_rendered *rendered, u_char **at)
{
    ngx_http_request_t *r = ctx->request;

    ctx->headers = ngx_pcalloc(r->pool, (rendered->header_count + 1) *
                                            sizeof(ngx_table_elt_t));
    if (!ctx->headers)
        return NGX_ERROR;
    for (unsigned i = 0; i < rendered->header_count; i++) {
        ngx_table_elt_t *h = &ctx->headers[i];

        h->key = ctx->embed ? borrow(rendered->headers[i].name)
                            : copy(at, rendered->headers[i].name);
        h->value = copy(at, rendered->headers[i].value);
        h->hash = 1;
    }
    ctx->header_count = rendered->header_count;
    return NGX_OK;
}

/* All texts of the answer live until the next decision of this worker. */
static ngx_int_t copy_answer(ngx_http_sluice_ctx_t *ctx,
                             const struct sl_embed_answer *answer)
{
    const struct sl_rendered *rendered = answer->rendered;
    size_t room = answer->by.len + answer->code.len + answer->plan.len +
                  answer->request_id.len + rendered->content_type.len +
                  rendered->body.len;
    u_char *at;

    for (unsigned i = 0; i < rendered->header_count; i++)
        room += rendered->headers[i].name.len + rendered->headers[i].value.len;
    at = ngx_pnalloc(ctx->request->pool, room + 1);
    if (!at || copy_headers(ctx, rendered, &at) != NGX_OK)
        return NGX_ERROR;
    ctx->by = copy(&at, answer->by);
    ctx->code = copy(&at, answer->code);
    ctx->plan = copy(&at, answer->plan);
    ctx->request_id = copy(&at, answer->request_id);
    ctx->content_type = copy(&at, rendered->content_type);
    ctx->body = copy(&at, rendered->body);
    ctx->http_status = (ngx_uint_t)rendered->status;
    ctx->has_numbers = answer->has_numbers;
    ctx->limit = answer->limit;
    ctx->remaining = answer->remaining;
    ctx->wait = (ngx_msec_t)sl_span_in(answer->wait, SL_MS);
    if (!answer->allowed && answer->retry_in >= 0)
        ctx->retry_after = (ngx_int_t)sl_retry_seconds(answer->retry_in);
    return NGX_OK;
}

static void set_status(ngx_http_sluice_ctx_t *ctx,
                       const struct sl_embed_answer *answer)
{
    ngx_uint_t dry = ctx->conf->mode == SLUICE_MODE_DRY_RUN;

    if (!answer->allowed)
        ctx->status = dry ? SLUICE_REJECTED_DRY_RUN : SLUICE_REJECTED;
    else if (answer->degraded)
        ctx->status = SLUICE_DEGRADED;
    else if (ctx->wait > 0)
        ctx->status = dry ? SLUICE_DELAYED_DRY_RUN : SLUICE_DELAYED;
    else
        ctx->status = SLUICE_PASSED;
}

/* A delay is logged one level below a refusal, as limit_req does. That nothing
 * has decided is logged already. */
static void log_answer(const ngx_http_sluice_ctx_t *ctx)
{
    const char *dry = ctx->conf->mode == SLUICE_MODE_DRY_RUN ? ", dry run" : "";
    ngx_log_t *log = ctx->request->connection->log;

    if (ctx->has_failed)
        return;
    if (ctx->status == SLUICE_REJECTED ||
        ctx->status == SLUICE_REJECTED_DRY_RUN)
        ngx_log_error(ctx->conf->log_level, log, 0,
                      "sluice: refused%s: %ui %V, limit \"%V\", request id %V",
                      dry, ctx->http_status, &ctx->code, &ctx->by,
                      &ctx->request_id);
    if (ctx->status == SLUICE_DELAYED || ctx->status == SLUICE_DELAYED_DRY_RUN)
        ngx_log_error(ctx->conf->log_level + 1, log, 0,
                      "sluice: delayed%s: %M ms, request id %V", dry, ctx->wait,
                      &ctx->request_id);
}

/* Requests pass uncounted then. nginx itself has no metrics, so the log says
 * it, each minute. */
static void log_full(const ngx_http_sluice_ctx_t *ctx,
                     ngx_http_sluice_main_conf_t *main, struct sl_str limit)
{
    ngx_str_t name = borrow(limit);

    if (main->full && ngx_time() - main->full < FULL_SECONDS)
        return;
    main->full = ngx_time();
    ngx_log_error(NGX_LOG_ALERT, ctx->request->connection->log, 0,
                  "sluice: the state is full: limit \"%V\" has no room for a "
                  "new key, and its on_full decides; give sluice_state a "
                  "larger size",
                  &name);
}

/* ---- what nginx does then ---- */

static ngx_int_t send_refusal(ngx_http_sluice_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_int_t rc = ngx_http_discard_request_body(r);
    ngx_chain_t out = {NULL, NULL};

    if (rc != NGX_OK)
        return rc;
    r->headers_out.status = ctx->http_status;
    r->headers_out.content_type = ctx->content_type;
    r->headers_out.content_type_len = ctx->content_type.len;
    r->headers_out.content_length_n = (off_t)ctx->body.len;
    if (ctx->body.len == 0)
        r->header_only = 1;
    out.buf = ngx_calloc_buf(r->pool);
    if (!out.buf)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    rc = ngx_http_send_header(r);
    if (rc == NGX_OK && !r->header_only) {
        out.buf->pos = ctx->body.data;
        out.buf->last = ctx->body.data + ctx->body.len;
        out.buf->memory = 1;
        out.buf->last_buf = 1;
        rc = ngx_http_output_filter(r, &out);
    }
    ngx_http_finalize_request(r, rc);
    return NGX_DONE;
}

static void on_delayed(ngx_http_request_t *r)
{
    ngx_event_t *event = r->connection->write;

    if (event->delayed) {
        if (ngx_handle_write_event(event, 0) != NGX_OK)
            ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }
    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }
    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}

/* While a request waits, a client that goes away is noticed. */
static ngx_int_t watch_client(ngx_http_request_t *r)
{
    ngx_event_t *event = r->connection->read;

    r->read_event_handler = ngx_http_test_reading;
    if (event->ready) {
        ngx_post_event(event, &ngx_posted_events);
        return NGX_OK;
    }
    return ngx_handle_read_event(event, 0);
}

static ngx_int_t delay(ngx_http_request_t *r, ngx_msec_t wait)
{
    if (watch_client(r) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    r->write_event_handler = on_delayed;
    r->connection->write->delayed = 1;
    ngx_add_timer(r->connection->write, wait);
    return NGX_AGAIN;
}

/* The decision is made: pass, delay or refuse. */
static ngx_int_t apply(ngx_http_sluice_ctx_t *ctx)
{
    log_answer(ctx);
    if (ctx->status == SLUICE_DELAYED)
        return delay(ctx->request, ctx->wait);
    if (ctx->status != SLUICE_REJECTED)
        return NGX_DECLINED;
    if (ctx->has_failed)
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    return ctx->conf->status ? (ngx_int_t)ctx->conf->status : send_refusal(ctx);
}

/* Keeps what the request needs of an answer. */
static ngx_int_t take_answer(ngx_http_sluice_ctx_t *ctx,
                             const struct sl_embed_answer *answer)
{
    ngx_http_sluice_main_conf_t *main =
        ngx_http_get_module_main_conf(ctx->request, ngx_http_sluice_module);

    ctx->is_decided = 1;
    if (answer->hold.len > 0 && keep_hold(ctx, main, answer) != NGX_OK)
        return NGX_ERROR;
    if (copy_answer(ctx, answer) != NGX_OK)
        return NGX_ERROR;
    set_status(ctx, answer);
    if (answer->full.len > 0)
        log_full(ctx, main, answer->full);
    return NGX_OK;
}

/* Nothing has decided. */
static ngx_int_t degrade(ngx_http_sluice_ctx_t *ctx, ngx_uint_t is_closed)
{
    ctx->is_decided = 1;
    ctx->has_failed = 1;
    ctx->status = is_closed && ctx->conf->mode == SLUICE_MODE_ON
                      ? SLUICE_REJECTED
                      : SLUICE_DEGRADED;
    ctx->http_status = NGX_HTTP_SERVICE_UNAVAILABLE;
    return NGX_OK;
}

/* ---- here ---- */

static ngx_int_t decide(ngx_http_sluice_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    struct sl_embed_answer answer;
    struct sl_diag diag;
    question_t q;

    diag.sentence[0] = '\0';
    ctx->embed = ctx->conf->policy->embed;
    if (!ctx->embed) /* logged at the start */
        return degrade(ctx, 0);
    if (fill_question(r, ctx->conf, &q) != NGX_OK)
        return NGX_ERROR;
    if (sl_embed_decide(ctx->embed, &q.request, &q.peer, &answer, &diag) == 0)
        return take_answer(ctx, &answer);
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "sluice: not decided, so it passes: %s", diag.sentence);
    return degrade(ctx, 0);
}

/* ---- by sluiced ---- */

static void resume(ngx_http_request_t *r)
{
    ngx_connection_t *c = r->connection;

    ngx_http_set_log_request(c->log, r);
    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}

static ngx_int_t read_verdict(ngx_http_sluice_ctx_t *ctx,
                              const struct sl_pass_reply *reply)
{
    struct sl_embed_answer answer;
    struct sl_rendered rendered;
    struct sl_arena arena;
    ngx_int_t rc;
    int err;

    sl_arena_init(&arena, SL_PASS_REPLY, &sl_alloc_libc);
    err = sl_pass_read_verdict(reply->body, &arena, &answer, &rendered);
    rc = err ? degrade(ctx, ctx->conf->pass->is_closed)
             : take_answer(ctx, &answer);
    sl_arena_done(&arena);
    if (err)
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0,
                      "sluice: the answer of sluiced is not a verdict");
    return rc;
}

static void on_verdict(void *data, const struct sl_pass_reply *reply)
{
    ngx_http_sluice_ctx_t *ctx = data;
    ngx_http_request_t *r = ctx->request;
    ngx_int_t rc;

    ctx->call = NULL;
    if (reply && reply->status == 200) {
        rc = read_verdict(ctx, reply);
    } else {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "sluice: sluiced does not decide, so the request %s%s",
                      ctx->conf->pass->is_closed ? "is refused" : "passes",
                      reply ? " (it refuses the check)" : "");
        rc = degrade(ctx, ctx->conf->pass->is_closed);
    }
    if (rc != NGX_OK)
        degrade(ctx, 1);
    if (!ctx->is_starting)
        resume(r);
}

/* A request that is too long for sluiced must not pass: its client could choose
 * that. It gets the answer that nginx itself gives for too many headers. */
static ngx_int_t ask(ngx_http_sluice_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_http_sluice_pass_t *pass = ctx->conf->pass;
    ngx_http_sluice_call_t *call = ngx_http_sluice_call_new(pass);
    ngx_int_t rc = NGX_ERROR;
    question_t q;
    int err;

    if (!call)
        return NGX_ERROR;
    if (fill_question(r, ctx->conf, &q) == NGX_OK) {
        if (q.request.ip.len == 0 && q.peer.has_ip)
            q.request.ip = text_of(&r->connection->addr_text);
        err = sl_pass_write_check(&q.request, text_of(&pass->token),
                                  ngx_http_sluice_call_text(call));
        if (err == 0) {
            ctx->call = call;
            ctx->is_starting = 1;
            ngx_http_sluice_call_late(call, on_orphan, pass);
            ngx_http_sluice_call_start(call, on_verdict, ctx);
            ctx->is_starting = 0;
            return NGX_OK;
        }
        if (err == SLUICE_EFULL) {
            ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                          "sluice: the request is refused: its path and "
                          "headers are too long to ask sluiced");
            rc = NGX_HTTP_REQUEST_HEADER_TOO_LARGE;
        }
    }
    ngx_http_sluice_call_drop(call);
    return rc;
}

/* ---- once per request ---- */

static ngx_int_t begin(ngx_http_request_t *r, ngx_http_sluice_loc_conf_t *conf)
{
    ngx_http_sluice_ctx_t *ctx = new_ctx(r, conf);
    ngx_int_t rc;

    if (!ctx)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    rc = conf->pass ? ask(ctx) : decide(ctx);
    if (rc == NGX_HTTP_REQUEST_HEADER_TOO_LARGE) {
        ctx->is_decided = ctx->is_applied = 1; /* also for error_page */
        return rc;
    }
    if (rc != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (ctx->is_decided) {
        ctx->is_applied = 1;
        return apply(ctx);
    }
    r->write_event_handler = ngx_http_request_empty_handler;
    return watch_client(r) == NGX_OK ? NGX_AGAIN
                                     : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

ngx_int_t ngx_http_sluice_handler(ngx_http_request_t *r)
{
    ngx_http_sluice_loc_conf_t *conf =
        ngx_http_get_module_loc_conf(r, ngx_http_sluice_module);
    ngx_http_sluice_ctx_t *ctx;

    if (r != r->main)
        return NGX_DECLINED;
    ctx = ngx_http_sluice_ctx(r);
    if (!ctx)
        return conf->mode == SLUICE_MODE_OFF ? NGX_DECLINED : begin(r, conf);
    if (!ctx->is_decided)
        return NGX_AGAIN;
    if (ctx->is_applied)
        return NGX_DECLINED;
    ctx->is_applied = 1;
    return apply(ctx);
}

/* ---- the end of the response ---- */

/* With `log_subrequest on` it is called for subrequests, too: the main request
 * goes on, and keeps its hold. */
ngx_int_t ngx_http_sluice_log_handler(ngx_http_request_t *r)
{
    ngx_http_sluice_ctx_t *ctx = r == r->main ? ngx_http_sluice_ctx(r) : NULL;
    struct sl_cost costs[COSTS];
    struct sl_embed_actual actual = {.costs = costs};
    ngx_int_t count = 0;

    if (!ctx || ctx->hold.len == 0)
        return NGX_OK;
    if (ctx->conf->settle)
        count = read_costs(r, ctx->conf->settle, costs, &actual.has_cost,
                           &actual.cost);
    actual.cost_count = count > 0 ? (unsigned)count : 0;
    ngx_http_sluice_end(ctx, &actual);
    return NGX_OK;
}
