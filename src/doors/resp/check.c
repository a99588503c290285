/* check.c -- SLUICE.CHECK, SLUICE.EXPLAIN, SLUICE.RESET: the policy's verdict.
 *
 * The usual answer is a map of what a program needs to go on; a decision is not
 * rendered for it. `as json` gives all of it, as POST /v1/check does.
 *
 * Checks of one pipeline are begun before the first of them is decided: while
 * one is read, the memory of those before it is on its way. Each is decided as
 * if it had come alone, in its order; what may wait, or must not be begun
 * twice, is decided at once.
 */
#include "doors/resp/inner.h"
#include "engine/explain.h"
#include "engine/render/face.h"
#include "wire/resp_put.h"

/* ---- replies ---- */

/* What the usual reply takes at most, without its texts. */
#define MAP_MOST 512

static char *put_ms(char *to, sl_ns span)
{
    return sl_resp_put_number(to, ':',
                              span < 0 ? -1 : (int64_t)sl_span_in(span, SL_MS));
}

static char *put_text(char *to, unsigned version, struct sl_str text)
{
    if (text.len > 0)
        return sl_resp_put_string(to, text);
    return version < 3 ? SL_RESP_PUT(to, "$-1\r\n") : SL_RESP_PUT(to, "_\r\n");
}

static char *put_flag(char *to, unsigned version, bool yes)
{
    if (version < 3)
        return yes ? SL_RESP_PUT(to, ":1\r\n") : SL_RESP_PUT(to, ":0\r\n");
    return yes ? SL_RESP_PUT(to, "#t\r\n") : SL_RESP_PUT(to, "#f\r\n");
}

/* The limit whose numbers are shown, if one was asked. */
static const struct sl_shown *shown_of(const struct sl_decision *d)
{
    int i = d->by >= 0 ? d->by : d->report;

    return i >= 0 && sl_shown_limited(&d->shown[i]) &&
                   sl_shown_answered(&d->shown[i])
               ? &d->shown[i]
               : NULL;
}

static char *put_numbers(char *to, const struct sl_decision *d)
{
    const struct sl_shown *shown = shown_of(d);
    int64_t limit = -1, left = -1;
    sl_ns reset = SL_NS_NONE, wait = 0;

    if (shown) {
        limit = (int64_t)sl_shown_count(shown);
        left = (int64_t)shown->answer.remaining;
        reset = sl_shown_reset_in(d, shown);
        wait = shown->answer.wait;
    }
    to = SL_RESP_PUT(to, "$5\r\nlimit\r\n");
    to = sl_resp_put_number(to, ':', limit);
    to = SL_RESP_PUT(to, "$9\r\nremaining\r\n");
    to = sl_resp_put_number(to, ':', left);
    to = SL_RESP_PUT(to, "$14\r\nretry_after_ms\r\n");
    to = put_ms(to, sl_decision_retry_in(d));
    to = SL_RESP_PUT(to, "$8\r\nreset_ms\r\n");
    to = put_ms(to, reset);
    to = SL_RESP_PUT(to, "$7\r\nwait_ms\r\n");
    return put_ms(to, wait);
}

static char *put_hold(char *to, const struct sl_decision *d)
{
    to = SL_RESP_PUT(to, "$4\r\nhold\r\n");
    to = sl_resp_put_string(to, sl_str_c(d->hold));
    to = SL_RESP_PUT(to, "$15\r\nhold_expires_ms\r\n");
    return put_ms(to, d->hold_for);
}

/* Twelve names and values, always the same ones in the same order; and two
 * more behind them if something is held. */
