/* should.c -- ShouldRateLimit.
 *
 * The descriptors of a request are the sides of one decision: all their limits
 * are taken together or not at all. Those that only look (a hits_addend of 0)
 * are asked first, whether one more would pass; those that give back come last;
 * if anything is refused, the rest is only looked at. A route with `count:
 * each` has every descriptor decided for itself instead, in order, as
 * envoyproxy/ratelimit does.
 *
 *     looks --> takes --> gives back          or one round per descriptor
 *
 * What can't be decided is an error of gRPC, never OVER_LIMIT, and what is
 * refused is OVER_LIMIT, whatever the reason: after an error Envoy lets a
 * request pass unless it is told not to.
 */
#include <string.h>

#include "base/clock.h"
#include "doors/grpc/inner.h"

#define ARENA_MOST ((size_t)1 << 20)

enum { LOOKS, TAKES, REFUNDS, ROUNDS };

/* ---- life ---- */

static struct sl_grpc_call *make(struct sl_grpc_worker *worker)
{
    struct sl_grpc_call *call = sl_alloc_new(worker->alloc, sizeof(*call));

    if (!call)
        return NULL;
    call->worker = worker;
    sl_ask_init(&call->ask, worker->engine, worker->station, worker->alloc);
    sl_arena_init(&call->arena, ARENA_MOST, worker->alloc);
    sl_arena_init(&call->ink, ARENA_MOST, worker->alloc);
    return call;
}

static void discard(struct sl_grpc_call *call)
{
    sl_ask_done(&call->ask);
    sl_arena_done(&call->arena);
    sl_arena_done(&call->ink);
    sl_alloc_free(call->worker->alloc, call, sizeof(*call));
}

static struct sl_grpc_call *begin(struct sl_grpc_stream *stream)
{
    struct sl_grpc_worker *worker = stream->session->worker;
    struct sl_grpc_call *call = TAILQ_FIRST(&worker->spare_calls);

    if (call)
        TAILQ_REMOVE(&worker->spare_calls, call, link);
    else
        call = make(worker);
    if (!call)
        return NULL;
    call->stream = stream;
    stream->call = call;
    call->each = call->denied = call->is_late = call->has_rendered = false;
    call->step = call->quotas = call->quotas_over = 0;
    call->response.count = call->response.header_count = 0;
    call->response.body = (struct sl_str){"", 0};
    return call;
}

/* One is kept for the next request. */
static void end(struct sl_grpc_call *call)
{
    struct sl_grpc_worker *worker = call->worker;

    if (call->stream)
        call->stream->call = NULL;
    call->stream = NULL;
    if (call->is_late)
        TAILQ_REMOVE(&worker->late_calls, call, link);
    if (!TAILQ_EMPTY(&worker->spare_calls)) {
        discard(call);
        return;
    }
    sl_arena_reset(&call->arena);
    sl_arena_reset(&call->ink);
    TAILQ_INSERT_HEAD(&worker->spare_calls, call, link);
}

static void discard_all(struct sl_grpc_calls *calls)
{
    struct sl_grpc_call *call;

    while ((call = TAILQ_FIRST(calls)) != NULL) {
        TAILQ_REMOVE(calls, call, link);
        discard(call);
    }
}

void sl_grpc_calls_done(struct sl_grpc_worker *worker)
{
    discard_all(&worker->spare_calls);
    discard_all(&worker->late_calls);
}

/* ---- the end ---- */

/* Answers of a later turn send themselves. */
static void finish(struct sl_grpc_call *call)
{
    struct sl_grpc_session *session =
        call->stream ? call->stream->session : NULL;
    bool late = call->is_late;

    end(call);
    if (session && late) {
        sl_grpc_pump(session);
        sl_conn_flush(session->conn);
    }
}

static void fail(struct sl_grpc_call *call, int err, const struct sl_diag *diag)
{
    enum sl_grpc_status status = SL_GRPC_INVALID_ARGUMENT;

    if (err == SLUICE_EFULL)
        status = SL_GRPC_RESOURCE_EXHAUSTED;
    else if (err == SLUICE_ENOMEM || err == SLUICE_ESTORE)
        status = SL_GRPC_UNAVAILABLE;
    if (call->stream)
        sl_grpc_refuse(call->stream, status, "%s", diag->sentence);
    finish(call);
}

