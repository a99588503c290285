/* resp_throttle.c -- CL.THROTTLE and THROTTLE: the five integers. */
#include "resp_talk.h"

static struct talk t;

static void check_reply(const char *send, const char *want)
{
    char line[256], reply[512];
    size_t len = 0;

    snprintf(line, sizeof(line), "%s\r\n", send);
    /* "0 16 15 -1 2" as it is sent */
    if (want[0] != '-' || (want[1] >= '0' && want[1] <= '9')) {
        len = (size_t)snprintf(reply, sizeof(reply), "*5\r\n:");
        for (; *want; want++)
            len += (size_t)snprintf(reply + len, sizeof(reply) - len, "%.*s",
                                    *want == ' ' ? 3 : 1,
                                    *want == ' ' ? "\r\n:" : want);
        snprintf(reply + len, sizeof(reply) - len, "\r\n");
    } else {
        snprintf(reply, sizeof(reply), "%s\r\n", want);
    }
    if (!CHECK_STR(talk(&t, line), reply))
        printf("# after %s\n", send);
}

/* ---- redis-cell's own rows ---- */

static const struct row {
    sl_ns at;
    const char *send, *want;
} rows[] = {
#define ROW(at, send, want) {at, send, want},
#include "throttle.def"
};

static void check_rows(void)
{
    CASE("the rows of redis-cell, and rounding up");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        talk_at(&t, rows[i].at);
        check_reply(rows[i].send, rows[i].want);
    }
}

static void check_wrong(void)
{
    CASE("what is no number is named");
    check_reply("CL.THROTTLE a x 1 1",
                "-ERR max_burst must be a whole number, not 'x'");
    check_reply("CL.THROTTLE a 1 1.5 1",
                "-ERR count must be a whole number, not '1.5'");
    check_reply("CL.THROTTLE a 1 1 \"\"",
                "-ERR period must be a whole number, not ''");
    check_reply(
        "CL.THROTTLE a 1 1 1 9223372036854775808",
        "-ERR quantity must be a whole number, not '9223372036854775808'");
    check_reply("CL.THROTTLE a -1 1 1",
                "-ERR the burst is out of range; the maximum is 4294967294");
    check_reply("CL.THROTTLE a 9223372036854775807 1 1",
                "-ERR the burst is out of range; the maximum is 4294967294");
    check_reply("CL.THROTTLE a 1 0 1", "-ERR Zero rates are not supported: "
                                       "count and period must be at least 1");
    check_reply("CL.THROTTLE a 1 1 0", "-ERR Zero rates are not supported: "
                                       "count and period must be at least 1");
    check_reply(
        "THROTTLE a 1 1 1 -1",
        "-ERR quantity must not be negative; use CL.THROTTLE to refund");
    check_reply("CL.THROTTLE a 1 1 1 -9223372036854775808", "0 2 2 -1 0");

    CASE("among others, a wrong one is answered in its place");
    CHECK_STR(talk(&t, "CL.THROTTLE p 1 1 60\r\nCL.THROTTLE p x 1 60\r\n"
                       "PING\r\nCL.THROTTLE p 1 1 60\r\n"),
              "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n"
              "-ERR max_burst must be a whole number, not 'x'\r\n+PONG\r\n"
              "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:120\r\n");
    CHECK_STR(talk(&t, "CL.THROTTLE q 0 1 60\r\nTHROTTLE q\r\n"),
              "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n"
              "-ERR wrong number of arguments for 'throttle' command\r\n");
}

/* Three hundred in one piece, more than are asked at once. */
static void check_pipeline(void)
{
    struct sl_buf send, want;

    CASE("a pipeline is answered in order, however long");
    sl_buf_init(&send, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&want, 1 << 20, &sl_alloc_libc);
    for (int i = 0; i < 300; i++) {
        CHECK_EQ(sl_buf_addf(&send, "CL.THROTTLE k%d 2 1 60\r\n%s", i % 75,
                             i % 50 == 49 ? "ECHO x\r\n" : ""),
                 0);
        CHECK_EQ(sl_buf_addf(&want,
                             "*5\r\n:%d\r\n:3\r\n:%d\r\n:%d\r\n:%d\r\n"
                             "%s",
                             i >= 225, i < 225 ? 2 - i / 75 : 0,
                             i >= 225 ? 60 : -1,
                             i < 225 ? 60 * (i / 75 + 1) : 180,
                             i % 50 == 49 ? "$1\r\nx\r\n" : ""),
                 0);
    }
    CHECK_EQ(sl_buf_add(&want, (struct sl_str){"", 1}), 0);
    CHECK_STR(talk_bytes(&t, sl_buf_str(&send)), want.bytes);
    sl_buf_done(&send);
    sl_buf_done(&want);
}

static void check_keys(void)
{
    static const char nul[] = "*5\r\n$11\r\nCL.THROTTLE\r\n$3\r\na\0b\r\n"
                              "$1\r\n0\r\n$1\r\n1\r\n$2\r\n60\r\n";
    static const char first[] = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n";
    static const char then[] = "*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n";
    struct sl_str bytes = {nul, sizeof(nul) - 1};

    CASE("a key is of any bytes, or none");
    CHECK_STR(talk_bytes(&t, bytes), first);
    CHECK_STR(talk_bytes(&t, bytes), then);
    CHECK_STR(talk(&t, "CL.THROTTLE \"a\\x00c\" 0 1 60\r\n"), first);
    CHECK_STR(talk(&t, "CL.THROTTLE \"\" 0 1 60\r\n"), first);
    CHECK_STR(talk(&t, "CL.THROTTLE \"\" 0 1 60\r\n"), then);

    CASE("and can be forgotten");
    CHECK_STR(talk(&t, "SLUICE.RESET THROTTLE \"\"\r\n"), ":1\r\n");
    CHECK_STR(talk(&t, "CL.THROTTLE \"\" 0 1 60\r\n"), first);
    CHECK_STR(talk_bytes(&t, bytes), then);
}

int main(void)
{
    talk_open(&t, "", NULL);
    check_rows();
    check_wrong();
    check_pipeline();
    check_keys();
    talk_close(&t);
    return CHECK_DONE();
}
