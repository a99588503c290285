/* fetch.c -- what comes of fetching, and what does not. */
#include "net/http_fetch.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "canned.h"
#include "check.h"
#include "fail.h"

#define MOST 1000

static unsigned epoll_calls, epoll_nth; /* the nth one fails; 0: none */

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    if (++epoll_calls == epoll_nth) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

/* The host two.test has two addresses. */
int getaddrinfo(const char *host, const char *service,
                const struct addrinfo *hints, struct addrinfo **ret)
{
    int (*next)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **);
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    int err;

    memcpy(&next, &found, sizeof(next));
    if (!host || strcmp(host, "two.test") != 0)
        return next(host, service, hints, ret);
    err = next("127.0.0.2", service, hints, ret);
    return err ? err : next("127.0.0.1", service, hints, &(*ret)->ai_next);
}

static char large[4096];
static char fields[80 << 10], notices[80 << 10]; /* more than are read */

static const char *answers[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
    "Cache-Control: max-age=60\r\n\r\nhello",
    "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: /0\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n"
    "Content-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
    large, /* without a length */
    "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ncut off",
    "no HTTP at all\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
    "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    NULL, /* never */
    "HTTP/1.1 204 No Content\r\n\r\n",
    fields,
    notices,
};

#define ROW(why, path, result, status, body, words)                            \
    {                                                                          \
        why, path, SL_HTTP_FETCH_##result, status, body, words                 \
    }

static const struct {
    const char *why, *path;
    enum sl_http_fetch_result result;
    int status;
    const char *body, *words; /* words: in the sentence */
} rows[] = {
    ROW("a document", "/0", GOOD, 200, "hello", ""),
    ROW("an error", "/1", STATUS, 500, "", "the server answers 500"),
    ROW("a redirect", "/2", STATUS, 302, "", "redirects are not"),
    ROW("a redirect to a file", "/3", STATUS, 302, "", "redirects"),
    ROW("too large, by its length", "/4", TOO_LARGE, 200, "",
        "larger than 1000 bytes"),
    ROW("too large, as it comes", "/5", TOO_LARGE, 200, NULL,
        "larger than 1000 bytes"),
    ROW("cut off", "/6", UNREACHABLE, 200, NULL, "in the middle of the answer"),
    ROW("another protocol", "/7", UNREACHABLE, 0, NULL,
        "the answer is not HTTP/1.1"),
    ROW("in chunks", "/8", GOOD, 200, "abc", ""),
    ROW("packed: it stays so", "/9", GOOD, 200, "abc", ""),
    ROW("no answer", "/10", UNREACHABLE, 0, "", "no complete answer in 0.3 s"),
    ROW("nothing", "/11", STATUS, 204, "", "the server answers 204"),
    ROW("header fields without end", "/12", TOO_LARGE, 200, "",
        "header fields of the answer are larger than 65536 bytes"),
    ROW("interim answers without end", "/13", TOO_LARGE, 103, "",
        "header fields of the answer are larger than 65536 bytes"),
};

static struct {
    struct canned server;
    struct sl_loop *loop;
    struct sl_http_fetcher *fetcher;
    struct sl_http_fetch fetch;
    unsigned done;
    char url[128];
} t;

static void on_done(struct sl_http_fetch *fetch)
{
    CHECK(fetch == &t.fetch && !fetch->easy);
    t.done++;
    sl_loop_stop(t.loop);
}

static void ask(const char *url)
{
    t.fetch.url = url;
    t.fetch.most = MOST;
    t.fetch.timeout = strstr(url, "/10") ? 300 * SL_MS : 20 * SL_S;
    t.fetch.done = on_done;
    t.done = 0;
    if (CHECK_EQ(sl_http_fetch_begin(t.fetcher, &t.fetch), 0))
        sl_loop_run(t.loop);
    CHECK_EQ(t.done, 1);
}

static const char *url_of(const char *path)
{
    snprintf(t.url, sizeof(t.url), "http://127.0.0.1:%u%s", t.server.port,
             path);
    return t.url;
}

