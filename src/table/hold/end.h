/* end.h -- what becomes of the keys of a hold when it ends. */
#ifndef SL_END_H
#define SL_END_H

#include "table/hold_record.h"

/* One key of a hold that ends. */
struct sl_hold_outcome {
    const struct sl_hold_key *kept;
    uint64_t cost;         /* what it came to */
    struct sl_since since; /* from its take to its end */
    bool known;            /* its limit has all its numbers; otherwise nothing
                            * can be said of a calendar */
};

/* SL_ACT_SETTLE: the item's cell as it is when the hold has ended. */
void sl_settle_judge(const struct sl_set *set, struct sl_set_item *item);

/* End a hold that has expired. False if its head is another by now. */
bool sl_hold_end_expired(struct sl_table *table, struct sl_intent *intent,
                         uint64_t number, struct sl_cell head);

/* Make it expire at another instant. False if its head is another by now. */
bool sl_hold_end_move(struct sl_intent *intent, uint64_t number,
                      struct sl_cell head, sl_ns expires);

#endif
