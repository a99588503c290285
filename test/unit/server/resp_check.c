/* resp_check.c -- SLUICE.CHECK, EXPLAIN and RESET: the policy's verdict. */
#include "resp_talk.h"

static struct talk t;

/* The reply in one line: values parted by blanks, nil as '-'. */
static const char *flat(const char *send)
{
    static char out[4096];
    char line[512];
    struct sl_str rest;
    size_t len = 0;

    snprintf(line, sizeof(line), "%s\r\n", send);
    talk(&t, line);
    rest = sl_buf_str(&t.out);
    out[0] = '\0';
    while (rest.len > 0 && len < sizeof(out)) {
        struct sl_resp_value v = sl_resp_next(&rest);

        len += (size_t)snprintf(out + len, sizeof(out) - len, "%s",
                                len > 0 ? " " : "");
        if (v.type == SL_RESP_INTEGER || v.type == SL_RESP_BOOLEAN)
            len += (size_t)snprintf(out + len, sizeof(out) - len, "%" PRId64,
                                    v.integer);
        else if (v.type >= SL_RESP_ARRAY)
            len += (size_t)snprintf(out + len, sizeof(out) - len, "%c%zu",
                                    v.type == SL_RESP_MAP ? '%' : '*', v.count);
        else
            len += (size_t)snprintf(out + len, sizeof(out) - len, "%.*s",
                                    v.type == SL_RESP_NIL ? 1 : (int)v.text.len,
                                    v.type == SL_RESP_NIL ? "-" : v.text.at);
    }
    return out;
}

static void check_map(void)
{
    CASE("a verdict as a map, in either version");
    CHECK_STR(flat("SLUICE.CHECK GET /x user ann id r1"),
              "*24 allowed 1 status 200 limit 5 remaining 4 retry_after_ms -1 "
              "reset_ms 12000 wait_ms 0 by - code - message - request_id r1 "
              "degraded 0");
    talk(&t, "HELLO 3\r\n");
    CHECK_STR(flat("SLUICE.CHECK GET /x user ann id r2 cost 4"),
              "%24 allowed 1 status 200 limit 5 remaining 0 retry_after_ms -1 "
              "reset_ms 60000 wait_ms 0 by - code - message - request_id r2 "
              "degraded 0");
    talk(&t, "RESET\r\n");

    CASE("refused: by whom, why, and until when");
    CHECK_STR(flat("SLUICE.CHECK GET /x user ann id r3"),
              "*24 allowed 0 status 429 limit 5 remaining 0 retry_after_ms "
              "12000 reset_ms 60000 wait_ms 0 by minute code RATE_LIMITED "
              "message Too many requests: the limit \"minute\" allows 5 per "
              "minute. Try again in 12 s. request_id r3 degraded 0");
    CHECK_STR(flat("SLUICE.CHECK JOB mail user ann cost 16 id r4"),
              "*24 allowed 0 status 402 limit 20 remaining 15 retry_after_ms "
              "86400000 reset_ms 86400000 wait_ms 0 by day code NO_MORE "
              "message That was 20. request_id r4 degraded 0");

    CASE("nothing is limited");
    CHECK_STR(flat("SLUICE.CHECK GET /free user ann id r5"),
              "*24 allowed 1 status 200 limit -1 remaining -1 retry_after_ms "
              "-1 reset_ms -1 wait_ms 0 by - code - message - request_id r5 "
              "degraded 0");
}

static bool says(const char *send, const char *part)
{
    const char *got = flat(send);

    if (strstr(got, part))
        return true;
    printf("# %s: got %s\n", send, got);
    return false;
}

