/* metrics_out.c -- all threads' counts as a page of text.
 *
 * The page is a loop over stats.def; each row names the function that prints
 * its samples. Series of all threads are sorted by their labels, so that those
 * with the same ones stand together and are added up while they are printed:
 *
 *     thread 1: a b d      sorted: a a b b c d d     page: a b c d
 *     thread 2: a b c d
 *
 * Numbers are read one by one while others count. Each is right, but two may
 * stem from slightly different moments; only what must agree (a histogram's
 * count and its last bucket) is made from the same readings.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/metrics_int.h"

struct page;
struct stat_row;
typedef void print_f(struct page *page, const struct stat_row *row);

enum stat_type { TYPE_COUNTER, TYPE_GAUGE, TYPE_HISTOGRAM };

struct stat_row {
    const char *name;
    enum stat_type type;
    print_f *print;
    unsigned which;
    const char *help;
};

struct page {
    struct sl_metrics_write text;
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

static void put_one(struct page *page, const struct stat_row *row,
                    const char *label, const char *value, uint64_t number)
{
    sl_metrics_write_add(&page->text, row->name);
    sl_metrics_write_label(&page->text, '{', label, sl_str_c(value));
    sl_metrics_write_add(&page->text, "}");
    sl_metrics_write_number(&page->text, number);
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

/* Those of the kind, from *at on, that have the same labels: the first, with
 * their values added up, or NULL at the end. */
