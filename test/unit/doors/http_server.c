/* http_server.c -- the server over real sockets, on loopback.
 *
 * The loop runs in a thread of its own and the test is its client. Nothing
 * waits for time to pass but on the server's own deadlines, which are set to
 * their least where they are to be seen.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "asking.h"
#include "counted.h"
#include "doors/http/http.h"
#include "net/listener.h"

#define NOW (INT64_C(1730822396) * SL_S) /* 2024-11-05T15:59:56Z */

static const char policy[] =
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
    struct sl_http_door door;
    struct sl_http_worker worker;
    struct sl_sockets sockets;
    struct sl_listener *listener;
    struct counted counted;
    pthread_t thread;
    struct sl_buf got;
};

/* ---- the server ---- */

static void *run(void *ctx)
{
    sl_loop_run(((struct served *)ctx)->loop);
    return NULL;
}

static void must(int err, const char *what, const struct sl_diag *diag)
{
    if (!err)
        return;
    printf("Bail out! %s: %d %s\n", what, err, diag->sentence);
    exit(1);
}

static void start(struct served *s, const char *where, unsigned most)
{
    struct sl_diag diag = {.sentence = ""};
    struct sl_address address;

    sl_clock_init_virtual(&s->clock, NOW);
    must(sl_loop_open(&s->clock, &s->loop, &diag), "loop", &diag);
    must(sl_address_parse(sl_str_c(where), &address, &diag), "address", &diag);
    must(sl_sockets_open(&address, 1, &s->sockets, &diag), "sockets", &diag);
    must(sl_http_worker_open(&s->worker, &s->door, s->loop, s->rig.engine,
                             s->counted.stats[0], most, &diag),
         "worker", &diag);
    must(sl_listener_open(s->loop, s->sockets.fds[0], sl_http_accept,
                          &s->worker, &s->listener),
         "listener", &diag);
    if (pthread_create(&s->thread, NULL, run, s))
        must(SLUICE_ESYS, "thread", &diag);
}

static void stop(struct served *s)
{
    sl_loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    sl_listener_close(s->listener);
    sl_http_worker_close(&s->worker);
    sl_sockets_close(&s->sockets);
    sl_loop_close(s->loop);
}

/* ---- the client ---- */

