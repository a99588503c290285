/* fleet.c -- voyages: how a command finds its node. The nodes are in nodes.c.
 */
#include "store/redis/fleet/fleet.h"

#include <string.h>

#include "store/redis/fleet/nodes.h"

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

static struct sl_redis_cmd *of(struct sl_redis_wire_cmd *flight)
{
    return (struct sl_redis_cmd *)((char *)flight -
                                   offsetof(struct sl_redis_cmd, flight));
}

static sl_ns now_of(const struct sl_redis_cluster *fleet)
{
    return sl_loop_mono(fleet->options.loop);
}

static void finish(struct sl_redis_cmd *voyage, enum sl_redis_result landing,
                   struct sl_str reply)
{
    voyage->fleet->count--;
    voyage->done(voyage, landing, reply);
}

/* ---- waiting ---- */

static void wait_for(struct sl_redis_cmd *voyage, sl_ns span)
{
    struct sl_redis_cluster *fleet = voyage->fleet;

    if (fleet->closing) {
        finish(voyage, SL_REDIS_NOT_SENT, nothing);
        return;
    }
    voyage->node = NULL;
    voyage->flight.asking = false;
    voyage->due = now_of(fleet) + span;
    if (TAILQ_EMPTY(&fleet->waiting))
        sl_timer_start(fleet->tick, TRY_AGAIN);
    TAILQ_INSERT_TAIL(&fleet->waiting, voyage, waits);
}

static void send_to(struct sl_redis_cmd *voyage, struct sl_redis_node *node)
{
    voyage->node = node;
    sl_redis_conn_send(node->link, &voyage->flight);
}

/* To the node that has its slot; false if it must wait for that. */
static bool set_out(struct sl_redis_cmd *voyage)
{
    struct sl_redis_node *node =
        sl_redis_nodes_for(&voyage->fleet->nodes, voyage->slot);

    if (!node || node->stale)
        return false;
    send_to(voyage, node);
    return true;
}

/* Those that are due set out; one pass, since some come back at once. */
static void on_tick(void *ctx)
{
    struct sl_redis_cluster *fleet = ctx;
    TAILQ_HEAD(, sl_redis_cmd) list = TAILQ_HEAD_INITIALIZER(list);
    sl_ns now = now_of(fleet);
    struct sl_redis_cmd *voyage;

    sl_redis_nodes_reconnect(&fleet->nodes, now, RENEW);
    TAILQ_CONCAT(&list, &fleet->waiting, waits);
    while ((voyage = TAILQ_FIRST(&list)) != NULL) {
        TAILQ_REMOVE(&list, voyage, waits);
        if (voyage->due > now || !set_out(voyage))
            TAILQ_INSERT_TAIL(&fleet->waiting, voyage, waits);
    }
    if (!TAILQ_EMPTY(&fleet->waiting))
        sl_timer_start(fleet->tick, TRY_AGAIN);
}

static void on_round(void *ctx)
{
    struct sl_redis_cluster *fleet = ctx;

    sl_redis_nodes_prune(&fleet->nodes, now_of(fleet));
    sl_timer_start(fleet->round, ROUND);
}

/* ---- replies ---- */

/* Sent on: true if it goes where it was told to. */
static bool redirect(struct sl_redis_cmd *voyage, struct sl_str error)
{
    struct sl_redis_cluster *fleet = voyage->fleet;
    struct sl_redis_redirect to;
    struct sl_redis_node *node;

    if (!sl_redis_cluster_is_cluster(fleet) ||
        !sl_redis_redirect_read(error, &to))
        return false;
    if (++voyage->hops > HOPS) {
        fleet->counts.storms++;
        return false;
    }
    node = sl_redis_nodes_redirect(&fleet->nodes, &to, voyage->node);
    if (!node)
        return false;
    fleet->counts.redirected++;
    voyage->flight.asking = to.asks;
    send_to(voyage, node);
    return true;
}

static bool try_again(struct sl_redis_cmd *voyage)
{
    if (++voyage->tries > TRIES)
        return false;
    wait_for(voyage, TRY_AGAIN);
    return true;
}

/* The node is a replica. Whatever else is on its way there is told so, too;
 * then it is called anew. */
static bool find_master(struct sl_redis_cmd *voyage)
{
    struct sl_redis_cluster *fleet = voyage->fleet;

    if (voyage->retried || !sl_redis_nodes_suspect(&fleet->nodes, voyage->node,
                                                   now_of(fleet), RENEW))
        return false;
    voyage->retried = true;
    wait_for(voyage, 0);
    return true;
}