static const struct sl_series *next_sum(struct page *page, unsigned *at,
                                        enum sl_series_kind kind,
                                        uint64_t *values, unsigned count)
{
    const struct sl_series *first = NULL;

    memset(values, 0, count * sizeof(*values));
    for (; *at < page->series_count; ++*at) {
        const struct sl_series *series = page->series[*at];

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

/* What has never happened to `other` says nothing. */
static bool is_unused_other(const struct sl_labels *labels, uint64_t value)
{
    return value == 0 && (sl_str_eq(labels->limit, SL_STR("other")) ||
                          sl_str_eq(labels->endpoint, SL_STR("other")));
}

static void decisions(struct page *page, const struct stat_row *row)
{
    static const char *const results[SL_RESULTS] = {
        [SL_RESULT_ALLOW] = "allow",
        [SL_RESULT_DENY] = "deny",
        [SL_RESULT_SHADOW_DENY] = "shadow_deny",
        [SL_RESULT_ERROR_ALLOW] = "error_allow",
        [SL_RESULT_ERROR_DENY] = "error_deny",
    };
    const struct sl_series *series;
    unsigned at = 0;
    uint64_t value;

    while ((series = next_sum(page, &at, SL_OF_DECISION, &value, 1))) {
        const struct sl_labels *labels = &series->labels;

        if (is_unused_other(labels, value))
            continue;
        sl_metrics_write_add(&page->text, row->name);
        sl_metrics_write_label(&page->text, '{', "limit", labels->limit);
        sl_metrics_write_label(&page->text, ',', "endpoint", labels->endpoint);
        if (labels->status)
            sl_metrics_write_addf(&page->text, ",status=\"%d\"",
                                  labels->status);
        else
            sl_metrics_write_add(&page->text, ",status=\"other\"");
        sl_metrics_write_addf(&page->text, ",result=\"%s\"}",
                              results[labels->result]);
        sl_metrics_write_number(&page->text, value);
    }
}

static void limits(struct page *page, const struct stat_row *row)
{
    const struct sl_series *series;
    uint64_t values[OF_LIMITS];
    unsigned at = 0;

    while ((series = next_sum(page, &at, SL_OF_LIMIT, values, OF_LIMITS))) {
        if (is_unused_other(&series->labels, values[row->which]))
            continue;
        sl_metrics_write_add(&page->text, row->name);
        sl_metrics_write_label(&page->text, '{', "limit", series->labels.limit);
        sl_metrics_write_add(&page->text, "}");
        sl_metrics_write_number(&page->text, values[row->which]);
    }
}

static void waits(struct page *page, const struct stat_row *row)
{
    const struct sl_series *series;
    uint64_t values[SL_WAIT_VALUES];
    unsigned at = 0;

    while ((series =
                next_sum(page, &at, SL_OF_ENDPOINT, values, SL_WAIT_VALUES))) {
        uint64_t any = 0;

        for (unsigned i = 0; i <= SL_WAIT_BOUNDS; i++)
            any |= values[i];
        if (!is_unused_other(&series->labels, any))
            sl_metrics_write_histogram(&page->text, row->name, "endpoint",
                                       series->labels.endpoint, values,
                                       sl_wait_bounds, SL_WAIT_BOUNDS);
    }
}

/* ---- doors ---- */

static int compare_doors(const void *x, const void *y)
{
    return strcmp((*(const struct sl_protocol_metrics *const *)x)->name,
                  (*(const struct sl_protocol_metrics *const *)y)->name);
}

/* How many from `at` on are the same door. */
static unsigned same_door(const struct page *page, unsigned at)
{
    unsigned end = at;

    while (end < page->door_count &&
           compare_doors(&page->doors[at], &page->doors[end]) == 0)
        end++;
    return end - at;
}

static void connections(struct page *page, const struct stat_row *row)
{
    for (unsigned at = 0, n; at < page->door_count; at += n) {
        int64_t value = 0;

        n = same_door(page, at);
        for (unsigned i = 0; i < n; i++)
            value += atomic_load_explicit(&page->doors[at + i]->connections,
                                          memory_order_relaxed);
        put_one(page, row, "door", page->doors[at]->name,
                value > 0 ? (uint64_t)value : 0);
    }
}

static void requests(struct page *page, const struct stat_row *row)
{
    for (unsigned at = 0, n; at < page->door_count; at += n) {
        n = same_door(page, at);
        for (unsigned status = 0; status < SL_STATUSES; status++) {
            uint64_t value = 0;

            for (unsigned i = 0; i < n; i++)
                value += read_stat(&page->doors[at + i]->requests[status]);
            if (value == 0)
                continue;
            sl_metrics_write_add(&page->text, row->name);
            sl_metrics_write_label(&page->text, '{', "door",
                                   sl_str_c(page->doors[at]->name));
            if (status)
                sl_metrics_write_addf(&page->text, ",code=\"%u\"}",
                                      status + 99);
            else
                sl_metrics_write_add(&page->text, ",code=\"other\"}");
            sl_metrics_write_number(&page->text, value);
        }
    }
}

static void durations(struct page *page, const struct stat_row *row)
{
    for (unsigned at = 0, n; at < page->door_count; at += n) {
        uint64_t values[SL_TOOK_VALUES] = {0}, any = 0;

        n = same_door(page, at);
        for (unsigned i = 0; i < n; i++)
            for (unsigned k = 0; k < SL_TOOK_VALUES; k++)
                values[k] += read_stat(&page->doors[at + i]->took[k]);
        for (unsigned k = 0; k <= SL_TOOK_BOUNDS; k++)
            any |= values[k];
        if (any) /* a door where nobody decides: admin */
            sl_metrics_write_histogram(&page->text, row->name, "door",
                                       sl_str_c(page->doors[at]->name), values,
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

static void refusals(struct page *page, const struct stat_row *row)
{
    unsigned at = 0;

    while (at < page->why_count) {
        const struct sl_why_stats *first = page->whys[at];
        uint64_t value = 0;

        for (;
             at < page->why_count && compare_whys(&first, &page->whys[at]) == 0;
             at++)
            value += read_stat(&page->whys[at]->count);
        sl_metrics_write_add(&page->text, row->name);
        sl_metrics_write_label(&page->text, '{', "door", sl_str_c(first->door));
        sl_metrics_write_label(&page->text, ',', "why", sl_str_c(first->why));
        sl_metrics_write_add(&page->text, "}");
        sl_metrics_write_number(&page->text, value);
    }
}

/* ---- the store, the policy, the process ---- */

static void fail_modes(struct page *page, const struct stat_row *row)
{
    for (unsigned mode = 0; mode < SL_LEN(sl_failure_words); mode++) {
        uint64_t value = 0;

        for (unsigned i = 0; i < page->count; i++)
            value += read_stat(&page->all[i]->fail_modes[mode]);
        put_one(page, row, "mode", sl_failure_words[mode], value);
    }
}

static void tokens(struct page *page, const struct stat_row *row)
{
    for (unsigned fault = 0; fault < SL_TOKEN_ERRORS; fault++) {
        uint64_t value = 0;

        for (unsigned i = 0; i < page->count; i++)
            value += read_stat(&page->all[i]->tokens[fault]);
        put_one(page, row, "result",
                sl_token_error_word((enum sl_token_error)fault), value);
    }
}

static void asked(struct page *page, const struct stat_row *row)
{
    sl_metrics_write_asked(&page->text, row->name, row->which, page->now);
}

static void shared(struct page *page, const struct stat_row *row)
{
    sl_metrics_write_shared(&page->text, row->name, row->which,
                            &page->now->shared);
}

static void held(struct page *page, const struct stat_row *row)
{
    sl_metrics_write_held(&page->text, row->name, row->which, page->all,
                          page->count);
}

static void lookups(struct page *page, const struct stat_row *row)
{
    for (unsigned i = 0; i < SL_LOOKUPS; i++)
        put_one(page, row, "result", sl_lookup_words[i],
                page->now->subjects.results[i]);
}

static void subjects(struct page *page, const struct stat_row *row)
{
    sl_metrics_write_add(&page->text, row->name);
    sl_metrics_write_number(&page->text,
                            page->now->subjects.numbers[row->which]);
}

static void store_errors(struct page *page, const struct stat_row *row)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < page->count; i++)
        value += read_stat(&page->all[i]->store_errors);
    put_one(page, row, "store", page->now->store, value);
}

static void store_up(struct page *page, const struct stat_row *row)
{
    put_one(page, row, "store", page->now->store, page->now->store_up);
}

static void reloads(struct page *page, const struct stat_row *row)
{
    put_one(page, row, "result", "success", page->now->reloads_good);
    put_one(page, row, "result", "failure", page->now->reloads_bad);
}

static void config(struct page *page, const struct stat_row *row)
{
    put_one(page, row, "hash", page->now->policy_hash, 1);
}

static void build(struct page *page, const struct stat_row *row)
{
    put_one(page, row, "version", SLUICE_VERSION, 1);
}

static void now(struct page *page, const struct stat_row *row)
{
    const struct sl_metrics_now *n = page->now;
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

    sl_metrics_write_add(&page->text, row->name);
    if (row->which == NOW_STARTED || row->which == NOW_RELOADED)
        sl_metrics_write_seconds(&page->text, numbers[row->which]);
    else
        sl_metrics_write_number(&page->text, numbers[row->which]);
}

static void process(struct page *page, const struct stat_row *row)
{
    uint64_t value = page->process[row->which];

    if (value == SL_UNKNOWN)
        return;
    sl_metrics_write_add(&page->text, row->name);
    if (row->which == PROCESS_CPU)
        sl_metrics_write_seconds(&page->text, value);
    else
        sl_metrics_write_number(&page->text, value);
}

/* ---- the page ---- */

static const struct stat_row metric_rows[] = {
#define STAT(name, type, from, which, labels, help)                            \
    {#name, TYPE_##type, from, which, help},
#include "server/metrics.def"
};

/* OpenMetrics calls a counter's family by its name without `_total`. */
static void put_head(struct page *page, const struct stat_row *row)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    int len = (int)strlen(row->name);

    if (page->text.open_metrics && row->type == TYPE_COUNTER)
        len -= (int)strlen("_total");
    sl_metrics_write_addf(&page->text, "# HELP %.*s ", len, row->name);
    sl_metrics_write_add(&page->text, row->help);
    sl_metrics_write_addf(&page->text, "\n# TYPE %.*s %s\n", len, row->name,
                          types[row->type]);
}

static void gather(struct page *page)
{
    for (unsigned i = 0; i < page->count; i++) {
        const struct sl_metrics *stats = page->all[i];
        unsigned n =
            atomic_load_explicit(&stats->series_count, memory_order_acquire);

        for (unsigned k = 0; k < n; k++)
            page->series[page->series_count++] = stats->series[k];
        n = atomic_load_explicit(&stats->door_count, memory_order_acquire);
        for (unsigned k = 0; k < n; k++)
            page->doors[page->door_count++] = &stats->doors[k];
        n = atomic_load_explicit(&stats->why_count, memory_order_acquire);
        for (unsigned k = 0; k < n; k++)
            page->whys[page->why_count++] = &stats->whys[k];
    }
    qsort(page->series, page->series_count, sizeof(void *), compare);
    qsort(page->doors, page->door_count, sizeof(void *), compare_doors);
    qsort(page->whys, page->why_count, sizeof(void *), compare_whys);
}

int sl_metrics_render(struct sl_metrics *const *all, unsigned count,
                      const struct sl_metrics_now *what, bool open_metrics,
                      struct sl_buf *out)
{
    size_t each = SL_SERIES + SL_METRICS_DOORS + SL_METRICS_WHYS;
    size_t size = (count + 1) * each * sizeof(void *);
    size_t len = out->len;
    void *room = sl_alloc_new(out->alloc, size);
    struct page page = {
        .text = {.out = out, .open_metrics = open_metrics},
        .all = all,
        .count = count,
        .now = what,
        .series = room,
    };

    if (!room)
        return SLUICE_ENOMEM;
    page.doors = (void *)(page.series + (size_t)count * SL_SERIES);
    page.whys = (void *)(page.doors + (size_t)count * SL_METRICS_DOORS);
    gather(&page);
    sl_process_read(page.process);
    for (size_t i = 0; i < SL_LEN(metric_rows); i++) {
        put_head(&page, &metric_rows[i]);
        metric_rows[i].print(&page, &metric_rows[i]);
    }
    if (open_metrics)
        sl_metrics_write_add(&page.text, "# EOF\n");
    sl_alloc_free(out->alloc, room, size);
    if (page.text.err)
        out->len = len; /* nothing was added */
    return page.text.err;
}

/* ---- how numbers and labels look in both formats. */

void sl_metrics_write_add(struct sl_metrics_write *page, const char *text)
{
    if (!page->err)
        page->err = sl_buf_add(page->out, sl_str_c(text));
}

void sl_metrics_write_addf(struct sl_metrics_write *page, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    sl_metrics_write_add(page, text);
}

/* The value of a label, as both formats want it. */
static void put_escaped(struct sl_metrics_write *page, struct sl_str text)
{
    for (size_t i = 0; i < text.len && !page->err; i++) {
        struct sl_str piece = {text.at + i, 1};

        if (text.at[i] == '\n')
            piece = SL_STR("\\n");
        else if (text.at[i] == '"')
            piece = SL_STR("\\\"");
        else if (text.at[i] == '\\')
            piece = SL_STR("\\\\");
        page->err = sl_buf_add(page->out, piece);
    }
}

void sl_metrics_write_label(struct sl_metrics_write *page, char before,
                            const char *name, struct sl_str value)
{
    sl_metrics_write_addf(page, "%c%s=\"", before, name);
    put_escaped(page, value);
    sl_metrics_write_add(page, "\"");
}

void sl_metrics_write_number(struct sl_metrics_write *page, uint64_t number)
{
    sl_metrics_write_addf(page, " %" PRIu64 "\n", number);
}

void sl_metrics_write_seconds(struct sl_metrics_write *page, uint64_t ns)
{
    char text[48];
    int len = snprintf(text, sizeof(text), " %" PRIu64 ".%09" PRIu64, ns / SL_S,
                       ns % SL_S);

    while (text[len - 1] == '0' && text[len - 2] != '.')
        len--;
    text[len] = '\0';
    sl_metrics_write_add(page, text);
    sl_metrics_write_add(page, "\n");
}

void sl_metrics_write_histogram(struct sl_metrics_write *page, const char *name,
                                const char *label, struct sl_str value,
                                const uint64_t *values,
                                const struct sl_bound *bounds, unsigned count)
{
    uint64_t total = 0;

    for (unsigned i = 0; i <= count; i++) {
        total += values[i];
        sl_metrics_write_addf(page, "%s_bucket", name);
        sl_metrics_write_label(page, '{', label, value);
        sl_metrics_write_addf(page, ",le=\"%s\"}",
                              i < count ? bounds[i].le : "+Inf");
        sl_metrics_write_number(page, total);
    }
    sl_metrics_write_addf(page, "%s_sum", name);
    sl_metrics_write_label(page, '{', label, value);
    sl_metrics_write_add(page, "}");
    sl_metrics_write_seconds(page, values[count + 1]);
    sl_metrics_write_addf(page, "%s_count", name);
    sl_metrics_write_label(page, '{', label, value);
    sl_metrics_write_add(page, "}");
    sl_metrics_write_number(page, total);
}

/* ---- what is not counted here but asked of others: keys of tokens, and a
 * store that is shared. */

static void put_ends(struct sl_metrics_write *page, const char *name,
                     const struct sl_metrics_now *now)
{
    for (unsigned i = 0; i < SL_JWKS_WORDS; i++) {
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "result",
                               sl_str_c(now->jwks_words[i]));
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, now->jwks_results[i]);
    }
}

static void put_jwks(struct sl_metrics_write *page, const char *name,
                     unsigned which, const struct sl_metrics_now *now)
{
    if (!now->jwks_on || (which == SL_JWKS_AGE && now->jwks_age < 0))
        return;
    if (which == SL_JWKS_ENDS) {
        put_ends(page, name, now);
        return;
    }
    sl_metrics_write_add(page, name);
    if (which == SL_JWKS_AGE)
        sl_metrics_write_seconds(page, (uint64_t)now->jwks_age);
    else
        sl_metrics_write_number(page, now->jwks_keys);
}

/* ---- backlogs ---- */

/* The longest that a route believes a report of it. */
static sl_ns stale_of(const struct sl_policy *policy, unsigned index)
{
    sl_ns stale = 0;

    for (const struct sl_prechecks *g = policy->guarded; g; g = g->next)
        if (g->backlog.written && g->backlog.index == index &&
            g->backlog.stale > stale)
            stale = g->backlog.stale;
    return stale;
}

static void put_backlogs(struct sl_metrics_write *page, const char *name,
                         const struct sl_metrics_now *now)
{
    const struct sl_policy *policy = now->live ? now->live->policy : NULL;

    for (unsigned i = 0; policy && i < policy->backlog_count; i++) {
        const struct sl_depth *depth = &now->live->depths[i];
        sl_ns at = atomic_load_explicit(&depth->at, memory_order_acquire);

        if (at == SL_NS_NONE || now->now - at > stale_of(policy, i))
            continue;
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "backlog", policy->backlogs[i]);
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, atomic_load(&depth->depth));
    }
}

