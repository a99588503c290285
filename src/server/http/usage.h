/* usage.h -- shared by the handlers of /v1/usage.
 *
 * usage_post.c has POST /v1/usage. usage_get.c has GET /v1/usage/SCOPE/ID, and
 * /v1/credits and /v1/leases of the admin listener.
 */
#ifndef SL_SERVER_HTTP_USAGE_H
#define SL_SERVER_HTTP_USAGE_H

#include "registry/usage_buffer.h"
#include "server/http/api.h"

#define SL_REPORTS 1000 /* reports in one array */

/* One report of usage. */
struct sl_usage_report_item {
    struct sl_request request; /* for the caller and the limit */
    const struct sl_rule *rule;
    struct sl_str keys[SL_PER_MAX]; /* `request` points to them */
    struct sl_str scopes[SL_PER_MAX];
    struct sl_str key, name;
    uint64_t amount;
    bool release, enforce;
};

struct sl_usage_report_items {
    bool is_array;
    unsigned count;
    struct sl_usage_report_item *list;
};

/* Read the body. Returns false after a refusal that names the wrong member. */
SL_MUST_USE bool sl_uses_read(struct sl_http_call *call,
                              struct sl_usage_report_items *ret);

/* ---- meters ---- */

/* The usage of one limit. */
struct sl_meter_view {
    const struct sl_rule *rule;
    struct sl_str plan, scope, id;
    bool limited; /* `limit` is valid */
    bool blind;   /* the store was not asked: `used` is from the database */
    bool from_database; /* `used` is from the database */
    uint64_t used, limit, overage, credited, credits;
    uint64_t left; /* of a limit that does not count up */
    uint64_t cap;  /* for the database: units beyond it are overage */
    sl_ns start;   /* of the period in the database; 0: none */
    sl_ns end;     /* SL_NS_NONE: none */
    sl_ns now;
};

/* Fill the view from the decision of one limit. `used` is 0 if the limit is
 * switched off or the store is down. */
void sl_meter_view_of(const struct sl_check *check, const struct sl_rule *rule,
                      sl_ns now, struct sl_meter_view *ret);

/* Write "name":"transcription",... without braces. */
void sl_meter_view_write(const struct sl_meter_view *view, struct sl_writer *w);

/* Returns the time when the limit is used up at the present rate, or
 * SL_NS_NONE: not in this period. */
sl_ns sl_meter_view_exhausted(const struct sl_meter_view *view);

/* ---- handlers ---- */

sl_http_f sl_http_usage_report, sl_http_usage_read;

/* On the admin listener. */
sl_http_f sl_admin_credits, sl_admin_credit_give, sl_admin_credit_revoke;
sl_http_f sl_admin_leases, sl_admin_lease_release;

/* Returns the usage sink of this thread, or NULL after a refusal. */
struct sl_usage_sink *sl_http_meter(struct sl_http_call *call);

#endif
