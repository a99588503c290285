/* redis.c -- Redis as a back end of the remote store: clients, the store
 * identity in Redis, and ops.
 *
 * The secret and the epoch are one key each, and one command reads it, or
 * writes ours if there is none. SET with NX and GET would do that at once, but
 * needs version 7.
 *
 * NOSCRIPT proves that nothing has happened: the op is sent again with the
 * script's text.
 */
#include "store/redis/redis.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "store/redis/redis_int.h"

#define IN_FLIGHT     8192
#define SPARES        256
#define READ_EVERY    (5 * SL_S)
#define READ_AGAIN    (100 * SL_MS) /* while the secret is not known */
#define QUESTION_MOST 1024
#define COMMAND_MOST  ((size_t)128 << 10)
#define REPAIRS       3

struct redis {
    struct sl_remote_store remote; /* first */
    struct sl_redis_options options;
    struct sl_tls *tls;
};

struct question {
    struct sl_redis_cmd cmd; /* first */
    struct client *client;
    const char *key;
    struct sl_buf command;
    bool is_sent;
};

struct client {
    struct sl_remote_client base; /* first */
    struct sl_redis_cluster *cluster;
    struct question secret, epoch, memory, server;
    struct sl_timer *timer; /* until they are read again */
    struct sl_jitter jitter;
};

struct op {
    struct sl_remote_op base; /* first */
    struct sl_redis_cmd cmd;
    struct sl_buf command;  /* with the script's hash */
    struct sl_buf whole;    /* with the script's text, after NOSCRIPT */
    struct sl_hold_id hold; /* of a take; none: it is not held */
    sl_ns hold_now;
    unsigned repairs;
};

static void on_done(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                    struct sl_str reply);

static struct op *of(struct sl_remote_op *base)
{
    return (struct op *)base;
}

static struct client *client_of(const struct op *op)
{
    return (struct client *)op->base.client;
}

/* Logs an error reply. */
static void log_error(struct client *client, struct sl_str reply)
{
    struct sl_remote_client *base = &client->base;
    struct sl_diag message;
    struct sl_str text;
    enum sl_redis_error error = sl_redis_error_of(reply, &text);

    if (!sl_store_log_is_due(&base->log, (int)error, sl_loop_mono(base->loop)))
        return;
    text.len = text.len < 160 ? text.len : 160;
    sl_diag_error(&message, 0, "%s (%.*s)", sl_redis_error_sentence(error),
                  SL_STR_ARG(text));
    sl_store_log_write(&base->log, SL_STORE_EVENT_TROUBLE, message.sentence);
}

/* ---- store identity ---- */

static void ask(struct question *q, const struct sl_str *words, unsigned count,
                void (*done)(struct sl_redis_cmd *cmd,
                             enum sl_redis_result result, struct sl_str reply))
{
    sl_buf_clear(&q->command);
    if (sl_resp_command_write(&q->command, words, count))
        return; /* out of memory: the next time */
    q->is_sent = true;
    q->cmd.wire.command = sl_buf_str(&q->command);
    q->cmd.slot = sl_cluster_slot_of(sl_str_c(q->key));
    q->cmd.done = done;
    sl_redis_cluster_send(q->client->cluster, &q->cmd);
}

/* The value of a line "NAME:value" of INFO, or "". */
static struct sl_str info_of(struct sl_str text, const char *name)
{
    size_t len = strlen(name);
    const char *at = text.len > 0 ? memmem(text.at, text.len, name, len) : NULL;
    struct sl_str rest = SL_STR("");
    const char *end;

    if (!at)
        return rest;
    rest = sl_str_from(text, (size_t)(at - text.at) + len);
    end = rest.len > 0 ? memchr(rest.at, '\r', rest.len) : NULL;
    rest.len = end ? (size_t)(end - rest.at) : rest.len;
    return rest;
}

/* Warns if Redis would evict keys. Any other reply is ignored: INFO may be
 * forbidden. */
