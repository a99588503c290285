/* held.c -- what became of holds, and of what was asked upstream.
 *
 * Whoever settles a hold may say how the vendor has answered. That is counted
 * by endpoint and class of status; the endpoints are those of the policy, and
 * there is a ceiling on them all the same.
 */
#include <string.h>

#include "doors/stats/page.h"
#include "server/metrics_int.h"

static const char *const events[SL_HOLD_EVENTS] = {
    [SL_METRIC_HELD] = "held",
    [SL_HOLD_SETTLED_NOW] = "settled",
    [SL_HOLD_RELEASED_NOW] = "released",
    [SL_HOLD_EXTENDED] = "extended",
    [SL_HOLD_AGAIN] = "again",
    [SL_HOLD_MISSED] = "unknown",
    [SL_HOLD_FULL] = "full",
};

static const char *const classes[SL_CLASSES] = {"other", "1xx", "2xx",
                                                "3xx",   "4xx", "5xx"};

static void add_one(sl_stat *value)
{
    uint64_t old = atomic_load_explicit(value, memory_order_relaxed);

    atomic_store_explicit(value, old + 1, memory_order_relaxed);
}

void sl_metrics_hold(struct sl_metrics *stats, enum sl_hold_event event)
{
    add_one(&stats->holds[event]);
}

void sl_metrics_turn(struct sl_metrics *stats, const struct sl_decision *d)
{
    unsigned i = 0;

    if (d->reason == SL_REASON_QUEUE)
        add_one(&stats->turns[SL_WAIT_REFUSED]);
    else if (d->waited >= 0)
        add_one(&stats->turns[d->allowed ? SL_WAIT_GRANTED : SL_WAIT_DENIED]);
    if (d->waited < 0)
        return;
    while (i < SL_WAIT_BOUNDS && d->waited > sl_wait_bounds[i].most)
        i++;
    add_one(&stats->turn_waits[i]);
    atomic_store_explicit(
        &stats->turn_waits[SL_WAIT_VALUES - 1],
        atomic_load_explicit(&stats->turn_waits[SL_WAIT_VALUES - 1],
                             memory_order_relaxed) +
            (uint64_t)d->waited,
        memory_order_relaxed);
}

/* ---- upstream ---- */

static bool is_of(const struct sl_upstream_stats *row, struct sl_str endpoint)
{
    return strlen(row->endpoint) == endpoint.len &&
           memcmp(row->endpoint, endpoint.at, endpoint.len) == 0;
}

/* The endpoint's row; the last one is for all that find none. */
static struct sl_upstream_stats *find_row(struct sl_metrics *stats,
                                          struct sl_str endpoint)
{
    unsigned count =
        atomic_load_explicit(&stats->upstream_count, memory_order_relaxed);
    struct sl_upstream_stats *row = stats->upstream;

    for (unsigned i = 0; i < count; i++, row++)
        if (is_of(row, endpoint))
            return row;
    if (count == SL_UPSTREAMS)
        return row - 1;
    if (count == SL_UPSTREAMS - 1 || endpoint.len == 0 ||
        endpoint.len >= sizeof(row->endpoint))
        endpoint = SL_STR("other");
    for (unsigned i = 0; i < count; i++)
        if (is_of(&stats->upstream[i], endpoint))
            return &stats->upstream[i];
    memcpy(row->endpoint, endpoint.at, endpoint.len);
    atomic_store_explicit(&stats->upstream_count, count + 1,
                          memory_order_release);
    return row;
}

void sl_metrics_upstream(struct sl_metrics *stats, struct sl_str endpoint,
                         unsigned status)
{
    unsigned class = status >= 100 && status <= 599 ? status / 100 : 0;

    add_one(&find_row(stats, endpoint)->classes[class]);
}

/* ---- the page ---- */

static uint64_t read_stat(const sl_stat *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void put_holds(struct sl_metrics_write *page, const char *name,
                      struct sl_metrics *const *all, unsigned count)
{
    for (unsigned event = 0; event < SL_HOLD_EVENTS; event++) {
        uint64_t value = 0;

        for (unsigned i = 0; i < count; i++)
            value += read_stat(&all[i]->holds[event]);
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "event", sl_str_c(events[event]));
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, value);
    }
}

static const struct sl_upstream_stats *find_in(const struct sl_metrics *stats,
                                               const char *endpoint)
{
    unsigned count =
        atomic_load_explicit(&stats->upstream_count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        if (strcmp(stats->upstream[i].endpoint, endpoint) == 0)
            return &stats->upstream[i];
    return NULL;
}

/* All threads' counts of one endpoint. */
static void put_endpoint(struct sl_metrics_write *page, const char *name,
                         const char *endpoint, struct sl_metrics *const *all,
                         unsigned count)
{
    for (unsigned class = 0; class < SL_CLASSES; class ++) {
        uint64_t value = 0;

        for (unsigned i = 0; i < count; i++) {
            const struct sl_upstream_stats *row = find_in(all[i], endpoint);

            value += row ? read_stat(&row->classes[class]) : 0;
        }
        if (value == 0)
            continue;
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "endpoint", sl_str_c(endpoint));
        sl_metrics_write_label(page, ',', "class", sl_str_c(classes[class]));
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, value);
    }
}

static bool is_known(struct sl_metrics *const *all, unsigned before,
                     const char *endpoint)
{
    for (unsigned i = 0; i < before; i++)
        if (find_in(all[i], endpoint))
            return true;
    return false;
}

static void put_upstream(struct sl_metrics_write *page, const char *name,
                         struct sl_metrics *const *all, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned rows =
            atomic_load_explicit(&all[i]->upstream_count, memory_order_acquire);

        for (unsigned k = 0; k < rows; k++)
            if (!is_known(all, i, all[i]->upstream[k].endpoint))
                put_endpoint(page, name, all[i]->upstream[k].endpoint, all,
                             count);
    }
}

static void put_turns(struct sl_metrics_write *page, const char *name,
                      struct sl_metrics *const *all, unsigned count)
{
    static const char *const ends[SL_WAIT_RESULTS] = {"granted", "denied",
                                                      "refused"};

    for (unsigned end = 0; end < SL_WAIT_RESULTS; end++) {
        uint64_t value = 0;

        for (unsigned i = 0; i < count; i++)
            value += read_stat(&all[i]->turns[end]);
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "result", sl_str_c(ends[end]));
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, value);
    }
}

static void put_waits(struct sl_metrics_write *page, const char *name,
                      struct sl_metrics *const *all, unsigned count)
{
    uint64_t values[SL_WAIT_VALUES] = {0};

    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < SL_WAIT_VALUES; k++)
            values[k] += read_stat(&all[i]->turn_waits[k]);
    sl_metrics_write_histogram(page, name, "for", SL_STR("turn"), values,
                               sl_wait_bounds, SL_WAIT_BOUNDS);
}

void sl_metrics_write_held(struct sl_metrics_write *page, const char *name,
                           unsigned which, struct sl_metrics *const *all,
                           unsigned count)
{
    if (which == SL_METRICS_WRITE_HOLDS)
        put_holds(page, name, all, count);
    else if (which == SL_METRICS_WRITE_TURNS)
        put_turns(page, name, all, count);
    else if (which == SL_METRICS_WRITE_WAITS)
        put_waits(page, name, all, count);
    else
        put_upstream(page, name, all, count);
}
