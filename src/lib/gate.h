/* gate.h -- what is inside a gate. */
#ifndef SL_GATE_H
#define SL_GATE_H

#include "sluice.h"
#include "table/table.h"

/* One of the gate's limits: how the table knows it, and the numbers of its
 * plans. */
struct sl_gate_limit {
    struct sl_table_limit of;
    struct sl_limit *plans;
    unsigned plan_count; /* at least 1 */
    char *name;          /* of.name */
    size_t name_size;
    struct sl_zone zone;
};

struct sluice {
    struct sl_alloc alloc;
    void *piece; /* what was allocated; the gate is aligned inside it */
    struct sl_table table;
    struct sl_gate_limit *limits;
    size_t limit_count;
    int64_t (*now)(void *ctx);
    void *now_ctx;
    char notice[1024]; /* "" = nothing to say */
};

/* Where sluice_why() finds its sentence. */
struct sl_diag *sl_gate_diag(void);
struct sl_diag *sluice_private_diag(void);

#endif