static void on_memory(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                      struct sl_str reply)
{
    const struct client *client = ((struct question *)cmd)->client;
    struct sl_resp_value value;
    struct sl_str most, policy;
    struct sl_diag message;

    if (result != SL_REDIS_REPLIED)
        return;
    value = sl_resp_next(&reply);
    if (value.type != SL_RESP_STRING)
        return;
    most = info_of(value.text, "\nmaxmemory:");
    policy = info_of(value.text, "\nmaxmemory_policy:");
    if (most.len == 0 || sl_str_eq(most, SL_STR("0")) || policy.len == 0 ||
        policy.len > 32 || sl_str_eq(policy, SL_STR("noeviction")))
        return;
    sl_diag_error(&message, 0,
                  "Redis evicts keys when it is full, and their usage is lost "
                  "(maxmemory-policy %.*s); set maxmemory-policy noeviction",
                  SL_STR_ARG(policy));
    sl_store_log_write(&client->base.log, SL_STORE_EVENT_TROUBLE,
                       message.sentence);
}

static void on_secret(struct client *client, struct sl_str text)
{
    struct sl_str info[] = {SL_STR("INFO"), SL_STR("memory")};
    bool changed;

    if (!sl_store_identity_see_secret(client->base.identity, text, &changed))
        return;
    if (changed)
        sl_store_log_write(
            &client->base.log, SL_STORE_EVENT_CHANGED,
            "the secret in Redis has changed; anonymous callers are counted "
            "per daemon until this daemon is restarted");
    if (!atomic_exchange(&client->base.counts.ready, true) &&
        !atomic_exchange(&client->base.identity->memory_asked, true))
        ask(&client->memory, info, SL_LEN(info), on_memory);
}

static void on_epoch(struct client *client, struct sl_str text)
{
    bool changed;

    if (sl_store_identity_see_epoch(client->base.identity, text, &changed) &&
        changed)
        sl_store_log_write(&client->base.log, SL_STORE_EVENT_CHANGED,
                           "the data in Redis was replaced: it was flushed "
                           "or restored, or this is another server");
}

/* Another process may have lost writes that were acknowledged: all that the
 * last one had not synced, or not sent to its replica. If the data was replaced
 * as a whole, on_epoch() has said so. */
static void on_server(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                      struct sl_str reply)
{
    struct question *q = (struct question *)cmd;
    struct sl_resp_value value;

    q->is_sent = false;
    if (result != SL_REDIS_REPLIED)
        return;
    value = sl_resp_next(&reply);
    if (value.type == SL_RESP_STRING &&
        sl_store_identity_see_process(q->client->base.identity,
                                      info_of(value.text, "\nrun_id:")))
        sl_store_log_write(
            &q->client->base.log, SL_STORE_EVENT_CHANGED,
            "Redis was restarted, or another server has taken over; unless it "
            "has appendfsync always, its last writes may be lost, and their "
            "units can be taken again");
}

static void on_identity(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                        struct sl_str reply)
{
    struct question *q = (struct question *)cmd;
    struct sl_str rest = reply;
    struct sl_resp_value value;

    q->is_sent = false;
    if (result != SL_REDIS_REPLIED)
        return;
    value = sl_resp_next(&rest);
    if (value.type != SL_RESP_STRING)
        log_error(q->client, reply);
    else if (q == &q->client->secret)
        on_secret(q->client, value.text);
    else
        on_epoch(q->client, value.text);
}

/* Reads the key, or writes `proposal` if it has no valid value. */
static void ask_key(struct question *q, const char *proposal)
{
    struct sl_str words[] = {
        SL_STR("EVAL"),
        SL_STR("local v = redis.pcall('GET', KEYS[1]) "
               "if type(v) == 'string' and #v == 32 then return v end "
               "redis.call('SET', KEYS[1], ARGV[1]) "
               "return ARGV[1]"),
        SL_STR("1"), sl_str_c(q->key), sl_str_c(proposal)};

    ask(q, words, SL_LEN(words), on_identity);
}

static void read_identity(struct client *client)
{
    char text[SL_STORE_IDENTITY + 1];

    if (!client->secret.is_sent) {
        sl_store_identity_secret(client->base.identity, text);
        ask_key(&client->secret, text);
        explicit_bzero(text, sizeof(text));
    }
    if (!client->epoch.is_sent && sl_store_identity_fresh(text) == 0)
        ask_key(&client->epoch, text);
}

/* Not in a cluster: its nodes are processes of their own. */
static void read_process(struct client *client)
{
    struct sl_str info[] = {SL_STR("INFO"), SL_STR("server")};

    if (!client->server.is_sent && !client->base.store->store.in_slots)
        ask(&client->server, info, SL_LEN(info), on_server);
}

