/* take.c -- which algorithm serves which kind. */
#include "core/take.h"

const struct sl_algorithm *const sl_algorithms[SL_KINDS] = {
    [SL_BUCKET] = &sl_bucket,   [SL_INTERVAL] = &sl_bucket,
    [SL_LEAKY] = &sl_bucket,    [SL_FIXED] = &sl_window,
    [SL_SLIDING] = &sl_sliding, [SL_QUOTA] = &sl_window,
    [SL_PERMITS] = &sl_permits, [SL_LEVEL] = &sl_permits,
};
