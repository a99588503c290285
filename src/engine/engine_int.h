/* engine_int.h -- what the files of the engine share. */
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
#include "wire/json.h"

struct sl_hold_op;

/* ---- the caller; caller.c.
 *
 * The request's own members come first. Claims of a verified token are always
 * accepted, headers and cookies only of trusted peers. Callers without a name
 * are told apart as `anonymous` of the policy says.
 */

/* An address as limits know it: canonical, IPv6 by the policy's prefix, in
 * `out`; "unknown" if `text` is not an address. */
struct sl_str sl_identify_ip(const struct sl_policy *policy, struct sl_str text,
                             char out[SL_IP_TEXT + 5]);

/* The address in the key of a limit per address: without the prefix that keys
 * of IPv6 are shown with. */
struct sl_str sl_ip_key_address(struct sl_str key);

/* Read an address or a network that is to be blocked: "203.0.113.7",
 * "203.0.113.0/24". An address of IPv6 is the network by which limits know it.
 * False if it is neither. */
SL_MUST_USE bool sl_identify_net(const struct sl_policy *policy,
                                 struct sl_str text, struct sl_net *ret);

/* Does the scope name a caller? An address is not a name. */
static inline bool sl_scope_is_name(unsigned scope)
{
    return scope == SL_SCOPE_USER || scope == SL_SCOPE_ORG ||
           scope >= SL_SCOPE_NAMED;
}

/* The name for `scope` that the key of the named limit gives. Empty if the
 * request names no limit, or has the name as a member. */
struct sl_str sl_request_keyed(const struct sl_policy *policy,
                               const struct sl_request *request,
                               unsigned scope);

void sl_identify(const struct sl_policy *policy,
                 const struct sl_request *request,
                 const struct sl_auth_info *known, struct sl_caller *ret);

/* The caller's address as above. It is parsed at the first call: most callers
 * have a name and need no address. */
struct sl_str sl_caller_ip(struct sl_caller *caller,
                           const struct sl_policy *policy,
                           const struct sl_request *request);

/* The scope and value of an anonymous caller: its address, or a fingerprint
 * under `secret` of what the policy lists. Callers without any of it share one
 * value. */
struct sl_key_value sl_caller_anonymous(struct sl_caller *caller,
                                        const struct sl_policy *policy,
                                        const struct sl_request *request,
                                        const struct sl_hash_key *secret);

/* The value instead of a missing name: as above for anonymous callers, else
 * the address. */
struct sl_key_value sl_caller_stand_in(struct sl_caller *caller,
                                       const struct sl_policy *policy,
                                       const struct sl_request *request,
                                       const struct sl_hash_key *secret);

/* The caller's own rate for a limit, or NULL; *ret_of is "user" or "org". The
 * user's record comes before the organisation's. */
const struct sl_subject_override *
sl_auth_info_rate(const struct sl_auth_info *known, struct sl_str limit,
                  sl_ns now, const char **ret_of);

/* The user, the organisation or the address that is blocked, and which of them
 * it is; or NULL. Of several: whose block ends last. */
const struct sl_subject *sl_auth_info_blocked(const struct sl_auth_info *known,
                                              sl_ns now, const char **ret_of);

/* The subject that a quota per `scope` is counted for; NULL: not known. */
const struct sl_subject *sl_auth_info_of(const struct sl_auth_info *known,
                                         unsigned scope);

/* Does the caller have any credits? */
bool sl_auth_info_credits(const struct sl_auth_info *known);

/* The credits of the caller for a limit per `scope`, in the period that began
 * at `start`. While some are unused, with the units beyond `count` for which
 * none has paid: these stay overage. */
uint64_t sl_auth_info_credit(const struct sl_auth_info *known, unsigned scope,
                             struct sl_str limit, uint64_t count, sl_ns start,
                             sl_ns now);

/* Copies a text of the registry that only an explanation shows; else "". */
struct sl_str sl_decision_note(struct sl_decision *decision,
                               struct sl_str text);

/* Copies the caller into the decision, for its explanation. */
void sl_decision_who(struct sl_decision *decision, struct sl_caller *caller,
                     const struct sl_request *request);

/* ---- parts of a take; parts.c ---- */

/* A limit of a request, and what it costs if the request gives no cost. */
struct sl_rule_cost {
    const struct sl_rule *rule;
    uint64_t cost;
    struct sl_str from; /* where it was read: "body./max_tokens"; or "" */
};