void sl_metrics_write_asked(struct sl_metrics_write *page, const char *name,
                            unsigned which, const struct sl_metrics_now *now)
{
    if (which == SL_BACKLOG_DEPTHS)
        put_backlogs(page, name, now);
    else
        put_jwks(page, name, which, now);
}

/* ---- a store that is shared ---- */

struct word {
    unsigned which;
    const char *text;
};

static void put_words(struct sl_metrics_write *page, const char *name,
                      const struct sl_metrics_shared *shared,
                      const struct word *words, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sl_metrics_write_add(page, name);
        sl_metrics_write_label(page, '{', "result", sl_str_c(words[i].text));
        sl_metrics_write_add(page, "}");
        sl_metrics_write_number(page, shared->numbers[words[i].which]);
    }
}

/* It may be behind ours. */
static void put_clock(struct sl_metrics_write *page, const char *name,
                      sl_ns ahead)
{
    if (ahead == SL_NS_NONE)
        return;
    sl_metrics_write_add(page, name);
    if (ahead < 0) {
        sl_metrics_write_addf(page, " -%lld.%09lld\n",
                              (long long)(-ahead / SL_S),
                              (long long)(-ahead % SL_S));
        return;
    }
    sl_metrics_write_seconds(page, (uint64_t)ahead);
}