static void add_header(struct sl_grpc_call *call, struct sl_str name,
                       struct sl_str value)
{
    struct sl_rls_response *r = &call->response;

    if (r->header_count < SL_LEN(r->headers))
        r->headers[r->header_count++] = (struct sl_rls_header){name, value};
}

static void add_rendered(struct sl_grpc_call *call)
{
    const struct sl_rendered *rendered = &call->rendered;

    if (!call->has_rendered)
        return;
    for (unsigned i = 0; i < rendered->header_count; i++)
        add_header(call, rendered->headers[i].name, rendered->headers[i].value);
    if (!call->denied || rendered->body.len == 0)
        return;
    add_header(call, SL_STR("content-type"), rendered->content_type);
    call->response.body = rendered->body;
}

static bool is_too_late(const struct sl_grpc_call *call)
{
    return call->is_late && call->stream->deadline > 0 &&
           sl_loop_steady(call->worker->loop) >= call->stream->deadline;
}

static void answer(struct sl_grpc_call *call)
{
    struct sl_grpc_stream *stream = call->stream;
    struct sl_pb_out out = {0};

    if (!stream) {
        finish(call);
        return;
    }
    call->denied |= call->quotas > 0 && call->quotas == call->quotas_over;
    call->response.code = call->denied ? SL_RLS_OVER_LIMIT : SL_RLS_OK;
    call->response.count = call->request.count;
    add_rendered(call);
    out.size = sl_rls_response_size(&call->response);
    out.bytes = sl_grpc_message(stream, out.size);
    if (is_too_late(call)) {
        sl_grpc_refuse(stream, SL_GRPC_DEADLINE_EXCEEDED,
                       "the time of grpc-timeout was over before the store "
                       "had answered");
    } else if (!out.bytes) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "there is no memory");
    } else {
        sl_rls_response_write(&call->response, &out);
        sl_grpc_send(stream, out.len);
        sl_grpc_end(stream);
    }
    finish(call);
}

/* ---- rounds ---- */

static unsigned round_of(const struct sl_rls_descriptor *d)
{
    if (d->negative)
        return REFUNDS;
    return d->has_hits && d->hits == 0 ? LOOKS : TAKES;
}

/* Does another descriptor of the request take the place of all that this one
 * would meet? Then it meets nothing. */
static bool is_replaced(const struct sl_grpc_call *call, unsigned index)
{
    const struct sl_route *route = call->routes[index];

    for (unsigned i = 0; i < route->rule_count; i++) {
        bool found = false;

        for (unsigned k = 0; k < call->request.count; k++)
            for (unsigned n = 0; n < call->routes[k]->replace_count; n++)
                found |= call->routes[k]->replaces[n] == route->rules[i];
        if (!found)
            return false;
    }
    return route->rule_count > 0;
}

static bool is_of_round(const struct sl_grpc_call *call, unsigned index)
{
    if (call->each)
        return index == call->step && !is_replaced(call, index);
    return round_of(&call->request.descriptors[index]) == call->step;
}

/* Choose the descriptors of the next round that has any. False if there is
 * none. */
static bool choose(struct sl_grpc_call *call)
{
    unsigned count = call->request.count;
    unsigned rounds = call->each ? count : ROUNDS;

    call->chosen_count = 0;
    for (; call->step < rounds && call->chosen_count == 0; call->step++)
        for (unsigned i = 0; i < count; i++)
            if (is_of_round(call, i))
                call->chosen[call->chosen_count++] = i;
    return call->chosen_count > 0;
}

static bool looks(const struct sl_grpc_call *call)
{
    return round_of(&call->request.descriptors[call->chosen[0]]) == LOOKS;
}

static int describe(struct sl_grpc_call *call, struct sl_diag *diag)
{
    int err = 0;

    for (unsigned i = 0; i < call->chosen_count && !err; i++) {
        err = sl_grpc_describe(call, call->chosen[i], &call->facts[i], diag);
        if (looks(call)) /* would one more pass? */
            call->facts[i].cost = 1;
    }
    return err;
}

static void count(const struct sl_grpc_call *call)
{
    const struct sl_ask *ask = &call->ask;
    sl_ns took = sl_clock_wall() - call->asked_at;

    if (ask->spend && !ask->decision.give_back && call->worker->stats)
        sl_stats_decision(call->worker->stats, &ask->decision, "grpc",
                          took > 0 ? took : 0);
}