/* Adds `count` rules to decision->shown: plan, numbers, key, cost. Sets
 * decision->reason if one of them refuses (no capability, a missing attribute).
 * A rule that another request has met under the same key is not added again.
 * SLUICE_EFULL if they are too many. */
SL_MUST_USE int sl_parts_add(struct sl_check *check,
                             const struct sl_rule_cost *rules, unsigned count);

/* Do all limits and what is carried to them fit one set? */
bool sl_sign_in_fits(const struct sl_decision *decision);

/* Fill the take of the state. False if there is nothing to take, or the
 * request was refused. */
bool sl_parts_ask_limits(struct sl_check *check);
bool sl_parts_count_denied(struct sl_check *check);

/* Prepares a take of credits for a denied decision. False if it has none. */
bool sl_parts_ask_credits(struct sl_check *check);
void sl_parts_drop_credits(struct sl_decision *d); /* they do not pay */
void sl_parts_pay(struct sl_decision *d);          /* they have paid */
bool sl_parts_ask_shadows(struct sl_check *check);
bool sl_parts_peek_next(struct sl_check *check);
bool sl_parts_ask_reset(struct sl_check *check);

/* The table refuses units of an unlimited limit if they pass what a number can
 * hold. Returns true if the take was filled again, without these. */
bool sl_parts_drop_full(struct sl_check *check);

/* Copies the answers of the take into `shown`. */
void sl_parts_answers(struct sl_check *check);

/* ---- the decision; decision.c, request.c ---- */

/* The request's id, if it is valid, or a new one. */
void sl_decision_choose_id(struct sl_decision *decision,
                           const struct sl_request *request,
                           const struct sl_hash_key *secret);

/* Refuses for a reason that is not a limit. */
void sl_decision_refuse(struct sl_decision *decision, enum sl_reason reason);

/* The verdict, from the answers of all limits that count. */
void sl_decision_conclude(struct sl_decision *decision);

/* The registry has failed, and the plan is unknown. The default plan counts,
 * unless `unknown_subject` is `deny` (refuses) or `pass` (passes without
 * numbers: `no_numbers`). What was used counts always; outage.c. */
void sl_outage_conclude_unsure(struct sl_decision *decision);

/* The memory of repeats has failed. Refuses if `on_store_failure` is `deny`;
 * otherwise the request is decided without its key, and `degraded`; outage.c.
 */
void sl_outage_conclude_repeat(struct sl_check *check);

/* The store has failed: allows or refuses, by `on_store_failure`. True if the
 * take was filled for the local table instead; outage.c. */
bool sl_outage_conclude(struct sl_check *check);

/* Does the limit count in the decision? */
static inline bool sl_limit_view_counts(const struct sl_decision *d,
                                        const struct sl_limit_view *shown)
{
    return !shown->skipped && shown->mode == SL_MODE_ENFORCE &&
           !d->no_numbers && sl_rate_has_numbers(shown->form);
}

/* Answers the check; check.c. */
void sl_check_finish(struct sl_check *check, int err);

/* ---- the engine; engine.c ---- */

/* Prefetches what the pending take needs. False if that brings nothing. */
bool sl_engine_prefetch(struct sl_engine *engine, struct sl_decision *decision);

/* Carries out the pending take; its done() is called once. */
void sl_engine_take(struct sl_engine *engine, struct sl_decision *decision);

/* ---- outages; outage.c.
 *
 * A decision without the store takes nothing there. What it let through is a
 * debt of the key, and is charged before the key's next take when the store
 * answers again. Refunds meanwhile are kept beside it; the store gets the
 * difference. A debt is a cell, so that it ages as its limit does, and it is
 * never more than the limit holds.
 *
 * Bounds. At most SL_DEBTS keys and SL_DEBTS_BYTES of their names. Beyond that
 * takes are forgiven and refunds are lost; both are counted. Debts end with
 * the process.
 *
 * A charge that may have arrived is not repeated, and counts as lost.
 *
 * Any thread may call; a charge is answered on the thread of its loop.
 */

#define SL_DEBTS       8192
#define SL_DEBTS_BYTES ((size_t)4 << 20)

struct sl_debts;

SL_MUST_USE int sl_debts_open(const struct sl_alloc *alloc,
                              struct sl_debts **ret);

/* While no charge is pending. NULL is allowed. */
void sl_debts_close(struct sl_debts *debts);

