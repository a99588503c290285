/* load.h -- many threads that ask an engine, and how that went. */
#ifndef SL_LOAD_H
#define SL_LOAD_H

#include "cli/bench/histogram.h"
#include "sluice_policy.h"

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
