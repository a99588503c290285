/* resp.h -- load for the Redis protocol: connections that are never idle. */
#ifndef SL_BENCH_RESP_H
#define SL_BENCH_RESP_H

#include "../http/http.h"

#define CONNS 32

struct pipeline; /* CONNS connections to one server */

/* Pipelines of `depth` commands each, `count` of them, sent in turn. To the
 * unix socket of the server if `is_unix`. */
struct pipeline *pipeline_open(const struct server *s, bool is_unix,
                               const struct sl_buf *questions, unsigned count,
                               unsigned depth);

/* Keep every connection busy for so long; returns how many commands were
 * answered. *ret_seconds is how long it took. */
uint64_t pipeline_run(struct pipeline *p, double seconds, double *ret_seconds);

/* Send one command and read its reply, of at most `size` bytes; dies if it is
 * an error. */
void command(const struct server *s, const struct sl_str *words, unsigned count,
             char *ret, size_t size);

#endif
