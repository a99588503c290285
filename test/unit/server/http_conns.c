/* http_conns.c -- connections of the HTTP server: pipelines, slow clients,
 * deadlines, the cap, draining, answers that come later, and clients that are
 * gone by then. */
#include "serve.h"

static const char policy[] =
    "sluice: 1\n"
    "identity: { user: [header.x-user-id] }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 2/min }\n"
    "routes:\n"
    "  - { match: /free, limits: [] }\n"
    "default: [minute]\n";

#define HEAD "Host: localhost\r\nX-Original-URI: "
#define FREE "GET /v1/auth HTTP/1.1\r\n" HEAD "/free\r\n\r\n"
#define DENY "GET /v1/deny HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define ASK(who)                                                               \
    "GET /v1/auth HTTP/1.1\r\n" HEAD "/x\r\nX-User-Id: " who "\r\n\r\n"
#define CHECK_HEAD                                                             \
    "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n"

/* Say `text` and read until the answer has `part` in it. */
static bool answers(struct served *s, int fd, const char *text,
                    const char *part)
{
    say(fd, text);
    return strstr(hear(s, fd, part, 1), part) != NULL;
}

static void test_bytes(struct served *s)
{
    int fd = call(s);

    CASE("byte by byte a request is the same");
    for (const char *c = FREE; *c; c++) {
        CHECK_EQ(send(fd, c, 1, MSG_NOSIGNAL), 1);
        turn(s);
    }
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "200 OK") != NULL);
    close(fd);
}

static void test_pipeline(struct served *s)
{
    struct sl_buf many;
    int fd = call(s), other = call(s);
    const char *at;

    CASE("many requests at once are answered in order, and others meanwhile");
    sl_buf_init(&many, 1 << 20, &sl_alloc_libc);
    for (int i = 0; i < 150; i++)
        CHECK_EQ(sl_buf_addf(&many,
                             "GET /v1/deny HTTP/1.1\r\nHost: localhost\r\n"
                             "X-Sluice-Request-Id: n%d.\r\n\r\n",
                             i),
                 0);
    CHECK_EQ(sl_buf_add(&many, (struct sl_str){"", 1}), 0);
    say(fd, many.bytes);
    CHECK(answers(s, other, FREE, "200 OK"));
    at = hear(s, fd, "RATE_LIMITED", 150);
    for (int i = 0; i < 150 && at; i++) {
        char id[32];

        snprintf(id, sizeof(id), "X-Request-Id: n%d.\r\n", i);
        at = strstr(at, id);
    }
    CHECK(at != NULL);
    sl_buf_done(&many);
    close(fd);
    close(other);
}

