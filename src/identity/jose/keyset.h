/* keyset.h -- what a set of keys is made of; for those who verify. */
#ifndef SL_JOSE_KEYSET_H
#define SL_JOSE_KEYSET_H

#include <stdatomic.h>

#include "identity/jwk.h"
#include "identity/keyset.h"

struct sl_keyset {
    atomic_uint refs;
    struct sl_alloc alloc;
    unsigned count, room; /* count <= room */
    bool has_private;
    struct sl_jwk keys[];
};

#endif
