/* base.h -- the few words that every room speaks.
 *
 * Time is sl_ns: nanoseconds since 1970-01-01T00:00:00Z for an instant, plain
 * nanoseconds for a span. It is signed so that a difference can be taken
 * without a thought, and no instant before 1970 is ever handed around. Inside
 * the house durations carry no unit suffix; at the border they always do.
 */
#ifndef SL_BASE_BASE_H
#define SL_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice.h" /* enum sluice_err */

typedef int64_t sl_ns;

#define SL_NS_MAX INT64_MAX

/* Instants lie in [0, SL_TIME_END): from 1970 to February 2116. */
#define SL_TIME_END (INT64_C(1) << 62)

/* "There is no such time": for answers that name no instant. */
#define SL_NS_NONE ((sl_ns)-1)

#define SL_US   INT64_C(1000)
#define SL_MS   (1000 * SL_US)
#define SL_S    (1000 * SL_MS)
#define SL_MIN  (60 * SL_S)
#define SL_HOUR (60 * SL_MIN)
#define SL_DAY  (24 * SL_HOUR)
#define SL_WEEK (7 * SL_DAY)

/* What holds although the analyzer of clang can't see it. */
#ifdef __clang_analyzer__
#define SL_HOLDS(what) ((what) ? (void)0 : __builtin_unreachable())
#else
#define SL_HOLDS(what) ((void)0)
#endif

#define SL_LEN(array) (sizeof(array) / sizeof((array)[0]))

#define SL_MUST_USE          __attribute__((warn_unused_result))
#define SL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#endif
