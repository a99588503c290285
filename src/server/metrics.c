/* metrics.c -- counting. Each thread counts for itself.
 *
 * A decision adds to one series with its labels (limit, endpoint, status,
 * result) and to one series of each limit that it shows.
 *
 * Invariants. (test/unit/server/metrics.c checks them.)
 *   (1) Every decision that was to spend adds 1 to exactly one series of
 *       sluice_decisions_total.
 *   (2) A limit's series counts only requests that were checked against it.
 *   (3) Counting never fails and never waits.
 */
#include "server/metrics.h"

#include <string.h>

#include "server/denial_ring.h"
#include "server/events.h"
#include "server/metrics_int.h"
#include "server/recorder.h"
#include "server/top_keys.h"

/* The memory store answers within microseconds, a remote one within 20 ms. */
const struct sl_bound sl_took_bounds[SL_TOOK_BOUNDS] = {
    {10 * SL_US,   "0.00001" },
    {25 * SL_US,   "0.000025"},
    {50 * SL_US,   "0.00005" },
    {100 * SL_US,  "0.0001"  },
    {250 * SL_US,  "0.00025" },
    {500 * SL_US,  "0.0005"  },
    {1 * SL_MS,    "0.001"   },
    {2500 * SL_US, "0.0025"  },
    {5 * SL_MS,    "0.005"   },
    {10 * SL_MS,   "0.01"    },
    {25 * SL_MS,   "0.025"   },
    {50 * SL_MS,   "0.05"    },
    {100 * SL_MS,  "0.1"     },
    {250 * SL_MS,  "0.25"    },
    {500 * SL_MS,  "0.5"     },
    {1 * SL_S,     "1.0"     },
};

/* From the gap between two requests to weeks. */
const struct sl_bound sl_wait_bounds[SL_WAIT_BOUNDS] = {
    {SL_S,        "1.0"     },
    {2 * SL_S,    "2.0"     },
    {5 * SL_S,    "5.0"     },
    {10 * SL_S,   "10.0"    },
    {30 * SL_S,   "30.0"    },
    {SL_MIN,      "60.0"    },
    {5 * SL_MIN,  "300.0"   },
    {15 * SL_MIN, "900.0"   },
    {SL_HOUR,     "3600.0"  },
    {6 * SL_HOUR, "21600.0" },
    {SL_DAY,      "86400.0" },
    {SL_WEEK,     "604800.0"},
};

#define OTHER "other"

/* Only the owner writes, so a locked instruction is not needed. */
static void add(sl_stat *value, uint64_t more)
{
    uint64_t old = atomic_load_explicit(value, memory_order_relaxed);

    atomic_store_explicit(value, old + more, memory_order_relaxed);
}

/* Add `times` observations of `span`. */
static void observe(sl_stat *values, const struct sl_bound *bounds,
                    unsigned count, sl_ns span, uint64_t times)
{
    unsigned i = 0;

    if (span < 0)
        span = 0; /* the clock was set meanwhile */
    while (i < count && span > bounds[i].most)
        i++;
    add(&values[i], times);
    add(&values[count + 1], times * (uint64_t)span);
}

const char *const sl_lookup_words[SL_LOOKUPS] = {
    [SL_LOOKUP_HIT] = "hit",   [SL_LOOKUP_LOADED] = "loaded",
    [SL_LOOKUP_LATE] = "late", [SL_LOOKUP_FAILED] = "failed",
    [SL_LOOKUP_BUSY] = "busy",
};

/* ---- the series of one thread, found by their labels ----
 *
 * Finding a series by its texts costs more than adding to it. A cache keeps the
 * last series found for a pair of route and rule:
 *
 *     route 3, rule 1 --> cache --> series "ai-minute", "ai", 429, deny
 *                           |
 *                           v empty, or others: find by hash
 *
 * After a reload the same indices may have other names. A cache entry is used
 * if it has the same texts: at the same addresses, and from the same policy,
 * which decisions name by a number. Texts that are no part of a policy have the
 * number 0 and are always found by hash.
 *
 * Invariants. (test/unit/server/metrics.c checks them.)
 *   (1) There are never more than SL_SERIES series. Without room or memory,
 *       `other` is counted.
 *   (2) Finding never fails.
 */

