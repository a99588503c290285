/* stats.h -- what is counted, for Prometheus.
 *
 * Each thread counts for itself, without a lock that others take; whoever asks
 * for /metrics adds up. Labels come from the policy and from fixed lists only:
 * no user, organisation, address or key is ever a label, and there is a
 * ceiling on series, beyond which `other` is counted.
 *
 * Every metric is one row of stats.def, with its help; the docs, the alert
 * rules and the dashboard are checked against it.
 */
#ifndef SL_STATS_H
#define SL_STATS_H

#include "base/buf.h"
#include "engine/decide.h"

#define SL_JWKS_WORDS 5 /* how fetching keys can end */

#define SL_SERIES 4000 /* per thread, of those with labels from the policy */

struct sl_stats; /* of one thread */
struct sl_top;
struct sl_denials;

SL_MUST_USE int sl_stats_open(const struct sl_alloc *alloc,
                              struct sl_stats **ret);
void sl_stats_close(struct sl_stats *stats); /* NULL is allowed */

/* Tell these (borrowed; NULL: nobody) of every decision, too. */
void sl_stats_watch(struct sl_stats *stats, struct sl_top *top,
                    struct sl_denials *denials);

/* How many decisions were made without the store. Any thread. */
uint64_t sl_stats_degraded(const struct sl_stats *stats);

/* How many were refused by a limit. Any thread. */
uint64_t sl_stats_denied(const struct sl_stats *stats);

/* A decision was made at a door ("http", "grpc", "resp") and took `took`. */
void sl_stats_decision(struct sl_stats *stats, const struct sl_decision *d,
                       const char *door, sl_ns took);

/* The same in two steps, for those who make many in a row and read the clock
 * once: each decision that was to spend, and then how long all `count` (at
 * least 1) of them took together. */
void sl_stats_verdict(struct sl_stats *stats, const struct sl_decision *d);
void sl_stats_took(struct sl_stats *stats, const char *door, sl_ns took,
                   unsigned count);

/* Limits whose numbers came with the question were asked together, which took
 * `took`. They are counted as the limit CL.THROTTLE. */
struct sl_stats_throttles {
    unsigned allowed, denied, failed;
};
void sl_stats_throttles(struct sl_stats *stats,
                        const struct sl_stats_throttles *counted,
                        const char *door, sl_ns took);

/* What became of a hold, and how whoever was asked meanwhile has answered. */
enum sl_hold_event {
    SL_HELD,
    SL_HOLD_SETTLED_NOW,
    SL_HOLD_RELEASED_NOW,
    SL_HOLD_EXTENDED,
    SL_HOLD_AGAIN,  /* it had ended before */
    SL_HOLD_MISSED, /* nobody knows it */
    SL_HOLD_FULL,   /* there was no room for it */
    SL_HOLD_EVENTS
};
/* How waiting for a turn ended. */
enum sl_turn_end { SL_TURN_GRANTED, SL_TURN_DENIED, SL_TURN_REFUSED, SL_TURNS };
void sl_stats_turn(struct sl_stats *stats, const struct sl_decision *d);

void sl_stats_hold(struct sl_stats *stats, enum sl_hold_event event);
void sl_stats_upstream(struct sl_stats *stats, struct sl_str endpoint,
                       unsigned status);

/* An HTTP request was answered. */
void sl_stats_request(struct sl_stats *stats, const char *door, int status);

/* Connections of a door opened (+1) and closed (-1). */
void sl_stats_connection(struct sl_stats *stats, const char *door, int change);

/* Refusals of the protocol itself: bad requests, deadlines, over the cap. */
void sl_stats_refused(struct sl_stats *stats, const char *door,
                      const char *why);

/* How lookups of subjects ended. */
enum sl_lookup_result {
    SL_LOOKUP_HIT,    /* at hand */
    SL_LOOKUP_LOADED, /* asked of the registry */
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
    SL_USAGE_SPENT, /* these five: its books of usage */
    SL_USAGE_WRITTEN,
    SL_USAGE_ERRORS,
    SL_USAGE_LOST,
    SL_USAGE_MARKED,
    SL_LEASE_ASKS, /* these five: quotas that are leased from them */
    SL_LEASE_FAILURES,
    SL_LEASE_KEYS,
    SL_LEASE_REFUSALS,
    SL_LEASE_UNSPENT,
    SL_SUBJECT_NUMBERS
};

/* The registry; zeros if there is none. */
/* A store that is shared. */
enum sl_shared_number {
    SL_SHARED_ANSWERED, /* these six: how takes ended */
    SL_SHARED_REMEMBERED,
    SL_SHARED_LEASED,
    SL_SHARED_LATE,
    SL_SHARED_FAILED,
    SL_SHARED_SPANNING,
    SL_SHARED_RETURNED,
    SL_SHARED_UNCERTAIN,
    SL_SHARED_FOREIGN,
    SL_SHARED_REPAIRS,
    SL_SHARED_REDIRECTED, /* these two: redirections */
    SL_SHARED_STORMS,
    SL_SHARED_EPOCHS,
    SL_SHARED_LOOPS,
    SL_SHARED_BREAKER,
    SL_SHARED_NODES,
    SL_SHARED_DEBTS,
    SL_SHARED_CHARGED,
    SL_SHARED_FORGIVEN,
    SL_SHARED_LOST,
    SL_SHARED_LEASE_TOKENS,
    SL_SHARED_LEASE_OVER,
    SL_SHARED_LEASE_UNDER,
    SL_SHARED_NUMBERS
};

struct sl_stats_shared {
    bool on; /* otherwise there is none, and nothing is said */
    bool answers;
    sl_ns ahead; /* its clock, against ours; SL_NS_NONE: not known */
    uint64_t numbers[SL_SHARED_NUMBERS];
};

struct sl_stats_subjects {
    uint64_t results[SL_LOOKUPS];
    uint64_t numbers[SL_SUBJECT_NUMBERS];
};

/* What is not counted but asked for when somebody looks. */
struct sl_stats_now {
    uint64_t table_places, table_occupied, table_bytes, table_evicted,
        table_full;
    uint64_t listener_paused;
    uint64_t waiting; /* for their turn */
    uint64_t holds, hold_places;
    bool reload_good;
    sl_ns reloaded_at; /* the last good one */
    uint64_t reloads_good, reloads_bad;
    const char *policy_hash; /* hex */
    const char *store;       /* "memory" */
    bool store_up;
    sl_ns now, started_at;
    struct sl_stats_subjects subjects;
    struct sl_stats_shared shared;
    const struct sl_live *live; /* held; NULL: nothing is known of backlogs */

    /* The keys that tokens are verified with, if the policy believes any. */
    bool jwks_on;
    unsigned jwks_keys;
    sl_ns jwks_age; /* SL_NS_NONE: there are none */
    uint64_t jwks_results[SL_JWKS_WORDS];
    const char *const *jwks_words; /* as many */
};

/* All threads' counts as Prometheus text (version 0.0.4), or OpenMetrics. */
SL_MUST_USE int sl_stats_render(struct sl_stats *const *all, unsigned count,
                                const struct sl_stats_now *now,
                                bool open_metrics, struct sl_buf *out);

#endif
