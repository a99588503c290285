/* subject.h -- what `sluice subject` is made of. */
#ifndef SL_CLI_SUBJECT_H
#define SL_CLI_SUBJECT_H

#include "cli/reach.h"

#define SL_SUBJECT_PATH                                                        \
    ((size_t)8 << 10) /* a daemon's own bound for a line                       \
                       */

/* Each returns an exit status, and has said why it is not 0. Words are those
 * behind the verb. */
typedef int sl_subject_f(struct sl_cli_args *call,
                         struct sl_daemon_client *client, char **words,
                         size_t count);

sl_subject_f sl_subject_get, sl_subject_set, sl_subject_rm, sl_subject_list,
    sl_subject_import;

/* Who does it: --by, or who is logged in; NULL if nobody is known. */
const char *sl_subject_by(struct sl_cli_args *call);

/* One subject as a daemon shows it: JSON, or some lines for people. */
SL_MUST_USE int sl_subject_print(struct sl_cli_args *call, json_t *subject);

SL_MUST_USE int sl_subject_no_memory(struct sl_cli_args *call);

#endif