static const unsigned value_counts[SL_OF_KINDS] = {
    [SL_OF_DECISION] = 1,
    [SL_OF_LIMIT] = OF_LIMITS,
    [SL_OF_ENDPOINT] = SL_WAIT_VALUES,
    [SL_OF_TENANT] = OF_TENANTS,
    [SL_OF_USE] = 1,
};

/* sl_str_eq() inline: the call would cost as much as the comparison. */
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
    return (hash ^ 0xff) * 16777619u; /* mark the end of the text */
}

/* FNV-1a. It needs no secret: the texts come from the operator. */
static uint32_t hash_labels(const struct sl_labels *labels)
{
    uint32_t hash = 2166136261u ^ (uint32_t)labels->kind;

    hash = hash_text(hash, labels->limit);
    hash = hash_text(hash, labels->endpoint);
    hash = (hash ^ (uint32_t)labels->status) * 16777619u;
    hash = (hash ^ (uint32_t)labels->result) * 16777619u;
    return hash ^ hash >> 15;
}

/* Returns the place of the labels in the index, or the free place for them. */
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

/* Add a series. Readers see it when it is complete. Returns NULL: see (1). */
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

/* Returns the labels of the first series, the `other` ones. */
static struct sl_labels other_labels(unsigned i)
{
    struct sl_labels labels = {.kind = SL_OF_DECISION,
                               .limit = SL_STR(OTHER),
                               .endpoint = SL_STR(OTHER)};

    if (i < SL_RESULTS) {
        labels.result = (enum sl_result)i;
    } else if (i == SL_RESULTS + 3) {
        labels.kind = SL_OF_USE;
    } else if (i != SL_RESULTS + 1) {
        labels.kind = i == SL_RESULTS ? SL_OF_LIMIT : SL_OF_TENANT;
        labels.endpoint = (struct sl_str){"", 0};
    } else {
        labels.kind = SL_OF_ENDPOINT;
        labels.limit = (struct sl_str){"", 0};
    }
    return labels;
}

#define OTHERS (SL_RESULTS + 4)

static struct sl_series *find_other(struct sl_metrics *stats,
                                    const struct sl_labels *labels)
{
    switch (labels->kind) {
    case SL_OF_DECISION:
        return stats->series[labels->result];
    case SL_OF_LIMIT:
        return stats->series[SL_RESULTS];
    case SL_OF_TENANT:
        return stats->series[SL_RESULTS + 2];
    case SL_OF_USE:
        return stats->series[SL_RESULTS + 3];
    default:
        return stats->series[SL_RESULTS + 1];
    }
}

/* Returns NULL: see (1). */
static struct sl_series *look_up(struct sl_metrics *stats,
                                 const struct sl_labels *labels)
{
    uint16_t *place = find_place(stats, labels);

    return *place ? stats->series[*place - 1]
                  : add_series(stats, labels, place);
}

/* Are these the same texts of the same policy? */
static inline bool is_cached(const struct sl_cached_series *cached,
                             const struct sl_labels *labels,
                             uint64_t generation)
{
    return generation > 0 && cached->generation == generation &&
           sl_is_same_text(cached->labels.limit, labels->limit) &&
           sl_is_same_text(cached->labels.endpoint, labels->endpoint) &&
           cached->labels.status == labels->status &&
           cached->labels.result == labels->result;
}

/* `generation` is that of the policy that has the texts, or 0. */
static inline struct sl_series *find_series(struct sl_metrics *stats,
                                            const struct sl_labels *labels,
                                            unsigned hint, uint64_t generation)
{
    struct sl_cached_series *cached =
        &stats->cache[labels->kind][hint % SL_SERIES_CACHE];
    struct sl_series *series;

    if (is_cached(cached, labels, generation))
        return cached->series;
    series = look_up(stats, labels);
    if (!series)
        return find_other(stats, labels);
    *cached = (struct sl_cached_series){generation, *labels, series};
    return series;
}

static int init_series(struct sl_metrics *stats)
{
    for (unsigned i = 0; i < OTHERS; i++) {
        struct sl_labels labels = other_labels(i);

        if (!add_series(stats, &labels, find_place(stats, &labels)))
            return SLUICE_ENOMEM;
    }
    return 0;
}

