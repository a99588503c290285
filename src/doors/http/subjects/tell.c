/* tell.c -- those who listen to events learn who was registered.
 *
 *   subject    one was written or removed: who it is, what holds, by whom
 *   subjects   an import: how many
 */
#include "server/events.h"
#include "server/http/subjects.h"
#include "wire/json_old.h"

/* A subject with more overrides than an event can hold is told without. */
static int add_rates(struct sl_buf *out, const struct sl_subject *s)
{
    int err = sl_buf_addf(out, ",\"overrides\":{");

    for (unsigned i = 0; i < s->rate_count && !err; i++) {
        err = sl_buf_addf(out, "%s", i > 0 ? "," : "");
        if (!err)
            err = sl_json_string(out, s->rates[i].limit);
        if (!err)
            err = sl_buf_addf(out, ":");
        if (!err)
            err = sl_json_string(out, s->rates[i].rate);
    }
    return err ? err : sl_buf_addf(out, "}");
}

static int add_who(struct sl_buf *out, const struct sl_subject_change *change,
                   const char *what)
{
    int err = sl_buf_addf(out, "\"scope\":");

    if (!err)
        err = sl_json_string(out, change->scope);
    if (!err)
        err = sl_buf_addf(out, ",\"id\":");
    if (!err)
        err = sl_json_string(out, change->id);
    if (!err)
        err = sl_buf_addf(out, ",\"what\":\"%s\",\"by\":", what);
    return err ? err : sl_json_string(out, change->by);
}

void sl_subject_events_publish(struct sl_subject_job_call *errand)
{
    const struct sl_admin *admin = sl_admin_of(errand->call);
    const struct sl_subject_record *entry = errand->job.entries;
    struct sl_buf members;
    size_t len;

    if (!admin->events || errand->job.same > 0)
        return;
    sl_buf_init(&members, SL_EVENT_BYTES, errand->call->worker->alloc);
    if (add_who(&members, &errand->change, entry ? "set" : "removed"))
        sl_buf_clear(&members);
    len = members.len;
    if (entry && (sl_buf_addf(&members, ",\"plan\":") ||
                  sl_json_string(&members, entry->subject.plan) ||
                  add_rates(&members, &entry->subject)))
        members.len = len;
    sl_events_publish(admin->events, "subject", errand->job.now,
                      sl_buf_str(&members));
    sl_buf_done(&members);
}

void sl_subjects_tell(struct sl_http_call *call, unsigned imported,
                      unsigned changed)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_buf members;

    if (!admin->events || changed == 0)
        return;
    sl_buf_init(&members, SL_EVENT_BYTES, call->worker->alloc);
    if (sl_buf_addf(&members, "\"imported\":%u,\"changed\":%u", imported,
                    changed))
        sl_buf_clear(&members);
    sl_events_publish(admin->events, "subjects", sl_http_now(call),
                      sl_buf_str(&members));
    sl_buf_done(&members);
}
