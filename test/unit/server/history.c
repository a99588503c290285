/* history.c -- the history of decisions, checked by the number of its
 * invariants.
 */
#include "server/history.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "server/metrics_int.h"

static struct sl_metrics *stats;
static struct sl_history *history;
static struct sl_buf out;

static void begin(void)
{
    CHECK_EQ(sl_metrics_open(NULL, &stats), 0);
    CHECK_EQ(sl_history_open(NULL, &history), 0);
    sl_buf_init(&out, 1 << 24, &sl_alloc_libc);
}

static void end(void)
{
    sl_history_close(history);
    sl_metrics_close(stats);
    sl_buf_done(&out);
}

/* Count decisions of CL.THROTTLE, which need no policy. */
static void decide(unsigned allowed, unsigned denied)
{
    struct sl_metrics_throttles counted = {.allowed = allowed,
                                           .denied = denied};

    sl_metrics_throttles(stats, &counted, "resp", SL_US);
}

static void poll_at(int64_t second)
{
    sl_history_poll(history, &stats, 1, second * SL_S);
}

static bool shows(enum sl_history_step step, int64_t since, const char *text)
{
    sl_buf_clear(&out);
    if (sl_history_write(history, step, since, &out) ||
        sl_buf_add(&out, (struct sl_str){"", 1}))
        return false;
    if (strstr((const char *)out.bytes, text))
        return true;
    printf("# %s\n", (const char *)out.bytes);
    return false;
}

static void check_steps(void)
{
    CASE("(1) the steps add up to the counts");
    begin();
    poll_at(1000);
    decide(5, 2);
    poll_at(1005); /* the step lasts */
    decide(1, 0);
    poll_at(1010);
    decide(3, 0);
    poll_at(1020);
    CHECK(shows(SL_HISTORY_10S, 0, "\"first\":1000,\"count\":2,"));
    CHECK(shows(SL_HISTORY_10S, 0,
                "\"total\":{\"name\":\"\","
                "\"allowed\":[6,3],\"429\":[2,0]}"));
    CHECK(shows(SL_HISTORY_10S, 0,
                "\"name\":\"CL.THROTTLE\","
                "\"allowed\":[6,3]"));
    CHECK(shows(SL_HISTORY_10S, 1010, "\"first\":1010,\"count\":1,"));
    CHECK(shows(SL_HISTORY_10S, 2000, "\"count\":0,"));
    CHECK(shows(SL_HISTORY_1M, 0, "\"first\":960,\"count\":1,"));
    CHECK(shows(SL_HISTORY_1M, 0, "\"allowed\":[9],\"429\":[2]"));
    end();
}

static void check_gaps(void)
{
    CASE("(2) a step that was not read is 0; a clock set back begins again");
    begin();
    poll_at(1000);
    decide(4, 0);
    poll_at(1050);
    CHECK(shows(SL_HISTORY_10S, 0, "\"allowed\":[4,0,0,0,0]"));
    poll_at(1000 + 3600 + 100);
    CHECK(shows(SL_HISTORY_10S, 0, "\"first\":1110,\"count\":359,"));
    CHECK(!strstr((const char *)out.bytes, "allowed"));
    poll_at(500);
    decide(7, 0);
    poll_at(510);
    CHECK(shows(SL_HISTORY_10S, 0, "\"first\":500,\"count\":1,"));
    CHECK(shows(SL_HISTORY_10S, 0, "\"allowed\":[7]"));
    end();
}

static void check_rows(void)
{
    unsigned rows = 0;

    CASE("(3) rows are bounded");
    begin();
    poll_at(1000);
    for (unsigned i = 0; i < 2 * SL_HISTORY_ROWS; i++) {
        struct sl_series *series;
        unsigned at = atomic_load(&stats->series_count);

        series =
            sl_alloc_new(&sl_alloc_libc, sizeof(*series) + sizeof(sl_stat) + 8);
        memset(series, 0, sizeof(*series) + sizeof(sl_stat) + 8);
        series->size = sizeof(*series) + sizeof(sl_stat) + 8;
        snprintf((char *)&series->values[1], 8, "e%u", i);
        series->labels.kind = SL_OF_DECISION;
        series->labels.endpoint = sl_str_c((const char *)&series->values[1]);
        series->labels.limit = SL_STR("");
        atomic_store(&series->values[0], 1);
        stats->series[at] = series;
        atomic_store(&stats->series_count, at + 1);
    }
    poll_at(1010);
    CHECK(shows(SL_HISTORY_10S, 0,
                "\"total\":{\"name\":\"\","
                "\"allowed\":[256]}"));
    for (const char *p = (const char *)out.bytes;
         (p = strstr(p, "{\"name\":\"e")); p++)
        rows++;
    CHECK_EQ(rows, SL_HISTORY_ROWS);
    end();
}

