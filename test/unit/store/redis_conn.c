/* redis_conn.c -- one connection to one Redis: every end that a command can
 * have. */
#include "store/redis/redis_int.h"

#include "fail.h"
#include "fake.h"

#define COMMAND "*1\r\n$3\r\nGET\r\n"

struct
try {
    struct sl_redis_wire_cmd wire; /* first */
    unsigned done;
    enum sl_redis_result result;
    char reply[64];
};

struct world {
    struct fake fake;
    struct sl_redis_conn *conn;
    unsigned ups, downs;
    char why[256];
};

static void on_done(struct sl_redis_wire_cmd *wire, enum sl_redis_result result,
                    struct sl_str reply)
{
    struct try *t = (struct try *)wire;

    t->done++;
    t->result = result;
    snprintf(t->reply, sizeof(t->reply), "%.*s", SL_STR_ARG(reply));
}

static void on_change(void *ctx, bool up, const char *why)
{
    struct world *w = ctx;

    w->ups += up;
    w->downs += !up;
    snprintf(w->why, sizeof(w->why), "%s", why);
}

static struct sl_redis_conn_options options_of(struct world *w)
{
    return (struct sl_redis_conn_options){
        .conns = w->fake.rig.conns,
        .loop = w->fake.rig.loop,
        .name = w->fake.path,
        .most = 4,
        .patience = 10 * SL_S,
        .alloc = &sl_alloc_libc,
        .on_change = on_change,
        .ctx = w,
    };
}

static void open_with(struct world *w,
                      const struct sl_redis_conn_options *options)
{
    memset(&w->ups, 0, sizeof(*w) - offsetof(struct world, ups));
    CHECK_EQ(sl_redis_conn_open(options, &w->conn), 0);
}

static void come_up(struct world *w)
{
    unsigned ups = w->ups;

    fake_wait_greeting(&w->fake);
    WAIT_FOR(&w->fake.rig, w->ups > ups);
}

static void close_link(struct world *w)
{
    sl_redis_conn_close(w->conn);
    turn(&w->fake.rig);
    fake_hang_up(&w->fake);
}

static void start(struct world *w, struct try *t)
{
    memset(t, 0, sizeof(*t));
    t->wire.command = SL_STR(COMMAND);
    t->wire.done = on_done;
    sl_redis_conn_send(w->conn, &t->wire);
}

static void test_greeting(struct world *w)
{
    struct sl_redis_conn_options o = options_of(w);
    const char *command = NULL;

    CASE("it says who it is, chooses its database and asks for life");
    o.user = SL_STR("ann");
    o.password = SL_STR("word");
    o.database = 7;
    open_with(w, &o);
    fake_wait_call(&w->fake);
    command = fake_wait(&w->fake);
    CHECK_STR(command, "*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$4\r\nword\r\n");
    command = fake_wait(&w->fake);
    CHECK_STR(command, "*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n");
    command = fake_wait(&w->fake);
    CHECK_STR(command, "*1\r\n$4\r\nPING\r\n");
    fake_says(&w->fake, "+OK\r\n+OK\r\n");
    turn(&w->fake.rig);
    CHECK(!sl_redis_conn_is_up(w->conn));
    fake_says(&w->fake, "+PONG\r\n");
    WAIT_FOR(&w->fake.rig, sl_redis_conn_is_up(w->conn));
    CHECK_EQ(w->ups, 1);
    close_link(w);

    CASE("a greeting that is refused ends it, with a reason fit to be shown");
    o = options_of(w);
    open_with(w, &o);
    struct try t;
    start(w, &t);
    CHECK_EQ(sl_redis_conn_count(w->conn), 1);
    fake_wait_call(&w->fake);
    fake_wait(&w->fake);
    fake_says(&w->fake, "-NOAUTH \x1b[31m no\r\n");
    WAIT_FOR(&w->fake.rig, w->downs == 1);
    CHECK_STR(w->why, "Redis answers: NOAUTH ?[31m no");
    CHECK_EQ(t.done, 1);
    CHECK_EQ(t.result, SL_REDIS_NOT_SENT);
    CHECK(!sl_redis_conn_is_accepting(w->conn));
    CHECK(sl_redis_conn_reconnect_in(w->conn) > 0);
    close_link(w);
}

