/* cluster.h -- a Redis Cluster of the test's own: three masters, each with a
 * replica. */
#ifndef SL_TEST_CLUSTER_H
#define SL_TEST_CLUSTER_H

#include "server.h"

#define CLUSTER 6

struct cluster {
    struct server list[CLUSTER];
    char where[128];
};

/* Of the commands on the line; its output is shown if it fails. */
static inline bool shell(const char *command)
{
    char line[1024];
    int status;

    snprintf(line, sizeof(line), "%s >/tmp/sluice-shell.%d 2>&1", command,
             (int)getpid());
    status = system(line);
    if (status != 0)
        printf("# %s: %d\n", command, status);
    snprintf(line, sizeof(line),
             "sed 's/^/# /' /tmp/sluice-shell.%d | tail -20", (int)getpid());
    if (status != 0 && system(line) != 0)
        printf("# its output can't be shown\n");
    snprintf(line, sizeof(line), "/tmp/sluice-shell.%d", (int)getpid());
    unlink(line);
    return status == 0;
}

/* Does every node say that all is well, and knows all others? */
static inline bool cluster_is_well(struct cluster *c)
{
    for (unsigned i = 0; i < CLUSTER; i++) {
        redisReply *reply = redisCommand(c->list[i].redis, "CLUSTER INFO");
        bool well = reply && reply->type == REDIS_REPLY_STRING &&
                    strstr(reply->str, "cluster_state:ok") &&
                    strstr(reply->str, "cluster_known_nodes:6") &&
                    strstr(reply->str, "cluster_size:3");

        freeReplyObject(reply);
        if (!well)
            return false;
    }
    return true;
}

static inline void cluster_settle(struct cluster *c)
{
    for (unsigned i = 0; i < 1000 && !cluster_is_well(c); i++)
        poll(NULL, 0, 20);
    CHECK(cluster_is_well(c));
}

static inline void cluster_start(struct cluster *c)
{
    char command[512];
    int len = snprintf(command, sizeof(command),
                       "redis-cli --cluster create --cluster-yes "
                       "--cluster-replicas 1");

    for (unsigned i = 0; i < CLUSTER; i++) {
        struct server *s = &c->list[i];

        *s = (struct server){
            .extra = {"--cluster-enabled", "yes", "--cluster-node-timeout",
                      "1000", "--cluster-replica-validity-factor", "0",
                      "--repl-diskless-sync-delay", "0", "--appendonly", "no"}
        };
        server_start(s);
        len += snprintf(command + len, sizeof(command) - (size_t)len,
                        " 127.0.0.1:%u", s->port);
    }
    if (!shell(command))
        server_give_up("no cluster");
    cluster_settle(c);
    snprintf(c->where, sizeof(c->where),
             "redis+cluster://127.0.0.1:%u,127.0.0.1:%u", c->list[0].port,
             c->list[1].port);
}

static inline void cluster_stop(struct cluster *c)
{
    for (unsigned i = 0; i < CLUSTER; i++)
        server_stop(&c->list[i]);
}

/* The server that is master of this key now; NULL if none says so. */
static inline struct server *cluster_master(struct cluster *c, const char *key)
{
    for (unsigned i = 0; i < CLUSTER; i++) {
        redisReply *reply = c->list[i].pid > 0 ? redisCommand(c->list[i].redis,
                                                              "EXISTS %s", key)
                                               : NULL;
        redisReply *role =
            reply ? redisCommand(c->list[i].redis, "ROLE") : NULL;
        bool is = reply && reply->type == REDIS_REPLY_INTEGER && role &&
                  role->type == REDIS_REPLY_ARRAY &&
                  strcmp(role->element[0]->str, "master") == 0;

        freeReplyObject(reply);
        freeReplyObject(role);
        if (is)
            return &c->list[i];
    }
    return NULL;
}

/* What CLUSTER MYID says; valid until the next call. */
static inline const char *cluster_id(struct server *s)
{
    static char id[64];
    redisReply *reply = redisCommand(s->redis, "CLUSTER MYID");

    snprintf(id, sizeof(id), "%s", reply && reply->str ? reply->str : "");
    freeReplyObject(reply);
    return id;
}

#endif
