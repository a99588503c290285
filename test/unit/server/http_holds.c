/* http_holds.c -- POST /v1/check with a hold, and how it ends. */
#include "asked.h"
#include "fail.h"
#include "holding.h"
#include "server/metrics.h"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  calls: { kind: fixed-window, per: org, rate: 100/day, cost: 1 }\n"
    "  tokens: { kind: quota, per: org, rate: 1000/day }\n"
    "  sem: { kind: concurrency, per: org, rate: 2 }\n"
    "routes:\n"
    "  - { match: /llm, endpoint: llm, limits: [calls, tokens] }\n"
    "  - { match: /work, endpoint: work, limits: [sem] }\n"
    "default: []\n";

static struct holding store;
static struct asked a;

static void open_all(void)
{
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = &a.rig};

    holding_open(&store, &memory);
    asked_open_on(&a, policy, &store.store);
}

/* Its name, from the verdict of the last check. */
static const char *hold_of(void)
{
    const char *at = strstr(asked_body(&a), "\"hold\":\"");

    return at ? asked_text(&a, (struct sl_str){at + 8, 40}) : "";
}

static int end(const char *verb, const char *hold, const char *body)
{
    char line[200];

    snprintf(line, sizeof(line), "POST /v1/holds/%s/%s", hold, verb);
    return asked_send(&a, line, "", sl_str_c(body));
}

static void check_settle(void)
{
    const char *hold;

    CASE("a hold is settled, and again");
    CHECK_EQ(asked_check(&a, "{\"path\":\"/llm\",\"org\":\"acme\",\"cost\":"
                             "{\"tokens\":500},\"hold\":\"30s\"}"),
             200);
    CHECK(asked_says(&a, ",\"hold_expires_ms\":30000,\"limits\":"));
    CHECK(asked_says(&a, "\"X-Sluice-Hold\":\""));
    hold = hold_of();
    CHECK_EQ(strlen(hold), 40);
    CHECK_EQ(end("settle", hold, "{\"cost\":350,\"status\":200}"), 200);
    CHECK(asked_says(&a, "\"state\":\"settled\",\"again\":false,"
                         "\"expires_ms\":null,\"limits\":[{\"name\":\"calls\","
                         "\"held\":1,\"cost\":1,\"remaining\":99,\"over\":"
                         "false},{\"name\":\"tokens\",\"held\":500,\"cost\":"
                         "350,\"remaining\":650,\"over\":false}]}"));
    CHECK_EQ(end("settle", hold, ""), 200);
    CHECK(asked_says(&a, "\"state\":\"settled\",\"again\":true,"
                         "\"expires_ms\":null,\"limits\":[]}"));
    CHECK_EQ(end("release", hold, "{}"), 200);
    CHECK(asked_says(&a, "\"state\":\"settled\",\"again\":true"));

    CASE("by limit, and more than there is");
    asked_check(&a, "{\"path\":\"/llm\",\"org\":\"acme\",\"hold\":\"30s\"}");
    CHECK_EQ(end("settle", hold_of(), "{\"cost\":{\"tokens\":9000}}"), 200);
    CHECK(asked_says(&a, "\"cost\":9000,\"remaining\":0"));
}

static void check_permits(void)
{
    const char *hold;

    CASE("permits need not be asked for, and are extended and released");
    asked_check(&a, "{\"path\":\"/work\",\"org\":\"acme\"}");
    CHECK(asked_says(&a, "\"hold_expires_ms\":60000"));
    hold = hold_of();
    CHECK_EQ(end("extend", hold, "{\"hold\":\"2m\"}"), 200);
    CHECK(asked_says(&a, "\"state\":\"held\",\"again\":false,\"expires_ms\":"
                         "120000,\"limits\":[{\"name\":\"sem\",\"held\":1,"
                         "\"cost\":null,\"remaining\":1,\"over\":false}]}"));
    CHECK_EQ(end("release", hold, "{\"status\":503}"), 200);
    CHECK(asked_says(&a, "\"state\":\"released\""));
    CHECK(asked_says(&a, "\"remaining\":2"));

    CASE("an expired one tells so");
    asked_check(&a, "{\"path\":\"/work\",\"org\":\"acme\"}");
    hold = hold_of();
    a.rig.now = a.worker.still += 60 * SL_S;
    CHECK_EQ(end("extend", hold, "{\"hold\":\"2m\"}"), 200);
    CHECK(asked_says(&a, "\"state\":\"expired\",\"again\":true"));
}

