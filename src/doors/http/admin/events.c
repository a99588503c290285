/* events.c -- GET /v1/events: listen to what happens.
 *
 * From now on; or from where the listener was cut off, if he says so by
 * Last-Event-ID (browsers do) or ?last_event_id=. 0 is all that is kept.
 */
#include "doors/http/admin/inner.h"
#include "doors/http/inner.h"

#define GREETING SL_STR("retry: 2000\n\n: listening\n\n")

static bool read_from(struct sl_http_call *call, uint64_t *ret)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_str id;
    const struct sl_admin_option options[] = {
        {"last_event_id", &id},
    };

    if (!sl_admin_options(call, options, SL_LEN(options)))
        return false;
    if (id.len == 0)
        id = sl_http1_field(call->request, SL_STR("last-event-id"), NULL);
    *ret = sl_str_eq(id, SL_STR("0")) ? 0 : sl_events_end(admin->events);
    if (id.len == 0 || *ret == 0 || sl_events_parse(admin->events, id, ret))
        return true;
    sl_http_refuse(call, 400, "BAD_EVENT_ID",
                   "\"%.*s\" is not the id of an event; send an id that you "
                   "received, or 0 for all stored events",
                   SL_STR_ARG(id));
    return false;
}

static void refuse(struct sl_http_call *call, int err)
{
    if (err == SLUICE_ENOMEM) {
        sl_http_no_memory(call);
        return;
    }
    sl_http_field(call, SL_STR("Retry-After"), SL_STR("5"));
    sl_http_refuse(
        call, 503, "TOO_MANY_LISTENERS",
        "the maximum of %d event streams is reached, and all started within "
        "the last ten minutes; retry when one has closed, or in ten minutes",
        SL_FEED_LISTENERS);
}

void sl_admin_events(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    uint64_t from;
    int err = 0;

    if (!sl_admin_admit(call))
        return;
    if (!admin->feed) {
        sl_http_refuse(call, 404, "NOT_FOUND", "this daemon has no events");
        return;
    }
    if (!read_from(call, &from))
        return;
    if (!call->request->is_head_request)
        err = sl_feed_join(admin->feed, call, from);
    if (err) {
        refuse(call, err);
        return;
    }
    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    sl_http_field(call, SL_STR("X-Accel-Buffering"), SL_STR("no"));
    sl_http_answer(call, 200, SL_STR("text/event-stream"), GREETING);
}
