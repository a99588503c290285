/* report.h -- how the flows of `sluice test` went, as they go.
 *
 * What is wrong with a flow is the data of a test and goes to out; a file that
 * is no flow file and a policy that was refused are messages.
 */
#ifndef SL_CLI_REPORT_H
#define SL_CLI_REPORT_H

#include "cli/cli.h"
#include "cli/flow/run.h"

struct sl_test {
    struct sl_cli_args *call;
    unsigned flows, failed, skipped;
    int status;      /* the exit status so far */
    char told[4096]; /* the last message; longer ones are never the same */
};

void sl_test_begin(struct sl_test *test);
void sl_test_flow(struct sl_test *test, const char *file,
                  const struct sl_flow *flow,
                  const struct sl_flow_outcome *out);

/* A whole file could not be read as flows; `why` has what to say. */
void sl_test_refused(struct sl_test *test, const char *file, const char *why);
void sl_test_end(struct sl_test *test);

#endif
