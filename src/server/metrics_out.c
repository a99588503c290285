/* metrics_out.c -- the counts of all threads as text.
 *
 * The output is a loop over metrics.def. Each row names the function that
 * prints its samples. The series of all threads are sorted by their labels.
 * Series with equal labels are then neighbours and are added up:
 *
 *     thread 1: a b d      sorted: a a b b c d d     output: a b c d
 *     thread 2: a b c d
 *
 * Values are read one by one while other threads count. Each value is right,
 * but two values may be from slightly different moments. Values that must
 * agree (a histogram's count and its last bucket) come from one reading.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/metrics_int.h"

#define UNKNOWN UINT64_MAX

struct output;
struct metric;
typedef void print_f(struct output *out, const struct metric *m);

enum metric_type { TYPE_COUNTER, TYPE_GAUGE, TYPE_HISTOGRAM };

struct metric {
    const char *name;
    enum metric_type type;
    print_f *print;
    size_t which;
    const char *help;
};

enum {
    PROCESS_CPU, /* ns */
    PROCESS_MAX_FDS,
    PROCESS_OPEN_FDS,
    PROCESS_RESIDENT,
    PROCESS_VIRTUAL,
    PROCESS_VALUES
};

/* Structs with counts of all threads, sorted. */
struct rows {
    const void **list;
    unsigned count;
    int (*compare)(const void *x, const void *y);
};

struct output {
    struct sl_writer w;
    bool open_metrics;
    const struct sl_metrics_now *now;
    uint64_t process[PROCESS_VALUES];
    struct rows threads; /* struct sl_metrics */
    struct rows series, doors, whys, upstream;
};

/* The rows from `at` on that are equal. */
struct group {
    const struct rows *rows;
    unsigned at, count;
};

/* Go to the next group. Returns its first row, or NULL at the end. */
static const void *next(struct group *g)
{
    const struct rows *r = g->rows;

    g->at += g->count;
    g->count = 0;
    while (g->at + g->count < r->count &&
           r->compare(&r->list[g->at], &r->list[g->at + g->count]) == 0)
        g->count++;
    return g->count > 0 ? r->list[g->at] : NULL;
}

/* Add up `count` counters that are at `offset` in each row of the group. */
static void sum(const struct group *g, size_t offset, uint64_t *ret,
                unsigned count)
{
    memset(ret, 0, count * sizeof(*ret));
    for (unsigned i = 0; i < g->count; i++) {
        const char *row = g->rows->list[g->at + i];
        const sl_stat *values = (const sl_stat *)(row + offset);

        for (unsigned k = 0; k < count; k++)
            ret[k] += atomic_load_explicit(&values[k], memory_order_relaxed);
    }
}

/* The same for counters of the threads. */
static void sum_threads(const struct output *out, size_t offset, uint64_t *ret,
                        unsigned count)
{
    struct group all = {&out->threads, 0, out->threads.count};

    sum(&all, offset, ret, count);
}

/* ---- the text format ---- */

/* Write `{name="value"` or `,name="value"`, with the value escaped. */
static void put_label(struct sl_writer *w, char before, const char *name,
                      struct sl_str value)
{
    sl_writer_addf(w, "%c%s=\"", before, name);
    for (size_t i = 0; i < value.len; i++) {
        struct sl_str piece = {value.at + i, 1};

        if (value.at[i] == '\n')
            piece = SL_STR("\\n");
        else if (value.at[i] == '"')
            piece = SL_STR("\\\"");
        else if (value.at[i] == '\\')
            piece = SL_STR("\\\\");
        sl_writer_add(w, piece);
    }
    sl_writer_add(w, SL_STR("\""));
}

/* Write a blank, the number and the end of the line. */
static void put_number(struct sl_writer *w, uint64_t number)
{
    sl_writer_addf(w, " %" PRIu64 "\n", number);
}

/* Write nanoseconds as seconds, without loss. */
static void put_seconds(struct sl_writer *w, uint64_t ns)
{
    char text[48];
    int len = snprintf(text, sizeof(text), " %" PRIu64 ".%09" PRIu64, ns / SL_S,
                       ns % SL_S);

    while (text[len - 1] == '0' && text[len - 2] != '.')
        len--;
    sl_writer_addf(w, "%.*s\n", len, text);
}

