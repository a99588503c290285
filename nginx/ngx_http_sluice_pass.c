/* ngx_http_sluice_pass.c -- ask sluiced, over connections that are kept.
 *
 *   start --> an idle connection, or a new one --> send --> receive --> done
 *                 |                                  |
 *                 +--- it was closed meanwhile: once more, on a new one
 *
 * A call has memory of its own: the request of a client may end before it. What
 * such a call still gets held is released. Nothing here waits.
 */
#include "ngx_http_sluice.h"

#include "base/buf.h"

#define IDLE_FOR        30000             /* ms */
#define DEFAULT_TIMEOUT 500               /* ms */
#define LATE_FOR        5000              /* ms: a reply after the timeout */
#define FIRST_ROOM      ((size_t)8 << 10) /* for a reply */

struct ngx_http_sluice_call_s {
    ngx_http_sluice_pass_t *pass;
    ngx_pool_t *pool;
    ngx_http_sluice_done_pt done; /* NULL: the answer does not matter */
    void *data;
    ngx_http_sluice_done_pt late; /* for a reply after the timeout; or NULL */
    void *late_data;
    struct sl_buf out, in;
    size_t sent;
    ngx_connection_t *connection;
    ngx_event_t timeout;
    ngx_uint_t is_reused; /* the connection was idle */
    ngx_uint_t is_late;   /* the timeout has passed */
};

/* ---- connections ---- */

static void forget_idle(ngx_http_sluice_idle_t *idle)
{
    ngx_queue_remove(&idle->queue);
    ngx_queue_insert_head(&idle->pass->places, &idle->queue);
}

/* An idle connection is closed by sluiced, by time, or by the worker's exit. */
static void on_idle(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    ngx_http_sluice_idle_t *idle = c->data;
    char byte;

    if (!event->timedout && !c->close && recv(c->fd, &byte, 1, MSG_PEEK) < 0 &&
        ngx_socket_errno == NGX_EAGAIN) {
        event->ready = 0;
        if (ngx_handle_read_event(event, 0) == NGX_OK)
            return;
    }
    forget_idle(idle);
    ngx_close_connection(c);
}

static void on_idle_write(ngx_event_t *event)
{
    (void)event;
}

static void keep_connection(ngx_http_sluice_pass_t *pass, ngx_connection_t *c)
{
    ngx_http_sluice_idle_t *idle;

    if (ngx_queue_empty(&pass->places) || ngx_exiting || ngx_terminate ||
        ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_close_connection(c);
        return;
    }
    idle = ngx_queue_data(ngx_queue_head(&pass->places), ngx_http_sluice_idle_t,
                          queue);
    idle->connection = c;
    ngx_queue_remove(&idle->queue);
    ngx_queue_insert_head(&pass->idle, &idle->queue);
    c->data = idle;
    c->idle = 1;
    c->read->handler = on_idle;
    c->write->handler = on_idle_write;
    c->log = ngx_cycle->log;
    c->read->log = c->write->log = c->log;
    ngx_add_timer(c->read, IDLE_FOR);
    if (c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);
    }
}

static ngx_connection_t *take_idle(ngx_http_sluice_pass_t *pass)
{
    ngx_http_sluice_idle_t *idle;
    ngx_connection_t *c;

    if (ngx_queue_empty(&pass->idle))
        return NULL;
    idle = ngx_queue_data(ngx_queue_head(&pass->idle), ngx_http_sluice_idle_t,
                          queue);
    c = idle->connection;
    if (c->read->timer_set)
        ngx_del_timer(c->read);
    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }
    forget_idle(idle);
    c->idle = 0;
    return c;
}

static ngx_connection_t *make_connection(ngx_http_sluice_pass_t *pass)
{
    ngx_peer_connection_t peer = {.sockaddr = pass->address->sockaddr,
                                  .socklen = pass->address->socklen,
                                  .name = &pass->address->name,
                                  .get = ngx_event_get_peer,
                                  .log = ngx_cycle->log,
                                  .log_error = NGX_ERROR_ERR};
    ngx_int_t rc = ngx_event_connect_peer(&peer);

    if (rc == NGX_OK || rc == NGX_AGAIN)
        return peer.connection;
    if (peer.connection)
        ngx_close_connection(peer.connection);
    return NULL;
}

/* ---- calls ---- */

static void free_call(ngx_http_sluice_call_t *call)
{
    if (call->timeout.timer_set)
        ngx_del_timer(&call->timeout);
    if (call->connection)
        ngx_close_connection(call->connection);
    sl_buf_done(&call->out);
    sl_buf_done(&call->in);
    ngx_destroy_pool(call->pool);
}