/* Drops all debts. */
void sl_debts_forget(struct sl_debts *debts);

/* Adds what `part` would have taken. `active`, which the part points into, is
 * referenced until that is charged, or until the key's debt moves to another
 * policy. */
void sl_debts_add(struct sl_debts *debts, struct sl_active_policy *active,
                  const struct sl_part *part, sl_ns now);

/* The same for a refund. */
void sl_debts_give(struct sl_debts *debts, struct sl_active_policy *active,
                   const struct sl_part *part, sl_ns now);

/* Are there debts? One load. */
bool sl_debts_any(const struct sl_debts *debts);

/* Charges what the keys of `take` owe; before the take. */
void sl_debts_settle(struct sl_debts *debts, struct sl_store *store,
                     const struct sl_take *take);

struct sl_debts_stats {
    uint64_t keys;     /* with a debt */
    uint64_t charged;  /* units */
    uint64_t forgiven; /* units: there was no room */
    uint64_t lost;     /* units: charges that may have arrived, and refunds
                        * without room */
};
void sl_debts_stats(struct sl_debts *debts, struct sl_debts_stats *ret);

/* The store has failed: what the decision let through is owed. */
void sl_outage_add_debt(const struct sl_active_policy *active,
                        struct sl_decision *decision);

/* A take was answered: charges some debts of other keys. */
void sl_outage_pay_debts(struct sl_engine *engine,
                         const struct sl_decision *decision);

/* On the local table each daemon has its share of a limit: a request costs as
 * much as there are daemons. */
uint64_t sl_local_cost(const struct sl_limit_view *shown,
                       const struct sl_part *part);

/* The answer in units again; `open`: without a ceiling, what was used counts.
 */
void sl_local_answer(const struct sl_limit_view *shown, struct sl_part *part,
                     bool open);

/* Time until the store may answer again; at least a second. */
sl_ns sl_engine_retry_in(const struct sl_engine *engine,
                         const struct sl_loop *loop);

/* ---- the engine's struct, for engine.c and outage.c ---- */

#define KEPT_MAX 256

/* A feature that is switched by hand. */
struct kept {
    char name[65];
    bool on;
};

/* A reported backlog. */
struct reported {
    char name[65];
    uint64_t depth;
    sl_ns at;
};

struct sl_engine {
    struct sl_store *store;
    struct sl_store *local; /* for `on_store_failure: local`; opened when the
                             * first policy needs it */
    const struct sl_alloc *alloc;
    sl_ns (*now)(void *ctx);
    void *now_ctx;
    int (*fault)(void *ctx);
    void *fault_ctx;
    pthread_mutex_t lock; /* to change `active`, or to reference it */
    _Atomic(struct sl_active_policy *) active;
    struct kept kept[KEPT_MAX];
    unsigned kept_count;
    struct reported reported[KEPT_MAX];
    unsigned reported_count;
    struct sl_debts *debts;
    struct sl_queues *queues;
    struct sl_repeats *shared; /* memory of repeats; NULL: the caches */
    /* Opened when the first policy needs them; closed with the engine. By
     * claim. */
    struct sl_replay_cache *caches[SL_DECISION_CLAIMS];
    const char *repeats_path; /* of the file of the caches; NULL: none */
    struct sl_replay_file *file;
    struct sl_hash_key owner_key; /* owners of claims: a hash of the number */
    _Atomic uint64_t owner_count;
    _Atomic bool no_address; /* see sl_engine_no_address() */
    _Atomic unsigned nodes;  /* that share the store; 0: unknown */
};

/* ---- usage of quotas and levels; usage_report.c ---- */

/* The begin of the period of `now`. Limits without a period (buckets) are
 * counted by days in UTC; levels have none: 0. */
sl_ns sl_rule_start(const struct sl_rule *rule, const struct sl_limit *numbers,
                    sl_ns now);

/* Reports to `meter` what a decision took, or with `reset` that usage is 0
 * again. NULL is allowed. */
void sl_usage_report_send(struct sl_usage_sink *meter,
                          const struct sl_decision *decision, bool reset);

/* Reports that a hold has ended or was extended. */
void sl_usage_report_hold_end(const struct sl_hold_op *op);

/* Splits the scopes of a joined text, "org:user", at most SL_PER_MAX; "all" has
 * none. Returns their number. */
