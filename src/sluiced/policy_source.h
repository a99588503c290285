/* policy_source.h -- a policy and the text that it was made of.
 */
#ifndef SL_SLUICED_POLICY_SOURCE_H
#define SL_SLUICED_POLICY_SOURCE_H

#include "base/buf.h"
#include "policy/policy.h"
#include "sluiced/settings.h"

struct sl_policy_source {
    struct sl_buf text;
    struct sl_policy *policy;
    char hash[65]; /* SHA-256 of the text, as sha256sum prints it */
};

/* Read the policy in the file at `path`; NULL is the demo. With `posted` its
 * text is that one: files are still found beside `path`, but nothing is put in
 * for ${ENV:...} and ${FILE:...}, for whoever may post a policy may not read
 * our files by it.
 *
 * `report` is made here; it borrows the text, so it is done before what was
 * written. 0; SLUICE_ECONF, and then the report or, if it has no errors, `diag`
 * says why; SLUICE_ESYS or SLUICE_ENOMEM with a sentence. Whatever happens, the
 * caller does sl_report_done() and sl_policy_source_done(). */
SL_MUST_USE int sl_policy_source_read(struct sl_policy_source *written,
                                      const char *path,
                                      const struct sl_str *posted,
                                      struct sl_report *report,
                                      struct sl_diag *diag);

/* The same, of a text that is there already, in written->text. */
SL_MUST_USE int sl_policy_source_make(struct sl_policy_source *written,
                                      const char *path,
                                      struct sl_report *report,
                                      struct sl_diag *diag);
void sl_policy_source_done(struct sl_policy_source *written);

/* The text without secrets. */
SL_MUST_USE int sl_policy_source_print(const struct sl_policy_source *written,
                                       struct sl_buf *out);

/* ---- the configuration of another program in place of a policy.
 *
 * --compat envoy-ratelimit --config-dir FOLDER: the files of the folder are
 * read as envoyproxy/ratelimit reads them, written as a policy, and that one
 * is put in force. It is what `sluice import envoy-ratelimit FOLDER` prints.
 */

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

/* ---- a policy's text without its secrets.
 */

/* Append `text`, YAML, with the values of `access_token` and `admin_token`
 * masked, and of `store` and `usage` who signs in there, and `secrets` wherever
 * else they stand. What is named by
 * ${ENV:...} or ${FILE:...} is not in the text and stays. Errs on the side of
 * masking: a value over several lines takes them all. */
SL_MUST_USE int sl_redact(struct sl_str text, const struct sl_str *secrets,
                          unsigned count, struct sl_buf *out);

#endif