static void free_series(struct sl_metrics *stats)
{
    unsigned count =
        atomic_load_explicit(&stats->series_count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        sl_alloc_free(stats->alloc, stats->series[i], stats->series[i]->size);
}

/* ---- life ---- */

void sl_metrics_close(struct sl_metrics *stats)
{
    if (!stats)
        return;
    free_series(stats);
    sl_alloc_free(stats->alloc, stats, sizeof(*stats));
}

int sl_metrics_open(const struct sl_alloc *alloc, struct sl_metrics **ret)
{
    struct sl_metrics *stats;

    if (!alloc)
        alloc = &sl_alloc_libc;
    stats = sl_alloc_new(alloc, sizeof(*stats));
    if (!stats)
        return SLUICE_ENOMEM;
    memset(stats, 0, sizeof(*stats));
    stats->alloc = alloc;
    if (init_series(stats)) {
        sl_metrics_close(stats);
        return SLUICE_ENOMEM;
    }
    *ret = stats;
    return 0;
}

void sl_metrics_watch(struct sl_metrics *stats, struct sl_top_keys *top,
                      struct sl_denial_batch *denials,
                      struct sl_denial_ring *ring, struct sl_recorder *recorder)
{
    stats->top = top;
    stats->denials = denials;
    stats->ring = ring;
    stats->recorder = recorder;
}

void sl_metrics_record(struct sl_metrics *stats, const struct sl_check *check)
{
    if (stats->recorder)
        sl_recorder_check(stats->recorder, check);
}

uint64_t sl_metrics_degraded(const struct sl_metrics *stats)
{
    return atomic_load_explicit(&stats->store_errors, memory_order_relaxed);
}

uint64_t sl_metrics_denied(const struct sl_metrics *stats)
{
    return atomic_load_explicit(&stats->denied, memory_order_relaxed);
}

/* ---- protocols: the label `door` ---- */

static void copy_name(char *to, size_t size, const char *from)
{
    size_t len = strlen(from);

    if (len >= size)
        len = size - 1;
    memcpy(to, from, len);
    to[len] = '\0';
}

static struct sl_protocol_metrics *find_door(struct sl_metrics *stats,
                                             const char *name)
{
    unsigned count =
        atomic_load_explicit(&stats->door_count, memory_order_relaxed);
    struct sl_protocol_metrics *door;

    for (unsigned i = 0; i < count; i++)
        if (strncmp(stats->doors[i].name, name,
                    sizeof(stats->doors[i].name) - 1) == 0)
            return &stats->doors[i];
    if (count == SL_METRICS_DOORS)
        return &stats->doors[count - 1];
    door = &stats->doors[count];
    copy_name(door->name, sizeof(door->name),
              count == SL_METRICS_DOORS - 1 ? OTHER : name);
    atomic_store_explicit(&stats->door_count, count + 1, memory_order_release);
    return door;
}

void sl_metrics_request(struct sl_metrics *stats, const char *door, int status)
{
    int i = status >= 100 && status <= 599 ? status - 99 : 0;

    add(&find_door(stats, door)->requests[i], 1);
}

void sl_metrics_connection(struct sl_metrics *stats, const char *door,
                           int change)
{
    add(&find_door(stats, door)->connections, (uint64_t)change);
}

void sl_metrics_refused(struct sl_metrics *stats, const char *door,
                        const char *why)
{
    unsigned count =
        atomic_load_explicit(&stats->why_count, memory_order_relaxed);
    struct sl_why_stats *row = stats->whys;

    for (unsigned i = 0; i < count; i++, row++)
        if (strncmp(row->door, door, sizeof(row->door) - 1) == 0 &&
            strncmp(row->why, why, sizeof(row->why) - 1) == 0) {
            add(&row->count, 1);
            return;
        }
    if (count == SL_METRICS_WHYS) {
        add(&row[-1].count, 1);
        return;
    }
    if (count == SL_METRICS_WHYS - 1)
        door = why = OTHER;
    copy_name(row->door, sizeof(row->door), door);
    copy_name(row->why, sizeof(row->why), why);
    add(&row->count, 1);
    atomic_store_explicit(&stats->why_count, count + 1, memory_order_release);
}

/* ---- decisions ---- */

static bool has_numbers(const struct sl_limit_view *shown)
{
    return !shown->skipped &&
           (shown->form == SL_RATE_PER || shown->form == SL_RATE_PLAIN);
}

static int find_shadow_denial(const struct sl_decision *d)
{
    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].mode == SL_MODE_SHADOW && !d->shown[i].allowed &&
            has_numbers(&d->shown[i]))
            return (int)i;
    return -1;
}