/* The headers and the body are those of the first refusal, or of the round that
 * took. */
static int render(struct sl_grpc_call *call)
{
    const struct sl_decision *d = &call->ask.decision;

    if (call->has_rendered && (call->denied || d->allowed))
        return 0;
    call->has_rendered = true;
    return sl_render(d, &call->ink, &call->rendered);
}

/* Is it one of those that deny only together? Then its status is there. */
static bool counts_as_quota(const struct sl_grpc_call *call)
{
    unsigned index = call->chosen[0];

    return call->each && call->routes[index]->count == SL_COUNT_QUOTA &&
           call->response.statuses[index].has_limit;
}

/* Keep what was answered. 0, or why there is no answer. */
static int keep(struct sl_grpc_call *call)
{
    struct sl_ask *ask = &call->ask;
    const struct sl_decision *d = &ask->decision;
    int err = ask->err;

    if (err)
        return err;
    count(call);
    if (d->reason == SL_REASON_STORE)
        return sl_refuse(&ask->diag, SLUICE_ESTORE,
                         "the store does not answer, and the policy denies "
                         "then");
    for (unsigned i = 0; i < call->chosen_count; i++)
        sl_grpc_status_of(d, i, &call->response.statuses[call->chosen[i]]);
    if (counts_as_quota(call)) {
        call->quotas++;
        call->quotas_over += !d->allowed;
        return 0;
    }
    err = render(call);
    call->denied = call->denied || !d->allowed;
    return err ? sl_refuse(&ask->diag, err, "there is no memory") : 0;
}

static void go_on(struct sl_grpc_call *call);

static void on_answer(struct sl_ask *ask)
{
    struct sl_grpc_call *call = ask->ctx;

    if (!call->inside)
        go_on(call);
}

/* Ask the next round. True if it was answered at once. */
static bool ask(struct sl_grpc_call *call)
{
    bool spend = !looks(call) && (call->each || !call->denied);

    call->ask.done = on_answer;
    call->ask.ctx = call;
    call->asked_at = sl_clock_wall();
    call->inside = true;
    sl_ask_sides(&call->ask, call->facts, call->chosen_count, spend);
    call->inside = false;
    if (call->ask.busy && !call->is_late) {
        call->is_late = true;
        TAILQ_INSERT_TAIL(&call->worker->late_calls, call, link);
    }
    return !call->ask.busy;
}

static void go_on(struct sl_grpc_call *call)
{
    int err = 0;

    do {
        if (call->chosen_count > 0)
            err = keep(call);
        if (err || !call->stream || !choose(call))
            break;
        err = describe(call, &call->ask.diag);
        if (err)
            break;
    } while (ask(call));
    if (call->ask.busy)
        return;
    if (err)
        fail(call, err, &call->ask.diag);
    else
        answer(call);
}

/* ---- the question ---- */

/* Which routes the descriptors take, where it matters: does any of them want
 * them counted each for itself? */
static int choose_way(struct sl_grpc_call *call, struct sl_diag *diag)
{
    const struct sl_live *live = sl_ask_hold(&call->ask);
    int err = 0;

    if (!live->policy->counts_each)
        return 0;
    for (unsigned i = 0; i < call->request.count && !err; i++) {
        const struct sl_route *route;

        err = sl_grpc_describe(call, i, &call->facts[0], diag);
        if (err)
            break;
        route = sl_decide_route(&call->ask.decision, live, &call->facts[0]);
        call->routes[i] = route;
        if (!route)
            err = sl_refuse(diag, SLUICE_ENOMEM, "there is no memory");
        else if (route->count != SL_COUNT_ALL)
            call->each = true;
        call->response.statuses[i] =
            (struct sl_rls_status){.code = SL_RLS_OK, .reset_in = SL_NS_NONE};
    }
    return err;
}

void sl_grpc_should(struct sl_grpc_stream *stream, struct sl_str message)
{
    struct sl_grpc_call *call = begin(stream);
    struct sl_diag *diag;
    int err;

    if (!call) {
        sl_grpc_refuse(stream, SL_GRPC_UNAVAILABLE, "there is no memory");
        return;
    }
    diag = &call->ask.diag;
    call->chosen_count = 0;
    err = sl_rls_request_read(message, &call->request, diag);
    if (!err)
        err = choose_way(call, diag);
    if (err)
        fail(call, err, diag);
    else
        go_on(call);
}
