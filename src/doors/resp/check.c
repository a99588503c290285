/* check.c -- SLUICE.CHECK, SLUICE.EXPLAIN, SLUICE.RESET: the policy's verdict.
 *
 * The usual answer is a map of what a program needs to go on; a decision is not
 * rendered for it. `as json` gives all of it, as POST /v1/check does.
 */
#include "base/clock.h"
#include "doors/resp/inner.h"
#include "engine/explain.h"
#include "engine/forget.h"
#include "engine/render/face.h"

/* ---- replies ---- */

static int64_t ms(sl_ns span)
{
    return span < 0 ? -1 : (int64_t)sl_span_in(span, SL_MS);
}

static int write_pair(struct sl_buf *out, struct sl_str name, int64_t n)
{
    int err = sl_resp_write_string(out, name);

    return err ? err : sl_resp_write_integer(out, n);
}

static int write_text(struct sl_buf *out, unsigned version, struct sl_str name,
                      struct sl_str text)
{
    int err = sl_resp_write_string(out, name);

    if (err)
        return err;
    return text.len > 0 ? sl_resp_write_string(out, text)
                        : sl_resp_write_nil(out, version);
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

static int write_numbers(struct sl_buf *out, const struct sl_decision *d)
{
    const struct sl_shown *shown = shown_of(d);
    int64_t limit = -1, left = -1;
    sl_ns reset = SL_NS_NONE, wait = 0;
    int err;

    if (shown) {
        limit = (int64_t)sl_shown_count(shown);
        left = (int64_t)shown->answer.remaining;
        reset = sl_shown_reset_in(d, shown);
        wait = shown->answer.wait;
    }
    err = write_pair(out, SL_STR("limit"), limit);
    if (!err)
        err = write_pair(out, SL_STR("remaining"), left);
    if (!err)
        err = write_pair(out, SL_STR("retry_after_ms"),
                         ms(sl_decision_retry_in(d)));
    if (!err)
        err = write_pair(out, SL_STR("reset_ms"), ms(reset));
    return err ? err : write_pair(out, SL_STR("wait_ms"), ms(wait));
}

static int write_words(struct sl_resp_call *call, const struct sl_decision *d)
{
    struct sl_buf *out = call->session->out;
    unsigned version = call->session->version;
    struct sl_str by = {NULL, 0};
    int err = 0;

    if (d->by >= 0)
        by = d->shown[d->by].rule->name;
    if (!d->allowed)
        err = sl_render_message(d, &call->text);
    if (!err)
        err = write_text(out, version, SL_STR("by"), by);
    if (!err)
        err = write_text(out, version, SL_STR("code"), d->code);
    if (!err)
        err = write_text(out, version, SL_STR("message"),
                         sl_buf_str(&call->text));
    return err ? err
               : write_text(out, version, SL_STR("request_id"),
                            sl_str_c(d->request_id));
}

static int write_map(struct sl_resp_call *call, const struct sl_decision *d)
{
    struct sl_buf *out = call->session->out;
    unsigned version = call->session->version;
    int err = sl_resp_write_map(out, version, 12);

    if (!err)
        err = sl_resp_write_string(out, SL_STR("allowed"));
    if (!err)
        err = sl_resp_write_boolean(out, version, d->allowed);
    if (!err)
        err = write_pair(out, SL_STR("status"), sl_decision_status(d));
    if (!err)
        err = write_numbers(out, d);
    if (!err)
        err = write_words(call, d);
    if (!err)
        err = sl_resp_write_string(out, SL_STR("degraded"));
    return err ? err : sl_resp_write_boolean(out, version, d->degraded);
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

static void begin(struct sl_resp_call *call, bool spend,
                  void (*done)(struct sl_ask *ask))
{
    call->ask.done = done;
    call->ask.ctx = call;
    sl_ask_begin(&call->ask, &call->facts, spend);
}

static void begin_check(struct sl_resp_call *call)
{
    begin(call, true, on_answered);
}

static void begin_explain(struct sl_resp_call *call)
{
    begin(call, false, on_answered);
}

/* Nobody could decide: what he sent was wrong, or there is no memory. */
static int complain(struct sl_resp_call *call)
{
    return sl_resp_refuse(call->session, "%s",
                          call->ask.diag.sentence[0] ? call->ask.diag.sentence
                                                     : "there is no memory");
}

static int reply_check(struct sl_resp_call *call)
{
    const struct sl_decision *d = &call->ask.decision;
    sl_ns took = sl_clock_wall() - call->asked_at;

    if (call->ask.err)
        return complain(call);
    if (call->worker->stats)
        sl_stats_decision(call->worker->stats, d, "resp", took > 0 ? took : 0);
    return call->json ? write_json(call, d, false) : write_map(call, d);
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

static void on_forgotten(struct sl_take *take)
{
    sl_resp_answered(take->ctx);
}

/* The decision says which limits they are. */
static void on_looked(struct sl_ask *ask)
{
    struct sl_resp_call *call = ask->ctx;

    call->take.count = 0;
    if (ask->err || sl_forget_prepare(&ask->decision, ask->live, &call->take,
                                      call->parts) == 0) {
        sl_resp_answered(call);
        return;
    }
    call->take.done = on_forgotten;
    call->take.ctx = call;
    sl_forget(call->worker->engine, &call->take, call->worker->loop);
}

static void begin_forget(struct sl_resp_call *call)
{
    begin(call, false, on_looked);
}

static int reply_forget(struct sl_resp_call *call)
{
    if (call->ask.err)
        return complain(call);
    if (call->take.err)
        return sl_resp_refuse(call->session,
                              "the store did not answer in time");
    return sl_resp_write_integer(call->session->out, call->take.count);
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
    return sl_resp_ask(call, 1, begin_forget_throttle, reply_forget_throttle);
}

/* ---- commands ---- */

static int ask(struct sl_resp_session *s, const struct sl_resp_command *c,
               void (*begin_f)(struct sl_resp_call *call),
               int (*reply)(struct sl_resp_call *call))
{
    struct sl_resp_call *call = sl_resp_call_new(s);
    struct sl_diag why;

    if (!call)
        return sl_resp_refuse(s, "there is no memory");
    if (sl_resp_read_check(call, c, &why))
        return sl_resp_ask(call, 1, begin_f, reply);
    sl_resp_call_done(call);
    return sl_resp_refuse(s, "%s", why.sentence);
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
                : sl_resp_refuse(session, "there is no memory");
}

int sl_resp_not_yet(struct sl_resp_session *session,
                    const struct sl_resp_command *command)
{
    return sl_resp_refuse(session, "'%s' is not in this version of Sluice",
                          sl_resp_quote(command->args[0]).text);
}
