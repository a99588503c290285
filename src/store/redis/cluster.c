/* cluster.c -- the servers that a client knows, and the node of a command.
 *
 * A single server is one node that never changes. With a cluster, `slots` has
 * the node of each slot; with sentinels, one node is the master. Discovery asks
 * for the slots or the master when nothing is known yet, when a node is lost,
 * and when a node turns out to be a replica.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "store/redis/redis_int.h"

#define NODES_MOST    512
#define REPLICA_MOST  (1 * SL_S) /* then the node is tried again */
#define MAP           (SL_CLUSTER_SLOTS * sizeof(uint16_t))
#define REST          (400 * SL_MS) /* after a successful discovery */
#define RETRY_LEAST   (20 * SL_MS)  /* after a failed one */
#define RETRY_MOST    (500 * SL_MS)
#define QUESTION_MOST 4096
#define HOPS          5
#define TRIES         500 /* of a command without a deadline */
#define TRY_AGAIN     (2 * SL_MS)
#define ROUND         (250 * SL_MS)
#define RENEW         (500 * SL_MS) /* not more often */

struct sl_redis_node {
    struct sl_redis_addr addr;
    struct sl_redis_conn *conn;
    struct sl_redis_cluster *cluster;
    unsigned number; /* its index in the list, from 1 */
    bool wanted;     /* the map has it */
    bool is_replica; /* nothing is sent to it until more is known */
    sl_ns note;      /* the owner's; see sl_redis_cluster_note() */
    sl_ns suspected; /* monotonic: when it was last found to be a replica */
};

/* Asks one host after the other, until one of them has the answer. It has a
 * connection while it asks, and asks a few times a second at most.
 *
 * RESTING --> SOON --time--> ASKING --reply or none--> DONE --+--> RESTING
 *              ^                                              |
 *              +----------------- no answer ------------------+
 */
struct discovery {
    enum { RESTING, SOON, ASKING, DONE } state;
    struct sl_redis_wire_cmd wire; /* ASKING */
    struct sl_redis_conn *conn;    /* ASKING and DONE */
    struct sl_timer *timer;
    struct sl_redis_addr addr;
    struct sl_buf command;
    bool answered;
    unsigned turn;
    unsigned failures; /* since the last answer */
    sl_ns rests_until; /* monotonic */
    struct sl_jitter jitter;
};

struct sl_redis_cluster {
    struct sl_redis_cluster_options options;
    struct sl_conns *conns;
    struct discovery discovery;             /* unless it is one server */
    struct sl_redis_node *list[NODES_MOST]; /* NULL: free */
    struct sl_redis_node *master;           /* unless it is a cluster */
    uint16_t *slots, *fresh; /* clusters: numbers by slot; the next map */
    bool known;              /* the map or the master */
    struct sl_timer *tick;   /* while commands wait */
    struct sl_timer *round;  /* unless it is one server */
    TAILQ_HEAD(, sl_redis_cmd) waiting;
    unsigned count; /* of commands */
    bool closing;
    struct sl_redis_cluster_counts counts;
};

static const struct sl_str nothing = {"", 0};

static sl_ns now_of(const struct sl_redis_cluster *cluster)
{
    return sl_loop_mono(cluster->options.loop);
}

/* Starts discovery, unless it is under way. */
static void discover(struct sl_redis_cluster *cluster)
{
    struct discovery *d = &cluster->discovery;
    sl_ns now = now_of(cluster);

    if (cluster->options.where->kind == SL_REDIS_ONE || cluster->closing ||
        d->state != RESTING)
        return;
    d->state = SOON;
    sl_timer_start(d->timer, d->rests_until > now ? d->rests_until - now : 0);
}

/* ---- nodes ---- */

static void on_change(void *ctx, bool up, const char *why)
{
    struct sl_redis_node *node = ctx;
    const struct sl_redis_cluster_options *o = &node->cluster->options;
    char text[512];

    if (!up) {
        node->is_replica = false; /* it reconnects anyway */
        discover(node->cluster);
    }
    if (node->addr.port > 0)
        snprintf(text, sizeof(text), "%s:%u: %s", node->addr.name,
                 node->addr.port, why);
    else
        snprintf(text, sizeof(text), "%s: %s", node->addr.name, why);
    o->on_change(o->ctx, up, text);
}

