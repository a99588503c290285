/* redis.c -- Redis as a back end of the remote store: clients. op.c has the
 * ops. */
#include "store/redis/redis.h"

#include "store/redis/redis_int.h"

#define IN_FLIGHT 8192
#define SPARES    256

struct redis {
    struct sl_remote_store remote; /* first */
    struct sl_redis_options options;
    struct sl_tls *tls;
};

static struct sl_redis_client *of(struct sl_remote_client *base)
{
    return (struct sl_redis_client *)base;
}

static const struct sl_redis_client *
of_const(const struct sl_remote_client *base)
{
    return (const struct sl_redis_client *)base;
}

/* ---- status ---- */

void sl_redis_client_error(struct sl_redis_client *client, struct sl_str reply)
{
    struct sl_remote_client *base = &client->base;
    struct sl_diag message;
    struct sl_str text;
    enum sl_redis_error error = sl_redis_error_of(reply, &text);

    if (!sl_store_log_is_due(&base->log, (int)error, sl_loop_mono(base->loop)))
        return;
    text.len = text.len < 80 ? text.len : 80;
    sl_diag_error(&message, 0, "%s (%.*s)", sl_redis_error_sentence(error),
                  SL_STR_ARG(text));
    sl_store_log_write(&base->log, SL_STORE_EVENT_TROUBLE, message.sentence);
}

static void on_change(void *ctx, bool up, const char *why)
{
    struct sl_redis_client *client = ctx;

    atomic_store(&client->base.counts.up,
                 client->cluster && sl_redis_cluster_is_up(client->cluster));
    sl_store_log_write(&client->base.log,
                       up ? SL_STORE_EVENT_UP : SL_STORE_EVENT_DOWN, why);
    if (up && client->identity)
        sl_redis_identity_go(client->identity);
}

static void on_ready(void *ctx)
{
    struct sl_redis_client *client = ctx;

    atomic_store(&client->base.counts.ready, true);
}

static void on_changed(void *ctx, const char *sentence)
{
    const struct sl_redis_client *client = ctx;

    sl_store_log_write(&client->base.log, SL_STORE_EVENT_CHANGED, sentence);
}

static void on_warning(void *ctx, const char *sentence)
{
    const struct sl_redis_client *client = ctx;

    sl_store_log_write(&client->base.log, SL_STORE_EVENT_TROUBLE, sentence);
}

static void on_bad_reply(void *ctx, struct sl_str reply)
{
    sl_redis_client_error(ctx, reply);
}

/* ---- clients ---- */

static int client_open(struct sl_remote_client *base)
{
    struct sl_redis_client *client = of(base);
    const struct redis *redis = (const struct redis *)base->store;
    const struct sl_remote_options *o = base->options;
    struct sl_redis_cluster_options cluster = {
        .where = &redis->options.where,
        .loop = base->loop,
        .tls = redis->tls,
        .most = o->in_flight_most ? o->in_flight_most : IN_FLIGHT,
        .alloc = o->alloc,
        .on_change = on_change,
        .ctx = client,
    };
    struct sl_redis_identity_options identity = {
        .loop = base->loop,
        .shared = base->identity,
        .every = redis->options.look_every,
        .alloc = o->alloc,
        .on_ready = on_ready,
        .on_changed = on_changed,
        .on_reply = on_bad_reply,
        .on_warning = on_warning,
        .ctx = client,
    };
    int err = sl_redis_cluster_open(&cluster, &client->cluster);

    identity.cluster = client->cluster;
    return err ? err : sl_redis_identity_open(&identity, &client->identity);
}

static void client_stop(struct sl_remote_client *base)
{
    sl_redis_cluster_close(of(base)->cluster);
}

static void client_close(struct sl_remote_client *base)
{
    sl_redis_identity_close(of(base)->identity);
}

sl_ns sl_redis_client_near(const struct sl_redis_client *client, sl_ns now)
{
    sl_ns ahead =
        atomic_load_explicit(&client->base.counts.ahead, memory_order_relaxed);

    return client->base.options->own_now ? now : now + ahead;
}

/* The slot of all keys of the set. False if there are several. */
static bool place(struct sl_remote_client *base, const struct sl_take *take,
                  unsigned *ret)
{
    if (!sl_redis_cluster_is_cluster(of(base)->cluster))
        return true;
    *ret = sl_cluster_slot_of(sl_take_part_name(&take->parts[0]));
    for (unsigned i = 1; i < take->count; i++)
        if (sl_cluster_slot_of(sl_take_part_name(&take->parts[i])) != *ret) {
            SL_REMOTE_COUNT(base, spanning);
            sl_redis_client_error(of(base), SL_STR("-CROSSSLOT\r\n"));
            return false;
        }
    return true;
}

static bool accepts(const struct sl_remote_client *base, unsigned place)
{
    return sl_redis_cluster_is_accepting(of_const(base)->cluster, place);
}

static sl_ns reconnect_in(const struct sl_remote_client *base)
{
    return sl_redis_cluster_reconnect_in(of_const(base)->cluster);
}

static bool cancel(struct sl_remote_op *base, bool *ret_uncertain)
{
    bool cancelled =
        sl_redis_cluster_cancel(&((struct sl_redis_op *)base)->cmd);

    *ret_uncertain = !cancelled;
    return cancelled;
}

static void stats(const struct sl_remote_client *base,
                  struct sl_remote_stats *ret)
{
    const struct sl_redis_cluster_counts *c =
        sl_redis_cluster_counts(of_const(base)->cluster);

    ret->redirected += atomic_load(&c->redirected);
    ret->storms += atomic_load(&c->storms);
}

/* ---- the store ---- */

static void store_close(struct sl_remote_store *remote)
{
    sl_tls_unref(((struct redis *)remote)->tls);
}

static const struct sl_remote_backend backend = {
    .store_size = sizeof(struct redis),
    .client_size = sizeof(struct sl_redis_client),
    .op_size = sizeof(struct sl_redis_op),
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
    .op_init = sl_redis_op_init,
    .op_reset = sl_redis_op_reset,
    .op_done = sl_redis_op_done,
    .encode_take = sl_redis_op_encode_take,
    .encode_hold = sl_redis_op_encode_hold,
    .encode_refund = sl_redis_op_encode_refund,
    .encode_lease_end = sl_redis_op_encode_lease_end,
    .send = sl_redis_op_send,
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
