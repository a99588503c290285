/* serve.h -- the servers on a loop that is driven step by step, and clients
 * beside it.
 *
 * One thread runs the loop and the clients: a client writes, the loop turns,
 * the client reads what is there. Connections are pairs of sockets that are
 * passed to the servers as if a listener had accepted them. The engine's clock
 * and the loop's wall clock are virtual; deadlines of connections run on real
 * time.
 */
#ifndef SL_DOORS_SERVE_H
#define SL_DOORS_SERVE_H

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "asking.h"
#include "counted.h"
#include "net/listener.h"
#include "server/http/http.h"

#define LOCAL "127.0.0.1"

struct served {
    struct rig rig; /* the engine */
    struct sl_clock clock;
    struct sl_loop *loop;
    struct sl_timer *tick;
    struct counted counted; /* metrics */
    struct sl_server door;
    struct sl_server_worker worker;
    struct sl_buf got; /* what hear() has read, with a NUL behind it */
};

/* ---- the loop ---- */

static inline void must(int err, const char *what, const struct sl_diag *diag)
{
    if (!err)
        return;
    printf("Bail out! %s: %d %s\n", what, err, diag ? diag->sentence : "");
    exit(1);
}

static void serve_stop(void *ctx)
{
    sl_loop_stop(ctx);
}

/* One turn: what is ready now. */
static inline void turn(struct served *s)
{
    CHECK_EQ(sl_loop_post(s->loop, serve_stop, s->loop), 0);
    sl_loop_run(s->loop);
}

/* A millisecond or a few. */
static inline void tick(struct served *s)
{
    sl_timer_start(s->tick, SL_MS);
    sl_loop_run(s->loop);
}

static inline void step(struct served *s, unsigned i)
{
    if (i < 20)
        turn(s);
    else
        tick(s);
}

/* Turn the loop until the condition holds; it fails after some seconds. */
#define WAIT_FOR(s, cond)                                                      \
    do {                                                                       \
        for (unsigned i_ = 0; !(cond) && i_ < 4000; i_++)                      \
            step((s), i_);                                                     \
        CHECK(cond);                                                           \
    } while (0)

/* Without an engine: a test opens its own in s->rig. */
static inline void serve_begin(struct served *s, sl_ns now)
{
    struct sl_diag diag = {.sentence = ""};

    memset(s, 0, sizeof(*s));
    sl_clock_init_virtual(&s->clock, now);
    must(sl_loop_open(&s->clock, &s->loop, &diag), "loop", &diag);
    must(sl_timer_new(s->loop, serve_stop, s->loop, &s->tick), "timer", NULL);
    counted_open(&s->counted, 1);
    sl_buf_init(&s->got, 64 << 20, &sl_alloc_libc);
    s->door = (struct sl_server){.protocol = &sl_protocol_http,
                                 .paths = sl_api_paths,
                                 .path_count = sl_api_path_count,
                                 .name = "http"};
}

static inline void serve_end(struct served *s)
{
    sl_buf_done(&s->got);
    counted_close(&s->counted);
    sl_timer_free(s->tick);
    sl_loop_close(s->loop);
}

/* Serves on the loop of the test with at most so many connections. */
static inline int open_worker(struct sl_server_worker *worker,
                              const struct sl_server *server, struct served *s,
                              struct sl_metrics *stats,
                              const struct sl_alloc *alloc, unsigned most)
{
    struct sl_diag diag = {.sentence = ""};

    sl_server_worker_init(worker, server, s->rig.engine, stats, alloc);
    return sl_server_worker_open(worker, s->loop, most, &diag);
}

/* The HTTP server. */
static inline void serve_http(struct served *s, unsigned most)
{
    must(open_worker(&s->worker, &s->door, s, s->counted.stats[0], NULL, most),
         "worker", NULL);
}

/* ---- a store and a registry that answer later ---- */

#define LATE_MOST 256

/* While `on` is set takes wait, and while `finding` is set lookups do, until
 * the test lets them go. */
static struct {
    bool on, finding;
    struct sl_store store;
    struct sl_store *memory;
    struct sl_take *takes[LATE_MOST];
    unsigned take_count;
    struct sl_subjects subjects;
    struct sl_lookup *lookups[LATE_MOST];
    unsigned lookup_count;
} late;

static inline int late_bind(struct sl_store *store,
                            struct sl_limit_binding *limits, unsigned count,
                            struct sl_diag *diag)
{
    (void)store;
    return sl_store_bind(late.memory, limits, count, diag);
}

static inline int late_tighten(struct sl_store *store,
                               const struct sl_limit_binding *limit,
                               const struct sl_limit *strictest)
{
    (void)store;
    return sl_store_set_strictest(late.memory, limit, strictest);
}

