/* usage.h -- what the handlers of /v1/usage share.
 *
 *   read.c    the body of a report
 *   report.c  POST /v1/usage: look, put down, charge
 *   meters.c  GET /v1/usage/SCOPE/ID
 *   credits.c /v1/credits of the admin listener
 *   leases.c  /v1/leases of the admin listener
 *   show.c    a meter as JSON, a history as CSV
 */
#ifndef SL_SERVER_HTTP_USAGE_H
#define SL_SERVER_HTTP_USAGE_H

#include "registry/usage_buffer.h"
#include "server/http/api.h"

#define SL_REPORTS 1000 /* in one array */

/* Something that was used. */
struct sl_usage_report_item {
    struct sl_request facts; /* of the one who used it, for that one limit */
    const struct sl_rule *rule;
    struct sl_str keys[SL_PER_MAX]; /* what the facts point to */
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

/* Read the body. False if it was refused, with the member that is wrong: then
 * nothing of it is right. */
SL_MUST_USE bool sl_uses_read(struct sl_http_call *call,
                              struct sl_usage_report_items *ret);

/* ---- showing ---- */

/* One meter. */
struct sl_meter_view {
    const struct sl_rule *rule;
    struct sl_str plan, scope, id;
    bool limited; /* `limit` is one */
    bool blind;   /* the store was not asked: used is what the books have */
    bool from_database; /* `used` is */
    uint64_t used, limit, overage, credited, credits;
    uint64_t left; /* as the limit itself says; of what does not count up */
    uint64_t cap;  /* for the books: what lies beyond it is overage */
    sl_ns start;   /* of what the books count; 0: none */
    sl_ns end;     /* SL_NS_NONE: none */
    sl_ns now;
};

/* Begin with what was decided by one limit. If it is not there (a policy that
 * is switched off), or the store is away, used is 0. */
void sl_meter_view_of(const struct sl_check *ask, const struct sl_rule *rule,
                      sl_ns now, struct sl_meter_view *ret);

/* Write "name":"transcription",... without braces. */
void sl_meter_view_write(const struct sl_meter_view *view, struct sl_writer *w);

/* When a limit will be used up, if it goes on like this; SL_NS_NONE: not in
 * this period. */
sl_ns sl_meter_view_exhausted(const struct sl_meter_view *view);

/* ---- handlers ---- */

sl_http_f sl_http_usage_report, sl_http_usage_read;

/* On the admin listener. */
sl_http_f sl_admin_credits, sl_admin_credit_give, sl_admin_credit_revoke;
sl_http_f sl_admin_leases, sl_admin_lease_release;

/* The books of this thread; NULL if it was refused: there are none. */
struct sl_usage_sink *sl_http_meter(struct sl_http_call *call);

#endif
