/* hold.c -- SLUICE.SETTLE, SLUICE.RELEASE, SLUICE.EXTEND: how a hold ends.
 *
 *     SLUICE.SETTLE ID [COST | LIMIT COST ...] [AS JSON]
 *     SLUICE.RELEASE ID [AS JSON]
 *     SLUICE.EXTEND ID 30s [AS JSON]
 *
 * The usual answer is a map: state, again, expires_ms, and limits, an array of
 * [name, held, cost, remaining, over]. An unknown hold is an error that begins
 * with UNKNOWNHOLD.
 */
#include <inttypes.h>
#include <string.h>

#include "engine/render.h"
#include "server/resp/resp_int.h"

/* ---- replies ---- */

static const char *flag_text(const struct sl_resp_conn *client, bool yes)
{
    if (client->version < 3)
        return yes ? ":1\r\n" : ":0\r\n";
    return yes ? "#t\r\n" : "#f\r\n";
}

static int write_map(struct sl_resp_conn *client, const struct sl_hold_op *op)
{
    struct sl_writer w = {client->out, 0};
    const char *state = sl_hold_state_word(op);
    bool settled = op->verb != SL_VERB_EXTEND;
    bool held = !settled && !sl_hold_is_again(op);
    int64_t left = held ? (int64_t)sl_span_in(op->call.expires_in, SL_MS) : -1;

    sl_writer_addf(
        &w,
        "%s$5\r\nstate\r\n$%zu\r\n%s\r\n$5\r\nagain\r\n%s"
        "$10\r\nexpires_ms\r\n:%" PRId64 "\r\n$6\r\nlimits\r\n*%u\r\n",
        client->version < 3 ? "*8\r\n" : "%4\r\n", strlen(state), state,
        flag_text(client, sl_hold_is_again(op)), left, op->call.count);
    for (unsigned i = 0; i < op->call.count; i++) {
        const struct sl_held_part *part = &op->call.parts[i];
        const struct sl_rule *rule = sl_hold_rule(op, i);
        struct sl_str name = rule ? rule->name : (struct sl_str){"", 0};

        sl_writer_addf(&w,
                       "*5\r\n$%zu\r\n%.*s\r\n:%" PRIu64 "\r\n:%" PRId64
                       "\r\n:%" PRId64 "\r\n%s",
                       name.len, SL_STR_ARG(name), part->held,
                       settled ? (int64_t)part->cost : -1,
                       sl_hold_has_remaining(op, i)
                           ? (int64_t)sl_rule_down(rule, part->answer.remaining)
                           : -1,
                       flag_text(client, part->over));
    }
    return w.err;
}

static void count(const struct sl_resp_call *call)
{
    static const enum sl_hold_event events[] = {
        [SL_VERB_SETTLE] = SL_HOLD_SETTLED_NOW,
        [SL_VERB_RELEASE] = SL_HOLD_RELEASED_NOW,
        [SL_VERB_EXTEND] = SL_HOLD_EXTENDED,
    };
    const struct sl_hold_op *op = &call->hold;

    if (!call->worker->base.stats || (op->err && op->err != SLUICE_ENOENT))
        return;
    sl_metrics_hold(call->worker->base.stats, op->err ? SL_HOLD_MISSED
                                              : sl_hold_is_again(op)
                                                  ? SL_HOLD_AGAIN
                                                  : events[op->verb]);
}

static int reply_hold(struct sl_resp_call *call)
{
    struct sl_resp_conn *client = call->client;
    const struct sl_hold_op *op = &call->hold;
    int err;

    count(call);
    if (op->err == SLUICE_ENOENT)
        return sl_resp_write_error(
            client->out,
            SL_STR("UNKNOWNHOLD there is no such hold, or it ended long ago"));
    if (op->err)
        return sl_resp_fail(client, &op->diag);
    if (!call->json)
        return write_map(client, op);
    err = sl_hold_render(op, &call->text);
    return err ? err
               : sl_resp_write_string(client->out, sl_buf_str(&call->text));
}

