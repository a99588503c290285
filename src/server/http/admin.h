/* admin.h -- the admin listener: callbacks of the daemon. */
#ifndef SL_SERVER_HTTP_ADMIN_H
#define SL_SERVER_HTTP_ADMIN_H

#include "server/history.h"
#include "server/http/http.h"
#include "server/top_keys.h"

struct sl_audit_note;
struct sl_denial_query;
struct sl_registry;

#define SL_DAEMON_ALL  (-1)
#define SL_DAEMON_SELF (-2)

struct sl_admin {
    void *ctx;
    struct sl_events *events;     /* NULL: no events are published */
    struct sl_event_stream *feed; /* NULL: no event stream */

    /* Is the daemon serving? `why` gets a sentence if not, and also if it
     * serves degraded. */
    bool (*ready)(void *ctx, struct sl_buf *why);
    /* Does the database answer, and if not, why? -1: there is none. NULL: none,
     * too. */
    int (*database)(void *ctx, struct sl_buf *why);

    /* Reload the policy from its file (empty text) or from `text`. Changes or
     * problems are appended to `report`, one line each. Returns SLUICE_ECONF if
     * the previous policy stays active. */
    int (*reload)(void *ctx, struct sl_str text, struct sl_buf *report);

    /* As reload() of `text`, without activating it. With `minutes`, what it
     * would have decided in the last minutes is appended to `what_if`, see
     * what_if.h. NULL: not here. */
    int (*check_policy)(void *ctx, struct sl_str text, unsigned minutes,
                        struct sl_buf *report, struct sl_buf *what_if);

    /* Append the history, see history.h: of the daemon with this id, of this
     * one (SL_DAEMON_SELF), or of all that share its store or database
     * (SL_DAEMON_ALL). SLUICE_ENOENT. NULL: not here. */
    int (*history)(void *ctx, int daemon_id, enum sl_history_step step,
                   int64_t since, struct sl_buf *out);

    /* Append the daemons that share a store or a database. NULL: not here. */
    int (*daemons)(void *ctx, struct sl_buf *out);

    /* Append the text of the active policy without secrets, and its name. */
    int (*policy)(void *ctx, struct sl_buf *out);

    /* Append the configuration of a compatibility mode, as the other program
     * shows it. Returns SLUICE_ENOENT if a policy is active. */
    int (*configuration)(void *ctx, struct sl_buf *out);

    /* Append the metrics of all threads. */
    int (*metrics)(void *ctx, bool open_metrics, struct sl_buf *out);

    /* Read the top keys; see top_keys.h. */
    int (*top)(void *ctx, const struct sl_top_keys_query *query,
               struct sl_arena *arena, struct sl_top_keys_answer *ret);

    /* Switch a feature on or off, or leave it to the policy (-1). Returns
     * SLUICE_ENOENT if the policy has no such feature. */
    int (*feature)(void *ctx, struct sl_str name, int on, struct sl_diag *diag);

    /* Records a change in the audit, or in the log without a registry. */
    void (*audit)(void *ctx, const struct sl_audit_note *note);

    /* A browser of `peer` (an address, or "unix") sent a wrong token to sign
     * in. NULL: not here. */
    void (*wrong_token)(void *ctx, const char *peer);

    /* The denial history in memory: append what a query finds, as items of a
     * JSON array (all, or only what is not in the database), or delete the
     * records of a name. The first returns their number, or an error. */
    int (*denials)(void *ctx, const struct sl_denial_query *query, bool all,
                   struct sl_buf *out);
    void (*forget_denials)(void *ctx, struct sl_str scope, struct sl_str id);

    /* A webhook was queued, or an endpoint changed; NULL: nothing is sent. Any
     * thread. */
    void (*webhooks)(void *ctx);

    /* Subjects and switches, or NULL. Its answers come on the listener's
     * loop. */
    struct sl_registry *registry;
    const char *node; /* the node that gets quota leases; "": none */

    /* Move the virtual clock; NULL in the shipped program. */
    int (*set_clock)(void *ctx, sl_ns now);

    /* Clear all state, at 1970. Set if set_clock is. */
    int (*forget)(void *ctx);
};

#endif
