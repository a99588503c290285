/* marks.h -- how much of a limit is used, where people want to be told. */
#ifndef SL_CORE_MARKS_H
#define SL_CORE_MARKS_H

#include "base/base.h"

#define SL_THRESHOLDS 8
#define SL_MARK_MAX   1000

/* Percent of a limit, rising. At each of them one event is told in a period. */
struct sl_thresholds {
    uint16_t list[SL_THRESHOLDS];
    unsigned count;
};

#endif
