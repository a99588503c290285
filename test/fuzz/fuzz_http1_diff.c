/* fuzz_http1_diff.c -- whatever we take, http-parser takes in the same way.
 *
 * test/support/http1_diff.h says what is compared and what may differ. All
 * requests of a pipeline are compared, one after the other.
 */
#include "fuzz.h"

#include "http1_diff.h"

void fuzz_http1_diff(struct sl_str text)
{
    bool more = true;

    while (more && text.len > 0) {
        const char *differs;
        struct run run;

        run_whole(&run, text);
        differs = diff(&run, text);
        if (differs)
            fprintf(stderr, "http-parser differs in %s\n", differs);
        MUST(!differs);
        more = run.result == SL_HTTP1_DONE;
        text = sl_str_from(text, run.taken);
        run_done(&run);
    }
}
