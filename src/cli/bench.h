/* bench.h -- many threads that ask an engine, and how that went. */
#ifndef SL_CLI_BENCH_H
#define SL_CLI_BENCH_H

#include "base/base.h"
#include "sluice_policy.h"

/* ---- many durations, and which of them is larger than p percent
 * of the others.
 *
 * Sixteen steps to each power of two: what is read back is at most 6.25 %
 * above what was put in.
 */

#define SL_HISTOGRAM_STEPS 1024

struct sl_histogram {
    uint64_t count[SL_HISTOGRAM_STEPS];
    uint64_t total;
};

void sl_histogram_add(struct sl_histogram *h, uint64_t value);
void sl_histogram_merge(struct sl_histogram *into,
                        const struct sl_histogram *from);

/* The smallest value that at least `permille` of 1000 do not pass; 0 if there
 * are none. */
uint64_t sl_histogram_at(const struct sl_histogram *h, unsigned permille);

#define SL_LOAD_THREADS 128
#define SL_LOAD_TEXT    512

/* What is asked for: a request that a route of the policy is about. */
struct sl_target {
    char text[SL_LOAD_TEXT]; /* "GET /api/x" */
    struct sluice_request request;
    char method[SL_LOAD_TEXT], path[SL_LOAD_TEXT];

    /* How often it is admitted to one key before it is refused, from the
     * numbers of its limits; UINT64_MAX if nothing limits it. */
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

/* Choose what to ask for. SLUICE_ENOENT if the policy limits nothing. */
SL_MUST_USE int sl_load_aim(struct sl_load *load);

/* Ask for random keys as fast as it goes, for as long as it is to last. */
SL_MUST_USE int sl_load_drive(const struct sl_load *load,
                              struct sl_load_result *ret);

/* All threads ask for one key while time stands still. *ret is how many were
 * admitted of `attempts`. */
SL_MUST_USE int sl_load_hot(const struct sl_load *load, uint64_t attempts,
                            uint64_t *ret);

#endif
