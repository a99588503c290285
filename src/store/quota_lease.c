/* quota_lease.c -- the lease of one quota. */
#include "store/quota_lease.h"

#include <string.h>

#include "base/arith.h"

/* A node without demand so far asks for so many times the missing units, if
 * there is a cap. */
#define FIRST 4

/* After a refusal the usage database is not asked again for this time. */
#define REFUSED (100 * SL_MS)

void sl_quota_lease_begin(struct sl_quota_lease *l, sl_ns start, sl_ns end,
                          uint64_t count)
{
    *l = (struct sl_quota_lease){.start = start,
                                 .end = end,
                                 .base = count,
                                 .ceiling = count,
                                 .count = count,
                                 .known = count};
}

uint64_t sl_quota_lease_used(const struct sl_quota_lease *l)
{
    int64_t used = l->others + (int64_t)l->count - (int64_t)l->base;

    return used > 0 ? (uint64_t)used : 0;
}

uint64_t sl_quota_lease_room(const struct sl_quota_lease *l, uint64_t cap)
{
    int64_t most = (int64_t)l->base + (int64_t)cap - l->others;

    if (most <= 0)
        return 0;
    return (uint64_t)most < l->ceiling ? (uint64_t)most : l->ceiling;
}

uint64_t sl_quota_lease_unspent(const struct sl_quota_lease *l)
{
    return l->ceiling > l->count ? l->ceiling - l->count : 0;
}

/* ---- demand ---- */

static void tick(struct sl_quota_lease *l, sl_ns now)
{
    sl_ns second = now / SL_S;

    if (second == l->second)
        return;
    l->before = second == l->second + 1 ? l->taken : 0;
    l->taken = 0;
    l->second = second;
}

static uint64_t demand(const struct sl_quota_lease *l)
{
    return l->taken > l->before ? l->taken : l->before;
}

void sl_quota_lease_spent(struct sl_quota_lease *l, uint64_t cost,
                          uint64_t count, sl_ns now)
{
    tick(l, now);
    l->taken = sl_add_sat(l->taken, cost);
    l->count = count;
}

/* How many units are missing for a take of `cost`. */
static uint64_t shortage(const struct sl_quota_lease *l, uint64_t cost)
{
    return sl_sub_floor(sl_add_sat(l->count, cost), l->ceiling);
}

uint64_t sl_quota_lease_shortfall(const struct sl_quota_lease *l, uint64_t cost,
                                  uint64_t cap, uint64_t *ret_least)
{
    unsigned first = cap < SL_AMOUNT_MAX ? FIRST : 1;
    uint64_t want = 2 * demand(l);

    *ret_least = shortage(l, cost);
    if (*ret_least == 0)
        return 0;
    if (want < first * *ret_least)
        want = first * *ret_least;
    return want;
}

bool sl_quota_lease_is_behind(const struct sl_quota_lease *l, uint64_t cap)
{
    return l->count > l->known && l->count - l->known > cap / 100;
}

/* Half a second's worth. */
bool sl_quota_lease_is_low(const struct sl_quota_lease *l)
{
    return l->has_terms && demand(l) > FIRST &&
           sl_quota_lease_unspent(l) < demand(l) / 2;
}

/* ---- answers ---- */

/* Do all nodes together use so much that it would not fit with any lease? */
static bool is_beyond(const struct sl_quota_lease *l, uint64_t cost,
                      uint64_t cap)
{
    int64_t most = (int64_t)l->base + (int64_t)cap - l->others;

    return most < 0 || sl_add_sat(l->count, cost) > (uint64_t)most;
}

/* The least units asked for were refused. A take that misses fewer asks again.
 */
static void note_refusal(struct sl_quota_lease *l,
                         const struct sl_quota_lease_terms *terms,
                         const struct sl_quota_lease_wish *wish, sl_ns at)
{
    bool beyond = wish->cost > 0 && is_beyond(l, wish->cost, wish->cap);

    l->refused_until = 0;
    if (terms->granted > 0 || (!beyond && wish->least == 0))
        return;
    if (wish->has && !terms->found)
        return; /* the node knows now that it has no lease, and asks again */
    l->refused_until = at + REFUSED;
    l->refused_least = beyond ? 0 : wish->least;
    l->refused_cap = wish->cap;
}

void sl_quota_lease_report(struct sl_quota_lease *l, int64_t amount,
                           uint64_t order)
{
    if (order > 0 && order <= l->order)
        return;
    l->others += amount;
    if (order == 0)
        return;
    if (l->report_count == SL_QUOTA_REPORTS)
        memmove(l->reports, l->reports + 1,
                --l->report_count * sizeof(l->reports[0]));
    l->reports[l->report_count++] = (struct sl_quota_report){order, amount};
}

