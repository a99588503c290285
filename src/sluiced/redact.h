/* redact.h -- a policy's text without its secrets.
 */
#ifndef SL_REDACT_H
#define SL_REDACT_H

#include "base/buf.h"

/* Append `text`, YAML, with the values of `access_token` and `admin_token`
 * masked, and of `store` and `usage` who signs in there, and `secrets` wherever
 * else they stand. What is named by
 * ${ENV:...} or ${FILE:...} is not in the text and stays. Errs on the side of
 * masking: a value over several lines takes them all. */
SL_MUST_USE int sl_redact(struct sl_str text, const struct sl_str *secrets,
                          unsigned count, struct sl_buf *out);

#endif
