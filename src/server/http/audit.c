/* audit.c -- GET /v1/audit: who changed what, when, from where and why.
 *
 *   ?since=2026-11-01   changes at this time or later
 *   ?before=812         changes with a lower number: the next page
 *   ?limit=100          at most so many
 */
#include <stdio.h>

#include "base/parse.h"
#include "server/http/admin.h"
#include "server/http/http_int.h"

#define USUAL 100
#define MOST  1000

static struct sl_str origin_of(struct sl_http_call *call)
{
    const char *listener = call->worker->server->name;
    char text[SL_IP_TEXT + 32], ip[SL_IP_TEXT] = "unix";
    const char *copy;

    if (call->has_peer)
        sl_ip_print(&call->peer, ip);
    snprintf(text, sizeof(text), "%s %s", listener, ip);
    copy = sl_arena_copy(&call->arena, sl_str_c(text));
    return copy ? sl_str_c(copy) : SL_STR("");
}

/* The header X-Sluice-Note, if it is a valid text. */
static struct sl_str note_of(struct sl_http_call *call)
{
    struct sl_reading reading;
    unsigned count = 0;
    struct sl_str note = sl_str_trim(
        sl_http1_field(call->request, SL_STR("x-sluice-note"), &count));

    sl_reading_init(&reading, &call->arena, 0);
    return count == 1 && sl_reading_text(&reading, "X-Sluice-Note", note,
                                         SL_SUBJECT_RECORD_NOTE)
               ? note
               : SL_STR("");
}

struct sl_audit_note *sl_http_audit(struct sl_http_call *call, const char *what,
                                    struct sl_str scope, struct sl_str id)
{
    struct sl_audit_note *note = sl_arena_take(&call->arena, sizeof(*note));

    if (note)
        *note = (struct sl_audit_note){
            .what = sl_str_c(what),
            .scope = scope,
            .id = id,
            .by = sl_subject_by(call, SL_STR("")),
            .origin = origin_of(call),
            .note = note_of(call),
        };
    return note;
}

void sl_http_audit_send(struct sl_http_call *call,
                        const struct sl_audit_note *note)
{
    const struct sl_admin *admin = sl_admin_of(call);

    if (admin->audit && note)
        admin->audit(admin->ctx, note);
}

void sl_audit_list(struct sl_http_call *call)
{
    struct sl_http_job *op =
        sl_http_job_new(call, SL_JOB_AUDIT, sl_http_job_rows);
    struct sl_str since, before, limit;
    const struct sl_admin_option options[] = {
        {"since",  &since },
        {"before", &before},
        {"limit",  &limit },
    };
    struct sl_reading reading;
    uint64_t most = USUAL;

    if (!op || !sl_admin_options(call, options, SL_LEN(options)) ||
        !sl_admin_number(call, "limit", limit, 1, MOST,
                         "a number of rows from 1 to 1000", &most) ||
        !sl_admin_number(call, "before", before, 1, INT64_MAX,
                         "the number of a change", &op->job.before))
        return;
    sl_reading_init(&reading, &call->arena, op->job.now);
    if (since.len > 0 &&
        !sl_reading_time(&reading, "since", since, &op->job.since)) {
        sl_http_refuse(call, 400, "BAD_QUERY", "%s", reading.body.sentence);
        return;
    }
    op->rows = "audit";
    op->job.scope = SL_STR("");
    op->job.most = (unsigned)most;
    sl_http_job_send(op);
}
