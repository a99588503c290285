/* admin.h -- the admin listener: callbacks of the daemon, and shared helpers.
 */
#ifndef SL_SERVER_HTTP_ADMIN_H
#define SL_SERVER_HTTP_ADMIN_H

#include <jansson.h>

#include "server/http/http.h"
#include "server/top_keys.h"

struct sl_registry;

struct sl_admin {
    void *ctx;
    struct sl_events *events;     /* NULL: no events are published */
    struct sl_event_stream *feed; /* NULL: no event stream */

    /* Is the daemon serving? `why` gets a sentence if not, and also if it
     * serves degraded. */
    bool (*ready)(void *ctx, struct sl_buf *why);

    /* Reload the policy from its file (empty text) or from `text`. Changes or
     * problems are appended to `report`, one line each. Returns SLUICE_ECONF if
     * the previous policy stays active. */
    int (*reload)(void *ctx, struct sl_str text, struct sl_buf *report);

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

    /* Subjects and switches, or NULL. Its answers come on the listener's
     * loop. */
    struct sl_registry *registry;
    const char *node; /* the node that gets quota leases; "": none */

    /* Move the virtual clock; NULL in the shipped program. */
    int (*set_clock)(void *ctx, sl_ns now);

    /* Clear all state, at 1970. Set if set_clock is. */
    int (*forget)(void *ctx);
};

/* ---- shared by the handlers of the admin listener ---- */

#define SL_ADMIN_BODY ((size_t)4 << 10) /* of JSON */

static inline const struct sl_admin *sl_admin_of(struct sl_http_call *call)
{
    return call->worker->server->ctx;
}

/* Refuse requests of web pages with 403. Returns false after a refusal. */
SL_MUST_USE bool sl_admin_admit(struct sl_http_call *call);

/* Cut off and return the text before `mark`, or all of it. `mark` is dropped.
 */
struct sl_str sl_admin_cut(struct sl_str *rest, char mark);

/* Decode %XX, and in a query + as a blank, to a text in `arena`. Returns
 * SLUICE_ECONF for an invalid %XX or a NUL, SLUICE_ENOMEM without memory. */
SL_MUST_USE int sl_admin_decode(struct sl_arena *arena, struct sl_str text,
                                bool is_query, struct sl_str *ret);

/* An option of a query. */
struct sl_admin_option {
    const char *name;
    struct sl_str *value; /* "" if it is missing */
};

/* Read a query that may have each of `options` once. Returns false after a
 * refusal. */
SL_MUST_USE bool sl_admin_options(struct sl_http_call *call,
                                  const struct sl_admin_option *options,
                                  unsigned count);

/* Answer 200 with call->text if `err` is 0; otherwise refuse. */
void sl_admin_answer(struct sl_http_call *call, int err, struct sl_str type);

/* Returns the only member, `name`, of the JSON object in the body. Returns NULL
 * after a refusal (413, or 400 with the example `like`). The caller releases
 * *root. */
SL_MUST_USE json_t *sl_admin_member(struct sl_http_call *call, const char *name,
                                    const char *like, json_t **root);

extern const struct sl_str sl_admin_json; /* application/json */

sl_http_f sl_admin_metrics;

sl_http_f sl_admin_policy_get, sl_admin_rlconfig, sl_admin_policy_post;

sl_http_f sl_admin_top;

sl_http_f sl_admin_events;

sl_http_f sl_admin_backlog_put;

sl_http_f sl_admin_key_get, sl_admin_key_reset;

sl_http_f sl_admin_features, sl_admin_feature_get, sl_admin_feature_set,
    sl_admin_feature_leave;

#endif
