/* op.c -- ops of the Redis store: commands are encoded, replies decoded.
 *
 * NOSCRIPT proves that nothing has happened: the op is sent again with the
 * script's text.
 */
#include <stddef.h>
#include <string.h>

#include "store/redis/redis_int.h"

#define COMMAND_MOST ((size_t)128 << 10)
#define REPAIRS      3

static void on_done(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                    struct sl_str reply);

static struct sl_redis_op *of(struct sl_remote_op *base)
{
    return (struct sl_redis_op *)base;
}

static struct sl_redis_client *client_of(const struct sl_redis_op *op)
{
    return (struct sl_redis_client *)op->base.client;
}

/* ---- life ---- */

int sl_redis_op_init(struct sl_remote_op *base)
{
    struct sl_redis_op *op = of(base);

    sl_buf_init(&op->command, COMMAND_MOST, base->client->options->alloc);
    sl_buf_init(&op->whole, COMMAND_MOST, base->client->options->alloc);
    op->cmd.done = on_done;
    return 0;
}

void sl_redis_op_reset(struct sl_remote_op *base)
{
    struct sl_redis_op *op = of(base);

    sl_buf_clear(&op->command);
    sl_buf_done(&op->whole);
    memset(&op->hold, 0, sizeof(op->hold));
    op->repairs = 0;
}

void sl_redis_op_done(struct sl_remote_op *base)
{
    sl_buf_done(&of(base)->whole);
    sl_buf_done(&of(base)->command);
}

/* ---- commands ---- */

static struct sl_script_options options_of(const struct sl_redis_op *op,
                                           sl_ns now)
{
    const struct sl_redis_client *client = client_of(op);

    return (struct sl_script_options){
        .own_now = client->base.options->own_now,
        .near = sl_redis_client_near(client, now),
    };
}

/* The name of a hold's record, in the slot of the op. */
static struct sl_str record_of(const struct sl_redis_op *op,
                               struct sl_hold_id id, char room[SL_HOLD_NAME])
{
    bool in_slots = sl_redis_cluster_is_cluster(client_of(op)->cluster);

    sl_script_hold_name(id, in_slots, op->base.place, room);
    return sl_str_c(room);
}

int sl_redis_op_encode_take(struct sl_remote_op *base, struct sl_take *take,
                            const struct sl_lease_keys *keys)
{
    struct sl_redis_op *op = of(base);
    struct sl_script_options how = options_of(op, take->now);
    char name[SL_HOLD_NAME];

    if (keys)
        sl_remote_op_request_leases(base, take, keys, how.near);
    if (base->leases.count > 0)
        how.leases = base->leases.words;
    if (take->op == SL_TAKE_OP_TAKE && !sl_hold_id_is_none(take->hold))
        how.record = record_of(op, take->hold, name);
    take->place = base->place;
    op->hold = take->hold;
    op->hold_now = take->now;
    return sl_script_write(take, &how, &op->command);
}

static int encode_call(struct sl_redis_op *op, const struct sl_hold_call *call,
                       bool undo, struct sl_buf *out)
{
    char name[SL_HOLD_NAME];
    struct sl_script_options how = options_of(op, call->now);

    how.record = record_of(op, call->id, name);
    how.undo = undo;
    return sl_script_hold_write(call, &how, out);
}

int sl_redis_op_encode_hold(struct sl_remote_op *base,
                            struct sl_hold_call *call)
{
    struct sl_redis_op *op = of(base);

    base->place = sl_redis_cluster_is_cluster(client_of(op)->cluster)
                      ? call->place % SL_CLUSTER_SLOTS
                      : 0;
    return encode_call(op, call, false, &op->command);
}

/* The refund takes the place of the command. */
int sl_redis_op_encode_refund(struct sl_remote_op *base)
{
    struct sl_redis_op *op = of(base);
    struct sl_hold_call release = {.op = SL_HOLD_SETTLE,
                                   .id = op->hold,
                                   .release = true,
                                   .now = op->hold_now};
    struct sl_buf command;
    int err;

    sl_buf_clear(&op->whole);
    err = sl_hold_id_is_none(op->hold)
              ? sl_script_give_back(sl_buf_str(&op->command), &op->whole)
              : encode_call(op, &release, true, &op->whole);
    if (err)
        return err;
    command = op->command;
    op->command = op->whole;
    op->whole = command;
    op->repairs = 0;
    return 0;
}

int sl_redis_op_encode_lease_end(struct sl_remote_op *base,
                                 const struct sl_lease_end *end, sl_ns now)
{
    struct sl_redis_op *op = of(base);
    struct sl_script_options how = options_of(op, now);

    return sl_script_end_lease(end->name, end->numbers, &how,
                               &end->asks.words[0], &op->command);
}

void sl_redis_op_send(struct sl_remote_op *base)
{
    struct sl_redis_op *op = of(base);

    op->cmd.slot = base->place;
    op->cmd.wire.command = sl_buf_str(&op->command);
    sl_redis_cluster_send(client_of(op)->cluster, &op->cmd);
}

/* ---- replies ---- */

static bool read_numbers(struct sl_str reply, int64_t *numbers, unsigned *count)
{
    struct sl_resp_value array = sl_resp_next(&reply);

    if (array.type != SL_RESP_ARRAY || array.count > SL_SCRIPT_NUMBERS)
        return false;
    *count = (unsigned)array.count;
    for (unsigned i = 0; i < *count; i++) {
        struct sl_resp_value value = sl_resp_next(&reply);

        if (value.type != SL_RESP_INTEGER)
            return false;
        numbers[i] = value.integer;
    }
    return true;
}

