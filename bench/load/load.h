/* load.h -- the parts of the load generator. */
#ifndef SL_BENCH_LOAD_H
#define SL_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct conn;

/* One protocol. A connection has `depth` requests under way. */
struct codec {
    /* A new connection; may write to `out`. */
    void (*open)(struct conn *c);
    void (*close)(struct conn *c);
    /* Append a request to `out`. */
    void (*put)(struct conn *c, struct sl_str request);
    /* Read what arrived; calls on_reply() per whole reply. */
    void (*feed)(struct conn *c);
    /* Replace each reply by a request at once, instead of all together. */
    bool is_rolling;
};

struct conn {
    int fd;
    unsigned open;     /* replies to come */
    unsigned requests; /* sent on this connection */
    double sent_at;    /* us */
    size_t need;       /* http: length of the reply, 0 if unknown */
    struct sl_buf in, out;
    void *session; /* grpc */
};

struct options {
    const char *protocol, *file;
    const char *path;   /* grpc: the method */
    const char *admits; /* text of a reply that admits */
    unsigned port, conns, depth, per_conn;
    double seconds, rate;
    uint64_t count;
};

extern struct options options;
extern const struct codec codec_http, codec_resp, codec_grpc;

_Noreturn void die(const char *fmt, ...) SL_PRINTF(1, 2);

/* A whole reply. */
void on_reply(struct conn *c, struct sl_str reply);

#endif
