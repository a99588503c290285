/* metrics_int.h -- between counting (stats.c) and printing (render.c).
 *
 * A thread's counts are written by that thread alone and read by whoever
 * prints, so nobody waits and nothing is locked: values are relaxed atomics,
 * and what is new (a series, a door, a reason) is complete before the number
 * of them is raised. Nothing is ever taken away, so that a series survives a
 * reload and a reader never holds a dangling pointer.
 */
#ifndef SL_SERVER_METRICS_INT_H
#define SL_SERVER_METRICS_INT_H

#include <stdatomic.h>

#include "server/metrics.h"

typedef _Atomic uint64_t sl_stat;

/* ---- series: labels from the policy ---- */

enum sl_series_kind {
    SL_OF_DECISION,
    SL_OF_LIMIT,
    SL_OF_ENDPOINT,
    SL_OF_KINDS
};

enum sl_result {
    SL_RESULT_ALLOW,
    SL_RESULT_DENY,
    SL_RESULT_SHADOW_DENY,
    SL_RESULT_ERROR_ALLOW,
    SL_RESULT_ERROR_DENY,
    SL_RESULTS
};

/* The values of a series: one for a decision, these for a limit, a histogram
 * for an endpoint. */
enum {
    OF_LIMIT_CANDIDATE,
    OF_LIMIT_CONSUMED,
    OF_LIMIT_NEAR,
    OF_LIMIT_OVERAGE,
    OF_LIMIT_QUOTA,
    OF_LIMIT_SHADOW,
    OF_LIMITS
};

struct sl_labels {
    enum sl_series_kind kind;
    struct sl_str limit, endpoint; /* "" where the kind has none */
    int status;                    /* DECISION; 0: other */
    enum sl_result result;         /* DECISION */
};

struct sl_series {
    struct sl_labels labels; /* texts stand behind the values */
    size_t size;             /* of this piece */
    sl_stat values[];
};

/* ---- histograms ---- */

/* The upper bounds of the buckets, in ns and as `le` shows them. Above the
 * last is +Inf. */
struct sl_bound {
    sl_ns most;
    const char *le;
};

#define SL_TOOK_BOUNDS 16
#define SL_WAIT_BOUNDS 12

extern const struct sl_bound sl_took_bounds[SL_TOOK_BOUNDS];
extern const struct sl_bound sl_wait_bounds[SL_WAIT_BOUNDS];

/* Each bucket's own count, +Inf last; behind them the sum in ns. */
#define SL_TOOK_VALUES (SL_TOOK_BOUNDS + 2)
#define SL_WAIT_VALUES (SL_WAIT_BOUNDS + 2)

/* ---- doors: labels from the program ---- */

#define SL_METRICS_DOORS 8   /* the last is for all others */
#define SL_METRICS_WHYS  64  /* the last is for all others */
#define SL_STATUSES      501 /* 0: none of 100 to 599 */

struct sl_protocol_metrics {
    char name[16];
    _Atomic int64_t connections;
    sl_stat requests[SL_STATUSES]; /* by status - 99 */
    sl_stat took[SL_TOOK_VALUES];
};

struct sl_why_stats {
    char door[16];
    char why[48];
    sl_stat count;
};

/* ---- holds, and what was asked upstream: held.c ---- */

#define SL_UPSTREAMS 256 /* endpoints; the last is for all others */
#define SL_CLASSES   6   /* of a status; 0: none of 100 to 599 */

struct sl_upstream_stats {
    char endpoint[72];
    sl_stat classes[SL_CLASSES];
};

#define SL_SERIES_CACHE 256

struct sl_metrics {
    const struct sl_alloc *alloc;
    struct sl_top_keys *top; /* or NULL */
    struct sl_denial_batch *denials;

    sl_stat store_errors;
    sl_stat denied;
    sl_stat fail_modes[3];           /* by enum sl_failure */
    sl_stat tokens[SL_TOKEN_ERRORS]; /* by fault; the good ones, too */

    sl_stat holds[SL_HOLD_EVENTS];
    sl_stat turns[SL_WAIT_RESULTS];
    sl_stat turn_waits[SL_WAIT_VALUES];
    struct sl_upstream_stats upstream[SL_UPSTREAMS];
    _Atomic unsigned upstream_count;