unsigned sl_usage_scopes(struct sl_str scope, struct sl_str *ret);

/* Returns whether a decision may take units that could not be recorded: the
 * journal of the usage database is full. */
bool sl_usage_report_is_full(const struct sl_usage_sink *meter,
                             const struct sl_decision *decision);

/* After a start: raises the table to the `used` units of the usage database,
 * or lowers it by what it has more (an amount below 0). Only for the period of
 * `now`, and for limits of the policy. On a store that answers at once. Returns
 * the units that the table then has more. */
uint64_t sl_usage_report_restore(struct sl_engine *engine,
                                 const struct sl_usage_delta *spent,
                                 uint64_t used, sl_ns now);

/* Charges spent->amount to the table, likewise. */
void sl_usage_report_charge(struct sl_engine *engine,
                            const struct sl_usage_delta *spent, sl_ns now);

/* Makes `used` the usage in the table, likewise: more or less. */
void sl_usage_report_set(struct sl_engine *engine,
                         const struct sl_usage_delta *spent, uint64_t used,
                         sl_ns now);

/* Empties the cell in the table, likewise. */
void sl_usage_report_empty(struct sl_engine *engine,
                           const struct sl_usage_delta *spent, sl_ns now);

/* The table's usage of these values in the period that began at spent->start,
 * or in the last one with a take. False if the policy has no such limit. */
SL_MUST_USE bool sl_usage_report_look(struct sl_engine *engine,
                                      const struct sl_usage_delta *spent,
                                      sl_ns now, uint64_t *ret);

/* The key of these values in the table. False if the policy has no such limit.
 */
SL_MUST_USE bool sl_usage_report_key(struct sl_engine *engine,
                                     const struct sl_usage_delta *spent,
                                     uint32_t *ret_limit_id,
                                     struct sl_hash128 *ret_fingerprint);

/* ---- conditions; conditions.c ---- */

/* The first condition that does not hold, or NULL. */
const struct sl_condition *
sl_conditions_unmet(const struct sl_check *check,
                    const struct sl_conditions *when);

/* The first condition of an item that holds, or NULL. Headers count only if the
 * request is trusted. */
const struct sl_condition *
sl_conditions_met(const struct sl_check *check,
                  const struct sl_conditions *exempt);

/* ---- prechecks and idempotency; precheck.c, idempotency.c.
 *
 *     sl_precheck_run()         for each route: refused, or not
 *     sl_idempotency_claim()    the key of repeats, if any, and a fingerprint
 *     sl_idempotency_begin()    before the take: there may be an answer already
 *     sl_idempotency_finish()   after the decision: keeps the answer
 *     sl_idempotency_drop()     at the end: drops the claims that are left
 */

/* False if the request was refused. */
SL_MUST_USE bool sl_precheck_run(struct sl_check *check,
                                 const struct sl_route *route);

/* Finds a text or a whole number in the JSON body. An empty body has nothing,
 * one longer than SL_BODY_READ is wrong. */
SL_MUST_USE enum sl_json_found sl_check_body_member(struct sl_check *check,
                                                    struct sl_str pointer,
                                                    struct sl_str *ret);

/* Replaces the cost of ret->rule by that of the route, if it has one and the
 * request gives none. Refuses a request whose cost cannot be read. */
void sl_precheck_cost(struct sl_check *check, const struct sl_prechecks *guards,
                      struct sl_rule_cost *ret);

/* `guards` may be NULL. */
void sl_idempotency_claim(struct sl_check *check,
                          const struct sl_prechecks *guards);

/* Claims the keys of the decision. False if the memory has not answered yet; it
 * then resumes the check. Afterwards the request is a repeat and answered
 * (`replayed`), refused, or new. */
SL_MUST_USE bool sl_idempotency_begin(struct sl_check *check);

/* Completes the claims of an allowed request. False as above. */
SL_MUST_USE bool sl_idempotency_finish(struct sl_check *check);

void sl_idempotency_drop(struct sl_check *check);

/* Keeps the claims of a waiting check while it is evaluated again: called with
 * `keep` before the decision is cleared, and without after it. */
void sl_idempotency_retry(struct sl_decision *decision, bool keep);

/* A call to the memory of this process. */
void sl_idempotency_cache(struct sl_replay_cache *cache,
                          struct sl_repeat_call *call);

/* The secret of fingerprints in claims. */
const struct sl_hash_key *sl_idempotency_secret(const struct sl_check *check);