static void read_leases(struct sl_redis_op *op, const int64_t *numbers,
                        unsigned count)
{
    struct sl_remote_op *base = &op->base;
    struct sl_lease_counts counts = {0};

    if (base->leases.count == 0)
        return;
    sl_script_land(base->client->leases, &base->leases, numbers, count,
                   base->sent, &counts);
    sl_remote_op_leases_granted(base, &counts);
}

/* The reply is in time. */
static void answer(struct sl_redis_op *op, const int64_t *numbers,
                   unsigned count)
{
    struct sl_remote_client *client = op->base.client;
    struct sl_script_reply said;

    if (!sl_script_read(op->base.take, numbers, count, &said)) {
        sl_remote_op_fail(&op->base, SL_REMOTE_ERROR);
        return;
    }
    if (said.strange)
        atomic_fetch_add(&client->counts.strange, said.strange);
    if (!client->options->own_now)
        atomic_store_explicit(&client->counts.ahead,
                              said.now - sl_loop_now(client->loop),
                              memory_order_relaxed);
    sl_remote_op_succeed(&op->base, !said.passing);
}

/* True: the op goes on as a refund. */
static bool on_take(struct sl_redis_op *op, struct sl_str reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count = 0;

    if (!read_numbers(reply, numbers, &count)) {
        sl_redis_client_error(client_of(op), reply);
        sl_remote_op_fail(&op->base, SL_REMOTE_ERROR);
        return false;
    }
    read_leases(op, numbers, count);
    if (op->base.take) {
        answer(op, numbers, count);
        return false;
    }
    sl_remote_op_forget(&op->base);
    return sl_remote_op_late(&op->base, count > 0 && numbers[0] == 1);
}

/* Denials for this key are no longer certain. */
static void on_key(void *ctx, struct sl_str key)
{
    struct sl_denial_forgets *forgets = ctx;
    struct sl_store_part part = {.name = key};
    struct sl_denial_key names = {.count = 1};

    names.names[0] = sl_part_name_place(forgets, &part);
    sl_denial_forgets_add(forgets, &names);
}

/* A hold has ended, or was looked at. A late call is done nevertheless: a
 * repeated call reads its result. */
static void on_hold(struct sl_redis_op *op, struct sl_str reply)
{
    struct sl_hold_call unused = {.op = SL_HOLD_LOOK};
    struct sl_remote_op *base = &op->base;

    if (sl_script_hold_read(base->hold ? base->hold : &unused, reply, on_key,
                            &base->client->identity->forgets)) {
        sl_remote_op_succeed(base, false);
        return;
    }
    sl_redis_client_error(client_of(op), reply);
    if (base->hold)
        sl_remote_op_fail(base, SL_REMOTE_ERROR);
}

static void on_lease_end(struct sl_redis_op *op, enum sl_redis_result result,
                         struct sl_str reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count = 0;

    if (result == SL_REDIS_REPLIED && read_numbers(reply, numbers, &count)) {
        read_leases(op, numbers, count);
        sl_remote_op_succeed(&op->base, false);
    } else {
        sl_remote_op_fail(&op->base, SL_REMOTE_ERROR);
    }
}

/* The server does not know the script, and nothing has happened. If the text
 * was sent there after this command, its hash will do. True if the command is
 * sent again. */
static bool repair(struct sl_redis_op *op)
{
    sl_ns *text_sent = sl_redis_cluster_note(&op->cmd);
    bool by_hash = *text_sent >= op->cmd.wire.sent && op->repairs == 0;

    if (++op->repairs > REPAIRS)
        return false;
    if (!by_hash) {
        sl_buf_clear(&op->whole);
        if (sl_script_eval(sl_buf_str(&op->command), &op->whole))
            return false;
        op->cmd.wire.command = sl_buf_str(&op->whole);
        *text_sent = sl_loop_mono(op->base.client->loop);
    }
    SL_REMOTE_COUNT(op->base.client, repaired);
    sl_redis_cluster_again(&op->cmd);
    return true;
}

static void on_done(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                    struct sl_str reply)
{
    struct sl_redis_op *op =
        (struct sl_redis_op *)((char *)cmd - offsetof(struct sl_redis_op, cmd));
    bool replied = result == SL_REDIS_REPLIED;
    struct sl_str text;
    enum sl_redis_error error = SL_REDIS_ERROR_NONE;

    if (replied)
        error = sl_redis_error_of(reply, &text);
    if (error == SL_REDIS_ERROR_NOSCRIPT && repair(op))
        return;
    if (op->base.ends_lease)
        on_lease_end(op, result, reply);
    else if (op->base.is_hold && replied)
        on_hold(op, reply);
    else if (op->base.is_refund && replied && error == SL_REDIS_ERROR_NONE)
        sl_remote_op_succeed(&op->base, false);
    else if (op->base.is_refund)
        sl_remote_op_fail(&op->base, SL_REMOTE_ERROR);
    else if (!replied)
        sl_remote_op_fail(&op->base, result == SL_UNCERTAIN
                                         ? SL_REMOTE_UNCERTAIN
                                         : SL_REMOTE_NOT_DONE);
    else if (on_take(op, reply))
        return;
    sl_remote_op_free(&op->base); /* (2) */
}