static struct sl_redis_conn_options
conn_options(const struct sl_redis_cluster *cluster,
             const struct sl_redis_addr *addr)
{
    const struct sl_redis_cluster_options *o = &cluster->options;

    return (struct sl_redis_conn_options){
        .conns = cluster->conns,
        .loop = o->loop,
        .name = addr->name,
        .port = addr->port,
        .tls = o->tls,
        .user = o->where->user,
        .password = o->where->password,
        .alloc = o->alloc,
    };
}

static void node_free(struct sl_redis_node *node)
{
    struct sl_redis_cluster *cluster = node->cluster;

    cluster->list[node->number - 1] = NULL;
    sl_redis_conn_close(node->conn);
    sl_alloc_free(cluster->options.alloc, node, sizeof(*node));
}

static struct sl_redis_node *node_new(struct sl_redis_cluster *cluster,
                                      unsigned at,
                                      const struct sl_redis_addr *addr)
{
    const struct sl_redis_cluster_options *o = &cluster->options;
    struct sl_redis_node *node = sl_alloc_new(o->alloc, sizeof(*node));
    struct sl_redis_conn_options conn;

    if (!node)
        return NULL;
    *node = (struct sl_redis_node){
        .addr = *addr, .cluster = cluster, .number = at + 1, .wanted = true};
    cluster->list[at] = node;
    conn = conn_options(cluster, &node->addr);
    conn.database = o->where->database;
    conn.most = o->most;
    conn.patience = o->patience > SL_S ? o->patience : 0;
    conn.on_change = on_change;
    conn.ctx = node;
    if (sl_redis_conn_open(&conn, &node->conn)) {
        node_free(node);
        return NULL;
    }
    return node;
}

/* The node at this address, or a new one. A node that does not know its own
 * name has the name of the host that was asked. NULL: too many, or out of
 * memory. */
static struct sl_redis_node *node_at(struct sl_redis_cluster *cluster,
                                     const struct sl_redis_addr *at,
                                     const char *asked)
{
    struct sl_redis_addr addr = *at;
    unsigned vacant = NODES_MOST;

    if (!addr.name[0])
        snprintf(addr.name, sizeof(addr.name), "%s", asked);
    for (unsigned i = NODES_MOST; i-- > 0;) {
        struct sl_redis_node *node = cluster->list[i];

        if (!node)
            vacant = i;
        else if (node->addr.port == addr.port &&
                 strcmp(node->addr.name, addr.name) == 0)
            return node;
    }
    return vacant < NODES_MOST ? node_new(cluster, vacant, &addr) : NULL;
}

/* The node that has this slot, or NULL. */
static struct sl_redis_node *node_of(const struct sl_redis_cluster *cluster,
                                     unsigned slot)
{
    unsigned number;

    if (!cluster->slots)
        return cluster->master;
    number = cluster->slots[slot % SL_CLUSTER_SLOTS];
    return number > 0 ? cluster->list[number - 1] : NULL;
}

/* Reconnects to the nodes that are replicas, when nothing is in flight there.
 * Not from within a done(). */
static void reconnect(struct sl_redis_cluster *cluster, sl_ns now)
{
    for (unsigned i = 0; i < NODES_MOST; i++) {
        struct sl_redis_node *node = cluster->list[i];

        if (!node || !node->is_replica || sl_redis_conn_count(node->conn) > 0 ||
            now - node->suspected >= RENEW)
            continue;
        /* Without discovery, its name may lead elsewhere now. */
        node->is_replica = cluster->options.where->kind != SL_REDIS_ONE;
        node->suspected = now - RENEW;
        sl_redis_conn_reconnect(node->conn, "the server is a replica");
    }
}

bool sl_redis_cluster_is_up(const struct sl_redis_cluster *cluster)
{
    bool up = cluster->known;

    for (unsigned i = 0; up && i < NODES_MOST; i++)
        up = !cluster->list[i] || !cluster->list[i]->wanted ||
             sl_redis_conn_is_up(cluster->list[i]->conn);
    return up;
}