static void on_timer(void *ctx)
{
    struct client *client = ctx;
    const struct redis *redis = (const struct redis *)client->base.store;
    sl_ns every = redis->options.look_every;

    if (!atomic_load(&client->base.counts.ready))
        every = READ_AGAIN;
    else if (every == 0)
        every = READ_EVERY;
    read_identity(client);
    sl_timer_start(client->timer, sl_jitter_span(&client->jitter, every));
}

/* ---- clients ---- */

static void on_change(void *ctx, bool up, const char *why)
{
    struct client *client = ctx;

    atomic_store(&client->base.counts.up,
                 client->cluster && sl_redis_cluster_is_up(client->cluster));
    sl_store_log_write(&client->base.log,
                       up ? SL_STORE_EVENT_UP : SL_STORE_EVENT_DOWN, why);
    if (up && client->cluster) {
        read_identity(client);
        read_process(client);
    }
}

static int client_open(struct sl_remote_client *base)
{
    struct client *client = (struct client *)base;
    const struct redis *redis = (const struct redis *)base->store;
    const struct sl_remote_options *o = base->options;
    struct sl_redis_cluster_options cluster = {
        .where = &redis->options.where,
        .loop = base->loop,
        .tls = redis->tls,
        .most = o->in_flight_most ? o->in_flight_most : IN_FLIGHT,
        .patience = o->deadline,
        .alloc = o->alloc,
        .on_change = on_change,
        .ctx = client,
    };
    struct question *questions[] = {&client->secret, &client->epoch,
                                    &client->memory, &client->server};
    const char *keys[] = {"sluice:secret", "sluice:epoch", "", ""};
    int err;

    for (unsigned i = 0; i < SL_LEN(questions); i++) {
        questions[i]->client = client;
        questions[i]->key = keys[i];
        sl_buf_init(&questions[i]->command, QUESTION_MOST, o->alloc);
    }
    err = sl_jitter_init(&client->jitter);
    if (!err)
        err = sl_timer_new(base->loop, on_timer, client, &client->timer);
    if (!err)
        err = sl_redis_cluster_open(&cluster, &client->cluster);
    if (!err)
        sl_timer_start(client->timer, 0);
    return err;
}

static void client_stop(struct sl_remote_client *base)
{
    sl_redis_cluster_close(((struct client *)base)->cluster);
}

static void client_close(struct sl_remote_client *base)
{
    struct client *client = (struct client *)base;
    struct sl_buf *secret = &client->secret.command;

    sl_timer_free(client->timer);
    if (secret->bytes)
        explicit_bzero(secret->bytes, secret->size);
    sl_buf_done(secret);
    sl_buf_done(&client->epoch.command);
    sl_buf_done(&client->memory.command);
    sl_buf_done(&client->server.command);
}

/* The slot of all keys of the set. False if there are several. */
static bool place(struct sl_remote_client *base, const struct sl_take *take,
                  unsigned *ret)
{
    if (!base->store->store.in_slots)
        return true;
    *ret = sl_cluster_slot_of(sl_take_part_name(&take->parts[0]));
    for (unsigned i = 1; i < take->count; i++)
        if (sl_cluster_slot_of(sl_take_part_name(&take->parts[i])) != *ret) {
            SL_REMOTE_COUNT(base, spanning);
            log_error((struct client *)base, SL_STR("-CROSSSLOT\r\n"));
            return false;
        }
    return true;
}

static bool accepts(const struct sl_remote_client *base, unsigned place)
{
    return sl_redis_cluster_is_accepting(((const struct client *)base)->cluster,
                                         place);
}

static sl_ns reconnect_in(const struct sl_remote_client *base)
{
    return sl_redis_cluster_reconnect_in(
        ((const struct client *)base)->cluster);
}

static void stats(const struct sl_remote_client *base,
                  struct sl_remote_stats *ret)
{
    const struct sl_redis_cluster_counts *c =
        sl_redis_cluster_counts(((const struct client *)base)->cluster);

    ret->redirected += atomic_load(&c->redirected);
    ret->storms += atomic_load(&c->storms);
}

/* ---- ops ---- */

