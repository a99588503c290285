/* written.h -- a policy and the text that it was made of.
 */
#ifndef SL_POLICY_SOURCE_H
#define SL_POLICY_SOURCE_H

#include "policy/policy.h"

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

#endif