/* Closes the nodes that are no longer needed. */
static void on_round(void *ctx)
{
    struct sl_redis_cluster *cluster = ctx;
    sl_ns now = now_of(cluster);

    for (unsigned i = 0; i < NODES_MOST; i++) {
        struct sl_redis_node *node = cluster->list[i];

        if (!node)
            continue;
        if (now - node->suspected > REPLICA_MOST)
            node->is_replica = false;
        if (!node->wanted && sl_redis_conn_count(node->conn) == 0)
            node_free(node);
    }
    if (!sl_redis_cluster_is_up(cluster))
        discover(cluster);
    sl_timer_start(cluster->round, ROUND);
}

sl_ns sl_redis_cluster_reconnect_in(const struct sl_redis_cluster *cluster)
{
    sl_ns most = 0;

    for (unsigned i = 0; i < NODES_MOST; i++) {
        const struct sl_redis_node *node = cluster->list[i];
        sl_ns in =
            node && node->wanted ? sl_redis_conn_reconnect_in(node->conn) : 0;

        most = in > most ? in : most;
    }
    return most;
}

/* ---- discovery ---- */

static bool keep_range(void *ctx, unsigned from, unsigned to,
                       const struct sl_redis_addr *master)
{
    struct sl_redis_cluster *cluster = ctx;
    struct sl_redis_node *node =
        node_at(cluster, master, cluster->discovery.addr.name);

    for (unsigned slot = from; node && slot <= to; slot++)
        cluster->fresh[slot] = (uint16_t)node->number;
    return node != NULL;
}

static bool on_map(struct sl_redis_cluster *cluster, struct sl_str reply)
{
    uint16_t *fresh = cluster->fresh;

    memset(fresh, 0, MAP);
    if (!sl_cluster_slots_read(reply, keep_range, cluster))
        return false;
    cluster->fresh = cluster->slots;
    cluster->slots = fresh;
    for (unsigned i = 0; i < NODES_MOST; i++)
        if (cluster->list[i])
            cluster->list[i]->wanted = cluster->list[i]->is_replica = false;
    for (unsigned slot = 0; slot < SL_CLUSTER_SLOTS; slot++)
        if (fresh[slot])
            cluster->list[fresh[slot] - 1]->wanted = true;
    return cluster->known = true;
}

static bool on_master(struct sl_redis_cluster *cluster, struct sl_str reply)
{
    struct sl_redis_addr addr;
    struct sl_redis_node *node = NULL;

    if (sl_redis_master_read(reply, &addr))
        node = node_at(cluster, &addr, "");
    if (!node)
        return false;
    if (cluster->master)
        cluster->master->wanted = false;
    node->wanted = true;
    node->is_replica = false;
    cluster->master = node;
    return cluster->known = true;
}

/* A connection is not closed in a done(): the timer does the rest. */
static void end_discovery(struct discovery *d, bool answered)
{
    d->state = DONE;
    d->answered = answered;
    sl_timer_start(d->timer, 0);
}

static void on_answer(struct sl_redis_wire_cmd *wire,
                      enum sl_redis_result result, struct sl_str reply)
{
    struct sl_redis_cluster *cluster = wire->ctx;

    end_discovery(&cluster->discovery,
                  result == SL_REDIS_REPLIED &&
                      (cluster->slots ? on_map(cluster, reply)
                                      : on_master(cluster, reply)));
}

/* The host to ask: in turn one of the cluster's nodes that are up, and one of
 * the configured hosts. */
static void choose_host(struct sl_redis_cluster *cluster)
{
    const struct sl_redis_url *where = cluster->options.where;
    struct discovery *d = &cluster->discovery;
    unsigned turn = d->turn++;
    const struct sl_redis_host *host =
        &where->hosts[turn / 2 % where->host_count];

    for (unsigned i = 0; cluster->slots && turn % 2 && i < NODES_MOST; i++) {
        const struct sl_redis_node *node =
            cluster->list[(turn + i) % NODES_MOST];

        if (node && node->wanted && sl_redis_conn_is_up(node->conn)) {
            d->addr = node->addr;
            return;
        }
    }
    snprintf(d->addr.name, sizeof(d->addr.name), "%s", host->name);
    d->addr.port = host->port;
}

