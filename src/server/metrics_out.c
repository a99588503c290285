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
    unsigned which;
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

struct output {
    struct sl_writer w;
    bool open_metrics;
    struct sl_metrics *const *all;
    unsigned count;
    const struct sl_metrics_now *now;
    uint64_t process[PROCESS_VALUES];
    /* Of all threads, sorted by their labels. */
    const struct sl_series **series;
    const struct sl_protocol_metrics **doors;
    const struct sl_why_stats **whys;
    unsigned series_count, door_count, why_count;
};

enum {
    NOW_STARTED,
    NOW_RELOADED,
    NOW_RELOAD_GOOD,
    NOW_TABLE_BYTES,
    NOW_TABLE_PLACES,
    NOW_TABLE_OCCUPIED,
    NOW_TABLE_EVICTED,
    NOW_TABLE_FULL,
    NOW_LISTENER_PAUSED,
    NOW_WAITING,
    NOW_HOLDS,
    NOW_HOLD_PLACES,
};

static uint64_t read_stat(const sl_stat *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
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
    sl_writer_addf(&out->w, "%s %" PRIu64 "\n", m->name, number);
}

/* Write a sample with one label. */
static void put_one(struct output *out, const struct metric *m,
                    const char *label, struct sl_str value, uint64_t number)
{
    sl_writer_add(&out->w, sl_str_c(m->name));
    put_label(&out->w, '{', label, value);
    sl_writer_addf(&out->w, "} %" PRIu64 "\n", number);
}

/* Write a sample with two labels. */
static void put_two(struct output *out, const struct metric *m,
                    const char *label, struct sl_str value, const char *label2,
                    const char *value2, uint64_t number)
{
    sl_writer_add(&out->w, sl_str_c(m->name));
    put_label(&out->w, '{', label, value);
    put_label(&out->w, ',', label2, sl_str_c(value2));
    sl_writer_addf(&out->w, "} %" PRIu64 "\n", number);
}

/* Write all lines of a histogram with one label. `values` are the counts of
 * the buckets, +Inf behind the `count` bounds, and then the sum in ns. */
static void put_histogram(struct output *out, const struct metric *m,
                          const char *label, struct sl_str value,
                          const uint64_t *values, const struct sl_bound *bounds,
                          unsigned count)
{
    struct sl_writer *w = &out->w;
    uint64_t total = 0;

    for (unsigned i = 0; i <= count; i++) {
        total += values[i];
        sl_writer_addf(w, "%s_bucket", m->name);
        put_label(w, '{', label, value);
        sl_writer_addf(w, ",le=\"%s\"}", i < count ? bounds[i].le : "+Inf");
        put_number(w, total);
    }
    sl_writer_addf(w, "%s_sum", m->name);
    put_label(w, '{', label, value);
    sl_writer_add(w, SL_STR("}"));
    put_seconds(w, values[count + 1]);
    sl_writer_addf(w, "%s_count", m->name);
    put_label(w, '{', label, value);
    sl_writer_add(w, SL_STR("}"));
    put_number(w, total);
}

/* Sum one counter of all threads; `offset` is its place in sl_metrics. */
static uint64_t sum_of(const struct output *out, size_t offset)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < out->count; i++)
        value +=
            read_stat((const sl_stat *)((const char *)out->all[i] + offset));
    return value;
}

/* Write one sample for each counter of an array in sl_metrics. */
static void put_sums(struct output *out, const struct metric *m,
                     const char *label, size_t offset, const char *const *words,
                     unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        put_one(out, m, label, sl_str_c(words[i]),
                sum_of(out, offset + i * sizeof(sl_stat)));
}

/* ---- series ---- */

