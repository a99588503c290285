/* series.c -- the series of one thread: found by their labels, never lost.
 *
 * Looking a series up by its texts costs more than adding to it, so the last
 * one found for a route or a rule is kept by their indices:
 *
 *     route 3, rule 1 --> cache --> series "ai-minute", "ai", 429, deny
 *                           |
 *                           v not there, or of other texts: find by hash
 *
 * After a reload the same indices may mean other names. Therefore what the
 * cache has is believed only if its texts are the ones that were looked for;
 * that comparison costs a few nanoseconds and needs neither generations nor a
 * hold on the policy.
 *
 * Invariants. (test/unit/doors/stats.c checks them.)
 *   (1) There are never more than SL_SERIES series. What finds no place, or no
 *       memory, is counted as `other`.
 *   (2) Finding never fails.
 */
#include <string.h>

#include "server/metrics_int.h"

static const struct sl_str other = {"other", 5};

static const unsigned value_counts[SL_OF_KINDS] = {
    [SL_OF_DECISION] = 1,
    [SL_OF_LIMIT] = OF_LIMITS,
    [SL_OF_ENDPOINT] = SL_WAIT_VALUES,
};

/* sl_str_eq() without the call, which would cost as much as the answer. */
static inline bool equal(struct sl_str a, struct sl_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static bool same(const struct sl_labels *a, const struct sl_labels *b)
{
    return a->kind == b->kind && a->status == b->status &&
           a->result == b->result && equal(a->limit, b->limit) &&
           equal(a->endpoint, b->endpoint);
}

static uint32_t hash_text(uint32_t hash, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 16777619u;
    return (hash ^ 0xff) * 16777619u; /* where a text ends counts too */
}

/* FNV-1a. No secret: the texts are the operator's own. */
static uint32_t hash_labels(const struct sl_labels *labels)
{
    uint32_t hash = 2166136261u ^ (uint32_t)labels->kind;

    hash = hash_text(hash, labels->limit);
    hash = hash_text(hash, labels->endpoint);
    hash = (hash ^ (uint32_t)labels->status) * 16777619u;
    hash = (hash ^ (uint32_t)labels->result) * 16777619u;
    return hash ^ hash >> 15;
}

/* The place in the index where the labels are, or would be. */
static uint16_t *find_place(struct sl_metrics *stats,
                            const struct sl_labels *labels)
{
    uint32_t mask = SL_LEN(stats->index) - 1;
    uint32_t i = hash_labels(labels) & mask;

    while (stats->index[i] &&
           !same(&stats->series[stats->index[i] - 1]->labels, labels))
        i = (i + 1) & mask;
    return &stats->index[i];
}

static struct sl_str keep(char **at, struct sl_str text)
{
    struct sl_str kept = {*at, text.len};

    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return kept;
}

static struct sl_series *new_series(const struct sl_alloc *alloc,
                                    const struct sl_labels *labels)
{
    size_t values = value_counts[labels->kind] * sizeof(sl_stat);
    size_t size = sizeof(struct sl_series) + values + labels->limit.len +
                  labels->endpoint.len;
    struct sl_series *series = sl_alloc_new(alloc, size);
    char *texts;

    if (!series)
        return NULL;
    memset(series, 0, size);
    texts = (char *)series->values + values;
    series->labels = *labels;
    series->labels.limit = keep(&texts, labels->limit);
    series->labels.endpoint = keep(&texts, labels->endpoint);
    series->size = size;
    return series;
}

/* One more series, seen by readers when it is complete. NULL: see (1). */
static struct sl_series *add_series(struct sl_metrics *stats,
                                    const struct sl_labels *labels,
                                    uint16_t *place)
{
    unsigned count =
        atomic_load_explicit(&stats->series_count, memory_order_relaxed);
    struct sl_series *series = NULL;

    if (count < SL_SERIES)
        series = new_series(stats->alloc, labels);
    if (!series)
        return NULL;
    stats->series[count] = series;
    *place = (uint16_t)(count + 1);
    atomic_store_explicit(&stats->series_count, count + 1,
                          memory_order_release);
    return series;
}

/* The first series are these, in this order. */
static struct sl_labels other_labels(unsigned i)
{
    struct sl_labels labels = {
        .kind = SL_OF_DECISION, .limit = other, .endpoint = other};

    if (i < SL_RESULTS) {
        labels.result = (enum sl_result)i;
    } else if (i == SL_RESULTS) {
        labels.kind = SL_OF_LIMIT;
        labels.endpoint = (struct sl_str){"", 0};
    } else {
        labels.kind = SL_OF_ENDPOINT;
        labels.limit = (struct sl_str){"", 0};
    }
    return labels;
}

#define OTHERS (SL_RESULTS + 2)

static struct sl_series *find_other(struct sl_metrics *stats,
                                    const struct sl_labels *labels)
{
    switch (labels->kind) {
    case SL_OF_DECISION:
        return stats->series[labels->result];
    case SL_OF_LIMIT:
        return stats->series[SL_RESULTS];
    default:
        return stats->series[SL_RESULTS + 1];
    }
}

struct sl_series *sl_series_find(struct sl_metrics *stats,
                                 const struct sl_labels *labels, unsigned hint)
{
    struct sl_series **cached =
        &stats->cache[labels->kind][hint % SL_SERIES_CACHE];
    struct sl_series *series;
    uint16_t *place;

    if (*cached && same(&(*cached)->labels, labels))
        return *cached;
    place = find_place(stats, labels);
    series =
        *place ? stats->series[*place - 1] : add_series(stats, labels, place);
    if (!series)
        return find_other(stats, labels);
    *cached = series;
    return series;
}

int sl_series_init(struct sl_metrics *stats)
{
    for (unsigned i = 0; i < OTHERS; i++) {
        struct sl_labels labels = other_labels(i);

        if (!add_series(stats, &labels, find_place(stats, &labels)))
            return SLUICE_ENOMEM;
    }
    return 0;
}

void sl_series_done(struct sl_metrics *stats)
{
    unsigned count =
        atomic_load_explicit(&stats->series_count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        sl_alloc_free(stats->alloc, stats->series[i], stats->series[i]->size);
}