TEST(rows)
{
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        ask(url_of(rows[i].path));
        CHECK_EQ(t.fetch.result, rows[i].result);
        CHECK_EQ(t.fetch.status, rows[i].status);
        CHECK(strstr(t.fetch.why, rows[i].words) != NULL);
        CHECK_EQ(t.fetch.why[0] == '\0', rows[i].result == SL_HTTP_FETCH_GOOD);
        CHECK(t.fetch.body.len <= MOST);
        if (rows[i].body)
            CHECK(sl_str_eq(sl_buf_str(&t.fetch.body), sl_str_c(rows[i].body)));
    }
    CASE("Cache-Control is handed on, and forgotten");
    ask(url_of("/0"));
    CHECK_STR(t.fetch.cache_control, "max-age=60");
    ask(url_of("/8"));
    CHECK_STR(t.fetch.cache_control, "");
}

TEST(places)
{
    static const char *const none[] = {
        "file:///etc/passwd",   "ftp://127.0.0.1/x",     "gopher://127.0.0.1/x",
        "http://127.0.0.1:1/x", "http://host.invalid/x", "nonsense://x",
    };

    CASE("what is not HTTP, or is not there");
    for (size_t i = 0; i < SL_LEN(none); i++) {
        ask(none[i]);
        CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_UNREACHABLE);
        CHECK_EQ(t.fetch.body.len, 0);
        CHECK(t.fetch.why[0] != '\0');
        CHECK(!strstr(t.fetch.why, "answer"));
    }
    CASE("a server without TLS");
    t.fetch.connect_timeout = 100 * SL_MS;
    snprintf(t.url, sizeof(t.url), "https://127.0.0.1:%u/10", t.server.port);
    ask(t.url);
    t.fetch.connect_timeout = 0;
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_UNREACHABLE);
    CHECK_STR(t.fetch.why, "no connection in 0.1 s");
    CASE("the environment has no say");
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    ask(url_of("/0"));
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_GOOD);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
}

static void on_time(void *ctx)
{
    (void)ctx;
    sl_loop_stop(t.loop);
}

TEST(forget)
{
    struct sl_timer *timer;

    CASE("what is forgotten is not told");
    t.fetch.url = url_of("/10");
    t.done = 0;
    CHECK_EQ(sl_http_fetch_begin(t.fetcher, &t.fetch), 0);
    CHECK_EQ(sl_timer_new(t.loop, on_time, NULL, &timer), 0);
    sl_timer_start(timer, 50 * SL_MS);
    sl_loop_run(t.loop);
    sl_http_fetch_forget(t.fetcher, &t.fetch);
    CHECK(!t.fetch.easy);
    sl_timer_start(timer, 400 * SL_MS);
    sl_loop_run(t.loop);
    CHECK_EQ(t.done, 0);
    sl_http_fetch_forget(t.fetcher, &t.fetch);
    sl_timer_free(timer);
}

/* A descriptor that cannot be watched: that request fails, and no other. */
TEST(descriptors)
{
    unsigned failures = 0, unsent = 0, nth = 0;

    CASE("the nth call to watch a descriptor fails");
    do {
        epoll_calls = 0;
        epoll_nth = ++nth;
        ask(url_of("/0"));
        epoll_nth = 0;
        CHECK(t.fetch.result == SL_HTTP_FETCH_GOOD ||
              t.fetch.result == SL_HTTP_FETCH_NO_MEMORY);
        failures += t.fetch.result == SL_HTTP_FETCH_NO_MEMORY;
        unsent += !t.fetch.sent;
        ask(url_of("/0"));
        CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_GOOD);
    } while (epoll_calls >= nth && nth < 100);
    printf("# %u calls, %u failures\n", nth - 1, failures);
    CHECK(failures > 0 && nth < 100);
    CHECK(unsent > 0 && unsent <= failures); /* one before it connects */
}

static bool allow(struct sl_http_fetch *fetch, const struct sl_ip *ip,
                  unsigned port, char *why, size_t size)
{
    (void)fetch;
    (void)ip;
    (void)port;
    (void)why;
    (void)size;
    return true;
}

/* A lack of this machine is not a destination that is away. */
TEST(sockets)
{
    struct rlimit before, none;

    CASE("without a descriptor for a connection");
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    t.fetch.guard = allow;
    t.fetch.any_status = true;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    ask(url_of("/0"));
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_NO_MEMORY);
    CHECK_STR(t.fetch.why, "out of descriptors");
    CHECK(!t.fetch.sent);
    CASE("with one, but without a listener");
    ask("http://127.0.0.1:1/x");
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_UNREACHABLE);
    ask(url_of("/0"));
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_GOOD);
    t.fetch.guard = NULL;
    t.fetch.any_status = false;
}

