/* returns.c -- where it is counted what was given back to buckets. What it is
 * for is in core/hold.h, how it is counted in record.h. */
#include "base/arith.h"
#include "table/hold_record.h"

static uint64_t scale(uint64_t hash, uint64_t range)
{
    return (uint64_t)(((sl_u128)hash * range) >> 64);
}

/* Gifts are rare: an eighth of the words is theirs. */
static uint64_t returns_words(const struct sl_region_head *head)
{
    return head->returns - head->returns / 8;
}

sl_word *sl_refund_count(const struct sl_region *r, uint64_t tag,
                         unsigned which)
{
    static const uint64_t odd[SL_RETURNS] = {UINT64_C(0x9e3779b97f4a7c15),
                                             UINT64_C(0xd6e8feb86659fd93)};
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t i = scale((tag ^ tag >> 32) * odd[which], returns_words(head));

    return sl_region_word(r, head->returns_at + i * 8);
}

sl_word *sl_unheld_count(const struct sl_region *r, uint64_t tag)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t first = returns_words(head);
    uint64_t i = scale((tag ^ tag >> 32) * UINT64_C(0xa0761d6478bd642f),
                       head->returns - first);

    return sl_region_word(r, head->returns_at + (first + i) * 8);
}
