/* answer.c -- what all nodes have used, from what the cells of this one say. */
#include "store/store_int.h"

/* Nodes give back what they do not need within this. */
#define COMES_BACK (2 * SL_S)

static bool fits(const struct sl_quota_lease *lease, uint64_t cost,
                 uint64_t cap)
{
    uint64_t used = sl_quota_lease_used(lease);

    return cost == 0 || (used <= cap && cost <= cap - used);
}

static void deny(struct sl_quota_leases_attempt *a, unsigned i,
                 struct sl_answer *answer)
{
    const struct sl_quota_lease *lease = &a->keys[i]->lease;

    answer->outcome = SL_DENY;
    answer->retry_in = answer->reset_in;
    if (a->refuser != (int)i)
        return;
    /* Not to be had, whoever has it. */
    if (answer->remaining > sl_quota_lease_unspent(lease))
        answer->remaining = sl_quota_lease_unspent(lease);
    /* It would fit, if nodes gave back what they have. */
    if (fits(lease, a->take->parts[i].cost, answer->capacity) &&
        answer->retry_in > COMES_BACK)
        answer->retry_in = COMES_BACK;
}

/* From the cell of this node to the limit of all. */
static void translate(struct sl_quota_leases_attempt *a, unsigned i)
{
    struct sl_store_part *out = &a->take->parts[i];
    struct sl_quota_lease *lease = &a->keys[i]->lease;
    struct sl_answer answer = a->parts[i].answer;
    uint64_t cap = out->limit->capacity, used;
    bool taken = a->inner.errand == SL_TAKE_OP_TAKE;

    if (a->parts[i].limit != out->limit)
        lease->own = sl_quota_leases_own(&a->parts[i]);
    if (taken && a->inner.allowed && out->cost > 0)
        sl_quota_lease_spent(lease, out->cost, lease->own, a->take->now);
    used = sl_quota_lease_used(lease);
    answer.limit = out->limit->count;
    answer.capacity = cap;
    answer.remaining = used < cap ? cap - used : 0;
    if (answer.outcome != SL_NEVER && out->cost > cap)
        answer.outcome = SL_NEVER;
    else if (a->refuser == (int)i ||
             (!taken && a->inner.errand == SL_TAKE_OP_PEEK &&
              !fits(lease, out->cost, cap)))
        deny(a, i, &answer);
    out->answer = answer;
}

void sl_quota_leases_answer(struct sl_quota_leases_attempt *a)
{
    struct sl_take *take = a->take;

    take->err = a->inner.err;
    take->allowed = a->inner.allowed;
    take->place = a->inner.place;
    for (unsigned i = 0; !take->err && i < a->inner.count; i++) {
        take->parts[i].untracked = a->parts[i].untracked;
        if (a->keys[i])
            translate(a, i);
        else
            take->parts[i].answer = a->parts[i].answer;
    }
    if (a->inner.errand != SL_TAKE_OP_PEEK)
        return;
    for (unsigned i = 0; i < a->inner.count; i++)
        if (take->parts[i].answer.outcome != SL_ALLOW)
            take->allowed = false;
}