/* Returns the result, and in *subject the shown limit that caused it, or -1. */
static enum sl_result judge(const struct sl_decision *d, int *subject)
{
    int shadow;

    *subject = -1;
    if (d->reason == SL_REASON_STORE)
        return SL_RESULT_ERROR_DENY;
    if (d->allowed && d->no_numbers)
        return SL_RESULT_ERROR_ALLOW;
    *subject = d->by;
    if (!d->allowed)
        return SL_RESULT_DENY;
    shadow = find_shadow_denial(d);
    *subject = shadow < 0 ? d->report : shadow;
    return shadow < 0 ? SL_RESULT_ALLOW : SL_RESULT_SHADOW_DENY;
}

static void count_verdict(struct sl_metrics *stats, const struct sl_decision *d)
{
    int subject;
    struct sl_labels labels = {
        .kind = SL_OF_DECISION,
        .endpoint = d->route->endpoint,
        .status = d->status,
    };
    unsigned hint = 0;

    labels.result = judge(d, &subject);
    if (subject >= 0) {
        labels.limit = d->shown[subject].rule->name;
        hint = d->shown[subject].rule->index + 1;
    }
    hint = hint * 7 + d->route->index * 31 + (unsigned)labels.result * 5 +
           (unsigned)d->status;
    add(&find_series(stats, &labels, hint, d->generation)->values[0], 1);
}

static void count_wait(struct sl_metrics *stats, const struct sl_decision *d)
{
    struct sl_labels labels = {.kind = SL_OF_ENDPOINT,
                               .endpoint = d->route->endpoint};

    if (d->allowed || d->retry_in < 0)
        return;
    observe(find_series(stats, &labels, d->route->index, d->generation)->values,
            sl_wait_bounds, SL_WAIT_BOUNDS, d->retry_in, 1);
}

static void count_failure(struct sl_metrics *stats, const struct sl_decision *d)
{
    enum sl_failure mode = SL_FAILURE_ALLOW;

    if (!d->allowed && d->by >= 0)
        add(&stats->denied, 1);
    if (!d->degraded)
        return;
    if (d->reason == SL_REASON_STORE)
        mode = SL_FAILURE_DENY;
    else if (d->on_local)
        mode = SL_FAILURE_LOCAL;
    add(&stats->store_errors, 1);
    add(&stats->fail_modes[mode], 1);
}

static void count_token(struct sl_metrics *stats, const struct sl_decision *d)
{
    if (d->token_good || d->token_fault != SL_TOKEN_GOOD)
        add(&stats->tokens[d->token_fault], 1);
}

static void count_turn(struct sl_metrics *stats, const struct sl_decision *d)
{
    if (d->reason == SL_REASON_QUEUE)
        add(&stats->turns[SL_WAIT_REFUSED], 1);
    else if (d->waited >= 0)
        add(&stats->turns[d->allowed ? SL_WAIT_GRANTED : SL_WAIT_DENIED], 1);
    if (d->waited >= 0)
        observe(stats->turn_waits, sl_wait_bounds, SL_WAIT_BOUNDS, d->waited,
                1);
}

static bool is_near(const struct sl_answer *a)
{
    return a->remaining <= a->capacity &&
           (a->capacity - a->remaining) * 5 >= a->capacity * 4;
}

/* Count units that an allowed request took from a limit. */
static void count_taken(sl_stat *values, const struct sl_limit_view *shown)
{
    add(&values[OF_LIMIT_CONSUMED], shown->cost);
    if (is_near(&shown->answer))
        add(&values[OF_LIMIT_NEAR], 1);
    if (shown->overage)
        add(&values[OF_LIMIT_OVERAGE], shown->overage_units);
}