static void test_slow_reader(struct served *s)
{
    static const char one[] = DENY;
    size_t count = 20000, size = count * (sizeof(one) - 1), sent = 0, answer;
    char *all = malloc(size + sizeof(one));
    int fd = call(s);

    CASE("a client that does not read is not served more, and loses nothing");
    say(fd, one);
    hear(s, fd, "RATE_LIMITED\"}", 1);
    answer = s->got.len;
    for (size_t i = 0; i < size; i += sizeof(one) - 1)
        memcpy(all + i, one, sizeof(one));
    for (unsigned stuck = 0; sent < size && stuck < 100;) {
        ssize_t n = send(fd, all + sent, size - sent, MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        stuck = n > 0 ? 0 : stuck + 1;
        turn(s);
    }
    CHECK(sent < size);
    sl_buf_clear(&s->got);
    for (unsigned i = 0; s->got.len < count * answer && i < 40000; i++) {
        ssize_t n =
            sent < size ? send(fd, all + sent, size - sent, MSG_NOSIGNAL) : 0;

        sent += n > 0 ? (size_t)n : 0;
        turn(s);
        CHECK(take_in(s, fd));
    }
    CHECK_EQ(s->got.len, count * answer);
    free(all);
    close(fd);
}

static void test_deadlines(struct served *s)
{
    int idle, head, body;

    s->door.begin_timeout = s->door.body_timeout = 1;
    CASE("a head and a body that do not come: 408");
    head = call(s);
    say(head, "GET / HT");
    CHECK(strncmp(hear(s, head, NULL, 0), "HTTP/1.1 408", 12) == 0);
    CHECK(strstr(s->got.bytes, "head of the request did not arrive") != NULL);
    CHECK(strstr(s->got.bytes, "Connection: close\r\n") != NULL);
    body = call(s);
    say(body, CHECK_HEAD "{\"path\"");
    CHECK(strncmp(hear(s, body, NULL, 0), "HTTP/1.1 408", 12) == 0);
    CHECK(strstr(s->got.bytes, "body of the request did not arrive") != NULL);
    close(head);
    close(body);

    CASE("an idle connection is closed without a word");
    s->door.idle_timeout = 1;
    idle = call(s);
    CHECK(is_over(s, idle));
    close(idle);
    WAIT_FOR(s, sl_conns_count(s->worker.conns) == 0);
    CHECK_EQ(refused(s, "http", "deadline"), 2);
    CHECK_EQ(counted(&s->counted, "sluice_connections{door=\"http\"}"), 0);
    s->door.begin_timeout = s->door.body_timeout = s->door.idle_timeout = 0;
}

static void test_cap(struct served *s)
{
    int a, b, c;

    sl_server_worker_close(&s->worker);
    serve_http(s, 2);
    CASE("one connection too many is closed, the others go on");
    a = call(s);
    b = call(s);
    c = call(s);
    CHECK(is_over(s, c));
    CHECK(answers(s, a, FREE, "200 OK") && answers(s, b, FREE, "200 OK"));
    CHECK_EQ(refused(s, "http", "too_many"), 1);
    close(a);
    close(b);
    close(c);
    sl_server_worker_close(&s->worker);
    serve_http(s, 100);
}

/* ---- answers that come later ---- */

static void test_late(struct served *s)
{
    static const char body[] = "[{\"path\":\"/a\",\"user\":\"b\"},"
                               "{\"path\":\"/a\",\"user\":\"b\"},"
                               "{\"path\":\"/a\",\"user\":\"b\"}]";
    int fd = call(s), other = call(s);
    char text[512];

    CASE("an answer that comes later is the same answer");
    late.on = true;
    say(fd, ASK("u1"));
    let_go_all(s, 1);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "200 OK") != NULL);

    CASE("requests of one connection are answered in order");
    say(fd, ASK("u1") ASK("u1") FREE);
    let_go_all(s, 2);
    hear(s, fd, "HTTP/1.1", 3);
    CHECK(strncmp(s->got.bytes, "HTTP/1.1 200", 12) == 0);
    CHECK(strstr(s->got.bytes, "HTTP/1.1 429") != NULL);

    CASE("others are served while one waits");
    say(fd, ASK("u2"));
    WAIT_FOR(s, late.take_count == 1);
    CHECK(answers(s, other, FREE, "200 OK"));
    let_go(0);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "200 OK") != NULL);

    CASE("checks of an array wait one after the other");
    snprintf(text, sizeof(text),
             "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
             "%zu\r\n\r\n%s",
             strlen(body), body);
    say(fd, text);
    let_go_all(s, 3);
    hear(s, fd, "}]", 1);
    CHECK(strstr(s->got.bytes, "[{\"allowed\":true,") != NULL);
    CHECK(strstr(s->got.bytes, "},{\"allowed\":true,") != NULL);
    CHECK(strstr(s->got.bytes, "},{\"allowed\":false,") != NULL);
    close(other);

    CASE("a client that leaves before its answer is not missed");
    say(fd, ASK("u3"));
    WAIT_FOR(s, late.take_count == 1);
    close(fd);
    turn(s);
    let_go(0);
    fd = call(s);
    say(fd, ASK("u3"));
    let_go_all(s, 1);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "Remaining: 0\r\n") != NULL);
    close(fd);
}

static void break_one(struct sl_conn *conn, void *ctx)
{
    (void)ctx;
    sl_conn_abort(conn);
}

