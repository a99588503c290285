/* fuzz.h -- what the fuzz targets share.
 *
 * A target that only waits for a crash finds little in code that bounds every
 * read. So each checks properties, and MUST() ends the run where one fails.
 */
#ifndef SL_FUZZ_H
#define SL_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                             \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__,       \
                    #cond);                                                    \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* A refusal says something fit to be printed, and where. */
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

/* Nothing before `err`, and no words without a refusal. */
static inline void must_agree(int err, const struct sl_diag *diag, size_t size)
{
    MUST(err == 0 || err == SLUICE_ECONF);
    if (err)
        must_explain(diag, size);
    else
        MUST(diag->sentence[0] == '\0' && diag->hint[0] == '\0');
}

#endif
