/* pair.h -- how a figure is measured so that it means something on a noisy
 * machine: as a ratio to a reference in the same run.
 *
 * Reference and candidate take turns in slices of a few milliseconds on the
 * same data, timed by the thread's CPU clock; the result is the median of the
 * ratios of neighbouring slices.
 */
#ifndef SL_PAIR_H
#define SL_PAIR_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAIRS    61
#define SLICE_NS 5000000.0

/* Do the work `rounds` times and return something that depends on all of it,
 * so that no compiler leaves it out. */
typedef uint64_t work_f(void *ctx, uint64_t rounds);

struct pair {
    double ratio;     /* candidate / reference, the median */
    double reference; /* ns per round, the median */
    double candidate;
};

static volatile uint64_t pair_sink;

static inline double thread_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static inline double timed(work_f *work, void *ctx, uint64_t rounds)
{
    double start = thread_ns();

    pair_sink = pair_sink + work(ctx, rounds);
    return thread_ns() - start;
}

/* How many rounds fill a slice. The first rounds find no page mapped, and do
 * not count. */
static inline uint64_t calibrate(work_f *work, void *ctx)
{
    uint64_t rounds = 1024;
    double took = 0;

    (void)timed(work, ctx, 4 * rounds);
    while (took < SLICE_NS / 4) {
        rounds *= 2;
        took = timed(work, ctx, rounds);
    }
    return (uint64_t)((double)rounds * SLICE_NS / took);
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

static inline struct pair measure(work_f *reference, void *ref_ctx,
                                  work_f *candidate, void *ctx)
{
    static double ratios[PAIRS], refs[PAIRS], cands[PAIRS];
    uint64_t ref_rounds = calibrate(reference, ref_ctx);
    uint64_t rounds = calibrate(candidate, ctx);

    for (size_t i = 0; i < PAIRS; i++) {
        refs[i] = timed(reference, ref_ctx, ref_rounds) / (double)ref_rounds;
        cands[i] = timed(candidate, ctx, rounds) / (double)rounds;
        ratios[i] = cands[i] / refs[i];
    }
    return (struct pair){median(ratios, PAIRS), median(refs, PAIRS),
                         median(cands, PAIRS)};
}

/* One row of scripts/bench: lower is better. */
static inline void print_row(const char *name, struct pair p, double budget,
                             const char *detail)
{
    printf("%s\t%.2f\t<= %.2f\t%s\t%s; %.1f ns against %.1f ns\n", name,
           p.ratio, budget, p.ratio <= budget ? "ok" : "short", detail,
           p.candidate, p.reference);
    fflush(stdout);
}

#endif
