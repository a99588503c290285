/* page.c -- a page of metrics as a daemon prints it, and what is said of them.
 *
 *   page text      Prometheus text, after some of everything has happened
 *   page open      the same as OpenMetrics
 *   page table     the rows of docs/operations.md
 *   page names     name, type and labels, a line each
 */
#include "asking.h"
#include "counted.h"

static const char policy[] =
    "sluice: 1\n"
    "plans:\n"
    "  default: free\n"
    "  free: {}\n"
    "  pro: { overage: true }\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 5/min,\n"
    "            candidate: 1/min }\n"
    "  watched: { kind: token-bucket, per: user, rate: 1/min, mode: shadow }\n"
    "  month: { kind: quota, per: org, rate: 3/month }\n"
    "routes:\n"
    "  - { match: /ai, endpoint: ai, limits: [minute, watched] }\n"
    "  - { match: /month, endpoint: month, limits: [month] }\n"
    "  - { job: work, backlog: { max: 5 }, limits: [minute] }\n"
    "metrics: { tenants: [acme, none] }\n"
    "default: []\n";

static const struct {
    const char *name, *type, *labels, *help;
} rows[] = {
#define COUNTER                                     "counter"
#define GAUGE                                       "gauge"
#define HISTOGRAM                                   "histogram"
#define STAT(name, type, from, which, labels, help) {#name, type, labels, help},
#include "server/metrics.def"
};

/* "limit endpoint" as "`limit` `endpoint` ". */
static void print_labels(struct sl_str labels)
{
    if (labels.len > 0)
        putchar('`');
    for (size_t i = 0; i < labels.len; i++)
        fputs(labels.at[i] == ' ' ? "` `" : (char[]){labels.at[i], '\0'},
              stdout);
    if (labels.len > 0)
        fputs("` ", stdout);
}

static void print_rows(bool table)
{
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        if (!table) {
            printf("%s %s %s\n", rows[i].name, rows[i].type, rows[i].labels);
            continue;
        }
        printf("| `%s` | %s | ", rows[i].name, rows[i].type);
        print_labels(sl_str_c(rows[i].labels));
        printf("| %s |\n", rows[i].help);
    }
}

/* Some of everything. */
static void active(struct rig *rig, struct sl_metrics *stats)
{
    rig->now = 1000 * SL_S;
    for (int i = 0; i < 7; i++) {
        sl_metrics_decision(stats, rig_ask(rig, GET("/ai", USER("ann"))),
                            "http", 3 * SL_US);
        sl_metrics_decision(stats, rig_ask(rig, GET("/month", ORG("acme"))),
                            "http", 3 * SL_US);
        sl_metrics_decision(
            stats, rig_ask(rig, GET("/month", ORG("pro"), PLAN("pro"))), "grpc",
            3 * SL_US);
        sl_metrics_request(stats, "http", i % 2 ? 200 : 404);
        sl_metrics_connection(stats, "http", 1);
        sl_metrics_refused(stats, "http", i % 2 ? "too slow" : "malformed");
        sl_metrics_upstream(stats, SL_STR("ai"), i % 2 ? 200 : 503);
    }
    rig->fault = SLUICE_ESTORE;
    sl_metrics_decision(stats, rig_ask(rig, GET("/ai", USER("ann"))), "http",
                        20 * SL_MS);
    sl_metrics_decision(stats, rig_ask(rig, GET("/month", ORG("acme"))), "http",
                        20 * SL_MS);
}

static void print_page(bool open_metrics)
{
    static struct rig rig;
    struct counted c;

    counted_open(&c, 2);
    rig_open(&rig, policy);
    active(&rig, c.stats[0]);
    rig.fault = 0;
    active(&rig, c.stats[1]);
    CHECK_EQ(
        sl_engine_backlog(rig.engine, SL_STR("work"), 7, c.now.now, &rig.diag),
        0);
    c.now.active = rig.active;
    c.now.webhooks = (struct sl_metrics_webhooks){.on = true, .attempts = {1}};
    c.open_metrics = open_metrics;
    fputs(counted_page(&c), stdout);
    rig_close(&rig);
    counted_close(&c);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "table") == 0 || strcmp(what, "names") == 0)
        print_rows(strcmp(what, "table") == 0);
    else if (strcmp(what, "text") == 0 || strcmp(what, "open") == 0)
        print_page(strcmp(what, "open") == 0);
    else
        return 2;
    return check_state.bad;
}
