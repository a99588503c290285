/* Metrics: both formats of the page, servers, ceilings, and no memory. What
 * decisions add to which metric is in test/server/admin/metrics.talk. */
#include "asking.h"
#include "counted.h"
#include "fail.h"

/* A decision made by hand, on a route and by a limit of any name. */
struct made {
    struct sl_decision d;
    struct sl_route route;
    struct sl_rule rule;
    char endpoint[16], limit[16];
};

static const struct sl_decision *make(struct made *m, unsigned endpoint,
                                      unsigned limit)
{
    static const struct sl_policy none;

    memset(m, 0, sizeof(*m));
    m->d.policy = &none;
    m->route.endpoint.at = m->endpoint;
    m->route.endpoint.len =
        (size_t)snprintf(m->endpoint, sizeof(m->endpoint), "e%u", endpoint);
    m->route.index = endpoint;
    m->rule.name.at = m->limit;
    m->rule.name.len =
        (size_t)snprintf(m->limit, sizeof(m->limit), "l%u", limit);
    m->rule.index = limit;
    m->d.route = &m->route;
    m->d.status = 429;
    m->d.spend = true;
    m->d.retry_in = SL_S;
    m->d.shown_count = 1;
    m->d.shown[0] = (struct sl_limit_view){
        .rule = &m->rule, .form = SL_RATE_PER, .cost = 1};
    return &m->d;
}

/* Is the line on the page? Without "sluice_", and with ' for a quote. */
static bool has(struct counted *c, const char *line)
{
    char sample[160] = "sluice_";
    size_t len = strlen(sample);

    for (; *line && !(*line == ' ' && !strchr(line + 1, ' ')); line++)
        if (len < sizeof(sample) - 1)
            sample[len++] = *line == '\'' ? '"' : *line;
    sample[len] = '\0';
    return counted_reads(c, sample, line + 1);
}

#define HAS(c, line) CHECK(has(c, line))

static void check_every_metric(void)
{
    static const char *const names[] = {
#define STAT(name, type, from, which, labels, help) #name,
#include "server/metrics.def"
    };
    struct counted c;
    char line[128];

    CASE("every row of metrics.def is on the page, with help and type");
    counted_open(&c, 1);
    for (size_t i = 0; i < SL_LEN(names); i++) {
        snprintf(line, sizeof(line), "# HELP %s", names[i]);
        CHECK(counted_find(counted_page(&c), line));
        snprintf(line, sizeof(line), "# TYPE %s", names[i]);
        CHECK(counted_find(c.page.bytes, line));
    }

    CASE("in alphabetical order");
    for (size_t i = 1; i < SL_LEN(names); i++)
        CHECK(strcmp(names[i - 1], names[i]) < 0);
    counted_close(&c);
}

static void check_now(void)
{
    struct counted c;

    CASE("values that are read when the page is printed");
    counted_open(&c, 1);
    c.now = (struct sl_metrics_now){
        .table_places = 100,
        .table_occupied = 90,
        .table_bytes = 1 << 20,
        .table_evicted = 3,
        .table_full = 4,
        .reload_good = true,
        .reloaded_at = 1730822396 * SL_S + 250 * SL_MS,
        .reloads_good = 5,
        .reloads_bad = 6,
        .policy_hash = "a\"b\\c\nd",
        .store = "memory",
        .started_at = 1730822000 * SL_S,
    };
    HAS(&c, "table_capacity 100");
    HAS(&c, "table_entries 90");
    CHECK_EQ(counted(&c, "sluice_table_bytes"), 1 << 20);
    HAS(&c, "table_evictions_total 3");
    HAS(&c, "table_full_total 4");
    HAS(&c, "config_last_reload_successful 1");
    HAS(&c, "config_reloads_total{result='success'} 5");
    HAS(&c, "config_reloads_total{result='failure'} 6");
    HAS(&c, "store_up{store='memory'} 0");
    HAS(&c, "config_last_reload_success_timestamp_seconds 1730822396.25");
    CHECK(counted_reads(&c, "process_start_time_seconds", "1730822000.0"));

    CASE("values of labels are escaped");
    CHECK_EQ(counted(&c, "sluice_config_info{hash=\"a\\\"b\\\\c\\nd\"}"), 1);

    CASE("the process: what the kernel says of it");
    CHECK(counted(&c, "process_resident_memory_bytes") > 100000);
    CHECK(counted(&c, "process_virtual_memory_bytes") >=
          counted(&c, "process_resident_memory_bytes"));
    CHECK(counted(&c, "process_open_fds") >= 3);
    CHECK(counted(&c, "process_open_fds") < counted(&c, "process_max_fds"));
    CHECK(counted_find(counted_page(&c), "process_cpu_seconds_total"));
    counted_close(&c);
}