/* Write a sample without labels. */
static void put_plain(struct output *out, const struct metric *m,
                      uint64_t number)
{
    sl_writer_add(&out->w, sl_str_c(m->name));
    put_number(&out->w, number);
}

static void put_plain_seconds(struct output *out, const struct metric *m,
                              uint64_t ns)
{
    sl_writer_add(&out->w, sl_str_c(m->name));
    put_seconds(&out->w, ns);
}

/* Begin a sample: its name and its first label, without the brace. */
static void open_sample(struct output *out, const struct metric *m,
                        const char *suffix, const char *label,
                        struct sl_str value)
{
    sl_writer_addf(&out->w, "%s%s", m->name, suffix);
    put_label(&out->w, '{', label, value);
}

static void close_sample(struct output *out, uint64_t number)
{
    sl_writer_addf(&out->w, "} %" PRIu64 "\n", number);
}

/* Write a sample with one label. */
static void put_one(struct output *out, const struct metric *m,
                    const char *label, struct sl_str value, uint64_t number)
{
    open_sample(out, m, "", label, value);
    close_sample(out, number);
}

/* Write a sample with two labels. */
static void put_two(struct output *out, const struct metric *m,
                    const char *label, const char *value, const char *label2,
                    const char *value2, uint64_t number)
{
    open_sample(out, m, "", label, sl_str_c(value));
    put_label(&out->w, ',', label2, sl_str_c(value2));
    close_sample(out, number);
}

/* Write one sample for each word. */
static void put_words(struct output *out, const struct metric *m,
                      const char *label, const char *const *words,
                      const uint64_t *numbers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        put_one(out, m, label, sl_str_c(words[i]), numbers[i]);
}

/* Write one sample for each counter of an array in sl_metrics. */
static void put_sums(struct output *out, const struct metric *m,
                     const char *label, size_t offset, const char *const *words,
                     unsigned count)
{
    uint64_t numbers[64];

    SL_HOLDS(count <= SL_LEN(numbers));
    sum_threads(out, offset, numbers, count);
    put_words(out, m, label, words, numbers, count);
}

/* Write all lines of a histogram with one label. `values` are the counts of
 * the buckets, +Inf behind the `count` bounds, and then the sum in ns. */
static void put_histogram(struct output *out, const struct metric *m,
                          const char *label, struct sl_str value,
                          const uint64_t *values, const struct sl_bound *bounds,
                          unsigned count)
{
    uint64_t total = 0;

    for (unsigned i = 0; i <= count; i++) {
        total += values[i];
        open_sample(out, m, "_bucket", label, value);
        sl_writer_addf(&out->w, ",le=\"%s\"",
                       i < count ? bounds[i].le : "+Inf");
        close_sample(out, total);
    }
    open_sample(out, m, "_sum", label, value);
    sl_writer_add(&out->w, SL_STR("}"));
    put_seconds(&out->w, values[count + 1]);
    open_sample(out, m, "_count", label, value);
    close_sample(out, total);
}

static bool has_counts(const uint64_t *values, unsigned bounds)
{
    uint64_t any = 0;

    for (unsigned i = 0; i <= bounds; i++)
        any |= values[i];
    return any;
}

/* ---- series ---- */

