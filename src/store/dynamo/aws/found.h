/* found.h -- keys as they are found: in the shared file, in a document of the
 * metadata service.
 *
 * Pure: texts are handed in.
 */
#ifndef SL_AWS_FOUND_H
#define SL_AWS_FOUND_H

#include "base/diag.h"
#include "store/dynamo/aws.h"

/* Keys that are kept, and how long they are good. */
struct sl_aws_found {
    struct sl_aws_keys keys; /* in `text`; all empty: none */
    sl_ns expires;           /* SL_NS_NONE: never */
    char text[128 + 256 + 4096];
};

/* Read `text` as ~/.aws/credentials and take the keys of `profile`.
 * SLUICE_ENOENT if it has no such profile; SLUICE_ECONF if that has not both
 * keys, or too long ones. `diag` never shows a secret. */
SL_MUST_USE int sl_aws_read_profile(struct sl_str text, struct sl_str profile,
                                    struct sl_aws_found *ret,
                                    struct sl_diag *diag);

/* Read what the container and instance services answer: AccessKeyId,
 * SecretAccessKey, Token, Expiration. */
SL_MUST_USE int sl_aws_read_document(struct sl_str text,
                                     struct sl_aws_found *ret,
                                     struct sl_diag *diag);

/* Keep copies of keys that lie elsewhere. SLUICE_ECONF if they are too long. */
SL_MUST_USE int sl_aws_keep(const struct sl_aws_keys *keys, sl_ns expires,
                            struct sl_aws_found *ret, struct sl_diag *diag);

#endif