static bool add_step(struct sl_history *to, int64_t step)
{
    struct sl_buf text;
    bool added;

    sl_buf_init(&text, 1 << 20, &sl_alloc_libc);
    CHECK_EQ(sl_history_step_write(history, step, 5000, &text), 0);
    added = sl_history_step_add(to, step, sl_buf_str(&text));
    sl_buf_done(&text);
    return added;
}

static void check_others(void)
{
    struct sl_history *own, *sum = NULL;

    CASE("(4) a history to which steps are added has their sums");
    begin();
    CHECK_EQ(sl_history_open(NULL, &sum), 0);
    CHECK_EQ(sl_history_last(history), 0);
    poll_at(1000);
    decide(5, 2);
    poll_at(1010);
    decide(1, 0);
    poll_at(1020);
    CHECK_EQ(sl_history_last(history), 101);
    CHECK(sl_history_has(history, 100) && !sl_history_has(history, 102));
    CHECK(add_step(sum, 101) && add_step(sum, 100) && add_step(sum, 100));
    own = history;
    history = sum;
    CHECK(shows(SL_HISTORY_10S, 0, "\"first\":1000,\"count\":2,"));
    CHECK(shows(SL_HISTORY_10S, 0, "\"allowed\":[10,1],\"429\":[4,0]"));
    CHECK(shows(SL_HISTORY_10S, 0,
                "\"limits\":[{\"name\":\"CL.THROTTLE\","
                "\"allowed\":[10,1]"));

    CASE("names of any bytes, means, uses, and a minute");
    CHECK(sl_history_step_add(
        sum, 106,
        SL_STR("T,0:3,10:2,11:500;E%E2%82%AC%2C%3b,0:3;Uai%0Atokens,9:7;")));
    CHECK(sl_history_step_add(sum, 106, SL_STR("T,10:6,11:100;")));
    CHECK(sl_history_step_add(sum, 108, SL_STR("")));
    CHECK(shows(SL_HISTORY_10S, 1060,
                "\"total\":{\"name\":\"\",\"allowed\":[3,0,0],"
                "\"retries\":[8,0,0],\"retry_ms\":[200,0,0]}"));
    CHECK(shows(SL_HISTORY_10S, 1060, "\"name\":\"\xe2\x82\xac,;\""));
    CHECK(shows(SL_HISTORY_10S, 1060,
                "\"uses\":[{\"limit\":\"tokens\",\"name\":\"ai\","
                "\"consumed\":[7,0,0]}]"));
    CHECK(shows(SL_HISTORY_1M, 0, "\"allowed\":[11,3]"));

    CASE("what is no step is not added");
    CHECK(!sl_history_step_add(sum, 0, SL_STR("T,0:1;")));
    CHECK(!sl_history_step_add(sum, 109, SL_STR("X,0:1;")));
    CHECK(!sl_history_step_add(sum, 109, SL_STR("T,0:1")));
    CHECK(!sl_history_step_add(sum, 109, SL_STR("T,12:1;")));
    CHECK(!sl_history_step_add(sum, 109, SL_STR("T,0;")));
    CHECK(!sl_history_step_add(sum, 109, SL_STR("E%0,0:1;")));
    CHECK(sl_history_step_add(sum, 10000, SL_STR("")));
    CHECK(!sl_history_step_add(sum, 109, SL_STR("T,0:1;")));
    history = own;
    sl_history_close(sum);
    end();
}

int main(void)
{
    check_steps();
    check_gaps();
    check_rows();
    check_others();
    return CHECK_DONE();
}
