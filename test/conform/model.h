/* model.h -- what core/ says: a cell for each key, one take after the other. */
#ifndef SL_CONFORM_MODEL_H
#define SL_CONFORM_MODEL_H

#include "conform.h"
#include "rng.h"

#define LIMITS 10
#define PLANS  3
#define KEYS   3

struct history {
    struct conform *conform;
    struct rng rng;
    uint64_t seed;
    struct sl_limit limits[LIMITS][PLANS]; /* at the quantum of the table */
    struct sl_limit judged[LIMITS][PLANS]; /* at the store's */
    struct sl_limit_binding stored[LIMITS];
    char names[LIMITS][32];
    struct sl_cell cells[LIMITS][KEYS];
    char keys[LIMITS][KEYS][64];
    sl_ns latest;
    sl_ns past; /* some instant before now, for giving back */
    bool done;
};

/* A take, and which limits, plans and keys its parts have. */
struct asked {
    struct sl_take take;
    struct sl_part parts[SL_PARTS];
    unsigned limit[SL_PARTS], plan[SL_PARTS], key[SL_PARTS];
};

/* Which of the parts before it has the same limit and key; i if none. */
unsigned first_of(const struct asked *a, unsigned i);

/* What is asked for changes the cells of the history, and its answers are put
 * into `want`. The second says whether the set was allowed. */
void model_each(struct history *h, const struct asked *a,
                struct sl_answer *want);
bool model_set(struct history *h, const struct asked *a,
               struct sl_answer *want);

#endif
