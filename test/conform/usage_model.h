/* usage_model.h -- what the books should say of a history of reports, by sums
 * that anybody can follow; see the invariants in registry/usage_db.h. */
#ifndef TEST_BOOKS_MODEL_H
#define TEST_BOOKS_MODEL_H

#include "registry/usage_db.h"
#include "rng.h"

#define WHO     2
#define PERIODS 2 /* of the quota; the level has none */
#define THINGS  4
#define KEYS    12
#define CREDITS 64
#define HOLDS   6
#define DAYS    6

#define CAP_QUOTA 40
#define CAP_LEVEL 9

#define CAP_NONE    -1
#define CAP_UNKNOWN -2

struct model_counter {
    int64_t used, overage, credited;
    bool made;
    int64_t cap;          /* of the last record, */
    int64_t base, closed; /* and what was used and beyond before it */
};

struct model_credit {
    unsigned who;
    int64_t amount, unused; /* 0: removed */
    sl_ns expires;          /* SL_NS_NONE: never */
    uint64_t number;
};

struct model_key {
    bool known, level;
    int64_t amount;
    int thing; /* -1: none */
};

/* What is held, and what has ended before anybody knew whose it was. */
struct model_hold {
    enum { FREE, HELD, ENDED } state;
    unsigned who;
    unsigned period, end_period;
    int64_t amount, cap;
    sl_ns since;
};

struct model {
    struct model_counter quota[WHO][PERIODS], level[WHO];
    int64_t days[WHO][DAYS]; /* of the quota: used */
    int64_t over[WHO][DAYS];
    int64_t things[WHO][THINGS];
    struct model_key keys[WHO][KEYS];
    struct model_credit credits[CREDITS];
    unsigned credit_count;
    struct model_hold holds[HOLDS];
};

/* One amount. */
struct model_report {
    unsigned who, period;
    bool level, enforce, reset;
    int64_t amount, cap;
    int key, thing; /* -1: none */
    sl_ns at;
    unsigned day;
};

/* Put it down; what it comes to is in *ret. */
enum sl_usage_result model_put(struct model *m, const struct model_report *r,
                               struct model_counter *ret);

/* A hold, and its end. */
void model_hold(struct model *m, unsigned hold, const struct model_report *r);
void model_end(struct model *m, unsigned hold, const struct model_report *r);

/* Unused units of a subject, at an instant. */
int64_t model_credits(const struct model *m, unsigned who, sl_ns at);

#endif
