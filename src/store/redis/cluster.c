/* cluster.c -- the servers that a fleet knows, and which of them is meant. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_int.h"

#define DOUBT_MOST (1 * SL_S) /* then it is tried again, whatever it is */
#define MAP        (SL_CLUSTER_SLOTS * sizeof(uint16_t))

/* ---- one ---- */

static void on_change(void *ctx, bool up, const char *why)
{
    struct sl_redis_node *node = ctx;
    const struct sl_redis_cluster_options *o = node->nodes->options;
    char text[512];

    if (!up) {
        node->stale = false; /* it is called anew anyway */
        sl_redis_nodes_ask(node->nodes);
    }
    if (!o->on_change)
        return;
    if (node->place.port > 0)
        snprintf(text, sizeof(text), "%s:%u: %s", node->place.name,
                 node->place.port, why);
    else
        snprintf(text, sizeof(text), "%s: %s", node->place.name, why);
    o->on_change(o->ctx, up, text);
}

static int open_link(struct sl_redis_node *node)
{
    const struct sl_redis_cluster_options *o = node->nodes->options;
    struct sl_redis_conn_options conn = {
        .conns = node->nodes->conns,
        .loop = o->loop,
        .name = node->place.name,
        .port = node->place.port,
        .tls = o->tls,
        .user = o->where->user,
        .password = o->where->password,
        .database = o->where->database,
        .most = o->most,
        .alloc = o->alloc,
        .on_change = on_change,
        .ctx = node,
    };

    return sl_redis_conn_open(&conn, &node->conn);
}

static void node_free(struct sl_redis_node *node)
{
    struct sl_redis_nodes *nodes = node->nodes;

    nodes->list[node->number - 1] = NULL;
    sl_redis_conn_close(node->conn);
    sl_alloc_free(nodes->options->alloc, node, sizeof(*node));
}

static struct sl_redis_node *node_new(struct sl_redis_nodes *nodes, unsigned at,
                                      const struct sl_redis_addr *place)
{
    struct sl_redis_node *node =
        sl_alloc_new(nodes->options->alloc, sizeof(*node));

    if (!node)
        return NULL;
    *node = (struct sl_redis_node){
        .place = *place, .nodes = nodes, .number = at + 1, .wanted = true};
    nodes->list[at] = node;
    if (open_link(node)) {
        node_free(node);
        return NULL;
    }
    return node;
}

/* The one that is there; a new one if there is none; NULL if that can't be. */
static struct sl_redis_node *node_at(struct sl_redis_nodes *nodes,
                                     const struct sl_redis_addr *place)
{
    unsigned vacant = SL_REDIS_NODES_MOST;

    for (unsigned i = SL_REDIS_NODES_MOST; i-- > 0;) {
        struct sl_redis_node *node = nodes->list[i];

        if (!node)
            vacant = i;
        else if (node->place.port == place->port &&
                 strcmp(node->place.name, place->name) == 0)
            return node;
    }
    return vacant < SL_REDIS_NODES_MOST ? node_new(nodes, vacant, place) : NULL;
}

/* A node that does not know its own name is where we have asked. */
static struct sl_redis_node *named_at(struct sl_redis_nodes *nodes,
                                      const struct sl_redis_addr *place,
                                      const char *name)
{
    struct sl_redis_addr whole = *place;

    if (!whole.name[0])
        snprintf(whole.name, sizeof(whole.name), "%s", name);
    return node_at(nodes, &whole);
}

struct sl_redis_node *
sl_redis_nodes_redirect(struct sl_redis_nodes *nodes,
                        const struct sl_redis_redirect *to,
                        const struct sl_redis_node *from)
{
    struct sl_redis_node *node = named_at(nodes, &to->to, from->place.name);

    if (!node)
        return NULL;
    node->wanted = true; /* until the next map says otherwise */
    if (!to->asks) {
        nodes->slots[to->slot] = (uint16_t)node->number;
        sl_redis_nodes_ask(nodes);
    }
    return node;
}

/* ---- what the scout brings ---- */

static bool keep_range(void *ctx, unsigned from, unsigned to,
                       const struct sl_redis_addr *master)
{
    struct sl_redis_nodes *nodes = ctx;
    struct sl_redis_node *node = named_at(nodes, master, nodes->asked->name);

    for (unsigned slot = from; node && slot <= to; slot++)
        nodes->fresh[slot] = (uint16_t)node->number;
    return node != NULL;
}

