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
    struct sl_redis_wire_cmd flight; /* OUT */
    struct sl_redis_conn *link;      /* OUT and BACK */
    struct sl_timer *timer;
    struct sl_redis_addr at;
    enum state state;
    bool knows;
    unsigned turn;
    unsigned failures; /* since it knew */
    sl_ns rests_until; /* steady */
    struct sl_jitter dice;
};

static struct sl_redis_discovery *of(struct sl_redis_wire_cmd *flight)
{
    return (struct sl_redis_discovery *)((char *)flight -
                                         offsetof(struct sl_redis_discovery,
                                                  flight));
}

static void come_back(struct sl_redis_discovery *scout, bool knows)
{
    scout->state = BACK;
    scout->knows = knows;
    sl_timer_start(scout->timer, 0); /* a link is not closed in a done() */
}

static void on_done(struct sl_redis_wire_cmd *flight,
                    enum sl_redis_result landing, struct sl_str reply)
{
    struct sl_redis_discovery *scout = of(flight);
    const struct sl_redis_discovery_options *o = &scout->options;

    come_back(scout, landing == SL_REDIS_REPLIED &&
                         o->on_reply(o->ctx, &scout->at, reply));
}

static void go_out(struct sl_redis_discovery *scout)
{
    const struct sl_redis_discovery_options *o = &scout->options;
    struct sl_redis_conn_options link = {
        .conns = o->conns,
        .loop = o->loop,
        .name = scout->at.name,
        .tls = o->tls,
        .user = o->user,
        .password = o->password,
        .most = 1,
        .alloc = o->alloc,
    };

    scout->state = OUT;
    if (!o->host(o->ctx, scout->turn++, &scout->at)) {
        come_back(scout, false);
        return;
    }
    link.port = scout->at.port;
    if (sl_redis_conn_open(&link, &scout->link)) {
        scout->link = NULL;
        come_back(scout, false);
        return;
    }
    scout->flight.command = o->command;
    scout->flight.done = on_done;
    sl_redis_conn_send(scout->link, &scout->flight);
}

static void rest(struct sl_redis_discovery *scout)
{
    scout->failures = 0;
    scout->state = RESTING;
    scout->rests_until =
        sl_loop_mono(scout->options.loop) + sl_jitter_span(&scout->dice, REST);
}

static void try_another(struct sl_redis_discovery *scout)
{
    unsigned shift = scout->failures < 8 ? scout->failures++ : 8;
    sl_ns most = AGAIN << shift;

    scout->state = SOON;
    sl_timer_start(
        scout->timer,
        sl_jitter_span(&scout->dice, most < AGAIN_MOST ? most : AGAIN_MOST));
}

static void on_timer(void *ctx)
{
    struct sl_redis_discovery *scout = ctx;
    struct sl_redis_conn *link = scout->link;

    if (scout->state == SOON) {
        go_out(scout);
    } else if (scout->state == BACK) {
        scout->link = NULL;
        sl_redis_conn_close(link);
        if (scout->knows)
            rest(scout);
        else
            try_another(scout);
    }
}

void sl_redis_discovery_go(struct sl_redis_discovery *scout)
{
    sl_ns now = sl_loop_mono(scout->options.loop);

    if (scout->state != RESTING)
        return;
    scout->state = SOON;
    sl_timer_start(scout->timer,
                   scout->rests_until > now ? scout->rests_until - now : 0);
}

int sl_redis_discovery_open(const struct sl_redis_discovery_options *options,
                            struct sl_redis_discovery **ret)
{
    struct sl_redis_discovery *scout =
        sl_alloc_new(options->alloc, sizeof(*scout));
    int err;

    if (!scout)
        return SLUICE_ENOMEM;
    *scout = (struct sl_redis_discovery){.options = *options, .state = RESTING};
    err = sl_jitter_init(&scout->dice);
    if (!err)
        err = sl_timer_new(options->loop, on_timer, scout, &scout->timer);
    if (err) {
        sl_redis_discovery_close(scout);
        return err;
    }
    scout->turn = (unsigned)(sl_jitter_next(&scout->dice) % 1024);
    *ret = scout;
    return 0;
}

void sl_redis_discovery_close(struct sl_redis_discovery *scout)
{
    if (!scout)
        return;
    sl_redis_conn_close(scout->link); /* its flight ends */
    sl_timer_free(scout->timer);
    sl_alloc_free(scout->options.alloc, scout, sizeof(*scout));
}