static void count_use(struct sl_metrics *stats, const struct sl_decision *d,
                      const struct sl_limit_view *shown)
{
    struct sl_labels labels = {.kind = SL_OF_USE,
                               .limit = shown->rule->name,
                               .endpoint = d->route->endpoint};
    unsigned hint = shown->rule->index * 7 + d->route->index;

    if (shown->rule->kind == SL_QUOTA)
        add(&find_series(stats, &labels, hint, d->generation)->values[0],
            shown->cost);
}

static void count_limit(struct sl_metrics *stats, const struct sl_decision *d,
                        const struct sl_limit_view *shown)
{
    struct sl_labels labels = {.kind = SL_OF_LIMIT, .limit = shown->rule->name};
    sl_stat *values =
        find_series(stats, &labels, shown->rule->index, d->generation)->values;

    if (!d->allowed) {
        if (shown->rule->kind == SL_QUOTA && !shown->allowed &&
            shown->mode == SL_MODE_ENFORCE)
            add(&values[OF_LIMIT_QUOTA], 1);
        return;
    }
    if (shown->allowed && shown->cost > 0) {
        count_taken(values, shown);
        count_use(stats, d, shown);
    }
    if (!shown->allowed && shown->mode == SL_MODE_SHADOW)
        add(&values[OF_LIMIT_SHADOW], 1);
    if (shown->has_candidate && shown->candidate_answer.outcome != SL_ALLOW)
        add(&values[OF_LIMIT_CANDIDATE], 1);
}

/* ---- tenants ----
 *
 * Only those of `metrics: tenants` are labels, so their number is bounded.
 */

/* Returns the caller's name of a scope, or "". */
static struct sl_str find_name(const struct sl_decision *d, unsigned scope)
{
    const struct sl_str *name = &d->policy->identity.scope_names[scope];

    for (unsigned i = 0; i < d->who_count; i++)
        if (equal(d->who[i].scope, *name))
            return d->who[i].value;
    return (struct sl_str){"", 0};
}

static bool is_per(const struct sl_rule *rule, unsigned scope)
{
    for (unsigned i = 0; i < rule->per_count; i++)
        if (rule->per[i] == scope)
            return true;
    return false;
}

/* Returns the wait of a denial as the value of OF_TENANT_RETRY. */
static uint64_t retry_value(const struct sl_decision *d)
{
    uint64_t wait = (uint64_t)(d->retry_in + SL_S - 1) / SL_S;

    return (uint64_t)(d->now / SL_S) << 32 |
           (wait < UINT32_MAX ? wait : UINT32_MAX);
}

static void count_tenant(struct sl_metrics *stats, const struct sl_decision *d)
{
    const struct sl_metrics_conf *conf = &d->policy->metrics;
    struct sl_labels labels = {.kind = SL_OF_TENANT, .limit = SL_STR(OTHER)};
    struct sl_str tenant = find_name(d, SL_SCOPE_ORG);
    const struct sl_rule *rule;
    unsigned at = 0;
    sl_stat *values;

    if (tenant.len == 0 || d->not_limited)
        return;
    while (at < conf->tenant_count && !equal(conf->tenants[at], tenant))
        at++;
    if (at < conf->tenant_count)
        labels.limit = conf->tenants[at];
    values = find_series(stats, &labels, at, d->generation)->values;
    if (d->allowed) {
        add(&values[find_name(d, SL_SCOPE_USER).len > 0
                        ? OF_TENANT_ALLOWED_USER
                        : OF_TENANT_ALLOWED_NO_USER],
            1);
        return;
    }
    if (d->by < 0)
        return; /* no limit denied */
    rule = d->shown[d->by].rule;
    add(&values[is_per(rule, SL_SCOPE_USER)  ? OF_TENANT_BY_USER
                : is_per(rule, SL_SCOPE_ORG) ? OF_TENANT_BY_TENANT
                                             : OF_TENANT_BY_OTHER],
        1);
    if (d->retry_in >= 0)
        atomic_store_explicit(&values[OF_TENANT_RETRY], retry_value(d),
                              memory_order_relaxed);
}

