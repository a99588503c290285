/* decision.h -- the result of a check, and what it was made from.
 *
 * check.c fills it. Servers and libpolicy read it, as JSON, headers or text
 * (render.h).
 */
#ifndef SL_ENGINE_DECISION_H
#define SL_ENGINE_DECISION_H

#include "base/arena.h"
#include "base/hash.h"
#include "engine/request.h"
#include "identity/identity.h"
#include "identity/webhook.h"
#include "store/store.h"

/* ---- auth info: what is known of a caller beside the request.
 *
 * The verified token, and the subjects that the request names. All of it is
 * borrowed until the request is prepared.
 */

struct sl_auth_info {
    const struct sl_token *token;    /* NULL: none, or not accepted */
    enum sl_token_error token_fault; /* GOOD also when there was none */
    const struct sl_subject *user;   /* NULL: not looked up, or the registry
                                      * is empty */
    const struct sl_subject *org;
    sl_webhook_f *webhook; /* verifies; NULL: not accepted */
    bool subjects_failed;  /* a lookup has failed */
};

struct sl_request;
struct sl_policy;

/* Have the token that came with a request verified, if `policy` believes any:
 * known->token until the next one is verified, or why not. `tokens` may be
 * NULL: then none is believed. token.c. */
void sl_auth_info_token(struct sl_auth_info *known, struct sl_tokens *tokens,
                        const struct sl_policy *policy,
                        const struct sl_request *request);

/* ---- replay cache: keys of earlier requests and their answers.
 *
 * A key is claimed before its request is decided, and then finished with a
 * memo of the answer, or dropped. A request with the same key finds it running
 * in between, and the memo afterwards.
 *
 *     begin --> RUNNING --> finish --> DONE --> forgotten
 *                  |                             (life over, no room, or as
 *                  +------> drop                  often repeated as may be)
 *
 * Keys are keyed fingerprints, so that a client cannot guess the key of
 * another. Memory is bounded by a budget in bytes. The least recently used
 * entry is evicted first. A strict cache evicts only expired entries; without
 * room begin() returns FULL. Running entries always stay.
 *
 * Threads: any. Keys are divided into shards. Each has a lock, held while a
 * short list is searched.
 */

#define SL_REPLAY_CACHE_MEMO 4096 /* bytes of a memo at most */

struct sl_replay_cache;

enum sl_replay_cache_found {
    SL_REPLAY_CACHE_FIRST,   /* a new key: claimed */
    SL_REPLAY_CACHE_RUNNING, /* its request is not answered yet */
    SL_REPLAY_CACHE_OTHER,   /* the key was used by another request */
    SL_REPLAY_CACHE_AGAIN,   /* here is what was answered */
    SL_REPLAY_CACHE_FULL,    /* there is no room: not claimed */
};

/* One claim. */
struct sl_replay_cache_claim {
    struct sl_hash128 key;         /* of the caller and its key */
    struct sl_hash128 fingerprint; /* what must be the same in a repeat */
    sl_ns until;                   /* when it is over */
    uint32_t repeats;              /* how many are answered by one */
};

SL_MUST_USE int sl_replay_cache_open(size_t bytes, bool strict,
                                     const struct sl_alloc *alloc,
                                     struct sl_replay_cache **ret);

/* NULL is allowed. */
void sl_replay_cache_close(struct sl_replay_cache *once);

/* Forget all that is done. NULL is allowed. */
void sl_replay_cache_forget(struct sl_replay_cache *once);

/* Another budget from now on. */
void sl_replay_cache_resize(struct sl_replay_cache *once, size_t bytes);

/* Has it come before? FIRST claims it unless it is only `look`ed for. AGAIN
 * copies at most `size` bytes of the memo to `memo`, and says how many. */
enum sl_replay_cache_found
sl_replay_cache_begin(struct sl_replay_cache *once,
                      const struct sl_replay_cache_claim *claim, sl_ns now,
                      bool look, void *memo, size_t size, size_t *ret_len);

