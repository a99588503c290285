/* guest.h -- a client of the grpc server, in the thread of its loop: nghttp2 on
 * the other end of a pair of sockets. It says something, the loop turns, it
 * reads what is there. */
#ifndef SL_DOORS_GUEST_H
#define SL_DOORS_GUEST_H

#include <nghttp2/nghttp2.h>

#include "serve.h"
#include "server/grpc/grpc.h"
#include "wire/rls.h"

#define SHOULD "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
#define ASKS   128

/* What is known of one request. */
struct asked {
    int32_t id;
    char body[4096]; /* of the question */
    size_t len, sent;
    bool waits;      /* with the last byte, for ever */
    char got[65536]; /* of the answer */
    size_t got_len;
    int status; /* grpc-status; -1: none yet */
    char why[512];
    bool closed;
    uint32_t error;
};

struct guest {
    int fd;
    nghttp2_session *h2;
    bool gone; /* the door has closed */
    bool goaway;
    struct asked asks[ASKS];
    unsigned count;
};

static struct served s;
static struct sl_grpc_worker worker;

/* ---- what nghttp2 tells ---- */

static struct asked *asked_of(struct guest *g, int32_t id)
{
    for (unsigned i = 0; i < g->count; i++)
        if (g->asks[i].id == id)
            return &g->asks[i];
    return &g->asks[ASKS - 1];
}

static ssize_t guest_send(nghttp2_session *h2, const uint8_t *bytes, size_t len,
                          int flags, void *ctx)
{
    struct guest *g = ctx;
    ssize_t n = send(g->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)h2;
    (void)flags;
    if (n < 0)
        return errno == EAGAIN ? NGHTTP2_ERR_WOULDBLOCK
                               : NGHTTP2_ERR_CALLBACK_FAILURE;
    return n;
}

static int guest_header(nghttp2_session *h2, const nghttp2_frame *frame,
                        const uint8_t *name, size_t name_len,
                        const uint8_t *value, size_t value_len, uint8_t flags,
                        void *ctx)
{
    struct asked *a = asked_of(ctx, frame->hd.stream_id);
    struct sl_str n = {(const char *)name, name_len};

    (void)h2;
    (void)flags;
    if (sl_str_eq(n, SL_STR("grpc-status")))
        a->status = (int)strtol((const char *)value, NULL, 10);
    else if (sl_str_eq(n, SL_STR("grpc-message")))
        snprintf(a->why, sizeof(a->why), "%.*s", (int)value_len, value);
    return 0;
}

static int guest_data(nghttp2_session *h2, uint8_t flags, int32_t id,
                      const uint8_t *bytes, size_t len, void *ctx)
{
    struct asked *a = asked_of(ctx, id);

    (void)h2;
    (void)flags;
    if (a->got_len + len <= sizeof(a->got))
        memcpy(a->got + a->got_len, bytes, len);
    a->got_len += len;
    return 0;
}

static int guest_closed(nghttp2_session *h2, int32_t id, uint32_t error,
                        void *ctx)
{
    (void)h2;
    asked_of(ctx, id)->closed = true;
    asked_of(ctx, id)->error = error;
    return 0;
}

static int guest_frame(nghttp2_session *h2, const nghttp2_frame *frame,
                       void *ctx)
{
    struct guest *g = ctx;

    (void)h2;
    g->goaway |= frame->hd.type == NGHTTP2_GOAWAY;
    return 0;
}

/* ---- the guest ---- */

static struct guest *guest_new(void)
{
    struct guest *g = calloc(1, sizeof(*g));
    nghttp2_session_callbacks *calls;

    must(!g || nghttp2_session_callbacks_new(&calls), "client", NULL);
    nghttp2_session_callbacks_set_send_callback(calls, guest_send);
    nghttp2_session_callbacks_set_on_header_callback(calls, guest_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls,
                                                              guest_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, guest_closed);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, guest_frame);
    must(nghttp2_session_client_new(&g->h2, calls, g), "session", NULL);
    nghttp2_session_callbacks_del(calls);
    CHECK_EQ(nghttp2_submit_settings(g->h2, 0, NULL, 0), 0);
    g->fd = come(sl_server_accept, &worker, NULL);
    return g;
}

