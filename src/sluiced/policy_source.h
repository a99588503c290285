/* policy_source.h -- a policy and its text. */
#ifndef SL_SLUICED_POLICY_SOURCE_H
#define SL_SLUICED_POLICY_SOURCE_H

#include "base/buf.h"
#include "base/hash.h"
#include "policy/policy.h"
#include "sluiced/settings.h"

#define SL_POLICY_FILES 24 /* of ${FILE:...} that are remembered */

struct sl_policy_file {
    char *path;             /* as it can be opened */
    struct sl_hash128 hash; /* of the text that was read */
};

struct sl_policy_source {
    struct sl_buf text;
    struct sl_policy *policy;
    char hash[65]; /* SHA-256 of the text, as sha256sum prints it */

    /* The files whose text the policy has. */
    struct sl_policy_file files[SL_POLICY_FILES];
    unsigned file_count;
    bool files_left; /* it has more of them */
};

/* Reads the policy in the file at `path`; NULL is the demo. With `posted` that
 * text is used: files are relative to `path`, but ${ENV:...} and ${FILE:...}
 * are refused unless the `active` policy has them under the same key, because a
 * client that may post a policy may not read our files.
 *
 * `report` is initialized here and borrows the text. Returns 0; SLUICE_ECONF
 * with errors in the report, or else in `diag`; SLUICE_ESYS or SLUICE_ENOMEM
 * with a sentence. In all cases the caller calls sl_report_done() first, then
 * sl_policy_source_done().
 */
SL_MUST_USE int sl_policy_source_read(struct sl_policy_source *source,
                                      const char *path,
                                      const struct sl_str *posted,
                                      const struct sl_policy *active,
                                      struct sl_report *report,
                                      struct sl_diag *diag);

void sl_policy_source_done(struct sl_policy_source *source);

/* Do its files have the text that was read? */
bool sl_policy_source_files_same(const struct sl_policy_source *source);

/* Appends the text without secrets. */
SL_MUST_USE int sl_policy_source_print(const struct sl_policy_source *source,
                                       struct sl_buf *out);

/* ---- the configuration of another program instead of a policy.
 *
 * --compat envoy-ratelimit --config-dir FOLDER: the files of the folder are
 * read like envoyproxy/ratelimit does, converted to a policy, and used. It is
 * the policy that `sluice import envoy-ratelimit FOLDER` prints.
 */

/* Finds the folder, NULL if none is set. Returns 0, or SL_EXIT_USAGE with a
 * sentence: one of the two flags is missing, or there is a policy, too. */
SL_MUST_USE int sl_compat_choose(const struct sl_setting_source *given,
                                 const char **ret, struct sl_diag *diag);

/* Like sl_policy_source_read(), from the folder. Errors in its files are logged
 * with file, line and column; the first is in `diag`. */
SL_MUST_USE int sl_compat_read(struct sl_policy_source *source,
                               const char *folder, struct sl_report *report,
                               struct sl_diag *diag);

/* The configuration as /rlconfig shows it. */
SL_MUST_USE int sl_compat_dump(const char *folder, struct sl_buf *out);

/* Appends `text`, YAML, with masked values of `access_token` and `admin_token`,
 * masked users and passwords of `store` and `usage`, and `secrets` masked
 * everywhere. References ${ENV:...} and ${FILE:...} stay. In doubt, text is
 * masked: a value over several lines is masked as a whole. */
SL_MUST_USE int sl_redact(struct sl_str text, const struct sl_str *secrets,
                          unsigned count, struct sl_buf *out);

#endif