static int compare_texts(struct sl_str a, struct sl_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_series(const void *x, const void *y)
{
    const struct sl_labels *a = &(*(struct sl_series *const *)x)->labels;
    const struct sl_labels *b = &(*(struct sl_series *const *)y)->labels;
    int order = (a->kind > b->kind) - (a->kind < b->kind);

    if (!order)
        order = compare_texts(a->limit, b->limit);
    if (!order)
        order = compare_texts(a->endpoint, b->endpoint);
    if (!order)
        order = a->status - b->status;
    if (!order)
        order = (int)a->result - (int)b->result;
    return order;
}

/* Add up the next series of `kind`. Returns its labels, or NULL at the end. A
 * series `other` without a count is skipped. */
static const struct sl_labels *next_series(struct group *g,
                                           enum sl_series_kind kind,
                                           size_t which, uint64_t *values,
                                           unsigned count)
{
    const struct sl_series *series;

    while ((series = next(g))) {
        const struct sl_labels *labels = &series->labels;

        if (labels->kind != kind)
            continue;
        sum(g, offsetof(struct sl_series, values) + which * sizeof(sl_stat),
            values, count);
        if (has_counts(values, count > 1 ? count - 2 : 0) ||
            (!sl_str_eq(labels->limit, SL_STR("other")) &&
             !sl_str_eq(labels->endpoint, SL_STR("other"))))
            return labels;
    }
    return NULL;
}

static void decisions(struct output *out, const struct metric *m)
{
    static const char *const results[SL_RESULTS] = {
        [SL_RESULT_ALLOW] = "allow",
        [SL_RESULT_DENY] = "deny",
        [SL_RESULT_SHADOW_DENY] = "shadow_deny",
        [SL_RESULT_ERROR_ALLOW] = "error_allow",
        [SL_RESULT_ERROR_DENY] = "error_deny",
    };
    struct group g = {.rows = &out->series};
    const struct sl_labels *labels;
    uint64_t value;

    while ((labels = next_series(&g, SL_OF_DECISION, 0, &value, 1))) {
        open_sample(out, m, "", "limit", labels->limit);
        put_label(&out->w, ',', "endpoint", labels->endpoint);
        if (labels->status)
            sl_writer_addf(&out->w, ",status=\"%d\"", labels->status);
        else
            sl_writer_add(&out->w, SL_STR(",status=\"other\""));
        sl_writer_addf(&out->w, ",result=\"%s\"", results[labels->result]);
        close_sample(out, value);
    }
}

static void limits(struct output *out, const struct metric *m)
{
    struct group g = {.rows = &out->series};
    const struct sl_labels *labels;
    uint64_t value;

    while ((labels = next_series(&g, SL_OF_LIMIT, m->which, &value, 1)))
        put_one(out, m, "limit", labels->limit, value);
}

static void waits(struct output *out, const struct metric *m)
{
    struct group g = {.rows = &out->series};
    const struct sl_labels *labels;
    uint64_t values[SL_WAIT_VALUES];

    while (
        (labels = next_series(&g, SL_OF_ENDPOINT, 0, values, SL_WAIT_VALUES)))
        put_histogram(out, m, "endpoint", labels->endpoint, values,
                      sl_wait_bounds, SL_WAIT_BOUNDS);
}

/* ---- tenants ---- */

/* Add up the next series of a tenant; of OF_TENANT_RETRY it is the latest.
 * Returns its name, or NULL at the end. */
static const struct sl_str *next_tenant(struct group *g,
                                        uint64_t values[OF_TENANTS])
{
    const struct sl_series *series;

    while ((series = next(g))) {
        uint64_t any = 0, last = 0;

        if (series->labels.kind != SL_OF_TENANT)
            continue;
        sum(g, offsetof(struct sl_series, values), values, OF_TENANTS);
        for (unsigned i = 0; i < g->count; i++) {
            const struct sl_series *one = g->rows->list[g->at + i];
            uint64_t retry = atomic_load_explicit(&one->values[OF_TENANT_RETRY],
                                                  memory_order_relaxed);

            last = retry > last ? retry : last;
        }
        values[OF_TENANT_RETRY] = last;
        for (unsigned i = 0; i < OF_TENANTS; i++)
            any |= values[i];
        if (any || !sl_str_eq(series->labels.limit, SL_STR("other")))
            return &series->labels.limit;
    }
    return NULL;
}

/* Write the values from m->which on, by the words of the second label. */
static void put_tenants(struct output *out, const struct metric *m,
                        const char *label, const char *const *words,
                        unsigned count)
{
    struct group g = {.rows = &out->series};
    uint64_t values[OF_TENANTS];
    const struct sl_str *tenant;

    while ((tenant = next_tenant(&g, values)))
        for (unsigned i = 0; i < count; i++) {
            open_sample(out, m, "", "tenant_id", *tenant);
            put_label(&out->w, ',', label, sl_str_c(words[i]));
            close_sample(out, values[m->which + i]);
        }
}

static void tenant_violations(struct output *out, const struct metric *m)
{
    static const char *const types[] = {"tenant", "user", "other"};

    put_tenants(out, m, "limit_type", types, SL_LEN(types));
}

static void tenant_allowed(struct output *out, const struct metric *m)
{
    static const char *const users[] = {"authenticated", "unauthenticated"};

    put_tenants(out, m, "user_id", users, SL_LEN(users));
}

/* The wait of the last denial, as long as it lasts. */
static void tenant_retry(struct output *out, const struct metric *m)
{
    struct group g = {.rows = &out->series};
    uint64_t values[OF_TENANTS];
    const struct sl_str *tenant;

    while ((tenant = next_tenant(&g, values))) {
        uint64_t since = values[m->which] >> 32;
        uint64_t wait = (uint32_t)values[m->which];
        uint64_t now = (uint64_t)(out->now->now / SL_S);

        put_one(out, m, "tenant_id", *tenant, now < since + wait ? wait : 0);
    }
}

/* ---- protocols: the label `door`; upstream services ---- */

/* Both structs begin with a name. */
static int compare_names(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static void connections(struct output *out, const struct metric *m)
{
    struct group g = {.rows = &out->doors};
    const struct sl_protocol_metrics *door;
    uint64_t value;

    while ((door = next(&g))) {
        sum(&g, offsetof(struct sl_protocol_metrics, connections), &value, 1);
        put_one(out, m, "door", sl_str_c(door->name),
                (int64_t)value > 0 ? value : 0);
    }
}

static void requests(struct output *out, const struct metric *m)
{
    struct group g = {.rows = &out->doors};
    const struct sl_protocol_metrics *door;
    uint64_t values[SL_STATUSES];
    char code[16];

    while ((door = next(&g))) {
        sum(&g, offsetof(struct sl_protocol_metrics, requests), values,
            SL_STATUSES);
        for (unsigned status = 0; status < SL_STATUSES; status++) {
            snprintf(code, sizeof(code), "%u", status + 99);
            if (values[status] > 0)
                put_two(out, m, "door", door->name, "code",
                        status ? code : "other", values[status]);
        }
    }
}

static void durations(struct output *out, const struct metric *m)
{
    struct group g = {.rows = &out->doors};
    const struct sl_protocol_metrics *door;
    uint64_t values[SL_TOOK_VALUES];

    while ((door = next(&g))) {
        sum(&g, offsetof(struct sl_protocol_metrics, took), values,
            SL_TOOK_VALUES);
        /* The admin listener makes no decisions. */
        if (has_counts(values, SL_TOOK_BOUNDS))
            put_histogram(out, m, "door", sl_str_c(door->name), values,
                          sl_took_bounds, SL_TOOK_BOUNDS);
    }
}

static int compare_whys(const void *x, const void *y)
{
    const struct sl_why_stats *a = *(const struct sl_why_stats *const *)x;
    const struct sl_why_stats *b = *(const struct sl_why_stats *const *)y;
    int order = strcmp(a->door, b->door);

    return order ? order : strcmp(a->why, b->why);
}

static void refusals(struct output *out, const struct metric *m)
{
    struct group g = {.rows = &out->whys};
    const struct sl_why_stats *row;
    uint64_t value;

    while ((row = next(&g))) {
        sum(&g, offsetof(struct sl_why_stats, count), &value, 1);
        put_two(out, m, "door", row->door, "why", row->why, value);
    }
}

static void upstream(struct output *out, const struct metric *m)
{
    static const char *const classes[SL_CLASSES] = {"other", "1xx", "2xx",
                                                    "3xx",   "4xx", "5xx"};
    struct group g = {.rows = &out->upstream};
    const struct sl_upstream_stats *row;
    uint64_t values[SL_CLASSES];

    while ((row = next(&g))) {
        sum(&g, offsetof(struct sl_upstream_stats, classes), values,
            SL_CLASSES);
        for (unsigned i = 0; i < SL_CLASSES; i++)
            if (values[i] > 0)
                put_two(out, m, "endpoint", row->endpoint, "class", classes[i],
                        values[i]);
    }
}

/* ---- counters of the threads ---- */

static void fail_modes(struct output *out, const struct metric *m)
{
    put_sums(out, m, "mode", offsetof(struct sl_metrics, fail_modes),
             sl_failure_words, SL_LEN(sl_failure_words));
}

static void tokens(struct output *out, const struct metric *m)
{
    const char *words[SL_TOKEN_ERRORS];

    for (unsigned i = 0; i < SL_TOKEN_ERRORS; i++)
        words[i] = sl_token_error_word((enum sl_token_error)i);
    put_sums(out, m, "result", offsetof(struct sl_metrics, tokens), words,
             SL_TOKEN_ERRORS);
}

static void holds(struct output *out, const struct metric *m)
{
    static const char *const events[SL_HOLD_EVENTS] = {
        [SL_METRIC_HELD] = "held",
        [SL_HOLD_SETTLED_NOW] = "settled",
        [SL_HOLD_RELEASED_NOW] = "released",
        [SL_HOLD_EXTENDED] = "extended",
        [SL_HOLD_AGAIN] = "again",
        [SL_HOLD_MISSED] = "unknown",
        [SL_HOLD_FULL] = "full",
    };

    put_sums(out, m, "event", offsetof(struct sl_metrics, holds), events,
             SL_HOLD_EVENTS);
}

static void turns(struct output *out, const struct metric *m)
{
    static const char *const results[SL_WAIT_RESULTS] = {"granted", "denied",
                                                         "refused"};

    put_sums(out, m, "result", offsetof(struct sl_metrics, turns), results,
             SL_WAIT_RESULTS);
}

static void turn_waits(struct output *out, const struct metric *m)
{
    uint64_t values[SL_WAIT_VALUES];

    sum_threads(out, offsetof(struct sl_metrics, turn_waits), values,
                SL_WAIT_VALUES);
    put_histogram(out, m, "for", SL_STR("turn"), values, sl_wait_bounds,
                  SL_WAIT_BOUNDS);
}

static void store_errors(struct output *out, const struct metric *m)
{
    uint64_t value;

    sum_threads(out, offsetof(struct sl_metrics, store_errors), &value, 1);
    put_one(out, m, "store", sl_str_c(out->now->store), value);
}

/* ---- values of struct sl_metrics_now ---- */

#define NOW(field)     offsetof(struct sl_metrics_now, field)
#define WEBHOOK(field) offsetof(struct sl_metrics_webhooks, field)

static uint64_t read_now(const struct output *out, const struct metric *m)
{
    return *(const uint64_t *)((const char *)out->now + m->which);
}

static void now(struct output *out, const struct metric *m)
{
    put_plain(out, m, read_now(out, m));
}

static void now_seconds(struct output *out, const struct metric *m)
{
    put_plain_seconds(out, m, read_now(out, m));
}

static void subjects(struct output *out, const struct metric *m)
{
    put_plain(out, m, out->now->subjects.numbers[m->which]);
}

static void lookups(struct output *out, const struct metric *m)
{
    put_words(out, m, "result", sl_lookup_words, out->now->subjects.results,
              SL_LOOKUPS);
}

static void store_up(struct output *out, const struct metric *m)
{
    put_one(out, m, "store", sl_str_c(out->now->store), out->now->store_up);
}

static void database_up(struct output *out, const struct metric *m)
{
    if (out->now->has_database)
        put_plain(out, m, out->now->database_up);
}

static void reloads(struct output *out, const struct metric *m)
{
    put_one(out, m, "result", SL_STR("success"), out->now->reloads_good);
    put_one(out, m, "result", SL_STR("failure"), out->now->reloads_bad);
}

static void config(struct output *out, const struct metric *m)
{
    put_one(out, m, "hash", sl_str_c(out->now->policy_hash), 1);
}

static void build(struct output *out, const struct metric *m)
{
    put_one(out, m, "version", SL_STR(SLUICE_VERSION), 1);
}

static void process(struct output *out, const struct metric *m)
{
    uint64_t value = out->process[m->which];

    if (value == UNKNOWN)
        return;
    if (m->which == PROCESS_CPU)
        put_plain_seconds(out, m, value);
    else
        put_plain(out, m, value);
}

static void jwks_keys(struct output *out, const struct metric *m)
{
    if (out->now->jwks_on)
        put_plain(out, m, out->now->jwks_keys);
}

static void jwks_age(struct output *out, const struct metric *m)
{
    if (out->now->jwks_on && out->now->jwks_age >= 0)
        put_plain_seconds(out, m, (uint64_t)out->now->jwks_age);
}

const char *const sl_attempt_words[SL_ATTEMPT_CLASSES] = {
    "success", "error", "redirect", "slow", "timeout", "gone", "unreachable"};

static void webhooks(struct output *out, const struct metric *m)
{
    const char *base = (const char *)&out->now->webhooks;
    uint64_t value;

    memcpy(&value, base + m->which, sizeof(value));
    if (out->now->webhooks.on)
        put_plain(out, m, value);
}

static void webhook_attempts(struct output *out, const struct metric *m)
{
    if (out->now->webhooks.on)
        put_words(out, m, "class", sl_attempt_words,
                  out->now->webhooks.attempts, SL_ATTEMPT_CLASSES);
}

static void webhook_oldest(struct output *out, const struct metric *m)
{
    sl_ns oldest = out->now->webhooks.oldest;

    if (out->now->webhooks.on)
        put_plain_seconds(out, m,
                          oldest > 0 && oldest < out->now->now
                              ? (uint64_t)(out->now->now - oldest)
                              : 0);
}

static void jwks_refreshes(struct output *out, const struct metric *m)
{
    if (out->now->jwks_on)
        put_words(out, m, "result", out->now->jwks_words,
                  out->now->jwks_results, SL_JWKS_WORDS);
}

/* Returns the longest time after which a route ignores a report. */
static sl_ns stale_of(const struct sl_policy *policy, unsigned index)
{
    sl_ns stale = 0;

    for (const struct sl_prechecks *g = policy->guarded; g; g = g->next)
        if (g->backlog.written && g->backlog.index == index &&
            g->backlog.stale > stale)
            stale = g->backlog.stale;
    return stale;
}

static void backlogs(struct output *out, const struct metric *m)
{
    const struct sl_active_policy *active = out->now->active;

    for (unsigned i = 0; active && i < active->policy->backlog_count; i++) {
        const struct sl_depth *depth = &active->depths[i];
        sl_ns at = atomic_load_explicit(&depth->at, memory_order_acquire);

        if (at != SL_NS_NONE &&
            out->now->now - at <= stale_of(active->policy, i))
            put_one(out, m, "backlog", active->policy->backlogs[i],
                    atomic_load(&depth->depth));
    }
}

/* ---- a remote store ---- */

static void store_number(struct output *out, const struct metric *m)
{
    if (out->now->shared.on)
        put_plain(out, m, out->now->shared.numbers[m->which]);
}

static void store_takes(struct output *out, const struct metric *m)
{
    static const char *const words[] = {"answered", "remembered", "leased",
                                        "late",     "failed",     "crossing"};

    if (out->now->shared.on)
        put_words(out, m, "result", words,
                  &out->now->shared.numbers[SL_STORE_NUM_ANSWERED],
                  SL_LEN(words));
}

static void store_redirects(struct output *out, const struct metric *m)
{
    static const char *const words[] = {"followed", "storm"};

    if (out->now->shared.on)
        put_words(out, m, "result", words,
                  &out->now->shared.numbers[SL_STORE_NUM_REDIRECTED],
                  SL_LEN(words));
}

/* The clock of the store may be behind ours. */
static void store_clock(struct output *out, const struct metric *m)
{
    sl_ns ahead = out->now->shared.ahead;

    if (!out->now->shared.on || ahead == SL_NS_NONE)
        return;
    if (ahead < 0)
        sl_writer_addf(&out->w, "%s -%lld.%09lld\n", m->name,
                       (long long)(-ahead / SL_S), (long long)(-ahead % SL_S));
    else
        put_plain_seconds(out, m, (uint64_t)ahead);
}

static void store_latency(struct output *out, const struct metric *m)
{
    if (out->now->shared.on && out->now->shared.latency > 0)
        put_plain_seconds(out, m, (uint64_t)out->now->shared.latency);
}

/* ---- the process ----
 *
 * A value that the kernel does not give (no /proc, no free descriptor) is left
 * out of the output. It is not shown as 0.
 */

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * SL_S + (uint64_t)t.tv_usec * SL_US;
}

static uint64_t cpu_time(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage))
        return UNKNOWN;
    return ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
}

