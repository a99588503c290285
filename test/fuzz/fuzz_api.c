/* fuzz_api.c -- what clients and proxies may send to the HTTP server.
 *
 * The first byte chooses where it goes: a body to /v1/check or /v1/explain; or
 * a query and lines of fields to /v1/auth or /v1/deny, in each family of
 * headers, from a trusted peer or another, with a token or without.
 *
 *   (1) Everything has an answer, and its status is one of those documented.
 *   (2) A body is JSON on one line, without a name twice.
 *   (3) A body that is decided is JSON for jansson too.
 *   (4) Written out, the answer has as many lines as it has fields: nothing
 *       that was sent has become a line of its own.
 *   (5) A peer that is not trusted cannot ask for another request.
 *   (6) Without the token there is 401 and nothing else.
 *   (7) All memory is given back, in the size in which it was taken.
 */
#include "engine.h"

#include <jansson.h>

#include "server/http/http.h"

static const char policy_text[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity: { user: [header.x-user-id], org: [header.x-org] }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: { free: 2/min, pro: "
    "none } }\n"
    "  month: { kind: quota, per: [org, user], rate: 3/month, deny: { status: "
    "402, message: \"{id} has {limit}\" } }\n"
    "  ip: { kind: sliding-window, per: ip, rate: 4/min }\n"
    "routes:\n"
    "  - { match: /a/**, limits: [minute, month] }\n"
    "  - { match: POST /b, limits: [ip], anonymous: deny }\n"
    "  - { job: j, limits: [month] }\n"
    "default: [ip]\n"
    "headers: [x-ratelimit, ietf, github, openai, kong]\n";

enum { CHECK, EXPLAIN, AUTH, AUTH_BELOW, DENY, PLACES };

static struct sl_engine *engine;

/* ---- the request ---- */

static void add(struct sl_buf *out, struct sl_str text)
{
    MUST(sl_buf_add(out, text) == 0);
}

/* Lines end in CR LF. */
static void add_lines(struct sl_buf *out, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\n')
            add(out, SL_STR("\r\n"));
        else
            add(out, (struct sl_str){text.at + i, 1});
    }
}

static void write_request(struct sl_buf *out, int place, struct sl_str data)
{
    static const char *const lines[] = {
        [CHECK] = "POST /v1/check", [EXPLAIN] = "POST /v1/explain",
        [AUTH] = "GET /v1/auth?",   [AUTH_BELOW] = "POST /v1/auth/",
        [DENY] = "GET /v1/deny?",
    };
    const char *end = data.len ? memchr(data.at, '\n', data.len) : NULL;
    size_t first = end ? (size_t)(end - data.at) : data.len;

    add(out, sl_str_c(lines[place]));
    if (place == CHECK || place == EXPLAIN) {
        MUST(sl_buf_addf(
                 out,
                 " HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                 data.len) == 0);
        add(out, data);
        return;
    }
    add(out, (struct sl_str){data.at, first});
    add(out, SL_STR(" HTTP/1.1\r\nHost: localhost\r\n"));
    add_lines(out, sl_str_from(data, first + 1));
    add(out, SL_STR("\r\n\r\n"));
}

/* ---- the answer ---- */

static void check_status(int status)
{
    static const int known[] = {200, 400, 401, 402, 403,
                                404, 405, 413, 429, 503};

    for (size_t i = 0; i < SL_LEN(known); i++)
        if (known[i] == status)
            return;
    MUST(status >= 400 && status < 600); /* (1): /v1/deny has them all */
}

static void check_body(const struct sl_http_call *call)
{
    json_t *root;

    if (call->body.len == 0)
        return;
    root =
        json_loadb(call->body.at, call->body.len, JSON_REJECT_DUPLICATES, NULL);
    MUST(root != NULL); /* (2) */
    MUST(!memchr(call->body.at, '\n', call->body.len));
    json_decref(root);
}

static void check_lines(const struct sl_http_call *call)
{
    struct sl_http1_answer answer = {
        .status = call->status,
        .fields = call->fields,
        .field_count = call->field_count,
        .content_type = call->content_type,
        .body = call->body,
        .keep_alive = true,
        .minor = 1,
        .head = true,
    };
    unsigned lines = 0;
    struct sl_buf out;

    sl_buf_init(&out, 1 << 20, &fuzz_alloc);
    MUST(sl_http1_write(&out, &answer) == 0);
    for (size_t i = 0; i < out.len; i++)
        lines += out.bytes[i] == '\n';
    /* (4): the first, Content-Type, Content-Length, the empty one */
    MUST(lines == call->field_count + 3 + (call->content_type.len > 0));
    sl_buf_done(&out);
}

static void check_answer(const struct sl_http_call *call, int place)
{
    const struct sl_server *door = call->worker->server;
    json_t *root;

    check_status(call->status);
    check_body(call);
    check_lines(call);
    if (door->token.len > 0)
        MUST(call->status == 401); /* (6) */
    else if ((place == AUTH && !call->trusted) ||
             (place == DENY && !call->trusted))
        MUST(door->forward == SL_FORWARD_PATH || call->status == 403 ||
             call->status == 404); /* (5) */
    if ((place == CHECK || place == EXPLAIN) && call->status == 200) {
        root = json_loadb(call->request->body.at, call->request->body.len,
                          JSON_REJECT_DUPLICATES, NULL);
        MUST(root != NULL); /* (3) */
        json_decref(root);
    }
}

static void run(struct sl_server_worker *worker, struct sl_buf *in, int place,
                bool untrusted)
{
    static struct sl_http1 parser;
    struct sl_http1_limits limits = {8 << 10, 16 << 10, 1 << 20};
    struct sl_http_call *call;

    sl_http1_begin(&parser, &limits);
    if (sl_http1_read(&parser, in) != SL_HTTP1_DONE)
        return;
    if (place != CHECK && place != EXPLAIN && parser.body.len > 0)
        return;
    call = sl_http_call_new(worker);
    MUST(call != NULL);
    call->request = &parser;
    call->has_peer = sl_ip_parse(
        untrusted ? SL_STR("198.51.100.1") : SL_STR("127.0.0.1"), &call->peer);
    MUST(sl_http_handle(call));
    check_answer(call, place);
    sl_http_call_done(call);
}

void fuzz_api(struct sl_str text, unsigned choice)
{
    struct sl_server door = {.protocol = &sl_protocol_http,
                             .paths = sl_api_paths,
                             .path_count = sl_api_path_count,
                             .name = "http"};
    struct sl_server_worker worker;
    struct sl_buf in;
    int place;

    if (!engine)
        engine = fuzz_engine(policy_text);
    place = choice % PLACES;
    door.forward = (enum sl_forward)(choice / PLACES % 3);
    if (choice >= 0xf0)
        door.token = SL_STR("a token that no input will ever have in it");
    sl_server_worker_init(&worker, &door, engine, NULL, &fuzz_alloc);
    worker.still = (sl_ns)((text.len + 1) % 7) * SL_HOUR;
    sl_buf_init(&in, 1 << 20, &fuzz_alloc);
    write_request(&in, place, text);
    run(&worker, &in, place, choice & 0x20);
    sl_buf_done(&in);
    sl_server_worker_close(&worker);
}
