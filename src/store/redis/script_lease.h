/* script_lease.h -- leases in the words of the script: what was granted, and
 * how one ends. */
#ifndef SL_SCRIPT_LEASE_H
#define SL_SCRIPT_LEASE_H

#include "store/redis/script.h"

/* The script has answered: with `numbers`, as of sl_script_read(), to what was
 * sent at `sent`. All that was asked for has landed then. */
void sl_script_land(struct sl_lease_cache *leases,
                    struct sl_lease_requests *asks, const int64_t *numbers,
                    unsigned count, sl_ns sent, struct sl_lease_counts *counts);

/* End the next lease: as sl_lease_cache_end(), and its command is appended to
 * `out`, unless nothing was left: then `out` stays empty. SLUICE_ENOMEM loses
 * it. */
SL_MUST_USE bool sl_script_end(struct sl_lease_cache *leases, sl_ns now,
                               bool all, const struct sl_script_options *how,
                               struct sl_lease_end *ret, struct sl_buf *out);

#endif
