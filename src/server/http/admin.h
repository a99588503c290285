/* admin.h -- what the admin listener asks of the program around it.
 */
#ifndef SL_SERVER_HTTP_ADMIN_H
#define SL_SERVER_HTTP_ADMIN_H

#include <jansson.h>

#include "server/http/http.h"
#include "server/top_keys.h"

struct sl_registry;

struct sl_admin {
    void *ctx;
    struct sl_events *events;     /* NULL: nobody is told what was done */
    struct sl_event_stream *feed; /* NULL: nobody can listen */

    /* Is it serving? Otherwise `why` gets a sentence; and also if it serves,
     * but not as it should. */
    bool (*ready)(void *ctx, struct sl_buf *why);

    /* Read the policy again: from its file (text empty) or from `text`. What
     * changed, or what is wrong, is appended to `report`, a line each. 0, or
     * SLUICE_ECONF if the old one stays. */
    int (*reload)(void *ctx, struct sl_str text, struct sl_buf *report);

    /* The text of the policy in force, with secrets left out, and its name. */
    int (*policy)(void *ctx, struct sl_buf *out);

    /* The configuration of another program that is in force in place of a
     * policy, as that program shows it. SLUICE_ENOENT: there is none. */
    int (*configuration)(void *ctx, struct sl_buf *out);

    /* All threads' counts, rendered. */
    int (*metrics)(void *ctx, bool open_metrics, struct sl_buf *out);

    /* Who is refused most; see top.h. */
    int (*top)(void *ctx, const struct sl_top_keys_query *query,
               struct sl_arena *arena, struct sl_top_keys_answer *ret);

    /* Switch a feature on or off, or leave it to the policy (-1).
     * SLUICE_ENOENT if the policy has none of that name. */
    int (*feature)(void *ctx, struct sl_str name, int on, struct sl_diag *diag);

    /* Subjects and switches; NULL: there is none. Its answers come on the
     * listener's loop. */
    struct sl_registry *registry;
    const char *node; /* to whom quotas are leased here; "": nobody */

    /* Move the virtual clock; NULL in the shipped program. */
    int (*set_clock)(void *ctx, sl_ns now);

    /* Begin with an empty state again, at 1970; where set_clock is. */
    int (*forget)(void *ctx);
};

/* ---- what the handlers of the admin listener share. */

#define SL_ADMIN_BODY ((size_t)4 << 10) /* of JSON */

static inline const struct sl_admin *sl_admin_of(struct sl_http_call *call)
{
    return call->worker->server->ctx;
}

/* ---- guard.c ---- */

/* May a request that a browser could have sent do this? If not, it was refused
 * with 403. */
SL_MUST_USE bool sl_admin_admit(struct sl_http_call *call);

/* ---- query.c ---- */

/* Cut off what stands before `mark`, or all of it; `mark` goes too. */
struct sl_str sl_admin_cut(struct sl_str *rest, char mark);

/* Text in which %XX stands for a byte, and in a query + for a blank. The answer
 * lives in `arena`. SLUICE_ECONF: what stands behind a % is not two digits, or
 * a NUL; SLUICE_ENOMEM. */
SL_MUST_USE int sl_admin_decode(struct sl_arena *arena, struct sl_str text,
                                bool is_query, struct sl_str *ret);

/* One thing that a query may say. */
struct sl_admin_option {
    const char *name;
    struct sl_str *value; /* "" if it is not said */
};

/* Read the query, of which nothing but `options` is known, each once. False if
 * the call was refused. */
SL_MUST_USE bool sl_admin_options(struct sl_http_call *call,
                                  const struct sl_admin_option *options,
                                  unsigned count);

/* ---- ../admin.c ---- */

/* Answer 200 with what worker->text holds, if `err` is 0; otherwise refuse. */
void sl_admin_answer(struct sl_http_call *call, int err, struct sl_str type);

/* The member `name` of the body, a JSON object with that one alone. NULL if
 * the call was refused: 413 or 400 with a sentence that ends in `like`. The
 * caller gives *root back. */
SL_MUST_USE json_t *sl_admin_member(struct sl_http_call *call, const char *name,
                                    const char *like, json_t **root);

extern const struct sl_str sl_admin_json; /* application/json */

/* ---- metrics.c ---- */

sl_http_f sl_admin_metrics;

/* ---- policy.c ---- */

sl_http_f sl_admin_policy_get, sl_admin_rlconfig, sl_admin_policy_post;

/* ---- top.c ---- */

sl_http_f sl_admin_top;

/* ---- events.c ---- */

sl_http_f sl_admin_events;

/* ---- ../api/backlog.c ---- */

sl_http_f sl_admin_backlog_put;

/* ---- keys.c ---- */

sl_http_f sl_admin_key_get, sl_admin_key_reset;

/* ---- feature.c ---- */

sl_http_f sl_admin_features, sl_admin_feature_get, sl_admin_feature_set,
    sl_admin_feature_leave;

#endif
