/* holds.c -- POST /v1/holds/ID/settle, /release and /extend.
 *
 * What had ended before is no error: 200 tells how. 404 is for names that
 * nobody knows.
 */
#include <string.h>

#include "doors/http/api/api.h"

struct ending {
    struct sl_http_call *call;
    struct sl_hold_ask ask;
    unsigned status; /* the vendor's; 0: not told */
};

static const struct verb {
    const char *path;
    enum sl_hold_verb verb;
    enum sl_hold_event event;
} verbs[] = {
    {"/settle",  SL_VERB_SETTLE,  SL_HOLD_SETTLED_NOW },
    {"/release", SL_VERB_RELEASE, SL_HOLD_RELEASED_NOW},
    {"/extend",  SL_VERB_EXTEND,  SL_HOLD_EXTENDED    },
};

/* The row of what stands behind the hold's name, which is cut off. */
static const struct verb *cut_verb(struct sl_str *name)
{
    for (size_t i = 0; i < SL_LEN(verbs); i++) {
        size_t len = strlen(verbs[i].path);

        if (name->len > len &&
            memcmp(name->at + name->len - len, verbs[i].path, len) == 0) {
            name->len -= len;
            return &verbs[i];
        }
    }
    return NULL;
}

static void count(const struct ending *e)
{
    struct sl_stats *stats = e->call->worker->stats;
    const struct sl_hold_ask *ask = &e->ask;
    struct sl_str endpoint;

    if (!stats)
        return;
    if (ask->err == SLUICE_ENOENT)
        sl_stats_hold(stats, SL_HOLD_MISSED);
    if (ask->err)
        return;
    sl_stats_hold(stats, sl_hold_is_again(ask) ? SL_HOLD_AGAIN
                                               : verbs[ask->verb].event);
    if (e->status == 0 || sl_hold_is_again(ask))
        return;
    endpoint = sl_hold_find_endpoint(ask->live->policy, ask->name.endpoint);
    sl_stats_upstream(stats, endpoint, e->status);
}

static void refuse(struct sl_http_call *call, const struct sl_hold_ask *ask)
{
    switch (ask->err) {
    case SLUICE_ENOENT:
        sl_http_refuse(call, 404, "HOLD_UNKNOWN", "%s", ask->diag.sentence);
        break;
    case SLUICE_ECONF:
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", ask->diag.sentence);
        break;
    case SLUICE_ESTORE:
        sl_http_field(call, SL_STR("Retry-After"), SL_STR("1"));
        sl_http_refuse(call, 503, "SERVICE_UNAVAILABLE", "%s",
                       ask->diag.sentence);
        break;
    default:
        sl_http_no_memory(call);
    }
}

static void on_ended(struct sl_hold_ask *ask)
{
    struct ending *e = ask->ctx;
    struct sl_http_call *call = e->call;

    count(e);
    if (ask->err)
        refuse(call, ask);
    else if (sl_hold_render(ask, &call->text))
        sl_http_no_memory(call);
    else
        sl_http_answer(call, 200, SL_STR("application/json"),
                       sl_buf_str(&call->text));
    sl_hold_ask_done(ask);
    sl_http_finish(call);
}

static void begin(struct sl_http_call *call, struct sl_hold_question *q)
{
    struct sl_http_worker *worker = call->worker;
    struct ending *e = sl_arena_take(&call->arena, sizeof(*e));

    if (!e) {
        sl_http_no_memory(call);
        return;
    }
    e->call = call;
    if (!sl_hold_read(call, q, &e->status))
        return;
    sl_hold_ask_init(&e->ask, worker->engine, worker->station, worker->alloc);
    e->ask.done = on_ended;
    e->ask.ctx = e;
    sl_http_later(call);
    sl_hold_ask_begin(&e->ask, q);
}

void sl_http_holds(struct sl_http_call *call)
{
    struct sl_hold_question q = {.name = call->rest, .now = sl_http_now(call)};
    const struct verb *verb = cut_verb(&q.name);

    if (sl_http_is_page(call))
        return;
    if (!verb) {
        sl_http_refuse(
            call, 404, "NOT_FOUND",
            "unknown path %.*s; write /v1/holds/ID/settle, /release or /extend",
            SL_STR_ARG(call->path));
        return;
    }
    q.verb = verb->verb;
    begin(call, &q);
}