/* What was claimed is answered. Without memory it is dropped. */
void sl_replay_cache_finish(struct sl_replay_cache *once,
                            const struct sl_replay_cache_claim *claim,
                            const void *memo, size_t len);

/* It was not answered, or not so that it counts: as if it had not come. */
void sl_replay_cache_drop(struct sl_replay_cache *once,
                          const struct sl_replay_cache_claim *claim);

/* How many are remembered, and their bytes; O(shards). */
struct sl_replay_cache_stats {
    uint64_t count, bytes;
    uint64_t evicted; /* forgotten before they were over, ever */
};
void sl_replay_cache_stats(struct sl_replay_cache *once,
                           struct sl_replay_cache_stats *ret);

/* ---- split take: a set in several cluster slots, taken in steps.
 *
 * A cluster takes in one step what lies in one slot. Limits of a route with
 * `atomic: false`, or of a path with several readings, may lie in several.
 * Their parts are taken one after the other, in the order of the set:
 *
 *     take 1, take 2, ... --> one denies, or fails
 *                                 |
 *               the others are peeked; what was taken is refunded
 *
 * Cost. Between two steps other requests see takes that are refunded later, and
 * may be denied for them. A refund that fails with the store stays taken. No
 * limit is ever exceeded.
 */

struct sl_split_take {
    struct sl_take step;
    struct sl_take *whole;
    struct sl_store *store;
    unsigned at;    /* the part that the step begins with */
    unsigned taken; /* parts that were, from the first on */
    bool allowed;
    int err;
    enum {
        SL_SPLIT_TAKE_FORTH, /* take; or whatever else is asked */
        SL_SPLIT_TAKE_BACK,
    } phase;
};

/* Do all parts lie in one slot, by their names? */
bool sl_split_take_is_one(const struct sl_take *take);

/* Carry out `take` in steps; its done() is called once. `apart` lasts until
 * then. */
void sl_split_take_take(struct sl_split_take *apart, struct sl_store *store,
                        struct sl_take *take);

#define SL_REQUEST_ID         128 /* bytes of a request's id that are kept */
#define SL_DESCRIPTOR_MATCHES 64  /* of one request */
#define SL_HOLD_TEXT          52  /* bytes of a hold's name, with its NUL */

/* Why a request was not let through, if not by a limit. */
enum sl_reason {
    SL_REASON_NONE,            /* allowed, or refused by a limit: see `by` */
    SL_REASON_FEATURE,         /* switched off: 503 */
    SL_REASON_ANONYMOUS,       /* `anonymous: deny`: 401 */
    SL_REASON_MISSING,         /* `missing: deny`: 401 */
    SL_REASON_ROLE,            /* 403 */
    SL_REASON_CAPABILITY,      /* the plan's rate is `none`: 403 */
    SL_REASON_UNKNOWN_PLAN,    /* `unknown_plan: deny`: 403 */
    SL_REASON_UNKNOWN_SUBJECT, /* `unknown_subject: deny`: 403 */
    SL_REASON_STORE,           /* the store did not answer: 503 */
    SL_REASON_WEBHOOK,         /* it is not believed: 401 */
    SL_REASON_WEBHOOKS_FULL,   /* no more can be remembered: 503 */
    SL_REASON_REQUIRE,         /* a header is out of bounds: 400 */
    SL_REASON_BACKLOG,         /* too much work is waiting: 503 */
    SL_REASON_RUNNING,         /* the same is being answered: 409 */
    SL_REASON_REUSED,          /* its key was another's: 422 */
    SL_REASON_PATH,     /* its readings have more limits than can be taken
                         * together: 400 */
    SL_REASON_HOLDS,    /* nothing more can be held: 503 */
    SL_REASON_QUEUE,    /* it would have to wait too long: 503 */
    SL_REASON_CONFLICT, /* `guard`: another one is running: 409 */
};

/* What is wrong with a header that a route requires. */
enum sl_want {
    SL_WANT_NOTHING,
    SL_WANT_HEADER, /* there is none, or two */
    SL_WANT_NUMBER,
    SL_WANT_LESS,
    SL_WANT_MORE,
    SL_WANT_EQUAL,
};