static uint64_t max_fds(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UNKNOWN;
    return limit.rlim_cur;
}

/* O(descriptors): one millisecond for ten thousand, once per scrape. */
static uint64_t open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    uint64_t count = 0;

    if (!folder)
        return UNKNOWN;
    while ((entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* without the descriptor of this folder */
}

/* The first two numbers of statm: pages of address space, pages in RAM. */
static void memory(uint64_t *resident, uint64_t *address_space)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t all, here;
    char text[128];
    ssize_t len;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    *resident = *address_space = UNKNOWN;
    if (fd < 0)
        return;
    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &all, &here) != 2)
        return;
    *address_space = all * page;
    *resident = here * page;
}

static void read_process(uint64_t ret[PROCESS_VALUES])
{
    ret[PROCESS_CPU] = cpu_time();
    ret[PROCESS_MAX_FDS] = max_fds();
    ret[PROCESS_OPEN_FDS] = open_fds();
    memory(&ret[PROCESS_RESIDENT], &ret[PROCESS_VIRTUAL]);
}

/* ---- the whole output ---- */

static const struct metric metrics[] = {
#define STAT(name, type, from, which, labels, help)                            \
    {#name, TYPE_##type, from, which, help},
#include "server/metrics.def"
};

/* In OpenMetrics the family of a counter has no `_total`. */
static void put_head(struct output *out, const struct metric *m)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    int len = (int)strlen(m->name);

    if (out->open_metrics && m->type == TYPE_COUNTER)
        len -= (int)strlen("_total");
    sl_writer_addf(&out->w, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, m->name,
                   m->help, len, m->name, types[m->type]);
}

