/* admin.h -- what the admin listener asks of the program around it.
 */
#ifndef SL_ADMIN_H
#define SL_ADMIN_H

#include "doors/http/feed.h"
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

#endif
