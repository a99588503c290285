/* engine_int.h -- inside the engine: from rules to what the store is asked, and
 * from its answers to a verdict. */
#ifndef SL_ENGINE_ENGINE_INT_H
#define SL_ENGINE_ENGINE_INT_H

#include <pthread.h>

#include "engine/check.h"
#include "engine/decision.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/wait.h"
#include "identity/identity.h"
#include "store/store.h"

/* ---- who is asking.
 *
 * What the caller says himself goes before all else. Claims of a token that was
 * verified are believed of everybody, headers and cookies only of those who
 * may speak for others. Whoever is not known is told apart
 * by where he comes from: `anonymous` in the policy.
 */

/* An address as limits know it: canonical, IPv6 by the policy's prefix, in
 * `out`; "unknown" if it is none. */
struct sl_str sl_identify_ip(const struct sl_policy *policy, struct sl_str text,
                             char out[SL_IP_TEXT + 5]);

void sl_identify(const struct sl_policy *policy,
                 const struct sl_request *request,
                 const struct sl_auth_info *known, struct sl_caller *ret);

/* The caller's address, in one notation; "unknown" if he has none. Read when it
 * is first asked for: who has a name is seldom told by his address. */
struct sl_str sl_caller_ip(struct sl_caller *caller,
                           const struct sl_policy *policy,
                           const struct sl_request *request);

/* The scope and the value by which an unknown caller is told apart: his
 * address, or a fingerprint under `secret` of what the policy lists. Whoever
 * shows nothing at all shares one allowance with all the others. */
struct sl_key_value sl_caller_anonymous(struct sl_caller *caller,
                                        const struct sl_policy *policy,
                                        const struct sl_request *request,
                                        const struct sl_hash_key *secret);

/* What stands in for a name that the caller lacks: as above for callers without
 * any name, else the address. */
struct sl_key_value sl_caller_stand_in(struct sl_caller *caller,
                                       const struct sl_policy *policy,
                                       const struct sl_request *request,
                                       const struct sl_hash_key *secret);

/* Add `count` rules to decision->shown: plan, numbers, key, cost. Sets
 * decision->reason if one of them can't be asked at all (no capability, an
 * attribute is missing). One that another side has met under the same key
 * already is not added again. SLUICE_EFULL if they are too many. */
