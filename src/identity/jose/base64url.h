/* base64url.h -- RFC 4648, section 5, without padding, and nothing else.
 *
 * One text for each string of bytes: no padding, no blanks, no bits left over
 * in the last letter, so that no two spellings of a token pass as the same.
 */
#ifndef SL_BASE64URL_H
#define SL_BASE64URL_H

#include "base/arena.h"

/* The most bytes that `len` letters stand for. */
#define SL_BASE64URL_BYTES(len) ((len) / 4 * 3 + 2)

/* Decode into `out`, which has room for SL_BASE64URL_BYTES(text.len). False if
 * it is not strictly base64url; then *ret_len is untouched. */
SL_MUST_USE bool sl_base64url_decode(struct sl_str text, uint8_t *out,
                                     size_t *ret_len);

/* The same into the arena: SLUICE_ECONF if it is not base64url, SLUICE_ENOMEM
 * without room. */
SL_MUST_USE int sl_base64url_copy(struct sl_str text, struct sl_arena *arena,
                                  struct sl_str *ret);

#endif