static int call(struct served *s)
{
    const struct sl_address *to = &s->sockets.address;
    int fd = socket(to->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval most = {.tv_sec = 10};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    CHECK_EQ(connect(fd, (const struct sockaddr *)&to->bytes, to->len), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Read until `end` has come `times` times, or the end. What came is in
 * s->got, with a NUL behind it. */
static const char *hear(struct served *s, int fd, const char *end,
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
static bool is_over(int fd)
{
    char byte;

    return recv(fd, &byte, 1, 0) == 0;
}

/* How often it was refused for this reason. */
static int64_t refused(struct served *s, const char *why)
{
    char sample[96];

    snprintf(sample, sizeof(sample),
             "sluice_http_refused_total{door=\"http\",why=\"%s\"}", why);
    return counted(&s->counted, sample);
}

/* ---- tests ---- */

#define FREE "GET /v1/auth HTTP/1.1\r\nHost: h\r\nX-Original-URI: /free\r\n\r\n"
#define DENY "GET /v1/deny HTTP/1.1\r\nHost: h\r\n\r\n"
#define CHECK_HEAD                                                             \
    "POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n"

static void test_requests(struct served *s)
{
    int fd = call(s);

    CASE("a request and its answer, to the byte");
    say(fd, FREE);
    CHECK_STR(hear(s, fd, "\r\n\r\n", 1),
              "HTTP/1.1 200 OK\r\nDate: Tue, 05 Nov 2024 15:59:56 GMT\r\n"
              "Content-Length: 0\r\n\r\n");
    CASE("and another on the same connection");
    say(fd, CHECK_HEAD "\r\n{\"path\":\"/y\"}");
    CHECK(strstr(hear(s, fd, "}}", 1), "\"allowed\":true") != NULL);
    CHECK(strstr(s->got.bytes, "Content-Type: application/json\r\n") != NULL);
    CASE("HEAD has no body, but its length");
    say(fd, "HEAD /v1/deny HTTP/1.1\r\nHost: h\r\n\r\n" FREE);
    hear(s, fd, "\r\n\r\n", 2);
    CHECK(strstr(s->got.bytes, "Content-Length: 166\r\n") != NULL);
    CHECK(!strstr(s->got.bytes, "\"status\""));
    CASE("byte by byte it is the same");
    for (const char *c = FREE; *c; c++)
        CHECK_EQ(send(fd, c, 1, MSG_NOSIGNAL), 1);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "200 OK") != NULL);
    CASE("Connection: close closes");
    say(fd, "GET /v1/deny HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    CHECK(strstr(hear(s, fd, NULL, 0), "Connection: close\r\n") != NULL);
    CHECK(is_over(fd));
    close(fd);
}

static void test_continue(struct served *s)
{
    int fd = call(s);

    CASE("who waits for 100 gets it, once");
    say(fd, CHECK_HEAD "Expect: 100-continue\r\n\r\n");
    CHECK_STR(hear(s, fd, "\r\n\r\n", 1), "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "{\"path\":");
    say(fd, "\"/z\"}");
    CHECK(strncmp(hear(s, fd, "}}", 1), "HTTP/1.1 200", 12) == 0);
    close(fd);
}

static void test_refused(struct served *s)
{
    int fd = call(s);

    CASE("what is no request is refused, and the connection closed");
    say(fd, FREE "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" FREE);
    hear(s, fd, NULL, 0);
    CHECK(strncmp(s->got.bytes, "HTTP/1.1 200", 12) == 0);
    CHECK(strstr(s->got.bytes, "HTTP/1.1 400 Bad Request\r\n") != NULL);
    CHECK(strstr(s->got.bytes, "Connection: close\r\n") != NULL);
    CHECK(strstr(s->got.bytes, "\"code\":\"BAD_REQUEST\"}") != NULL);
    CHECK(!strstr(strstr(s->got.bytes, "400"), "HTTP/1.1 200"));
    CHECK(is_over(fd));
    close(fd);
    fd = call(s);
    say(fd, "POST /v1/check HTTP/1.1\r\nHost: h\r\n"
            "Content-Length: 2000000\r\n\r\n");
    CHECK(strncmp(hear(s, fd, NULL, 0), "HTTP/1.1 413", 12) == 0);
    close(fd);
    CASE("and counted");
    CHECK_EQ(refused(s, "malformed"), 1);
    CHECK_EQ(refused(s, "too_large"), 1);
}

static void test_pipeline(struct served *s)
{
    struct sl_buf many;
    int fd = call(s), other = call(s);

    CASE("many at once are all answered, in order, and others meanwhile");
    sl_buf_init(&many, 1 << 20, &sl_alloc_libc);
    for (int i = 0; i < 150; i++)
        CHECK_EQ(sl_buf_addf(&many,
                             "GET /v1/deny HTTP/1.1\r\nHost: h\r\n"
                             "X-Sluice-Request-Id: n%d.\r\n\r\n",
                             i),
                 0);
    CHECK_EQ(sl_buf_add(&many, (struct sl_str){"", 1}), 0);
    say(fd, many.bytes);
    say(other, FREE);
    CHECK(strstr(hear(s, other, "\r\n\r\n", 1), "200 OK") != NULL);
    hear(s, fd, "}", 150);
    for (int i = 0, good = 1; i < 150 && good; i++) {
        char id[32];
        static char *at;

        snprintf(id, sizeof(id), "X-Request-Id: n%d.\r\n", i);
        at = strstr(i > 0 ? at : s->got.bytes, id);
        good = CHECK(at != NULL);
    }
    sl_buf_done(&many);
    close(fd);
    close(other);
}

/* Send without reading until nothing goes, then read it all: as many bytes as
 * `count` answers have. */
static size_t send_and_read(int fd, const char *all, size_t size, size_t want)
{
    size_t sent = 0, got = 0;
    char bytes[16384];
    ssize_t n = 1;

    while (got < want && n > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        if (sent < size && poll(&p, 1, 100) > 0) {
            n = send(fd, all + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
            n = 1;
            continue;
        }
        n = recv(fd, bytes, sizeof(bytes), 0);
        got += n > 0 ? (size_t)n : 0;
    }
    return got;
}

static void test_slow_reader(struct served *s)
{
    static const char one[] = DENY;
    size_t count = 20000, size = count * (sizeof(one) - 1), answer;
    char *all = malloc(size + sizeof(one));
    int fd = call(s);

    CASE("who does not read is not served more, and loses nothing");
    say(fd, one);
    hear(s, fd, "RATE_LIMITED\"}", 1);
    answer = s->got.len;
    for (size_t i = 0; i < size; i += sizeof(one) - 1)
        memcpy(all + i, one, sizeof(one));
    CHECK_EQ(send_and_read(fd, all, size, count * answer), count * answer);
    free(all);
    close(fd);
}

static void test_deadlines(struct served *s)
{
    int idle, head, body;

    s->door.head_deadline = s->door.body_deadline = 1;
    start(s, "127.0.0.1:0", 100);
    CASE("a head and a body that do not come: 408");
    head = call(s);
    say(head, "GET / HT");
    CHECK(strncmp(hear(s, head, NULL, 0), "HTTP/1.1 408", 12) == 0);
    CHECK(strstr(s->got.bytes, "head did not come in time") != NULL);
    CHECK(strstr(s->got.bytes, "Connection: close\r\n") != NULL);
    body = call(s);
    say(body, CHECK_HEAD "\r\n{\"path\"");
    CHECK(strncmp(hear(s, body, NULL, 0), "HTTP/1.1 408", 12) == 0);
    CHECK(strstr(s->got.bytes, "body did not come in time") != NULL);
    close(head);
    close(body);
    stop(s);
    s->door.idle_deadline = 1;
    start(s, "127.0.0.1:0", 100);
    CASE("an idle connection is closed without a word");
    idle = call(s);
    CHECK(is_over(idle));
    close(idle);
    stop(s);
    CHECK_EQ(refused(s, "deadline"), 2);
    CHECK_EQ(counted(&s->counted, "sluice_connections{door=\"http\"}"), 0);
    s->door.head_deadline = s->door.body_deadline = s->door.idle_deadline = 0;
}

static void test_cap(struct served *s)
{
    int a, b, c;

    start(s, "127.0.0.1:0", 2);
    CASE("one connection too many is closed, the others go on");
    a = call(s);
    b = call(s);
    say(a, FREE);
    hear(s, a, "\r\n\r\n", 1);
    say(b, FREE);
    hear(s, b, "\r\n\r\n", 1);
    c = call(s);
    CHECK(is_over(c));
    say(a, FREE);
    CHECK(strstr(hear(s, a, "\r\n\r\n", 1), "200 OK") != NULL);
    CHECK_EQ(refused(s, "too_many"), 1);
    close(a);
    close(b);
    close(c);
    stop(s);
}

static void drain(void *ctx)
{
    sl_http_drain(&((struct served *)ctx)->worker);
}

static void test_drain(struct served *s)
{
    int idle, busy;

    start(s, "127.0.0.1:0", 10);
    CASE("draining closes the idle and answers the others");
    idle = call(s);
    busy = call(s);
    say(idle, FREE);
    hear(s, idle, "\r\n\r\n", 1);
    say(busy, FREE CHECK_HEAD "\r\n{\"path\"");
    hear(s, busy, "\r\n\r\n", 1);
    CHECK_EQ(sl_loop_post(s->loop, drain, s), 0);
    CHECK(is_over(idle));
    say(busy, ":\"/q\"}");
    CHECK(strstr(hear(s, busy, NULL, 0), "Connection: close\r\n") != NULL);
    CHECK(strstr(s->got.bytes, "\"allowed\":") != NULL);
    close(idle);
    close(busy);
    stop(s);
}

static void test_unix(struct served *s)
{
    char where[64];
    int fd;

    CASE("a unix socket serves as well, and may speak for others");
    snprintf(where, sizeof(where), "unix:/tmp/sluice-test-%d.sock",
             (int)getpid());
    start(s, where, 10);
    fd = call(s);
    say(fd, FREE);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "200 OK") != NULL);
    close(fd);
    stop(s);
}

int main(void)
{
    struct served s;

    memset(&s, 0, sizeof(s));
    rig_open(&s.rig, policy);
    counted_open(&s.counted, 1);
    sl_buf_init(&s.got, 64 << 20, &sl_alloc_libc);
    s.door = (struct sl_http_door){.paths = sl_api_paths,
                                   .path_count = sl_api_path_count,
                                   .name = "http",
                                   .pipeline_most = 8};
    start(&s, "127.0.0.1:0", 100);
    test_requests(&s);
    test_continue(&s);
    test_refused(&s);
    test_pipeline(&s);
    test_slow_reader(&s);
    stop(&s);
    test_deadlines(&s);
    test_cap(&s);
    test_drain(&s);
    test_unix(&s);
    sl_buf_done(&s.got);
    counted_close(&s.counted);
    rig_close(&s.rig);
    return CHECK_DONE();
}