static void check_keys(void)
{
    struct counted c;

    counted_open(&c, 1);
    c.now.jwks_on = false;
    CASE("without tokens nothing is said of their keys");
    CHECK_EQ(counted(&c, "sluice_jwks_keys"), -1);
    CHECK_EQ(counted(&c, "sluice_jwks_age_seconds"), -1);
    CHECK_EQ(counted(&c, "sluice_jwks_refreshes_total{result=\"good\"}"), -1);
    CASE("with them it is");
    c.now.jwks_on = true;
    c.now.jwks_keys = 0;
    c.now.jwks_age = SL_NS_NONE;
    c.now.jwks_results[0] = 7;
    HAS(&c, "jwks_keys 0");
    CHECK_EQ(counted(&c, "sluice_jwks_age_seconds"), -1);
    HAS(&c, "jwks_refreshes_total{result='good'} 7");
    c.now.jwks_age = 1500 * SL_MS;
    HAS(&c, "jwks_age_seconds 1.5");
    counted_close(&c);
}

static void check_doors(void)
{
    struct counted c;

    counted_open(&c, 2);
    CASE("requests by status, connections, refusals of all threads");
    sl_metrics_request(c.stats[0], "http", 200);
    sl_metrics_request(c.stats[0], "admin", 404);
    sl_metrics_request(c.stats[1], "admin", 404);
    sl_metrics_request(c.stats[1], "http", 200);
    sl_metrics_request(c.stats[1], "http", 7);
    HAS(&c, "http_requests_total{door='http',code='200'} 2");
    HAS(&c, "http_requests_total{door='admin',code='404'} 2");
    HAS(&c, "http_requests_total{door='http',code='other'} 1");
    sl_metrics_connection(c.stats[0], "http", 1);
    sl_metrics_connection(c.stats[1], "http", 1);
    sl_metrics_connection(c.stats[1], "http", 1);
    sl_metrics_connection(c.stats[0], "http", -1);
    HAS(&c, "connections{door='http'} 2");
    HAS(&c, "connections{door='admin'} 0");
    sl_metrics_refused(c.stats[0], "http", "too slow");
    sl_metrics_refused(c.stats[1], "http", "bad");
    sl_metrics_refused(c.stats[1], "http", "too slow");
    HAS(&c, "http_refused_total{door='http',why='too slow'} 2");

    CASE("a server without decisions has no durations");
    CHECK(!strstr(counted_page(&c), "sluice_decision_duration_seconds_count"));

    counted_close(&c);
}

static void check_many_doors(void)
{
    struct counted c;
    char name[80];

    counted_open(&c, 1);
    CASE("too many doors and too many reasons are others");
    for (unsigned i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "%u", i);
        sl_metrics_request(c.stats[0], name, 201);
        sl_metrics_refused(c.stats[0], "http", name);
    }
    CHECK(counted(&c, "sluice_http_requests_total{door=\"other\","
                      "code=\"201\"}") > 190);
    CHECK_EQ(counted_sum(&c, "sluice_http_requests_total"), 200);
    CHECK(counted(&c, "sluice_http_refused_total{door=\"other\","
                      "why=\"other\"}") > 130);
    CHECK_EQ(counted_sum(&c, "sluice_http_refused_total"), 200);
    counted_close(&c);

    CASE("long names are cut");
    counted_open(&c, 1);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    sl_metrics_refused(c.stats[0], name, name);
    sl_metrics_refused(c.stats[0], name, name);
    name[47] = '\0';
    CHECK(strstr(counted_page(&c), name));
    name[47] = 'x';
    name[48] = '\0';
    CHECK(!strstr(c.page.bytes, name));
    CHECK_EQ(counted_sum(&c, "sluice_http_refused_total"), 2);
    counted_close(&c);
}

