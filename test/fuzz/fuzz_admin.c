/* fuzz_admin.c -- what operators and their scripts may write behind the paths
 * of the admin listener.
 *
 * The first byte chooses: the query of /v1/top, what follows /v1/keys/ (to look
 * or to reset), or a text to be decoded.
 *
 *   (1) Everything has an answer of a status that is documented, and its body
 *       is JSON on one line.
 *   (2) Looking spends nothing: the same question has the same answer.
 *   (3) Each byte encoded as %XX is decoded to itself, but for NUL.
 *   (4) All memory is given back, in the size in which it was taken.
 */
#include "engine.h"

#include <jansson.h>

#include "server/http/http_int.h"

static const char policy_text[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity: { anonymous: [ip, header.user-agent] }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: { free: 2/min, pro: "
    "none } }\n"
    "  month: { kind: quota, per: [org, user], rate: 3/month, candidate: "
    "1/month }\n"
    "  ip: { kind: sliding-window, per: ip, rate: 4/min }\n"
    "  all: { kind: concurrency, per: [], rate: 4 }\n"
    "  off: { kind: fixed-window, per: user, rate: 4/min, mode: off }\n"
    "default: [ip]\n";

enum { TOP, LOOK, RESET, DECODE, PLACES };

static struct sl_engine *engine;
static struct sl_top_keys *top;

static void open_engine(void)
{
    struct sl_hash_key secret = {1, 2};

    engine = fuzz_engine(policy_text);
    MUST(sl_top_keys_open(NULL, &secret, 0, &top) == 0);
}

static int on_top(void *ctx, const struct sl_top_keys_query *query,
                  struct sl_arena *arena, struct sl_top_keys_answer *ret)
{
    (void)ctx;
    return sl_top_keys_read(&top, 1, query, arena, ret);
}

static struct sl_admin admin = {.top = on_top};

/* ---- asking ---- */

static void check_answer(const struct sl_http_call *call)
{
    static const int known[] = {200, 400, 404, 405, 409};
    bool good = false;
    json_t *root;

    for (size_t i = 0; i < SL_LEN(known); i++)
        good = good || known[i] == call->status;
    MUST(good);
    root =
        json_loadb(call->body.at, call->body.len, JSON_REJECT_DUPLICATES, NULL);
    MUST(root != NULL); /* (1) */
    MUST(!memchr(call->body.at, '\n', call->body.len));
    json_decref(root);
}

/* Ask; the body is copied to `body`. */
static void ask(struct sl_server_worker *worker, int place, struct sl_str data,
                struct sl_buf *body)
{
    static struct sl_http1 request;
    struct sl_http_call *call = sl_http_call_new(worker);
    struct sl_buf target;

    MUST(call != NULL);
    memset(&request, 0, sizeof(request));
    sl_buf_init(&target, 1 << 20, &fuzz_alloc);
    MUST(sl_buf_addf(&target, "%s", place == TOP ? "/v1/top?" : "/v1/keys/") ==
         0);
    MUST(sl_buf_add(&target, data) == 0);
    request.method = place == RESET ? SL_STR("DELETE") : SL_STR("GET");
    request.target = sl_buf_str(&target);
    call->request = &request;
    call->peer_is_unix = true;
    MUST(sl_http_handle(call));
    check_answer(call);
    sl_buf_clear(body);
    MUST(sl_buf_add(body, call->body) == 0);
    sl_http_call_done(call);
    sl_buf_done(&target);
}

static void run(int place, struct sl_str data)
{
    struct sl_server door = {.protocol = &sl_protocol_http,
                             .paths = sl_admin_paths,
                             .path_count = sl_admin_path_count,
                             .name = "admin",
                             .ctx = &admin};
    struct sl_server_worker worker;
    struct sl_buf first, second;

    sl_server_worker_init(&worker, &door, engine, NULL, &fuzz_alloc);
    worker.still = SL_HOUR;
    sl_buf_init(&first, 1 << 20, &fuzz_alloc);
    sl_buf_init(&second, 1 << 20, &fuzz_alloc);
    ask(&worker, place, data, &first);
    ask(&worker, place, data, &second);
    MUST(sl_str_eq(sl_buf_str(&first), sl_buf_str(&second))); /* (2) */
    sl_buf_done(&first);
    sl_buf_done(&second);
    sl_server_worker_close(&worker);
}

/* ---- decoding ---- */

static void decode(struct sl_str data)
{
    struct sl_str back = {NULL, 0};
    struct sl_arena arena;
    struct sl_buf text;
    int err;

    sl_arena_init(&arena, 4 << 20, &fuzz_alloc);
    sl_buf_init(&text, 1 << 20, &fuzz_alloc);
    for (size_t i = 0; i < data.len; i++)
        MUST(sl_buf_addf(&text, "%%%02x", (unsigned char)data.at[i]) == 0);
    err = sl_admin_decode(&arena, sl_buf_str(&text), data.len % 2, &back);
    if (data.len > 0 && memchr(data.at, '\0', data.len))
        MUST(err == SLUICE_ECONF);
    else
        MUST(err == 0 && sl_str_eq(back, data)); /* (3) */
    err = sl_admin_decode(&arena, data, data.len % 2, &back);
    MUST(err == SLUICE_ECONF || (err == 0 && back.len <= data.len));
    sl_arena_done(&arena);
    sl_buf_done(&text);
}

void fuzz_admin(struct sl_str text, unsigned choice)
{
    if (!engine)
        open_engine();
    if (choice % PLACES == DECODE)
        decode(text);
    else
        run((int)(choice % PLACES), text);
}
