/* resp_late.c -- the door for Redis clients on sockets, where the store answers
 * at once, or many turns later. */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "counted.h"
#include "late.h"
#include "net/listener.h"
#include "resp_talk.h"

/* ---- a server ---- */

struct served {
    struct rig rig;
    struct sl_clock clock;
    struct sl_loop *loop;
    struct sl_server door;
    struct sl_resp_worker worker;
    struct sl_sockets sockets;
    struct sl_listener *listener;
    struct counted counted;
    pthread_t thread;
};

static struct served s;
static struct sl_buf got;

static void must(int err, const char *what)
{
    if (!err)
        return;
    printf("Bail out! %s: %d\n", what, err);
    exit(1);
}

static void *run(void *ctx)
{
    (void)ctx;
    sl_loop_run(s.loop);
    return NULL;
}

static void start(const char *where)
{
    struct sl_address address;

    sl_clock_init_virtual(&s.clock, 1000 * SL_S);
    must(sl_loop_open(&s.clock, &s.loop, NULL), "loop");
    must(sl_address_parse(sl_str_c(where), &address, NULL), "address");
    must(sl_sockets_open(&address, 1, &s.sockets, NULL), "sockets");
    s.door.protocol = &sl_protocol_resp;
    s.door.name = "resp";
    sl_server_worker_init(&s.worker.base, &s.door, s.rig.engine,
                          s.counted.stats[0], NULL);
    must(sl_server_worker_open(&s.worker.base, s.loop, 100, NULL), "worker");
    must(sl_listener_open(s.loop, s.sockets.fds[0], sl_server_accept,
                          &s.worker.base, &s.listener),
         "listener");
    must(pthread_create(&s.thread, NULL, run, NULL), "thread");
}

static void stop(void)
{
    sl_loop_stop(s.loop);
    pthread_join(s.thread, NULL);
    sl_listener_close(s.listener);
    sl_server_worker_close(&s.worker.base);
    sl_sockets_close(&s.sockets);
    sl_loop_close(s.loop);
}

static void open_late(void)
{
    struct sl_policy *policy = rig_policy(talk_policy);

    rig_close(&s.rig);
    memset(&s.rig, 0, sizeof(s.rig));
    must(late_open(policy, &s.rig.engine, NULL), "engine");
    sl_policy_unref(policy);
    sl_decision_init(&s.rig.d, &sl_alloc_libc);
}

/* From the test: when so many have come, they may go. */
static void let_go(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        sem_wait(&late.come);
    for (unsigned i = 0; i < times; i++) {
        CHECK_EQ(sl_loop_post(s.loop, late_let_one_go, NULL), 0);
        sem_wait(&late.gone);
    }
}

/* ---- a client ---- */

