/* render.c -- all threads' counts as a page of text.
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
#include <stdlib.h>
#include <string.h>

#include "doors/stats/page.h"
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

static const struct stat_row rows[] = {
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
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        put_head(&page, &rows[i]);
        rows[i].print(&page, &rows[i]);
    }
    if (open_metrics)
        sl_metrics_write_add(&page.text, "# EOF\n");
    sl_alloc_free(out->alloc, room, size);
    if (page.text.err)
        out->len = len; /* nothing was added */
    return page.text.err;
}