static char *put_map(char *to, const struct sl_decision *d, unsigned version,
                     struct sl_str by, struct sl_str message)
{
    if (version < 3)
        to = d->hold[0] ? SL_RESP_PUT(to, "*28\r\n")
                        : SL_RESP_PUT(to, "*24\r\n");
    else
        to = d->hold[0] ? SL_RESP_PUT(to, "%14\r\n")
                        : SL_RESP_PUT(to, "%12\r\n");
    to = SL_RESP_PUT(to, "$7\r\nallowed\r\n");
    to = put_flag(to, version, d->allowed);
    to = SL_RESP_PUT(to, "$6\r\nstatus\r\n");
    to = sl_resp_put_number(to, ':', sl_decision_status(d));
    to = put_numbers(to, d);
    to = SL_RESP_PUT(to, "$2\r\nby\r\n");
    to = put_text(to, version, by);
    to = SL_RESP_PUT(to, "$4\r\ncode\r\n");
    to = put_text(to, version, d->code);
    to = SL_RESP_PUT(to, "$7\r\nmessage\r\n");
    to = put_text(to, version, message);
    to = SL_RESP_PUT(to, "$10\r\nrequest_id\r\n");
    to = put_text(to, version, sl_str_c(d->request_id));
    to = SL_RESP_PUT(to, "$8\r\ndegraded\r\n");
    to = put_flag(to, version, d->degraded);
    return d->hold[0] ? put_hold(to, d) : to;
}

static int write_map(struct sl_resp_call *call, const struct sl_decision *d)
{
    struct sl_buf *out = call->session->out;
    struct sl_str by = {NULL, 0}, message = {NULL, 0};
    int err = 0;

    if (d->by >= 0)
        by = d->shown[d->by].rule->name;
    if (!d->allowed) {
        err = sl_render_message(d, &call->text);
        message = sl_buf_str(&call->text);
    }
    if (!err)
        err = sl_buf_reserve(out, MAP_MOST + by.len + d->code.len +
                                      message.len + SL_REQUEST_ID);
    if (!err)
        out->len = (size_t)(put_map(out->bytes + out->len, d,
                                    call->session->version, by, message) -
                            out->bytes);
    return err;
}

static int write_json(struct sl_resp_call *call, const struct sl_decision *d,
                      bool explain)
{
    struct sl_rendered rendered;
    int err;

    sl_arena_reset(&call->ink);
    err = sl_render(d, &call->ink, &rendered);
    if (!err)
        err = explain ? sl_render_explained(d, &rendered, &call->text)
                      : sl_render_verdict(d, &rendered, &call->text);
    return err ? err
               : sl_resp_write_string(call->session->out,
                                      sl_buf_str(&call->text));
}

/* ---- asking ---- */

static void on_answered(struct sl_ask *ask)
{
    sl_resp_answered(ask->ctx);
}

static void on_waits(struct sl_ask *ask)
{
    const struct sl_resp_call *call = ask->ctx;

    if (call->session && call->session->conn)
        sl_conn_mind(call->session->conn);
}

static void begin(struct sl_resp_call *call, bool spend,
                  void (*done)(struct sl_ask *ask))
{
    call->ask.done = done;
    call->ask.ctx = call;
    call->ask.waits = on_waits;
    sl_ask_begin(&call->ask, &call->facts, spend);
}

/* What can't wait is decided at once, and what came before it even sooner. */
static bool on_defers(struct sl_ask *ask, bool may)
{
    struct sl_resp_call *call = ask->ctx;
    struct sl_resp_session *s = call->session;

    if (!call->begins) /* it is late as it is */
        return false;
    call->deferred = may;
    if (!may && sl_resp_decide_checks(s))
        s->broken = s->ending = true;
    return may;
}

static void begin_check(struct sl_resp_call *call)
{
    call->ask.defers = on_defers;
    begin(call, true, on_answered);
}

static void begin_explain(struct sl_resp_call *call)
{
    call->ask.defers = NULL;
    begin(call, false, on_answered);
}

/* Nobody could decide: what he sent was wrong, or there is no memory. */
static int complain(struct sl_resp_call *call)
{
    return sl_resp_refuse(call->session, "%s",
                          call->ask.diag.sentence[0] ? call->ask.diag.sentence
                                                     : "out of memory");
}

/* One that was late has a time of its own. */
static void count(struct sl_resp_call *call, const struct sl_decision *d)
{
    struct sl_stats *stats = call->worker->stats;

    if (!stats)
        return;
    if (call->session->late) {
        sl_stats_decision(stats, d, "resp", sl_resp_took(call));
        return;
    }
    call->worker->checks++;
    sl_stats_verdict(stats, d);
}

static int reply_check(struct sl_resp_call *call)
{
    const struct sl_decision *d = &call->ask.decision;

    if (call->ask.err)
        return complain(call);
    count(call, d);
    return call->json ? write_json(call, d, false) : write_map(call, d);
}