static bool refuse_second(struct sl_http_fetch *fetch, const struct sl_ip *ip,
                          unsigned port, char *why, size_t size)
{
    struct sl_ip second;

    (void)fetch;
    (void)port;
    snprintf(why, size, "refused");
    return sl_ip_parse(SL_STR("127.0.0.2"), &second) &&
           memcmp(ip, &second, sizeof(second)) != 0;
}

static void hear(int fd)
{
    char head[4096];
    ssize_t n = read(fd, head, sizeof(head));

    CHECK(n > 0);
}

/* Answers one request, and ends the connection at the next. */
static void *break_second(void *arg)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const int *listener = arg;
    int fd = accept(*listener, NULL, NULL);

    hear(fd);
    CHECK(send(fd, answer, strlen(answer), MSG_NOSIGNAL) > 0);
    hear(fd);
    close(fd);
    return NULL;
}

TEST(once)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;
    char url[64];

    CASE("a request that is not sent again was not refused by the guard");
    CHECK(bind(listener, (struct sockaddr *)&at, len) == 0);
    CHECK(listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    CHECK_EQ(pthread_create(&thread, NULL, break_second, &listener), 0);
    snprintf(url, sizeof(url), "http://two.test:%u/", ntohs(at.sin_port));
    t.fetch.guard = refuse_second;
    t.fetch.once = t.fetch.any_status = true;
    ask(url);
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_GOOD);
    CHECK_STR(t.fetch.why, "");
    CHECK(!t.fetch.stale);
    ask(url);
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_UNREACHABLE);
    CHECK(t.fetch.sent && !t.fetch.refused && t.fetch.stale);
    CHECK_STR(t.fetch.why, "the connection was closed before the answer");
    pthread_join(thread, NULL);
    close(listener);
    t.fetch.guard = NULL;
    t.fetch.once = t.fetch.any_status = false;
}

static void open_all(const struct sl_alloc *alloc)
{
    struct sl_diag diag;

    if (sl_loop_open(NULL, &t.loop, &diag) ||
        sl_http_fetcher_open(t.loop, alloc, &t.fetcher, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
}

static void close_all(void)
{
    sl_http_fetch_forget(t.fetcher, &t.fetch);
    sl_http_fetcher_close(t.fetcher);
    sl_loop_close(t.loop);
}

static void test_memory(void)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_http_fetcher *none = NULL;
    struct sl_diag diag;

    CASE("without memory for the fetcher");
    CHECK_EQ(sl_loop_open(NULL, &t.loop, &diag), 0);
    fail.nth = 1;
    CHECK_EQ(sl_http_fetcher_open(t.loop, &alloc, &none, &diag), SLUICE_ENOMEM);
    CHECK(none == NULL);
    sl_loop_close(t.loop);
    fail_check(&fail);

    CASE("without memory for the document");
    fail.nth = 0;
    open_all(&alloc);
    fail.calls = 0;
    fail.nth = 1;
    ask(url_of("/0"));
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_NO_MEMORY);
    CHECK_STR(t.fetch.why, "out of memory");
    ask(url_of("/0"));
    CHECK_EQ(t.fetch.result, SL_HTTP_FETCH_GOOD);
    close_all();
    fail_check(&fail);
}

/* `head`, then `more` again and again. */
static void fill(char *text, size_t size, const char *head, const char *more)
{
    size_t len = (size_t)snprintf(text, size, "%s", head);

    while (len + strlen(more) < size)
        len += (size_t)snprintf(text + len, size - len, "%s", more);
}

int main(void)
{
    alarm(300); /* ends what hangs */
    snprintf(large, sizeof(large), "HTTP/1.1 200 OK\r\n\r\n");
    memset(large + strlen(large), 'x', 2 * MOST);
    /* Newer curl reads no more than 5000 fields, which must not come first. */
    fill(fields, sizeof(fields), "HTTP/1.1 200 OK\r\n",
         "Name: of some length\r\n");
    fill(notices, sizeof(notices), "", "HTTP/1.1 103 Early Hints\r\n\r\n");
    canned_open(&t.server, answers, SL_LEN(answers));
    open_all(&sl_alloc_libc);
    RUN_TESTS();
    close_all();
    test_memory();
    canned_close(&t.server);
    return CHECK_DONE();
}
