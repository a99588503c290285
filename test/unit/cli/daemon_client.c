/* daemon_client.c -- the client of HTTP/1.1, against a server with scripted
 * answers. */
#include "cli/cli.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"
#include "sluice.h"

#define ANSWERS 8

/* A server: answers request i with answers[i], byte by byte if `slow`, and
 * closes after the last. */
struct server {
    int fd;
    char url[64];
    const char *answers[ANSWERS];
    unsigned count;
    bool slow;
    char heard[4096]; /* the last request */
    pthread_t thread;
};

static void say(int fd, const char *text, size_t step)
{
    for (size_t len = strlen(text), at = 0; at < len; at += step) {
        size_t piece = len - at < step ? len - at : step;

        if (send(fd, text + at, piece, MSG_NOSIGNAL) < 0)
            break;
        if (step == 1)
            sched_yield();
    }
}

/* Requests of these tests arrive in one piece. */
static void *serve(void *ctx)
{
    struct server *s = ctx;
    int fd = -1, one = 1;

    for (unsigned i = 0; i < s->count; i++) {
        ssize_t got;

        if (fd < 0) {
            fd = accept(s->fd, NULL, NULL);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        }
        got = recv(fd, s->heard, sizeof(s->heard) - 1, 0);
        s->heard[got > 0 ? got : 0] = '\0';
        say(fd, s->answers[i], s->slow ? 1 : 4096);
        if (strstr(s->answers[i], "close")) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void begin(struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);

    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&at, len) ||
        listen(s->fd, 4) || getsockname(s->fd, (struct sockaddr *)&at, &len))
        abort();
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u",
             (unsigned)ntohs(at.sin_port));
    if (pthread_create(&s->thread, NULL, serve, s))
        abort();
}

static void end(struct server *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
}

#define OK(body, len) "HTTP/1.1 200 OK\r\nContent-Length: " #len "\r\n\r\n" body

static void test_answers(bool slow)
{
    struct server s = {
        .answers = {OK("hello", 5),
                    "HTTP/1.1 404 Not Found\r\nconnection: "
                    "close\r\ncontent-length:0\r\n\r\n", OK("again", 5)},
        .count = 3,
        .slow = slow
    };
    struct sl_diag diag = {0};
    struct sl_daemon_client client;
    struct sl_str body;
    int status = 0;

    begin(&s);
    CHECK_EQ(sl_daemon_client_init(&client, s.url, &sl_alloc_libc, &diag), 0);
    CHECK_EQ(sl_daemon_client_ask(&client, "POST", "/v1/check", SL_STR("{}"),
                                  &status, &body),
             0);
    CHECK_EQ(status, 200);
    CHECK(sl_str_eq(body, SL_STR("hello")));
    CHECK_EQ(
        sl_daemon_client_ask(&client, "GET", "/b", SL_STR(""), &status, &body),
        0);
    CHECK_EQ(status, 404);
    CHECK_EQ(body.len, 0);
    CHECK_EQ(client.fd, -1);
    CHECK_EQ(
        sl_daemon_client_ask(&client, "PUT", "/c", SL_STR("x"), &status, &body),
        0);
    CHECK(sl_str_eq(body, SL_STR("again")));
    sl_daemon_client_done(&client);
    end(&s);
    CHECK(strncmp(s.heard, "PUT /c HTTP/1.1\r\nHost: 127.0.0.1:", 33) == 0);
    CHECK(strstr(s.heard, "\r\nContent-Length: 1\r\n\r\nx") != NULL);
}

/* An invalid answer fails at once, and closes the connection. */
static void refused(const char *answer, const char *why)
{
    struct server s = {.answers = {answer}, .count = 1};
    struct sl_diag diag = {0};
    struct sl_daemon_client client;
    struct sl_str body = {"untouched", 9};
    int status = 7;

    begin(&s);
    CHECK_EQ(sl_daemon_client_init(&client, s.url, &sl_alloc_libc, &diag), 0);
    CHECK_EQ(
        sl_daemon_client_ask(&client, "GET", "/", SL_STR(""), &status, &body),
        SLUICE_ESYS);
    if (!strstr(diag.sentence, why))
        printf("# %s\n", diag.sentence);
    CHECK(strstr(diag.sentence, why) != NULL);
    CHECK_EQ(status, 7);
    CHECK_EQ(body.len, 9);
    CHECK_EQ(client.fd, -1);
    sl_daemon_client_done(&client);
    end(&s);
}