/* Forgets the reports that an answer has. Returns the sum of the others. */
static int64_t newer_reports(struct sl_quota_lease *l, uint64_t order)
{
    int64_t sum = 0;
    unsigned kept = 0;

    for (unsigned i = 0; i < l->report_count; i++)
        if (l->reports[i].order > order) {
            l->reports[kept++] = l->reports[i];
            sum += l->reports[i].amount;
        }
    l->report_count = kept;
    return sum;
}

void sl_quota_lease_granted(struct sl_quota_lease *l,
                            const struct sl_quota_lease_terms *terms,
                            const struct sl_quota_lease_wish *wish, sl_ns at)
{
    l->has_terms = true;
    l->no_row = terms->no_row;
    l->base = terms->found ? terms->base : l->count;
    l->order = terms->order;
    l->others = (int64_t)terms->used - (int64_t)terms->spent +
                newer_reports(l, terms->order);
    l->ceiling = l->base + terms->spent + terms->leased;
    l->known = l->base + terms->spent;
    note_refusal(l, terms, wish, at);
}

bool sl_quota_lease_is_refused(const struct sl_quota_lease *l, uint64_t cost,
                               uint64_t cap, sl_ns at)
{
    if (at >= l->refused_until || cap > l->refused_cap)
        return false;
    if (l->refused_least == 0)
        return is_beyond(l, cost, cap);
    return shortage(l, cost) >= l->refused_least;
}

void sl_quota_lease_retry(struct sl_quota_lease *l)
{
    l->refused_until = 0;
}

void sl_quota_lease_reset(struct sl_quota_lease *l, uint64_t count)
{
    l->count = count;
    l->report_count = 0;
    l->others = (int64_t)l->base - (int64_t)count;
    l->refused_until = 0;
}

/* ---- returning units ---- */

uint64_t sl_quota_lease_surplus(struct sl_quota_lease *l, bool idle)
{
    uint64_t unspent = sl_quota_lease_unspent(l);
    uint64_t keep = idle ? 0 : 2 * demand(l);

    /* A small surplus is not worth a write. */
    if (unspent == 0 || (!idle && unspent / 2 <= keep))
        return 0;
    l->ceiling -= unspent - keep;
    return unspent - keep;
}

void sl_quota_lease_keep(struct sl_quota_lease *l, uint64_t units)
{
    l->ceiling = sl_add_sat(l->ceiling, units);
}

bool sl_quota_lease_is_known(const struct sl_quota_lease *l)
{
    return l->has_terms && l->no_row && l->count == l->base;
}

uint64_t sl_quota_lease_left(uint64_t base, uint64_t spent, uint64_t leased,
                             uint64_t count)
{
    uint64_t ceiling = base + spent + leased;
    uint64_t left = ceiling > count ? ceiling - count : 0;

    return left < leased ? left : leased;
}

/* ---- nodes that are gone ---- */

void sl_quota_watch_begin(struct sl_quota_watch *w, sl_ns asked, sl_ns answered)
{
    bool anew = answered - w->answered > SL_QUOTA_LEASE_GAP;

    w->asked = asked;
    w->answered = answered;
    for (unsigned i = 0; i < w->count; i++) {
        w->nodes[i].listed = false;
        if (anew)
            w->nodes[i].since = answered;
    }
}

static struct sl_quota_watched *find(struct sl_quota_watch *w,
                                     struct sl_str name)
{
    for (unsigned i = 0; i < w->count; i++)
        if (sl_str_eq(sl_str_c(w->nodes[i].name), name))
            return &w->nodes[i];
    return NULL;
}

bool sl_quota_watch_node(struct sl_quota_watch *w, struct sl_str name,
                         sl_ns seen)
{
    struct sl_quota_watched *n = find(w, name);

    if (!n && (w->count == SL_QUOTA_NODES || name.len > SL_QUOTA_NODE_NAME))
        return false; /* it is watched when there is room */
    if (!n) {
        n = &w->nodes[w->count++];
        *n = (struct sl_quota_watched){.since = w->answered, .seen = seen};
        memcpy(n->name, name.at, name.len);
    } else if (n->seen != seen) {
        n->seen = seen;
        n->since = w->answered;
    }
    n->listed = true;
    return w->asked - n->since >= SL_QUOTA_LEASE_GONE;
}

void sl_quota_watch_end(struct sl_quota_watch *w)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < w->count; i++)
        if (w->nodes[i].listed)
            w->nodes[kept++] = w->nodes[i];
    w->count = kept;
}
