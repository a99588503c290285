/* region_version.h -- regions of either version of the format, on any machine.
 */
#ifndef SL_TEST_REGION_VERSION_H
#define SL_TEST_REGION_VERSION_H

#include "table/region.h"

/* Makes an empty region one whose keys are hashed by SipHash or AES. */
static inline void set_version(const struct sl_region *r, uint64_t version)
{
    const struct sl_hash_key key = {0x736c7569, 0x63652031};
    struct sl_region_head *head = sl_region_head(r);

    head->version = version;
    head->sum = sl_hash64(
        &key, (struct sl_str){r->base, offsetof(struct sl_region_head, sum)});
}

#endif