static bool on_map(void *ctx, const struct sl_redis_addr *from,
                   struct sl_str reply)
{
    struct sl_redis_nodes *nodes = ctx;
    uint16_t *fresh = nodes->fresh;

    nodes->asked = from;
    memset(fresh, 0, MAP);
    if (!sl_cluster_slots_read(reply, keep_range, nodes))
        return false;
    nodes->fresh = nodes->slots;
    nodes->slots = fresh;
    nodes->known = true;
    for (unsigned i = 0; i < SL_REDIS_NODES_MOST; i++)
        if (nodes->list[i])
            nodes->list[i]->wanted = nodes->list[i]->stale = false;
    for (unsigned slot = 0; slot < SL_CLUSTER_SLOTS; slot++)
        if (fresh[slot])
            nodes->list[fresh[slot] - 1]->wanted = true;
    return true;
}

static bool on_master(void *ctx, const struct sl_redis_addr *from,
                      struct sl_str reply)
{
    struct sl_redis_nodes *nodes = ctx;
    struct sl_redis_addr place;
    struct sl_redis_node *node = NULL;

    (void)from;
    if (sl_redis_master_read(reply, &place))
        node = node_at(nodes, &place);
    if (!node)
        return false;
    if (nodes->master && nodes->master != node)
        nodes->master->wanted = false;
    node->wanted = true;
    node->stale = false;
    nodes->master = node;
    nodes->known = true;
    return true;
}

/* One of a cluster's nodes that we are talking to. */
static const struct sl_redis_node *somebody(const struct sl_redis_nodes *nodes,
                                            unsigned turn)
{
    for (unsigned i = 0; i < SL_REDIS_NODES_MOST; i++) {
        const struct sl_redis_node *node =
            nodes->list[(turn + i) % SL_REDIS_NODES_MOST];

        if (node && node->wanted && sl_redis_conn_is_up(node->conn))
            return node;
    }
    return NULL;
}

/* Those that we know to be there, and those that we were told of, by turns. */
static bool whom_to_ask(void *ctx, unsigned turn, struct sl_redis_addr *ret)
{
    const struct sl_redis_nodes *nodes = ctx;
    const struct sl_redis_url *where = nodes->options->where;
    const struct sl_redis_host *host =
        &where->hosts[turn / 2 % where->host_count];
    const struct sl_redis_node *node = NULL;

    if (nodes->slots && turn % 2)
        node = somebody(nodes, turn);
    if (node) {
        *ret = node->place;
        return true;
    }
    snprintf(ret->name, sizeof(ret->name), "%s", host->name);
    ret->port = host->port;
    return true;
}

void sl_redis_nodes_ask(struct sl_redis_nodes *nodes)
{
    if (nodes->discovery)
        sl_redis_discovery_go(nodes->discovery);
}

/* ---- replicas ---- */

bool sl_redis_nodes_suspect(struct sl_redis_nodes *nodes,
                            struct sl_redis_node *node, sl_ns now, sl_ns rest)
{
    if (node->stale)
        return true;
    if (node->doubted > 0 && now - node->doubted < rest)
        return false;
    node->stale = true;
    node->doubted = now;
    sl_redis_nodes_ask(nodes);
    return true;
}

void sl_redis_nodes_reconnect(struct sl_redis_nodes *nodes, sl_ns now,
                              sl_ns rest)
{
    for (unsigned i = 0; i < SL_REDIS_NODES_MOST; i++) {
        struct sl_redis_node *node = nodes->list[i];

        if (!node || !node->stale || sl_redis_conn_count(node->conn) > 0 ||
            now - node->doubted >= rest)
            continue;
        /* Where nobody else can be asked, its name may lead elsewhere now. */
        node->stale = nodes->discovery != NULL;
        node->doubted = now - rest;
        sl_redis_conn_reconnect(node->conn, "the server is a replica");
    }
}

/* ---- all ---- */