/* True if it goes on. */
static bool goes_on(struct sl_redis_cmd *voyage, struct sl_str reply)
{
    struct sl_str text;

    switch (sl_redis_error_of(reply, &text)) {
    case SL_REDIS_ERROR_MOVED:
    case SL_REDIS_ERROR_ASK:
        return redirect(voyage, text);
    case SL_REDIS_ERROR_CLUSTERDOWN:
        sl_redis_nodes_ask(&voyage->fleet->nodes);
        return try_again(voyage);
    case SL_REDIS_ERROR_TRYAGAIN:
        return try_again(voyage);
    case SL_REDIS_ERROR_READONLY:
        return find_master(voyage);
    default:
        return false;
    }
}

static void on_flight(struct sl_redis_wire_cmd *flight,
                      enum sl_redis_result landing, struct sl_str reply)
{
    struct sl_redis_cmd *voyage = of(flight);

    if (landing != SL_REDIS_REPLIED)
        sl_redis_nodes_ask(&voyage->fleet->nodes);
    else if (goes_on(voyage, reply))
        return;
    finish(voyage, landing, reply);
}

/* ---- what the owner asks ---- */

void sl_redis_cluster_send(struct sl_redis_cluster *fleet,
                           struct sl_redis_cmd *voyage)
{
    voyage->fleet = fleet;
    voyage->node = NULL;
    voyage->hops = voyage->tries = 0;
    voyage->retried = voyage->flight.asking = false;
    voyage->flight.done = on_flight;
    fleet->count++;
    if (fleet->count > fleet->options.most || fleet->closing) {
        finish(voyage, SL_REDIS_NOT_SENT, nothing);
    } else if (!set_out(voyage)) {
        sl_redis_nodes_ask(&fleet->nodes);
        wait_for(voyage, 0);
    }
}

void sl_redis_cluster_again(struct sl_redis_cmd *voyage)
{
    voyage->fleet->count++;
    send_to(voyage, voyage->node);
}

bool sl_redis_cluster_cancel(struct sl_redis_cmd *voyage)
{
    struct sl_redis_cluster *fleet = voyage->fleet;

    if (voyage->node) {
        if (!sl_redis_conn_cancel(voyage->node->link, &voyage->flight))
            return false;
    } else {
        TAILQ_REMOVE(&fleet->waiting, voyage, waits);
    }
    fleet->count--;
    return true;
}

bool sl_redis_cluster_is_accepting(const struct sl_redis_cluster *fleet,
                                   unsigned slot)
{
    const struct sl_redis_node *node = sl_redis_nodes_for(&fleet->nodes, slot);

    return fleet->count < fleet->options.most &&
           (!node || node->stale || sl_redis_conn_is_accepting(node->link));
}

bool sl_redis_cluster_is_cluster(const struct sl_redis_cluster *fleet)
{
    return fleet->options.where->kind == SL_REDIS_CLUSTER;
}

bool sl_redis_cluster_is_up(const struct sl_redis_cluster *fleet)
{
    return sl_redis_nodes_are_up(&fleet->nodes);
}

sl_ns sl_redis_cluster_reconnect_in(const struct sl_redis_cluster *fleet)
{
    return sl_redis_nodes_reconnect_in(&fleet->nodes);
}

sl_ns *sl_redis_cluster_note(const struct sl_redis_cmd *voyage)
{
    return &voyage->node->note;
}

const struct sl_redis_cluster_counts *
sl_redis_cluster_counts(const struct sl_redis_cluster *fleet)
{
    return &fleet->counts;
}

/* ---- life ---- */

int sl_redis_cluster_open(const struct sl_redis_cluster_options *options,
                          struct sl_redis_cluster **ret)
{
    struct sl_redis_cluster *fleet =
        sl_alloc_new(options->alloc, sizeof(*fleet));
    int err;

    if (!fleet)
        return SLUICE_ENOMEM;
    memset(fleet, 0, sizeof(*fleet));
    fleet->options = *options;
    TAILQ_INIT(&fleet->waiting);
    err = sl_timer_new(options->loop, on_tick, fleet, &fleet->tick);
    if (!err)
        err = sl_timer_new(options->loop, on_round, fleet, &fleet->round);
    if (!err)
        err = sl_redis_nodes_open(&fleet->nodes, &fleet->options);
    if (err) {
        sl_redis_cluster_close(fleet);
        return err;
    }
    if (options->where->kind != SL_REDIS_ONE)
        sl_timer_start(fleet->round, ROUND);
    *ret = fleet;
    return 0;
}

void sl_redis_cluster_close(struct sl_redis_cluster *fleet)
{
    struct sl_redis_cmd *voyage;

    if (!fleet)
        return;
    fleet->closing = true;
    sl_redis_nodes_close(&fleet->nodes); /* what is there comes to an end */
    while ((voyage = TAILQ_FIRST(&fleet->waiting)) != NULL) {
        TAILQ_REMOVE(&fleet->waiting, voyage, waits);
        finish(voyage, SL_REDIS_NOT_SENT, nothing);
    }
    sl_timer_free(fleet->tick);
    sl_timer_free(fleet->round);
    sl_alloc_free(fleet->options.alloc, fleet, sizeof(*fleet));
}
