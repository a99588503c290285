/* envoy.h -- reads the configuration of envoyproxy/ratelimit.
 *
 * One file has one domain and a tree of descriptors:
 *
 *     domain: messaging
 *     descriptors:
 *       - key: message_type
 *         value: marketing
 *         descriptors:
 *           - key: to_number
 *             rate_limit: { unit: day, requests_per_unit: 5 }
 *
 * Several files are one configuration. It becomes a policy that decides alike:
 * each rate_limit is a limit with a fixed window, and each path to it a route
 * with `count: each`. Routes are in the order of envoyproxy/ratelimit: at each
 * level the exact value, then values with stars in the order of the file, then
 * any value, without backtracking.
 *
 * envoyproxy/ratelimit joins keys by "_"; here (a_b, c) and (a, b_c) differ.
 */
#ifndef SL_POLICY_ENVOY_H
#define SL_POLICY_ENVOY_H

#include "policy/diagnostics.h"
#include "policy/yaml.h"

#define SL_ENVOY_DEPTH   16
#define SL_ENVOY_LIMITS  1000 /* of all files; the table has no more */
#define SL_ENVOY_DOMAINS 256

enum sl_envoy_unit {
    SL_ENVOY_SECOND,
    SL_ENVOY_MINUTE,
    SL_ENVOY_HOUR,
    SL_ENVOY_DAY,
    SL_ENVOY_WEEK,
    SL_ENVOY_MONTH,
    SL_ENVOY_YEAR,
    SL_ENVOY_UNITS
};

struct sl_envoy_node {
    struct sl_str key, value; /* no value: any */
    struct sl_source_pos place;
    bool has_limit, unlimited, shadow, quota, shared;
    uint32_t requests;
    enum sl_envoy_unit unit;
    struct sl_str name; /* of the limit, or "" */
    struct sl_source_pos name_place;
    const struct sl_yaml_node
        *replaces;  /* a list of maps with a name, or NULL */
    char limit[65]; /* what it is called in the policy */
    struct sl_envoy_node *child, *next;
};

struct sl_envoy {
    struct sl_arena *arena;
    struct {
        struct sl_str name;
        struct sl_envoy_node *nodes;
    } domains[SL_ENVOY_DOMAINS];
    unsigned domain_count;
    unsigned limit_count;
};

/* Add the file in report->text to `envoy`, in the caller's arena, and name its
 * limits. Errors are in the report. False if there are any. Each setting that a
 * policy does not have is a warning in the report. */
SL_MUST_USE bool sl_envoy_read(struct sl_envoy *envoy,
                               struct sl_report *report);

/* Receives the errors and warnings of one file; borrowed for the call. */
typedef void sl_envoy_told_f(void *ctx, const struct sl_report *report);

/* Read a file, or all files of a folder. SLUICE_ECONF: errors were reported or,
 * if they concern no file, are in `diag`. SLUICE_ESYS. */
SL_MUST_USE int sl_envoy_load(struct sl_envoy *envoy, const char *path,
                              sl_envoy_told_f *tell, void *ctx,
                              struct sl_diag *diag);

/* Write it as a policy. SLUICE_ENOMEM, SLUICE_EFULL. */
SL_MUST_USE int sl_envoy_write(struct sl_envoy *envoy, struct sl_buf *out);

/* Write it as /rlconfig of envoyproxy/ratelimit does. */
SL_MUST_USE int sl_envoy_dump(const struct sl_envoy *envoy, struct sl_buf *out);

#endif