/* Add the rows of a thread: `size` bytes each, or pointers if it is 0. */
static void add_rows(struct rows *rows, const void *list, size_t size,
                     const _Atomic unsigned *count)
{
    unsigned n = atomic_load_explicit(count, memory_order_acquire);

    for (unsigned i = 0; i < n; i++)
        rows->list[rows->count++] = size > 0 ? (const char *)list + i * size
                                             : ((const void *const *)list)[i];
}

static void gather(struct output *out)
{
    struct rows *all[] = {&out->series, &out->doors, &out->whys,
                          &out->upstream};

    for (unsigned i = 0; i < out->threads.count; i++) {
        const struct sl_metrics *t = out->threads.list[i];

        add_rows(&out->series, t->series, 0, &t->series_count);
        add_rows(&out->doors, t->doors, sizeof(t->doors[0]), &t->door_count);
        add_rows(&out->whys, t->whys, sizeof(t->whys[0]), &t->why_count);
        add_rows(&out->upstream, t->upstream, sizeof(t->upstream[0]),
                 &t->upstream_count);
    }
    for (size_t i = 0; i < SL_LEN(all); i++)
        qsort(all[i]->list, all[i]->count, sizeof(void *), all[i]->compare);
}

/* The series of tenants can have another first word, by the policy. */
static void put_metric(struct output *out, const struct metric *m)
{
    const struct sl_active_policy *active = out->now->active;
    struct metric named = *m;
    char name[80];

    if (m->print == tenant_violations || m->print == tenant_allowed ||
        m->print == tenant_retry)
        if (active && active->policy->metrics.prefix.len > 0) {
            snprintf(name, sizeof(name), "%.*s%s",
                     SL_STR_ARG(active->policy->metrics.prefix),
                     m->name + strlen("sluice"));
            named.name = name;
        }
    put_head(out, &named);
    m->print(out, &named);
}

