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
#include "store/repeats.h"
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
    const struct sl_subject *ip; /* the blocked address or network of the
                                  * caller; NULL: none */
    bool has_registered;         /* the registry has subjects */
    sl_webhook_f *webhook;       /* verifies; NULL: not accepted */
    bool subjects_failed;        /* a lookup has failed */
};

/* Verifies the token of a request, if `policy` accepts any: known->token until
 * the next one is verified, or the reason. `tokens` may be NULL: no token is
 * accepted. */
void sl_auth_info_token(struct sl_auth_info *known, struct sl_tokens *tokens,
                        const struct sl_policy *policy,
                        const struct sl_request *request);

/* ---- replay cache: the memory of repeats of one process (store/repeats.h).
 *
 * Keys are keyed fingerprints, so that a client cannot guess the key of
 * another. Memory is bounded by a budget in bytes. The least recently used
 * entry is evicted first. A strict cache evicts only expired entries; without
 * room begin() returns FULL. Running entries always stay, whatever their
 * `pending` is: they end with the process.
 *
 * Threads: any. Keys are divided into shards. Each has a lock, held while a
 * short list is searched.
 */

struct sl_replay_cache;

SL_MUST_USE int sl_replay_cache_open(size_t bytes, bool strict,
                                     const struct sl_alloc *alloc,
                                     struct sl_replay_cache **ret);

/* NULL is allowed. */
void sl_replay_cache_close(struct sl_replay_cache *once);

/* Drops all completed entries. NULL is allowed. */
void sl_replay_cache_forget(struct sl_replay_cache *once);

void sl_replay_cache_resize(struct sl_replay_cache *once, size_t bytes);

/* Looks for a key. A FIRST key is claimed, unless `look`. AGAIN copies at most
 * `size` bytes of the memo to `memo` and sets *ret_len. */
enum sl_repeat_found sl_replay_cache_begin(struct sl_replay_cache *once,
                                           const struct sl_repeat_claim *claim,
                                           sl_ns now, bool look, void *memo,
                                           size_t size, size_t *ret_len);

/* Completes a claim. Without memory it is dropped. */
void sl_replay_cache_finish(struct sl_replay_cache *once,
                            const struct sl_repeat_claim *claim,
                            const void *memo, size_t len);

/* Writes a completed entry, whatever was there. */
void sl_replay_cache_put(struct sl_replay_cache *once,
                         const struct sl_repeat_claim *claim, const void *memo,
                         size_t len);

/* Reads the entries of cache `which` in the file that have not ended, and
 * writes to it from now on; before the first claim. */
struct sl_replay_file;
void sl_replay_cache_load(struct sl_replay_cache *once,
                          struct sl_replay_file *file, unsigned which,
                          sl_ns now);

/* Removes a claim. */
void sl_replay_cache_drop(struct sl_replay_cache *once,
                          const struct sl_repeat_claim *claim);