static int compare_texts(struct sl_str a, struct sl_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare(const void *x, const void *y)
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

/* Add up the next series of `kind`, from *at on, that have equal labels.
 * Returns the last one of them, or NULL at the end. */
static const struct sl_series *next_sum(struct output *out, unsigned *at,
                                        enum sl_series_kind kind,
                                        uint64_t *values, unsigned count)
{
    const struct sl_series *first = NULL;

    memset(values, 0, count * sizeof(*values));
    for (; *at < out->series_count; ++*at) {
        const struct sl_series *series = out->series[*at];

        if (series->labels.kind != kind)
            continue;
        if (first && compare(&first, &series))
            break;
        first = series;
        for (unsigned i = 0; i < count; i++)
            values[i] += read_stat(&series->values[i]);
    }
    return first;
}

/* A series `other` without a count is not shown. */
static bool is_unused_other(const struct sl_labels *labels, uint64_t value)
{
    return value == 0 && (sl_str_eq(labels->limit, SL_STR("other")) ||
                          sl_str_eq(labels->endpoint, SL_STR("other")));
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
    const struct sl_series *series;
    struct sl_writer *w = &out->w;
    unsigned at = 0;
    uint64_t value;

    while ((series = next_sum(out, &at, SL_OF_DECISION, &value, 1))) {
        const struct sl_labels *labels = &series->labels;

        if (is_unused_other(labels, value))
            continue;
        sl_writer_add(w, sl_str_c(m->name));
        put_label(w, '{', "limit", labels->limit);
        put_label(w, ',', "endpoint", labels->endpoint);
        if (labels->status)
            sl_writer_addf(w, ",status=\"%d\"", labels->status);
        else
            sl_writer_add(w, SL_STR(",status=\"other\""));
        sl_writer_addf(w, ",result=\"%s\"}", results[labels->result]);
        put_number(w, value);
    }
}

static void limits(struct output *out, const struct metric *m)
{
    const struct sl_series *series;
    uint64_t values[OF_LIMITS];
    unsigned at = 0;

    while ((series = next_sum(out, &at, SL_OF_LIMIT, values, OF_LIMITS)))
        if (!is_unused_other(&series->labels, values[m->which]))
            put_one(out, m, "limit", series->labels.limit, values[m->which]);
}

static void waits(struct output *out, const struct metric *m)
{
    const struct sl_series *series;
    uint64_t values[SL_WAIT_VALUES];
    unsigned at = 0;

    while (
        (series = next_sum(out, &at, SL_OF_ENDPOINT, values, SL_WAIT_VALUES))) {
        uint64_t any = 0;

        for (unsigned i = 0; i <= SL_WAIT_BOUNDS; i++)
            any |= values[i];
        if (!is_unused_other(&series->labels, any))
            put_histogram(out, m, "endpoint", series->labels.endpoint, values,
                          sl_wait_bounds, SL_WAIT_BOUNDS);
    }
}

/* ---- protocols: the label `door` ---- */

static int compare_doors(const void *x, const void *y)
{
    return strcmp((*(const struct sl_protocol_metrics *const *)x)->name,
                  (*(const struct sl_protocol_metrics *const *)y)->name);
}

/* Count the entries from `at` on that have the same name. */
static unsigned same_door(const struct output *out, unsigned at)
{
    unsigned end = at;

    while (end < out->door_count &&
           compare_doors(&out->doors[at], &out->doors[end]) == 0)
        end++;
    return end - at;
}

static void connections(struct output *out, const struct metric *m)
{
    for (unsigned at = 0, n; at < out->door_count; at += n) {
        int64_t value = 0;

        n = same_door(out, at);
        for (unsigned i = 0; i < n; i++)
            value += atomic_load_explicit(&out->doors[at + i]->connections,
                                          memory_order_relaxed);
        put_one(out, m, "door", sl_str_c(out->doors[at]->name),
                value > 0 ? (uint64_t)value : 0);
    }
}

static void requests(struct output *out, const struct metric *m)
{
    for (unsigned at = 0, n; at < out->door_count; at += n) {
        n = same_door(out, at);
        for (unsigned status = 0; status < SL_STATUSES; status++) {
            uint64_t value = 0;
            char code[16];

            for (unsigned i = 0; i < n; i++)
                value += read_stat(&out->doors[at + i]->requests[status]);
            if (value == 0)
                continue;
            snprintf(code, sizeof(code), "%u", status + 99);
            put_two(out, m, "door", sl_str_c(out->doors[at]->name), "code",
                    status ? code : "other", value);
        }
    }
}

static void durations(struct output *out, const struct metric *m)
{
    for (unsigned at = 0, n; at < out->door_count; at += n) {
        uint64_t values[SL_TOOK_VALUES] = {0}, any = 0;

        n = same_door(out, at);
        for (unsigned i = 0; i < n; i++)
            for (unsigned k = 0; k < SL_TOOK_VALUES; k++)
                values[k] += read_stat(&out->doors[at + i]->took[k]);
        for (unsigned k = 0; k <= SL_TOOK_BOUNDS; k++)
            any |= values[k];
        if (any) /* the admin listener makes no decisions */
            put_histogram(out, m, "door", sl_str_c(out->doors[at]->name),
                          values, sl_took_bounds, SL_TOOK_BOUNDS);
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
    unsigned at = 0;

    while (at < out->why_count) {
        const struct sl_why_stats *first = out->whys[at];
        uint64_t value = 0;

        for (; at < out->why_count && compare_whys(&first, &out->whys[at]) == 0;
             at++)
            value += read_stat(&out->whys[at]->count);
        put_two(out, m, "door", sl_str_c(first->door), "why", first->why,
                value);
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

    for (unsigned k = 0; k < SL_WAIT_VALUES; k++)
        values[k] = sum_of(out, offsetof(struct sl_metrics, turn_waits) +
                                    k * sizeof(sl_stat));
    put_histogram(out, m, "for", SL_STR("turn"), values, sl_wait_bounds,
                  SL_WAIT_BOUNDS);
}

static void store_errors(struct output *out, const struct metric *m)
{
    put_one(out, m, "store", sl_str_c(out->now->store),
            sum_of(out, offsetof(struct sl_metrics, store_errors)));
}

/* ---- answers of upstream services, by endpoint ---- */

static const struct sl_upstream_stats *
find_endpoint(const struct sl_metrics *stats, const char *endpoint)
{
    unsigned count =
        atomic_load_explicit(&stats->upstream_count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        if (strcmp(stats->upstream[i].endpoint, endpoint) == 0)
            return &stats->upstream[i];
    return NULL;
}

/* Write the counts of one endpoint, of all threads. */
static void put_endpoint(struct output *out, const struct metric *m,
                         const char *endpoint)
{
    static const char *const classes[SL_CLASSES] = {"other", "1xx", "2xx",
                                                    "3xx",   "4xx", "5xx"};

    for (unsigned class = 0; class < SL_CLASSES; class ++) {
        uint64_t value = 0;

        for (unsigned i = 0; i < out->count; i++) {
            const struct sl_upstream_stats *row =
                find_endpoint(out->all[i], endpoint);

            value += row ? read_stat(&row->classes[class]) : 0;
        }
        if (value > 0)
            put_two(out, m, "endpoint", sl_str_c(endpoint), "class",
                    classes[class], value);
    }
}

static void upstream(struct output *out, const struct metric *m)
{
    for (unsigned i = 0; i < out->count; i++) {
        const struct sl_metrics *stats = out->all[i];
        unsigned rows =
            atomic_load_explicit(&stats->upstream_count, memory_order_acquire);

        for (unsigned k = 0; k < rows; k++) {
            const char *endpoint = stats->upstream[k].endpoint;
            unsigned before = 0;

            while (before < i && !find_endpoint(out->all[before], endpoint))
                before++;
            if (before == i) /* else it is written already */
                put_endpoint(out, m, endpoint);
        }
    }
}

/* ---- values of struct sl_metrics_now ---- */

static void lookups(struct output *out, const struct metric *m)
{
    for (unsigned i = 0; i < SL_LOOKUPS; i++)
        put_one(out, m, "result", sl_str_c(sl_lookup_words[i]),
                out->now->subjects.results[i]);
}

static void subjects(struct output *out, const struct metric *m)
{
    put_plain(out, m, out->now->subjects.numbers[m->which]);
}

static void store_up(struct output *out, const struct metric *m)
{
    put_one(out, m, "store", sl_str_c(out->now->store), out->now->store_up);
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

static void now(struct output *out, const struct metric *m)
{
    const struct sl_metrics_now *n = out->now;
    const uint64_t numbers[] = {
        [NOW_STARTED] = (uint64_t)n->started_at,
        [NOW_RELOADED] = (uint64_t)n->reloaded_at,
        [NOW_RELOAD_GOOD] = n->reload_good,
        [NOW_TABLE_BYTES] = n->table_bytes,
        [NOW_TABLE_PLACES] = n->table_places,
        [NOW_TABLE_OCCUPIED] = n->table_occupied,
        [NOW_TABLE_EVICTED] = n->table_evicted,
        [NOW_TABLE_FULL] = n->table_full,
        [NOW_LISTENER_PAUSED] = n->listener_paused,
        [NOW_WAITING] = n->waiting,
        [NOW_HOLDS] = n->holds,
        [NOW_HOLD_PLACES] = n->hold_places,
    };

    sl_writer_add(&out->w, sl_str_c(m->name));
    if (m->which == NOW_STARTED || m->which == NOW_RELOADED)
        put_seconds(&out->w, numbers[m->which]);
    else
        put_number(&out->w, numbers[m->which]);
}

static void process(struct output *out, const struct metric *m)
{
    uint64_t value = out->process[m->which];

    if (value == UNKNOWN)
        return;
    sl_writer_add(&out->w, sl_str_c(m->name));
    if (m->which == PROCESS_CPU)
        put_seconds(&out->w, value);
    else
        put_number(&out->w, value);
}

/* ---- key sets ---- */

static void jwks_keys(struct output *out, const struct metric *m)
{
    if (out->now->jwks_on)
        put_plain(out, m, out->now->jwks_keys);
}

static void jwks_age(struct output *out, const struct metric *m)
{
    if (!out->now->jwks_on || out->now->jwks_age < 0)
        return;
    sl_writer_add(&out->w, sl_str_c(m->name));
    put_seconds(&out->w, (uint64_t)out->now->jwks_age);
}

static void jwks_refreshes(struct output *out, const struct metric *m)
{
    for (unsigned i = 0; out->now->jwks_on && i < SL_JWKS_WORDS; i++)
        put_one(out, m, "result", sl_str_c(out->now->jwks_words[i]),
                out->now->jwks_results[i]);
}

/* ---- backlogs ---- */

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

static void put_store_result(struct output *out, const struct metric *m,
                             const char *result, enum sl_store_number which)
{
    if (out->now->shared.on)
        put_one(out, m, "result", sl_str_c(result),
                out->now->shared.numbers[which]);
}

static void store_takes(struct output *out, const struct metric *m)
{
    put_store_result(out, m, "answered", SL_STORE_NUM_ANSWERED);
    put_store_result(out, m, "failed", SL_STORE_NUM_FAILED);
    put_store_result(out, m, "late", SL_STORE_NUM_LATE);
    put_store_result(out, m, "leased", SL_STORE_NUM_LEASED);
    put_store_result(out, m, "remembered", SL_STORE_NUM_REMEMBERED);
    put_store_result(out, m, "crossing", SL_STORE_NUM_SPANNING);
}

static void store_redirects(struct output *out, const struct metric *m)
{
    put_store_result(out, m, "followed", SL_STORE_NUM_REDIRECTED);
    put_store_result(out, m, "storm", SL_STORE_NUM_STORMS);
}

/* The clock of the store may be behind ours. */
static void store_clock(struct output *out, const struct metric *m)
{
    sl_ns ahead = out->now->shared.ahead;

    if (!out->now->shared.on || ahead == SL_NS_NONE)
        return;
    sl_writer_add(&out->w, sl_str_c(m->name));
    if (ahead < 0)
        sl_writer_addf(&out->w, " -%lld.%09lld\n", (long long)(-ahead / SL_S),
                       (long long)(-ahead % SL_S));
    else
        put_seconds(&out->w, (uint64_t)ahead);
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

static void gather(struct output *out)
{
    for (unsigned i = 0; i < out->count; i++) {
        const struct sl_metrics *stats = out->all[i];
        unsigned n =
            atomic_load_explicit(&stats->series_count, memory_order_acquire);

        for (unsigned k = 0; k < n; k++)
            out->series[out->series_count++] = stats->series[k];
        n = atomic_load_explicit(&stats->door_count, memory_order_acquire);
        for (unsigned k = 0; k < n; k++)
            out->doors[out->door_count++] = &stats->doors[k];
        n = atomic_load_explicit(&stats->why_count, memory_order_acquire);
        for (unsigned k = 0; k < n; k++)
            out->whys[out->why_count++] = &stats->whys[k];
    }
    qsort(out->series, out->series_count, sizeof(void *), compare);
    qsort(out->doors, out->door_count, sizeof(void *), compare_doors);
    qsort(out->whys, out->why_count, sizeof(void *), compare_whys);
}

int sl_metrics_render(struct sl_metrics *const *all, unsigned count,
                      const struct sl_metrics_now *what, bool open_metrics,
                      struct sl_buf *text)
{
    size_t each = SL_SERIES + SL_METRICS_DOORS + SL_METRICS_WHYS;
    size_t size = (count + 1) * each * sizeof(void *);
    size_t len = text->len;
    void *room = sl_alloc_new(text->alloc, size);
    struct output out = {
        .w = {.out = text},
        .open_metrics = open_metrics,
        .all = all,
        .count = count,
        .now = what,
        .series = room,
    };

    if (!room)
        return SLUICE_ENOMEM;
    out.doors = (void *)(out.series + (size_t)count * SL_SERIES);
    out.whys = (void *)(out.doors + (size_t)count * SL_METRICS_DOORS);
    gather(&out);
    read_process(out.process);
    for (size_t i = 0; i < SL_LEN(metrics); i++) {
        put_head(&out, &metrics[i]);
        metrics[i].print(&out, &metrics[i]);
    }
    if (open_metrics)
        sl_writer_add(&out.w, SL_STR("# EOF\n"));
    sl_alloc_free(text->alloc, room, size);
    if (out.w.err)
        text->len = len; /* nothing was added */
    return out.w.err;
}