/* One limit of the verdict. */
struct sl_limit_view {
    const struct sl_rule *rule;
    unsigned plan;
    struct sl_str plan_name; /* or "override" */
    bool overridden;
    const char *override_of; /* "user", "org", or "": the request's own */
    struct sl_str override_by, override_note; /* explain only */
    sl_ns override_until;
    struct sl_str override_bad; /* explain only: one that does not fit */
    enum sl_rate_form form;     /* UNLIMITED and NONE have no numbers */
    enum sl_mode mode;
    bool skipped;         /* `missing: skip`, and it was */
    struct sl_str scope;  /* "user", "org:user", "anon"; "all" for [] */
    unsigned value_count; /* of `values`, below */
    struct sl_str key;    /* for the store */
    struct sl_hash128 fingerprint; /* of the key, where the store has made it */
    struct sl_str name;    /* the same where others read it, if the store is
                            * shared; SL_KEY_CANDIDATE stands behind it */
    struct sl_str visitor; /* the key before sign-in, if its usage is carried
                            * over; else empty */
    struct sl_str visitor_name;
    uint64_t carried; /* how much that was */
    char *id;         /* the values as text, joined by ':' */
    const struct sl_limit *numbers;
    const struct sl_limit *uncapped_limit; /* what is asked if `uncapped` */
    bool uncapped;          /* asked without a ceiling: the plan has overage */
    bool overage;           /* taken beyond the quota, and counted */
    uint64_t overage_units; /* overage: how much of the cost lies beyond it */
    uint64_t used;          /* uncapped: all that was used, also beyond it */
    uint64_t cost;
    struct sl_answer answer; /* with overage: as the plan's quota shows it */
    bool allowed;
    bool untracked;
    sl_ns next_in; /* until the next unit; see `reset: next` */

    bool has_candidate; /* beside it: what the candidate says */
    const struct sl_limit *candidate;
    struct sl_answer candidate_answer;

    /* From here on not cleared for each request. */
    struct sl_key_value values[SL_PER_MAX]; /* resolved */
    struct sl_limit own;                    /* an override's numbers */
    struct sl_limit own_uncapped;           /* and without a ceiling */
};

/* One side of a request, and which limits it meets. */
struct sl_descriptor_match {
    const struct sl_route *route;
    uint32_t shown; /* bits: indices into shown of the decision */
    bool refused;   /* not by a limit: the decision's `reason` is for it */
};

/* What the guard of a route is held by: its key with all values in it. */
struct sl_guard_key {
    struct sl_str text;
    struct sl_str key, name; /* for the store, as in sl_limit_view */
    sl_ns hold;
    uint64_t cost; /* 1, or 0 to look */
};

#define SL_RUNNING 4 /* guards of one request */

struct sl_decision {
    /* The verdict. */
    bool not_limited; /* enabled: false, mode: off, or a route without limits:
                       * passes, and no header says anything */
    bool allowed;
    int status; /* 200, 429, 402, 403, 401, 503, ... */
    enum sl_reason reason;
    int by;     /* index into shown: the first that denies; -1 none */
    int report; /* index into shown: shown in the headers; -1 none */
    bool never;
    bool no_numbers;    /* no limit was asked: there are no numbers */
    bool plan_unknown;  /* the registry failed, and the plan is not known */
    bool degraded;      /* decided without the store */
    sl_ns retry_in;     /* until the same request passes; SL_NS_NONE */
    struct sl_str code; /* "RATE_LIMITED"; "" when allowed */
    struct sl_str missing_scope;     /* MISSING: which attribute */
    bool token_good;                 /* a token came with it, and is believed */
    enum sl_token_error token_fault; /* why not; GOOD also if there was none */
    char hold[SL_HOLD_TEXT]; /* what was taken is held by this name; "": it is
                              * not. See hold.h */
    sl_ns hold_for;          /* then: until it frees itself */
    sl_ns waited;            /* for its turn; SL_NS_NONE: it did not */