/* O(shards). */
struct sl_replay_cache_stats {
    uint64_t count, bytes;
    uint64_t evicted; /* before they expired, since the start */
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

#define SL_REQUEST_ID         128 /* bytes of a request's id that are kept */
#define SL_DESCRIPTOR_MATCHES 64  /* of one request */
#define SL_HOLD_TEXT          52  /* bytes of a hold's name, with its NUL */

/* Why a request was denied, if not by a limit. */
enum sl_reason {
    SL_REASON_NONE,            /* allowed, or denied by a limit: see `by` */
    SL_REASON_FEATURE,         /* switched off: 503 */
    SL_REASON_ANONYMOUS,       /* `anonymous: deny`: 401 */
    SL_REASON_MISSING,         /* `missing: deny`: 401 */
    SL_REASON_ROLE,            /* 403 */
    SL_REASON_CAPABILITY,      /* the plan's rate is `none`: 403 */
    SL_REASON_UNKNOWN_PLAN,    /* `unknown_plan: deny`: 403 */
    SL_REASON_UNKNOWN_SUBJECT, /* `unknown_subject: deny`: 403 */
    SL_REASON_STORE,           /* the store did not answer: 503 */
    SL_REASON_WEBHOOK,         /* not valid: 401 */
    SL_REASON_WEBHOOKS_FULL,   /* the replay cache is full: 503 */
    SL_REASON_REQUIRE,         /* a header is out of bounds: 400 */
    SL_REASON_COST,            /* the cost cannot be read: 400 */
    SL_REASON_BACKLOG,         /* 503 */
    SL_REASON_RUNNING,         /* the same request is running: 409 */
    SL_REASON_REUSED,          /* the key of another request: 422 */
    SL_REASON_PATH, /* its readings have too many limits for one set: 400 */
    SL_REASON_LONG_PATH, /* beyond SL_PATH_BYTES: 414 */
    SL_REASON_HOLDS,     /* no room for holds: 503 */
    SL_REASON_QUEUE,     /* the wait would be too long: 503 */
    SL_REASON_CONFLICT,  /* `guard`: another request is running: 409 */
    SL_REASON_BLOCKED,   /* by an operator: 403; see `block` */
    SL_REASON_PENALTY,   /* by the penalty of the limit `by`: 429 */
};

/* What a required header lacks. */
enum sl_want {
    SL_WANT_NOTHING,
    SL_WANT_HEADER, /* there is none, or more than one */
    SL_WANT_NUMBER,
    SL_WANT_LESS,
    SL_WANT_MORE,
    SL_WANT_EQUAL,
};

/* One limit of the verdict. */
struct sl_limit_view {
    const struct sl_rule *rule;
    unsigned plan;
    struct sl_str plan_name;
    bool overridden;
    const char *override_of; /* "user", "org", or "": the request's own */
    struct sl_str override_by, override_note; /* explain only */
    sl_ns override_until;
    struct sl_str override_bad; /* explain only: one that does not fit */
    enum sl_rate_form form;     /* UNLIMITED and NONE have no numbers */
    enum sl_mode mode;
    bool skipped; /* `missing: skip`, and a value is missing; the limit is per
                   * address, and there is none; or: */
    const struct sl_condition *unmet; /* `when` of the limit does not hold */
    struct sl_str scope;  /* "user", "org:user", "anon"; "all" for [] */
    unsigned value_count; /* of `values`, below */
    struct sl_str key;    /* for the store */
    struct sl_hash128 fingerprint; /* of the key, if the store has set it */
    struct sl_str name;            /* of the key in a shared store;
                                    * SL_KEY_CANDIDATE follows it */
    struct sl_str visitor; /* the carried key before sign-in, or empty */
    struct sl_str visitor_name;
    uint64_t carried; /* its usage */
    char *id;         /* the values as text, joined by ':' */
    const struct sl_limit *numbers;
    const struct sl_limit *periods; /* of its usage: `numbers`, or what replaces
                                     * them under an unlimited plan */
    struct sl_str zone_name;        /* of the periods */
    const struct sl_limit *uncapped_limit; /* taken from if `uncapped` */
    bool uncapped;          /* no ceiling: the plan has overage; or: */
    bool counted;           /* the plan is unlimited. What is used is taken
                             * nevertheless, for later plans and for holds */
    bool overage;           /* taken beyond the quota */
    uint64_t overage_units; /* overage: units of the cost beyond the quota */
    uint64_t used;          /* uncapped: total usage */
    uint64_t cost;
    struct sl_str cost_from; /* where it was read: "body./max_tokens"; or "" */
    bool on_report;   /* takes nothing, and is denied if nothing is left */
    unsigned sharers; /* on_local: daemons that share the limit */
    const struct sl_limit_view *pays_for; /* credits: a limit that they may pay
                                           * for; NULL: no credits */
    uint64_t credited;       /* cost that credits have paid; then `cost` is 0 */
    struct sl_answer answer; /* with overage: of the plan's quota */
    bool allowed;
    bool untracked;
    struct sl_str penalty_name; /* of its penalty's key in a shared store */
    unsigned penalty_of; /* of the view of a penalty: the index of its limit */
    bool unleased;       /* taken from a leased quota without a lease */
    sl_ns next_in;       /* until the next unit; see `reset: next` */

    bool has_candidate;
    const struct sl_limit *candidate;
    struct sl_answer candidate_answer;

