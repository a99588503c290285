/* http_server.c -- the server over real sockets, on loopback. */
#include <poll.h>

#include "served.h"

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

static void test_token_first(struct served *s)
{
    int fd;

    s->door.token = SL_STR("secret");
    start(s, "127.0.0.1:0", 10);
    CASE("without the token nobody's body is waited for");
    fd = call(s);
    say(fd, CHECK_HEAD "Expect: 100-continue\r\n\r\n");
    CHECK(strncmp(hear(s, fd, NULL, 0), "HTTP/1.1 401", 12) == 0);
    CHECK(strstr(s->got.bytes, "Connection: close\r\n") != NULL);
    CHECK(is_over(fd));
    close(fd);
    CASE("and with it, it is");
    fd = call(s);
    say(fd, CHECK_HEAD "X-Sluice-Token: secret\r\nExpect: 100-continue"
                       "\r\n\r\n");
    CHECK_STR(hear(s, fd, "\r\n\r\n", 1), "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "{\"path\":\"/z\"}");
    CHECK(strncmp(hear(s, fd, "}}", 1), "HTTP/1.1 200", 12) == 0);
    close(fd);
    stop(s);
    s->door.token = SL_STR("");
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

    s->door.begin_timeout = s->door.body_timeout = 1;
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
    s->door.idle_timeout = 1;
    start(s, "127.0.0.1:0", 100);
    CASE("an idle connection is closed without a word");
    idle = call(s);
    CHECK(is_over(idle));
    close(idle);
    stop(s);
    CHECK_EQ(refused(s, "deadline"), 2);
    CHECK_EQ(counted(&s->counted, "sluice_connections{door=\"http\"}"), 0);
    s->door.begin_timeout = s->door.body_timeout = s->door.idle_timeout = 0;
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
    sl_server_drain(&((struct served *)ctx)->worker);
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

    served_open(&s);
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
    test_token_first(&s);
    test_unix(&s);
    served_close(&s);
    return CHECK_DONE();
}