    enum sl_webhook_fault webhook_fault; /* GOOD also if none was due */
    const struct sl_require *require;    /* REQUIRE: which one, and */
    enum sl_want want;                   /* what is wrong with it */
    bool replayed; /* the same was asked before: answered as then */

    struct sl_limit_view
        shown[SL_PARTS]; /* in the route's order; behind them, where
                          * no verdict looks, the guards */
    unsigned shown_count;
    struct sl_guard_key running[SL_RUNNING]; /* shown_count + running_count */
    unsigned running_count;                  /* <= SL_PARTS */
    int quota; /* index into shown: X-Org-Quota-Remaining; -1 none */
    struct sl_descriptor_match
        sides[SL_DESCRIPTOR_MATCHES]; /* in the order in which they came */
    unsigned side_count;

    /* What it was made from. */
    const struct sl_policy *policy; /* borrowed: the caller holds a reference */
    const struct sl_route *route;   /* never NULL after begin */
    unsigned plan;
    bool anonymous;
    bool plan_ended;                    /* the plan of the registry has ended */
    struct sl_key_value who[SL_SCOPES]; /* for people, and their names cut */
    unsigned who_count;
    sl_ns now;
    char request_id[SL_REQUEST_ID + 1];

    /* For the store. */
    struct sl_take take;
    struct sl_part parts[SL_PARTS];
    unsigned part_shown[SL_PARTS]; /* which of `shown` a part belongs to */

    bool on_local;  /* on the engine's own table, not the shared store */
    unsigned share; /* then: among how many a limit is parted */
    /* Claims in the replay caches; idempotency.c, precheck.c. */
    bool webhook_verified, webhook_claimed, webhook_kept;
    bool repeat_wanted, repeat_claimed, repeat_kept;
    struct sl_replay_cache_claim webhook, repeat;
    /* Claims of a check that waits: kept while it is evaluated again. */
    struct sl_replay_cache_claim kept_webhook, kept_repeat;

    bool spend;       /* false: explain, which takes nothing */
    sl_ns hold_asked; /* as of the facts of its first side; 0: not */
    bool give_back;   /* as of the facts of its first side */
    bool insist;
    bool charge;
    bool metered;

    struct sl_split_take apart; /* a set that lies in several slots */
    bool tagged;                /* names are those of a cluster */

    struct sl_arena arena; /* small texts: ids, keys */
};

struct sl_engine;

/* How much work is waiting, as it was reported. */
struct sl_depth {
    _Atomic uint64_t depth;
    _Atomic int64_t at; /* SL_NS_NONE: never */
};

/* A policy in force: with what its store knows of it, and its switches. */
struct sl_active_policy {
    _Atomic unsigned refs;
    struct sl_policy *policy;
    struct sl_limit_binding
        *stored; /* by rule: 2i the rule, 2i + 1 its candidate */
    struct sl_limit_binding *local; /* the same on the local table, or NULL */
    struct sl_engine *engine;       /* it is in force in */
    _Atomic bool *features;         /* by feature: switched on? */
    /* By rule: the smallest count and capacity that the store was told of. */
    struct sl_tightest {
        _Atomic uint64_t count, capacity;
    } * tightest;
    struct sl_depth *depths;    /* by the policy's backlogs */
    bool wants_names, in_slots; /* as the store */
    const struct sl_alloc *alloc;
    size_t size; /* of this piece */
};

/* Let the store know that `numbers` of an override are stricter than those of
 * any plan, if they are: cells are judged by the strictest when room is
 * needed. */
SL_MUST_USE int sl_active_set_strictest(const struct sl_active_policy *active,
                                        const struct sl_rule *rule,
                                        const struct sl_limit *numbers,
                                        struct sl_diag *diag);

/* An empty decision; give it back with sl_decision_done(). */
void sl_decision_init(struct sl_decision *decision,
                      const struct sl_alloc *alloc);
void sl_decision_done(struct sl_decision *decision);

/* The name of one of the shown limits in a shared store, from its `key`. */
SL_MUST_USE int sl_decision_key(const struct sl_decision *decision,
                                const struct sl_limit_view *shown,
                                struct sl_buf *out);

#endif
