/* metrics_int.h -- the counts of a thread, shared by metrics.c and
 * metrics_out.c.
 *
 * Only the owner thread writes its counts; any thread reads them. There is no
 * lock: values are relaxed atomics, and a new entry (a series, a protocol, a
 * reason) is complete before its number is raised. Entries are never removed:
 * a series survives a reload, and a reader never has a dangling pointer.
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
    SL_OF_TENANT,
    SL_OF_USE, /* units of a quota by an endpoint; for history.h */
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

/* A series has one value for a decision, these values for a limit, a histogram
 * for an endpoint, these for a tenant, and one for a use. */
enum {
    OF_LIMIT_CANDIDATE,
    OF_LIMIT_CONSUMED,
    OF_LIMIT_NEAR,
    OF_LIMIT_OVERAGE,
    OF_LIMIT_PENALTY,
    OF_LIMIT_QUOTA,
    OF_LIMIT_SHADOW,
    OF_LIMITS
};

enum {
    OF_TENANT_BY_TENANT, /* these three: denials, by what the limit is per */
    OF_TENANT_BY_USER,
    OF_TENANT_BY_OTHER,
    OF_TENANT_ALLOWED_USER,
    OF_TENANT_ALLOWED_NO_USER,
    OF_TENANT_RETRY, /* of the last denial: when (s) << 32 | the wait (s) */
    OF_TENANTS
};

struct sl_labels {
    enum sl_series_kind kind;
    struct sl_str limit, endpoint; /* "" where the kind has none. The tenant of
                                    * a TENANT is in `limit` */
    int status;                    /* DECISION; 0: other */
    enum sl_result result;         /* DECISION */
};

struct sl_series {
    struct sl_labels labels; /* its texts follow the values */
    size_t size;             /* of the allocation */
    sl_stat values[];
};

/* ---- histograms ---- */

/* The upper bound of a bucket, in ns and as the label `le`. The bucket after
 * the last bound is +Inf. */
struct sl_bound {
    sl_ns most;
    const char *le;
};

#define SL_TOOK_BOUNDS 16
#define SL_WAIT_BOUNDS 12

extern const struct sl_bound sl_took_bounds[SL_TOOK_BOUNDS];
extern const struct sl_bound sl_wait_bounds[SL_WAIT_BOUNDS];

/* The count of each bucket, +Inf last, and then the sum in ns. */
#define SL_TOOK_VALUES (SL_TOOK_BOUNDS + 2)
#define SL_WAIT_VALUES (SL_WAIT_BOUNDS + 2)

/* ---- protocols: labels from the program ---- */

#define SL_METRICS_DOORS 8   /* the last is for all others */
#define SL_METRICS_WHYS  64  /* the last is for all others */
#define SL_STATUSES      501 /* 0: none of 100 to 599 */

struct sl_protocol_metrics {
    char name[16];                 /* first */
    sl_stat connections;           /* closed ones are subtracted */
    sl_stat requests[SL_STATUSES]; /* by status - 99 */
    sl_stat took[SL_TOOK_VALUES];
};

struct sl_why_stats {
    char door[16];
    char why[48];
    sl_stat count;
};

/* ---- answers of upstream services ---- */

#define SL_UPSTREAMS 256 /* endpoints; the last is for all others */
#define SL_CLASSES   6   /* of a status; 0: none of 100 to 599 */

struct sl_upstream_stats {
    char endpoint[72]; /* first */
    sl_stat classes[SL_CLASSES];
};

#define SL_SERIES_CACHE 256

struct sl_metrics {
    const struct sl_alloc *alloc;
    struct sl_top_keys *top; /* or NULL */
    struct sl_denial_batch *denials;
    struct sl_denial_ring *ring;
    struct sl_recorder *recorder;

    sl_stat store_errors;
    sl_stat denied;
    sl_stat fail_modes[3];           /* by enum sl_failure */
    sl_stat tokens[SL_TOKEN_ERRORS]; /* by error; valid tokens, too */

    sl_stat holds[SL_HOLD_EVENTS];
    sl_stat turns[SL_WAIT_RESULTS];
    sl_stat turn_waits[SL_WAIT_VALUES];
    struct sl_upstream_stats upstream[SL_UPSTREAMS];
    _Atomic unsigned upstream_count;

    struct sl_protocol_metrics doors[SL_METRICS_DOORS];
    _Atomic unsigned door_count;
    struct sl_why_stats whys[SL_METRICS_WHYS];
    _Atomic unsigned why_count;

    /* All series in the order of creation. The first ones are `other`: one for
     * each result, one for limits, one for endpoints, one for tenants. */
    struct sl_series *series[SL_SERIES];
    _Atomic unsigned series_count;

    /* Used by the owner only: where a series is. */
    uint16_t index[2 * 4096]; /* open addressing; series + 1, 0: none */
    struct sl_cached_series {
        uint64_t generation;     /* see sl_decision; 0: the texts may move */
        struct sl_labels labels; /* those of the policy, not copies */
        struct sl_series *series;
    } cache[SL_OF_KINDS][SL_SERIES_CACHE];
};

#endif