    /* Not cleared for each request. */
    struct sl_key_value values[SL_PER_MAX]; /* resolved */
    struct sl_limit own;          /* numbers of an override, or with the
                                   * calendar of a subject */
    struct sl_limit own_uncapped; /* and without a ceiling */
    struct sl_limit own_candidate;
};

/* Are these credits that do not pay? Nothing shows them. */
static inline bool sl_limit_view_hidden(const struct sl_limit_view *shown)
{
    return shown->pays_for && shown->skipped;
}

/* One of several requests, and the limits that it meets. */
struct sl_descriptor_match {
    const struct sl_route *route;
    uint32_t shown; /* bits: indices into shown of the decision */
    bool refused;   /* not by a limit: see the decision's `reason` */
};

#define SL_WHO_BYTES 128 /* of a name of a caller that is kept */

/* A route whose conditions do not hold. */
struct sl_skipped_route {
    const struct sl_route *route;
    const struct sl_condition *unmet;
};

/* A guard of a route: its key with all values. */
struct sl_guard_key {
    struct sl_str text;
    struct sl_str key, name; /* for the store, as in sl_limit_view */
    sl_ns hold;
    uint64_t cost; /* 1, or 0 to peek */
};

#define SL_RUNNING 4 /* guards of one request */

/* The keys of a request, by which it may be a repeat. */
enum sl_decision_claims {
    SL_CLAIM_WEBHOOK, /* a verified message: its id, time and body */
    SL_CLAIM_REPEAT,  /* an idempotency key, or `dedupe` */
    SL_DECISION_CLAIMS
};

/* What all answers about a limit and plan have in common. */
struct sl_limit_texts {
    struct sl_str head; /* {"name":"ai","kind":"quota","plan":"pro","scope": */
    struct sl_str policy; /* "ai";q=5;w=60, of RateLimit-Policy; "": none */
};

/* Are these the same bytes in memory? Two texts of one policy that are equal
 * need not be. */
static inline bool sl_is_same_text(struct sl_str a, struct sl_str b)
{
    return a.at == b.at && a.len == b.len;
}

struct sl_decision {
    /* The verdict. */
    bool not_limited; /* enabled: false, mode: off, or a route without limits:
                       * passes without headers */
    bool allowed;
    int status; /* 200, 429, 402, 403, 401, 503, ... */
    enum sl_reason reason;
    int by;     /* index into shown: the first that denies; -1 none */
    int report; /* index into shown: shown in the headers; -1 none */
    bool never;
    bool no_numbers;             /* no limit was taken from */
    bool plan_unknown;           /* because the registry failed */
    bool degraded;               /* decided without the store */
    sl_ns retry_in;              /* until the same request passes; SL_NS_NONE */
    struct sl_str code;          /* "RATE_LIMITED"; "" when allowed */
    struct sl_str missing_scope; /* MISSING: which attribute */
    bool token_good;             /* it has a valid token */
    enum sl_token_error token_fault; /* GOOD also without a token */
    char hold[SL_HOLD_TEXT]; /* name of the hold; "": none. See hold_op.h */
    sl_ns hold_for;          /* until the hold expires */
    sl_ns waited;            /* in a queue; SL_NS_NONE: it did not */

    enum sl_webhook_fault webhook_fault; /* GOOD also without a check */
    const struct sl_require *require;    /* of REASON_REQUIRE */
    enum sl_want want;                   /* likewise */
    const struct sl_route_cost *no_cost; /* of REASON_COST */
    bool replayed;                       /* a repeat: answered as before */
    const struct sl_condition *exempt;   /* of the route; NULL: not exempt */
    struct sl_block block;               /* of REASON_BLOCKED */
    const char *block_of;                /* likewise: "user", "org" or "ip" */
    char *block_id;                      /* its id; NULL: without memory */
    struct sl_skipped_route skipped[4];
    unsigned skipped_count;

    unsigned shown_count;
    unsigned running_count; /* shown_count + running_count + penalty_count
                             * <= SL_PARTS */
    unsigned penalty_count; /* views behind those of the guards */
    int quota; /* index into shown: X-Org-Quota-Remaining; -1 none */
    unsigned side_count;

