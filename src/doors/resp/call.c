/* call.c -- what is asked of the engine, and how long it lasts.
 *
 *     spare --> collects, or is read --> asked --> all answered --> spare
 *                                          |            ^
 *                                          +-- late ----+
 *
 * A thread whose store is in this process has as many as checks that are
 * decided together, and no more. Where answers come later there are as many as
 * connections that wait, and those beyond a few are given back, with the
 * policies that they hold.
 */
#include "server/resp/resp_int.h"

#include "base/clock.h"

#define TEXT_MOST ((size_t)1 << 20)
#define TEXT_KEPT ((size_t)64 << 10) /* from one call to the next */

static void call_free(struct sl_resp_call *call)
{
    sl_check_done(&call->ask);
    sl_hold_op_done(&call->hold);
    sl_arena_done(&call->ink);
    sl_buf_done(&call->text);
    sl_buf_done(&call->kept);
    sl_alloc_free(call->worker->alloc, call, sizeof(*call));
}

void sl_resp_calls_free(struct sl_resp_calls *calls)
{
    struct sl_resp_call *call;

    while ((call = TAILQ_FIRST(calls)) != NULL) {
        TAILQ_REMOVE(calls, call, link);
        call_free(call);
    }
}

static struct sl_resp_call *make(struct sl_resp_worker *worker)
{
    struct sl_resp_call *call = sl_alloc_new(worker->alloc, sizeof(*call));

    if (!call)
        return NULL;
    call->worker = worker;
    sl_check_init(&call->ask, worker->engine, worker->station, worker->alloc);
    sl_hold_op_init(&call->hold, worker->engine, worker->station,
                    worker->alloc);
    sl_arena_init(&call->ink, TEXT_MOST, worker->alloc);
    sl_buf_init(&call->text, TEXT_MOST, worker->alloc);
    sl_buf_init(&call->kept, 1, worker->alloc);
    return call;
}

struct sl_resp_call *sl_resp_call_new(struct sl_resp_session *session)
{
    struct sl_resp_worker *worker = session->worker;
    struct sl_resp_call *call = TAILQ_FIRST(&worker->spare);

    if (call) {
        TAILQ_REMOVE(&worker->spare, call, link);
        worker->spare_count--;
    } else {
        call = make(worker);
    }
    if (!call)
        return NULL;
    call->session = session;
    call->count = call->open = 0;
    call->begins = call->deferred = false;
    session->call = call;
    return call;
}

void sl_resp_call_done(struct sl_resp_call *call)
{
    struct sl_resp_worker *worker = call->worker;

    if (call->session && call->session->call == call)
        call->session->call = NULL;
    sl_buf_done(&call->kept);
    if (worker->spare_count == SL_RESP_CHECKS) {
        call_free(call);
        return;
    }
    sl_arena_reset(&call->ink);
    sl_buf_clear(&call->text);
    if (call->text.size > TEXT_KEPT)
        sl_buf_done(&call->text);
    TAILQ_INSERT_HEAD(&worker->spare, call, link);
    worker->spare_count++;
}

void sl_resp_calls_trim(struct sl_resp_worker *worker)
{
    sl_resp_calls_free(&worker->spare);
    worker->spare_count = 0;
}

void sl_resp_call_leave(struct sl_resp_call *call, struct sl_buf *in)
{
    if (call->open == 0) { /* nothing was asked */
        sl_resp_call_done(call);
        return;
    }
    call->session = NULL;
    call->kept = *in;
    sl_buf_init(in, call->kept.ceiling, call->kept.alloc);
    sl_check_cancel(&call->ask);
}

/* ---- asking ---- */

static int reply(struct sl_resp_call *call)
{
    int err = call->reply(call);

    sl_resp_call_done(call);
    return err;
}

/* It is begun, and decided with those behind it. */
static int defer(struct sl_resp_call *call)
{
    struct sl_resp_session *session = call->session;

    session->call = NULL;
    session->checks[session->check_count++] = call;
    return session->check_count == SL_RESP_CHECKS
               ? sl_resp_decide_checks(session)
               : 0;
}

int sl_resp_ask(struct sl_resp_call *call, unsigned count,
                void (*begin)(struct sl_resp_call *call),
                int (*then)(struct sl_resp_call *call))
{
    struct sl_resp_session *session = call->session;
    int err;

    call->open = count;
    call->reply = then;
    if (call->worker->clock == 0)
        call->worker->clock = sl_clock_wall();
    call->asked_at = call->worker->clock;
    call->begins = true;
    begin(call);
    if (call->deferred)
        return defer(call);
    call->begins = false;
    err = sl_resp_decide_checks(session); /* which came before it */
    if (call->open == 0 && !err)
        return reply(call);
    if (call->open == 0) {
        sl_resp_call_done(call);
        return err;
    }
    session->late = true;
    TAILQ_INSERT_TAIL(&call->worker->late, call, link);
    return err;
}

sl_ns sl_resp_took(struct sl_resp_call *call)
{
    sl_ns now = sl_clock_wall(), took = now - call->asked_at;

    call->worker->clock = now;
    return took > 0 ? took : 0;
}

void sl_resp_time_checks(struct sl_resp_worker *worker)
{
    sl_ns now = sl_clock_wall();

    sl_metrics_took(worker->stats, "resp", now - worker->clock, worker->checks);
    worker->checks = 0;
    worker->clock = now;
}

void sl_resp_answered(struct sl_resp_call *call)
{
    struct sl_resp_session *session = call->session;

    if (--call->open > 0 || call->begins)
        return;
    TAILQ_REMOVE(&call->worker->late, call, link);
    if (!session) {
        sl_resp_call_done(call);
        return;
    }
    if (reply(call))
        session->broken = session->ending = true;
    session->late = false;
    sl_resp_resume(session);
}