static void check_threads_add_up(void)
{
    struct counted c;
    struct made m;

    CASE("the same series of several threads are one, others stay apart");
    counted_open(&c, 3);
    for (unsigned i = 0; i < 3; i++) {
        sl_metrics_decision(c.stats[i], make(&m, 1, 1), "http", SL_US);
        sl_metrics_decision(c.stats[i], make(&m, 1, i), "http", SL_US);
    }
    CHECK_EQ(counted_sum(&c, "sluice_decisions_total"), 6);
    HAS(&c, "decisions_total{limit='l1',endpoint='e1',status='429',result='"
            "deny'} 4");
    HAS(&c, "decisions_total{limit='l2',endpoint='e1',status='429',result='"
            "deny'} 1");
    HAS(&c, "retry_after_seconds_count{endpoint='e1'} 6");
    counted_close(&c);
}

static void check_ceiling(void)
{
    static const char other[] =
        "sluice_decisions_total{limit=\"other\",endpoint=\"other\","
        "status=\"other\",result=\"deny\"}";
    struct counted c;
    struct made m;
    const char *page;
    unsigned samples = 0;

    counted_open(&c, 1);
    CASE("`other` is silent until it is needed");
    CHECK(!strstr(counted_page(&c), "\"other\""));

    CASE("no more series than the ceiling, and nothing is lost");
    for (unsigned i = 0; i < 5000; i++)
        sl_metrics_decision(c.stats[0], make(&m, i, i), "http", SL_US);
    CHECK_EQ(counted_sum(&c, "sluice_decisions_total"), 5000);
    CHECK(counted(&c, other) > 1000);
    CHECK(counted(&c, "sluice_retry_after_seconds_count{endpoint="
                      "\"other\"}") > 1000);
    /* Not by strchr(): a strict sanitizer walks to the end for each line. */
    page = counted_page(&c);
    for (const char *at = page, *end = page + strlen(page); at;
         at = memchr(at + 1, '\n', (size_t)(end - at - 1)))
        samples += memcmp(at, "\nsluice_decisions_total", 23) == 0;
    CHECK(samples > 1000 && samples <= SL_SERIES);

    CASE("what has a series keeps it");
    sl_metrics_decision(c.stats[0], make(&m, 1, 1), "http", SL_US);
    HAS(&c, "decisions_total{limit='l1',endpoint='e1',status='429',result='"
            "deny'} 2");
    counted_close(&c);
}

static void check_open_metrics(void)
{
    struct counted c;
    const char *page;

    counted_open(&c, 1);
    c.open_metrics = true;
    page = counted_page(&c);
    CASE("OpenMetrics: families of counters without _total, samples with");
    CHECK(strstr(page, "\n# TYPE sluice_table_full counter\n"));
    CHECK(strstr(page, "\nsluice_table_full_total 0\n"));
    CHECK(!strstr(page, "# TYPE sluice_table_full_total"));
    CHECK(strstr(page, "\n# TYPE sluice_table_entries gauge\n"));

    CASE("and an end");
    CHECK_STR(page + strlen(page) - 7, "\n# EOF\n");
    c.open_metrics = false;
    CHECK(!strstr(counted_page(&c), "# EOF"));
    counted_close(&c);
}

