/* parts.h -- inside the engine: from rules to what the store is asked, and
 * from its answers to a verdict. */
#ifndef SL_PARTS_H
#define SL_PARTS_H

#include "engine/decision.h"
#include "engine/identify.h"

/* What the steps of sl_decide_begin() hand to each other. It is not cleared:
 * sl_decide_descriptor() sets each of them, but for the caller. */
struct sl_check_step {
    const struct sl_active_policy *live;
    const struct sl_request *facts;
    const struct sl_auth_info *known; /* never NULL */
    const struct sl_hash_key *secret;
    struct sl_diag *diag;
    struct sl_caller caller;
    bool preflight; /* nobody is asked for his name */
    bool no_memory; /* out */
    uint32_t shown; /* out: which limits this side meets, as bits */
    bool carry;     /* what he used before he signed in counts, too */
    bool cap;       /* limits per address count those who signed in, too */
};

/* Add `count` rules to decision->shown: plan, numbers, key, cost. Sets
 * decision->reason if one of them can't be asked at all (no capability, an
 * attribute is missing). One that another side has met under the same key
 * already is not added again. SLUICE_EFULL if they are too many. */
SL_MUST_USE int sl_parts_add(struct sl_decision *decision,
                             struct sl_check_step *asking,
                             const struct sl_rule *const *rules,
                             unsigned count);

/* Make the name of a shown limit's key by these values; it lives as long as the
 * decision. names.c */
SL_MUST_USE int sl_name_make(struct sl_decision *decision,
                             const struct sl_limit_view *shown,
                             const struct sl_key_value *values, unsigned count,
                             struct sl_str *ret);

/* The candidate's name, or the limit's own; "" if there is none. */
struct sl_str sl_name_of(struct sl_str name, bool candidate);

/* Find the key that the caller had before he signed in, if what he used then is
 * carried over: shown->visitor. */
SL_MUST_USE int sl_sign_in_find(struct sl_decision *decision,
                                struct sl_check_step *asking,
                                struct sl_limit_view *shown);

/* Is there room in one set for all limits and what is carried to them? */
bool sl_sign_in_fits(const struct sl_decision *decision);

/* Its numbers for this caller, and its cost. numbers.c */
SL_MUST_USE int sl_parts_numbers(struct sl_decision *decision,
                                 struct sl_check_step *asking,
                                 struct sl_limit_view *shown);

/* Make the next take pending, or say that all is decided. */
void sl_parts_ask_limits(struct sl_decision *decision,
                         const struct sl_active_policy *live);
void sl_parts_count_denied(struct sl_decision *decision,
                           const struct sl_active_policy *live);
void sl_parts_ask_shadows(struct sl_decision *decision,
                          const struct sl_active_policy *live);
void sl_parts_peek_next(struct sl_decision *decision,
                        const struct sl_active_policy *live);

/* Make a take pending that forgets what the keys of `shown` have used. */
void sl_parts_ask_reset(struct sl_decision *decision,
                        const struct sl_active_policy *live);

/* Copy the answers of the take into `shown`. */
void sl_parts_answers(struct sl_decision *decision);

/* On the local table each of those who share the store has its part of a limit,
 * by what a request costs there: as much as all of them would let through.
 * local.c */
uint64_t sl_local_cost(const struct sl_decision *decision,
                       const struct sl_store_part *part);

/* The answer in units again; `open`: what counts is how much was used. */
void sl_local_answer(const struct sl_decision *decision,
                     struct sl_store_part *part, bool open);

/* Keep who asks, for the text of the decision. */
void sl_decision_who(struct sl_decision *decision, struct sl_caller *caller,
                     const struct sl_request *facts);

/* The id that came with it, if it is one, or a fresh one. request_id.c */
void sl_decision_choose_id(struct sl_decision *decision,
                           const struct sl_request *facts,
                           const struct sl_hash_key *secret);

/* Refuse for a reason that is no limit. */
void sl_decision_refuse(struct sl_decision *decision, enum sl_reason reason);

/* The verdict over all limits that count, from their answers. */
void sl_decision_conclude(struct sl_decision *decision);

/* Have fetched what the pending take needs, before it is carried out. False if
 * there is nothing to be gained by that. engine.c. */
bool sl_engine_prefetch(struct sl_engine *engine, struct sl_decision *decision);

/* Have the pending take carried out; its done() is called once. engine.c. */
void sl_engine_take(struct sl_engine *engine, struct sl_decision *decision);

/* The store has failed, and the decision let something through. engine.c */
void sl_outage_add_debt(const struct sl_active_policy *live,
                        struct sl_decision *decision);

/* A take of the decision was answered: see to what others owe. */
void sl_outage_pay_debts(struct sl_engine *engine,
                         const struct sl_decision *decision);

/* How many share a limit while the store is away; at least 1. */
unsigned sl_engine_local_share(const struct sl_engine *engine);

/* How long until the store may answer again; at least a second. */
sl_ns sl_engine_retry_in(const struct sl_engine *engine,
                         const struct sl_loop *loop);

/* Where state is; for those who ask it without a policy. */
struct sl_store *sl_engine_store(struct sl_engine *engine);

/* What callers' fingerprints are made under. */
const struct sl_hash_key *sl_engine_secret(const struct sl_engine *engine);

/* It is decided, or failed: keep what was claimed, or drop it. repeat.c */
void sl_precheck_commit(struct sl_decision *decision,
                        const struct sl_active_policy *live, int err);

/* It waits and is asked again: what was claimed stays so, from before
 * sl_decide_open() (`keep`) to behind it. repeat.c */
void sl_precheck_retry(struct sl_decision *decision, bool keep);

/* The registry has failed, and the plan is not known: refused, or passed
 * without numbers (`blind`), or decided by the default plan. */
void sl_decision_conclude_unsure(struct sl_decision *decision);

/* The store has failed: allowed, refused, or asked again on the local table. */
void sl_decision_conclude_failure(struct sl_decision *decision,
                                  const struct sl_active_policy *live);

#endif
