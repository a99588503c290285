/* expire.h -- what is done for all holds at once. */
#ifndef SL_EXPIRE_H
#define SL_EXPIRE_H

#include "table/hold/due.h"
#include "table/set.h"

/* End all holds that have expired at `now`. */
void sl_holds_expire(struct sl_table *table, sl_ns now);

/* The clock has stepped back to `now`: no hold lasts longer than its life from
 * here. */
void sl_holds_shorten(struct sl_table *table, sl_ns now);

/* `key` was reset, and its slot has this generation now: holds of an earlier
 * one have nothing to give back to it, whatever generations come. */
void sl_holds_forget(const struct sl_set *set, const struct sl_slot_key *key,
                     uint64_t generation);

#endif
