/* secret.h -- bytes that nobody else shall see.
 *
 * They lie on pages of their own, which are left out of core dumps, and are
 * wiped before they are given back.
 */
#ifndef SL_SECRET_H
#define SL_SECRET_H

#include "base/base.h"

#define SL_SECRET_BYTES 4096 /* no key is longer */

struct sl_secure_mem {
    uint8_t *bytes; /* NULL: there is none */
    size_t len;     /* 1 .. room */
    size_t room;
};

/* Room for `room` bytes, 1 .. SL_SECRET_BYTES; `len` is the caller's to set.
 * SLUICE_ENOMEM if the kernel gives none. */
SL_MUST_USE int sl_secure_mem_new(size_t room, struct sl_secure_mem *ret);
void sl_secure_mem_done(
    struct sl_secure_mem *secret); /* one without bytes too */

/* Is it one byte over and over? Such a key is a mistake, a file of zeros or a
 * placeholder, and the first that anybody tries. */
bool sl_secure_mem_is_blank(const uint8_t *bytes, size_t len);

#endif
