/* remote_store.c -- the remote store: the daemon's part, and the node count.
 *
 * Each loop has a store client, from before it runs until it has stopped.
 * Status changes are reported on their threads. The main thread writes the log
 * some times a second, so that one outage is one line, however many loops have
 * seen it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/engine_int.h"
#include "sluiced/daemon.h"
#include "store/dynamo/dynamo.h"
#include "store/redis/redis.h"

/* A shorter loss of connection is not an outage. */
#define PATIENCE (500 * SL_MS)

/* ---- status ---- */

static void keep_why(struct sl_remote_state *common, const char *sentence)
{
    pthread_mutex_lock(&common->lock);
    snprintf(common->why, sizeof(common->why), "%s", sentence);
    pthread_mutex_unlock(&common->lock);
}

static void on_news(void *ctx, enum sl_store_event news, const char *sentence)
{
    struct sl_daemon *daemon = ctx;

    switch (news) {
    case SL_STORE_EVENT_DOWN:
        keep_why(&daemon->remote, sentence);
        break;
    case SL_STORE_EVENT_OPENED:
        if (!daemon->remote.why[0])
            keep_why(&daemon->remote, sentence);
        break;
    case SL_STORE_EVENT_UP:
    case SL_STORE_EVENT_CLOSED:
        break;
    case SL_STORE_EVENT_TROUBLE:
        sl_log(SL_LOG_WARN, "store error", "why", sentence, NULL);
        break;
    case SL_STORE_EVENT_CHANGED:
        sl_log(SL_LOG_WARN, "store data replaced", "why", sentence, NULL);
        break;
    }
}

/* ---- polling ---- */

static bool answers(const struct sl_remote_stats *stats)
{
    return stats->up == stats->clients && stats->ready == stats->clients &&
           !stats->open;
}

static void copy_why(struct sl_remote_state *common, char why[256])
{
    pthread_mutex_lock(&common->lock);
    memcpy(why, common->why, sizeof(common->why));
    pthread_mutex_unlock(&common->lock);
}

static void say_gone(struct sl_daemon *daemon)
{
    char why[256];

    copy_why(&daemon->remote, why);
    daemon->remote.is_gone = true;
    sl_log(SL_LOG_WARN, "store unavailable", "why",
           why[0] ? why : "the store does not answer", "then",
           "on_store_failure of each limit applies", NULL);
}

static void say_back(struct sl_daemon *daemon, sl_ns mono)
{
    struct sl_remote_state *common = &daemon->remote;
    char span[32];

    sl_format_duration((mono - common->gone_since) / SL_MS * SL_MS, span);
    sl_log(SL_LOG_INFO, "store available", "after", span, NULL);
    common->is_gone = false;
    keep_why(common, "");
}

void sl_remote_poll(struct sl_daemon *daemon)
{
    struct sl_remote_state *common = &daemon->remote;
    struct sl_loop *loop = daemon->workers[0].loop;
    sl_ns mono = sl_loop_mono(loop);
    struct sl_remote_stats stats;

    if (!common->store)
        return;
    sl_remote_store_stats(common->store, &stats);
    if (answers(&stats)) {
        if (common->is_gone)
            say_back(daemon, mono);
        common->gone_since = 0;
        sl_engine_settle(daemon->engine, loop, sl_loop_now(loop));
        return;
    }
    if (common->gone_since == 0)
        common->gone_since = mono;
    if (!common->is_gone && mono - common->gone_since >= PATIENCE)
        say_gone(daemon);
}

bool sl_remote_answers(struct sl_daemon *daemon, struct sl_buf *why)
{
    struct sl_remote_state *common = &daemon->remote;
    struct sl_remote_stats stats;
    char text[256];

    if (!common->store)
        return true;
    sl_remote_store_stats(common->store, &stats);
    if (answers(&stats))
        return true;
    copy_why(common, text);
    if (sl_buf_addf(why,
                    "the store does not answer%s%s; on_store_failure of each "
                    "limit applies",
                    text[0] ? ": " : "", text))
        sl_buf_clear(why);
    return false;
}

/* ---- counts ---- */

