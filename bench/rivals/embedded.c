/* embedded.c -- libsluice in the row of libraries: one take per decision.
 *
 *     embedded own|caller KEYS SECONDS [THREADS [LIMITS]]
 *
 * The drivers of the other libraries do the same: all keys once, then keys in
 * a random order for some seconds. Prints CPU time of the process per decision
 * and resident bytes per key. `caller` hands in a clock of the caller, which is
 * read once per 64 decisions, as a server with a loop would.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sluice.h"

#define KEY_BYTES 13

static char *names;
static size_t keys;
static unsigned limit_count = 1;
static double seconds;
static struct sluice *gate;
static int64_t caller_now;

static double clock_s(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int64_t read_caller(void *ctx)
{
    (void)ctx;
    return __atomic_load_n(&caller_now, __ATOMIC_RELAXED);
}

static void set_caller(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    __atomic_store_n(&caller_now, (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec,
                     __ATOMIC_RELAXED);
}

static size_t resident(void)
{
    unsigned long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file || fscanf(file, "%lu %lu", &all, &pages) != 2)
        exit(1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void take(size_t key)
{
    struct sluice_part parts[SLUICE_PARTS_MAX];
    struct sluice_verdict verdict;

    for (unsigned i = 0; i < limit_count; i++)
        parts[i] = (struct sluice_part){.limit = i,
                                        .key = names + key * KEY_BYTES,
                                        .key_len = KEY_BYTES - 1,
                                        .cost = 1};
    if (sluice_take(gate, parts, limit_count, &verdict) ||
        verdict.outcome != SLUICE_ALLOW || parts[0].answer.untracked) {
        fprintf(stderr, "embedded: a take was not counted\n");
        exit(1);
    }
}

static void *work(void *ctx)
{
    uint64_t x = 88172645463325252u + (uintptr_t)ctx * 977, done = 0;
    double end = clock_s(CLOCK_MONOTONIC) + seconds;

    while (clock_s(CLOCK_MONOTONIC) < end)
        for (unsigned i = 0; i < 4096; i++, done++) {
            if (i % 64 == 0)
                set_caller();
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            take(x % keys);
        }
    return (void *)(uintptr_t)done; /* style: a count */
}

static void open_gate(int has_clock)
{
    static const char *const names_of_limits[SLUICE_PARTS_MAX] = {
        "a", "b", "c", "d", "e", "f", "g", "h",
        "i", "j", "k", "l", "m", "n", "o", "p"};
    struct sluice_limit limits[SLUICE_PARTS_MAX];
    /* Room for the keys and a quarter more. */
    struct sluice_options o = {.limits = limits,
                               .limit_count = limit_count,
                               .size =
                                   (size_t)(1 << 20) + keys * limit_count * 42};

    for (unsigned i = 0; i < limit_count; i++)
        limits[i] = (struct sluice_limit){
            .name = names_of_limits[i],
            .kind = SLUICE_TOKEN_BUCKET,
            /* A few keys are used more often. */
            .rate = keys < 100 ? "1000M/day" : "10k/day burst 1M"};
    set_caller();
    if (has_clock)
        o.now = read_caller;
    if (sluice_open(&o, &gate)) {
        fprintf(stderr, "embedded: %s\n", sluice_why());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    unsigned threads = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 1;
    pthread_t ids[64];
    double began, cpu, took;
    uint64_t done = 0;
    size_t before;

    if (argc < 4)
        return 2;
    keys = strtoul(argv[2], NULL, 10);
    if (argc > 5)
        limit_count = (unsigned)strtoul(argv[5], NULL, 10);
    seconds = strtod(argv[3], NULL);
    names = malloc(keys * KEY_BYTES);
    if (!names || threads < 1 || threads > 64 || limit_count < 1 ||
        limit_count > SLUICE_PARTS_MAX)
        return 2;
    for (size_t i = 0; i < keys; i++) {
        char name[32];

        snprintf(name, sizeof(name),
                 keys > 10000000 ? "us:%09zu" : "user:%07zu", i);
        memcpy(names + i * KEY_BYTES, name, KEY_BYTES);
    }
    before = resident();
    open_gate(strcmp(argv[1], "caller") == 0);
    for (size_t i = 0; i < keys; i++)
        take(i);
    before = resident() - before;
    took = clock_s(CLOCK_MONOTONIC);
    began = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    for (uintptr_t i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, work, (void *)i);
    for (unsigned i = 0; i < threads; i++) {
        void *count;

        pthread_join(ids[i], &count);
        done += (uintptr_t)count;
    }
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - began;
    took = clock_s(CLOCK_MONOTONIC) - took;
    printf("{\"ns\": %.1f, \"bytes\": %.1f, \"decisions\": %llu, "
           "\"seconds\": %.4f}\n",
           cpu * 1e9 / (double)done, (double)before / (double)keys,
           (unsigned long long)done, took);
    sluice_close(gate);
    return 0;
}
