/* histogram.c -- durations in steps that grow with them. */
#include "cli/bench/histogram.h"

#define FINE 4 /* bits of a value that are kept below its highest one */

static unsigned step_of(uint64_t value)
{
    unsigned top;

    if (value < (1u << FINE))
        return (unsigned)value;
    top = 63 - (unsigned)__builtin_clzll(value);
    return ((top - FINE + 1) << FINE) +
           (unsigned)(value >> (top - FINE) & ((1u << FINE) - 1));
}

/* The largest value of a step. */
static uint64_t value_of(unsigned step)
{
    unsigned shift = step >> FINE;
    uint64_t low = step & ((1u << FINE) - 1);

    if (shift == 0)
        return low;
    shift--;
    return (((low | 1u << FINE) + 1) << shift) - 1;
}

void sl_histogram_add(struct sl_histogram *h, uint64_t value)
{
    h->count[step_of(value)]++;
    h->total++;
}

void sl_histogram_merge(struct sl_histogram *into,
                        const struct sl_histogram *from)
{
    for (unsigned i = 0; i < SL_HISTOGRAM_STEPS; i++)
        into->count[i] += from->count[i];
    into->total += from->total;
}

uint64_t sl_histogram_at(const struct sl_histogram *h, unsigned permille)
{
    /* Rounded up: a rank below it would leave too many above. */
    uint64_t rank =
        h->total / 1000 * permille + (h->total % 1000 * permille + 999) / 1000;
    uint64_t seen = 0;

    for (unsigned i = 0; i < SL_HISTOGRAM_STEPS; i++) {
        seen += h->count[i];
        if (h->count[i] > 0 && seen >= rank)
            return value_of(i);
    }
    return 0;
}