/* The reply is there (`reply`), or never will be (NULL). */
static void finish(ngx_http_sluice_call_t *call,
                   const struct sl_pass_reply *reply)
{
    ngx_http_sluice_done_pt done = call->done;
    ngx_connection_t *c = call->connection;

    if (reply && reply->keep && reply->len == call->in.len) {
        call->connection = NULL;
        keep_connection(call->pass, c);
    }
    call->done = NULL;
    if (done)
        done(call->data, reply);
    free_call(call);
}

static void use_connection(ngx_http_sluice_call_t *call, ngx_connection_t *c,
                           ngx_uint_t is_reused);

/* The connection failed. An idle one may have been closed before sluiced read
 * anything of it: then a new one is used. */
static void fail(ngx_http_sluice_call_t *call)
{
    ngx_connection_t *c;

    if (call->connection) {
        ngx_close_connection(call->connection);
        call->connection = NULL;
    }
    if (call->is_reused && call->in.len == 0) {
        c = make_connection(call->pass);
        if (c) {
            use_connection(call, c, 0);
            return;
        }
    }
    finish(call, NULL);
}

/* The request goes on without a reply. One that comes a little later may hold
 * something, which `late` gives back. */
static void on_timeout(ngx_event_t *event)
{
    ngx_http_sluice_call_t *call = event->data;
    ngx_http_sluice_done_pt done = call->done;
    void *data = call->data;

    if (!call->is_late)
        ngx_log_error(NGX_LOG_ERR, event->log, 0,
                      "sluice: %V did not answer within %M ms",
                      &call->pass->address->name, call->pass->timeout);
    if (!call->late || call->is_late) {
        finish(call, NULL);
        return;
    }
    call->is_late = 1;
    call->is_reused = 0; /* it is not sent again */
    ngx_http_sluice_call_turn(call, call->late, call->late_data);
    ngx_add_timer(&call->timeout, LATE_FOR);
    if (done)
        done(data, NULL);
}

static void on_write(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    ngx_http_sluice_call_t *call = c->data;

    while (call->sent < call->out.len) {
        ssize_t n = c->send(c, (u_char *)call->out.bytes + call->sent,
                            call->out.len - call->sent);

        if (n == NGX_AGAIN)
            break;
        if (n <= 0) {
            fail(call);
            return;
        }
        call->sent += (size_t)n;
    }
    if (ngx_handle_write_event(event, 0) != NGX_OK)
        fail(call);
}

static void on_read(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    ngx_http_sluice_call_t *call = c->data;
    struct sl_pass_reply reply;
    enum sl_pass_state state = SL_PASS_MORE;

    while (state == SL_PASS_MORE) {
        ssize_t n;

        if (sl_buf_reserve(&call->in, FIRST_ROOM)) {
            state = SL_PASS_BAD;
            break;
        }
        n = c->recv(c, (u_char *)call->in.bytes + call->in.len, FIRST_ROOM);
        if (n == NGX_AGAIN) {
            if (ngx_handle_read_event(event, 0) != NGX_OK)
                fail(call);
            return;
        }
        if (n <= 0) {
            fail(call);
            return;
        }
        call->in.len += (size_t)n;
        state = sl_pass_read_reply(sl_buf_str(&call->in), &reply);
    }
    if (state == SL_PASS_BAD) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "sluice: %V answers in another way than sluiced does",
                      &call->pass->address->name);
        finish(call, NULL);
        return;
    }
    finish(call, &reply);
}

static void use_connection(ngx_http_sluice_call_t *call, ngx_connection_t *c,
                           ngx_uint_t is_reused)
{
    call->connection = c;
    call->is_reused = is_reused;
    call->sent = 0;
    c->data = call;
    c->read->handler = on_read;
    c->write->handler = on_write;
    on_write(c->write);
}

ngx_http_sluice_call_t *ngx_http_sluice_call_new(ngx_http_sluice_pass_t *pass)
{
    ngx_pool_t *pool = ngx_create_pool(512, ngx_cycle->log);
    ngx_http_sluice_call_t *call =
        pool ? ngx_pcalloc(pool, sizeof(*call)) : NULL;

    if (!call) {
        if (pool)
            ngx_destroy_pool(pool);
        return NULL;
    }
    call->pass = pass;
    call->pool = pool;
    sl_buf_init(&call->out, SL_PASS_REPLY, &sl_alloc_libc);
    sl_buf_init(&call->in, SL_PASS_REPLY + 2 * FIRST_ROOM, &sl_alloc_libc);
    call->timeout = (ngx_event_t){
        .handler = on_timeout, .data = call, .log = ngx_cycle->log};
    return call;
}

struct sl_buf *ngx_http_sluice_call_text(ngx_http_sluice_call_t *call)
{
    return &call->out;
}

void *ngx_http_sluice_call_alloc(ngx_http_sluice_call_t *call, size_t size)
{
    return ngx_palloc(call->pool, size);
}