void sl_redis_nodes_prune(struct sl_redis_nodes *nodes, sl_ns now)
{
    for (unsigned i = 0; i < SL_REDIS_NODES_MOST; i++) {
        struct sl_redis_node *node = nodes->list[i];

        if (!node)
            continue;
        if (now - node->doubted > DOUBT_MOST)
            node->stale = false;
        if (!node->wanted && sl_redis_conn_count(node->conn) == 0)
            node_free(node);
    }
    if (!sl_redis_nodes_are_up(nodes))
        sl_redis_nodes_ask(nodes);
}

bool sl_redis_nodes_are_up(const struct sl_redis_nodes *nodes)
{
    bool up = nodes->known;

    for (unsigned i = 0; up && i < SL_REDIS_NODES_MOST; i++)
        up = !nodes->list[i] || !nodes->list[i]->wanted ||
             sl_redis_conn_is_up(nodes->list[i]->conn);
    return up;
}

sl_ns sl_redis_nodes_reconnect_in(const struct sl_redis_nodes *nodes)
{
    sl_ns most = 0;

    for (unsigned i = 0; i < SL_REDIS_NODES_MOST; i++) {
        sl_ns in = nodes->list[i] && nodes->list[i]->wanted
                       ? sl_redis_conn_reconnect_in(nodes->list[i]->conn)
                       : 0;

        most = in > most ? in : most;
    }
    return most;
}

/* ---- life ---- */

static int open_scout(struct sl_redis_nodes *nodes)
{
    const struct sl_redis_cluster_options *o = nodes->options;
    bool cluster = o->where->kind == SL_REDIS_CLUSTER;
    struct sl_str map[2] = {SL_STR("CLUSTER"), SL_STR("SLOTS")};
    struct sl_str master[3] = {SL_STR("SENTINEL"),
                               SL_STR("GET-MASTER-ADDR-BY-NAME"),
                               sl_str_c(o->where->master)};
    struct sl_redis_discovery_options discovery = {
        .conns = nodes->conns,
        .loop = o->loop,
        .tls = o->tls,
        .user = cluster ? o->where->user : o->where->sentinel_user,
        .password = cluster ? o->where->password : o->where->sentinel_password,
        .alloc = o->alloc,
        .host = whom_to_ask,
        .on_reply = cluster ? on_map : on_master,
        .ctx = nodes,
    };
    int err = cluster ? sl_resp_command_write(&nodes->question, map, 2)
                      : sl_resp_command_write(&nodes->question, master, 3);

    discovery.command = sl_buf_str(&nodes->question);
    if (!err && cluster) {
        nodes->slots = sl_alloc_new(o->alloc, MAP);
        nodes->fresh = sl_alloc_new(o->alloc, MAP);
        if (!nodes->slots || !nodes->fresh)
            return SLUICE_ENOMEM;
        memset(nodes->slots, 0, MAP);
    }
    return err ? err : sl_redis_discovery_open(&discovery, &nodes->discovery);
}

int sl_redis_nodes_open(struct sl_redis_nodes *nodes,
                        const struct sl_redis_cluster_options *options)
{
    const struct sl_redis_host *host = &options->where->hosts[0];
    struct sl_redis_addr place = {.port = host->port};
    int err;

    *nodes = (struct sl_redis_nodes){.options = options};
    sl_buf_init(&nodes->question, 4096, options->alloc);
    err = sl_conns_open(options->loop, 2 * SL_REDIS_NODES_MOST, &nodes->conns);
    if (err)
        return err;
    if (options->where->kind == SL_REDIS_ONE) {
        snprintf(place.name, sizeof(place.name), "%s", host->name);
        nodes->known = true;
        nodes->master = node_at(nodes, &place);
        return nodes->master ? 0 : SLUICE_ENOMEM;
    }
    err = open_scout(nodes);
    if (!err)
        sl_redis_discovery_go(nodes->discovery);
    return err;
}

void sl_redis_nodes_close(struct sl_redis_nodes *nodes)
{
    const struct sl_alloc *alloc;

    if (!nodes->options)
        return; /* it was never opened */
    alloc = nodes->options->alloc;
    sl_redis_discovery_close(nodes->discovery);
    nodes->discovery = NULL;
    nodes->master = NULL; /* those that end now may look for it */
    for (unsigned i = 0; i < SL_REDIS_NODES_MOST; i++)
        if (nodes->list[i])
            node_free(nodes->list[i]);
    sl_conns_close(nodes->conns);
    sl_buf_done(&nodes->question);
    sl_alloc_free(alloc, nodes->slots, MAP);
    sl_alloc_free(alloc, nodes->fresh, MAP);
}