    /* Its inputs. */
    const struct sl_policy *policy; /* borrowed: the caller holds a reference */
    uint64_t generation; /* of the policy: while it is the same, texts of the
                          * policy are where they were; 0: unknown */
    const struct sl_limit_texts *texts; /* likewise; see sl_limit_texts_of() */
    const struct sl_route *route;       /* never NULL after begin */
    unsigned plan;
    bool anonymous;
    bool plan_ended; /* the plan of the registry has ended */
    /* For explanations and records; cut after SL_WHO_BYTES. */
    struct sl_key_value who[SL_SCOPES];
    unsigned who_count;
    struct sl_str ip; /* as the request has it: borrowed from it; "": none */
    sl_ns now;
    char request_id[SL_REQUEST_ID + 1];

    /* For the store. */
    struct sl_take take;

    bool on_local; /* taken from the local table */
    /* Claims in the memory of repeats; idempotency.c. */
    bool webhook_verified;
    struct sl_decision_claim {
        bool wanted;  /* the request has this key */
        bool claimed; /* and decides now */
        bool kept;    /* `before` is claimed: the check has waited, and is
                       * evaluated again */
        struct sl_repeat_claim claim, before;
    } claims[SL_DECISION_CLAIMS];

    bool spend;       /* false: explain, which takes nothing */
    sl_ns hold_asked; /* these are of the first request */
    bool give_back;
    bool insist;
    bool charge;
    bool metered;
    bool failed; /* a report of failed attempts */

    struct sl_split_take apart; /* of a set in several slots */
    bool tagged;                /* names have cluster tags */

    struct sl_arena arena; /* small texts: ids, keys */

    /* These are not cleared, for they are large: each element is written before
     * it is counted. */
    struct sl_part parts[SL_PARTS]; /* of `take` */
    unsigned part_shown[SL_PARTS];  /* which of `shown` a part belongs to */
    struct sl_limit_view
        shown[SL_PARTS]; /* in the route's order; the guards follow */
    struct sl_guard_key running[SL_RUNNING];
    struct sl_descriptor_match
        sides[SL_DESCRIPTOR_MATCHES]; /* in the order in which they came */
};

struct sl_engine;

/* A reported backlog. */
struct sl_depth {
    _Atomic uint64_t depth;
    _Atomic int64_t at; /* SL_NS_NONE: never */
};

/* A policy with its bindings and switches. */
struct sl_active_policy {
    _Atomic unsigned refs;
    uint64_t generation; /* of all active policies of the process, from 1 */
    struct sl_policy *policy;
    struct sl_limit_binding
        *stored; /* by rule: 2i the rule, 2i + 1 its candidate */
    struct sl_limit_binding *local; /* the same on the local table, or NULL */
    struct sl_engine *engine;
    _Atomic bool *features; /* by feature: switched on? */
    /* By rule: the smallest count and capacity that the store knows. */
    struct sl_tightest {
        _Atomic uint64_t count, capacity;
    } * tightest;
    _Atomic unsigned *nodes;    /* by rule: daemons that share it; 0: unknown */
    struct sl_depth *depths;    /* by the policy's backlogs */
    bool wants_names, in_slots; /* as the store */
    struct sl_limit_texts *texts; /* by rule and plan; NULL: they are made for
                                   * each answer */
    struct sl_arena texts_arena;
    const struct sl_alloc *alloc;
    size_t size; /* of this piece */
};

/* Lowers the store's strictest numbers of a rule to those of an override, if
 * they are stricter. Eviction goes by the strictest numbers. */
SL_MUST_USE int sl_active_set_strictest(const struct sl_active_policy *active,
                                        const struct sl_rule *rule,
                                        const struct sl_limit *numbers,
                                        struct sl_diag *diag);

/* Is the key of this limit blocked by its penalty? */
bool sl_penalty_blocks(const struct sl_decision *decision,
                       const struct sl_limit_view *of);

/* Has a block by the penalty of this limit begun with the decision? */
bool sl_penalty_begins(const struct sl_decision *decision, unsigned shown);

/* Appends the name of a shown limit's key in a shared store. */
SL_MUST_USE int sl_decision_key(const struct sl_decision *decision,
                                const struct sl_limit_view *shown,
                                struct sl_buf *out);

#endif
