/* compat.h -- the configuration of another program in place of a policy.
 *
 * --compat envoy-ratelimit --config-dir FOLDER: the files of the folder are
 * read as envoyproxy/ratelimit reads them, written as a policy, and that one
 * is put in force. It is what `sluice import envoy-ratelimit FOLDER` prints.
 */
#ifndef SL_COMPAT_H
#define SL_COMPAT_H

#include "sluiced/policy_source.h"
#include "sluiced/settings.h"

/* Which folder it is, or NULL: none was asked for. 0, or SL_EXIT_USAGE with a
 * sentence: one of the two flags is missing, or there is a policy, too. */
SL_MUST_USE int sl_compat_choose(const struct sl_setting_source *given,
                                 const char **ret, struct sl_diag *diag);

/* Like sl_policy_source_read(), from the folder. What is wrong with its files
 * is logged, with file, line and column; the first of it is in `diag`. */
SL_MUST_USE int sl_compat_read(struct sl_policy_source *written,
                               const char *folder, struct sl_report *report,
                               struct sl_diag *diag);

/* The configuration as /rlconfig shows it. */
SL_MUST_USE int sl_compat_dump(const char *folder, struct sl_buf *out);

#endif
