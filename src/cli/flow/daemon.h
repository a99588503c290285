/* daemon.h -- a flow against a daemon, over HTTP or the Redis protocol.
 *
 * The daemon is asked whatever the engine of the flow is asked, and must give
 * the same verdict, byte for byte: every number, header and body, whether the
 * flow mentions it or not. What a flow expects is then true of both.
 *
 * It has to be a daemon that was built for tests, with a clock that can be
 * set, and its state in memory: a flow begins by emptying it. That is also
 * what comes first, so that a daemon at work, which can do neither, keeps its
 * policy.
 *
 * Checks are collected, and sent together while the clock stands: as an array,
 * or as a pipeline.
 */
#ifndef SL_CLI_FLOW_DAEMON_H
#define SL_CLI_FLOW_DAEMON_H

#include "cli/cli.h"
#include "cli/flow/flow.h"

struct sl_flow_daemon {
    struct sl_daemon_client door, admin;
    struct sl_buf checks; /* to be sent: an array without its end; commands */
    struct sl_buf wants;  /* what is to be answered, likewise; each by itself */
    unsigned count;       /* of them */
    struct sl_buf verdicts; /* what was answered to commands */
    sl_ns now, told;        /* the flow's clock, and the daemon's */
    char hold[128];         /* the hold of the verdict that came last, or "" */
    struct sl_diag why;     /* the sentence of what failed */
};

/* All of these return 0, or
 *   SLUICE_ESYS    the daemon can't be reached
 *   SLUICE_ECONF   it can't do or does not accept what it was asked
 *   SLUICE_ENOENT  it gave another verdict
 *   SLUICE_ENOMEM
 * with a sentence in remote->why. */

/* `url` is the door (http:// or redis://), `admin` the admin listener. */
SL_MUST_USE int sl_flow_daemon_init(struct sl_flow_daemon *remote,
                                    const char *url, const char *admin,
                                    const struct sl_alloc *alloc);
void sl_flow_daemon_done(struct sl_flow_daemon *remote);

/* A flow begins: no state, 1970, the policy of this file. */
SL_MUST_USE int sl_flow_daemon_begin(struct sl_flow_daemon *remote,
                                     const char *policy);

/* Another policy. */
SL_MUST_USE int sl_flow_daemon_policy(struct sl_flow_daemon *remote,
                                      const char *path);

SL_MUST_USE int sl_flow_daemon_clock(struct sl_flow_daemon *remote, sl_ns now);
SL_MUST_USE int sl_flow_daemon_feature(struct sl_flow_daemon *remote,
                                       const char *name, bool on);

SL_MUST_USE int sl_flow_daemon_backlog(struct sl_flow_daemon *remote,
                                       const char *name, uint64_t depth);

/* What the registry is told. */
SL_MUST_USE int sl_flow_daemon_subject(struct sl_flow_daemon *remote,
                                       const struct sl_flow_act *act,
                                       sl_ns now);

/* Ask what was decided here with this verdict. */
SL_MUST_USE int sl_flow_daemon_check(struct sl_flow_daemon *remote,
                                     const struct sluice_request *request,
                                     const char *verdict);

/* The JSON of one check; `id` is that of its request, in JSON. */
SL_MUST_USE int sl_flow_check_write(struct sl_buf *out,
                                    const struct sluice_request *request,
                                    struct sl_str id);

/* Send what was collected. */
SL_MUST_USE int sl_flow_daemon_flush(struct sl_flow_daemon *remote);

/* Why a flow can't be run against a daemon, or NULL. */
const char *sl_flow_daemon_cannot(const struct sl_flow_daemon *remote,
                                  const struct sl_flow *flow);

/* Send what was collected, and set the clock: for what is asked by itself. */
SL_MUST_USE int sl_flow_daemon_ready(struct sl_flow_daemon *remote);

/* ---- in usage.c ---- */

/* What was used: `limit`, `key`, `cost`, for a user or an org. */
SL_MUST_USE int sl_flow_daemon_usage(struct sl_flow_daemon *remote,
                                     const struct sluice_request *request);

/* Bring the daemon's clock up to the flow's. */
SL_MUST_USE int sl_flow_daemon_tell_time(struct sl_flow_daemon *remote);

/* Is `got` what was wanted, but for the names of holds? */
SL_MUST_USE int sl_flow_daemon_judge(struct sl_flow_daemon *remote,
                                     struct sl_str want, struct sl_str got);

/* ---- in remote_holds.c ---- */

/* End or extend the daemon's hold as `act` says; `want` is the answer, {} if
 * nobody knows the hold. */
SL_MUST_USE int sl_flow_daemon_hold(struct sl_flow_daemon *remote,
                                    const struct sl_flow_act *act,
                                    const char *hold, const char *want);

/* Take the names of holds out of verdicts. */
void sl_flow_daemon_mask(struct sl_buf *text);

/* Keep the name in a verdict, or that there is none. */
void sl_flow_daemon_note(struct sl_flow_daemon *remote, struct sl_str verdict);

/* ---- in remote_resp.c ---- */

/* A check as a command of the Redis protocol, with the id `id`, which is JSON.
 * SLUICE_EINVAL if it would have too many words. */
SL_MUST_USE int sl_flow_command_write(struct sl_buf *out,
                                      const struct sluice_request *request,
                                      struct sl_str id);

/* Send the commands that were collected. On success *ret has the verdicts, one
 * behind the other, in remote->verdicts. */
SL_MUST_USE int sl_flow_daemon_pipeline(struct sl_flow_daemon *remote,
                                        struct sl_str *ret);

#endif
