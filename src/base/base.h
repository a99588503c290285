/* base.h -- types and macros for every layer.
 *
 * Time is sl_ns: nanoseconds since 1970-01-01T00:00:00Z for an instant,
 * nanoseconds for a duration. It is signed, so that differences can be taken;
 * instants before 1970 do not occur. Durations have no unit suffix inside the
 * program, and always one in public interfaces.
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

/* No instant. */
#define SL_NS_NONE ((sl_ns)-1)

#define SL_US   INT64_C(1000)
#define SL_MS   (1000 * SL_US)
#define SL_S    (1000 * SL_MS)
#define SL_MIN  (60 * SL_S)
#define SL_HOUR (60 * SL_MIN)
#define SL_DAY  (24 * SL_HOUR)
#define SL_WEEK (7 * SL_DAY)

/* A condition that holds although the analyzer of clang cannot see it. */
#ifdef __clang_analyzer__
#define SL_HOLDS(what) ((what) ? (void)0 : __builtin_unreachable())
#else
#define SL_HOLDS(what) ((void)0)
#endif

/* Exit codes of both programs. */
enum sl_exit {
    SL_EXIT_OK = 0,          /* done, or allowed */
    SL_EXIT_FAILED = 1,      /* failed, or denied */
    SL_EXIT_USAGE = 2,       /* flags or variables are invalid */
    SL_EXIT_POLICY = 3,      /* a policy is invalid */
    SL_EXIT_UNREACHABLE = 4, /* a daemon could not be reached */
    SL_EXIT_STORE = 5,       /* a store failed */
};

#define SL_LEN(array) (sizeof(array) / sizeof((array)[0]))

#define SL_MUST_USE          __attribute__((warn_unused_result))
#define SL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#endif
