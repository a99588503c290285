/* top_keys_int.h -- between counting (top.c) and looking (top/read.c). */
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
    SL_TOP_KEYS_EARLIER, /* all spans but the last two */
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
    uint16_t own[SL_TOP_KEYS_LABELS];  /* each place is itself */
    uint16_t cache[SL_TOP_KEYS_CACHE]; /* by rule and route; place + 1 */
    struct sl_top_keys_labels places;
    struct sl_sketch spans[SL_TOP_KEYS_SPANS];
};

static inline struct sl_sketch *sl_top_keys_span(struct sl_top_keys *top,
                                                 unsigned which)
{
    return &top->spans[top->order[which]];
}

/* A place with these hashes and names: found, or made, or the last one, which
 * is for all others. */
unsigned sl_top_keys_label(struct sl_top_keys_labels *places,
                           const struct sl_top_keys_label *like);

/* Under the lock: end the present span if it is over. Threads and those who
 * look do not read the clock at once, so a little back is no step. */
void sl_top_keys_rotate(struct sl_top_keys *top, sl_ns now);

#endif