static void guest_free(struct guest *g)
{
    close(g->fd);
    nghttp2_session_del(g->h2);
    free(g);
}

/* Send and receive what can be. */
static void guest_turn(struct guest *g)
{
    uint8_t bytes[65536];
    ssize_t n;

    (void)nghttp2_session_send(g->h2);
    n = recv(g->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        g->gone = true;
    if (n > 0)
        (void)nghttp2_session_mem_recv(g->h2, bytes, (size_t)n);
    (void)nghttp2_session_send(g->h2);
}

static void both_turn(struct guest *g)
{
    guest_turn(g);
    tick(&s);
    guest_turn(g);
}

#define UNTIL(g, cond)                                                         \
    do {                                                                       \
        for (unsigned i_ = 0; !(cond) && i_ < 2000; i_++)                      \
            both_turn(g);                                                      \
        CHECK(cond);                                                           \
    } while (0)

static ssize_t guest_read(nghttp2_session *h2, int32_t id, uint8_t *to,
                          size_t most, uint32_t *flags,
                          nghttp2_data_source *from, void *ctx)
{
    struct asked *a = from->ptr;
    size_t len = a->len - a->sent < most ? a->len - a->sent : most;

    (void)h2;
    (void)id;
    (void)ctx;
    if (a->waits && len > 0 && a->sent + len == a->len)
        len--;
    if (a->waits && len == 0)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(to, a->body + a->sent, len);
    a->sent += len;
    if (a->sent == a->len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

#define FIELD(n, v)                                                            \
    {                                                                          \
        (uint8_t *)(n), (uint8_t *)(v), strlen(n), strlen(v), 0                \
    }

/* Ask; `timeout` NULL is none. */
static struct asked *guest_ask(struct guest *g, const char *path,
                               struct sl_str message, const char *timeout)
{
    struct asked *a = &g->asks[g->count++];
    nghttp2_nv fields[] = {
        FIELD(":method", "POST"),
        FIELD(":scheme", "http"),
        FIELD(":path", path),
        FIELD(":authority", "x"),
        FIELD("content-type", "application/grpc"),
        FIELD("te", "trailers"),
        FIELD("grpc-timeout", timeout ? timeout : ""),
    };
    nghttp2_data_provider from = {.source.ptr = a, .read_callback = guest_read};

    memset(a, 0, offsetof(struct asked, got));
    a->status = -1;
    a->got_len = 0;
    a->closed = false;
    a->why[0] = '\0';
    a->body[3] = (char)(message.len >> 8);
    a->body[4] = (char)message.len;
    memcpy(a->body + 5, message.at, message.len);
    a->len = 5 + message.len;
    a->id = nghttp2_submit_request(
        g->h2, NULL, fields, SL_LEN(fields) - (timeout ? 0 : 1), &from, NULL);
    CHECK(a->id > 0);
    return a;
}

/* A request of `count` descriptors, each of one user. */
static struct asked *guest_should(struct guest *g, const char *domain,
                                  const char *const *users, unsigned count,
                                  const char *timeout)
{
    static char bytes[2048];
    struct sl_pb_out out = {.bytes = bytes, .size = sizeof(bytes)};

    sl_pb_bytes(&out, 1, sl_str_c(domain));
    for (unsigned i = 0; i < count; i++) {
        size_t mark = sl_pb_open(&out, 2), inner = sl_pb_open(&out, 1);

        sl_pb_bytes(&out, 1, SL_STR("user"));
        sl_pb_bytes(&out, 2, sl_str_c(users[i]));
        sl_pb_close(&out, inner);
        sl_pb_close(&out, mark);
    }
    return guest_ask(g, SHOULD, (struct sl_str){bytes, out.len}, timeout);
}

/* The code of an answer, and what is left at its first descriptor. */
static void check_answer(const struct asked *a, int code, unsigned left)
{
    static struct sl_rls_response r;

    if (!CHECK_EQ(a->status, 0) || !CHECK(a->got_len > 5)) {
        printf("# %s\n", a->why);
        return;
    }
    CHECK_EQ(
        sl_rls_response_read((struct sl_str){a->got + 5, a->got_len - 5}, &r),
        0);
    CHECK_EQ(r.code, code);
    CHECK_EQ(r.statuses[0].remaining, left);
}

#endif
