/* identity.c -- the secret that all who share this Redis have, and the marker.
 *
 * Each is one key, and one command that reads it, or puts ours there if there
 * is none: SET with NX and GET does that at once, but not before version 7.
 */
#include <string.h>

#include "base/hash.h"
#include "store/redis/redis_int.h"

#define EVERY   (5 * SL_S)
#define AGAIN   (100 * SL_MS) /* while the secret is not known */
#define COMMAND 1024

static const char script[] =
    "local v = redis.pcall('GET', KEYS[1]) "
    "if type(v) == 'string' and #v == 32 then return v end "
    "redis.call('SET', KEYS[1], ARGV[1]) "
    "return ARGV[1]";

struct question {
    struct sl_redis_cmd cmd; /* first */
    struct sl_redis_identity *identity;
    const char *key;
    struct sl_buf command;
    bool is_out;
};

struct sl_redis_identity {
    struct sl_redis_identity_options options;
    struct question secret, epoch, memory;
    struct sl_timer *timer;
    struct sl_jitter dice;
    bool ready;
};

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

/* A server that may not be asked, or says something else, is left alone. */
static void see_memory(struct sl_redis_identity *identity, struct sl_str text)
{
    const struct sl_redis_identity_options *o = &identity->options;
    struct sl_str most = info_of(text, "\nmaxmemory:");
    struct sl_str policy = info_of(text, "\nmaxmemory_policy:");
    struct sl_diag said;

    if (most.len == 0 || sl_str_eq(most, SL_STR("0")) || policy.len == 0 ||
        policy.len > 32 || sl_str_eq(policy, SL_STR("noeviction")))
        return;
    sl_diag_error(&said, 0,
                  "Redis evicts keys when it is full, and their usage is lost "
                  "(maxmemory-policy %.*s); set maxmemory-policy noeviction",
                  SL_STR_ARG(policy));
    o->on_warning(o->ctx, said.sentence);
}

static void on_memory(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                      struct sl_str reply)
{
    struct question *q = (struct question *)cmd;
    struct sl_resp_value value;

    q->is_out = false;
    if (result != SL_REDIS_REPLIED)
        return;
    value = sl_resp_next(&reply);
    if (value.type == SL_RESP_STRING)
        see_memory(q->identity, value.text);
}

/* Once, by whichever seat is the first. */
static void ask_memory(struct sl_redis_identity *identity)
{
    struct question *q = &identity->memory;
    struct sl_str words[] = {SL_STR("INFO"), SL_STR("memory")};

    if (atomic_exchange(&identity->options.shared->memory_asked, true) ||
        sl_resp_command_write(&q->command, words, SL_LEN(words)))
        return;
    q->is_out = true;
    q->cmd.wire.command = sl_buf_str(&q->command);
    q->cmd.slot = 0;
    q->cmd.done = on_memory;
    sl_redis_cluster_send(identity->options.cluster, &q->cmd);
}

static void see_secret(struct sl_redis_identity *identity, struct sl_str text)
{
    const struct sl_redis_identity_options *o = &identity->options;
    bool changed;

    if (!sl_store_identity_see_secret(o->shared, text, &changed))
        return;
    if (changed)
        o->on_changed(o->ctx,
                      "the secret in Redis has changed; anonymous callers are "
                      "counted per daemon until this daemon is restarted");
    if (!identity->ready) {
        identity->ready = true;
        o->on_ready(o->ctx);
        ask_memory(identity);
    }
}

static void see_epoch(struct sl_redis_identity *identity, struct sl_str text)
{
    const struct sl_redis_identity_options *o = &identity->options;
    bool changed;

    if (sl_store_identity_see_epoch(o->shared, text, &changed) && changed)
        o->on_changed(o->ctx, "the data in Redis was replaced: it was flushed "
                              "or restored, or this is another server");
}

static void on_done(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                    struct sl_str reply)
{
    struct question *q = (struct question *)cmd;
    struct sl_redis_identity *identity = q->identity;
    struct sl_str rest = reply;
    struct sl_resp_value value;

    q->is_out = false;
    if (result != SL_REDIS_REPLIED)
        return;
    value = sl_resp_next(&rest);
    if (value.type != SL_RESP_STRING)
        identity->options.on_reply(identity->options.ctx, reply);
    else if (q == &identity->secret)
        see_secret(identity, value.text);
    else
        see_epoch(identity, value.text);
}

static void ask(struct question *q, const char *proposal)
{
    struct sl_str words[] = {SL_STR("EVAL"), sl_str_c(script), SL_STR("1"),
                             sl_str_c(q->key), sl_str_c(proposal)};

    sl_buf_clear(&q->command);
    if (sl_resp_command_write(&q->command, words, SL_LEN(words)))
        return; /* there is no memory: the next time */
    q->is_out = true;
    q->cmd.wire.command = sl_buf_str(&q->command);
    q->cmd.slot = sl_cluster_slot_of(sl_str_c(q->key));
    q->cmd.done = on_done;
    sl_redis_cluster_send(q->identity->options.cluster, &q->cmd);
}

void sl_redis_identity_go(struct sl_redis_identity *identity)
{
    char text[SL_STORE_IDENTITY + 1];

    if (!identity->secret.is_out) {
        sl_store_identity_secret(identity->options.shared, text);
        ask(&identity->secret, text);
        explicit_bzero(text, sizeof(text));
    }
    if (!identity->epoch.is_out && sl_store_identity_fresh(text) == 0)
        ask(&identity->epoch, text);
}

static void on_timer(void *ctx)
{
    struct sl_redis_identity *identity = ctx;
    sl_ns every = identity->options.every > 0 ? identity->options.every : EVERY;

    sl_redis_identity_go(identity);
    sl_timer_start(
        identity->timer,
        sl_jitter_span(&identity->dice, identity->ready ? every : AGAIN));
}

static void question_init(struct sl_redis_identity *identity,
                          struct question *q, const char *key)
{
    q->identity = identity;
    q->key = key;
    sl_buf_init(&q->command, COMMAND, identity->options.alloc);
}

int sl_redis_identity_open(const struct sl_redis_identity_options *options,
                           struct sl_redis_identity **ret)
{
    struct sl_redis_identity *identity =
        sl_alloc_new(options->alloc, sizeof(*identity));
    int err;

    if (!identity)
        return SLUICE_ENOMEM;
    *identity = (struct sl_redis_identity){.options = *options};
    question_init(identity, &identity->secret, "sluice:secret");
    question_init(identity, &identity->epoch, "sluice:epoch");
    question_init(identity, &identity->memory, "");
    err = sl_jitter_init(&identity->dice);
    if (!err)
        err = sl_timer_new(options->loop, on_timer, identity, &identity->timer);
    if (err) {
        sl_redis_identity_close(identity);
        return err;
    }
    *ret = identity;
    sl_timer_start(identity->timer, 0);
    return 0;
}

void sl_redis_identity_close(struct sl_redis_identity *identity)
{
    if (!identity)
        return;
    sl_timer_free(identity->timer);
    if (identity->secret.command.bytes)
        explicit_bzero(identity->secret.command.bytes,
                       identity->secret.command.size);
    sl_buf_done(&identity->secret.command);
    sl_buf_done(&identity->epoch.command);
    sl_buf_done(&identity->memory.command);
    sl_alloc_free(identity->options.alloc, identity, sizeof(*identity));
}
