/* Threads count while another one prints. Runs with the thread sanitizer. */
#include <pthread.h>

#include "counted.h"

#define THREADS 3
#define TURNS   20000
#define NAMES   200

static struct counted c;
static _Atomic unsigned done;

static void *count(void *ctx)
{
    struct sl_metrics *stats = ctx;
    struct sl_decision *d = calloc(1, sizeof(*d));
    struct sl_route route = {.index = 0};
    struct sl_rule rule = {.index = 0};
    struct sl_policy policy = {.tree = NULL}; /* lists no tenants */
    char endpoint[16], limit[16], why[16];

    if (!d)
        abort();
    route.endpoint.at = endpoint;
    rule.name.at = limit;
    for (unsigned i = 0; i < TURNS; i++) {
        route.endpoint.len =
            (size_t)snprintf(endpoint, sizeof(endpoint), "e%u", i % NAMES);
        rule.name.len =
            (size_t)snprintf(limit, sizeof(limit), "l%u", i % NAMES);
        snprintf(why, sizeof(why), "w%u", i % 20);
        d->policy = &policy;
        d->route = &route;
        d->shown[0] = (struct sl_limit_view){
            .rule = &rule, .form = SL_RATE_PER, .allowed = true, .cost = 2};
        d->shown_count = 1;
        d->allowed = true;
        d->spend = true;
        d->status = 200;
        sl_metrics_decision(stats, d, "http", SL_US);
        sl_metrics_request(stats, i % 2 ? "http" : "admin", 200);
        sl_metrics_refused(stats, "http", why);
        sl_metrics_connection(stats, "http", i % 2 ? -1 : 1);
    }
    free(d);
    done++;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int64_t before = 0, now;

    counted_open(&c, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, count, c.stats[i]))
            return 1;
    CASE("what is printed meanwhile never goes back");
    while (done < THREADS) {
        now = counted_sum(&c, "sluice_decisions_total");
        CHECK(now >= before && now <= THREADS * TURNS);
        before = now;
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    CASE("and in the end nothing is missing");
    CHECK_EQ(counted_sum(&c, "sluice_decisions_total"), THREADS * TURNS);
    CHECK_EQ(counted_sum(&c, "sluice_consumed_units_total"),
             2 * THREADS * TURNS);
    CHECK_EQ(counted_sum(&c, "sluice_http_requests_total"), THREADS * TURNS);
    CHECK_EQ(counted_sum(&c, "sluice_http_refused_total"), THREADS * TURNS);
    CHECK_EQ(counted(&c, "sluice_connections{door=\"http\"}"), 0);
    CHECK_EQ(counted(&c, "sluice_consumed_units_total{limit=\"l7\"}"),
             2 * THREADS * TURNS / NAMES);
    counted_close(&c);
    return CHECK_DONE();
}