static void check_durations(void)
{
    struct counted c;
    struct made m;

    counted_open(&c, 1);
    CASE("how long decisions took, by door; bounds belong to their bucket");
    sl_metrics_decision(c.stats[0], make(&m, 1, 1), "grpc", 10 * SL_US);
    sl_metrics_decision(c.stats[0], make(&m, 1, 1), "grpc", 10 * SL_US + 1);
    sl_metrics_decision(c.stats[0], make(&m, 1, 1), "grpc", 2 * SL_S);
    sl_metrics_decision(c.stats[0], make(&m, 1, 1), "grpc",
                        -5); /* the clock was set */
    HAS(&c, "decision_duration_seconds_bucket{door='grpc',le='0.00001'} 2");
    HAS(&c, "decision_duration_seconds_bucket{door='grpc',le='1.0'} 3");
    HAS(&c, "decision_duration_seconds_count{door='grpc'} 4");
    HAS(&c, "decision_duration_seconds_sum{door='grpc'} 2.000020001");

    CASE("many in a row have taken the same time each");
    for (unsigned i = 0; i < 3; i++)
        sl_metrics_verdict(c.stats[0], make(&m, 1, 1));
    sl_metrics_took(c.stats[0], "resp", 75 * SL_US, 3);
    HAS(&c, "decision_duration_seconds_bucket{door='resp',le='0.00001'} 0");
    HAS(&c, "decision_duration_seconds_bucket{door='resp',le='0.000025'} 3");
    HAS(&c, "decision_duration_seconds_sum{door='resp'} 0.000075");
    counted_close(&c);
}

/* A new policy may have other names at the same addresses and indices. */
static void check_generations(void)
{
    static struct made m;
    struct counted c;

    CASE("the same place in memory is another name in another policy");
    counted_open(&c, 1);
    make(&m, 1, 1);
    m.d.generation = 1;
    sl_metrics_verdict(c.stats[0], &m.d);
    sl_metrics_verdict(c.stats[0], &m.d);
    m.limit[1] = '2';
    m.d.generation = 2;
    sl_metrics_verdict(c.stats[0], &m.d);
    HAS(&c, "decisions_total{limit='l1',endpoint='e1',status='429',result='"
            "deny'} 2");
    HAS(&c, "decisions_total{limit='l2',endpoint='e1',status='429',result='"
            "deny'} 1");

    CASE("names that no policy has are compared as texts");
    m.d.generation = 0;
    m.limit[1] = '3';
    sl_metrics_verdict(c.stats[0], &m.d);
    m.limit[1] = '4';
    sl_metrics_verdict(c.stats[0], &m.d);
    HAS(&c, "decisions_total{limit='l3',endpoint='e1',status='429',result='"
            "deny'} 1");
    HAS(&c, "decisions_total{limit='l4',endpoint='e1',status='429',result='"
            "deny'} 1");
    counted_close(&c);
}

/* The same indices mean other names after a reload. */
static void check_reload(void)
{
    static const char policy[] =
        "sluice: 1\n"
        "limits:\n"
        "  minute: { kind: token-bucket, per: user, rate: 10/min }\n"
        "routes:\n"
        "  - { match: /ai, endpoint: ai, limits: [minute] }\n"
        "default: []\n";
    static const char swapped[] =
        "sluice: 1\n"
        "limits:\n"
        "  second: { kind: token-bucket, per: user, rate: 10/min }\n"
        "  minute: { kind: token-bucket, per: user, rate: 10/min }\n"
        "routes:\n"
        "  - { match: /x, endpoint: x, limits: [second] }\n"
        "  - { match: /ai, endpoint: ai, limits: [minute] }\n"
        "default: []\n";
    struct sl_policy *next = rig_policy(swapped);
    struct counted c;
    struct rig rig;

    counted_open(&c, 1);
    rig_open(&rig, policy);
    CASE("series outlive a reload, and their names move with them");
    sl_metrics_decision(c.stats[0], rig_ask(&rig, GET("/ai", USER("ann"))),
                        "http", 0);
    CHECK_EQ(sl_engine_use(rig.engine, next, NULL), 0);
    sl_policy_unref(next);
    sl_metrics_decision(c.stats[0], rig_ask(&rig, GET("/ai", USER("ann"))),
                        "http", 0);
    sl_metrics_decision(c.stats[0], rig_ask(&rig, GET("/x", USER("ann"))),
                        "http", 0);
    HAS(&c, "decisions_total{limit='minute',endpoint='ai',status='200',result='"
            "allow'} 2");
    HAS(&c, "decisions_total{limit='second',endpoint='x',status='200',result='"
            "allow'} 1");
    HAS(&c, "consumed_units_total{limit='minute'} 2");
    rig_close(&rig);
    counted_close(&c);
}

