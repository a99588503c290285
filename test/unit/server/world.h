/* world.h -- a policy in force, for tests from outside. */
#ifndef SL_TEST_WORLD_H
#define SL_TEST_WORLD_H

#include <sluice_policy.h>
#include <stdlib.h>

#include "check.h"

struct world {
    struct sluice_engine *engine;
    struct sluice_decision *decision;
    int64_t now;
};

static int64_t world_now(void *ctx)
{
    return ((struct world *)ctx)->now;
}

static void world_begin(struct world *w, const char *text)
{
    struct sluice_engine_options options = {
        .size = 1 << 20, .now = world_now, .now_ctx = w};
    struct sluice_problems *problems;
    struct sluice_policy *policy = NULL;
    int err = sluice_policy_parse("w.yaml", text, strlen(text), NULL, &policy,
                                  &problems);

    w->decision = sluice_decision_new();
    if (err || !w->decision ||
        sluice_engine_open(policy, &options, &w->engine)) {
        printf("Bail out! %s\n", sluice_why());
        exit(1);
    }
    sluice_problems_free(problems);
    sluice_policy_release(policy);
}

static void world_end(struct world *w)
{
    sluice_decision_free(w->decision);
    sluice_engine_close(w->engine);
}

#endif
