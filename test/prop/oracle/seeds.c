/* seeds.c -- see seeds.h. */
#include "seeds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Meson hands in the absolute path; by hand, tests run from the root. */
#ifndef SL_SEEDS_DIR
#define SL_SEEDS_DIR "test/prop/seeds"
#endif

/* Enough to see a pattern, few enough to read. */
#define FAILURES_MAX 5

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

struct seeds seeds_start(int argc, char **argv, const char *name,
                         uint64_t steps)
{
    struct seeds run = {.name = name, .seed = 1, .steps = steps};
    const char *asked = getenv("SL_PROP_STEPS");
    const char *times = getenv("SL_PROP_TIMES");

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (asked && *asked)
        run.steps = number(asked);
    else if (times && *times)
        run.steps *= number(times);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            run.seed = number(argv[i + 1]);
            run.only = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            run.steps = number(argv[i + 1]);
        } else {
            fprintf(stderr, "usage: %s [--seed N] [--steps N]\n", argv[0]);
            exit(2);
        }
    }
    return run;
}

static bool one(const struct seeds *run, seeds_episode_f *episode,
                uint64_t seed, uint64_t *steps)
{
    if (episode(seed, steps))
        return true;
    printf("# replay: prop-%s --seed %" PRIu64 " --steps 1\n", run->name, seed);
    return false;
}

/* A missing file is an error: a renamed test must not lose its past. */
static bool kept(const struct seeds *run, seeds_episode_f *episode)
{
    char path[512], line[256];
    bool good = true;
    uint64_t steps = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.seeds", SL_SEEDS_DIR, run->name);
    file = fopen(path, "r");
    if (!file) {
        printf("# cannot read %s\n", path);
        return false;
    }
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, " \t\n")] = '\0';
        if (line[0] && line[0] != '#')
            good &= one(run, episode, number(line), &steps);
    }
    fclose(file);
    return good;
}

bool seeds_run(const struct seeds *run, seeds_episode_f *episode)
{
    bool good = run->only || kept(run, episode);
    uint64_t steps = 0;
    unsigned failures = 0;

    for (uint64_t k = 0; steps < run->steps && failures < FAILURES_MAX; k++)
        failures += !one(run, episode, run->seed + k, &steps);
    printf("# %" PRIu64 " steps from seed %" PRIu64 "\n", steps, run->seed);
    return good && !failures;
}