static void ask_host(struct sl_redis_cluster *cluster)
{
    const struct sl_redis_url *where = cluster->options.where;
    struct discovery *d = &cluster->discovery;
    struct sl_redis_conn_options conn;

    choose_host(cluster);
    conn = conn_options(cluster, &d->addr);
    conn.most = 1;
    if (where->kind == SL_REDIS_SENTINEL) {
        conn.user = where->sentinel_user;
        conn.password = where->sentinel_password;
    }
    d->state = ASKING;
    if (sl_redis_conn_open(&conn, &d->conn)) {
        d->conn = NULL;
        end_discovery(d, false);
        return;
    }
    d->wire.command = sl_buf_str(&d->command);
    d->wire.done = on_answer;
    d->wire.ctx = cluster;
    sl_redis_conn_send(d->conn, &d->wire);
}

static void on_discovery(void *ctx)
{
    struct sl_redis_cluster *cluster = ctx;
    struct discovery *d = &cluster->discovery;
    struct sl_redis_conn *conn = d->conn;

    if (d->state == SOON) {
        ask_host(cluster);
    } else if (d->state == DONE) {
        d->conn = NULL;
        sl_redis_conn_close(conn);
        d->state = d->answered ? RESTING : SOON;
        if (d->answered) {
            d->failures = 0;
            d->rests_until = now_of(cluster) + sl_jitter_span(&d->jitter, REST);
            return;
        }
        sl_timer_start(d->timer, sl_jitter_backoff(&d->jitter, d->failures++,
                                                   RETRY_LEAST, RETRY_MOST));
    }
}

/* ---- commands that wait ---- */

static void finish(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                   struct sl_str reply)
{
    cmd->cluster->count--;
    cmd->done(cmd, result, reply);
}

static void wait_for(struct sl_redis_cmd *cmd, sl_ns span)
{
    struct sl_redis_cluster *cluster = cmd->cluster;

    if (cluster->closing) {
        finish(cmd, SL_REDIS_NOT_SENT, nothing);
        return;
    }
    cmd->node = NULL;
    cmd->wire.asking = false;
    cmd->due = now_of(cluster) + span;
    if (TAILQ_EMPTY(&cluster->waiting))
        sl_timer_start(cluster->tick, TRY_AGAIN);
    TAILQ_INSERT_TAIL(&cluster->waiting, cmd, waits);
}

static void send_to(struct sl_redis_cmd *cmd, struct sl_redis_node *node)
{
    cmd->node = node;
    sl_redis_conn_send(node->conn, &cmd->wire);
}

/* Sends to the node of its slot. Returns false if that is not known yet. */
static bool send_by_slot(struct sl_redis_cmd *cmd)
{
    struct sl_redis_node *node = node_of(cmd->cluster, cmd->slot);

    if (!node || node->is_replica)
        return false;
    send_to(cmd, node);
    return true;
}

/* Sends the commands that are due; one pass, since some come back at once. */
static void on_tick(void *ctx)
{
    struct sl_redis_cluster *cluster = ctx;
    TAILQ_HEAD(, sl_redis_cmd) list = TAILQ_HEAD_INITIALIZER(list);
    sl_ns now = now_of(cluster);
    struct sl_redis_cmd *cmd;

    reconnect(cluster, now);
    TAILQ_CONCAT(&list, &cluster->waiting, waits);
    while ((cmd = TAILQ_FIRST(&list)) != NULL) {
        TAILQ_REMOVE(&list, cmd, waits);
        if (cmd->due > now || !send_by_slot(cmd))
            TAILQ_INSERT_TAIL(&cluster->waiting, cmd, waits);
    }
    if (!TAILQ_EMPTY(&cluster->waiting))
        sl_timer_start(cluster->tick, TRY_AGAIN);
}

/* ---- replies: each function returns true if the command goes on ---- */

static bool redirect(struct sl_redis_cmd *cmd, struct sl_str error)
{
    struct sl_redis_cluster *cluster = cmd->cluster;
    struct sl_redis_redirect to;
    struct sl_redis_node *node;

    if (!cluster->slots || !sl_redis_redirect_read(error, &to))
        return false;
    if (++cmd->hops > HOPS) {
        cluster->counts.storms++;
        return false;
    }
    node = node_at(cluster, &to.to, cmd->node->addr.name);
    if (!node)
        return false;
    node->wanted = true; /* until the next map */
    if (!to.is_ask) {
        cluster->slots[to.slot] = (uint16_t)node->number;
        discover(cluster);
    }
    cluster->counts.redirected++;
    cmd->wire.asking = to.is_ask;
    send_to(cmd, node);
    return true;
}

