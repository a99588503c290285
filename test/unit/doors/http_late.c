/* http_late.c -- the server where the store answers many turns later.
 *
 * The store is that of memory, behind a list in which takes wait until the test
 * lets them go, all or one by one, on the server's loop.
 */
#include <semaphore.h>
#include <sys/queue.h>

#include "served.h"

#define MOST 64

static struct {
    struct sl_store store;
    struct sl_store *memory;
    struct sl_take *waiting[MOST];
    unsigned count;
    sem_t come; /* one for each that has come */
    sem_t gone;
} late;

static int on_bind(struct sl_store *store, struct sl_stored *limits,
                   unsigned count, struct sl_diag *diag)
{
    (void)store;
    return sl_store_bind(late.memory, limits, count, diag);
}

static int on_tighten(struct sl_store *store, const struct sl_stored *limit,
                      const struct sl_limit *strictest)
{
    (void)store;
    return sl_store_tighten(late.memory, limit, strictest);
}

static void on_take(struct sl_store *store, struct sl_take *take)
{
    (void)store;
    if (late.count == MOST)
        abort();
    late.waiting[late.count++] = take;
    sem_post(&late.come);
}

static void on_close(struct sl_store *store)
{
    (void)store;
    sl_store_close(late.memory);
}

static const struct sl_store_calls late_calls = {
    .bind = on_bind,
    .tighten = on_tighten,
    .take = on_take,
    .close = on_close,
};

/* On the loop: the first that waits is answered. */
static void let_one_go(void *ctx)
{
    struct sl_take *take = late.waiting[0];

    (void)ctx;
    late.count--;
    for (unsigned i = 0; i < late.count; i++)
        late.waiting[i] = late.waiting[i + 1];
    sl_store_take(late.memory, take);
    sem_post(&late.gone);
}

/* From the test: when it has come, it may go. */
static void let_go(struct served *s, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        sem_wait(&late.come);
        CHECK_EQ(sl_loop_post(s->loop, let_one_go, NULL), 0);
        sem_wait(&late.gone);
    }
}

static void open_engine(struct served *s)
{
    struct sl_memory_options memory = {.size = 1 << 20};
    struct sl_engine_options options = {.store = &late.store};
    struct sl_policy *policy = rig_policy(served_policy);
    struct sl_diag diag = {.sentence = ""};

    rig_close(&s->rig);
    must(sl_memory_open(&memory, &late.memory, &diag), "memory", &diag);
    late.store.calls = &late_calls;
    late.store.secret = late.memory->secret;
    must(sl_engine_open(&options, policy, &s->rig.engine, &diag), "engine",
         &diag);
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
    sl_http_drain(&((struct served *)ctx)->worker);
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

    sem_init(&late.come, 0, 0);
    sem_init(&late.gone, 0, 0);
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
