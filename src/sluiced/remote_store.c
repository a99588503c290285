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

/* `first`: only if there is no sentence yet. */
static void set_why(struct sl_daemon_store *store, const char *sentence,
                    bool first)
{
    pthread_mutex_lock(&store->lock);
    if (!first || !store->why[0])
        snprintf(store->why, sizeof(store->why), "%s", sentence);
    pthread_mutex_unlock(&store->lock);
}

static void get_why(struct sl_daemon_store *store, char why[256])
{
    pthread_mutex_lock(&store->lock);
    memcpy(why, store->why, sizeof(store->why));
    pthread_mutex_unlock(&store->lock);
}

static void on_event(void *ctx, enum sl_store_event event, const char *sentence)
{
    struct sl_daemon *daemon = ctx;

    if (event == SL_STORE_EVENT_DOWN || event == SL_STORE_EVENT_OPENED)
        set_why(&daemon->remote, sentence, event == SL_STORE_EVENT_OPENED);
    else if (event == SL_STORE_EVENT_TROUBLE)
        sl_log(SL_LOG_WARN, "store error", "why", sentence, NULL);
    else if (event == SL_STORE_EVENT_CHANGED)
        sl_log(SL_LOG_WARN, "store data replaced", "why", sentence, NULL);
}

static bool answers(const struct sl_remote_stats *stats)
{
    return stats->up == stats->clients && stats->ready == stats->clients &&
           !stats->open;
}

/* A suggestion: time for several round trips, at least that for hosted stores.
 */
static sl_ns enough_for(sl_ns latency)
{
    sl_ns some = (5 * latency + 10 * SL_MS - 1) / (10 * SL_MS) * 10 * SL_MS;

    return some > 250 * SL_MS ? some : 250 * SL_MS;
}

/* Warns when a round trip takes more than a third of the deadline, and again
 * after it was less than a quarter. */
static void warn_slow(struct sl_daemon *daemon, sl_ns latency)
{
    struct sl_daemon_store *remote = &daemon->remote;
    sl_ns deadline = daemon->settings.deadline;
    char took[32], most[32], why[160];

    if (remote->is_slow) {
        remote->is_slow = latency > deadline / 4;
        return;
    }
    if (latency <= deadline / 3)
        return;
    remote->is_slow = true;
    sl_format_duration(enough_for(latency), took);
    snprintf(why, sizeof(why),
             "a take that is not answered in time fails, and on_store_failure "
             "decides; set server.deadline to %s or more",
             took);
    sl_format_duration((latency + SL_MS - 1) / SL_MS * SL_MS, took);
    sl_format_duration(deadline, most);
    sl_log(SL_LOG_WARN, "store slow", "latency", took, "deadline", most, "why",
           why, NULL);
}

void sl_daemon_store_poll(struct sl_daemon *daemon)
{
    struct sl_daemon_store *remote = &daemon->remote;
    struct sl_loop *loop = daemon->workers[0].loop;
    sl_ns mono = sl_loop_mono(loop);
    struct sl_remote_stats stats;
    char why[256], span[32];

    if (!remote->store)
        return;
    sl_remote_store_stats(remote->store, &stats);
    warn_slow(daemon, stats.latency);
    if (answers(&stats)) {
        if (remote->is_gone) {
            sl_format_duration((mono - remote->gone_since) / SL_MS * SL_MS,
                               span);
            sl_log(SL_LOG_INFO, "store available", "after", span, NULL);
            set_why(remote, "", false);
        }
        remote->is_gone = false;
        remote->gone_since = 0;
        sl_engine_settle(daemon->engine, loop, sl_loop_now(loop));
        return;
    }
    if (remote->gone_since == 0)
        remote->gone_since = mono;
    if (remote->is_gone || mono - remote->gone_since < PATIENCE)
        return;
    remote->is_gone = true;
    get_why(remote, why);
    sl_log(SL_LOG_WARN, "store unavailable", "why",
           why[0] ? why : "the store does not answer", "then",
           "on_store_failure of each limit applies", NULL);
}