static int op_init(struct sl_remote_op *base)
{
    struct op *op = of(base);

    sl_buf_init(&op->command, COMMAND_MOST, base->client->options->alloc);
    sl_buf_init(&op->whole, COMMAND_MOST, base->client->options->alloc);
    op->cmd.done = on_done;
    return 0;
}

static void op_reset(struct sl_remote_op *base)
{
    struct op *op = of(base);

    sl_buf_clear(&op->command);
    sl_buf_done(&op->whole);
    memset(&op->hold, 0, sizeof(op->hold));
    op->repairs = 0;
}

static void op_done(struct sl_remote_op *base)
{
    sl_buf_done(&of(base)->whole);
    sl_buf_done(&of(base)->command);
}

/* ---- commands ---- */

static struct sl_script_options options_of(const struct op *op, sl_ns now)
{
    struct sl_remote_client *client = op->base.client;
    sl_ns ahead =
        atomic_load_explicit(&client->counts.ahead, memory_order_relaxed);
    bool own_now = client->options->own_now;

    return (struct sl_script_options){
        .own_now = own_now,
        .near = own_now ? now : now + ahead,
    };
}

/* The name of a hold's record, in the slot of the op. */
static struct sl_str record_of(const struct op *op, struct sl_hold_id id,
                               char room[SL_HOLD_NAME])
{
    sl_script_hold_name(id, op->base.client->store->store.in_slots,
                        op->base.place, room);
    return sl_str_c(room);
}

