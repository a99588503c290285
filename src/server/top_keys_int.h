/* top_keys_int.h -- the counts of a thread. */
#ifndef SL_SERVER_TOP_KEYS_INT_H
#define SL_SERVER_TOP_KEYS_INT_H

#include <pthread.h>

#include "server/top_keys.h"

/* A limit at an endpoint, for keys of one scope. */
struct sl_top_keys_label {
    uint64_t limit_hash;    /* of limit and scope */
    uint64_t endpoint_hash; /* both of the whole names */
    char limit[SL_TOP_KEYS_NAME], scope[SL_TOP_KEYS_NAME],
        endpoint[SL_TOP_KEYS_NAME];
    uint8_t limit_len, scope_len, endpoint_len;
};

struct sl_top_keys_labels {
    unsigned count;
    struct sl_top_keys_label list[SL_TOP_KEYS_LABELS];
    uint16_t index[2 * SL_TOP_KEYS_LABELS]; /* by hashes; place + 1, 0: none */
};

enum {
    SL_TOP_KEYS_EARLIER, /* all spans except the last two */
    SL_TOP_KEYS_BEFORE,
    SL_TOP_KEYS_PRESENT,
    SL_TOP_KEYS_SPANS
};

#define SL_TOP_KEYS_CACHE 256

struct sl_top_keys {
    const struct sl_alloc *alloc;
    struct sl_hash_key secret;
    pthread_mutex_t lock;
    uint64_t turns; /* spans that have ended */
    sl_ns started;
    sl_ns begun;                       /* of the present span */
    sl_ns begun_before;                /* of the one before it */
    unsigned order[SL_TOP_KEYS_SPANS]; /* which of `spans` is which */
    uint16_t own[SL_TOP_KEYS_LABELS];  /* the identity map */
    uint16_t cache[SL_TOP_KEYS_CACHE]; /* by rule and route; place + 1 */
    struct sl_top_keys_labels places;
    struct sl_sketch spans[SL_TOP_KEYS_SPANS];
};

static inline struct sl_sketch *sl_top_keys_span(struct sl_top_keys *top,
                                                 unsigned which)
{
    return &top->spans[top->order[which]];
}

/* Find or add the place with these hashes and names. Returns the last place,
 * `other`, if there is no room. */
unsigned sl_top_keys_label(struct sl_top_keys_labels *places,
                           const struct sl_top_keys_label *like);

/* End the present span if it is over. The caller has the lock. Threads read the
 * clock at different moments, so `now` may be slightly behind. */
void sl_top_keys_rotate(struct sl_top_keys *top, sl_ns now);

#endif