void sl_remote_count(struct sl_daemon *daemon, struct sl_metrics_shared *ret)
{
    struct sl_remote_stats s;
    struct sl_debts_stats d;

    *ret = (struct sl_metrics_shared){.on = daemon->remote.store != NULL};
    if (!ret->on)
        return;
    sl_remote_store_stats(daemon->remote.store, &s);
    sl_engine_debts(daemon->engine, &d);
    ret->answers = answers(&s);
    ret->ahead = s.ahead;
    ret->numbers[SL_STORE_NUM_ANSWERED] = s.taken;
    ret->numbers[SL_STORE_NUM_REMEMBERED] = s.remembered;
    ret->numbers[SL_STORE_NUM_LEASED] = s.leased;
    ret->numbers[SL_STORE_NUM_LEASE_TOKENS] = s.lease_tokens;
    ret->numbers[SL_STORE_NUM_LEASE_OVER] = s.lease_over;
    ret->numbers[SL_STORE_NUM_LEASE_UNDER] = s.lease_under;
    ret->numbers[SL_STORE_NUM_LATE] = s.late;
    ret->numbers[SL_STORE_NUM_FAILED] = s.failed;
    ret->numbers[SL_STORE_NUM_SPANNING] = s.spanning;
    ret->numbers[SL_STORE_NUM_RETURNED] = s.returned;
    ret->numbers[SL_STORE_NUM_UNCERTAIN] = s.uncertain;
    ret->numbers[SL_STORE_NUM_FOREIGN] = s.strange;
    ret->numbers[SL_STORE_NUM_REPAIRS] = s.repaired + s.unmet;
    ret->numbers[SL_STORE_NUM_REDIRECTED] = s.redirected;
    ret->numbers[SL_STORE_NUM_STORMS] = s.storms + s.throttled;
    ret->numbers[SL_STORE_NUM_EPOCHS] = s.epochs;
    ret->numbers[SL_STORE_NUM_LOOPS] = s.up;
    ret->numbers[SL_STORE_NUM_BREAKER] = s.open;
    ret->numbers[SL_STORE_NUM_NODES] = atomic_load(&daemon->remote.nodes);
    ret->numbers[SL_STORE_NUM_DEBTS] = d.keys;
    ret->numbers[SL_STORE_NUM_CHARGED] = d.charged;
    ret->numbers[SL_STORE_NUM_FORGIVEN] = d.forgiven;
    ret->numbers[SL_STORE_NUM_LOST] = d.lost;
}

/* ---- life ---- */

