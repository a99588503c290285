/* script_lease.c -- leases in the words of the script. */
#include "store/redis/script_lease.h"

/* If the store knew it no longer although it was in time, what was spent of it
 * may have been given to others, too. */
static void count_ended(const struct sl_lease_request *ended, bool known,
                        sl_ns server, struct sl_lease_counts *counts)
{
    if (ended->all == 0 || known)
        return;
    counts->under += ended->left;
    if (server < (sl_ns)ended->till * SL_US)
        counts->over += ended->all - ended->left;
}

static void land(struct sl_lease_cache *leases, struct sl_lease_requests *asks,
                 unsigned i, const struct sl_script_leased *leased,
                 sl_ns server, sl_ns sent, struct sl_lease_counts *counts)
{
    struct sl_lease_grant grant = {
        .has = leased->has,
        .life = leased->till - server,
        .till = (uint64_t)(leased->till / SL_US),
        .remaining = leased->remaining,
        .reset_in = leased->reset_in,
    };

    count_ended(&asks->words[i], leased->known, server, counts);
    if (sl_lease_cache_granted(leases, asks, i, &grant, sent))
        counts->granted += grant.has;
}

void sl_script_land(struct sl_lease_cache *leases,
                    struct sl_lease_requests *asks, const int64_t *numbers,
                    unsigned count, sl_ns sent, struct sl_lease_counts *counts)
{
    for (unsigned i = 0; i < asks->count; i++) {
        struct sl_script_leased leased;

        if (!asks->list[i])
            continue;
        if (sl_script_read_lease(numbers, count, asks->count, i, &leased)) {
            land(leases, asks, i, &leased, numbers[1] * SL_US, sent, counts);
        } else {
            counts->under += asks->words[i].left;
            (void)sl_lease_cache_granted(leases, asks, i, NULL, sent);
        }
    }
    asks->count = 0;
}

bool sl_script_end(struct sl_lease_cache *leases, sl_ns now, bool all,
                   const struct sl_script_options *how,
                   struct sl_lease_end *ret, struct sl_buf *out)
{
    if (!sl_lease_cache_end(leases, now, all, ret))
        return false;
    if (ret->asks.frees && sl_script_end_lease(ret->name, ret->numbers, how,
                                               &ret->asks.words[0], out))
        sl_buf_clear(out);
    return true;
}
