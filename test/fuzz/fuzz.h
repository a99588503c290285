/* fuzz.h -- shared by the fuzz targets.
 *
 * A target that only waits for a crash finds little in code that bounds every
 * read. So each checks properties, and MUST() ends the run where one fails.
 * The table of targets is in main.c.
 */
#ifndef SL_FUZZ_H
#define SL_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/parse.h"

/* A target tries one input. Some targets get the first byte apart and choose by
 * it what to do with the rest. They are weak, since a program has one only. */
typedef void fuzz_f(struct sl_str text);
typedef void fuzz_choice_f(struct sl_str text, unsigned choice);

extern __attribute__((weak)) fuzz_f fuzz_backoff, fuzz_bearer, fuzz_duration,
    fuzz_dynamo, fuzz_envoy, fuzz_flow, fuzz_forwarded, fuzz_http1_diff,
    fuzz_jws, fuzz_key, fuzz_nginx, fuzz_page_token, fuzz_path, fuzz_pb,
    fuzz_policy, fuzz_proxy2, fuzz_rate, fuzz_region, fuzz_script, fuzz_size,
    fuzz_slots, fuzz_text, fuzz_url, fuzz_where, fuzz_yaml, fuzz_zone;
extern __attribute__((weak)) fuzz_choice_f fuzz_admin, fuzz_api, fuzz_grpc,
    fuzz_http1, fuzz_journal, fuzz_jwks, fuzz_postgres, fuzz_redis,
    fuzz_repeats, fuzz_resp, fuzz_spring, fuzz_subject, fuzz_usage,
    fuzz_webhook;

/* Memory that is counted: it must be given back in the size in which it was
 * taken, and before a target returns. */
extern const struct sl_alloc fuzz_alloc;

#define MUST(cond)                                                             \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__,       \
                    #cond);                                                    \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* A refusal has a sentence fit to be printed, and a place. */
static inline void must_explain(const struct sl_diag *diag, size_t size)
{
    const unsigned char *p = (const unsigned char *)diag->sentence;
    size_t len = strlen(diag->sentence);

    MUST(len > 0 && len < sizeof(diag->sentence));
    MUST(strlen(diag->hint) < sizeof(diag->hint));
    MUST(diag->at <= size);
    for (size_t i = 0; i < len; i++)
        MUST(p[i] >= 0x20 && p[i] != 0x7f);
}

/* A refusal is explained, and without a refusal there is no sentence. */
static inline void must_agree(int err, const struct sl_diag *diag, size_t size)
{
    MUST(err == 0 || err == SLUICE_ECONF);
    if (err)
        must_explain(diag, size);
    else
        MUST(diag->sentence[0] == '\0' && diag->hint[0] == '\0');
}

/* The text up to the first newline is returned and cut off, the newline too. */
static inline struct sl_str fuzz_line(struct sl_str *text)
{
    struct sl_str line = *text;
    const char *end = text->len ? memchr(text->at, '\n', text->len) : NULL;

    if (end)
        line.len = (size_t)(end - text->at);
    *text = sl_str_from(*text, line.len + 1);
    return line;
}

#endif