static void check_refused(void)
{
    static const struct {
        const char *verb, *body, *words;
    } rows[] = {
        {"settle",  "[]",                       "must be an object"      },
        {"settle",  "{\"cost\":\"1\"}",         "or an object"           },
        {"settle",  "{\"cost\":-1}",            "from 0 to 900719"       },
        {"settle",  "{\"cost\":1.5}",           "from 0 to 900719"       },
        {"settle",  "{\"cost\":{\"tokns\":1}}", "no limit"               },
        {"settle",  "{\"cost\":1,\"cost\":2}",  "is given twice"         },
        {"settle",  "{\"status\":99}",          "from 100 to 599"        },
        {"settle",  "{\"status\":\"200\"}",     "a whole number"         },
        {"settle",  "{\"hold\":\"3s\"}",        "valid: \\\"cost\\\" and"},
        {"settle",  "{\"cost\":1",              "the body is not JSON"   },
        {"settle",  "{} {}",                    "the body is not JSON"   },
        {"release", "{\"cost\":1}",             "valid: \\\"status\\\""  },
        {"extend",  "",                         "missing duration"       },
        {"extend",  "{}",                       "missing duration"       },
        {"extend",  "{\"hold\":30}",            "a string such as"       },
        {"extend",  "{\"hold\":\"0s\"}",        "must be above 0"        },
        {"extend",  "{\"hold\":\"soon\"}",      "soon"                   },
    };
    const char *hold;

    CASE("bodies that are none, and change nothing");
    asked_check(&a, "{\"path\":\"/work\",\"org\":\"acme\"}");
    hold = hold_of();
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        printf("# %s %s\n", rows[i].verb, rows[i].body);
        CHECK_EQ(end(rows[i].verb, hold, rows[i].body), 400);
        CHECK(asked_says(&a, rows[i].words));
    }
    CHECK_EQ(end("settle", hold, "{\"cost\":{\"tokens\":1,\"tokens\":2}}"),
             400);
    CHECK(asked_says(&a, "twice"));
    CHECK_EQ(end("release", hold, ""), 200);
    CHECK(asked_says(&a, "\"again\":false"));

    CASE("checks whose hold is none");
    CHECK_EQ(asked_check(&a, "{\"path\":\"/work\",\"hold\":30}"), 400);
    CHECK(asked_says(&a, "a string such as"));
    CHECK_EQ(asked_check(&a, "{\"path\":\"/work\",\"hold\":\"0s\"}"), 400);
    CHECK_EQ(asked_check(&a, "{\"path\":\"/work\",\"hold\":\"x\"}"), 400);

    CASE("paths that lead nowhere");
    CHECK_EQ(end("settle", "no-such-hold", ""), 404);
    CHECK(asked_says(&a, "HOLD_UNKNOWN"));
    CHECK_EQ(end("keep", hold, ""), 404);
    CHECK(asked_says(&a, "NOT_FOUND"));
    CHECK_EQ(asked_get(&a, "GET /v1/holds/x/settle", ""), 405);
    CHECK_EQ(asked_send(&a, "POST /v1/holds/x/settle",
                        "Origin: http://a.example\r\n", (struct sl_str){"", 0}),
             403);
}

