/* grpc.h -- gRPC requests to handlers, and their answers back.
 *
 *     conn --> nghttp2 --> stream --> which method? token? --> handler
 *                             ^                                   |
 *                             +------ messages, then a status ----+
 *
 * A stream is one request of a connection. A call is what one request of the
 * rate limit service needs while it is decided: streams are small and many,
 * calls are large and, with a store in this process, one per worker. With a
 * remote store each request has one until it is answered.
 *
 *   conn.c         connections, timeouts, nghttp2, token
 *   stream.c       requests: fields and messages in, messages and status out
 *   services.c     ShouldRateLimit, grpc.health.v1, server reflection
 *   descriptors.c  the files that reflection shows
 *   alloc.c        nghttp2's allocator
 *
 * Default timeouts: 5 s to begin, 10 s for a request, 10 min idle.
 */
#ifndef SL_SERVER_GRPC_GRPC_H
#define SL_SERVER_GRPC_GRPC_H

#include "engine/check.h"
#include "server/server.h"

struct sl_grpc_stream;

/* Memory for the next request, by size; alloc.c. */
#define SL_GRPC_SIZES 6

struct sl_grpc_pool {
    const struct sl_alloc *alloc;
    union sl_grpc_piece *kept[SL_GRPC_SIZES];
    unsigned count[SL_GRPC_SIZES];
};

struct sl_grpc_worker {
    struct sl_server_worker base; /* first */
    struct sl_grpc_pool pool;
    uint64_t random_seed; /* ages differ */
    TAILQ_HEAD(, sl_grpc_stream) spare_streams;
    unsigned spare_count;
    TAILQ_HEAD(, sl_grpc_stream) watchers; /* of health */
};

extern const struct sl_protocol sl_protocol_grpc;

#endif