static void test_order(struct world *w)
{
    struct sl_redis_conn_options o = options_of(w);
    struct try t[5];

    CASE("replies come in order, pushes between them are ignored");
    open_with(w, &o);
    for (unsigned i = 0; i < 2; i++)
        start(w, &t[i]); /* it is not up yet */
    come_up(w);
    for (unsigned i = 2; i < 5; i++)
        start(w, &t[i]);
    CHECK_EQ(t[4].done, 1); /* one too many */
    CHECK_EQ(t[4].result, SL_REDIS_NOT_SENT);
    for (unsigned i = 0; i < 4; i++)
        fake_wait(&w->fake);
    fake_says(&w->fake, ":0\r\n:1\r\n>1\r\n+push\r\n:2\r\n:");
    WAIT_FOR(&w->fake.rig, t[2].done);
    CHECK_STR(t[0].reply, ":0\r\n");
    CHECK_STR(t[2].reply, ":2\r\n");
    CHECK_EQ(t[3].done, 0);
    fake_says(&w->fake, "3\r\n");
    WAIT_FOR(&w->fake.rig, t[3].done);
    CHECK_EQ(sl_redis_conn_count(w->conn), 0);

    CASE("ASKING goes before a command, and its reply is passed over");
    memset(&t[0], 0, sizeof(t[0]));
    t[0].wire = (struct sl_redis_wire_cmd){
        .command = SL_STR(COMMAND), .asking = true, .done = on_done};
    sl_redis_conn_send(w->conn, &t[0].wire);
    const char *command = NULL;
    command = fake_wait(&w->fake);
    CHECK_STR(command, "*1\r\n$6\r\nASKING\r\n");
    command = fake_wait(&w->fake);
    CHECK_STR(command, COMMAND);
    fake_says(&w->fake, "+OK\r\n:9\r\n");
    WAIT_FOR(&w->fake.rig, t[0].done);
    CHECK_STR(t[0].reply, ":9\r\n");
    close_link(w);
}

/* The peer says `said` and hangs up. */
static void test_cut(struct world *w, const char *said, size_t len)
{
    struct sl_redis_conn_options o = options_of(w);
    bool whole = len == strlen(said);
    struct try t[2];

    open_with(w, &o);
    come_up(w);
    start(w, &t[0]);
    start(w, &t[1]);
    fake_wait(&w->fake);
    fake_say(&w->fake, said, len);
    fake_hang_up(&w->fake);
    WAIT_FOR(&w->fake.rig, w->downs == 1);
    CHECK_EQ(t[0].done, 1);
    CHECK_EQ(t[0].result, whole ? SL_REDIS_REPLIED : SL_UNCERTAIN);
    CHECK_EQ(t[1].done, 1);
    CHECK_EQ(t[1].result, SL_UNCERTAIN);
    come_up(w); /* it calls again by itself */
    close_link(w);
}

/* A command that no socket takes whole. */
static void start_large(struct world *w, struct try *t)
{
    static char text[4 << 20];

    memset(text, 'x', sizeof(text));
    memset(t, 0, sizeof(*t));
    t->wire.command = (struct sl_str){text, sizeof(text)};
    t->wire.done = on_done;
    sl_redis_conn_send(w->conn, &t->wire);
}

TEST_WITH(broken, struct world *w)
{
    static const char *const garbage[] = {"?\r\n",    "HTTP/1.1 400 No\r\n",
                                          ":12x\r\n", "$99999999999\r\n",
                                          "*-7\r\n",  "\0\0\0\r\n"};
    struct sl_redis_conn_options o = options_of(w);
    struct try t;

    for (unsigned i = 0; i < SL_LEN(garbage); i++) {
        CASE("what is no reply ends the connection");
        open_with(w, &o);
        come_up(w);
        start(w, &t);
        fake_say(&w->fake, garbage[i], i == 5 ? 5 : strlen(garbage[i]));
        WAIT_FOR(&w->fake.rig, w->downs == 1);
        CHECK_STR(w->why, "the reply is not valid RESP (Redis protocol)");
        CHECK_EQ(t.done, 1);
        CHECK_EQ(t.result, SL_UNCERTAIN);
        close_link(w);
    }
    CASE("so does an answer to nothing");
    open_with(w, &o);
    come_up(w);
    fake_says(&w->fake, "+OK\r\n");
    WAIT_FOR(&w->fake.rig, w->downs == 1);
    CHECK_STR(w->why, "unexpected reply");
    close_link(w);

    CASE("and silence");
    o.patience = 200 * SL_MS;
    open_with(w, &o);
    come_up(w);
    start(w, &t);
    WAIT_FOR(&w->fake.rig, w->downs == 1);
    CHECK_STR(w->why, "no reply in time");
    CHECK_EQ(t.result, SL_UNCERTAIN);
    close_link(w);
}

