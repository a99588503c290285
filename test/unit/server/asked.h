/* asked.h -- a door over a policy, asked in the text of HTTP, without a
 * socket.
 */
#ifndef SL_DOORS_ASKED_H
#define SL_DOORS_ASKED_H

#include "asking.h"
#include "server/http/http.h"

#define LOCAL "127.0.0.1"

struct asked {
    struct rig rig;
    struct sl_server door;
    struct sl_server_worker worker;
    struct sl_http1 parser;
    struct sl_http_call *call; /* the last one */
    struct sl_ip peer;
    bool has_peer, peer_is_unix, shows_cert;
    struct sl_buf in, text;
    struct sl_arena texts;
};

static inline void asked_from(struct asked *a, const char *ip)
{
    a->peer_is_unix = !ip;
    a->has_peer = ip && sl_ip_parse(sl_str_c(ip), &a->peer);
}

/* Over `store`, or over one in memory if it is NULL. */
static inline void asked_open_on(struct asked *a, const char *policy,
                                 struct sl_store *store)
{
    memset(a, 0, sizeof(*a));
    rig_open_on(&a->rig, policy, store);
    a->door.protocol = &sl_protocol_http;
    a->door.paths = sl_api_paths;
    a->door.path_count = sl_api_path_count;
    a->door.name = "http";
    sl_server_worker_init(&a->worker, &a->door, a->rig.engine, NULL, NULL);
    sl_buf_init(&a->in, 4 << 20, &sl_alloc_libc);
    sl_buf_init(&a->text, 4 << 20, &sl_alloc_libc);
    sl_arena_init(&a->texts, 64 << 20, &sl_alloc_libc);
    asked_from(a, LOCAL);
}

static inline void asked_open(struct asked *a, const char *policy)
{
    asked_open_on(a, policy, NULL);
}

static inline void asked_close(struct asked *a)
{
    sl_http_call_done(a->call);
    sl_server_worker_close(&a->worker);
    sl_buf_done(&a->in);
    sl_buf_done(&a->text);
    sl_arena_done(&a->texts);
    rig_close(&a->rig);
}

/* Begin again with another worker, that takes its memory from `alloc`. */
static inline void asked_forget(struct asked *a, const struct sl_alloc *alloc)
{
    sl_http_call_done(a->call);
    a->call = NULL;
    sl_server_worker_close(&a->worker);
    sl_server_worker_init(&a->worker, &a->door, a->rig.engine, NULL, alloc);
}

/* Read `text`, a whole request, and carry it out. Returns the status. */
static inline int asked_raw(struct asked *a, struct sl_str text)
{
    struct sl_http1_limits limits = {8 << 10, 16 << 10, 2 << 20};

    sl_buf_clear(&a->in);
    CHECK_EQ(sl_buf_add(&a->in, text), 0);
    sl_http1_begin(&a->parser, &limits);
    if (!CHECK_EQ(sl_http1_read(&a->parser, &a->in), SL_HTTP1_DONE))
        printf("# %s\n", a->parser.why ? a->parser.why : "not whole");
    sl_http_call_done(a->call);
    a->call = sl_http_call_new(&a->worker);
    if (!a->call) /* as the server does: it closes */
        return 0;
    a->call->request = &a->parser;
    a->call->peer = a->peer;
    a->call->has_peer = a->has_peer;
    a->call->peer_is_unix = a->peer_is_unix;
    a->call->shows_cert = a->shows_cert;
    CHECK(sl_http_handle(a->call));
    return a->call->status;
}

/* `line` is "GET /v1/deny"; `fields` are lines that end in \r\n. */
static inline int asked_send(struct asked *a, const char *line,
                             const char *fields, struct sl_str body)
{
    sl_buf_clear(&a->text);
    CHECK_EQ(sl_buf_addf(&a->text,
                         "%s HTTP/1.1\r\nHost: sluice\r\n%sContent-Length: "
                         "%zu\r\n\r\n",
                         line, fields, body.len),
             0);
    CHECK_EQ(sl_buf_add(&a->text, body), 0);
    return asked_raw(a, sl_buf_str(&a->text));
}

static inline int asked_get(struct asked *a, const char *line,
                            const char *fields)
{
    return asked_send(a, line, fields, (struct sl_str){"", 0});
}

static inline int asked_check(struct asked *a, const char *body)
{
    return asked_send(a, "POST /v1/check", "", sl_str_c(body));
}

/* ---- the answer ---- */

static inline const char *asked_text(struct asked *a, struct sl_str text)
{
    const char *copy = sl_arena_copy(&a->texts, text);

    return copy ? copy : "(no memory)";
}

static inline const char *asked_body(struct asked *a)
{
    return asked_text(a, a->call->body);
}

/* NULL if it is not there. */
static inline const char *asked_field(struct asked *a, const char *name)
{
    for (unsigned i = 0; i < a->call->field_count; i++)
        if (sl_str_eq_nocase(a->call->fields[i].name, sl_str_c(name)))
            return asked_text(a, a->call->fields[i].value);
    return NULL;
}

static inline bool asked_says(struct asked *a, const char *words)
{
    bool says = strstr(asked_body(a), words) != NULL;

    if (!says)
        printf("# %s\n", asked_body(a));
    return says;
}

#endif