static int call(void)
{
    const struct sl_address *to = &s.sockets.address;
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

/* Read `len` bytes, or to the end if that is 0. */
static const char *hear(int fd, size_t len)
{
    ssize_t n = 1;

    sl_buf_clear(&got);
    while (n > 0 && (len == 0 || got.len < len)) {
        if (sl_buf_reserve(&got, 65537))
            abort();
        n = recv(fd, got.bytes + got.len, len ? len - got.len : 65536, 0);
        got.len += n > 0 ? (size_t)n : 0;
    }
    if (sl_buf_reserve(&got, 1))
        abort();
    got.bytes[got.len] = '\0';
    return got.bytes;
}

static void check_say(int fd, const char *text, const char *want)
{
    say(fd, text);
    CHECK_STR(hear(fd, strlen(want)), want);
}

#define FIRST "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n"
#define THEN  "*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n"

/* ---- at once ---- */

static void check_sockets(void)
{
    int fd = call(), other = call();

    CASE("commands on a socket, in pieces and many at once");
    check_say(fd, "PING\r\n", "+PONG\r\n");
    say(fd, "CL.THROT");
    check_say(other, "PING\r\n", "+PONG\r\n");
    check_say(fd, "TLE a 0 1 60\r\nCL.THROTTLE a 0 1 60\r\n", FIRST THEN);

    CASE("QUIT closes, and so does HTTP");
    check_say(fd, "QUIT\r\n", "+OK\r\n");
    CHECK_STR(hear(fd, 0), "");
    say(other, "POST / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE b 0 1 60\r\n");
    CHECK_STR(hear(other, 0), "");
    close(fd);
    close(other);
    fd = call();
    check_say(fd, "CL.THROTTLE b 0 1 60\r\n", FIRST);
    close(fd);
}

/* How many decisions a time was taken of. The last reply comes after that. */
static int64_t timed(void)
{
    return counted(&s.counted,
                   "sluice_decision_duration_seconds_count{door=\"resp\"}");
}

static void check_timed(void)
{
#define FREE "SLUICE.CHECK GET /free as json\r\n"
    int64_t before = timed();
    int fd = call();

    CASE("checks in a row are timed together, and none is missed");
    say(fd, FREE FREE "PING\r\n" FREE "CL.THROTTLE timed 0 1 60\r\n" FREE
                      "QUIT\r\n");
    CHECK(strstr(hear(fd, 0), "+OK\r\n") != NULL);
    CHECK_EQ(timed() - before, 5);
    close(fd);
}

/* More than are carried out in a turn, and more than fits into the socket. */
static void check_many(void)
{
    struct sl_buf text;
    int fd = call();
    size_t sent = 0;

    CASE("a long pipeline is answered to the end, whoever reads it late");
    sl_buf_init(&text, 64 << 20, &sl_alloc_libc);
    for (int i = 0; i < 20000; i++)
        CHECK_EQ(
            sl_buf_addf(&text, "*2\r\n$4\r\nECHO\r\n$100\r\n%0100d\r\n", i), 0);
    for (int i = 0; i < 20000;) {
        char want[128];
        ssize_t n = send(fd, text.bytes + sent, text.len - sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        sent += n > 0 ? (size_t)n : 0;
        if (n > 0 && sent < text.len)
            continue;
        snprintf(want, sizeof(want), "$100\r\n%0100d\r\n", i++);
        if (!CHECK_STR(hear(fd, strlen(want)), want))
            break;
    }
    sl_buf_done(&text);
    close(fd);
}

static void check_deadlines(void)
{
    int fd;

    CASE("a command that does not come whole is given up, an idle one not");
    stop();
    s.door.begin_timeout = SL_MS;
    start("127.0.0.1:0");
    fd = call();
    check_say(fd, "PING\r\n", "+PONG\r\n");
    say(fd, "*1\r\n$4\r\nPI");
    CHECK_STR(hear(fd, 0), "");
    close(fd);

    CASE("and whoever has not said his password");
    stop();
    s.door.token = SL_STR("s3cret");
    start("127.0.0.1:0");
    fd = call();
    CHECK_STR(hear(fd, 0), "");
    close(fd);
    stop();
    s.door.token = SL_STR("");
    s.door.begin_timeout = 0;
    start("127.0.0.1:0");
    CHECK_EQ(
        counted(&s.counted,
                "sluice_http_refused_total{door=\"resp\",why=\"deadline\"}"),
        2);
}

/* ---- later ---- */

static void check_late(void)
{
    int fd = call(), other = call();

    CASE("replies that come later come in order");
    say(fd, "CL.THROTTLE a 0 1 60\r\nCL.THROTTLE b 0 1 60\r\nPING\r\n"
            "CL.THROTTLE a 0 1 60\r\n");
    late.backwards = true;
    let_go(2);
    late.backwards = false;
    let_go(1);
    CHECK_STR(hear(fd, strlen(FIRST FIRST "+PONG\r\n" THEN)),
              FIRST FIRST "+PONG\r\n" THEN);

    CASE("and others are served while one waits");
    say(fd, "SLUICE.CHECK JOB mail user ann as json\r\nPING\r\n");
    sem_wait(&late.come);
    check_say(other, "PING\r\n", "+PONG\r\n");
    sem_post(&late.come);
    let_go(1);
    CHECK(strstr(hear(fd, 200), "{\"allowed\":true") != NULL);

    CASE("one that is late has a time of its own");
    {
        int64_t before = timed();

        check_say(other, "PING\r\n", "+PONG\r\n");
        say(other, FREE "SLUICE.CHECK JOB mail user bob as json\r\n");
        let_go(1);
        say(other, "QUIT\r\n");
        CHECK(strstr(hear(other, 0), "+OK\r\n") != NULL);
        CHECK_EQ(timed() - before, 2);
        CHECK(counted(&s.counted, "sluice_decision_duration_seconds_bucket{"
                                  "door=\"resp\",le=\"1.0\"}") == timed());
        close(other);
        other = call();
    }

    CASE("a wrong one among them waits for its turn");
    check_say(other, "PING\r\n", "+PONG\r\n");
    say(other, "CL.THROTTLE c 0 1 60\r\nCL.THROTTLE c x 1 60\r\n*-1\r\n");
    let_go(1);
    CHECK_STR(hear(other, 0),
              FIRST "-ERR max_burst is a whole number, not 'x'\r\n-ERR "
                    "Protocol error: invalid multibulk length\r\n");
    close(fd);
    close(other);
}

static void check_leaving(void)
{
    struct linger at_once = {1, 0};
    int fd = call(), other = call();

    CASE("whoever leaves before his answer is not missed");
    say(fd, "CL.THROTTLE d 0 1 60\r\nCL.THROTTLE e 0 1 60\r\n");
    sem_wait(&late.come);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
    sem_post(&late.come);
    let_go(2);
    say(other, "CL.THROTTLE d 0 1 60\r\n");
    let_go(1);
    CHECK_STR(hear(other, strlen(THEN)), THEN);
    say(other, "SLUICE.RESET LIMIT day ann\r\n");
    let_go(1); /* a look, */
    let_go(1); /* and then it is forgotten */
    CHECK_STR(hear(other, 4), ":1\r\n");
    close(other);
}

static void drain(void *ctx)
{
    (void)ctx;
    sl_server_drain(&s.worker.base);
}

static void check_drain(void)
{
    int fd = call(), idle = call();

    CASE("draining waits for what is asked, and closes what is idle");
    check_say(idle, "PING\r\n", "+PONG\r\n");
    say(fd, "CL.THROTTLE f 0 1 60\r\n");
    sem_wait(&late.come);
    CHECK_EQ(sl_loop_post(s.loop, drain, NULL), 0);
    CHECK_STR(hear(idle, 0), "");
    sem_post(&late.come);
    let_go(1);
    CHECK_STR(hear(fd, 0), FIRST);
    close(fd);
    close(idle);
}

static void check_end(void)
{
    int fd = call();

    CASE("what nobody answers any more is given back at the end");
    say(fd, "CL.THROTTLE g 0 1 60\r\nSLUICE.CHECK JOB mail\r\n");
    sem_wait(&late.come);
    stop();
    CHECK_STR(hear(fd, 0), "");
    close(fd);
}

int main(void)
{
    sl_buf_init(&got, 64 << 20, &sl_alloc_libc);
    counted_open(&s.counted, 1);
    rig_open(&s.rig, talk_policy);
    start("127.0.0.1:0");
    check_sockets();
    check_timed();
    check_many();
    check_deadlines();
    stop();
    open_late();
    start("127.0.0.1:0");
    check_late();
    check_leaving();
    check_drain();
    stop();
    start("127.0.0.1:0");
    check_end();
    rig_close(&s.rig);
    counted_close(&s.counted);
    sl_buf_done(&got);
    return CHECK_DONE();
}