/* More endpoints than there is room for are others. */
static void check_upstream(void)
{
    struct counted c;
    char name[32];

    CASE("answers of too many endpoints are counted as other");
    counted_open(&c, 1);
    for (unsigned i = 0; i < 400; i++) {
        snprintf(name, sizeof(name), "e%u", i);
        sl_metrics_upstream(c.stats[0], sl_str_c(name), 200);
    }
    HAS(&c, "upstream_total{endpoint='e200',class='2xx'} 1");
    CHECK(!strstr(counted_page(&c), "endpoint=\"e300\""));
    CHECK_EQ(counted_sum(&c, "sluice_upstream_total"), 400);
    counted_close(&c);
}

static void check_no_memory(void)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_metrics *stats = NULL;
    struct counted c;
    struct made m;
    unsigned failures = 0;
    int err;

    CASE("opening: any allocation may fail");
    while ((err = sl_metrics_open(&alloc, &stats))) {
        CHECK_EQ(err, SLUICE_ENOMEM);
        CHECK(!stats);
        fail_check(&f);
        f.calls = 0;
        f.nth++;
        failures++;
    }
    CHECK(failures > 3);
    sl_metrics_close(stats);
    sl_metrics_close(NULL);
    fail_check(&f);

    CASE("counting goes on as `other`");
    counted_open(&c, 1);
    sl_metrics_close(c.stats[0]);
    f = (struct fail){0};
    CHECK_EQ(sl_metrics_open(&alloc, &c.stats[0]), 0);
    f.nth = f.calls + 1;
    sl_metrics_decision(c.stats[0], make(&m, 1, 1), "http", SL_US);
    HAS(&c, "decisions_total{limit='other',endpoint='other',status='other',"
            "result='deny'} 1");
    sl_metrics_decision(c.stats[0], make(&m, 1, 1), "http", SL_US);
    CHECK_EQ(counted_sum(&c, "sluice_decisions_total"), 2);

    CASE("printing adds all or nothing");
    f.nth = f.calls = 0;
    sl_buf_done(&c.page);
    c.page.alloc = &alloc;
    f.nth = 1;
    while ((err = sl_metrics_render(c.stats, 1, &c.now, false, &c.page))) {
        CHECK_EQ(err, SLUICE_ENOMEM);
        CHECK_EQ(c.page.len, 0);
        sl_buf_done(&c.page);
        f.calls = 0;
        f.nth++;
    }
    CHECK(f.nth > 3);
    sl_buf_done(&c.page);
    f.nth = 0;
    sl_buf_init(&c.page, 1000, &alloc);
    CHECK_EQ(sl_buf_add(&c.page, SL_STR("before")), 0);
    CHECK_EQ(sl_metrics_render(c.stats, 1, &c.now, false, &c.page),
             SLUICE_EFULL);
    CHECK_EQ(c.page.len, 6);
    counted_close(&c);
    fail_check(&f);
}

int main(void)
{
    check_every_metric();
    check_now();
    check_keys();
    check_doors();
    check_many_doors();
    check_threads_add_up();
    check_ceiling();
    check_open_metrics();
    check_durations();
    check_generations();
    check_reload();
    check_upstream();
    check_no_memory();
    return CHECK_DONE();
}
