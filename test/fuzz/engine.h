/* engine.h -- an engine over a policy and an empty memory store, for targets of
 * the servers. */
#ifndef SL_FUZZ_ENGINE_H
#define SL_FUZZ_ENGINE_H

#include "engine/engine.h"
#include "fuzz.h"

static inline struct sl_engine *fuzz_engine(const char *text)
{
    struct sl_memory_options memory = {.size = 1 << 20};
    struct sl_engine_options options = {.store = NULL};
    struct sl_policy_options reading = {.alloc = NULL};
    struct sl_policy *policy = NULL;
    struct sl_engine *engine = NULL;
    struct sl_report report;

    sl_report_init(&report, "fuzz.yaml", sl_str_c(text), &sl_alloc_libc);
    MUST(sl_policy_read(&report, &reading, &policy) == 0);
    MUST(sl_memory_open(&memory, &options.store, NULL) == 0);
    MUST(sl_engine_open(&options, policy, &engine, NULL) == 0);
    sl_policy_unref(policy);
    sl_report_done(&report);
    return engine;
}

#endif
