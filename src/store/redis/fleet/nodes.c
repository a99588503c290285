/* nodes.c -- the servers that a fleet knows, and which of them is meant. */
#include "store/redis/fleet/nodes.h"

#include <stdio.h>
#include <string.h>

#define DOUBT_MOST (1 * SL_S) /* then it is tried again, whatever it is */
#define MAP        (SL_CLUSTER_SLOTS * sizeof(uint16_t))

/* ---- one ---- */

static void on_change(void *ctx, bool up, const char *why)
{
    struct sl_node *node = ctx;
    const struct sl_fleet_options *o = node->nodes->options;
    char text[512];

    if (!up) {
        node->stale = false; /* it is called anew anyway */
        sl_nodes_ask(node->nodes);
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

static int open_link(struct sl_node *node)
{
    const struct sl_fleet_options *o = node->nodes->options;
    struct sl_link_options link = {
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

    return sl_link_open(&link, &node->link);
}

static void node_free(struct sl_node *node)
{
    struct sl_nodes *nodes = node->nodes;

    nodes->list[node->number - 1] = NULL;
    sl_link_close(node->link);
    sl_alloc_free(nodes->options->alloc, node, sizeof(*node));
}

static struct sl_node *node_new(struct sl_nodes *nodes, unsigned at,
                                const struct sl_place *place)
{
    struct sl_node *node = sl_alloc_new(nodes->options->alloc, sizeof(*node));

    if (!node)
        return NULL;
    *node = (struct sl_node){
        .place = *place, .nodes = nodes, .number = at + 1, .wanted = true};
    nodes->list[at] = node;
    if (open_link(node)) {
        node_free(node);
        return NULL;
    }
    return node;
}

/* The one that is there; a new one if there is none; NULL if that can't be. */
static struct sl_node *node_at(struct sl_nodes *nodes,
                               const struct sl_place *place)
{
    unsigned vacant = SL_NODES_MOST;

    for (unsigned i = SL_NODES_MOST; i-- > 0;) {
        struct sl_node *node = nodes->list[i];

        if (!node)
            vacant = i;
        else if (node->place.port == place->port &&
                 strcmp(node->place.name, place->name) == 0)
            return node;
    }
    return vacant < SL_NODES_MOST ? node_new(nodes, vacant, place) : NULL;
}

/* A node that does not know its own name is where we have asked. */
static struct sl_node *named_at(struct sl_nodes *nodes,
                                const struct sl_place *place, const char *name)
{
    struct sl_place whole = *place;

    if (!whole.name[0])
        snprintf(whole.name, sizeof(whole.name), "%s", name);
    return node_at(nodes, &whole);
}

struct sl_node *sl_nodes_meet(struct sl_nodes *nodes,
                              const struct sl_redirect *to,
                              const struct sl_node *from)
{
    struct sl_node *node = named_at(nodes, &to->to, from->place.name);

    if (!node)
        return NULL;
    node->wanted = true; /* until the next map says otherwise */
    if (!to->asks) {
        nodes->slots[to->slot] = (uint16_t)node->number;
        sl_nodes_ask(nodes);
    }
    return node;
}

/* ---- what the scout brings ---- */

static bool keep_range(void *ctx, unsigned from, unsigned to,
                       const struct sl_place *master)
{
    struct sl_nodes *nodes = ctx;
    struct sl_node *node = named_at(nodes, master, nodes->asked->name);

    for (unsigned slot = from; node && slot <= to; slot++)
        nodes->fresh[slot] = (uint16_t)node->number;
    return node != NULL;
}

static bool on_map(void *ctx, const struct sl_place *from, struct sl_str reply)
{
    struct sl_nodes *nodes = ctx;
    uint16_t *fresh = nodes->fresh;

    nodes->asked = from;
    memset(fresh, 0, MAP);
    if (!sl_slots_read(reply, keep_range, nodes))
        return false;
    nodes->fresh = nodes->slots;
    nodes->slots = fresh;
    nodes->known = true;
    for (unsigned i = 0; i < SL_NODES_MOST; i++)
        if (nodes->list[i])
            nodes->list[i]->wanted = nodes->list[i]->stale = false;
    for (unsigned slot = 0; slot < SL_CLUSTER_SLOTS; slot++)
        if (fresh[slot])
            nodes->list[fresh[slot] - 1]->wanted = true;
    return true;
}

static bool on_master(void *ctx, const struct sl_place *from,
                      struct sl_str reply)
{
    struct sl_nodes *nodes = ctx;
    struct sl_place place;
    struct sl_node *node = NULL;

    (void)from;
    if (sl_master_read(reply, &place))
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
static const struct sl_node *somebody(const struct sl_nodes *nodes,
                                      unsigned turn)
{
    for (unsigned i = 0; i < SL_NODES_MOST; i++) {
        const struct sl_node *node = nodes->list[(turn + i) % SL_NODES_MOST];

        if (node && node->wanted && sl_link_is_up(node->link))
            return node;
    }
    return NULL;
}

/* Those that we know to be there, and those that we were told of, by turns. */
static bool whom_to_ask(void *ctx, unsigned turn, struct sl_place *ret)
{
    const struct sl_nodes *nodes = ctx;
    const struct sl_redis_where *where = nodes->options->where;
    const struct sl_redis_host *host =
        &where->hosts[turn / 2 % where->host_count];
    const struct sl_node *node = NULL;

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

void sl_nodes_ask(struct sl_nodes *nodes)
{
    if (nodes->scout)
        sl_scout_go(nodes->scout);
}

/* ---- replicas ---- */

bool sl_nodes_doubt(struct sl_nodes *nodes, struct sl_node *node, sl_ns now,
                    sl_ns rest)
{
    if (node->stale)
        return true;
    if (node->doubted > 0 && now - node->doubted < rest)
        return false;
    node->stale = true;
    node->doubted = now;
    sl_nodes_ask(nodes);
    return true;
}

void sl_nodes_renew(struct sl_nodes *nodes, sl_ns now, sl_ns rest)
{
    for (unsigned i = 0; i < SL_NODES_MOST; i++) {
        struct sl_node *node = nodes->list[i];

        if (!node || !node->stale || sl_link_count(node->link) > 0 ||
            now - node->doubted >= rest)
            continue;
        /* Where nobody else can be asked, its name may lead elsewhere now. */
        node->stale = nodes->scout != NULL;
        node->doubted = now - rest;
        sl_link_renew(node->link, "the server is a replica");
    }
}

/* ---- all ---- */

void sl_nodes_tidy(struct sl_nodes *nodes, sl_ns now)
{
    for (unsigned i = 0; i < SL_NODES_MOST; i++) {
        struct sl_node *node = nodes->list[i];

        if (!node)
            continue;
        if (now - node->doubted > DOUBT_MOST)
            node->stale = false;
        if (!node->wanted && sl_link_count(node->link) == 0)
            node_free(node);
    }
    if (!sl_nodes_are_up(nodes))
        sl_nodes_ask(nodes);
}

bool sl_nodes_are_up(const struct sl_nodes *nodes)
{
    bool up = nodes->known;

    for (unsigned i = 0; up && i < SL_NODES_MOST; i++)
        up = !nodes->list[i] || !nodes->list[i]->wanted ||
             sl_link_is_up(nodes->list[i]->link);
    return up;
}

sl_ns sl_nodes_call_in(const struct sl_nodes *nodes)
{
    sl_ns most = 0;

    for (unsigned i = 0; i < SL_NODES_MOST; i++) {
        sl_ns in = nodes->list[i] && nodes->list[i]->wanted
                       ? sl_link_calls_in(nodes->list[i]->link)
                       : 0;

        most = in > most ? in : most;
    }
    return most;
}

/* ---- life ---- */

static int open_scout(struct sl_nodes *nodes)
{
    const struct sl_fleet_options *o = nodes->options;
    bool cluster = o->where->kind == SL_REDIS_CLUSTER;
    struct sl_str map[2] = {SL_STR("CLUSTER"), SL_STR("SLOTS")};
    struct sl_str master[3] = {SL_STR("SENTINEL"),
                               SL_STR("GET-MASTER-ADDR-BY-NAME"),
                               sl_str_c(o->where->master)};
    struct sl_scout_options scout = {
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

    scout.command = sl_buf_str(&nodes->question);
    if (!err && cluster) {
        nodes->slots = sl_alloc_new(o->alloc, MAP);
        nodes->fresh = sl_alloc_new(o->alloc, MAP);
        if (!nodes->slots || !nodes->fresh)
            return SLUICE_ENOMEM;
        memset(nodes->slots, 0, MAP);
    }
    return err ? err : sl_scout_open(&scout, &nodes->scout);
}

int sl_nodes_open(struct sl_nodes *nodes,
                  const struct sl_fleet_options *options)
{
    const struct sl_redis_host *host = &options->where->hosts[0];
    struct sl_place place = {.port = host->port};
    int err;

    *nodes = (struct sl_nodes){.options = options};
    sl_buf_init(&nodes->question, 4096, options->alloc);
    err = sl_conns_open(options->loop, 2 * SL_NODES_MOST, &nodes->conns);
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
        sl_scout_go(nodes->scout);
    return err;
}

void sl_nodes_close(struct sl_nodes *nodes)
{
    const struct sl_alloc *alloc;

    if (!nodes->options)
        return; /* it was never opened */
    alloc = nodes->options->alloc;
    sl_scout_close(nodes->scout);
    nodes->scout = NULL;
    nodes->master = NULL; /* those that end now may look for it */
    for (unsigned i = 0; i < SL_NODES_MOST; i++)
        if (nodes->list[i])
            node_free(nodes->list[i]);
    sl_conns_close(nodes->conns);
    sl_buf_done(&nodes->question);
    sl_alloc_free(alloc, nodes->slots, MAP);
    sl_alloc_free(alloc, nodes->fresh, MAP);
}
