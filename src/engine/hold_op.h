/* hold_op.h -- holds: provisional takes, and how they end.
 *
 * A check may have its take held for a while. Its costs are then an estimate
 * that is settled, released or extended later, or expires. All limits of the
 * verdict are one hold, all or none. Shadows and candidates are not held.
 *
 * Permits of `concurrency` limits are always held, for the `hold` of the limit
 * unless the check sets a time. Without one only the permits are held; other
 * limits are taken for good. No hold is longer than the policy's `hold_max`.
 *
 * The name of a hold:
 *
 *     0123456789abcdef0123456789abcdef 89abcdef -1f
 *     128 random bits                  |        |
 *         the endpoint's fingerprint --+        |
 *         its place in the store; "-local": on the local table
 *
 * sl_hold_op_begin() is answered before it returns, or later from the loop.
 */
#ifndef SL_ENGINE_HOLD_OP_H
#define SL_ENGINE_HOLD_OP_H

#include "engine/check.h"

/* ---- names ---- */

struct sl_hold_name {
    struct sl_hold_id id;
    uint32_t endpoint; /* its fingerprint */
    uint32_t place;    /* in the store */
    bool local;        /* on the local table */
};

void sl_hold_name_write(const struct sl_hold_name *name,
                        char out[SL_HOLD_TEXT]);

/* False if it is not a name of a hold. */
SL_MUST_USE bool sl_hold_name_read(struct sl_str text,
                                   struct sl_hold_name *ret);

/* The endpoint of a name in a policy; "" if there is none. */
struct sl_str sl_hold_find_endpoint(const struct sl_policy *policy,
                                    uint32_t endpoint);

/* Parses a duration above 0. */
SL_MUST_USE int sl_hold_span(struct sl_str text, sl_ns *ret,
                             struct sl_diag *diag);

/* Parses the longest wait of a request; 0 becomes SL_NS_NONE. */
SL_MUST_USE int sl_wait_span(struct sl_str text, sl_ns *ret,
                             struct sl_diag *diag);

/* ---- taking ---- */

/* Before the take: has it held, if that is wanted. Refuses the request if the
 * store cannot hold it. */
void sl_hold_prepare(struct sl_check *check);

/* After the take: sets the name of the hold. */
void sl_hold_taken(struct sl_decision *decision);

/* Refuses the request: there is no room for holds. */
void sl_hold_refuse(struct sl_decision *decision);

/* ---- ending ---- */

enum sl_hold_verb { SL_VERB_SETTLE, SL_VERB_RELEASE, SL_VERB_EXTEND };

/* `cost` is for every limit, except permits, which always come back, and limits
 * with a fixed cost. `costs` are for the limits that they name. Other limits
 * keep the held cost. Credits go by the limits of the route that they pay for:
 * the largest cost in `costs`; `cost`, unless one of them is fixed. */
struct sl_hold_op_input {
    enum sl_hold_verb verb;
    struct sl_str name; /* the hold's */
    bool has_cost;      /* SETTLE */
    uint64_t cost;
    const struct sl_cost *costs;
    unsigned cost_count;
    sl_ns hold; /* EXTEND: from now, > 0 */
    sl_ns now;
    sl_ns deadline; /* steady; 0: the store's own */
};

struct sl_hold_op {
    /* SLUICE_ENOENT: there is no such hold; SLUICE_ECONF: a cost is for a limit
     * that the policy does not have; SLUICE_ESTORE, SLUICE_ENOMEM. The sentence
     * is in diag. */
    int err;
    struct sl_diag diag;
    enum sl_hold_verb verb;
    struct sl_hold_name name;
    struct sl_hold_call call;        /* the answer, if err is 0 */
    struct sl_active_policy *active; /* referenced by the answer */
    void (*done)(struct sl_hold_op *op);
    void *ctx;

    /* Private to the engine. */
    struct sl_engine *engine;
    const struct sl_engine_ctx *engine_ctx;
    const struct sl_alloc *alloc;
    struct sl_actual *actual;
    unsigned actual_room;
    bool busy;
};

void sl_hold_op_init(struct sl_hold_op *op, struct sl_engine *engine,
                     const struct sl_engine_ctx *engine_ctx,
                     const struct sl_alloc *alloc);

/* Not while the op is busy. */
void sl_hold_op_done(struct sl_hold_op *op);

/* Starts the op. `question` is borrowed until this returns. done() is called
 * once, perhaps before that. */
void sl_hold_op_begin(struct sl_hold_op *op,
                      const struct sl_hold_op_input *question);

/* ---- answers ---- */

/* The state of the hold: "held", "settled", "released", "expired". */
const char *sl_hold_state_word(const struct sl_hold_op *op);

/* Had the hold ended before? Then nothing has changed. */
bool sl_hold_is_again(const struct sl_hold_op *op);

/* The rule of a part; NULL if it is no longer in the policy. */
const struct sl_rule *sl_hold_rule(const struct sl_hold_op *op, unsigned i);

/* Is the remaining amount of a part known? An unlimited limit has none. */
bool sl_hold_has_remaining(const struct sl_hold_op *op, unsigned i);

/* {"hold":"...","state":"settled","again":false,"expires_ms":null,"limits":
 * [{"name":"tokens","held":500,"cost":350,"remaining":650,"over":false}]} */
SL_MUST_USE int sl_hold_render(const struct sl_hold_op *op, struct sl_buf *out);

#endif