static void check_trouble(void)
{
    const char *hold;

    CASE("the store is away, or full");
    asked_check(&a, "{\"path\":\"/work\",\"org\":\"acme\"}");
    hold = hold_of();
    store.fails = true;
    CHECK_EQ(end("release", hold, ""), 503);
    CHECK_STR(asked_field(&a, "Retry-After"), "1");
    store.fails = false;
    store.full = true;
    CHECK_EQ(asked_check(&a, "{\"path\":\"/work\",\"org\":\"acme\"}"), 200);
    CHECK(asked_says(&a, "\"status\":503,\"code\":\"SERVICE_UNAVAILABLE\","
                         "\"message\":\"No more holds are possible"));
    store.full = false;
    CHECK_EQ(end("release", hold, ""), 200);

    CASE("without memory it says so, and the hold stays");
    asked_check(&a, "{\"path\":\"/llm\",\"org\":\"b\",\"hold\":\"30s\"}");
    hold = hold_of();
    for (unsigned n = 1; n < 50; n++) {
        struct fail fail = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&fail);
        int status;

        asked_forget(&a, &alloc);
        status = end("settle", hold, "{\"cost\":{\"tokens\":1}}");
        asked_forget(&a, &sl_alloc_libc);
        fail_check(&fail);
        if (status == 200)
            break;
        CHECK(status == 503 || status == 0);
    }
    CHECK_EQ(end("settle", hold, ""), 200);
    CHECK(asked_says(&a, "\"again\":true"));
}

/* ---- metrics ---- */

static void check_counts(void)
{
    struct sl_metrics_now now = {.store = "memory", .policy_hash = "x"};
    struct sl_metrics *stats = NULL;
    struct sl_buf page;
    const char *hold;

    CASE("holds and statuses are counted");
    CHECK_EQ(sl_metrics_open(&sl_alloc_libc, &stats), 0);
    a.worker.stats = stats;
    asked_check(&a, "{\"path\":\"/llm\",\"org\":\"c\",\"hold\":\"30s\"}");
    hold = hold_of();
    end("extend", hold, "{\"hold\":\"1s\"}");
    end("settle", hold, "{\"status\":429}");
    end("settle", hold, "{\"status\":429}"); /* again: not counted twice */
    end("settle", "x", "{\"status\":429}");
    asked_check(&a, "{\"path\":\"/work\",\"org\":\"c\"}");
    end("release", hold_of(), "{\"status\":200}");
    sl_buf_init(&page, 1 << 20, &sl_alloc_libc);
    CHECK_EQ(sl_metrics_render(&stats, 1, &now, false, &page), 0);
    CHECK_EQ(sl_buf_add(&page, (struct sl_str){"", 1}), 0);
    CHECK(strstr(page.bytes, "sluice_holds_total{event=\"held\"} 2\n"));
    CHECK(strstr(page.bytes, "sluice_holds_total{event=\"settled\"} 1\n"));
    CHECK(strstr(page.bytes, "sluice_holds_total{event=\"released\"} 1\n"));
    CHECK(strstr(page.bytes, "sluice_holds_total{event=\"extended\"} 1\n"));
    CHECK(strstr(page.bytes, "sluice_holds_total{event=\"again\"} 1\n"));
    CHECK(strstr(page.bytes, "sluice_holds_total{event=\"unknown\"} 1\n"));
    CHECK(strstr(page.bytes, "sluice_upstream_total{endpoint=\"llm\",class="
                             "\"4xx\"} 1\n"));
    CHECK(strstr(page.bytes, "sluice_upstream_total{endpoint=\"work\",class="
                             "\"2xx\"} 1\n"));
    for (unsigned i = 0; i < 400; i++) {
        char name[32];

        snprintf(name, sizeof(name), "e%u", i);
        sl_metrics_upstream(stats, sl_str_c(name), 200);
    }
    sl_buf_clear(&page);
    CHECK_EQ(sl_metrics_render(&stats, 1, &now, false, &page), 0);
    CHECK_EQ(sl_buf_add(&page, (struct sl_str){"", 1}), 0);
    CHECK(strstr(page.bytes, "endpoint=\"e200\""));
    CHECK(!strstr(page.bytes, "endpoint=\"e300\""));
    CHECK(strstr(page.bytes, "{endpoint=\"other\",class=\"2xx\"} 147\n"));
    sl_buf_done(&page);
    a.worker.stats = NULL;
    sl_metrics_close(stats);
}

int main(void)
{
    open_all();
    check_settle();
    check_permits();
    check_refused();
    check_trouble();
    check_counts();
    asked_close(&a);
    return CHECK_DONE();
}