/* ---- voyages: how a command finds its node. The nodes are in nodes.c.
 */

#define HOPS      5
#define TRIES     500 /* of one that nobody recalls */
#define TRY_AGAIN (2 * SL_MS)
#define ROUND     (250 * SL_MS)
#define RENEW     (500 * SL_MS) /* not more often */

struct sl_redis_cluster {
    struct sl_redis_cluster_options options;
    struct sl_redis_nodes nodes;
    struct sl_timer *tick;  /* while voyages wait */
    struct sl_timer *round; /* where there is a map */
    TAILQ_HEAD(, sl_redis_cmd) waiting;
    unsigned count; /* of voyages */
    bool closing;
    struct sl_redis_cluster_counts counts;
};

static const struct sl_str nothing = {"", 0};

static struct sl_redis_cmd *of(struct sl_redis_wire_cmd *wire)
{
    return (struct sl_redis_cmd *)((char *)wire -
                                   offsetof(struct sl_redis_cmd, wire));
}

static sl_ns now_of(const struct sl_redis_cluster *cluster)
{
    return sl_loop_mono(cluster->options.loop);
}

static void finish(struct sl_redis_cmd *cmd, enum sl_redis_result result,
                   struct sl_str reply)
{
    cmd->cluster->count--;
    cmd->done(cmd, result, reply);
}

/* ---- waiting ---- */

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

/* To the node that has its slot; false if it must wait for that. */
static bool set_out(struct sl_redis_cmd *cmd)
{
    struct sl_redis_node *node =
        sl_redis_nodes_for(&cmd->cluster->nodes, cmd->slot);

    if (!node || node->stale)
        return false;
    send_to(cmd, node);
    return true;
}

/* Those that are due set out; one pass, since some come back at once. */
static void on_tick(void *ctx)
{
    struct sl_redis_cluster *cluster = ctx;
    TAILQ_HEAD(, sl_redis_cmd) list = TAILQ_HEAD_INITIALIZER(list);
    sl_ns now = now_of(cluster);
    struct sl_redis_cmd *cmd;

    sl_redis_nodes_reconnect(&cluster->nodes, now, RENEW);
    TAILQ_CONCAT(&list, &cluster->waiting, waits);
    while ((cmd = TAILQ_FIRST(&list)) != NULL) {
        TAILQ_REMOVE(&list, cmd, waits);
        if (cmd->due > now || !set_out(cmd))
            TAILQ_INSERT_TAIL(&cluster->waiting, cmd, waits);
    }
    if (!TAILQ_EMPTY(&cluster->waiting))
        sl_timer_start(cluster->tick, TRY_AGAIN);
}

static void on_round(void *ctx)
{
    struct sl_redis_cluster *cluster = ctx;

    sl_redis_nodes_prune(&cluster->nodes, now_of(cluster));
    sl_timer_start(cluster->round, ROUND);
}

/* ---- replies ---- */

