/* secret.h -- bytes that nobody else shall see.
 *
 * They lie on pages of their own, which are left out of core dumps, and are
 * wiped before they are given back.
 */
#ifndef SL_SECRET_H
#define SL_SECRET_H

#include "base/base.h"

#define SL_SECRET_BYTES 4096 /* no key is longer */

struct sl_secret {
    uint8_t *bytes; /* NULL: there is none */
    size_t len;     /* 1 .. room */
    size_t room;
};

/* Room for `room` bytes, 1 .. SL_SECRET_BYTES; `len` is the caller's to set.
 * SLUICE_ENOMEM if the kernel gives none. */
SL_MUST_USE int sl_secret_new(size_t room, struct sl_secret *ret);
void sl_secret_done(struct sl_secret *secret); /* one without bytes too */

/* Is it one byte over and over? Such a key is a mistake, a file of zeros or a
 * placeholder, and the first that anybody tries. */
bool sl_secret_is_blank(const uint8_t *bytes, size_t len);

#endif
