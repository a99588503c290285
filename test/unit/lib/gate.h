/* gate.h -- a gate on a clock that is told what time it is, and short words
 * for the questions that tests ask.
 */
#ifndef SL_TEST_GATE_H
#define SL_TEST_GATE_H

#include <stdlib.h>

#include "check.h"
#include "sluice.h"

#define MS   INT64_C(1000000)
#define SEC  (1000 * MS)
#define MIN  (60 * SEC)
#define HOUR (60 * MIN)
#define DAY  (24 * HOUR)

/* 2023-11-14T22:00:00Z: a whole hour. */
#define START (INT64_C(1699999200) * SEC)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* An injected clock. It stands still until it is told otherwise. */
struct hands {
    int64_t now;
    unsigned readings;
};

static inline int64_t read_hands(void *ctx)
{
    struct hands *hands = ctx;

    hands->readings++;
    return hands->now;
}

/* A gate in a mebibyte of memory that must open. */
static inline struct sluice *open_gate(const struct sluice_limit *limits,
                                       size_t count, struct hands *hands)
{
    struct sluice_options options = {.limits = limits,
                                     .limit_count = count,
                                     .size = 1 << 20,
                                     .now = hands ? read_hands : NULL,
                                     .now_ctx = hands};
    struct sluice *gate = NULL;

    if (!CHECK_EQ(sluice_open(&options, &gate), 0)) {
        printf("# %s\n", sluice_why());
        exit(check_done());
    }
    return gate;
}

static inline struct sluice_part part_of(unsigned limit, const char *key,
                                         uint64_t cost)
{
    return (struct sluice_part){
        .limit = limit, .key = key, .key_len = strlen(key), .cost = cost};
}

/* One part alone, which must be accepted as a question. */
static inline struct sluice_answer take(struct sluice *gate, unsigned limit,
                                        const char *key, uint64_t cost)
{
    struct sluice_part part = part_of(limit, key, cost);
    struct sluice_verdict verdict;

    CHECK_EQ(sluice_take(gate, &part, 1, &verdict), 0);
    CHECK_EQ(verdict.outcome, part.answer.outcome);
    CHECK_EQ(verdict.by, 0);
    CHECK_EQ(verdict.retry_in_ns, part.answer.retry_in_ns);
    return part.answer;
}

static inline struct sluice_answer look(struct sluice *gate, unsigned limit,
                                        const char *key, uint64_t cost)
{
    struct sluice_part part = part_of(limit, key, cost);
    struct sluice_verdict verdict;

    CHECK_EQ(sluice_look(gate, &part, 1, &verdict), 0);
    CHECK_EQ(verdict.outcome, part.answer.outcome);
    return part.answer;
}

static inline uint64_t left(struct sluice *gate, unsigned limit,
                            const char *key)
{
    return look(gate, limit, key, 0).remaining;
}

/* How many takes of one pass in a row. */
static inline unsigned drain(struct sluice *gate, unsigned limit,
                             const char *key)
{
    unsigned passed = 0;

    while (take(gate, limit, key, 1).outcome == SLUICE_ALLOW)
        passed++;
    return passed;
}

#endif
