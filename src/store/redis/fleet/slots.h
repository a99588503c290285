/* slots.h -- a cluster's 16,384 slots: which key lies in which, and which node
 * has which.
 *
 * Pure: no connection is known here. A key's slot is the CRC16 of its bytes, or
 * of what stands between the first '{' and the '}' behind it, if that is not
 * empty.
 */
#ifndef SL_SLOTS_H
#define SL_SLOTS_H

#include "base/str.h"

#define SL_CLUSTER_SLOTS 16384
#define SL_HOST          256 /* bytes of a host's name, with the NUL */

unsigned sl_cluster_slot_of(struct sl_str key);

/* A number that lies in this slot, written in decimal digits. */
unsigned sl_cluster_slot_tag(unsigned slot);

/* Where a node is; the name may be empty: where we asked, too. */
struct sl_redis_addr {
    char name[SL_HOST];
    unsigned port;
};

/* "MOVED 3999 127.0.0.1:6381" and "ASK ..." */
struct sl_redis_redirect {
    bool asks; /* only this once */
    unsigned slot;
    struct sl_redis_addr to;
};
SL_MUST_USE bool sl_redis_redirect_read(struct sl_str error,
                                        struct sl_redis_redirect *ret);

/* The answer to CLUSTER SLOTS: each range with the master that has it. False if
 * it is none, or has no range: then `each` may have been called nevertheless.
 */
typedef bool sl_cluster_slots_f(void *ctx, unsigned from, unsigned to,
                                const struct sl_redis_addr *master);
SL_MUST_USE bool sl_cluster_slots_read(struct sl_str reply,
                                       sl_cluster_slots_f *each, void *ctx);

/* The answer to SENTINEL GET-MASTER-ADDR-BY-NAME. */
SL_MUST_USE bool sl_redis_master_read(struct sl_str reply,
                                      struct sl_redis_addr *ret);

#endif
