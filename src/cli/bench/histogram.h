/* histogram.h -- many durations, and which of them is larger than p percent
 * of the others.
 *
 * Sixteen steps to each power of two: what is read back is at most 6.25 %
 * above what was put in.
 */
#ifndef SL_HISTOGRAM_H
#define SL_HISTOGRAM_H

#include "base/base.h"

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

#endif
