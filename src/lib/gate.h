/* gate.h -- the private struct of a gate. */
#ifndef SL_LIB_GATE_H
#define SL_LIB_GATE_H

#include "sluice.h"
#include "table/table.h"

/* A limit of the gate: its binding in the table, and the numbers of its
 * plans. */
struct sl_gate_limit {
    struct sl_limit_binding of;
    struct sl_limit *plans;
    unsigned plan_count; /* at least 1 */
    char *name;          /* of.name */
    size_t name_size;
    struct sl_zone zone;
};

struct sluice {
    struct sl_alloc alloc;
    void *piece; /* the allocation; the gate is aligned inside it */
    struct sl_table table;
    struct sl_gate_limit *limits;
    size_t limit_count;
    int64_t (*now)(void *ctx);
    void *now_ctx;
    struct sl_hash_key ids; /* secret for the ids of holds */
    _Atomic uint64_t ids_made;
    char notice[1024]; /* "": none */
};

/* Shared by the calls. The clock is read again before an earlier time counts as
 * a clock step, because this thread may have been stopped. It is a step only if
 * the second reading is before what was decided before it. */
struct sl_gate_reading {
    sl_ns now;
    bool fresh;
    unsigned tries;
};

sl_ns sl_gate_clock(const struct sluice *gate);
void sl_gate_read_again(const struct sluice *gate, struct sl_gate_reading *r);
SL_MUST_USE int sl_gate_check(const struct sluice *gate,
                              const struct sluice_part *parts, size_t count);
struct sl_part sl_gate_part(const struct sluice *gate,
                            const struct sluice_part *p, enum sl_take_op act);
void sl_gate_answer(const struct sl_answer *a, bool untracked,
                    struct sluice_answer *ret);
struct sluice_verdict sl_gate_verdict(const struct sluice_part *parts,
                                      size_t count);

/* The message of sluice_why(). */
struct sl_diag *sl_gate_diag(void);
struct sl_diag *sluice_private_diag(void);

#endif