/* The server loses all connections. */
static void lose(struct served *s, int fd)
{
    sl_conns_each(s->worker.conns, break_one, NULL);
    CHECK(is_over(s, fd));
    close(fd);
}

/* A request points into the bytes of its connection. When the connection is
 * lost, the next one gets its memory: a request that still reads there reads
 * the words of another client, and the address sanitizer notices it. */
static void test_lost(struct served *s)
{
    static const struct sl_engine_ctx engine_ctx = {.subjects = &late.subjects};
    int fd = call(s), other;

    CASE("what a broken connection has asked is answered to no client");
    say(fd, ASK("u4"));
    WAIT_FOR(s, late.take_count == 1);
    lose(s, fd);
    let_go(0);

    CASE("a request outlives its connection, and is decided by its own words");
    sl_server_worker_close(&s->worker);
    serve_http(s, 100);
    s->worker.engine_ctx = &engine_ctx;
    late.finding = true;
    fd = call(s);
    say(fd, ASK("kim"));
    WAIT_FOR(s, late.lookup_count == 1);
    lose(s, fd);
    other = call(s);
    say(other, ASK("eve"));
    WAIT_FOR(s, late.lookup_count == 2);
    answer_lookups();
    let_go_all(s, 2);
    CHECK(strstr(hear(s, other, "\r\n\r\n", 1), "Remaining: 1\r\n") != NULL);
    late.on = late.finding = false;
    CHECK(answers(s, other, ASK("kim"), "X-RateLimit-Remaining: 0\r\n"));
    CHECK(answers(s, other, ASK("eve"), "X-RateLimit-Remaining: 0\r\n"));
    close(other);
    late.on = late.finding = true;

    CASE("what the registry never answers is given back at the end");
    fd = call(s);
    say(fd, ASK("kim"));
    WAIT_FOR(s, late.lookup_count == 1);
    lose(s, fd);
    fd = call(s);
    say(fd, ASK("kim"));
    WAIT_FOR(s, late.lookup_count == 2);
    late.lookup_count = 0;
    late.finding = false;
    sl_server_worker_close(&s->worker);
    CHECK(is_over(s, fd));
    close(fd);
    serve_http(s, 100);
}

static void test_drain(struct served *s)
{
    int idle = call(s), busy = call(s), waits = call(s);

    CASE("draining closes the idle and answers the others");
    CHECK(answers(s, idle, FREE, "200 OK"));
    say(busy, CHECK_HEAD "{\"path\"");
    say(waits, ASK("u5") FREE);
    WAIT_FOR(s, late.take_count == 1);
    sl_server_drain(&s->worker);
    CHECK(is_over(s, idle));
    say(busy, ":\"/q\"}");
    let_go_all(s, 2);
    CHECK(strstr(hear(s, waits, NULL, 0), "Connection: close\r\n") != NULL);
    CHECK_EQ(count_in(s->got.bytes, "HTTP/1.1"), 1);
    CHECK(strstr(hear(s, busy, NULL, 0), "Connection: close\r\n") != NULL);
    CHECK(strstr(s->got.bytes, "\"allowed\":") != NULL);
    close(idle);
    close(busy);
    close(waits);

    CASE("what is never answered is given back at the end");
    sl_server_worker_close(&s->worker);
    serve_http(s, 100);
    idle = call(s);
    say(idle, ASK("u6"));
    WAIT_FOR(s, late.take_count == 1);
    sl_server_worker_close(&s->worker);
    CHECK(is_over(s, idle));
    close(idle);
}

int main(void)
{
    struct served s;

    serve_begin(&s, 0);
    s.door.max_pipeline = 8;
    serve_late(&s, policy);
    serve_http(&s, 100);
    test_bytes(&s);
    test_pipeline(&s);
    test_slow_reader(&s);
    test_deadlines(&s);
    test_cap(&s);
    test_late(&s);
    test_lost(&s);
    test_drain(&s);
    rig_close(&s.rig);
    serve_end(&s);
    return CHECK_DONE();
}