static bool try_again(struct sl_redis_cmd *cmd)
{
    if (++cmd->tries > TRIES)
        return false;
    wait_for(cmd, TRY_AGAIN);
    return true;
}

/* The node is a replica. Other commands in flight there get the same error;
 * after the last of them the client reconnects. If discovery has named the node
 * again within RENEW, the command fails. */
static bool find_master(struct sl_redis_cmd *cmd)
{
    struct sl_redis_node *node = cmd->node;
    sl_ns now = now_of(cmd->cluster);

    if (cmd->retried)
        return false;
    if (!node->is_replica) {
        if (node->suspected > 0 && now - node->suspected < RENEW)
            return false;
        node->is_replica = true;
        node->suspected = now;
        discover(cmd->cluster);
    }
    cmd->retried = true;
    wait_for(cmd, 0);
    return true;
}

static bool goes_on(struct sl_redis_cmd *cmd, struct sl_str reply)
{
    struct sl_str text;

    switch (sl_redis_error_of(reply, &text)) {
    case SL_REDIS_ERROR_MOVED:
    case SL_REDIS_ERROR_ASK:
        return redirect(cmd, text);
    case SL_REDIS_ERROR_CLUSTERDOWN:
        discover(cmd->cluster);
        return try_again(cmd);
    case SL_REDIS_ERROR_TRYAGAIN:
        return try_again(cmd);
    case SL_REDIS_ERROR_READONLY:
        return find_master(cmd);
    default:
        return false;
    }
}

static void on_done(struct sl_redis_wire_cmd *wire, enum sl_redis_result result,
                    struct sl_str reply)
{
    struct sl_redis_cmd *cmd = wire->ctx;

    if (result != SL_REDIS_REPLIED)
        discover(cmd->cluster);
    else if (goes_on(cmd, reply))
        return;
    finish(cmd, result, reply);
}

/* ---- calls ---- */

void sl_redis_cluster_send(struct sl_redis_cluster *cluster,
                           struct sl_redis_cmd *cmd)
{
    cmd->cluster = cluster;
    cmd->node = NULL;
    cmd->hops = cmd->tries = 0;
    cmd->retried = cmd->wire.asking = false;
    cmd->wire.done = on_done;
    cmd->wire.ctx = cmd;
    cluster->count++;
    if (cluster->count > cluster->options.most || cluster->closing) {
        finish(cmd, SL_REDIS_NOT_SENT, nothing);
    } else if (!send_by_slot(cmd)) {
        discover(cluster);
        wait_for(cmd, 0);
    }
}

void sl_redis_cluster_again(struct sl_redis_cmd *cmd)
{
    cmd->cluster->count++;
    send_to(cmd, cmd->node);
}

bool sl_redis_cluster_cancel(struct sl_redis_cmd *cmd)
{
    struct sl_redis_cluster *cluster = cmd->cluster;

    if (!cmd->node)
        TAILQ_REMOVE(&cluster->waiting, cmd, waits);
    else if (!sl_redis_conn_cancel(cmd->node->conn, &cmd->wire))
        return false;
    cluster->count--;
    return true;
}

bool sl_redis_cluster_is_written(const struct sl_redis_cmd *cmd)
{
    return cmd->node && sl_redis_conn_is_written(cmd->node->conn, &cmd->wire);
}

bool sl_redis_cluster_is_accepting(const struct sl_redis_cluster *cluster,
                                   unsigned slot)
{
    const struct sl_redis_node *node = node_of(cluster, slot);

    return cluster->count < cluster->options.most &&
           (!node || node->is_replica ||
            sl_redis_conn_is_accepting(node->conn));
}

sl_ns *sl_redis_cluster_note(const struct sl_redis_cmd *cmd)
{
    return &cmd->node->note;
}

const struct sl_redis_cluster_counts *
sl_redis_cluster_counts(const struct sl_redis_cluster *cluster)
{
    return &cluster->counts;
}