void sl_daemon_store_explain(struct sl_daemon *daemon, struct sl_buf *why)
{
    struct sl_remote_stats stats;
    char text[256];

    if (!daemon->remote.store)
        return;
    sl_remote_store_stats(daemon->remote.store, &stats);
    if (answers(&stats))
        return;
    get_why(&daemon->remote, text);
    if (sl_buf_addf(why,
                    "the store does not answer%s%s; on_store_failure of each "
                    "limit applies",
                    text[0] ? ": " : "", text))
        sl_buf_clear(why);
}

/* ---- counts ---- */

void sl_daemon_store_count(struct sl_daemon *daemon,
                           struct sl_metrics_shared *ret)
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
    ret->latency = s.latency;
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
    ret->numbers[SL_STORE_NUM_WRONG_TYPE] = s.wrong_type;
    ret->numbers[SL_STORE_NUM_REPAIRS] = s.repaired + s.unmet;
    ret->numbers[SL_STORE_NUM_REDIRECTED] = s.redirected;
    ret->numbers[SL_STORE_NUM_STORMS] = s.storms + s.throttled;
    ret->numbers[SL_STORE_NUM_EPOCHS] = s.epochs + s.restarts;
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
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

struct sl_aws_env sl_daemon_aws_env(void)
{
    const char *off = variable("AWS_EC2_METADATA_DISABLED");

    return (struct sl_aws_env){
        .key_id = variable("AWS_ACCESS_KEY_ID"),
        .secret = variable("AWS_SECRET_ACCESS_KEY"),
        .token = variable("AWS_SESSION_TOKEN"),
        .file = variable("AWS_SHARED_CREDENTIALS_FILE"),
        .profile = variable("AWS_PROFILE"),
        .home = variable("HOME"),
        .container_relative =
            variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        .container_full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        .container_token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        .container_token_file =
            variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        .metadata = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        .no_metadata = off && strcasecmp(off, "true") == 0,
    };
}

/* Quotas stay in the table, which has their leases; and in the remote store, if
 * other daemons there cannot use the usage database. */
static int combine(struct sl_daemon *daemon)
{
    struct sl_combined_options options = {
        .local = daemon->state.store,
        .remote = daemon->remote.store,
        .deadline = daemon->settings.deadline,
        .twice = !daemon->settings.shared_registry};

    if (sl_combined_store_open(&options, &daemon->remote.combined)) {
        sl_store_close(daemon->remote.store);
        daemon->remote.store = NULL;
        return sl_daemon_no_memory(daemon);
    }
    daemon->state.store = daemon->remote.combined;
    if (!daemon->settings.state)
        sl_log(SL_LOG_INFO, "quota leases are in memory only", "why",
               "no state file; a daemon that is killed leaves its unused units "
               "leased for a while. Set --state PATH to find them again",
               NULL);
    return 0;
}

int sl_daemon_store_open(struct sl_daemon *daemon)
{
    const struct sl_settings *s = &daemon->settings;
    struct sl_remote_options remote = {
        .deadline = s->deadline,
        .own_now = s->virtual_clock,
        .no_denials = s->virtual_clock,
        .no_leases = s->virtual_clock,
        .on_event = on_event,
        .ctx = daemon,
    };
    struct sl_dynamo_options dynamo = {
        .where = s->dynamo, .remote = remote, .env = sl_daemon_aws_env()};
    struct sl_redis_options redis = {.where = s->redis, .remote = remote};
    struct sl_store *store = NULL;

    pthread_mutex_init(&daemon->remote.lock, NULL);
    if (s->in_dynamo ? sl_dynamo_open(&dynamo, &store, &daemon->why)
                     : sl_redis_open(&redis, &store, &daemon->why))
        return SL_EXIT_STORE;
    daemon->remote.store = store;
    if (daemon->state.store)
        return combine(daemon);
    daemon->state.store = store;
    return 0;
}

bool sl_daemon_store_is_busy(const struct sl_daemon *daemon)
{
    struct sl_remote_stats stats;

    if (!daemon->remote.store || !daemon->settings.in_dynamo)
        return daemon->remote.store != NULL;
    sl_remote_store_stats(daemon->remote.store, &stats);
    return stats.under_way > 0;
}

