/* inside.h -- between counting (top.c) and looking (top/read.c). */
#ifndef SL_TOP_INSIDE_H
#define SL_TOP_INSIDE_H

#include <pthread.h>

#include "doors/top.h"

/* A limit at an endpoint, for keys of one scope. */
struct sl_top_place {
    uint64_t limit_hash;    /* of limit and scope */
    uint64_t endpoint_hash; /* both of the whole names */
    char limit[SL_TOP_NAME], scope[SL_TOP_NAME], endpoint[SL_TOP_NAME];
    uint8_t limit_len, scope_len, endpoint_len;
};

struct sl_top_places {
    unsigned count;
    struct sl_top_place list[SL_TOP_PLACES];
    uint16_t index[2 * SL_TOP_PLACES]; /* by hashes; place + 1, 0: none */
};

enum {
    SL_TOP_EARLIER, /* all spans but the last two */
    SL_TOP_BEFORE,
    SL_TOP_PRESENT,
    SL_TOP_SPANS
};

#define SL_TOP_CACHE 256

struct sl_top {
    const struct sl_alloc *alloc;
    struct sl_hash_key secret;
    pthread_mutex_t lock;
    uint64_t turns; /* spans that have ended */
    sl_ns started;
    sl_ns begun;                  /* of the present span */
    sl_ns begun_before;           /* of the one before it */
    unsigned order[SL_TOP_SPANS]; /* which of `spans` is which */
    uint16_t own[SL_TOP_PLACES];  /* each place is itself */
    uint16_t cache[SL_TOP_CACHE]; /* by rule and route; place + 1 */
    struct sl_top_places places;
    struct sl_sketch spans[SL_TOP_SPANS];
};

static inline struct sl_sketch *sl_top_span(struct sl_top *top, unsigned which)
{
    return &top->spans[top->order[which]];
}

/* A place with these hashes and names: found, or made, or the last one, which
 * is for all others. */
unsigned sl_top_place(struct sl_top_places *places,
                      const struct sl_top_place *like);

/* Under the lock: end the present span if it is over. Threads and those who
 * look do not read the clock at once, so a little back is no step. */
void sl_top_turn(struct sl_top *top, sl_ns now);

#endif