static int encode_take(struct sl_remote_op *base, struct sl_take *take,
                       const struct sl_lease_keys *keys)
{
    struct op *op = of(base);
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

static int encode_call(struct op *op, const struct sl_hold_call *call,
                       bool undo, struct sl_buf *out)
{
    char name[SL_HOLD_NAME];
    struct sl_script_options how = options_of(op, call->now);

    how.record = record_of(op, call->id, name);
    how.undo = undo;
    return sl_script_hold_write(call, &how, out);
}

static int encode_hold(struct sl_remote_op *base, struct sl_hold_call *call)
{
    struct op *op = of(base);

    base->place = base->client->store->store.in_slots
                      ? call->place % SL_CLUSTER_SLOTS
                      : 0;
    return encode_call(op, call, false, &op->command);
}

static int encode_repeat(struct sl_remote_op *base,
                         const struct sl_repeat_call *call)
{
    struct op *op = of(base);
    struct sl_script_options how = options_of(op, call->now);
    char name[SL_REDIS_REPEAT_NAME];

    sl_redis_repeat_name(&call->claim, name);
    base->place = base->client->store->store.in_slots
                      ? sl_cluster_slot_of(sl_str_c(name))
                      : 0;
    return sl_redis_repeat_write(call, how.near, how.own_now, &op->command);
}

/* The refund takes the place of the command. */
static int encode_refund(struct sl_remote_op *base)
{
    struct op *op = of(base);
    struct sl_hold_call release = {.op = SL_HOLD_SETTLE,
                                   .id = op->hold,
                                   .release = true,
                                   .now = op->hold_now};
    struct sl_buf command;
    int err;

    sl_buf_clear(&op->whole);
    err = sl_hold_id_is_none(op->hold)
              ? sl_script_refund(sl_buf_str(&op->command), &op->whole)
              : encode_call(op, &release, true, &op->whole);
    if (err)
        return err;
    command = op->command;
    op->command = op->whole;
    op->whole = command;
    op->repairs = 0;
    return 0;
}

static int encode_lease_end(struct sl_remote_op *base,
                            const struct sl_lease_end *end, sl_ns now)
{
    struct op *op = of(base);
    struct sl_script_options how = options_of(op, now);

    return sl_script_end_lease(end->name, end->numbers, &how,
                               &end->asks.words[0], &op->command);
}

static void op_send(struct sl_remote_op *base)
{
    struct op *op = of(base);

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

static void read_leases(struct op *op, const int64_t *numbers, unsigned count)
{
    struct sl_remote_op *base = &op->base;
    struct sl_lease_counts counts = {0};

    if (base->leases.count == 0)
        return;
    sl_script_grant(base->client->leases, &base->leases, numbers, count,
                    base->sent, &counts);
    sl_remote_op_leases_granted(base, &counts);
}

/* The reply is in time. */
static void answer(struct op *op, const int64_t *numbers, unsigned count)
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

/* A key of another program is no failure of the server. */
static void fail_take(struct op *op, struct sl_str reply)
{
    struct sl_str text;
    bool alien = sl_redis_error_of(reply, &text) == SL_REDIS_ERROR_WRONGTYPE;

    if (alien)
        SL_REMOTE_COUNT(op->base.client, wrong_type);
    sl_remote_op_fail(&op->base, alien ? SL_REMOTE_REJECTED : SL_REMOTE_ERROR);
}

/* True: the op goes on as a refund. */
static bool on_take(struct op *op, struct sl_str reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count = 0;

    if (!read_numbers(reply, numbers, &count)) {
        log_error(client_of(op), reply);
        fail_take(op, reply);
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
    sl_denial_forgets_add_name(ctx, key);
}

/* A hold has ended, or was looked at. A late call is done nevertheless: a
 * repeated call reads its result. */
static void on_hold(struct op *op, struct sl_str reply)
{
    struct sl_hold_call unused = {.op = SL_HOLD_LOOK};
    struct sl_remote_op *base = &op->base;

    if (sl_script_hold_read(base->hold ? base->hold : &unused, reply, on_key,
                            &base->client->identity->forgets)) {
        sl_remote_op_succeed(base, false);
        return;
    }
    log_error(client_of(op), reply);
    if (base->hold)
        sl_remote_op_fail(base, SL_REMOTE_ERROR);
}

/* A late claim is dropped by its caller. */
static void on_repeat(struct op *op, struct sl_str reply)
{
    struct sl_repeat_call unused = {.memo = NULL};
    struct sl_remote_op *base = &op->base;

    if (sl_redis_repeat_read(base->repeat ? base->repeat : &unused, reply)) {
        sl_remote_op_succeed(base, false);
        return;
    }
    log_error(client_of(op), reply);
    sl_remote_op_fail(base, SL_REMOTE_ERROR);
}

static void on_lease_end(struct op *op, enum sl_redis_result result,
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
static bool repair(struct op *op)
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
    struct op *op = (struct op *)((char *)cmd - offsetof(struct op, cmd));
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
    else if (op->base.is_repeat && replied)
        on_repeat(op, reply);
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

/* A take of which a part waits to be written has not been done. If it is done
 * later, it is refunded. */
static bool cancel(struct sl_remote_op *base, bool *ret_uncertain)
{
    bool cancelled = sl_redis_cluster_cancel(&of(base)->cmd);

    *ret_uncertain =
        !cancelled && (base->kind != SL_TAKE_OP_TAKE ||
                       sl_redis_cluster_is_written(&of(base)->cmd));
    return cancelled;
}

/* ---- the store ---- */

static void store_close(struct sl_remote_store *remote)
{
    sl_tls_unref(((struct redis *)remote)->tls);
}

static const struct sl_remote_backend backend = {
    .store_size = sizeof(struct redis),
    .client_size = sizeof(struct client),
    .op_size = sizeof(struct op),
    .spares = SPARES,
    .keep_part = sl_script_keep,
    .store_close = store_close,
    .client_open = client_open,
    .client_stop = client_stop,
    .client_close = client_close,
    .place = place,
    .accepts = accepts,
    .reconnect_in = reconnect_in,
    .stats = stats,
    .op_init = op_init,
    .op_reset = op_reset,
    .op_done = op_done,
    .encode_take = encode_take,
    .encode_hold = encode_hold,
    .encode_repeat = encode_repeat,
    .encode_refund = encode_refund,
    .encode_lease_end = encode_lease_end,
    .send = op_send,
    .cancel = cancel,
};

int sl_redis_open(const struct sl_redis_options *options, struct sl_store **ret,
                  struct sl_diag *diag)
{
    struct sl_tls_client_options tls = {options->where.ca, options->where.cert,
                                        options->where.key};
    struct sl_remote_store *remote;
    struct redis *redis;
    int err = sl_remote_store_open(&backend, &options->remote, &remote, diag);

    if (err)
        return err;
    redis = (struct redis *)remote;
    redis->options = *options;
    remote->store.in_slots = options->where.kind == SL_REDIS_CLUSTER;
    if (options->where.tls)
        err = sl_tls_open_client(&tls, &redis->tls, diag);
    if (err) {
        sl_store_close(&remote->store);
        return err;
    }
    *ret = &remote->store;
    return 0;
}
