/* far.h -- a store that is elsewhere, as the tests of this folder open it: a
 * Redis if they are given the path of its socket, a DynamoDB if a port.
 *
 * Whatever fails ends the test. Time is the takes' own, and no refusal is
 * remembered: each answer is the store's. */
#ifndef SL_CONFORM_FAR_H
#define SL_CONFORM_FAR_H

#include "conform.h"
#include "store/dynamo/dynamo.h"
#include "store/redis/redis.h"

struct far {
    struct sl_loop *loop;
    struct sl_arena arena;
    bool in_redis;
    struct sl_redis_options redis;
    struct sl_dynamo_options dynamo;
};

struct far_stats {
    uint64_t taken, failed, late, uncertain;
    uint64_t repaired; /* Redis: told its script; DynamoDB: came between */
    uint64_t leased, lease_over, asked;
};

/* By `arg`, or if there is none this is the end. */
void far_init(struct far *far, const char *arg);
void far_done(struct far *far);

/* A store that is ready. */
struct sl_store *far_open(struct far *far);
void far_close(struct far *far, struct sl_store *store);
void far_drain(struct far *far, struct sl_store *store, sl_ns now);
void far_stats(const struct sl_store *store, struct far_stats *ret);

/* What conform_run() and its sisters need of it. */
void far_conform(struct far *far, struct conform *ret);

#endif
