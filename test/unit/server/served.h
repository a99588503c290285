/* served.h -- the HTTP door on a loop in a thread of its own, and a client of
 * it.
 *
 * Nothing waits for time to pass but on the server's own deadlines, which are
 * set to their least where they are to be seen.
 */
#ifndef SL_DOORS_SERVED_H
#define SL_DOORS_SERVED_H

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "asking.h"
#include "counted.h"
#include "net/listener.h"
#include "server/http/http.h"

#define NOW (INT64_C(1730822396) * SL_S) /* 2024-11-05T15:59:56Z */

static const char served_policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 2/min }\n"
    "routes:\n"
    "  - { match: /free, limits: [] }\n"
    "default: [minute]\n";

struct served {
    struct rig rig;
    struct sl_clock clock;
    struct sl_loop *loop;
    struct sl_server door;
    struct sl_server_worker worker;
    struct sl_sockets sockets;
    struct sl_listener *listener;
    struct sl_tls *tls; /* used by start(), if it is there */
    struct counted counted;
    pthread_t thread;
    struct sl_buf got;
};

/* ---- the server ---- */

static inline void *run(void *ctx)
{
    sl_loop_run(((struct served *)ctx)->loop);
    return NULL;
}

static inline void must(int err, const char *what, const struct sl_diag *diag)
{
    if (!err)
        return;
    printf("Bail out! %s: %d %s\n", what, err, diag->sentence);
    exit(1);
}

static inline void start(struct served *s, const char *where, unsigned most)
{
    struct sl_diag diag = {.sentence = ""};
    struct sl_address address;

    sl_clock_init_virtual(&s->clock, NOW);
    must(sl_loop_open(&s->clock, &s->loop, &diag), "loop", &diag);
    must(sl_address_parse(sl_str_c(where), &address, &diag), "address", &diag);
    must(sl_sockets_open(&address, 1, &s->sockets, &diag), "sockets", &diag);
    sl_server_worker_init(&s->worker, &s->door, s->rig.engine,
                          s->counted.stats[0], NULL);
    must(sl_server_worker_open(&s->worker, s->loop, most, &diag), "worker",
         &diag);
    sl_server_set_tls(&s->worker, s->tls);
    must(sl_listener_open(s->loop, s->sockets.fds[0], sl_server_accept,
                          &s->worker, &s->listener),
         "listener", &diag);
    if (pthread_create(&s->thread, NULL, run, s))
        must(SLUICE_ESYS, "thread", &diag);
}

static inline void stop(struct served *s)
{
    sl_loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    sl_listener_close(s->listener);
    sl_server_worker_close(&s->worker);
    sl_sockets_close(&s->sockets);
    sl_loop_close(s->loop);
}

/* ---- the client ---- */

static inline int call(struct served *s)
{
    const struct sl_address *to = &s->sockets.address;
    int fd = socket(to->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval most = {.tv_sec = 10};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    CHECK_EQ(connect(fd, (const struct sockaddr *)&to->bytes, to->len), 0);
    return fd;
}

static inline void say(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Read until `end` has come `times` times, or the end. What came is in
 * s->got, with a NUL behind it. */
static inline const char *hear(struct served *s, int fd, const char *end,
                               unsigned times)
{
    const char *from;
    ssize_t n = 1;

    sl_buf_clear(&s->got);
    while (n > 0) {
        if (sl_buf_reserve(&s->got, 65537))
            break;
        n = recv(fd, s->got.bytes + s->got.len, 65536, 0);
        if (n > 0)
            s->got.len += (size_t)n;
        s->got.bytes[s->got.len] = '\0';
        from = s->got.bytes;
        for (unsigned i = 0; from && end && i < times; i++) {
            from = strstr(from, end);
            from = from ? from + strlen(end) : NULL;
        }
        if (end && from)
            break;
    }
    return s->got.bytes;
}

/* The server has closed, and said nothing more. */
static inline bool is_over(int fd)
{
    char byte;

    return recv(fd, &byte, 1, 0) == 0;
}

/* How often it was refused for this reason. */
static inline int64_t refused(struct served *s, const char *why)
{
    char sample[96];

    snprintf(sample, sizeof(sample),
             "sluice_http_refused_total{door=\"http\",why=\"%s\"}", why);
    return counted(&s->counted, sample);
}

static inline void served_open(struct served *s)
{
    memset(s, 0, sizeof(*s));
    rig_open(&s->rig, served_policy);
    counted_open(&s->counted, 1);
    sl_buf_init(&s->got, 64 << 20, &sl_alloc_libc);
    s->door = (struct sl_server){.protocol = &sl_protocol_http,
                                 .paths = sl_api_paths,
                                 .path_count = sl_api_path_count,
                                 .name = "http",
                                 .max_pipeline = 8};
}

static inline void served_close(struct served *s)
{
    sl_buf_done(&s->got);
    counted_close(&s->counted);
    rig_close(&s->rig);
}

#define FREE "GET /v1/auth HTTP/1.1\r\nHost: h\r\nX-Original-URI: /free\r\n\r\n"

#endif