/* Sent on: true if it goes where it was told to. */
static bool redirect(struct sl_redis_cmd *cmd, struct sl_str error)
{
    struct sl_redis_cluster *cluster = cmd->cluster;
    struct sl_redis_redirect to;
    struct sl_redis_node *node;

    if (!sl_redis_cluster_is_cluster(cluster) ||
        !sl_redis_redirect_read(error, &to))
        return false;
    if (++cmd->hops > HOPS) {
        cluster->counts.storms++;
        return false;
    }
    node = sl_redis_nodes_redirect(&cluster->nodes, &to, cmd->node);
    if (!node)
        return false;
    cluster->counts.redirected++;
    cmd->wire.asking = to.asks;
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

/* The node is a replica. Whatever else is on its way there is told so, too;
 * then it is called anew. */
static bool find_master(struct sl_redis_cmd *cmd)
{
    struct sl_redis_cluster *cluster = cmd->cluster;

    if (cmd->retried || !sl_redis_nodes_suspect(&cluster->nodes, cmd->node,
                                                now_of(cluster), RENEW))
        return false;
    cmd->retried = true;
    wait_for(cmd, 0);
    return true;
}

/* True if it goes on. */
static bool goes_on(struct sl_redis_cmd *cmd, struct sl_str reply)
{
    struct sl_str text;

    switch (sl_redis_error_of(reply, &text)) {
    case SL_REDIS_ERROR_MOVED:
    case SL_REDIS_ERROR_ASK:
        return redirect(cmd, text);
    case SL_REDIS_ERROR_CLUSTERDOWN:
        sl_redis_nodes_ask(&cmd->cluster->nodes);
        return try_again(cmd);
    case SL_REDIS_ERROR_TRYAGAIN:
        return try_again(cmd);
    case SL_REDIS_ERROR_READONLY:
        return find_master(cmd);
    default:
        return false;
    }
}

static void on_flight(struct sl_redis_wire_cmd *wire,
                      enum sl_redis_result result, struct sl_str reply)
{
    struct sl_redis_cmd *cmd = of(wire);

    if (result != SL_REDIS_REPLIED)
        sl_redis_nodes_ask(&cmd->cluster->nodes);
    else if (goes_on(cmd, reply))
        return;
    finish(cmd, result, reply);
}

/* ---- what the owner asks ---- */

void sl_redis_cluster_send(struct sl_redis_cluster *cluster,
                           struct sl_redis_cmd *cmd)
{
    cmd->cluster = cluster;
    cmd->node = NULL;
    cmd->hops = cmd->tries = 0;
    cmd->retried = cmd->wire.asking = false;
    cmd->wire.done = on_flight;
    cluster->count++;
    if (cluster->count > cluster->options.most || cluster->closing) {
        finish(cmd, SL_REDIS_NOT_SENT, nothing);
    } else if (!set_out(cmd)) {
        sl_redis_nodes_ask(&cluster->nodes);
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

    if (cmd->node) {
        if (!sl_redis_conn_cancel(cmd->node->conn, &cmd->wire))
            return false;
    } else {
        TAILQ_REMOVE(&cluster->waiting, cmd, waits);
    }
    cluster->count--;
    return true;
}

bool sl_redis_cluster_is_accepting(const struct sl_redis_cluster *cluster,
                                   unsigned slot)
{
    const struct sl_redis_node *node =
        sl_redis_nodes_for(&cluster->nodes, slot);

    return cluster->count < cluster->options.most &&
           (!node || node->stale || sl_redis_conn_is_accepting(node->conn));
}

bool sl_redis_cluster_is_cluster(const struct sl_redis_cluster *cluster)
{
    return cluster->options.where->kind == SL_REDIS_CLUSTER;
}

bool sl_redis_cluster_is_up(const struct sl_redis_cluster *cluster)
{
    return sl_redis_nodes_are_up(&cluster->nodes);
}

sl_ns sl_redis_cluster_reconnect_in(const struct sl_redis_cluster *cluster)
{
    return sl_redis_nodes_reconnect_in(&cluster->nodes);
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

/* ---- life ---- */

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
    err = sl_timer_new(options->loop, on_tick, cluster, &cluster->tick);
    if (!err)
        err = sl_timer_new(options->loop, on_round, cluster, &cluster->round);
    if (!err)
        err = sl_redis_nodes_open(&cluster->nodes, &cluster->options);
    if (err) {
        sl_redis_cluster_close(cluster);
        return err;
    }
    if (options->where->kind != SL_REDIS_ONE)
        sl_timer_start(cluster->round, ROUND);
    *ret = cluster;
    return 0;
}

void sl_redis_cluster_close(struct sl_redis_cluster *cluster)
{
    struct sl_redis_cmd *cmd;

    if (!cluster)
        return;
    cluster->closing = true;
    sl_redis_nodes_close(&cluster->nodes); /* what is there comes to an end */
    while ((cmd = TAILQ_FIRST(&cluster->waiting)) != NULL) {
        TAILQ_REMOVE(&cluster->waiting, cmd, waits);
        finish(cmd, SL_REDIS_NOT_SENT, nothing);
    }
    sl_timer_free(cluster->tick);
    sl_timer_free(cluster->round);
    sl_alloc_free(cluster->options.alloc, cluster, sizeof(*cluster));
}