void sl_metrics_blocks(struct sl_metrics *stats, const struct sl_decision *d)
{
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_rule *rule = d->shown[i].rule;
        struct sl_labels labels = {.kind = SL_OF_LIMIT, .limit = rule->name};

        if (sl_penalty_begins(d, i))
            add(&find_series(stats, &labels, rule->index, d->generation)
                     ->values[OF_LIMIT_PENALTY],
                1);
    }
}

void sl_metrics_took(struct sl_metrics *stats, const char *door, sl_ns took,
                     unsigned count)
{
    observe(find_door(stats, door)->took, sl_took_bounds, SL_TOOK_BOUNDS,
            took / count, count);
}

void sl_metrics_verdict(struct sl_metrics *stats, const struct sl_decision *d)
{
    count_verdict(stats, d);
    count_wait(stats, d);
    count_failure(stats, d);
    count_token(stats, d);
    if (stats->top)
        sl_top_keys_decision(stats->top, d);
    if (stats->denials)
        sl_denial_batch_decision(stats->denials, d);
    if (stats->ring)
        sl_denial_ring_decision(stats->ring, d);
    count_turn(stats, d);
    if (d->policy->metrics.tenant_count > 0)
        count_tenant(stats, d);
    if (d->hold[0])
        sl_metrics_hold(stats, SL_METRIC_HELD);
    if (d->reason == SL_REASON_HOLDS)
        sl_metrics_hold(stats, SL_HOLD_FULL);
    if (d->no_numbers || d->reason != SL_REASON_NONE)
        return; /* no limit was checked */
    if (d->penalty_count > 0)
        sl_metrics_blocks(stats, d);
    for (unsigned i = 0; i < d->shown_count; i++)
        if (has_numbers(&d->shown[i]))
            count_limit(stats, d, &d->shown[i]);
}

void sl_metrics_decision(struct sl_metrics *stats, const struct sl_decision *d,
                         const char *door, sl_ns took)
{
    if (!d->spend)
        return; /* of /v1/explain */
    sl_metrics_took(stats, door, took, 1);
    sl_metrics_verdict(stats, d);
}

/* ---- limits without a policy ---- */

static void count_throttle(struct sl_metrics *stats, enum sl_result result,
                           int status, unsigned times)
{
    struct sl_labels labels = {
        .kind = SL_OF_DECISION,
        .limit = SL_STR("CL.THROTTLE"),
        .endpoint = SL_STR(""),
        .status = status,
        .result = result,
    };

    if (times > 0)
        add(&find_series(stats, &labels, (unsigned)status, 0)->values[0],
            times);
}

void sl_metrics_throttles(struct sl_metrics *stats,
                          const struct sl_metrics_throttles *counted,
                          const char *door, sl_ns took)
{
    unsigned all = counted->allowed + counted->denied + counted->failed;

    if (all == 0)
        return;
    sl_metrics_took(stats, door, took, all);
    count_throttle(stats, SL_RESULT_ALLOW, 200, counted->allowed);
    count_throttle(stats, SL_RESULT_DENY, 429, counted->denied);
    count_throttle(stats, SL_RESULT_ERROR_DENY, 503, counted->failed);
    add(&stats->store_errors, counted->failed);
}

/* ---- holds, waiting and upstream answers ----
 *
 * The client that settles a hold may report the status of the upstream answer.
 * It is counted by endpoint and class of status. The endpoints are those of
 * the policy; there is a maximum nevertheless.
 */

void sl_metrics_hold(struct sl_metrics *stats, enum sl_hold_event event)
{
    add(&stats->holds[event], 1);
}

static bool is_of(const struct sl_upstream_stats *row, struct sl_str endpoint)
{
    return strlen(row->endpoint) == endpoint.len &&
           memcmp(row->endpoint, endpoint.at, endpoint.len) == 0;
}

/* Returns the row of the endpoint. The last row is for all other endpoints. */
static struct sl_upstream_stats *find_upstream(struct sl_metrics *stats,
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
        endpoint = SL_STR(OTHER);
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

    add(&find_upstream(stats, endpoint)->classes[class], 1);
}
