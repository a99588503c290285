/* swap.c -- the policy changes while threads decide by it.
 *
 * Two policies that differ in one number take turns. Every decision must be
 * made by one of them as a whole: limit and burst belong together. And since
 * what was used stays used, the total that passes is that of the larger one.
 */
#include <pthread.h>
#include <sluice_policy.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"

#define THREADS 4
#define ROUNDS  20000
#define SWAPS   300

static const char *const texts[] = {
    "sluice: 1\n"
    "limits:\n"
    "  one: { kind: token-bucket, per: user, rate: 1000/day burst 1000 }\n"
    "default: [one]\n",
    "sluice: 1\n"
    "limits:\n"
    "  one: { kind: token-bucket, per: user, rate: 500/day burst 2000 }\n"
    "default: [one]\n",
};

static struct sluice_engine *engine;
static atomic_ulong passed, torn;
static atomic_int running;

static int64_t stands_still(void *ctx)
{
    (void)ctx;
    return INT64_C(1790000000) * 1000000000;
}

static void *decide_on(void *ctx)
{
    struct sluice_request ask = {.path = "/x", .user = "ann"};
    struct sluice_decision *d = sluice_decision_new();

    (void)ctx;
    for (int i = 0; i < ROUNDS; i++) {
        struct sluice_shown shown;

        if (sluice_decide(engine, &ask, d)) {
            atomic_fetch_add(&torn, 1);
            continue;
        }
        shown = sluice_decision_limit(d, 0);
        if (!(shown.limit == 1000 && shown.burst == 1000) &&
            !(shown.limit == 500 && shown.burst == 2000))
            atomic_fetch_add(&torn, 1);
        if (sluice_decision_allowed(d))
            atomic_fetch_add(&passed, 1);
    }
    sluice_decision_free(d);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static struct sluice_policy *parse(const char *text)
{
    struct sluice_policy *policy = NULL;

    if (sluice_policy_parse("swap.yaml", text, strlen(text), NULL, &policy,
                            NULL)) {
        printf("Bail out! %s\n", sluice_why());
        exit(1);
    }
    return policy;
}

int main(void)
{
    struct sluice_engine_options options = {.size = 1 << 20,
                                            .now = stands_still};
    pthread_t threads[THREADS];
    struct sluice_policy *policies[] = {parse(texts[0]), parse(texts[1])};
    unsigned swaps = 0;

    CASE("policies change under decisions: none is torn, and none is lost");
    CHECK_EQ(sluice_engine_open(policies[0], &options, &engine), 0);
    atomic_store(&running, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, decide_on, NULL);
    while (atomic_load(&running) > 0 || swaps < SWAPS)
        CHECK_EQ(sluice_engine_use(engine, policies[++swaps % 2]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(atomic_load(&torn), 0);
    CHECK_EQ(atomic_load(&passed), 2000);
    sluice_engine_close(engine);
    sluice_policy_release(policies[0]);
    sluice_policy_release(policies[1]);
    return CHECK_DONE();
}
