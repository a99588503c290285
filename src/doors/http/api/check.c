/* check.c -- POST /v1/check and POST /v1/explain.
 *
 * All checks of an array are read before the first is decided: if one of them
 * is wrong, none is, and nothing is spent. Then each is decided for itself, in
 * order, and all are answered in that order. An answer that has become so large
 * that it might not hold another verdict ends there: what is left is answered
 * as undecided, and nothing was spent for it.
 */
#include "doors/http/api/api.h"

/* No verdict is longer: that is what its headers and body may have. */
#define VERDICT_MOST ((size_t)16 << 20)

#define UNDECIDED                                                              \
    "{\"allowed\":false,\"status\":503,\"code\":\"ANSWER_TOO_LARGE\","         \
    "\"message\":\"The answer to this array is too long for another verdict: " \
    "this check was not decided and took nothing. Send fewer checks "          \
    "at once.\",\"by\":null,\"retry_after_ms\":null,\"request_id\":null,"      \
    "\"degraded\":false,\"hold\":null,\"limits\":[],\"headers\":{},"           \
    "\"body\":null}"

struct answering {
    struct sl_http_call *call;
    struct sl_checks checks;
    const struct sl_check *next; /* to be decided */
    bool explain;
    bool stepping; /* step() is there to go on */
    bool failed;   /* the call was refused */
};

static bool write_verdict(struct answering *a)
{
    struct sl_http_call *call = a->call;
    const struct sl_decision *d = &call->ask.decision;
    struct sl_buf *out = &call->text;
    struct sl_rendered rendered;
    int err = 0;

    if (!sl_http_decided(call, &rendered))
        return false;
    if (a->checks.is_array)
        err = sl_buf_add(out, out->len > 0 ? SL_STR(",") : SL_STR("["));
    if (!err)
        err = a->explain ? sl_render_explained(d, &rendered, out)
                         : sl_render_verdict(d, &rendered, out);
    if (err)
        sl_http_no_memory(call);
    return !err;
}

static void finish(struct answering *a)
{
    struct sl_http_call *call = a->call;
    struct sl_buf *out = &call->text;
    struct sl_str end = out->len > 0 ? SL_STR("]") : SL_STR("[]");

    if (!a->failed && a->checks.is_array && sl_buf_add(out, end)) {
        sl_http_no_memory(call);
        a->failed = true;
    }
    if (!a->failed)
        sl_http_answer(call, 200, SL_STR("application/json"), sl_buf_str(out));
    sl_http_finish(call);
}

/* Whoever is decided is answered, too. */
static void end_early(struct answering *a)
{
    struct sl_buf *out = &a->call->text;

    if (out->ceiling - out->len >= VERDICT_MOST)
        return;
    for (; a->next && !a->failed; a->next = a->next->next)
        a->failed = sl_buf_add(out, SL_STR("," UNDECIDED)) != 0;
    if (a->failed)
        sl_http_no_memory(a->call);
}

static void step(struct answering *a);

static void on_decided(struct sl_ask *ask)
{
    struct answering *a = ask->ctx;

    a->failed = !write_verdict(a);
    a->next = a->next->next;
    if (!a->failed)
        end_early(a);
    if (!a->stepping)
        step(a);
}

/* Decide one after the other, as long as answers come at once. */
static void step(struct answering *a)
{
    struct sl_http_call *call = a->call;

    a->stepping = true;
    while (a->next && !a->failed) {
        call->ask.no_wait = a->checks.is_array;
        sl_http_ask(call, &a->next->facts, !a->explain, on_decided, a);
        if (call->ask.busy)
            break;
    }
    a->stepping = false;
    if (!call->ask.busy)
        finish(a);
}

/* Programs name no origin; browsers do, with all that a page makes them post.
 * Where no token is asked for, a page on the web must not spend what belongs
 * to others on this machine. */
bool sl_http_is_page(struct sl_http_call *call)
{
    const struct sl_http_door *door = call->worker->door;
    unsigned count = 0;
    struct sl_str origin =
        sl_http1_field(call->request, SL_STR("origin"), &count);

    if (count == 0 || door->token.len > 0 || door->accepts_client_cert)
        return false;
    sl_http_refuse(call, 403, "CROSS_ORIGIN",
                   "pages of %.*s are not allowed to ask here; to allow "
                   "browsers, set an access_token",
                   SL_STR_ARG(origin));
    return true;
}

static void run(struct sl_http_call *call, bool explain)
{
    struct answering *a;

    if (sl_http_is_page(call))
        return;
    a = sl_arena_take(&call->arena, sizeof(*a));
    if (!a) {
        sl_http_no_memory(call);
        return;
    }
    *a = (struct answering){.call = call, .explain = explain};
    if (!sl_checks_read(call, &a->checks))
        return;
    a->next = a->checks.first;
    sl_http_later(call);
    step(a);
}

void sl_http_check(struct sl_http_call *call)
{
    run(call, false);
}

void sl_http_explain(struct sl_http_call *call)
{
    run(call, true);
}
