/* metrics.h -- metrics for Prometheus.
 *
 * Each thread counts for itself without a lock. A request of /metrics adds up
 * the counts of all threads. Labels come from the policy and from fixed lists:
 * no user, address or key is a label, and organisations only by the policy. The
 * number of series has a maximum; beyond it `other` is counted.
 *
 * Every metric is one row of metrics.def, with its help text. The docs, the
 * alert rules and the dashboard are checked against it.
 */
#ifndef SL_SERVER_METRICS_H
#define SL_SERVER_METRICS_H

#include "base/buf.h"
#include "engine/decision.h"

#define SL_JWKS_WORDS 5 /* results of fetching a key set */

#define SL_SERIES 4000 /* per thread, of those with labels from the policy */

struct sl_metrics; /* of one thread */
struct sl_top_keys;
struct sl_denial_batch;
struct sl_denial_ring;
struct sl_check;
struct sl_recorder;

SL_MUST_USE int sl_metrics_open(const struct sl_alloc *alloc,
                                struct sl_metrics **ret);
void sl_metrics_close(struct sl_metrics *stats); /* NULL is allowed */

/* Also pass every decision to these. All are borrowed and may be NULL. */
void sl_metrics_watch(struct sl_metrics *stats, struct sl_top_keys *top,
                      struct sl_denial_batch *denials,
                      struct sl_denial_ring *ring,
                      struct sl_recorder *recorder);

/* Pass an answered check to the recorder. */
void sl_metrics_record(struct sl_metrics *stats, const struct sl_check *check);

/* Returns the number of decisions made without the store. Any thread. */
uint64_t sl_metrics_degraded(const struct sl_metrics *stats);

/* Returns the number of denials by a limit. Any thread. */
uint64_t sl_metrics_denied(const struct sl_metrics *stats);

/* Count the blocks that began with a report of failed attempts. */
void sl_metrics_blocks(struct sl_metrics *stats, const struct sl_decision *d);

/* Count a decision of the protocol `door` ("http", "grpc", "resp"), and the
 * blocks that began with it. */
void sl_metrics_decision(struct sl_metrics *stats, const struct sl_decision *d,
                         const char *door, sl_ns took);

/* The same in two steps, for many decisions with one reading of the clock:
 * count each decision that was to spend, then the time of all `count` (at least
 * 1) decisions together. */
void sl_metrics_verdict(struct sl_metrics *stats, const struct sl_decision *d);
void sl_metrics_took(struct sl_metrics *stats, const char *door, sl_ns took,
                     unsigned count);

/* Count a batch of limits whose numbers came with the command. They are counted
 * as the limit CL.THROTTLE. */
struct sl_metrics_throttles {
    unsigned allowed, denied, failed;
};
void sl_metrics_throttles(struct sl_metrics *stats,
                          const struct sl_metrics_throttles *counted,
                          const char *door, sl_ns took);

/* Operations on holds. */
enum sl_hold_event {
    SL_METRIC_HELD,
    SL_HOLD_SETTLED_NOW,
    SL_HOLD_RELEASED_NOW,
    SL_HOLD_EXTENDED,
    SL_HOLD_AGAIN,  /* the hold had ended before */
    SL_HOLD_MISSED, /* the hold is unknown */
    SL_HOLD_FULL,   /* no room for another hold */
    SL_HOLD_EVENTS
};
/* Results of waiting for a turn. */
enum sl_wait_result {
    SL_WAIT_GRANTED,
    SL_WAIT_DENIED,
    SL_WAIT_REFUSED,
    SL_WAIT_RESULTS
};

void sl_metrics_hold(struct sl_metrics *stats, enum sl_hold_event event);
void sl_metrics_upstream(struct sl_metrics *stats, struct sl_str endpoint,
                         unsigned status);

/* Count an answered HTTP request. */
void sl_metrics_request(struct sl_metrics *stats, const char *door, int status);

/* Count an opened (+1) or closed (-1) connection. */
void sl_metrics_connection(struct sl_metrics *stats, const char *door,
                           int change);

/* Count a refusal by the protocol: bad request, deadline, too many
 * connections. */
void sl_metrics_refused(struct sl_metrics *stats, const char *door,
                        const char *why);

/* Results of subject lookups. */
enum sl_lookup_result {
    SL_LOOKUP_HIT,    /* in the cache */
    SL_LOOKUP_LOADED, /* read from the registry */
    SL_LOOKUP_LATE,
    SL_LOOKUP_FAILED,
    SL_LOOKUP_BUSY,
    SL_LOOKUPS
};

extern const char *const sl_lookup_words[SL_LOOKUPS];

