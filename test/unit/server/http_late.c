/* http_late.c -- the server where the store answers many turns later. */
#include <sys/queue.h>

#include "late.h"
#include "served.h"

/* From the test: when it has come, it may go. */
static void let_go(struct served *s, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        sem_wait(&late.come);
        CHECK_EQ(sl_loop_post(s->loop, late_let_one_go, NULL), 0);
        sem_wait(&late.gone);
    }
}

static void open_engine(struct served *s)
{
    struct sl_policy *policy = rig_policy(served_policy);
    struct sl_diag diag = {.sentence = ""};

    rig_close(&s->rig);
    must(late_open(policy, &s->rig.engine, &diag), "engine", &diag);
    sl_policy_unref(policy);
}

#define ASK(who)                                                               \
    "GET /v1/auth HTTP/1.1\r\nHost: h\r\nX-Original-URI: /x?" who              \
    "\r\nX-Forwarded-For: " who "\r\n\r\n"

static void test_answers(struct served *s)
{
    int fd = call(s), other = call(s);

    CASE("an answer that comes later is the same answer");
    say(fd, ASK("192.0.2.1"));
    let_go(s, 1);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "200 OK") != NULL);
    CASE("requests of one connection are answered in order");
    say(fd, ASK("192.0.2.1") ASK("192.0.2.1") FREE);
    let_go(s, 2);
    hear(s, fd, "\r\n\r\n", 3);
    CHECK(strncmp(s->got.bytes, "HTTP/1.1 200", 12) == 0);
    CHECK(strstr(s->got.bytes, "HTTP/1.1 429") != NULL);
    CASE("and others are served while one waits");
    say(fd, ASK("192.0.2.2"));
    sem_wait(&late.come);
    say(other, FREE);
    CHECK(strstr(hear(s, other, "\r\n\r\n", 1), "200 OK") != NULL);
    sem_post(&late.come);
    let_go(s, 1);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), "200 OK") != NULL);
    close(fd);
    close(other);
}

static void test_array(struct served *s)
{
    static const char body[] = "[{\"path\":\"/a\",\"user\":\"b\"},"
                               "{\"path\":\"/a\",\"user\":\"b\"},"
                               "{\"path\":\"/a\",\"user\":\"b\"}]";
    char text[512];
    int fd = call(s);

    CASE("checks of an array wait one after the other");
    snprintf(text, sizeof(text),
             "POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: "
             "%zu\r\n\r\n%s",
             strlen(body), body);
    say(fd, text);
    let_go(s, 3);
    hear(s, fd, "}]", 1);
    CHECK(strstr(s->got.bytes, "[{\"allowed\":true,") != NULL);
    CHECK(strstr(s->got.bytes, "},{\"allowed\":true,") != NULL);
    CHECK(strstr(s->got.bytes, "},{\"allowed\":false,") != NULL);
    close(fd);
}

static void test_leaving(struct served *s)
{
    int fd = call(s), left = call(s);
    struct linger at_once = {1, 0};

    CASE("whoever leaves before his answer is not missed");
    say(fd, ASK("192.0.2.3"));
    sem_wait(&late.come);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
    sem_post(&late.come);
    let_go(s, 1);
    say(left, ASK("192.0.2.3"));
    let_go(s, 1);
    CHECK(strstr(hear(s, left, "\r\n\r\n", 1), "200 OK") != NULL);
    close(left);
}

static void break_one(struct sl_conn *conn, void *ctx)
{
    (void)ctx;
    sl_conn_abort(conn);
}

static void break_all(void *ctx)
{
    sl_conns_each(((struct served *)ctx)->worker.conns, break_one, NULL);
    sem_post(&late.gone);
}

static void test_breaking(struct served *s)
{
    int fd = call(s);

    CASE("what a broken connection has asked is answered to nobody");
    say(fd, ASK("192.0.2.6"));
    sem_wait(&late.come);
    CHECK_EQ(sl_loop_post(s->loop, break_all, s), 0);
    sem_wait(&late.gone);
    CHECK(recv(fd, &fd, 1, MSG_PEEK) <= 0);
    sem_post(&late.come);
    let_go(s, 1);
    close(fd);
}

static void drain(void *ctx)
{
    sl_server_drain(&((struct served *)ctx)->worker);
}

static void test_drain(struct served *s)
{
    int fd = call(s);

    CASE("draining waits for what is asked");
    say(fd, ASK("192.0.2.4") FREE);
    sem_wait(&late.come);
    CHECK_EQ(sl_loop_post(s->loop, drain, s), 0);
    sem_post(&late.come);
    let_go(s, 1);
    CHECK(strstr(hear(s, fd, NULL, 0), "Connection: close\r\n") != NULL);
    CHECK(is_over(fd));
    close(fd);
}

static void test_end(struct served *s)
{
    int fd = call(s);

    CASE("what nobody answers any more is given back at the end");
    say(fd, ASK("192.0.2.5"));
    sem_wait(&late.come);
    stop(s);
    CHECK(is_over(fd));
    close(fd);
}

int main(void)
{
    struct served s;

    served_open(&s);
    open_engine(&s);
    start(&s, "127.0.0.1:0", 100);
    test_answers(&s);
    test_array(&s);
    test_leaving(&s);
    test_breaking(&s);
    test_drain(&s);
    stop(&s);
    start(&s, "127.0.0.1:0", 100);
    test_end(&s);
    served_close(&s);
    return CHECK_DONE();
}
