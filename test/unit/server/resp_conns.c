/* resp_conns.c -- connections of the resp server: pieces and pipelines,
 * deadlines, draining, and replies that come later. */
#include "serve.h"
#include "server/resp/resp.h"

static const char policy[] = "sluice: 1\n"
                             "limits:\n"
                             "  day: { kind: quota, per: user, rate: 20/day }\n"
                             "routes:\n"
                             "  - { match: /free, limits: [] }\n"
                             "default: [day]\n";

#define FREE  "SLUICE.CHECK GET /free as json\r\n"
#define FIRST "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n"
#define THEN  "*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n"

static struct served s;
static struct sl_server door = {.protocol = &sl_protocol_resp, .name = "resp"};
static struct sl_resp_worker worker;

static void start(void)
{
    must(open_worker(&worker.base, &door, &s, s.counted.stats[0], NULL, 100),
         "worker", NULL);
}

static int dial(void)
{
    return come(sl_server_accept, &worker, LOCAL);
}

/* What comes is `want`, and then nothing for a turn. */
static void check_hear(int fd, const char *want)
{
    hear(&s, fd, want, 1);
    turn(&s);
    take_in(&s, fd);
    CHECK_STR(s.got.bytes, want);
}

static void check_say(int fd, const char *text, const char *want)
{
    say(fd, text);
    check_hear(fd, want);
}

static void check_pieces(void)
{
    int fd = dial(), other = dial();

    CASE("commands come in pieces, and many at once");
    check_say(fd, "PING\r\n", "+PONG\r\n");
    say(fd, "CL.THROT");
    check_say(other, "PING\r\n", "+PONG\r\n");
    check_say(fd, "TLE a 0 1 60\r\nCL.THROTTLE a 0 1 60\r\n", FIRST THEN);
    close(fd);
    close(other);
}

/* How many decisions a time was taken of. */
static int64_t timed(void)
{
    return counted(&s.counted,
                   "sluice_decision_duration_seconds_count{door=\"resp\"}");
}

static void check_timed(void)
{
    int64_t before = timed();
    int fd = dial();

    CASE("checks in a row are timed together, and none is missed");
    say(fd, FREE FREE "PING\r\n" FREE "CL.THROTTLE timed 0 1 60\r\n" FREE
                      "QUIT\r\n");
    CHECK(strstr(hear(&s, fd, NULL, 0), "+OK\r\n") != NULL);
    CHECK_EQ(timed() - before, 5);
    close(fd);
}

