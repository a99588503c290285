/* base64.h -- RFC 4648: section 4 with padding, section 5 (base64url) without
 * it, and nothing else.
 *
 * One text for each string of bytes: no blanks, no bits left over in the last
 * letter. What is signed or secret has no second spelling.
 */
#ifndef SL_BASE64_H
#define SL_BASE64_H

#include "base/str.h"

/* The most bytes that `len` letters stand for, and the letters of `len`
 * bytes. */
#define SL_BASE64_BYTES(len)   ((len) / 4 * 3)
#define SL_BASE64_LETTERS(len) (((len) + 2) / 3 * 4)

/* Decode into `out`, which has room for SL_BASE64_BYTES(text.len). False if it
 * is not strictly base64; then *ret_len is untouched. */
SL_MUST_USE bool sl_base64_decode(struct sl_str text, uint8_t *out,
                                  size_t *ret_len);

/* The same of base64url, with room for SL_BASE64URL_BYTES(text.len). */
#define SL_BASE64URL_BYTES(len) ((len) / 4 * 3 + 2)
SL_MUST_USE bool sl_base64url_decode(struct sl_str text, uint8_t *out,
                                     size_t *ret_len);

/* Encode into `out`, which has room for SL_BASE64_LETTERS(bytes.len). No NUL is
 * put behind it. */
void sl_base64_encode(struct sl_str bytes, char *out);

#endif
