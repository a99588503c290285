/* throttle.c -- CL.THROTTLE as redis-cell answers it, THROTTLE as throttlecrab
 * does.
 *
 *     CL.THROTTLE key max_burst count period [quantity]
 *     -> limited (0, 1), limit (max_burst + 1), remaining, retry_after,
 *        reset_after
 *     THROTTLE key max_burst count period [quantity]
 *     -> allowed (1, 0), limit (max_burst), remaining, reset_after,
 *        retry_after
 *
 * Times are whole seconds, rounded up: a client that waits for so long is
 * allowed. redis-cell uses -1 if there is nothing to wait for: allowed, or
 * never allowed.
 */
#include <string.h>

#include "server/resp/resp_int.h"

/* ---- replies ---- */

static int64_t seconds(sl_ns span)
{
    return span < 0 ? -1 : span / SL_S + (span % SL_S > 0);
}

static int write_one(struct sl_buf *out, const struct sl_throttle *t, bool crab)
{
    int64_t retry = seconds(t->retry_in), reset = seconds(t->reset_in);
    int64_t five[] = {t->limited, (int64_t)t->capacity, (int64_t)t->remaining,
                      retry, reset};

    if (t->err == SLUICE_EFULL)
        return sl_resp_write_error(out,
                                   SL_STR("ERR the store has too many limits"));
    if (t->err)
        return sl_resp_write_error(
            out, SL_STR("ERR the store did not answer in time"));
    if (crab) {
        five[0] = !t->limited;
        five[3] = reset;
        five[4] = t->limited ? retry : 0;
    }
    return sl_resp_write_integers(out, five, SL_LEN(five));
}

static void count(struct sl_resp_call *call)
{
    sl_ns took = sl_resp_took(call);
    struct sl_metrics_throttles counted = {0};

    if (!call->worker->base.stats)
        return;
    for (unsigned i = 0; i < call->count; i++) {
        const struct sl_throttle *t = &call->throttles[i];

        counted.failed += t->err != 0;
        counted.denied += !t->err && t->limited;
        counted.allowed += !t->err && !t->limited;
    }
    sl_metrics_throttles(call->worker->base.stats, &counted, "resp", took);
}

static int write_all(struct sl_resp_call *call)
{
    int err = 0;

    count(call);
    for (unsigned i = 0; i < call->count && !err; i++)
        err = write_one(call->client->out, &call->throttles[i], call->crab[i]);
    return err;
}

/* ---- asking ---- */

static void on_answered(struct sl_throttle *t)
{
    sl_resp_answered(t->ctx);
}

static void ask_all(struct sl_resp_call *call)
{
    struct sl_throttle *asked[SL_THROTTLES];

    for (unsigned i = 0; i < call->count; i++)
        asked[i] = &call->throttles[i];
    sl_throttle_take(&call->worker->throttles, asked, call->count);
}

int sl_resp_flush(struct sl_resp_conn *client)
{
    if (client->check_count > 0)
        return sl_resp_decide_checks(client);
    if (!client->call || client->suspended)
        return 0;
    if (client->call->count == 0) {
        sl_resp_call_done(client->call);
        return 0;
    }
    return sl_resp_ask(client->call, client->call->count, ask_all, write_all);
}

/* ---- reading ---- */

/* Refuses a command. The collected ones are answered first; if they are
 * suspended, this command is read again later. */
static int complain(struct sl_resp_conn *client,
                    const struct sl_resp_command *c, const struct sl_diag *why)
{
    int err;

    client->used -= c->used;
    err = sl_resp_flush(client);
    if (err || client->suspended)
        return err;
    client->used += c->used;
    return sl_resp_refuse(client, "%s", why->sentence);
}

static bool read_number(const struct sl_resp_command *c, unsigned index,
                        int64_t *ret, struct sl_diag *why)
{
    static const char *const names[] = {"max_burst", "count", "period",
                                        "quantity"};

    if (sl_resp_integer(c->args[index], ret))
        return true;
    sl_diag_error(why, SLUICE_EINVAL, "%s must be a whole number, not '%s'",
                  names[index - 2], sl_resp_quote(c->args[index]).text);
    return false;
}

static bool read_throttle(struct sl_throttle *t,
                          const struct sl_resp_command *c, bool crab,
                          struct sl_diag *why)
{
    int64_t burst, count_, period;

    t->quantity = 1;
    if (!read_number(c, 2, &burst, why) || !read_number(c, 3, &count_, why) ||
        !read_number(c, 4, &period, why) ||
        (c->count == 6 && !read_number(c, 5, &t->quantity, why)))
        return false;
    if (!crab && burst < INT64_MAX)
        burst++; /* redis-cell allows one more than its burst */
    if (crab && t->quantity < 0) {
        sl_diag_error(
            why, SLUICE_EINVAL,
            "quantity must not be negative; use CL.THROTTLE to refund");
        return false;
    }
    return sl_throttle_set(t, burst, count_, period, why) == 0;
}

/* Sets the key, and its stored name if the store uses names. Returns 0 or
 * SLUICE_ENOMEM. */
static int set_key(struct sl_resp_call *call, struct sl_throttle *t,
                   struct sl_str key)
{
    struct sl_str before = SL_STR(SL_THROTTLE_NAME);
    char *name;

    t->key = key;
    t->now = sl_server_now(&call->worker->base);
    t->done = on_answered;
    t->ctx = call;
    if (!sl_throttles_named(&call->worker->throttles))
        return 0;
    name = sl_arena_take(&call->text_arena, before.len + t->key.len);
    if (!name)
        return SLUICE_ENOMEM;
    memcpy(name, before.at, before.len);
    if (t->key.len > 0)
        memcpy(name + before.len, t->key.at, t->key.len);
    t->name = (struct sl_str){name, before.len + t->key.len};
    return 0;
}

static int collect(struct sl_resp_conn *client, const struct sl_resp_command *c,
                   bool crab)
{
    struct sl_resp_call *call =
        client->call ? client->call : sl_resp_call_new(client);
    struct sl_diag why;
    struct sl_throttle *t;

    if (!call)
        return sl_resp_refuse(client, "out of memory");
    t = &call->throttles[call->count];
    if (!read_throttle(t, c, crab, &why))
        return complain(client, c, &why);
    if (set_key(call, t, c->args[1])) {
        sl_diag_error(&why, SLUICE_ENOMEM, "out of memory");
        return complain(client, c, &why);
    }
    call->crab[call->count++] = crab;
    return call->count == SL_THROTTLES ? sl_resp_flush(client) : 0;
}

int sl_resp_throttle(struct sl_resp_conn *client,
                     const struct sl_resp_command *c)
{
    return collect(client, c, false);
}

int sl_resp_throttlecrab(struct sl_resp_conn *client,
                         const struct sl_resp_command *c)
{
    return collect(client, c, true);
}

/* ---- SLUICE.RESET THROTTLE key ---- */

static void begin_reset(struct sl_resp_call *call)
{
    sl_throttle_reset(&call->worker->throttles, &call->throttles[0]);
}

static int reply_reset(struct sl_resp_call *call)
{
    if (call->throttles[0].err)
        return sl_resp_refuse(call->client, "the store did not answer in time");
    return sl_resp_write_integer(call->client->out, 1);
}

int sl_resp_reset_throttle(struct sl_resp_conn *client, struct sl_str key)
{
    struct sl_resp_call *call = sl_resp_call_new(client);

    if (call && !set_key(call, &call->throttles[0], key))
        return sl_resp_ask(call, 1, begin_reset, reply_reset);
    if (call)
        sl_resp_call_done(call);
    return sl_resp_refuse(client, "out of memory");
}