/* More than are carried out in a turn, and more than fits into the socket. */
static void check_many(void)
{
    struct sl_buf text, want;
    size_t sent = 0;
    int fd = dial();

    CASE("a long pipeline is answered to the end, also if it is read late");
    sl_buf_init(&text, 64 << 20, &sl_alloc_libc);
    sl_buf_init(&want, 64 << 20, &sl_alloc_libc);
    for (int i = 0; i < 20000; i++) {
        CHECK_EQ(
            sl_buf_addf(&text, "*2\r\n$4\r\nECHO\r\n$100\r\n%0100d\r\n", i), 0);
        CHECK_EQ(sl_buf_addf(&want, "$100\r\n%0100d\r\n", i), 0);
    }
    sl_buf_clear(&s.got);
    for (unsigned i = 0; s.got.len < want.len && i < 40000; i++) {
        ssize_t n = send(fd, text.bytes + sent, text.len - sent, MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        turn(&s);
        if (n <= 0 || sent == text.len)
            CHECK(take_in(&s, fd));
    }
    CHECK(sl_str_eq(sl_buf_str(&s.got), sl_buf_str(&want)));
    sl_buf_done(&text);
    sl_buf_done(&want);
    close(fd);
}

static void check_deadlines(void)
{
    int fd;

    CASE("a command that does not come whole is given up, an idle one not");
    door.begin_timeout = SL_MS;
    fd = dial();
    check_say(fd, "PING\r\n", "+PONG\r\n");
    say(fd, "*1\r\n$4\r\nPI");
    CHECK(is_over(&s, fd));
    close(fd);

    CASE("and so is a client that has not sent its password");
    door.token = SL_STR("s3cret");
    fd = dial();
    CHECK(is_over(&s, fd));
    close(fd);
    door.token = SL_STR("");
    door.begin_timeout = 0;
    CHECK_EQ(refused(&s, "resp", "deadline"), 2);
}

/* ---- later ---- */

static void check_late(void)
{
    int fd = dial(), other = dial();
    int64_t before;

    late.on = true;
    CASE("replies that come later come in order");
    say(fd, "CL.THROTTLE l 0 1 60\r\nCL.THROTTLE b 0 1 60\r\nPING\r\n"
            "CL.THROTTLE l 0 1 60\r\n");
    WAIT_FOR(&s, late.take_count == 2);
    let_go(1);
    let_go(0);
    let_go_all(&s, 1);
    check_hear(fd, FIRST FIRST "+PONG\r\n" THEN);

    CASE("others are served while one waits");
    say(fd, "SLUICE.CHECK LIMIT day ann as json\r\nPING\r\n");
    WAIT_FOR(&s, late.take_count == 1);
    check_say(other, "PING\r\n", "+PONG\r\n");
    let_go(0);
    CHECK(strstr(hear(&s, fd, "PONG", 1), "{\"allowed\":true") != NULL);

    CASE("a late check has a time of its own");
    before = timed();
    say(other, FREE "SLUICE.CHECK LIMIT day bob as json\r\n");
    let_go_all(&s, 1);
    say(other, "QUIT\r\n");
    CHECK(strstr(hear(&s, other, NULL, 0), "+OK\r\n") != NULL);
    CHECK_EQ(timed() - before, 2);
    CHECK_EQ(counted(&s.counted, "sluice_decision_duration_seconds_bucket{"
                                 "door=\"resp\",le=\"1.0\"}"),
             timed());
    close(other);

    CASE("a wrong command among them waits for its turn");
    other = dial();
    say(other, "CL.THROTTLE c 0 1 60\r\nCL.THROTTLE c x 1 60\r\n*-1\r\n");
    let_go_all(&s, 1);
    CHECK_STR(hear(&s, other, NULL, 0),
              FIRST "-ERR max_burst must be a whole number, not 'x'\r\n-ERR "
                    "Protocol error: invalid multibulk length\r\n");
    close(fd);
    close(other);
}

static void check_leaving(void)
{
    int fd = dial(), other = dial();

    CASE("a client that leaves before its reply is not missed");
    say(fd, "CL.THROTTLE d 0 1 60\r\nCL.THROTTLE e 0 1 60\r\n");
    WAIT_FOR(&s, late.take_count == 2);
    close(fd);
    turn(&s);
    let_go_all(&s, 2);
    say(other, "CL.THROTTLE d 0 1 60\r\n");
    let_go_all(&s, 1);
    check_hear(other, THEN);
    say(other, "SLUICE.RESET LIMIT day ann\r\n");
    let_go_all(&s, 2); /* a look, and then the reset */
    check_hear(other, ":1\r\n");
    close(other);
}

static void check_drain(void)
{
    int fd = dial(), idle = dial();

    CASE("draining waits for what is asked, and closes what is idle");
    check_say(idle, "PING\r\n", "+PONG\r\n");
    say(fd, "CL.THROTTLE f 0 1 60\r\n");
    WAIT_FOR(&s, late.take_count == 1);
    sl_server_drain(&worker.base);
    CHECK(is_over(&s, idle));
    let_go(0);
    CHECK_STR(hear(&s, fd, NULL, 0), FIRST);
    close(fd);
    close(idle);

    CASE("what is never answered is given back at the end");
    sl_server_worker_close(&worker.base);
    start();
    fd = dial();
    say(fd, "CL.THROTTLE g 0 1 60\r\nSLUICE.CHECK LIMIT day ann\r\n");
    WAIT_FOR(&s, late.take_count == 1);
    sl_server_worker_close(&worker.base);
    CHECK(is_over(&s, fd));
    close(fd);
}

int main(void)
{
    serve_begin(&s, 1000 * SL_S);
    serve_late(&s, policy);
    s.rig.now = 1000 * SL_S;
    door.token = SL_STR("");
    start();
    check_pieces();
    check_timed();
    check_many();
    check_deadlines();
    check_late();
    check_leaving();
    check_drain();
    rig_close(&s.rig);
    serve_end(&s);
    return CHECK_DONE();
}
