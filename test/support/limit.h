/* limit.h -- limits by the rates that users write. */
#ifndef SL_TEST_LIMIT_H
#define SL_TEST_LIMIT_H

#include "base/parse.h"
#include "check.h"
#include "core/limit.h"

/* The limit of `kind` with the rate `text`. A refusal is a failed check. */
static inline struct sl_limit rate_with(enum sl_kind kind, const char *text,
                                        const struct sl_limit_options *options)
{
    struct sl_limit limit = {.count = 0};
    struct sl_diag diag = {.line = 0};
    struct sl_rate rate;
    int err = sl_parse_rate(sl_str_c(text), &rate, &diag);

    if (!err)
        err = sl_limit_init(&limit, kind, &rate, options, &diag);
    if (!CHECK_EQ(err, 0))
        printf("# %s: %s\n", text, diag.sentence);
    return limit;
}

static inline struct sl_limit rate_of(enum sl_kind kind, const char *text)
{
    return rate_with(kind, text, NULL);
}

#endif