    struct sl_protocol_metrics doors[SL_METRICS_DOORS];
    _Atomic unsigned door_count;
    struct sl_why_stats whys[SL_METRICS_WHYS];
    _Atomic unsigned why_count;

    /* All series, in the order in which they came; the first ones are `other`:
     * one for each result, one for limits, one for endpoints. */
    struct sl_series *series[SL_SERIES];
    _Atomic unsigned series_count;

    /* The owner's alone: where a series is. */
    uint16_t index[2 * 4096]; /* open addressing; series + 1, 0: none */
    struct sl_series *cache[SL_OF_KINDS][SL_SERIES_CACHE];
};

/* Room for the series `other`; SLUICE_ENOMEM without. */
SL_MUST_USE int sl_series_init(struct sl_metrics *stats);
void sl_series_done(struct sl_metrics *stats);

/* The series with these labels, or `other`. `hint` is where it is likely to
 * be found again. The owner's alone. */
struct sl_series *sl_series_find(struct sl_metrics *stats,
                                 const struct sl_labels *labels, unsigned hint);

/* ---- the process ---- */

enum {
    PROCESS_CPU, /* ns */
    PROCESS_MAX_FDS,
    PROCESS_OPEN_FDS,
    PROCESS_RESIDENT,
    PROCESS_VIRTUAL,
    PROCESS_VALUES
};

#define SL_UNKNOWN UINT64_MAX

/* What the kernel says of this process; SL_UNKNOWN where it says nothing. */
void sl_process_read(uint64_t ret[PROCESS_VALUES]);

/* ---- a page of metrics, a piece at a time.
 *
 * The first failure stays and everything after it is left out, so that whoever
 * prints asks once, at the end.
 */

struct sl_metrics_write {
    struct sl_buf *out;
    bool open_metrics;
    int err;
};

void sl_metrics_write_add(struct sl_metrics_write *page, const char *text);

/* Up to 255 bytes. */
void sl_metrics_write_addf(struct sl_metrics_write *page, const char *fmt, ...)
    SL_PRINTF(2, 3);

/* `{name="value"` for the first label (before is '{'), `,name="value"` for
 * others. The value is escaped. */
void sl_metrics_write_label(struct sl_metrics_write *page, char before,
                            const char *name, struct sl_str value);

/* A blank, the number and the end of the line. */
void sl_metrics_write_number(struct sl_metrics_write *page, uint64_t number);

/* The same for nanoseconds as seconds, exactly. */
void sl_metrics_write_seconds(struct sl_metrics_write *page, uint64_t ns);

/* What is known of the keys of tokens, if there are any, and how much work is
 * waiting. now.c */
enum { SL_JWKS_KEYS, SL_JWKS_AGE, SL_JWKS_ENDS, SL_BACKLOG_DEPTHS };
void sl_metrics_write_asked(struct sl_metrics_write *page, const char *name,
                            unsigned which, const struct sl_metrics_now *now);

/* Of a store that is shared: a number, SL_STORE_NUM_CLOCK, or several with a
 * label. now.c */
enum {
    SL_STORE_NUM_CLOCK = SL_STORE_NUM_NUMBERS,
    SL_STORE_NUM_TAKES,
    SL_STORE_NUM_REDIRECTS,
};
void sl_metrics_write_shared(struct sl_metrics_write *page, const char *name,
                             unsigned which,
                             const struct sl_metrics_shared *shared);

/* What became of holds, and of what was asked upstream. held.c */
enum {
    SL_METRICS_WRITE_HOLDS,
    SL_METRICS_WRITE_UPSTREAM,
    SL_METRICS_WRITE_TURNS,
    SL_METRICS_WRITE_WAITS
};
void sl_metrics_write_held(struct sl_metrics_write *page, const char *name,
                           unsigned which, struct sl_metrics *const *all,
                           unsigned count);

/* All lines of a histogram with one label: `values` are each bucket's own
 * count, +Inf's behind the `count` bounds, and then the sum in ns. */
void sl_metrics_write_histogram(struct sl_metrics_write *page, const char *name,
                                const char *label, struct sl_str value,
                                const uint64_t *values,
                                const struct sl_bound *bounds, unsigned count);

#endif
