/* hold_op.h -- what a decision has taken provisionally, and how that ends.
 *
 * A check may ask that what it takes is held for a while: then its costs are
 * an estimate that is settled later, released, extended, or frees itself. All
 * limits of the verdict are one hold, all or none. Shadows and candidates are
 * not held: they count what was let through.
 *
 * Permits of `concurrency` limits are always held. A check that does not ask
 * for a hold gets one for them, as long as the limit says (`hold`), and only
 * for them: its other limits are taken for good, so that nobody gets a rate
 * back by not settling.
 *
 * A hold's name says all that is needed to find it again:
 *
 *     0123456789abcdef0123456789abcdef 89abcdef -1f
 *     128 random bits                  |        |
 *         the endpoint's fingerprint --+        |
 *         where the store has put it; "-local": in this process
 *
 * No longer hold than the policy's `hold_max` is given.
 *
 * sl_hold_op_begin() is the question beside sl_check_begin(): it may be
 * answered before it returns or many turns of the loop later.
 */
#ifndef SL_ENGINE_HOLD_OP_H
#define SL_ENGINE_HOLD_OP_H

#include "engine/check.h"

/* ---- names: hold/name.c ---- */

struct sl_hold_name {
    struct sl_hold_id id;
    uint32_t endpoint; /* sl_hold_endpoint() */
    uint32_t place;    /* the store's */
    bool local;        /* it is on the engine's own table */
};

void sl_hold_name_write(const struct sl_hold_name *name,
                        char out[SL_HOLD_TEXT]);

/* False if it is none of ours. */
SL_MUST_USE bool sl_hold_name_read(struct sl_str text,
                                   struct sl_hold_name *ret);

/* What a name has of its endpoint. */
uint32_t sl_hold_endpoint(struct sl_str endpoint);

/* The endpoint of a name among those of a policy; "" if it has none such. */
struct sl_str sl_hold_find_endpoint(const struct sl_policy *policy,
                                    uint32_t endpoint);

/* For how long: a duration that is more than nothing. */
SL_MUST_USE int sl_hold_span(struct sl_str text, sl_ns *ret,
                             struct sl_diag *diag);

/* How long to wait for a turn, as facts have it: no time is not at all. */
SL_MUST_USE int sl_wait_span(struct sl_str text, sl_ns *ret,
                             struct sl_diag *diag);

/* ---- taking: hold/take.c ---- */

/* The take of a decision is made up: have it held, if that is wanted. Refuses
 * the request if it can't be. */
void sl_hold_prepare(struct sl_check *check);

/* It was taken, or not. */
void sl_hold_taken(struct sl_decision *decision);

/* The store has no room for one more. */
void sl_hold_refuse(struct sl_decision *decision);

/* ---- ending: hold/ask.c ---- */

enum sl_hold_verb { SL_VERB_SETTLE, SL_VERB_RELEASE, SL_VERB_EXTEND };

/* Costs. `cost` is for every limit but permits, which always come back, and
 * those whose own `cost` the policy fixes: these stay as they were held unless
 * they are named. `costs` are for the limits that they name; the others stay
 * as held, and without any cost all do. */
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
    struct sl_active_policy *active; /* held: what the answer points into */
    void (*done)(struct sl_hold_op *op);
    void *ctx; /* the asker's, as is `done` */

    /* The engine's own. */
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

/* Not while it is busy. */
void sl_hold_op_done(struct sl_hold_op *op);

/* Ask. Nothing of `question` is needed after this has returned. done() is
 * called once, perhaps before that. */
void sl_hold_op_begin(struct sl_hold_op *op,
                      const struct sl_hold_op_input *question);

/* ---- answers: hold/show.c ---- */

/* How the hold stands now: "held", "settled", "released", "expired". */
const char *sl_hold_state_word(const struct sl_hold_op *op);

/* It had ended before, and nothing was changed. */
bool sl_hold_is_again(const struct sl_hold_op *op);

/* The rule of a part; NULL if the policy has it no longer. */
const struct sl_rule *sl_hold_rule(const struct sl_hold_op *op, unsigned i);

/* {"hold":"...","state":"settled","again":false,"expires_ms":null,"limits":
 * [{"name":"tokens","held":500,"cost":350,"remaining":650,"over":false}]} */
SL_MUST_USE int sl_hold_render(const struct sl_hold_op *op, struct sl_buf *out);

#endif