/* ---- asking ---- */

static void on_ended(struct sl_hold_op *op)
{
    sl_resp_answered(op->ctx);
}

static void begin_hold(struct sl_resp_call *call)
{
    call->hold.done = on_ended;
    call->hold.ctx = call;
    sl_hold_op_begin(&call->hold, &call->question);
}

/* ---- words ---- */

static bool is_twice(const struct sl_resp_call *call, struct sl_str limit)
{
    for (unsigned i = 0; i < call->question.cost_count; i++)
        if (sl_str_eq(call->costs[i].limit, limit))
            return true;
    return false;
}

/* COST, or pairs of LIMIT COST. */
static bool read_costs(struct sl_resp_call *call, const struct sl_str *words,
                       unsigned count, struct sl_diag *why)
{
    struct sl_hold_op_input *q = &call->question;

    q->costs = call->costs;
    if (count == 1) {
        q->has_cost = true;
        return sl_resp_read_cost(words[0], &q->cost, why);
    }
    for (unsigned i = 0; i + 1 < count; i += 2) {
        struct sl_cost *cost = &call->costs[q->cost_count];

        if (is_twice(call, words[i]) || q->cost_count == SL_RESP_FACTS ||
            !sl_resp_read_cost(words[i + 1], &cost->cost, why)) {
            sl_diag_error(
                why, SLUICE_EINVAL,
                "write LIMIT COST, each limit once and at most %d, not "
                "'%s'",
                SL_RESP_FACTS, sl_resp_quote(words[i]).text);
            return false;
        }
        cost->limit = words[i];
        q->cost_count++;
    }
    return count % 2 == 0 ||
           sl_resp_bad_word(why, "'%s' has no cost after it", words[count - 1]);
}

static bool read_words(struct sl_resp_call *call,
                       const struct sl_resp_command *c, struct sl_diag *why)
{
    struct sl_hold_op_input *q = &call->question;
    const struct sl_str *words = c->args + 2;
    unsigned count = c->count - 2;

    call->json = count >= 2 &&
                 sl_str_eq_nocase(words[count - 2], SL_STR("as")) &&
                 sl_str_eq_nocase(words[count - 1], SL_STR("json"));
    count -= call->json ? 2 : 0;
    if (q->verb == SL_VERB_SETTLE)
        return read_costs(call, words, count, why);
    if (q->verb == SL_VERB_EXTEND && count == 1)
        return !sl_hold_span(words[0], &q->hold, why);
    if (q->verb == SL_VERB_RELEASE && count == 0)
        return true;
    sl_diag_error(why, SLUICE_EINVAL,
                  q->verb == SL_VERB_EXTEND
                      ? "missing duration; write SLUICE.EXTEND id 30s"
                      : "unexpected argument; write SLUICE.RELEASE id");
    return false;
}

static int end(struct sl_resp_conn *client, const struct sl_resp_command *c,
               enum sl_hold_verb verb)
{
    struct sl_resp_call *call = sl_resp_call_new(client);
    struct sl_diag why = {.sentence = ""};

    if (!call)
        return sl_resp_refuse(client, "out of memory");
    call->question =
        (struct sl_hold_op_input){.verb = verb,
                                  .name = c->args[1],
                                  .now = sl_server_now(&call->worker->base)};
    if (read_words(call, c, &why))
        return sl_resp_ask(call, 1, begin_hold, reply_hold);
    sl_resp_call_done(call);
    return sl_resp_refuse(client, "%s", why.sentence);
}

int sl_resp_settle(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    return end(client, c, SL_VERB_SETTLE);
}

int sl_resp_release(struct sl_resp_conn *client,
                    const struct sl_resp_command *c)
{
    return end(client, c, SL_VERB_RELEASE);
}

int sl_resp_extend(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    return end(client, c, SL_VERB_EXTEND);
}