static void check_words(void)
{
    CASE("all that a check can say");
    CHECK(says("SLUICE.CHECK get /y USER bob PLAN pro", "limit 9 remaining 8"));
    CHECK(says("SLUICE.CHECK GET /y header.X-User bob plan pro",
               "limit 9 remaining 7"));
    CHECK(says("SLUICE.CHECK GET /y user bob plan pro cost.minute 3 cost 1",
               "remaining 4"));
    CHECK(says("SLUICE.CHECK LIMIT minute bob plan pro cost 0", "remaining 4"));
    CHECK(says("SLUICE.CHECK GET /y ip 192.0.2.1 org o role r", "remaining 4"));

    CASE("as json it is that of /v1/check");
    CHECK(says("SLUICE.CHECK GET /free id r as json",
               "{\"allowed\":true,\"status\":200,\"code\":null,"));
    CHECK(says("SLUICE.CHECK JOB mail user bob AS JSON", "\"limits\":[{\"name\""
                                                         ":\"day\","));

    CASE("an explanation takes nothing");
    CHECK(says("SLUICE.EXPLAIN GET /y user bob plan pro", "4 left"));
    CHECK(says("SLUICE.EXPLAIN GET /y user bob plan pro", "4 left"));
    CHECK(says("SLUICE.EXPLAIN GET /y user bob as json",
               "\"explain\":\"verdict"));

    CASE("what was taken is forgotten");
    CHECK_STR(flat("SLUICE.RESET GET /y user bob"), "2");
    CHECK(says("SLUICE.CHECK GET /y user bob plan pro", "remaining 8"));
    CHECK_STR(flat("SLUICE.RESET LIMIT minute bob"), "1");
    CHECK(says("SLUICE.CHECK GET /y user bob plan pro", "remaining 8"));
    CHECK(says("SLUICE.CHECK LIMIT day bob cost 0", "remaining 18"));
    CHECK_STR(flat("SLUICE.RESET GET /free"), "0");
}

static void check_wrong(void)
{
    /* what is sent, and a part of the reply, by turns */
    static const char *const rows[] = {
        "SLUICE.CHECK GET",
        "wrong number of arguments",
        "SLUICE.CHECK user ann",
        "write METHOD /path, JOB",
        "SLUICE.CHECK cost 2 user ann",
        "write METHOD /path, JOB",
        "SLUICE.CHECK GET \"\"",
        "write METHOD /path, JOB",
        "SLUICE.CHECK LIMIT minute",
        "or LIMIT name key, not",
        "SLUICE.CHECK LIMIT minute \"\"",
        "or LIMIT name key, not",
        "SLUICE.CHECK LIMIT minut ann",
        "no limit \"minut\"",
        "SLUICE.RESET LIMIT minut ann",
        "no limit \"minut\"",
        "SLUICE.CHECK GET /x user",
        "'user' has no value",
        "SLUICE.CHECK GET /x usr ann",
        "did you mean 'user'?",
        "SLUICE.CHECK GET /x colour red",
        "user, org, plan, role, ip",
        "SLUICE.CHECK GET /x user a user b",
        "'user' is given twice",
        "SLUICE.CHECK GET /x cost x",
        "the cost must be a whole number",
        "SLUICE.CHECK GET /x cost -1",
        "of at least 0, not '-1'",
        "SLUICE.CHECK GET /x cost 1 cost 2",
        "given twice",
        "SLUICE.CHECK GET /x cost.day 1 cost.day 2",
        "the cost of 'day' is given twice",
        "SLUICE.CHECK GET /x cost.dya 1",
        "\"dya\"",
        "SLUICE.CHECK GET /x header.a 1 HEADER.A 2",
        "'A' is given twice",
        "SLUICE.CHECK GET /x as xml",
        "'as json', not as 'xml'",
        "SLUICE.EXPLAIN JOB mail x",
        "'x' has no value",
        "SLUICE.RESET THROTTLE a b",
        "'b' has no value",
    };

    CASE("what is wrong is named");
    for (size_t i = 0; i < SL_LEN(rows); i += 2) {
        CHECK(says(rows[i], rows[i + 1]));
        CHECK(says(rows[i], "ERR "));
    }
}

static void check_many(void)
{
    struct sl_buf line;

    CASE("as many headers as there are words");

    sl_buf_init(&line, 1 << 16, &sl_alloc_libc);
    CHECK_EQ(sl_buf_addf(&line, "SLUICE.CHECK JOB mail"), 0);
    for (int i = 0; i < 30; i++)
        CHECK_EQ(sl_buf_addf(&line, " header.h%d x", i), 0);
    CHECK_EQ(sl_buf_addf(&line, "\r\n"), 0);
    talk_bytes(&t, sl_buf_str(&line));
    CHECK_EQ(t.out.bytes[0], '*'); /* as many as words allow */
    sl_buf_done(&line);
}

int main(void)
{
    talk_open(&t, "", NULL);
    talk_at(&t, 0);
    check_map();
    check_words();
    check_wrong();
    check_many();
    talk_close(&t);
    return CHECK_DONE();
}
