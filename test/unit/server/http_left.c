/* http_left.c -- clients who are gone before the registry has answered.
 *
 * Lookups wait in a list until the test lets them go, on the server's loop. A
 * request points into the bytes of its connection; when that is lost, the next
 * one gets its memory, so that whoever still reads there reads the words of
 * somebody else (and is found out by the address sanitizer).
 */
#include <semaphore.h>

#include "served.h"

#define MOST 8

static const char policy_text[] =
    "sluice: 1\n"
    "identity: { user: [header.x-user-id] }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 2/min }\n"
    "routes:\n"
    "  - { match: /free, limits: [] }\n"
    "default: [minute]\n";

static struct {
    struct sl_subjects subjects;
    struct sl_lookup *waiting[MOST];
    unsigned count;
    sem_t come, gone;
} late;

static void on_find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    (void)subjects;
    if (late.count == MOST)
        abort();
    late.waiting[late.count++] = lookup;
    sem_post(&late.come);
}

static const struct sl_subjects_calls late_calls = {on_find};

/* On the loop: all that wait are told that the registry has nobody. */
static void let_go(void *ctx)
{
    unsigned count = late.count;

    (void)ctx;
    late.count = 0;
    for (unsigned i = 0; i < count; i++)
        late.waiting[i]->done(late.waiting[i]);
    sem_post(&late.gone);
}

static void answer(struct served *s)
{
    CHECK_EQ(sl_loop_post(s->loop, let_go, NULL), 0);
    sem_wait(&late.gone);
}

static void break_one(struct sl_conn *conn, void *ctx)
{
    (void)ctx;
    sl_conn_abort(conn);
}

/* On the loop: all peers are lost. */
static void break_all(void *ctx)
{
    sl_conns_each(((struct served *)ctx)->worker.conns, break_one, NULL);
}

static void lose(struct served *s, int fd)
{
    char byte;

    CHECK_EQ(sl_loop_post(s->loop, break_all, s), 0);
    CHECK(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
}

#define ASK(who)                                                               \
    "GET /v1/auth HTTP/1.1\r\nHost: h\r\nX-Original-URI: /x\r\n"               \
    "X-User-Id: " who "\r\n\r\n"

/* Somebody asks, and it shows how much he has left. */
static void check_left(struct served *s, int fd, const char *text,
                       const char *left)
{
    say(fd, text);
    sem_wait(&late.come);
    answer(s);
    CHECK(strstr(hear(s, fd, "\r\n\r\n", 1), left) != NULL);
}

static void test_lost(struct served *s)
{
    int fd = call(s), other;

    CASE("a request outlives its connection");
    say(fd, ASK("kim"));
    sem_wait(&late.come);
    lose(s, fd);
    other = call(s);
    say(other, ASK("eve"));
    sem_wait(&late.come);
    answer(s);
    hear(s, other, "\r\n\r\n", 1);
    CHECK(strstr(s->got.bytes, "X-RateLimit-Remaining: 1\r\n") != NULL);

    CASE("and is decided by its own words");
    check_left(s, other, ASK("kim"), "X-RateLimit-Remaining: 0\r\n");
    check_left(s, other, ASK("eve"), "X-RateLimit-Remaining: 0\r\n");
    close(other);
}

static void test_end(struct served *s)
{
    int fd = call(s);

    CASE("nobody answers, and nobody waits any more");
    say(fd, ASK("kim"));
    sem_wait(&late.come);
    lose(s, fd);
    fd = call(s);
    say(fd, ASK("kim"));
    sem_wait(&late.come);
    late.count = 0;
    stop(s);
    CHECK(is_over(fd));
    close(fd);
}

int main(void)
{
    static struct sl_engine_ctx station;
    struct served s;

    sem_init(&late.come, 0, 0);
    sem_init(&late.gone, 0, 0);
    late.subjects.calls = &late_calls;
    station.subjects = &late.subjects;
    served_open(&s);
    rig_close(&s.rig);
    rig_open(&s.rig, policy_text);
    start(&s, "127.0.0.1:0", 100);
    s.worker.station = &station;
    test_lost(&s);
    test_end(&s);
    served_close(&s);
    return CHECK_DONE();
}