/* As AWS tools do: an empty variable is not set. */
static const char *said(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

void sl_remote_env(struct sl_aws_env *ret)
{
    const char *off = said("AWS_EC2_METADATA_DISABLED");

    *ret = (struct sl_aws_env){
        .key_id = said("AWS_ACCESS_KEY_ID"),
        .secret = said("AWS_SECRET_ACCESS_KEY"),
        .token = said("AWS_SESSION_TOKEN"),
        .file = said("AWS_SHARED_CREDENTIALS_FILE"),
        .profile = said("AWS_PROFILE"),
        .home = said("HOME"),
        .container_relative = said("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        .container_full = said("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        .container_token = said("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        .container_token_file = said("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        .metadata = said("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        .no_metadata = off && strcasecmp(off, "true") == 0,
    };
}

/* The options that both remote stores share. */
static struct sl_remote_options remote_options(struct sl_daemon *daemon)
{
    return (struct sl_remote_options){
        .deadline = daemon->settings.deadline,
        .own_now = daemon->settings.virtual_clock,
        .no_denials = daemon->settings.virtual_clock,
        .no_leases = daemon->settings.virtual_clock,
        .on_event = on_news,
        .ctx = daemon,
    };
}

static int open_dynamo(struct sl_daemon *daemon)
{
    struct sl_dynamo_options options = {
        .where = daemon->settings.dynamo,
        .remote = remote_options(daemon),
    };

    sl_remote_env(&options.env);
    return sl_dynamo_open(&options, &daemon->state.store, &daemon->why);
}

static int open_redis(struct sl_daemon *daemon)
{
    struct sl_redis_options options = {
        .where = daemon->settings.redis,
        .remote = remote_options(daemon),
    };

    return sl_redis_open(&options, &daemon->state.store, &daemon->why);
}

int sl_remote_open(struct sl_daemon *daemon)
{
    daemon->state = (struct sl_state){.lock = -1};
    pthread_mutex_init(&daemon->remote.lock, NULL);
    if (daemon->settings.in_dynamo ? open_dynamo(daemon) : open_redis(daemon))
        return SL_EXIT_STORE;
    daemon->remote.store = daemon->state.store;
    return 0;
}

int sl_remote_attach(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;

    if (!daemon->remote.store)
        return 0;
    return sl_remote_store_attach(daemon->remote.store, worker->loop,
                                  &daemon->why);
}

void sl_remote_drain(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;

    if (daemon->remote.store)
        sl_remote_store_drain(daemon->remote.store, worker->loop,
                              sl_loop_now(worker->loop));
}

bool sl_remote_has_count(const struct sl_daemon *daemon)
{
    return daemon->remote.store && daemon->settings.in_dynamo;
}

bool sl_remote_is_busy(const struct sl_daemon *daemon)
{
    struct sl_remote_stats stats;

    if (!sl_remote_has_count(daemon))
        return daemon->remote.store != NULL;
    sl_remote_store_stats(daemon->remote.store, &stats);
    return stats.under_way > 0;
}

void sl_remote_detach(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;

    if (daemon->remote.store && worker->loop)
        sl_remote_store_detach(daemon->remote.store, worker->loop);
}

static void on_count(void *ctx, unsigned count)
{
    struct sl_daemon *daemon = ctx;

    atomic_store(&daemon->remote.nodes, count);
    sl_engine_nodes(daemon->engine, count);
}

/* With a virtual clock there are no windows to count in. */
int sl_remote_begin(struct sl_daemon *daemon)
{
    struct sl_remote_state *common = &daemon->remote;

    if (!common->store || daemon->settings.virtual_clock)
        return 0;
    common->node_count.on_count = on_count;
    common->node_count.ctx = daemon;
    if (!sl_node_count_begin(&common->node_count, common->store,
                             daemon->workers[0].loop,
                             daemon->policy_source.policy->env))
        return 0;
    sl_diag_error(&daemon->why, SLUICE_ENOMEM, "out of memory");
    return SL_EXIT_FAILED;
}

void sl_remote_end(struct sl_daemon *daemon)
{
    sl_node_count_end(&daemon->remote.node_count);
}

/* ---- how many daemons share a store. */

#define FIRST      (50 * SL_MS)  /* until the store may be connected */
#define AGAIN      SL_S          /* after a failure */
#define EARLY      (700 * SL_MS) /* before the end of a window, to read */
#define LATE       (200 * SL_MS) /* after its start, to take */
#define NODES_MOST 100000

static void ask(struct sl_node_count *node_count)
{
    node_count->part.cost = node_count->reading ? 0 : 1;
    node_count->take = (struct sl_take){
        .op = SL_TAKE_OP_TAKE,
        .parts = &node_count->part,
        .count = 1,
        .now = sl_loop_now(node_count->loop),
        .loop = node_count->loop,
        .done = sl_node_count_done,
        .ctx = node_count,
    };
    sl_store_take(node_count->store, &node_count->take);
}

static void on_time(void *ctx)
{
    ask(ctx);
}

/* Uses the larger count of two windows: a late daemon is in one of them. */
static void count(struct sl_node_count *node_count, unsigned is)
{
    if (node_count->on_count)
        node_count->on_count(node_count->ctx,
                             is > node_count->before ? is : node_count->before);
}

void sl_node_count_done(struct sl_take *take)
{
    struct sl_node_count *node_count = take->ctx;
    const struct sl_answer *a = &node_count->part.answer;
    uint64_t used = a->capacity - a->remaining;
    unsigned is = used < NODES_MOST ? (unsigned)used : NODES_MOST;

    if (node_count->ended)
        return;
    if (take->err) {
        node_count->reading = false;
        sl_timer_start(node_count->timer, AGAIN);
        return;
    }
    count(node_count, is);
    if (!node_count->reading && a->reset_in > EARLY) {
        node_count->reading = true;
        sl_timer_start(node_count->timer, a->reset_in - EARLY);
        return;
    }
    node_count->before = is;
    node_count->reading = false;
    sl_timer_start(node_count->timer, a->reset_in + LATE);
}

int sl_node_count_begin(struct sl_node_count *node_count,
                        struct sl_store *store, struct sl_loop *loop,
                        struct sl_str env)
{
    int err = sl_timer_new(loop, on_time, node_count, &node_count->timer);

    if (err)
        return err;
    snprintf(node_count->name, sizeof(node_count->name), "sluice:%.80s:#nodes",
             env.at);
    node_count->store = store;
    node_count->loop = loop;
    node_count->limit = (struct sl_limit){
        .kind = SL_FIXED,
        .count = SL_COUNT_MAX,
        .capacity = SL_COUNT_MAX,
        .period = SL_NODE_COUNT,
    };
    sl_limit_derive(&node_count->limit);
    node_count->stored = (struct sl_limit_binding){
        .name = "#nodes", .strictest = node_count->limit};
    node_count->part = (struct sl_part){
        .binding = &node_count->stored,
        .limit = &node_count->limit,
        .key = sl_str_c(node_count->name),
        .name = sl_str_c(node_count->name),
    };
    err = sl_store_bind(store, &node_count->stored, 1, NULL);
    if (!err)
        sl_timer_start(node_count->timer, FIRST);
    return err;
}

void sl_node_count_end(struct sl_node_count *node_count)
{
    node_count->ended = true;
    sl_timer_free(node_count->timer);
    node_count->timer = NULL;
}