static void on_count(void *ctx, struct sl_str limit, unsigned count)
{
    struct sl_daemon *daemon = ctx;

    if (limit.len == 0)
        atomic_store(&daemon->remote.nodes, count);
    sl_engine_nodes(daemon->engine, limit, count);
}

/* With a virtual clock there are no windows to count in. */
int sl_daemon_store_begin(struct sl_daemon *daemon)
{
    struct sl_node_count *nodes = &daemon->remote.node_count;

    if (!daemon->remote.store || daemon->settings.virtual_clock)
        return 0;
    nodes->on_count = on_count;
    nodes->ctx = daemon;
    return sl_node_count_begin(nodes, daemon->remote.store,
                               daemon->workers[0].loop,
                               daemon->policy_source.policy)
               ? sl_daemon_no_memory(daemon)
               : 0;
}

void sl_daemon_store_end(struct sl_daemon *daemon)
{
    sl_node_count_end(&daemon->remote.node_count);
}

/* ---- node count: counter by counter; a daemon with another policy takes the
 * first one only.
 */

#define FIRST      (50 * SL_MS)  /* until the store may be connected */
#define AGAIN      SL_S          /* after a failure */
#define EARLY      (700 * SL_MS) /* before the end of a window, to read */
#define LATE       (200 * SL_MS) /* after its start, to take */
#define NODES_MOST 100000

static void report(const struct sl_node_count *n,
                   const struct sl_node_counter *c)
{
    /* The larger count of two windows: a late daemon is in one of them. */
    unsigned count = c->seen > c->before ? c->seen : c->before;

    if (n->on_count && count > 0)
        n->on_count(n->ctx, sl_str_c(c->limit), count);
}

static void free_counters(struct sl_node_counters *all)
{
    sl_alloc_free(&sl_alloc_libc, all->list, all->count * sizeof(*all->list));
    *all = (struct sl_node_counters){.list = NULL};
}

/* Takes the counters of the latest policy into use. Those that stay keep what
 * they have. */
static void adopt(struct sl_node_count *n)
{
    struct sl_node_counters old = n->all;

    if (!n->next.list)
        return;
    for (unsigned i = 0; i < n->next.count; i++)
        for (unsigned k = 0; k < old.count; k++)
            if (strcmp(n->next.list[i].limit, old.list[k].limit) == 0)
                n->next.list[i] = old.list[k];
    n->all = n->next;
    n->next = (struct sl_node_counters){.list = NULL};
    n->at = 0;
    n->reading = false;
    free_counters(&old);
    for (unsigned i = 0; i < n->all.count; i++)
        report(n, &n->all.list[i]);
}

static void begin_window(struct sl_node_count *n)
{
    for (unsigned i = 0; i < n->all.count; i++) {
        struct sl_node_counter *c = &n->all.list[i];

        if (c->seen > 0)
            c->before = c->seen;
        c->seen = 0;
        c->taken = false;
    }
    n->at = 0;
    n->reading = false;
}

static void send_take(struct sl_node_count *n)
{
    const char *limit = n->all.list[n->at].limit;

    snprintf(n->name, sizeof(n->name), "sluice:%s:#nodes%s%s", n->env,
             limit[0] ? ":" : "", limit);
    n->part = (struct sl_part){
        .binding = &n->stored,
        .limit = &n->limit,
        .key = sl_str_c(n->name),
        .name = sl_str_c(n->name),
        .cost = n->reading ? 0 : 1,
    };
    n->take = (struct sl_take){
        .op = SL_TAKE_OP_TAKE,
        .parts = &n->part,
        .count = 1,
        .now = sl_loop_now(n->loop),
        .loop = n->loop,
        .done = sl_node_count_done,
        .ctx = n,
    };
    n->busy = true;
    sl_store_take(n->store, &n->take);
}