void sl_metrics_write_shared(struct sl_metrics_write *page, const char *name,
                             unsigned which,
                             const struct sl_metrics_shared *shared)
{
    static const struct word takes[] = {
        {SL_STORE_NUM_ANSWERED,   "answered"  },
        {SL_STORE_NUM_FAILED,     "failed"    },
        {SL_STORE_NUM_LATE,       "late"      },
        {SL_STORE_NUM_LEASED,     "leased"    },
        {SL_STORE_NUM_REMEMBERED, "remembered"},
        {SL_STORE_NUM_SPANNING,   "crossing"  },
    };
    static const struct word redirects[] = {
        {SL_STORE_NUM_REDIRECTED, "followed"},
        {SL_STORE_NUM_STORMS,     "storm"   },
    };

    if (!shared->on)
        return;
    if (which == SL_STORE_NUM_CLOCK) {
        put_clock(page, name, shared->ahead);
    } else if (which == SL_STORE_NUM_TAKES) {
        put_words(page, name, shared, takes, SL_LEN(takes));
    } else if (which == SL_STORE_NUM_REDIRECTS) {
        put_words(page, name, shared, redirects, SL_LEN(redirects));
    } else {
        sl_metrics_write_add(page, name);
        sl_metrics_write_number(page, shared->numbers[which]);
    }
}