/* ---- the replay caches in a file; replay_file.c ---- */

struct sl_replay_file;

/* Opens a file of `size` bytes, or creates it. */
SL_MUST_USE int sl_replay_file_open(const char *path, size_t size,
                                    const struct sl_alloc *alloc,
                                    struct sl_replay_file **ret,
                                    struct sl_diag *diag);
void sl_replay_file_close(struct sl_replay_file *file); /* NULL is allowed */

/* Adds a completed entry of cache `which`. From any thread. */
void sl_replay_file_add(struct sl_replay_file *file, unsigned which,
                        const struct sl_repeat_claim *claim, const void *memo,
                        size_t len);

/* Calls `each` for all entries, from the oldest to the last. */
typedef void sl_replay_file_f(void *ctx, unsigned which,
                              const struct sl_repeat_claim *claim,
                              const void *memo, size_t len);
void sl_replay_file_each(const struct sl_replay_file *file,
                         sl_replay_file_f *each, void *ctx);

/* Another daemon, or this one before its restart, has the report. It counts if
 * it is newer; engine.c. */
void sl_engine_backlog_heard(struct sl_engine *engine, struct sl_str name,
                             uint64_t depth, sl_ns at);

/* ---- the memo of an answer; idempotency.c.
 *
 * Numbers in decimal digits, separated by spaces: the version, what belongs to
 * the decision, and what belongs to each limit. Other versions may read it.
 */

struct sl_repeat_memo {
    sl_ns now;
    bool degraded, no_numbers;
    sl_ns hold_for;
    char hold[SL_HOLD_TEXT];
    unsigned count;
    struct sl_repeat_memo_item {
        uint64_t rule; /* a fingerprint of its name */
        struct sl_answer answer;
        sl_ns next_in;
        uint64_t overage_units;
        uint64_t credited;
        bool allowed, overage, untracked, uncapped, skipped;
    } items[SL_PARTS];
};

/* Writes at most SL_REPEAT_MEMO bytes; returns their number. */
size_t sl_repeat_memo_write(const struct sl_repeat_memo *memo, char *out);

/* False if it is malformed, or of another version. */
SL_MUST_USE bool sl_repeat_memo_read(struct sl_str text,
                                     struct sl_repeat_memo *ret);

/* Adds a text to a fingerprint of several texts. */
struct sl_hash128 sl_fingerprint_add(const struct sl_hash_key *secret,
                                     struct sl_hash128 before,
                                     struct sl_str text);

/* ---- guards; precheck.c.
 *
 * A guard is a permit of one, held under its key and ended with the hold of the
 * check. Its parts follow the limits of the verdict, which does not show them.
 */

/* Adds a part for each guard, before the take. */
void sl_guard_show(struct sl_decision *decision);

/* Refuses after the take if another request holds a guard. */
void sl_guard_conclude(struct sl_decision *decision);

/* ---- penalties; penalty.c ---- */

/* The index of the first view of a penalty; and how many there will be. */
unsigned sl_penalty_first(const struct sl_decision *decision);
unsigned sl_penalty_most(const struct sl_decision *decision);

/* How long the limit's penalty still blocks its key, or SL_NS_NONE. */
sl_ns sl_penalty_blocked_for(const struct sl_decision *decision,
                             const struct sl_limit_view *of);

/* Adds a view for the penalty of each limit, before the take. */
void sl_penalty_show(struct sl_decision *decision);

/* Refuses after the take if one of them denies. */
void sl_penalty_conclude(struct sl_decision *decision);

/* Has the limit of the penalty with this view refused the request? */
bool sl_penalty_is_due(const struct sl_decision *decision, unsigned index);

/* The failures of a refusal were charged: the retry is the end of the block. */
void sl_penalty_counted(struct sl_decision *decision);

/* ---- waiting checks; wait_check.c ---- */

/* How long the check may wait if it is denied; 0: not at all. */
sl_ns sl_wait_check_longest(const struct sl_check *check);

/* Before the first take. True if others wait for one of its keys: the check
 * has joined them, or was answered. */
bool sl_wait_check_behind(struct sl_check *check);

/* After the decision. True if the check was denied and waits. */
bool sl_wait_check_waits(struct sl_check *check);

/* A hold has ended: notifies waiters of its limits. */
void sl_wait_check_freed(const struct sl_hold_op *op);

#endif