/* Waits for the next part of the window, or for the next window. */
static void wait_on(struct sl_node_count *n)
{
    sl_ns left = n->window_end - sl_loop_now(n->loop);

    if (left > SL_NODE_COUNT) /* the clock was set */
        left = SL_NODE_COUNT;
    if (!n->reading && left > EARLY) {
        sl_timer_start(n->timer, left - EARLY);
        return;
    }
    n->window_end = 0;
    sl_timer_start(n->timer, (left > 0 ? left : 0) + LATE);
}

void sl_node_count_step(struct sl_node_count *n)
{
    adopt(n);
    if (sl_loop_now(n->loop) >= n->window_end) {
        begin_window(n);
    } else if (n->at == n->all.count && !n->reading) {
        n->reading = true;
        n->at = 0;
    }
    while (!n->reading && n->at < n->all.count && n->all.list[n->at].taken)
        n->at++;
    if (n->at < n->all.count)
        send_take(n);
    else
        wait_on(n);
}

static void on_timer(void *ctx)
{
    sl_node_count_step(ctx);
}

void sl_node_count_done(struct sl_take *take)
{
    struct sl_node_count *n = take->ctx;
    const struct sl_answer *a = &n->part.answer;
    uint64_t used = a->capacity - a->remaining;
    struct sl_node_counter *c;

    n->busy = false;
    if (n->ended)
        return;
    if (take->err) {
        if (n->reading)
            n->at = n->all.count;
        sl_timer_start(n->timer, AGAIN);
        return;
    }
    c = &n->all.list[n->at++];
    c->taken = true;
    c->seen = used < NODES_MOST ? (unsigned)used : NODES_MOST;
    n->window_end = sl_loop_now(n->loop) + a->reset_in;
    report(n, c);
    if (n->at == n->all.count)
        wait_on(n);
    else
        sl_timer_start(n->timer, 0);
}

/* One for the store, and one for each limit that may be decided locally. */
static int make_counters(const struct sl_policy *policy,
                         struct sl_node_counters *ret)
{
    struct sl_node_counter *at;
    unsigned count = 1;

    for (unsigned i = 0; i < policy->rule_count; i++)
        count += sl_policy_is_local(policy, &policy->rules[i]);
    at = sl_alloc_new(&sl_alloc_libc, count * sizeof(*at));
    if (!at)
        return SLUICE_ENOMEM;
    memset(at, 0, count * sizeof(*at));
    *ret = (struct sl_node_counters){.list = at, .count = count};
    for (unsigned i = 0; i < policy->rule_count; i++)
        if (sl_policy_is_local(policy, &policy->rules[i]))
            snprintf((++at)->limit, sizeof(at->limit), "%.*s",
                     SL_STR_ARG(policy->rules[i].name));
    return 0;
}

int sl_node_count_use(struct sl_node_count *n, const struct sl_policy *policy)
{
    struct sl_node_counters next;

    if (!n->timer)
        return 0;
    if (make_counters(policy, &next))
        return SLUICE_ENOMEM;
    free_counters(&n->next);
    n->next = next;
    if (!n->busy)
        sl_timer_start(n->timer, FIRST);
    return 0;
}

int sl_node_count_begin(struct sl_node_count *n, struct sl_store *store,
                        struct sl_loop *loop, const struct sl_policy *policy)
{
    int err = sl_timer_new(loop, on_timer, n, &n->timer);

    if (err)
        return err;
    snprintf(n->env, sizeof(n->env), "%.*s", SL_STR_ARG(policy->env));
    n->store = store;
    n->loop = loop;
    n->limit = (struct sl_limit){
        .kind = SL_FIXED,
        .count = SL_COUNT_MAX,
        .capacity = SL_COUNT_MAX,
        .period = SL_NODE_COUNT,
    };
    sl_limit_derive(&n->limit);
    n->stored =
        (struct sl_limit_binding){.name = "#nodes", .strictest = n->limit};
    err = sl_store_bind(store, &n->stored, 1, NULL);
    return err ? err : sl_node_count_use(n, policy);
}

void sl_node_count_end(struct sl_node_count *n)
{
    n->ended = true;
    sl_timer_free(n->timer);
    n->timer = NULL;
    free_counters(&n->all);
    free_counters(&n->next);
}