SL_MUST_USE int sl_parts_add(struct sl_check *check,
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
SL_MUST_USE int sl_sign_in_find(struct sl_check *check,
                                struct sl_limit_view *shown);

/* Is there room in one set for all limits and what is carried to them? */
bool sl_sign_in_fits(const struct sl_decision *decision);

/* Its numbers for this caller, and its cost. numbers.c */
SL_MUST_USE int sl_parts_numbers(struct sl_check *check,
                                 struct sl_limit_view *shown);

/* Fill the take of the state. False if there is nothing to take, or the
 * request was refused. */
bool sl_parts_ask_limits(struct sl_check *check);
bool sl_parts_count_denied(struct sl_check *check);
bool sl_parts_ask_shadows(struct sl_check *check);
bool sl_parts_peek_next(struct sl_check *check);

/* The same, to reset the keys of `shown`. */
bool sl_parts_ask_reset(struct sl_check *check);

/* Copy the answers of the take into `shown`. */
void sl_parts_answers(struct sl_check *check);

/* On the local table each of those who share the store has its part of a limit,
 * by what a request costs there: as much as all of them would let through.
 * local.c */
uint64_t sl_local_cost(const struct sl_decision *decision,
                       const struct sl_part *part);

/* The answer in units again; `open`: what counts is how much was used. */
void sl_local_answer(const struct sl_decision *decision, struct sl_part *part,
                     bool open);

/* Keep who asks, for the text of the decision. */
void sl_decision_who(struct sl_decision *decision, struct sl_caller *caller,
                     const struct sl_request *request);

/* The id that came with it, if it is one, or a fresh one. request_id.c */
void sl_decision_choose_id(struct sl_decision *decision,
                           const struct sl_request *request,
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
void sl_outage_add_debt(const struct sl_active_policy *active,
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
void sl_precheck_commit(struct sl_check *check, int err);

/* It waits and is asked again: what was claimed stays so, from before
 * the decision is cleared (`keep`) to behind it. repeat.c */
void sl_precheck_retry(struct sl_decision *decision, bool keep);

/* The registry has failed, and the plan is not known: refused, or passed
 * without numbers (`no_numbers`), or decided by the default plan. */
void sl_decision_conclude_unsure(struct sl_decision *decision);

/* The store has failed: allow or refuse. True if the take was filled for the
 * local table instead. */
bool sl_decision_conclude_failure(struct sl_check *check);

/* ---- what was let through and given back while the store was away.
 *
 * A decision that is made without the store takes nothing there. What it let
 * through is written down here, added up by key, and charged as soon as the
 * store answers again: before the key's next take, on the same way, so that
 * whoever used more than his share in between finds it used.
 *
 * What is given back meanwhile is written down beside it, and the store is told
 * of the difference: that is charged, or given back.
 *
 * A debt ages as the limit does: a bucket's flows back, and a window's ends
 * with the window. For that it is a cell, and its limit's own algorithm moves
 * it; what is charged is what the cell says at that moment, and never more
 * than the limit holds.
 *
 * Bounded. At most SL_DEBTS keys and SL_DEBTS_BYTES of their names; beyond
 * that, what was let through is forgiven, and what was given back is lost; both
 * are counted. Debts are this process's: they end with it.
 *
 * Nothing is charged twice: a charge that may have arrived is not repeated, and
 * counted as lost if nobody can tell.
 *
 * Any thread may call; a charge comes back on the thread of its loop.
 */

struct sl_active_policy;

#define SL_DEBTS       8192
#define SL_DEBTS_BYTES ((size_t)4 << 20)

struct sl_debts;

SL_MUST_USE int sl_debts_open(const struct sl_alloc *alloc,
                              struct sl_debts **ret);

/* No charge is on its way. NULL is allowed. */
void sl_debts_close(struct sl_debts *debts);

/* Forget all of them. */
void sl_debts_forget(struct sl_debts *debts);

/* What `part` would have taken was let through. `active`, which the part points
 * into, is held until that is charged, or until the key's debt is moved on
 * under another one, which is held instead. */
void sl_debts_add(struct sl_debts *debts, struct sl_active_policy *active,
                  const struct sl_part *part, sl_ns now);

/* It was given back; the same otherwise. */
void sl_debts_give(struct sl_debts *debts, struct sl_active_policy *active,
                   const struct sl_part *part, sl_ns now);

/* Is there any? Costs one load. */
bool sl_debts_any(const struct sl_debts *debts);

/* Tell the store what the keys of `take` owe: before it is asked for. */
void sl_debts_settle(struct sl_debts *debts, struct sl_store *store,
                     const struct sl_take *take);

/* The store answers: charge what some others owe. */
void sl_debts_collect(struct sl_debts *debts, struct sl_store *store,
                      struct sl_loop *loop, sl_ns now);

struct sl_debts_stats {
    uint64_t keys;     /* that owe something */
    uint64_t charged;  /* units */
    uint64_t forgiven; /* units: there was no room */
    uint64_t lost;     /* units: of charges that may have arrived, or not, and
                        * given back when there was no room */
};
void sl_debts_stats(struct sl_debts *debts, struct sl_debts_stats *ret);

/* ---- what an engine is; for engine.c and outage.c. */

#define KEPT_MAX 256

/* A feature that is switched by hand. */
struct kept {
    char name[65];
    bool on;
};

/* A backlog that was reported. */
struct reported {
    char name[65];
    uint64_t depth;
    sl_ns at;
};

struct sl_engine {
    struct sl_store *store;
    struct sl_store *local; /* what `on_store_failure: local` asks; made when
                             * the first policy wants it */
    const struct sl_alloc *alloc;
    sl_ns (*now)(void *ctx);
    void *now_ctx;
    int (*fault)(void *ctx);
    void *fault_ctx;
    pthread_mutex_t lock; /* who writes `active`, or takes a hold */
    _Atomic(struct sl_active_policy *) active;
    struct kept kept[KEPT_MAX];
    unsigned kept_count;
    struct reported reported[KEPT_MAX];
    unsigned reported_count;
    struct sl_debts *debts;
    struct sl_queues *queues; /* who waits for a turn */
    struct sl_replay_cache *repeats,
        *replays;           /* made when the first policy has a use
                             * for them; then they stay */
    _Atomic unsigned nodes; /* 0: not known; see sl_engine_local_share() */
};

/* What was reported, for the policy that comes in force. backlog.c */
void sl_backlogs_apply(const struct sl_engine *engine,
                       const struct sl_active_policy *active);

/* Memory for repeats and replays, if the policy has a use for it. Under the
 * lock. backlog.c */
SL_MUST_USE int sl_memory_of_repeats(struct sl_engine *engine,
                                     const struct sl_policy *policy,
                                     struct sl_diag *diag);

/* ---- what the registry says of a caller, and whose word goes first.
 *
 * The user goes before his organisation, whatever it is about: a plan, roles,
 * a rate of his own. What has ended is as if it had never been, but for a plan:
 * whoever had one that ended has the default, whatever a token or a header
 * still says.
 */

/* The plan that the registry gives; "" if there is none. *ret_ended if there
 * was one, and it has ended. */
struct sl_str sl_auth_info_plan(const struct sl_auth_info *known, sl_ns now,
                                bool *ret_ended);

/* His roles; NULL if the registry has none. */
const struct sl_str *sl_auth_info_roles(const struct sl_auth_info *known,
                                        unsigned *ret_count);

/* The rate of his own for a limit, or NULL; *ret_of says of whom it is: "user"
 * or "org". */
const struct sl_subject_override *
sl_auth_info_rate(const struct sl_auth_info *known, struct sl_str limit,
                  sl_ns now, const char **ret_of);

/* Has he any credits? */
bool sl_auth_info_credits(const struct sl_auth_info *known);

/* How many units beside those of a plan the caller was given of a limit that is
 * kept per `scope`, in the period that began at `start`. */
uint64_t sl_auth_info_credit(const struct sl_auth_info *known, unsigned scope,
                             struct sl_str limit, sl_ns start, sl_ns now);

/* Does the registry know one of those who are named? */
bool sl_auth_info_has_subject(const struct sl_auth_info *known);

/* ---- what a decision took of quotas and levels, for the books. */

/* When the period began that `now` lies in. What has no period of its own
 * (buckets) is counted by days in UTC; levels have none: 0. */
sl_ns sl_rule_start(const struct sl_rule *rule, const struct sl_limit *numbers,
                    sl_ns now);

/* What the books call a shown limit; `values` has SL_PER_MAX of room. The rest
 * is empty. */
void sl_usage_report_of(const struct sl_decision *decision,
                        const struct sl_limit_view *shown,
                        struct sl_str *values, struct sl_usage_delta *ret);

/* Tell `meter` what was taken by a decision that is made; or, if `reset`, that
 * nothing was. NULL is allowed. */
void sl_usage_report_send(struct sl_usage_sink *meter,
                          const struct sl_decision *decision, bool reset);

/* A hold has ended or was extended: tell the station's meter. */
struct sl_hold_op;
void sl_usage_report_hold_end(const struct sl_hold_op *check);

/* After a start: let the table know of `used` units that the books have for
 * these values, if it has less; if it has more, give back what it is still
 * owed: an amount below 0. Only what is of the period of `now` counts, and
 * limits that the policy still has. On a store that answers at once. */
struct sl_engine;
void sl_usage_report_restore(struct sl_engine *engine,
                             const struct sl_usage_delta *spent, uint64_t used,
                             sl_ns now);

/* What the table has of these values in the period that began at spent->start,
 * or in the last one in which anything was taken. False if the policy has no
 * such limit. */
SL_MUST_USE bool sl_usage_report_look(struct sl_engine *engine,
                                      const struct sl_usage_delta *spent,
                                      sl_ns now, uint64_t *ret);

/* ---- inside the engine: what is asked of a request before its limits,
 * and what is remembered of it after them.
 *
 *     sl_precheck_run()   while its routes are looked at: refused, or not
 *     sl_idempotency_claim()  its key, if it has one, and its fingerprint
 *     sl_idempotency_begin()  before the limits are asked: perhaps there is an
 *                        answer already
 *     sl_precheck_commit()  when it is decided: keep what was claimed, or drop
 * it
 */

/* Ask what `route` asks. False if the request was refused. */
SL_MUST_USE bool sl_precheck_run(struct sl_check *check,
                                 const struct sl_route *route);

/* Find the key that repeats of this request have. guards may be NULL. */
void sl_idempotency_claim(struct sl_check *check,
                          const struct sl_prechecks *guards);

/* Has it been answered? Then the decision is that answer, and true. It may be
 * refused, too. */
SL_MUST_USE bool sl_idempotency_begin(struct sl_check *check);

static inline bool sl_claims_same(const struct sl_replay_cache_claim *a,
                                  const struct sl_replay_cache_claim *b)
{
    return a->key.lo == b->key.lo && a->key.hi == b->key.hi;
}

/* A fingerprint of several texts, one after the other: no two rows of texts
 * have the same. */
struct sl_hash128 sl_fingerprint_add(const struct sl_hash_key *secret,
                                     struct sl_hash128 before,
                                     struct sl_str text);

/* ---- inside the engine: what is done by one at a time.
 *
 *     sl_guard_claim()     while its routes are looked at: the key
 *     sl_guard_show()      before the limits are asked: a part for each
 *     sl_guard_conclude()  when they were: refused, if another one runs
 *
 * A guard is a permit of one, held under its key like any other and ended with
 * the hold of the check. It is no limit of the verdict: its parts stand behind
 * those that are shown.
 */

/* Note the key that `guard` makes of this request, or refuse it if a value is
 * missing. Sets asking->no_memory. */
void sl_guard_claim(struct sl_check *check, const struct sl_guard *guard);

void sl_guard_show(struct sl_decision *decision);
void sl_guard_conclude(struct sl_decision *decision);

/* ---- a question that waits for its turn; between ask.c and the queues.
 */

/* Could it, if it is denied or others wait? */
bool sl_wait_check_may_wait(const struct sl_check *check);

/* A first take is pending. True if others wait for the same: then it was not
 * carried out, and the question stands behind them, or was answered. */
bool sl_wait_check_behind(struct sl_check *check);

/* It is decided. True if it was denied and waits now, or goes on waiting. */
bool sl_wait_check_waits(struct sl_check *check);

/* Answer the check; check.c. */
void sl_check_finish(struct sl_check *check, int err);

/* A hold has ended: call those who wait for what it held. */
struct sl_hold_op;
void sl_wait_check_freed(const struct sl_hold_op *check);

#endif
