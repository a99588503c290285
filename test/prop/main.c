/* main.c -- runs one property; see prop.h. */
#include <stdlib.h>

#include "base/base.h"
#include "prop.h"

/* Meson passes the absolute path; by hand, tests run from the root. */
#ifndef SL_SEEDS
#define SL_SEEDS "test/prop/seeds"
#endif

/* Enough to see a pattern, few enough to read. */
#define FAILURES_MAX 5

static const struct property *const properties[] = {
    &prop_anchor,   &prop_backoff, &prop_bucket,      &prop_calendar,
    &prop_credits,  &prop_fair,    &prop_fingerprint, &prop_subject_cache,
    &prop_fixed,    &prop_holds,
#ifdef SL_HTTP_PARSER
    &prop_http1,
#endif
    &prop_interval, &prop_ip,      &prop_journal,     &prop_key,
    &prop_repeats,  &prop_leased,  &prop_combined,    &prop_leases,
    &prop_penalty,  &prop_permits, &prop_policy,      &prop_quota,
    &prop_render,   &prop_reserve, &prop_route,       &prop_scale,
    &prop_sketch,   &prop_sliding, &prop_throttle,    &prop_ways,
};

struct run {
    const struct property *property;
    uint64_t seed, steps;
    bool replay;
};

static uint64_t number(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 0);

    if (!*text || *end) {
        fprintf(stderr, "not a number: %s\n", text);
        exit(2);
    }
    return value;
}

static void usage(void)
{
    fprintf(stderr, "usage: prop NAME [--seed N] [--steps N]\nnames:");
    for (size_t i = 0; i < SL_LEN(properties); i++)
        fprintf(stderr, " %s", properties[i]->name);
    fprintf(stderr, "\n");
    exit(2);
}

static struct run start(int argc, char **argv)
{
    const char *asked = getenv("SL_PROP_STEPS");
    const char *times = getenv("SL_PROP_TIMES");
    struct run run = {.seed = 1};

    for (size_t i = 0; argc > 1 && i < SL_LEN(properties); i++)
        if (strcmp(properties[i]->name, argv[1]) == 0)
            run.property = properties[i];
    if (!run.property)
        usage();
    run.steps = run.property->steps;
    if (asked && *asked && number(asked) < run.steps)
        run.steps = number(asked);
    else if (times && *times && !(asked && *asked))
        run.steps *= number(times);
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            run.seed = number(argv[i + 1]);
            run.replay = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            run.steps = number(argv[i + 1]);
        } else {
            usage();
        }
    }
    return run;
}

/* Runs one episode, and prints how to replay it if it fails. */
static bool holds(const struct run *run, prop_episode_f *episode, uint64_t seed,
                  uint64_t *steps)
{
    bool failed_before = check_state.bad, good;

    check_state.bad = false;
    good = episode(seed, steps) && !check_state.bad;
    check_state.bad = failed_before || !good;
    if (!good)
        printf("# replay: prop %s --seed %" PRIu64 " --steps 1\n",
               run->property->name, seed);
    return good;
}

/* Runs the seeds of this property that once failed. */
static void run_kept(const struct run *run, prop_episode_f *episode)
{
    char line[256], name[32];
    uint64_t seed, steps = 0;
    FILE *file = fopen(SL_SEEDS, "r");

    if (!CHECK(file != NULL))
        return;
    while (fgets(line, sizeof(line), file))
        if (line[0] != '#' &&
            CHECK(sscanf(line, "%31s %" SCNu64, name, &seed) == 2) &&
            strcmp(name, run->property->name) == 0)
            holds(run, episode, seed, &steps);
    fclose(file);
}

static void run_case(const struct run *run, const struct prop_case *c)
{
    unsigned divisor = c->divisor ? c->divisor : 1;
    uint64_t most = run->steps / divisor + (run->steps % divisor != 0);
    uint64_t steps = 0;
    unsigned failures = 0;

    CASE(c->what);
    if (!run->replay)
        run_kept(run, c->episode);
    for (uint64_t k = 0; steps < most && failures < FAILURES_MAX; k++)
        failures += !holds(run, c->episode, run->seed + k, &steps);
    printf("# %" PRIu64 " steps from seed %" PRIu64 "\n", steps, run->seed);
}

int main(int argc, char **argv)
{
    struct run run = start(argc, argv);
    const struct property *p = run.property;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (p->open) {
        CASE("the property can start");
        if (!CHECK(p->open()))
            return CHECK_DONE();
    }
    for (size_t i = 0; i < SL_LEN(p->cases) && p->cases[i].episode; i++)
        run_case(&run, &p->cases[i]);
    if (p->finish && !run.replay)
        p->finish(run.steps);
    return CHECK_DONE();
}
