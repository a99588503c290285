/* resp_commands.c -- every command of the door for Redis clients, and what it
 * says to whom. */
#include "fail.h"
#include "resp_talk.h"

static struct talk t;

/* Line by line: what is sent, what comes back. */
struct line {
    const char *send, *want;
};

static void check_lines(const struct line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!CHECK_STR(talk(&t, lines[i].send), lines[i].want))
            printf("# after %s\n", lines[i].send);
}

#define LINES(...)                                                             \
    check_lines((const struct line[]){__VA_ARGS__},                            \
                SL_LEN(((const struct line[]){__VA_ARGS__})))

static bool says(const char *send, const char *part)
{
    const char *got = talk(&t, send);

    if (strstr(got, part))
        return true;
    printf("# got %s\n", got);
    return false;
}

static void check_plain(void)
{
    CASE("what clients say to see whether anybody is there");
    LINES({"PING\r\n", "+PONG\r\n"}, {"ping hi\r\n", "$2\r\nhi\r\n"},
          {"ECHO \"a b\"\r\n", "$3\r\na b\r\n"}, {"\r\n", ""}, {"*0\r\n", ""},
          {"SELECT 0\r\n", "+OK\r\n"},
          {"SELECT 1\r\n", "-ERR DB index is out of range; only 0 exists\r\n"},
          {"CLUSTER INFO\r\n",
           "-ERR This instance has cluster support disabled\r\n"},
          {"CONFIG GET save\r\n", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
          {"CONFIG GET *\r\n", "*0\r\n"},
          {"PING\r\nPING\r\n", "+PONG\r\n+PONG\r\n"});
    CHECK(says("CONFIG SET a b\r\n", "-ERR only CONFIG GET"));
    CHECK(says("INFO\r\n", "redis_version:7.0.0\r\n"));
    CHECK(says("INFO server\r\n", "loading:0\r\n"));

    CASE("commands that there are not");
    LINES({"FLUSHALL\r\n", "-ERR unknown command 'FLUSHALL'\r\n"},
          {"GET a\r\n", "-ERR unknown command 'GET'\r\n"},
          {"cl.throtle a 1 1 1\r\n", "-ERR unknown command 'cl.throtle', did "
                                     "you mean 'cl.throttle'?\r\n"},
          {"*1\r\n$3\r\na\r\n\r\n", "-ERR unknown command 'a?\?'\r\n"},
          {"*1\r\n$0\r\n\r\n", "-ERR unknown command ''\r\n"},
          {"ECHO\r\n", "-ERR wrong number of arguments for 'echo' command\r\n"},
          {"CL.THROTTLE a 1 1\r\n",
           "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},
          {"SLUICE.SETTLE\r\n",
           "-ERR wrong number of arguments for 'sluice.settle' command\r\n"});

    CASE("the commands that there are");
    CHECK(says("COMMAND COUNT\r\n", ":20\r\n"));
    CHECK(says("COMMAND\r\n", "*20\r\n*6\r\n$11\r\ncl.throttle\r\n:-5\r\n"
                              "*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n"));
    LINES({"COMMAND INFO ping nothing\r\n",
           "*2\r\n*6\r\n$4\r\nping\r\n:-1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"
           "$-1\r\n"},
          {"COMMAND DOCS nothing echo\r\n",
           "*2\r\n$4\r\necho\r\n*4\r\n$7\r\nsummary\r\n$19\r\nAnswer the "
           "argument\r\n$5\r\ngroup\r\n$6\r\nsluice\r\n"},
          {"COMMAND LIST x\r\n", "*1\r\n$-1\r\n"});
    CHECK(says("COMMAND WHAT\r\n", "-ERR write COMMAND"));
}

static void check_client(void)
{
    CASE("a client's name for itself");
    LINES({"CLIENT GETNAME\r\n", "$-1\r\n"},
          {"CLIENT SETNAME me\r\n", "+OK\r\n"},
          {"CLIENT GETNAME\r\n", "$2\r\nme\r\n"},
          {"CLIENT SETINFO LIB-NAME x\r\n", "+OK\r\n"},
          {"CLIENT SETINFO lib-ver 1.2\r\n", "+OK\r\n"},
          {"CLIENT NO-EVICT on\r\n", "+OK\r\n"},
          {"CLIENT REPLY ON\r\n", "+OK\r\n"});
    CHECK(says("CLIENT LIST\r\n", "name=me age=0 db=0 resp=2 lib-name=x "
                                  "lib-ver=1.2\n"));
    CHECK(says("CLIENT ID\r\n", ":"));
    CHECK(says("CLIENT SETNAME \"a b\"\r\n", "-ERR Client names cannot"));
    CHECK(says("CLIENT SETINFO x y\r\n", "-ERR Unrecognized option 'x'"));
    CHECK(says("CLIENT SETINFO lib-name \"a b\"\r\n", "-ERR lib-name cannot"));
    CHECK(says("CLIENT REPLY OFF\r\n", "-ERR Unknown subcommand"));
    CHECK(says("CLIENT MAINT_NOTIFICATIONS ON\r\n", "-ERR Unknown subcommand"));

    CASE("HELLO chooses the version");
    CHECK(says("HELLO\r\n", "*14\r\n$6\r\nserver\r\n$6\r\nsluice\r\n"));
    CHECK(says("HELLO 3 SETNAME you\r\n", "%7\r\n$6\r\nserver\r\n"));
    CHECK(says("HELLO\r\n", "$5\r\nproto\r\n:3\r\n"));
    LINES({"CLIENT GETNAME\r\n", "$3\r\nyou\r\n"},
          {"CONFIG GET x\r\n", "%0\r\n"},
          {"HELLO 4\r\n", "-NOPROTO unsupported protocol version\r\n"},
          {"HELLO x\r\n", "-NOPROTO unsupported protocol version\r\n"},
          {"HELLO 2 SETNAME\r\n", "-ERR Syntax error in HELLO\r\n"});
    CHECK(says("HELLO 3 SETNAME \"a b\"\r\n", "-ERR Client names cannot"));

    CASE("RESET begins again");
    LINES({"RESET\r\n", "+RESET\r\n"}, {"CLIENT GETNAME\r\n", "$-1\r\n"},
          {"CONFIG GET x\r\n", "*0\r\n"});

    CASE("QUIT ends it, and what follows is not carried out");
    LINES({"QUIT\r\nPING\r\n", "+OK\r\n"});
    CHECK_EQ(t.served, SL_RESP_ENDED);
    talk_again(&t);
}

/* ---- passwords ---- */

static void check_password(void)
{
    static const char noauth[] = "-NOAUTH Authentication required.\r\n";
    static const char wrong[] =
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

    CASE("where there is no password nobody needs one");
    CHECK(says("AUTH x\r\n", "-ERR AUTH <password> called without"));
    CHECK(says("HELLO 3 AUTH default x\r\n", "-ERR AUTH <password> called"));

    CASE("where there is one, nothing goes without it");
    talk_close(&t);
    talk_open(&t, "s3cret", NULL);
    LINES({"PING\r\n", noauth}, {"CL.THROTTLE a 1 1 1\r\n", noauth},
          {"SLUICE.CHECK GET /x\r\n", noauth}, {"NOTHING\r\n", noauth},
          {"INFO\r\n", noauth}, {"AUTH s3cre\r\n", wrong},
          {"AUTH s3crets\r\n", wrong}, {"AUTH \"\"\r\n", wrong},
          {"AUTH ann s3cret\r\n", wrong}, {"PING\r\n", noauth});
    CHECK(says("HELLO 3\r\n", "-NOAUTH HELLO must be called"));
    LINES({"HELLO 3 AUTH default x\r\n", wrong}, {"PING\r\n", noauth});

    CASE("with it all does");
    LINES({"AUTH s3cret\r\nPING\r\n", "+OK\r\n+PONG\r\n"},
          {"RESET\r\n", "+RESET\r\n"}, {"PING\r\n", noauth},
          {"AUTH default s3cret\r\n", "+OK\r\n"});
    talk_again(&t);
    CHECK(says("HELLO 3 AUTH default s3cret\r\n", "%7\r\n"));
    LINES({"PING\r\n", "+PONG\r\n"});

    CASE("it can't be guessed for long");
    talk_again(&t);
    for (int i = 0; i < 10; i++)
        LINES({"AUTH x\r\n", wrong});
    CHECK_EQ(t.served, SL_RESP_ENDED);

    CASE("a stranger does not send much");
    talk_again(&t);
    CHECK(says("a b c d e f g h i j k\r\n", "-ERR Protocol error: unauth"));
    CHECK_EQ(t.served, SL_RESP_ENDED);
    talk_close(&t);
    talk_open(&t, "", NULL);
}

/* ---- HTTP ---- */

static void check_http(void)
{
    static const char *const requests[] = {
        "POST / HTTP/1.1\r\n\r\nCL.THROTTLE web 0 1 60\r\n",
        "post /\r\nCL.THROTTLE web 0 1 60\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nCL.THROTTLE web 0 1 60\r\n",
        "Host: x\r\nCL.THROTTLE web 0 1 60\r\n",
        "OPTIONS * HTTP/1.0\r\nCL.THROTTLE web 0 1 60\r\n",
        "*2\r\n$4\r\nPOST\r\n$1\r\n/\r\nCL.THROTTLE web 0 1 60\r\n",
    };

    CASE("what speaks HTTP is closed, and nothing of it is carried out");
    for (size_t i = 0; i < SL_LEN(requests); i++) {
        CHECK_STR(talk(&t, requests[i]), "");
        CHECK_EQ(t.served, SL_RESP_ENDED);
        sl_buf_clear(&t.in);
        talk_again(&t);
    }
    LINES({"CL.THROTTLE web 0 1 60\r\n", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n"
                                         ":60\r\n"});

    CASE("what is no command is refused, and ends it");
    CHECK_STR(talk(&t, "PING\r\n*-1\r\nPING\r\n"),
              "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n");
    CHECK_EQ(t.served, SL_RESP_ENDED);
    sl_buf_clear(&t.in);
    talk_again(&t);
    CHECK_STR(talk(&t, "CL.THROTTLE z 0 1 60\r\n\"\r\n"),
              "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n-ERR Protocol error: "
              "unbalanced quotes in request\r\n");
    CHECK_EQ(t.served, SL_RESP_ENDED);
    sl_buf_clear(&t.in);
    talk_again(&t);
}

/* ---- without memory ---- */

static void check_no_memory(void)
{
    static const char script[] =
        "HELLO 3\r\nCL.THROTTLE a 1 1 1\r\nTHROTTLE b 1 1 1\r\n"
        "SLUICE.CHECK GET /x user ann\r\nSLUICE.CHECK JOB mail as json\r\n"
        "SLUICE.EXPLAIN GET /x\r\nSLUICE.RESET THROTTLE a\r\n"
        "SLUICE.RESET LIMIT day ann\r\nCOMMAND\r\n";

    CASE("without memory it says so, or the connection is given up");
    for (unsigned nth = 1; nth < 60; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct talk own;

        talk_open(&own, "", &alloc);
        sl_buf_done(&own.out);
        sl_buf_init(&own.out, 8 << 20, &alloc);
        CHECK_EQ(sl_buf_add(&own.in, sl_str_c(script)), 0);
        own.served = sl_resp_serve(&own.session, &own.in, 100);
        CHECK(own.served == SL_RESP_EMPTY ||
              (own.served == SL_RESP_ENDED && own.session.broken));
        talk_close(&own);
        fail_check(&f);
        if (f.calls < nth)
            break;
    }
}

int main(void)
{
    talk_open(&t, "", NULL);
    check_plain();
    check_client();
    check_password();
    check_http();
    talk_close(&t);
    check_no_memory();
    return CHECK_DONE();
}
