/* numbers.h -- the limits of a verdict, as JSON has them, in columns. */
#ifndef SL_NUMBERS_H
#define SL_NUMBERS_H

#include <jansson.h>

#include "cli/cli.h"

/* Print a row for each limit of the array; 0 or an exit status. */
SL_MUST_USE int sl_numbers_print(struct sl_cli_args *call, json_t *limits);

/* A span for people: longer than ten seconds to the second, longer than an hour
 * to the minute, rounded up. Returns out. */
char *sl_span_print(sl_ns span, char out[32]);

/* The JSON on one line; 0 or an exit status. */
SL_MUST_USE int sl_json_print(struct sl_cli_args *call, json_t *root);

#endif
