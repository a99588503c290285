/* daemon.h -- a flow against a daemon, over HTTP or the Redis protocol.
 *
 * The daemon receives the same requests as the engine of the flow. Its verdicts
 * must be the same, byte for byte, including what the flow does not mention.
 *
 * The daemon must be a test build with a settable clock, and keep its state in
 * memory. A flow begins by setting the clock and clearing the state. A
 * production daemon rejects that, before its policy is replaced.
 *
 * Checks are collected and sent together while the clock does not move: as an
 * array or as a pipeline.
 */
#ifndef SL_CLI_FLOW_DAEMON_H
#define SL_CLI_FLOW_DAEMON_H

#include "cli/cli.h"
#include "cli/flow/flow.h"

struct sl_flow_daemon {
    struct sl_daemon_client client, admin;
    struct sl_buf checks;   /* to send: an array without its end, or commands */
    struct sl_buf wants;    /* the expected verdicts, likewise */
    unsigned count;         /* of collected checks */
    struct sl_buf verdicts; /* the replies to commands */
    sl_ns now, set;         /* the flow's clock, and the daemon's */
    char hold[128];         /* the hold of the last verdict, or "" */
    struct sl_diag why;     /* the message of a failure */
};

/* All of these return 0, or
 *   SLUICE_ESYS    the daemon is unreachable
 *   SLUICE_ECONF   the daemon rejected the request
 *   SLUICE_ENOENT  its verdict differs
 *   SLUICE_ENOMEM
 * with a message in daemon->why. */

/* `url` is the listener for checks (http:// or redis://), `admin` the admin
 * listener. */
SL_MUST_USE int sl_flow_daemon_init(struct sl_flow_daemon *daemon,
                                    const char *url, const char *admin,
                                    const struct sl_alloc *alloc);
void sl_flow_daemon_done(struct sl_flow_daemon *daemon);

/* Begin a flow: clear the state, set the clock to 1970, load the policy. */
SL_MUST_USE int sl_flow_daemon_begin(struct sl_flow_daemon *daemon,
                                     const char *policy);

/* Load another policy. */
SL_MUST_USE int sl_flow_daemon_policy(struct sl_flow_daemon *daemon,
                                      const char *path);

SL_MUST_USE int sl_flow_daemon_clock(struct sl_flow_daemon *daemon, sl_ns now);
SL_MUST_USE int sl_flow_daemon_feature(struct sl_flow_daemon *daemon,
                                       const char *name, bool on);
SL_MUST_USE int sl_flow_daemon_backlog(struct sl_flow_daemon *daemon,
                                       const char *name, uint64_t depth);

/* Write a subject to the registry. Its plan and overrides end at `end`, or
 * never (-1). */
SL_MUST_USE int sl_flow_daemon_subject(struct sl_flow_daemon *daemon,
                                       const struct sl_flow_act *act,
                                       int64_t end);

/* Add a check that the engine answered with `verdict`. */
SL_MUST_USE int sl_flow_daemon_check(struct sl_flow_daemon *daemon,
                                     const struct sluice_request *request,
                                     const char *verdict);

/* Write one check as JSON. `id` is the request id, in JSON. */
void sl_flow_check_write(struct sl_writer *w,
                         const struct sluice_request *request,
                         struct sl_str id);

/* Send the collected checks and compare the verdicts. */
SL_MUST_USE int sl_flow_daemon_flush(struct sl_flow_daemon *daemon);

/* Why a flow cannot run against a daemon, or NULL. */
const char *sl_flow_daemon_cannot(const struct sl_flow_daemon *daemon,
                                  const struct sl_flow *flow);

/* Report usage: `limit`, `cost`, and a user or an org. */
SL_MUST_USE int sl_flow_daemon_usage(struct sl_flow_daemon *daemon,
                                     const struct sluice_request *request);

/* Settle, release or extend the daemon's hold. `want` is the expected answer,
 * {} for an unknown hold. */
SL_MUST_USE int sl_flow_daemon_hold(struct sl_flow_daemon *daemon,
                                    const struct sl_flow_act *act,
                                    const char *hold, const char *want);

#endif
