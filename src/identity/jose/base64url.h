/* base64url.h -- what is written in base64url, into an arena.
 *
 * No two spellings of a token pass as the same: see base64.h.
 */
#ifndef SL_BASE64URL_H
#define SL_BASE64URL_H

#include "base/arena.h"
#include "base/base64.h"

/* SLUICE_ECONF if it is not base64url, SLUICE_ENOMEM without room. */
SL_MUST_USE int sl_base64url_copy(struct sl_str text, struct sl_arena *arena,
                                  struct sl_str *ret);

#endif