void ngx_http_sluice_call_start(ngx_http_sluice_call_t *call,
                                ngx_http_sluice_done_pt done, void *data)
{
    ngx_connection_t *c = take_idle(call->pass);
    ngx_uint_t is_reused = c != NULL;

    call->done = done;
    call->data = data;
    ngx_add_timer(&call->timeout, call->pass->timeout);
    if (!c)
        c = make_connection(call->pass);
    if (c)
        use_connection(call, c, is_reused);
    else
        finish(call, NULL);
}

void ngx_http_sluice_call_drop(ngx_http_sluice_call_t *call)
{
    free_call(call);
}

void ngx_http_sluice_call_late(ngx_http_sluice_call_t *call,
                               ngx_http_sluice_done_pt late, void *data)
{
    call->late = late;
    call->late_data = data;
}

void ngx_http_sluice_call_turn(ngx_http_sluice_call_t *call,
                               ngx_http_sluice_done_pt done, void *data)
{
    call->done = done;
    call->data = data;
}

/* ---- sluice_pass ADDRESS [timeout=TIME] [fail=open|closed] [token=FILE]; ----
 */

#define TOKEN_MOST 256

static char *read_token(ngx_conf_t *cf, ngx_str_t path, ngx_str_t *ret)
{
    struct sl_diag diag = {.sentence = ""};
    struct sl_buf text;
    char *err = NGX_CONF_ERROR;

    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK)
        return err;
    sl_buf_init(&text, TOKEN_MOST, &sl_alloc_libc);
    if (sl_file_read((char *)path.data, TOKEN_MOST, &text, &diag)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "sluice_pass: %s",
                           diag.sentence);
    } else {
        while (text.len > 0 && text.bytes[text.len - 1] <= ' ')
            text.len--;
        ret->len = text.len;
        ret->data = ngx_pnalloc(cf->pool, text.len + 1);
        if (text.len == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "sluice_pass: there is no token in \"%V\"",
                               &path);
        } else if (ret->data) {
            ngx_memcpy(ret->data, text.bytes, text.len);
            err = NGX_CONF_OK;
        }
    }
    sl_buf_done(&text);
    return err;
}

static char *set_option(ngx_conf_t *cf, ngx_http_sluice_pass_t *pass,
                        const ngx_str_t *word)
{
    ngx_str_t value;

    if (ngx_strncmp(word->data, "timeout=", 8) == 0) {
        value.data = word->data + 8;
        value.len = word->len - 8;
        pass->timeout = (ngx_msec_t)ngx_parse_time(&value, 0);
        if (pass->timeout != (ngx_msec_t)NGX_ERROR && pass->timeout > 0)
            return NGX_CONF_OK;
    } else if (ngx_strcmp(word->data, "fail=open") == 0 ||
               ngx_strcmp(word->data, "fail=closed") == 0) {
        pass->is_closed = word->data[5] == 'c';
        return NGX_CONF_OK;
    } else if (ngx_strncmp(word->data, "token=", 6) == 0) {
        value.data = word->data + 6;
        value.len = word->len - 6;
        return read_token(cf, value, &pass->token);
    }
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\"; valid: timeout=TIME, "
                       "fail=open, fail=closed, token=FILE",
                       word);
    return NGX_CONF_ERROR;
}

char *ngx_http_sluice_set_pass(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_sluice_loc_conf_t *loc = conf;
    ngx_http_sluice_main_conf_t *main =
        ngx_http_conf_get_module_main_conf(cf, ngx_http_sluice_module);
    ngx_str_t *words = cf->args->elts;
    ngx_http_sluice_pass_t *pass = ngx_pcalloc(cf->pool, sizeof(*pass));
    ngx_http_sluice_pass_t **place = ngx_array_push(&main->passes);
    ngx_url_t url = {.url = words[1], .default_port = 8080};

    (void)cmd;
    if (loc->pass != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    if (!pass || !place)
        return NGX_CONF_ERROR;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK || url.naddrs == 0) {
        ngx_conf_log_error(
            NGX_LOG_EMERG, cf, 0, "\"%V\" must be unix:/path or host:port%s%s",
            &words[1], url.err ? ": " : "", url.err ? url.err : "");
        return NGX_CONF_ERROR;
    }
    pass->address = &url.addrs[0];
    pass->timeout = DEFAULT_TIMEOUT;
    ngx_queue_init(&pass->idle);
    ngx_queue_init(&pass->places);
    for (ngx_uint_t i = 0; i < SLUICE_IDLE; i++) {
        pass->all[i].pass = pass;
        ngx_queue_insert_tail(&pass->places, &pass->all[i].queue);
    }
    loc->pass = *place = pass;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++)
        if (set_option(cf, pass, &words[i]) != NGX_CONF_OK)
            return NGX_CONF_ERROR;
    return NGX_CONF_OK;
}