TEST_WITH(not_sent, struct world *w)
{
    struct sl_redis_conn_options o = options_of(w);
    struct try t, large, last;

    CASE("commands that a server can't have when it is gone are not sent");
    open_with(w, &o);
    come_up(w);
    start(w, &t);
    turn(&w->fake.rig);
    start_large(w, &large);
    start(w, &last);
    turn(&w->fake.rig);
    CHECK(sl_redis_conn_is_written(w->conn, &t.wire));
    CHECK(!sl_redis_conn_is_written(w->conn, &large.wire));
    CHECK(!sl_redis_conn_is_written(w->conn, &last.wire));
    fake_hang_up(&w->fake);
    WAIT_FOR(&w->fake.rig, w->downs == 1);
    CHECK_EQ(t.result, SL_UNCERTAIN);
    CHECK_EQ(large.done, 1);
    CHECK_EQ(large.result, SL_REDIS_NOT_SENT); /* a part of it was written */
    CHECK_EQ(last.done, 1);
    CHECK_EQ(last.result, SL_REDIS_NOT_SENT);
    close_link(w);

    CASE("no server is there");
    o.name = "/nowhere/at/all";
    open_with(w, &o);
    start(w, &t);
    CHECK_EQ(t.done, 1);
    CHECK_EQ(t.result, SL_REDIS_NOT_SENT);
    CHECK_STR(w->why, "cannot connect");
    close_link(w);
}

TEST_WITH(recall, struct world *w)
{
    struct sl_redis_conn_options o = options_of(w);
    struct try t[3];

    CASE("what was not sent can be taken back");
    open_with(w, &o);
    for (unsigned i = 0; i < 3; i++)
        start(w, &t[i]);
    CHECK(sl_redis_conn_cancel(w->conn, &t[1].wire));
    CHECK_EQ(sl_redis_conn_count(w->conn), 2);
    come_up(w);
    CHECK(!sl_redis_conn_cancel(w->conn, &t[0].wire));
    fake_wait(&w->fake);
    fake_says(&w->fake, ":0\r\n:2\r\n");
    WAIT_FOR(&w->fake.rig, t[2].done);
    CHECK_STR(t[2].reply, ":2\r\n");
    CHECK_EQ(t[1].done, 0);

    CASE("one that is called anew ends what it had, and comes up again");
    start(w, &t[0]);
    turn(&w->fake.rig);
    sl_redis_conn_reconnect(w->conn, "we want another");
    CHECK_EQ(t[0].result, SL_UNCERTAIN);
    CHECK_EQ(w->downs, 1);
    start(w, &t[1]); /* it waits */
    CHECK_EQ(t[1].done, 0);
    come_up(w);
    fake_wait(&w->fake);
    close_link(w);
    CHECK_EQ(t[1].done, 1);
    CHECK_EQ(t[1].result, SL_UNCERTAIN);
}

/* With the nth allocation failing: every command ends once, nothing is left. */
TEST_WITH(memory, struct world *w)
{
    unsigned n = 1;

    CASE("without memory it fails, and says so");
    for (bool failed = true; failed && n < 100; n++) {
        struct fail fail = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&fail);
        struct sl_redis_conn_options o = options_of(w);
        struct try t;

        o.alloc = &alloc;
        memset(&w->ups, 0, sizeof(*w) - offsetof(struct world, ups));
        if (sl_redis_conn_open(&o, &w->conn) == 0) {
            start(w, &t);
            for (unsigned i = 0; i < 200 && !t.done; i++) {
                fake_greeted(&w->fake);
                fake_says(&w->fake, w->ups && i % 8 == 7 ? ":1\r\n" : "");
                step(&w->fake.rig, i);
            }
            close_link(w);
            CHECK_EQ(t.done, 1);
        }
        sl_conns_close(w->fake.rig.conns);
        CHECK_EQ(sl_conns_open(w->fake.rig.loop, 100, &w->fake.rig.conns), 0);
        failed = fail.calls >= n;
        fail_check(&fail);
    }
    CHECK(n > 5);
}

int main(void)
{
    static struct world w;
    static const char reply[] = "*2\r\n:1\r\n$2\r\nab\r\n";

    fake_open(&w.fake);
    test_greeting(&w);
    test_order(&w);
    CASE("a reply that is cut anywhere is none");
    for (size_t len = 0; len <= strlen(reply); len++)
        test_cut(&w, reply, len);
    RUN_TESTS_WITH(&w);
    fake_close(&w.fake);
    return CHECK_DONE();
}