int sl_metrics_render(struct sl_metrics *const *all, unsigned count,
                      const struct sl_metrics_now *what, bool open_metrics,
                      struct sl_buf *text)
{
    size_t each = SL_SERIES + SL_METRICS_DOORS + SL_METRICS_WHYS + SL_UPSTREAMS;
    size_t size = (count + 1) * each * sizeof(void *);
    size_t len = text->len;
    const void **room = sl_alloc_new(text->alloc, size);
    struct output out = {
        .w = {.out = text},
        .open_metrics = open_metrics,
        .now = what,
        .threads.list = (const void **)all,
        .threads.count = count,
        .series.list = room,
        .series.compare = compare_series,
        .doors.compare = compare_names,
        .whys.compare = compare_whys,
        .upstream.compare = compare_names,
    };

    if (!room)
        return SLUICE_ENOMEM;
    out.doors.list = out.series.list + (size_t)count * SL_SERIES;
    out.whys.list = out.doors.list + (size_t)count * SL_METRICS_DOORS;
    out.upstream.list = out.whys.list + (size_t)count * SL_METRICS_WHYS;
    gather(&out);
    read_process(out.process);
    for (size_t i = 0; i < SL_LEN(metrics); i++) {
        put_metric(&out, &metrics[i]);
    }
    if (open_metrics)
        sl_writer_add(&out.w, SL_STR("# EOF\n"));
    sl_alloc_free(text->alloc, room, size);
    if (out.w.err)
        text->len = len; /* nothing was added */
    return out.w.err;
}
