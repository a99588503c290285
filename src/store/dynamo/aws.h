/* sigv4.h -- a request's signature, as AWS wants it (Signature Version 4).
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
#ifndef SL_SIGV4_H
#define SL_SIGV4_H

#include "base/buf.h"

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

#endif