/* ---- what became of holds, and of what was asked upstream.
 *
 * Whoever settles a hold may say how the vendor has answered. That is counted
 * by endpoint and class of status; the endpoints are those of the policy, and
 * there is a ceiling on them all the same.
 */

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

/* ---- what the kernel says of this process.
 *
 * Whatever it does not say (a /proc that is not there, no descriptor left to
 * open it with) is left out of the page rather than shown as 0.
 */

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * SL_S + (uint64_t)t.tv_usec * SL_US;
}

static uint64_t cpu_time(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage))
        return SL_UNKNOWN;
    return ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
}

static uint64_t max_fds(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return SL_UNKNOWN;
    return limit.rlim_cur;
}

/* O(descriptors): a millisecond for ten thousand of them, once a scrape. */
static uint64_t open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    uint64_t count = 0;

    if (!folder)
        return SL_UNKNOWN;
    while ((entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder's own */
}

/* The first two numbers of statm: pages of address space, pages in RAM. */
static void memory(uint64_t *resident, uint64_t *address_space)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t all, here;
    char text[128];
    ssize_t len;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    *resident = *address_space = SL_UNKNOWN;
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

void sl_process_read(uint64_t ret[PROCESS_VALUES])
{
    ret[PROCESS_CPU] = cpu_time();
    ret[PROCESS_MAX_FDS] = max_fds();
    ret[PROCESS_OPEN_FDS] = open_fds();
    memory(&ret[PROCESS_RESIDENT], &ret[PROCESS_VIRTUAL]);
}