/* ---- open and close ---- */

static int discovery_open(struct sl_redis_cluster *cluster)
{
    const struct sl_redis_cluster_options *o = &cluster->options;
    struct discovery *d = &cluster->discovery;
    bool is_cluster = o->where->kind == SL_REDIS_CLUSTER;
    struct sl_str map[2] = {SL_STR("CLUSTER"), SL_STR("SLOTS")};
    struct sl_str master[3] = {SL_STR("SENTINEL"),
                               SL_STR("GET-MASTER-ADDR-BY-NAME"),
                               sl_str_c(o->where->master)};
    int err = is_cluster ? sl_resp_command_write(&d->command, map, 2)
                         : sl_resp_command_write(&d->command, master, 3);

    if (!err && is_cluster) {
        cluster->slots = sl_alloc_new(o->alloc, MAP);
        cluster->fresh = sl_alloc_new(o->alloc, MAP);
        if (!cluster->slots || !cluster->fresh)
            return SLUICE_ENOMEM;
        memset(cluster->slots, 0, MAP);
    }
    if (!err)
        err = sl_jitter_init(&d->jitter);
    if (!err)
        err = sl_timer_new(o->loop, on_discovery, cluster, &d->timer);
    if (err)
        return err;
    d->turn = (unsigned)(sl_jitter_next(&d->jitter) % 1024);
    discover(cluster);
    sl_timer_start(cluster->round, ROUND);
    return 0;
}

static int open_master(struct sl_redis_cluster *cluster)
{
    const struct sl_redis_host *host = &cluster->options.where->hosts[0];
    struct sl_redis_addr addr = {.port = host->port};

    snprintf(addr.name, sizeof(addr.name), "%s", host->name);
    cluster->known = true;
    cluster->master = node_at(cluster, &addr, "");
    return cluster->master ? 0 : SLUICE_ENOMEM;
}

int sl_redis_cluster_open(const struct sl_redis_cluster_options *options,
                          struct sl_redis_cluster **ret)
{
    struct sl_redis_cluster *cluster =
        sl_alloc_new(options->alloc, sizeof(*cluster));
    int err;

    if (!cluster)
        return SLUICE_ENOMEM;
    memset(cluster, 0, sizeof(*cluster));
    cluster->options = *options;
    TAILQ_INIT(&cluster->waiting);
    sl_buf_init(&cluster->discovery.command, QUESTION_MOST, options->alloc);
    err = sl_timer_new(options->loop, on_tick, cluster, &cluster->tick);
    if (!err)
        err = sl_timer_new(options->loop, on_round, cluster, &cluster->round);
    if (!err)
        err = sl_conns_open(options->loop, 2 * NODES_MOST, &cluster->conns);
    if (!err)
        err = options->where->kind == SL_REDIS_ONE ? open_master(cluster)
                                                   : discovery_open(cluster);
    if (err) {
        sl_redis_cluster_close(cluster);
        return err;
    }
    *ret = cluster;
    return 0;
}

void sl_redis_cluster_close(struct sl_redis_cluster *cluster)
{
    const struct sl_alloc *alloc;
    struct sl_redis_cmd *cmd;

    if (!cluster)
        return;
    alloc = cluster->options.alloc;
    cluster->closing = true;
    sl_redis_conn_close(cluster->discovery.conn);
    cluster->master = NULL; /* commands that end now may look for it */
    for (unsigned i = 0; i < NODES_MOST; i++)
        if (cluster->list[i])
            node_free(cluster->list[i]); /* ends what is in flight there */
    sl_conns_close(cluster->conns);
    while ((cmd = TAILQ_FIRST(&cluster->waiting)) != NULL) {
        TAILQ_REMOVE(&cluster->waiting, cmd, waits);
        finish(cmd, SL_REDIS_NOT_SENT, nothing);
    }
    sl_buf_done(&cluster->discovery.command);
    sl_alloc_free(alloc, cluster->slots, MAP);
    sl_alloc_free(alloc, cluster->fresh, MAP);
    sl_timer_free(cluster->discovery.timer);
    sl_timer_free(cluster->tick);
    sl_timer_free(cluster->round);
    sl_alloc_free(alloc, cluster, sizeof(*cluster));
}