static inline void late_take(struct sl_store *store, struct sl_take *take)
{
    (void)store;
    if (late.on && late.take_count < LATE_MOST)
        late.takes[late.take_count++] = take;
    else
        sl_store_take(late.memory, take);
}

static inline void late_close(struct sl_store *store)
{
    (void)store;
    sl_store_close(late.memory);
}

/* No address is blocked. */
static inline void late_find(struct sl_subjects *subjects,
                             struct sl_lookup *lookup)
{
    (void)subjects;
    if (late.finding && late.lookup_count < LATE_MOST &&
        !sl_str_eq(lookup->scope, SL_STR("ip")))
        late.lookups[late.lookup_count++] = lookup;
    else
        lookup->done(lookup);
}

/* An engine over both, in s->rig; the registry is late.subjects. */
static inline void serve_late(struct served *s, const char *policy)
{
    static const struct sl_store_calls calls = {.bind = late_bind,
                                                .tighten = late_tighten,
                                                .take = late_take,
                                                .close = late_close};
    static const struct sl_subjects_calls finding = {late_find};
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = &s->rig};
    struct sl_diag diag = {.sentence = ""};

    must(sl_memory_open(&memory, &late.memory, &diag), "memory", &diag);
    late.store.calls = &calls;
    late.store.secret = late.memory->secret;
    late.subjects.calls = &finding;
    rig_open_on(&s->rig, policy, &late.store);
}

/* Answer the take at this place of the list. */
static inline void let_go(unsigned index)
{
    struct sl_take *take = late.takes[index];

    late.take_count--;
    memmove(late.takes + index, late.takes + index + 1,
            (late.take_count - index) * sizeof(late.takes[0]));
    sl_store_take(late.memory, take);
}

/* When so many takes have come, answer them in that order. */
static inline void let_go_all(struct served *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        WAIT_FOR(s, late.take_count > 0);
        let_go(0);
    }
}

/* The registry knows no subject that was looked up. */
static inline void answer_lookups(void)
{
    unsigned count = late.lookup_count;

    late.lookup_count = 0;
    for (unsigned i = 0; i < count; i++)
        late.lookups[i]->done(late.lookups[i]);
}

/* ---- clients ---- */

/* Connect to what `accept` serves, from `peer`: an address, or NULL for a unix
 * socket. Returns the client's end, which does not block. */
static inline int come(sl_accept_f *accept, void *worker, const char *peer)
{
    struct sl_address from;
    char text[64];
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
        must(SLUICE_ESYS, "socketpair", NULL);
    if (peer) {
        snprintf(text, sizeof(text), strchr(peer, ':') ? "[%s]:9" : "%s:9",
                 peer);
        must(sl_address_parse(sl_str_c(text), &from, NULL), text, NULL);
    }
    accept(worker, fds[0], peer ? &from : NULL);
    return fds[1];
}

static inline int call(struct served *s)
{
    return come(sl_server_accept, &s->worker, LOCAL);
}

static inline void say(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Append what has come to s->got. False at the end of the connection. */
static inline bool take_in(struct served *s, int fd)
{
    ssize_t n = 1;

    while (n > 0) {
        if (sl_buf_reserve(&s->got, 65537))
            abort();
        n = recv(fd, s->got.bytes + s->got.len, 65536, MSG_DONTWAIT);
        s->got.len += n > 0 ? (size_t)n : 0;
        s->got.bytes[s->got.len] = '\0';
    }
    return n < 0 && errno == EAGAIN;
}

/* Measures the text once: sanitizers measure it at each call of strstr(). */
static inline unsigned count_in(const char *text, const char *part)
{
    const char *end = text + strlen(text);
    unsigned count = 0;

    for (; (text = memmem(text, (size_t)(end - text), part, strlen(part)));
         text += strlen(part))
        count++;
    return count;
}

/* Read until `end` has come `times` times (0: whatever comes), or the
 * connection has ended (`end` NULL). Returns what came. */
static inline const char *hear(struct served *s, int fd, const char *end,
                               unsigned times)
{
    bool open = true;

    sl_buf_clear(&s->got);
    for (unsigned i = 0; open && i < 4000; i++) {
        open = take_in(s, fd);
        if (end && count_in(s->got.bytes, end) >= times)
            break;
        if (open)
            step(s, i);
    }
    return s->got.bytes;
}

/* The server closes, and says nothing more. */
static inline bool is_over(struct served *s, int fd)
{
    const char *text = hear(s, fd, NULL, 0);

    return text[0] == '\0' && recv(fd, &(char){0}, 1, MSG_DONTWAIT) == 0;
}

/* How often the server has refused for this reason. */
static inline int64_t refused(struct served *s, const char *door,
                              const char *why)
{
    char sample[96];

    snprintf(sample, sizeof(sample),
             "sluice_http_refused_total{door=\"%s\",why=\"%s\"}", door, why);
    return counted(&s->counted, sample);
}

#endif
