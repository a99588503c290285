/* discovery.c -- asks around. */
#include "base/hash.h"
#include "store/redis/redis_int.h"

#define REST       (400 * SL_MS) /* when it knew */
#define AGAIN      (20 * SL_MS)  /* when it did not; twice as long each time */
#define AGAIN_MOST (500 * SL_MS)

/* RESTING --go--> SOON --time--> OUT --reply or none--> BACK --+--> RESTING
 *                  ^                                           |
 *                  +-------------- nobody knew ----------------+
 */
enum state { RESTING, SOON, OUT, BACK };

struct sl_redis_discovery {
    struct sl_redis_discovery_options options;
    struct sl_redis_wire_cmd wire; /* OUT */
    struct sl_redis_conn *conn;    /* OUT and BACK */
    struct sl_timer *timer;
    struct sl_redis_addr at;
    enum state state;
    bool knows;
    unsigned turn;
    unsigned failures; /* since it knew */
    sl_ns rests_until; /* steady */
    struct sl_jitter jitter;
};

static struct sl_redis_discovery *of(struct sl_redis_wire_cmd *wire)
{
    return (
        struct sl_redis_discovery *)((char *)wire -
                                     offsetof(struct sl_redis_discovery, wire));
}

static void come_back(struct sl_redis_discovery *discovery, bool knows)
{
    discovery->state = BACK;
    discovery->knows = knows;
    sl_timer_start(discovery->timer, 0); /* a link is not closed in a done() */
}

static void on_done(struct sl_redis_wire_cmd *wire, enum sl_redis_result result,
                    struct sl_str reply)
{
    struct sl_redis_discovery *discovery = of(wire);
    const struct sl_redis_discovery_options *o = &discovery->options;

    come_back(discovery, result == SL_REDIS_REPLIED &&
                             o->on_reply(o->ctx, &discovery->at, reply));
}

static void go_out(struct sl_redis_discovery *discovery)
{
    const struct sl_redis_discovery_options *o = &discovery->options;
    struct sl_redis_conn_options conn = {
        .conns = o->conns,
        .loop = o->loop,
        .name = discovery->at.name,
        .tls = o->tls,
        .user = o->user,
        .password = o->password,
        .most = 1,
        .alloc = o->alloc,
    };

    discovery->state = OUT;
    if (!o->host(o->ctx, discovery->turn++, &discovery->at)) {
        come_back(discovery, false);
        return;
    }
    conn.port = discovery->at.port;
    if (sl_redis_conn_open(&conn, &discovery->conn)) {
        discovery->conn = NULL;
        come_back(discovery, false);
        return;
    }
    discovery->wire.command = o->command;
    discovery->wire.done = on_done;
    sl_redis_conn_send(discovery->conn, &discovery->wire);
}

static void rest(struct sl_redis_discovery *discovery)
{
    discovery->failures = 0;
    discovery->state = RESTING;
    discovery->rests_until = sl_loop_mono(discovery->options.loop) +
                             sl_jitter_span(&discovery->jitter, REST);
}

static void try_another(struct sl_redis_discovery *discovery)
{
    unsigned shift = discovery->failures < 8 ? discovery->failures++ : 8;
    sl_ns most = AGAIN << shift;

    discovery->state = SOON;
    sl_timer_start(discovery->timer,
                   sl_jitter_span(&discovery->jitter,
                                  most < AGAIN_MOST ? most : AGAIN_MOST));
}

static void on_timer(void *ctx)
{
    struct sl_redis_discovery *discovery = ctx;
    struct sl_redis_conn *conn = discovery->conn;

    if (discovery->state == SOON) {
        go_out(discovery);
    } else if (discovery->state == BACK) {
        discovery->conn = NULL;
        sl_redis_conn_close(conn);
        if (discovery->knows)
            rest(discovery);
        else
            try_another(discovery);
    }
}

void sl_redis_discovery_go(struct sl_redis_discovery *discovery)
{
    sl_ns now = sl_loop_mono(discovery->options.loop);

    if (discovery->state != RESTING)
        return;
    discovery->state = SOON;
    sl_timer_start(discovery->timer, discovery->rests_until > now
                                         ? discovery->rests_until - now
                                         : 0);
}

int sl_redis_discovery_open(const struct sl_redis_discovery_options *options,
                            struct sl_redis_discovery **ret)
{
    struct sl_redis_discovery *discovery =
        sl_alloc_new(options->alloc, sizeof(*discovery));
    int err;

    if (!discovery)
        return SLUICE_ENOMEM;
    *discovery =
        (struct sl_redis_discovery){.options = *options, .state = RESTING};
    err = sl_jitter_init(&discovery->jitter);
    if (!err)
        err =
            sl_timer_new(options->loop, on_timer, discovery, &discovery->timer);
    if (err) {
        sl_redis_discovery_close(discovery);
        return err;
    }
    discovery->turn = (unsigned)(sl_jitter_next(&discovery->jitter) % 1024);
    *ret = discovery;
    return 0;
}

void sl_redis_discovery_close(struct sl_redis_discovery *discovery)
{
    if (!discovery)
        return;
    sl_redis_conn_close(discovery->conn); /* its flight ends */
    sl_timer_free(discovery->timer);
    sl_alloc_free(discovery->options.alloc, discovery, sizeof(*discovery));
}