enum sl_subject_number {
    SL_SUBJECTS_AT_HAND, /* of all threads */
    SL_SUBJECT_COMMITS,
    SL_SUBJECT_ERRORS,
    SL_SUBJECT_QUEUE,
    SL_SUBJECT_WRITES,
    SL_USAGE_SPENT, /* these five: the usage database */
    SL_USAGE_WRITTEN,
    SL_USAGE_ERRORS,
    SL_USAGE_LOST,
    SL_USAGE_MARKED,
    SL_JOURNAL_UNITS, /* these three: the usage journal */
    SL_JOURNAL_BYTES,
    SL_JOURNAL_AGE,
    SL_USAGE_AT_RISK,
    SL_QUOTA_LEASE_ASKS, /* these five: quota leases */
    SL_QUOTA_LEASE_FAILURES,
    SL_LEASE_KEYS,
    SL_QUOTA_LEASE_REFUSALS,
    SL_QUOTA_LEASE_UNSPENT,
    SL_QUOTA_OVERSHOOT,
    SL_DATABASE_EXPIRED,
    SL_SUBJECT_NUMBERS
};

/* Numbers of a remote store. */
enum sl_store_number {
    SL_STORE_NUM_ANSWERED, /* these six: results of takes */
    SL_STORE_NUM_REMEMBERED,
    SL_STORE_NUM_LEASED,
    SL_STORE_NUM_LATE,
    SL_STORE_NUM_FAILED,
    SL_STORE_NUM_SPANNING,
    SL_STORE_NUM_RETURNED,
    SL_STORE_NUM_UNCERTAIN,
    SL_STORE_NUM_FOREIGN,
    SL_STORE_NUM_WRONG_TYPE,
    SL_STORE_NUM_REPAIRS,
    SL_STORE_NUM_REDIRECTED, /* these two: redirections */
    SL_STORE_NUM_STORMS,
    SL_STORE_NUM_EPOCHS,
    SL_STORE_NUM_LOOPS,
    SL_STORE_NUM_BREAKER,
    SL_STORE_NUM_NODES,
    SL_STORE_NUM_DEBTS,
    SL_STORE_NUM_CHARGED,
    SL_STORE_NUM_FORGIVEN,
    SL_STORE_NUM_LOST,
    SL_STORE_NUM_LEASE_TOKENS,
    SL_STORE_NUM_LEASE_OVER,
    SL_STORE_NUM_LEASE_UNDER,
    SL_STORE_NUM_NUMBERS
};

struct sl_metrics_shared {
    bool on; /* false: no remote store, and its metrics are left out */
    bool answers;
    sl_ns ahead;   /* of its clock; SL_NS_NONE: not known */
    sl_ns latency; /* 0: not known */
    uint64_t numbers[SL_STORE_NUM_NUMBERS];
};

/* Numbers of the registry; zeros if there is none. */
struct sl_metrics_subjects {
    uint64_t results[SL_LOOKUPS];
    uint64_t numbers[SL_SUBJECT_NUMBERS];
};

/* Webhooks that go out; see sl_attempt_class(). */
#define SL_ATTEMPT_CLASSES 7
extern const char *const sl_attempt_words[SL_ATTEMPT_CLASSES];
struct sl_metrics_webhooks {
    bool on; /* false: there is no database, and its metrics are left out */
    uint64_t attempts[SL_ATTEMPT_CLASSES];
    uint64_t paced;                  /* claims that the pace delayed */
    uint64_t dead, disabled;         /* by this daemon, since its start */
    uint64_t omitted;                /* notes beyond their rate */
    uint64_t sending;                /* claimed by this daemon */
    uint64_t waiting;                /* in the database */
    uint64_t dead_now, disabled_now; /* likewise */
    sl_ns oldest; /* when the oldest that waits was accepted; 0: none */
};

/* Values that are read when /metrics is requested. */
struct sl_metrics_now {
    uint64_t table_places, table_occupied, table_bytes, table_evicted,
        table_forgotten, table_full, denials_unrecorded;
    uint64_t listener_paused;
    uint64_t waiting; /* requests in the wait queue */
    uint64_t holds, hold_places;
    uint64_t reload_good; /* 0 or 1 */
    sl_ns reloaded_at;    /* the last successful reload */
    uint64_t reloads_good, reloads_bad;
    const char *policy_hash; /* hex */
    const char *store;       /* "memory" */
    bool store_up;
    bool has_database, database_up; /* of subjects and usage */
    uint64_t clock_steps;
    sl_ns now, started_at;
    struct sl_metrics_subjects subjects;
    struct sl_metrics_shared shared;
    struct sl_metrics_webhooks webhooks;
    const struct sl_active_policy
        *active; /* a reference; NULL: backlogs are not known */

    /* The key set, if the policy verifies tokens. */
    bool jwks_on;
    unsigned jwks_keys;
    sl_ns jwks_age; /* SL_NS_NONE: no keys */
    uint64_t jwks_results[SL_JWKS_WORDS];
    const char *const *jwks_words; /* SL_JWKS_WORDS of them */
};

/* Append the counts of all threads as Prometheus text (version 0.0.4) or
 * OpenMetrics. On failure nothing is appended. */
SL_MUST_USE int sl_metrics_render(struct sl_metrics *const *all, unsigned count,
                                  const struct sl_metrics_now *now,
                                  bool open_metrics, struct sl_buf *out);

#endif
