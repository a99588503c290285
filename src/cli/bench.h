/* bench.h -- the parts of `sluice bench`: a request that is limited, and a
 * server that is asked instead of an engine in this process. */
#ifndef SL_CLI_BENCH_H
#define SL_CLI_BENCH_H

#include "cli/cli.h"

#define SL_BENCH_TEXT 512

/* The request to send: one that a route of the policy limits. */
struct sl_bench_target {
    char text[SL_BENCH_TEXT]; /* "GET /api/x" */
    struct sluice_request request;
    char method[SL_BENCH_TEXT], path[SL_BENCH_TEXT];

    /* Admissions of one key before a denial; UINT64_MAX: unlimited. */
    uint64_t capacity;
};

/* One connection to the server; each thread has its own. */
struct sl_bench_conn {
    struct sl_daemon_client client;
    struct sl_diag diag; /* why a call failed */
    struct sl_buf body;
};

/* Does not connect. `like` has URL and token. */
void sl_bench_conn_init(struct sl_bench_conn *conn,
                        const struct sl_daemon_client *like);
void sl_bench_conn_done(struct sl_bench_conn *conn);

/* A check of the target for the caller `key`. SLUICE_ESYS, SLUICE_ENOMEM: see
 * conn->diag. */
SL_MUST_USE int sl_bench_check(struct sl_bench_conn *conn,
                               const struct sl_bench_target *target,
                               const char *key, bool *ret_allowed);

/* A limit as an answer of the server shows it. */
struct sl_bench_limit {
    enum { SL_BENCH_BUCKET, SL_BENCH_WINDOW, SL_BENCH_OTHER } kind;
    bool enforced;
    uint64_t burst, remaining;
    uint64_t reset_ms, retry_ms; /* 0: none */
};

struct sl_bench_answer {
    bool allowed;
    size_t count;
    struct sl_bench_limit limits[SLUICE_PARTS_MAX];
};

/* The whole answer of `path`, /v1/check or /v1/explain. */
SL_MUST_USE int sl_bench_ask(struct sl_bench_conn *conn, const char *path,
                             const struct sl_bench_target *target,
                             const char *key, struct sl_bench_answer *ret);

/* How often one new key passes, by what the server shows before and after its
 * first check. 0: no limit takes anything of it, or it does not tell. */
uint64_t sl_bench_capacity(const struct sl_bench_answer *before,
                           const struct sl_bench_answer *after);

/* How often it passes at most within `elapsed` ns, in which buckets refill;
 * `last` is what the server shows at the end. 0: cannot be told, because a
 * window has ended meanwhile or a bucket refills in steps. */
uint64_t sl_bench_most(const struct sl_bench_answer *before,
                       const struct sl_bench_answer *after,
                       const struct sl_bench_answer *last, sl_ns elapsed);

#endif
