/* check.h -- one evaluation of a request, answered at once or later.
 *
 * A store in this process answers before sl_check_start() returns. A remote
 * store or a subject lookup answers from the loop. done() is called once in
 * both cases. The state machine is in check.c.
 *
 * Descriptors. A check may have several requests, as Envoy sends several
 * descriptors. All of them are one decision, taken together or not at all. A
 * limit that two of them meet under the same key is taken once, with the
 * larger cost.
 *
 * A check is reused for one request after another. It keeps its memory and
 * its reference to the active policy.
 */
#ifndef SL_ENGINE_CHECK_H
#define SL_ENGINE_CHECK_H

#include "engine/engine.h"
#include "engine/wait.h"

struct sl_loop;

/* What one thread passes to all its checks. Zeros are valid: no token and no
 * webhook is accepted, there are no subjects, and the store answers at once. */
struct sl_engine_ctx {
    struct sl_loop *loop;               /* of this thread; NULL: none */
    struct sl_tokens *tokens;           /* NULL: no token is accepted */
    struct sl_subjects *subjects;       /* NULL: there is no registry */
    struct sl_usage_sink *meter;        /* NULL: usage is not recorded */
    sl_webhook_f *webhook;              /* NULL: no webhook is accepted */
    struct sl_wait_thread *wait_thread; /* NULL: checks do not wait */
};

/* The caller, from the request, its token and the registry. */
struct sl_caller {
    struct sl_str values[SL_SCOPES]; /* by scope; empty: not known. That of
                                      * ip is empty until sl_caller_ip() */
    struct sl_str plan, role;
    const struct sl_str *roles; /* of the registry, if it gave `role` */
    unsigned role_count;
    bool plan_ended;   /* the registry's plan has ended: the default counts */
    bool unregistered; /* it has a name; the registry does not know it, and
                        * nothing else tells its plan */
    bool anonymous;    /* no name of any scope is known */
    struct sl_str anonymous_id; /* made by sl_caller_anonymous() */
    bool has_ip;                /* values[SL_SCOPE_IP] is an address */
    char ip[SL_IP_TEXT + 5];    /* canonical, with the prefix of IPv6 */
    char fingerprint[33];
};

/* The states; the diagram is in check.c. */
enum sl_check_state {
    SL_CHECK_IDENTIFY,     /* verify the token of the next request */
    SL_CHECK_LOOKUP,       /* look up the subjects of the caller */
    SL_CHECK_PREPARE,      /* routes, prechecks, limits, keys */
    SL_CHECK_CLAIM,        /* claim the keys of repeats */
    SL_CHECK_WAIT,         /* in a wait queue */
    SL_CHECK_TAKE,         /* take the enforced limits */
    SL_CHECK_CREDITS,      /* take credits instead of the limits that deny */
    SL_CHECK_COUNT_DENIED, /* charge denied requests; `insist` */
    SL_CHECK_SHADOW,       /* take shadow limits and candidates */
    SL_CHECK_NEXT_UNIT,    /* peek when the next unit comes */
    SL_CHECK_RESET,        /* reset the keys of the decision */
    SL_CHECK_DONE,
    SL_CHECK_COMMIT, /* remember the answer for repeats */
};

struct sl_check {
    struct sl_decision decision; /* valid if err is 0 */
    int err; /* of sl_check_start(); the sentence is in diag */
    struct sl_diag diag;
    struct sl_active_policy
        *active; /* referenced; the decision points into it */

    /* Set by the caller. */
    void (*done)(struct sl_check *check); /* NULL: the store answers at once,
                                           * and the caller reads busy */
    void *ctx;
    const struct sl_auth_info *auth; /* of the caller, if it is known already;
                                      * NULL: verify and look up */
    bool no_wait;                    /* do not wait, whatever the route says */
    void (*waits)(struct sl_check *check); /* it waits now; may be NULL */
    /* The first take is about to start; may be NULL. If the function returns
     * true, the take starts with sl_check_resume(), in the same turn of the
     * loop. `may` is true if that is allowed: the store then prefetches and
     * answers at once. */
    bool (*defers)(struct sl_check *check, bool may);

    /* For reading. */
    bool busy;    /* started and not answered */
    bool spend;   /* false: explain, which takes nothing */
    bool in_turn; /* it waits, or has waited, in a queue */

    /* Private to the engine. */
    enum sl_check_state state;
    struct sl_engine *engine;
    const struct sl_engine_ctx *engine_ctx;
    const struct sl_request *requests;
    unsigned request_count, request_index;
    bool sending;  /* the store is being called */
    bool answered; /* the take is complete */

    /* The current request. */
    const struct sl_request *request;
    struct sl_split_request split;
    const struct sl_auth_info *known; /* `auth`, or &verified */
    const struct sl_hash_key *secret;
    struct sl_caller caller;
    bool preflight; /* a CORS preflight, which needs no name */
    bool no_memory; /* an allocation of a precheck has failed */
    bool carry;     /* `sign_in: carry`: earlier anonymous usage counts */
    bool cap;       /* `sign_in: cap`: limits per address apply to callers
                     * with a name */
    uint32_t shown; /* bits: which limits of the decision it meets */

    struct sl_repeat_call repeat; /* to the memory of repeats */
    unsigned claim_index;         /* of the decision's claims */

    struct sl_auth_info verified;
    struct sl_lookup lookups[3]; /* user, organisation, address */
    unsigned lookups_open;
    sl_ns lookups_until; /* monotonic; 0: no lookup has waited */
    bool looked_up;      /* lookups were started */
    bool has_waited;     /* for one of them: verify the token again */

    /* Waiting; wait_check.c. */
    bool gone;      /* the client has gone: do not wait any longer */
    sl_ns wait;     /* longest wait; 0: do not wait */
    sl_ns estimate; /* of the wait; SL_NS_NONE: unknown */
    struct sl_waiter waiter;
    struct sl_request again; /* the request that is evaluated again */
};

/* `engine` may be set later: check->engine. */
void sl_check_init(struct sl_check *check, struct sl_engine *engine,
                   const struct sl_engine_ctx *ctx,
                   const struct sl_alloc *alloc);

/* Not while the check is busy. */
void sl_check_done(struct sl_check *check);

/* Take a reference to the active policy, for callers that read it first. The
 * next sl_check_start() uses this policy. */
struct sl_active_policy *sl_check_ref_policy(struct sl_check *check);

/* Evaluate `count` requests as one decision. `requests` and what they point
 * to stay valid until done(). check->err is SLUICE_ENOENT if a named limit
 * does not exist, SLUICE_EINVAL if its key has not one value for each `per`,
 * SLUICE_ECONF if an override is not a rate, SLUICE_EFULL if
 * there are too many limits or requests, or SLUICE_ENOMEM. */
void sl_check_start(struct sl_check *check, const struct sl_request *requests,
                    unsigned count, bool spend);

/* Continue after a lookup, a take, a wait or a deferral. */
void sl_check_resume(struct sl_check *check);

/* The client has gone: a waiting check is answered now. */
void sl_check_cancel(struct sl_check *check);

/* After an answer: reset the keys of its limits, in the store and in the local
 * table. done() is called again; the decision is then no longer valid. err is
 * SLUICE_ESTORE if the store fails. */
void sl_check_reset(struct sl_check *check);

/* The route of a request; the decision is overwritten, and nothing is taken.
 * NULL without memory. */
const struct sl_route *sl_check_route(struct sl_check *check,
                                      const struct sl_request *request);

#endif
