/* spring_read.h -- read the settings of a Java program, with messages. */
#ifndef SL_CLI_SPRING_READ_H
#define SL_CLI_SPRING_READ_H

#include "base/clock.h"
#include "cli/spring.h"

#define SL_SPRING_COUNT_MAX UINT64_C(4000000000) /* of a bucket, rounded */

/* Report a message about `line`; sl_spring_error() also fails the import. */
void sl_spring_warn(struct sl_spring *spring, unsigned line, const char *fmt,
                    ...) SL_PRINTF(3, 4);
void sl_spring_error(struct sl_spring *spring, unsigned line, const char *fmt,
                     ...) SL_PRINTF(3, 4);

/* Compare names as Java does: requestsPerMinute, requests_per_minute and
 * requests-per-minute are equal. */
bool sl_spring_same(struct sl_str a, struct sl_str b);

/* The part of a key up to the next dot; *rest is the text after it. */
struct sl_str sl_spring_step(struct sl_str *rest);

/* The value; ${NAME:default} is its default, with a message. */
struct sl_str sl_spring_value(struct sl_spring *spring,
                              const struct sl_prop *prop);

/* A count of at least 1, true or false; or report why not. */
void sl_spring_number(struct sl_spring *spring, const struct sl_prop *prop,
                      uint64_t *ret);
void sl_spring_switch(struct sl_spring *spring, const struct sl_prop *prop,
                      bool *ret);

/* A duration such as "2s" or "PT2S"; false if it is none. A number without a
 * unit is in `bare`: milliseconds in Spring, seconds in Quarkus. */
bool sl_spring_span(struct sl_str text, sl_ns bare, sl_ns *ret);

/* Report a setting that is not in `words`. */
void sl_spring_unknown(struct sl_spring *spring, const struct sl_prop *prop,
                       struct sl_str name, const char *const *words,
                       size_t count);

/* The setting of this name, or NULL. */
const struct sl_prop *sl_spring_find(const struct sl_spring *spring,
                                     const char *fmt, ...) SL_PRINTF(2, 3);

/* Is there a setting of this name, or below it? */
bool sl_spring_has(const struct sl_spring *spring, const char *fmt, ...)
    SL_PRINTF(2, 3);

#endif