int sl_resp_decide_checks(struct sl_resp_session *s)
{
    unsigned count = s->check_count;
    int err = 0;

    s->check_count = 0;
    for (unsigned i = 0; i < count; i++)
        sl_ask_go(&s->checks[i]->ask);
    for (unsigned i = 0; i < count; i++) {
        if (!err)
            err = reply_check(s->checks[i]);
        sl_resp_call_done(s->checks[i]);
    }
    return err;
}

static int reply_explain(struct sl_resp_call *call)
{
    const struct sl_resp_session *s = call->session;
    int err;

    if (call->ask.err)
        return complain(call);
    if (call->json)
        return write_json(call, &call->ask.decision, true);
    err = sl_explain(&call->ask.decision, &call->text);
    return err ? err
               : sl_resp_write_verbatim(s->out, s->version, "txt",
                                        sl_buf_str(&call->text));
}

/* ---- forgetting ---- */

static void on_forgotten(struct sl_ask *ask)
{
    if (ask->err)
        sl_refuse(&ask->diag, ask->err, "the store did not answer in time");
    sl_resp_answered(ask->ctx);
}

/* The decision says which limits they are. */
static void on_looked(struct sl_ask *ask)
{
    ask->done = on_forgotten;
    if (ask->err)
        sl_resp_answered(ask->ctx);
    else
        sl_ask_reset(ask);
}

static void begin_forget(struct sl_resp_call *call)
{
    call->ask.defers = NULL;
    begin(call, false, on_looked);
}

static int reply_forget(struct sl_resp_call *call)
{
    if (call->ask.err)
        return complain(call);
    return sl_resp_write_integer(call->session->out,
                                 call->ask.decision.take.count);
}

static void on_throttle_forgotten(struct sl_throttle *t)
{
    sl_resp_answered(t->ctx);
}

static void begin_forget_throttle(struct sl_resp_call *call)
{
    sl_throttle_reset(&call->worker->throttles, &call->throttles[0]);
}

static int reply_forget_throttle(struct sl_resp_call *call)
{
    if (call->throttles[0].err)
        return sl_resp_refuse(call->session,
                              "the store did not answer in time");
    return sl_resp_write_integer(call->session->out, 1);
}

static int forget_throttle(struct sl_resp_call *call, struct sl_str key)
{
    struct sl_throttle *t = &call->throttles[0];

    t->key = key;
    t->now = sl_resp_now(call->worker);
    t->done = on_throttle_forgotten;
    t->ctx = call;
    if (sl_resp_name(call, t)) {
        struct sl_resp_session *session = call->session;

        sl_resp_call_done(call);
        return sl_resp_refuse(session, "out of memory");
    }
    return sl_resp_ask(call, 1, begin_forget_throttle, reply_forget_throttle);
}

/* ---- commands ---- */

static int ask(struct sl_resp_session *s, const struct sl_resp_command *c,
               void (*begin_f)(struct sl_resp_call *call),
               int (*reply)(struct sl_resp_call *call))
{
    struct sl_resp_call *call = sl_resp_call_new(s);
    struct sl_diag why;
    int err;

    if (call && sl_resp_read_check(call, c, &why))
        return sl_resp_ask(call, 1, begin_f, reply);
    if (call)
        sl_resp_call_done(call);
    err = sl_resp_decide_checks(s);
    return err ? err
               : sl_resp_refuse(s, "%s", call ? why.sentence : "out of memory");
}

int sl_resp_check(struct sl_resp_session *session,
                  const struct sl_resp_command *command)
{
    return ask(session, command, begin_check, reply_check);
}

int sl_resp_explain(struct sl_resp_session *session,
                    const struct sl_resp_command *command)
{
    return ask(session, command, begin_explain, reply_explain);
}

int sl_resp_forget(struct sl_resp_session *session,
                   const struct sl_resp_command *command)
{
    struct sl_resp_call *call;

    if (!sl_str_eq_nocase(command->args[1], SL_STR("throttle")) ||
        command->count != 3)
        return ask(session, command, begin_forget, reply_forget);
    call = sl_resp_call_new(session);
    return call ? forget_throttle(call, command->args[2])
                : sl_resp_refuse(session, "out of memory");
}
