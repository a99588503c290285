/* bench.h -- threads that call an engine, and a histogram of latencies. */
#ifndef SL_CLI_BENCH_H
#define SL_CLI_BENCH_H

#include "base/base.h"
#include "sluice_policy.h"

/* ---- histogram ----
 *
 * Sixteen steps per power of two: a result is at most 6.25 % above the value.
 */

#define SL_HISTOGRAM_STEPS 1024

struct sl_histogram {
    uint64_t count[SL_HISTOGRAM_STEPS];
    uint64_t total;
};

void sl_histogram_add(struct sl_histogram *h, uint64_t value);
void sl_histogram_merge(struct sl_histogram *into,
                        const struct sl_histogram *from);

/* The smallest value that at least `permille` of 1000 do not exceed; 0 if there
 * are none. */
uint64_t sl_histogram_at(const struct sl_histogram *h, unsigned permille);

#define SL_LOAD_THREADS 128
#define SL_LOAD_TEXT    512

/* The request to send: one that a route of the policy limits. */
struct sl_target {
    char text[SL_LOAD_TEXT]; /* "GET /api/x" */
    struct sluice_request request;
    char method[SL_LOAD_TEXT], path[SL_LOAD_TEXT];

    /* Admissions of one key before a denial; UINT64_MAX: unlimited. */
    uint64_t capacity;
};

struct sl_load {
    struct sluice_policy *policy;
    struct sl_target target;
    unsigned threads;
    uint64_t keys;
    sl_ns duration;
};

struct sl_load_result {
    uint64_t decisions, allowed;
    sl_ns elapsed;
    struct sl_histogram latency;
};

/* Choose the request. SLUICE_ENOENT: the policy limits nothing. */
SL_MUST_USE int sl_load_aim(struct sl_load *load);

/* Call with random keys for the duration of the run. */
SL_MUST_USE int sl_load_drive(const struct sl_load *load,
                              struct sl_load_result *ret);

/* Call with one key from all threads while the clock stands still. *ret is the
 * number of admissions of `attempts`. */
SL_MUST_USE int sl_load_hot(const struct sl_load *load, uint64_t attempts,
                            uint64_t *ret);

#endif