TEST(refused)
{
    CASE("invalid answers");
    refused("", "Connection reset");
    refused("HTTP/1.1 200 OK\r\n", "Connection reset");
    refused("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "Connection reset");
    refused("HTTP/1.1 200 OK\r\n\r\n", "is not valid");
    refused("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "is not valid");
    refused("HTTP/1.1 x00 OK\r\nContent-Length: 0\r\n\r\n", "is not valid");
    refused("HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello",
            "is not valid");
    refused("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n"
            "\r\nh",
            "is not valid");
    refused("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "is not valid");
    refused(OK("hello", 4), "is not valid");
    refused("220 mail.example.com ESMTP\r\n\r\n", "is not valid");
}

TEST(urls)
{
    static const char *const bad[] = {
        "",           "localhost",  "http://",         "http://h",
        "http://h:",  "http://:80", "http://h:0",      "http://h:65536",
        "http://h:x", "https://h",  "http://h:80/path"};
    static const char *const good[][3] = {
        {"http://127.0.0.1:8080", "127.0.0.1", "8080"},
        {"https://h:443",         "h",         "443" },
        {"http://localhost:80/",  "localhost", "80"  },
        {"http://[::1]:80",       "::1",       "80"  },
    };
    struct sl_daemon_client client;
    struct sl_diag diag;

    CASE("URLs");
    for (size_t i = 0; i < SL_LEN(bad); i++) {
        CHECK_EQ(sl_daemon_client_init(&client, bad[i], &sl_alloc_libc, &diag),
                 SLUICE_ECONF);
        CHECK(strstr(diag.sentence, "http://127.0.0.1:8080") != NULL);
        sl_daemon_client_done(&client);
    }
    for (size_t i = 0; i < SL_LEN(good); i++) {
        CHECK_EQ(
            sl_daemon_client_init(&client, good[i][0], &sl_alloc_libc, &diag),
            0);
        CHECK_STR(client.host, good[i][1]);
        CHECK_STR(client.port, good[i][2]);
        sl_daemon_client_done(&client);
    }
}

/* One request with the nth allocation failing; did it succeed? */
static bool try(unsigned nth)
{
    struct fail f = {.nth = nth};
    struct sl_alloc alloc = fail_alloc(&f);
    struct server s = {.answers = {OK("hello", 5)}, .count = 1};
    struct sl_diag diag = {0};
    struct sl_daemon_client client;
    struct sl_str body;
    int status, err;

    begin(&s);
    CHECK_EQ(sl_daemon_client_init(&client, s.url, &alloc, &diag), 0);
    err = sl_daemon_client_ask(&client, "GET", "/", SL_STR(""), &status, &body);
    CHECK(err == 0 || err == SLUICE_ENOMEM);
    sl_daemon_client_done(&client);
    end(&s);
    fail_check(&f);
    return err == 0;
}

TEST(memory)
{
    unsigned nth = 1;

    CASE("without memory");
    while (!try(nth) && nth < 20)
        nth++;
    CHECK(nth > 1 && nth < 20);
}

TEST(unreachable)
{
    struct server s = {.count = 0};
    struct sl_diag diag = {0};
    struct sl_daemon_client client;
    struct sl_str body;
    int status;

    CASE("no server listens");
    begin(&s);
    CHECK_EQ(sl_daemon_client_init(&client, s.url, &sl_alloc_libc, &diag), 0);
    end(&s);
    CHECK_EQ(
        sl_daemon_client_ask(&client, "GET", "/", SL_STR(""), &status, &body),
        SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "cannot connect") != NULL);
    sl_daemon_client_done(&client);
}

int main(void)
{
    CASE("answers, and a connection that is kept");
    test_answers(false);
    CASE("answers that come byte by byte");
    test_answers(true);
    RUN_TESTS();
    return CHECK_DONE();
}
