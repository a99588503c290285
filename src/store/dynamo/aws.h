/* aws.h -- a request's signature, as AWS wants it (Signature Version 4).
 *
 *     canonical request --SHA-256--> text to sign --HMAC--> signature
 *                                        ^
 *     secret --date--region--service-----+ a key that is good for a day
 *
 * The text of a request is made twice, here and by the server; if one byte of
 * it differs the request is refused. So headers are put in order, and blanks
 * in their values are brought into one form, by what is signed and not by what
 * is hoped for.
 *
 * Pure, but for memory of OpenSSL's own: time is handed in.
 */
#ifndef SL_STORE_DYNAMO_AWS_H
#define SL_STORE_DYNAMO_AWS_H

#include "base/buf.h"
#include "base/diag.h"
#include "net/http_fetch.h"

#define SL_SIGV4_DATE    17 /* "20150830T123600Z" and a NUL */
#define SL_SIGV4_HEADERS 16
#define SL_SHA256_HEX    65

/* Who signs. The token is that of a session, or empty. */
struct sl_aws_keys {
    struct sl_str id, secret, token;
};

struct sl_sigv4_header {
    struct sl_str name; /* in lower case */
    struct sl_str value;
};

struct sl_sigv4 {
    const struct sl_aws_keys *keys;
    struct sl_str region, service;
    struct sl_str method;
    struct sl_str path, query; /* canonical: escaped, and in order */
    struct sl_str body;
    /* All that are signed, in any order: `host` and `x-amz-date` among them,
     * and the token if there is one. A name comes once. */
    const struct sl_sigv4_header *headers;
    unsigned header_count; /* <= SL_SIGV4_HEADERS */
    sl_ns now;
};

/* The instant as x-amz-date has it. */
void sl_sigv4_date(sl_ns now, char ret[SL_SIGV4_DATE]);

/* The SHA-256 of some bytes, in hex. SLUICE_ESYS. */
SL_MUST_USE int sl_sha256_hex(struct sl_str bytes, char ret[SL_SHA256_HEX]);

/* Append the value of the header `authorization`. SLUICE_ENOMEM, SLUICE_EFULL,
 * SLUICE_EINVAL if there are too many headers; nothing was appended then. */
SL_MUST_USE int sl_sigv4_sign(const struct sl_sigv4 *what, struct sl_buf *out);

/* ---- keys as they are found: in the shared file, in a document of the
 * metadata service.
 *
 * Pure: texts are handed in.
 */

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

/* ---- where the keys come from, and that they stay good.
 *
 * The first that is there, in the order of AWS's own tools:
 *
 *   environment   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   shared file   AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, and in it
 *                 AWS_PROFILE or "default"; read again once a minute
 *   container     AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
 *   instance      the metadata service, by a token of its own (version 2)
 *
 * Keys of the last two expire. They are fetched again well before, and if that
 * fails, again and again at jittered intervals; old keys serve until their end.
 *
 * One keychain belongs to one loop.
 */

/* What the environment says: each may be NULL. Borrowed. */
struct sl_aws_env {
    const char *key_id, *secret, *token;
    const char *file, *profile, *home;
    const char *container_relative, *container_full;
    const char *container_token, *container_token_file;
    const char *metadata; /* AWS_EC2_METADATA_SERVICE_ENDPOINT */
    bool no_metadata;     /* AWS_EC2_METADATA_DISABLED */
};

struct sl_aws_credentials_options {
    const struct sl_aws_env *env;
    struct sl_loop *loop;
    struct sl_http_fetcher *fetcher;
    const struct sl_alloc *alloc;
    /* Keys are there, or can't be had: then the sentence says why. */
    void (*on_change)(void *ctx, bool good, const char *sentence);
    void *ctx;
};

struct sl_aws_credentials;

SL_MUST_USE int
sl_aws_credentials_open(const struct sl_aws_credentials_options *options,
                        struct sl_aws_credentials **ret);
void sl_aws_credentials_close(
    struct sl_aws_credentials *chain); /* NULL is allowed */

/* The keys, or NULL: there are none, or they have expired at `now`. Valid until
 * the loop turns. */
const struct sl_aws_keys *
sl_aws_credentials_keys(const struct sl_aws_credentials *chain, sl_ns now);

/* AWS refused the credentials: read them again soon. */
void sl_aws_credentials_refresh(struct sl_aws_credentials *chain);

#endif
