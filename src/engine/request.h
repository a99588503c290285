/* request.h -- a request, as its sender describes it.
 *
 * All texts are borrowed. An empty slice is unknown.
 */
#ifndef SL_ENGINE_REQUEST_H
#define SL_ENGINE_REQUEST_H

#include "identity/identity.h"
#include "policy/policy.h"

struct sl_header {
    struct sl_str name;
    struct sl_str value;
};

struct sl_cost {
    struct sl_str limit;
    uint64_t cost;
};

/* The cost of a limit, or NULL. */
static inline const struct sl_cost *
sl_cost_find(const struct sl_cost *costs, unsigned count, struct sl_str limit)
{
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(costs[i].limit, limit))
            return &costs[i];
    return NULL;
}

/* A rate for one limit instead of the plan's. */
struct sl_override {
    struct sl_str limit;
    struct sl_str rate;
};

struct sl_request {
    /* One of: an HTTP request, a job, or one limit by its name. */
    struct sl_str method, path;
    struct sl_str job;
    struct sl_str limit, key;  /* `take LIMIT KEY`: KEY is the value of its
                                * `per`, or several joined: acme:ann */
    const struct sl_str *keys; /* or one value for each `per`, in order */
    unsigned key_count;
    const struct sl_str *key_scopes; /* their scopes, where they are not those
                                      * of the rule: "anon"; or NULL */

    struct sl_str user, org, plan, role, ip;

    const struct sl_header *headers;
    unsigned header_count;
    bool trusted; /* headers may name the caller */

    const struct sl_override *overrides;
    unsigned override_count;

    bool has_cost;
    uint64_t cost;               /* of every limit; 0 peeks */
    const struct sl_cost *costs; /* of one limit each; these come first */
    unsigned cost_count;
    sl_ns wait; /* longest wait; 0: that of the route; SL_NS_NONE: none */
    sl_ns hold; /* how long the take is held; 0: as the limits say */

    /* Of Envoy: descriptors. Scopes of `identity` are read from them, too. */
    struct sl_str domain;
    const struct sl_descriptor_entry *entries;
    unsigned entry_count;
    struct sl_fixed_rate { /* count 0 denies all; period 0: none */
        uint64_t count;
        sl_ns period;
    } imposed;      /* numbers of all limits of that period */
    bool give_back; /* refund the cost */
    bool insist;    /* fixed windows and quotas count denied requests */
    bool charge;    /* the cost was used already: count it, deny nothing */
    bool metered;   /* quotas and levels have no ceiling, so that usage beyond
                     * it is shown */
    bool failed;    /* with `charge`: the cost is failed attempts, for the
                     * penalty of the limit */
    uint64_t order; /* with `charge` and `give_back`: that of the report */

    bool has_body; /* it may be empty */
    struct sl_str body;
    struct sl_str idempotency_key; /* a repeat with the same key is answered as
                                    * the first */
    unsigned idempotency_index;    /* of several requests with one key */

    struct sl_str request_id;
    sl_ns deadline; /* monotonic; 0: the engine's own */
    sl_ns now;
};

/* The value of the first header of that name, and how many there are. Names
 * are compared without case. */
struct sl_str sl_request_find(const struct sl_request *request,
                              struct sl_str name, unsigned *ret_count);

/* The value of the first one; empty if there is none. */
struct sl_str sl_request_header(const struct sl_request *request,
                                struct sl_str name);

/* The value of the only one; empty if there is none, or more than one. */
struct sl_str sl_request_single(const struct sl_request *request,
                                struct sl_str name);

/* The value of the last cookie of that name, and how many there are. */
struct sl_str sl_request_cookie(const struct sl_request *request,
                                struct sl_str name, unsigned *count);

/* The name that the request itself gives for `scope`: a member, an entry of a
 * descriptor, or the key of the limit that it names. Empty if there is none. */
struct sl_str sl_request_given(const struct sl_policy *policy,
                               const struct sl_request *request,
                               unsigned scope);

/* The token of the request, from the first source of `identity: jwt` that has
 * one; empty if there is none. MALFORMED if that source has two, or nothing
 * follows the word Bearer. */
enum sl_token_error sl_request_token(const struct sl_policy *policy,
                                     const struct sl_request *request,
                                     struct sl_str *ret);

/* May a decision by this policy read the header? Others can be left out. */
bool sl_request_wanted(const struct sl_policy *policy, struct sl_str header);

/* A request with one value for each `per` of the limit that it names. */
struct sl_split_request {
    const struct sl_request *request; /* &copy; NULL: it needs no splitting */
    struct sl_request copy;
    struct sl_str keys[SL_PER_MAX];
};

/* Splits the key of a limit with several `per`. SLUICE_EINVAL if it has not
 * one value of each, SLUICE_ENOMEM. */
SL_MUST_USE int sl_request_split(const struct sl_policy *policy,
                                 const struct sl_request *request,
                                 struct sl_arena *arena,
                                 struct sl_split_request *ret,
                                 struct sl_diag *diag);

/* SLUICE_ENOENT with a suggestion if a cost or an override is for a limit that
 * the policy does not have on any route. SLUICE_EINVAL if the key of a limit
 * with several `per` has not one value of each. */
SL_MUST_USE int sl_request_check(const struct sl_policy *policy,
                                 const struct sl_request *request,
                                 struct sl_diag *diag);

/* ---- the client behind proxies.
 *
 * Each proxy appends the address of its peer to X-Forwarded-For (or to
 * Forwarded, if the policy says so). The list is read from the right while its
 * writers are trusted. The first address that is not trusted is the client; it
 * may have made up all to its left.
 *
 *     X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2      peer 10.0.0.1
 *                      made up  the client   trusted        trusted
 */

/* The peer of a connection: an address, or a unix socket, which has none. */
struct sl_peer {
    struct sl_ip ip;
    struct sl_str text; /* `ip` as sl_ip_print() writes it; empty: not known */
    bool has_ip;
    bool is_unix;
};

/* May the peer speak for others? Addresses of `trusted_proxies` may, or of
 * loopback if the policy has none; and unix sockets. */
bool sl_peer_trusted(const struct sl_identity *identity,
                     const struct sl_peer *peer);
bool sl_ip_trusted(const struct sl_identity *identity, const struct sl_ip *ip);

/* The client's address, from the fields of `headers` that the policy names (in
 * their order; several are one list) if the peer is trusted. An invalid address
 * ends the search at the last valid one. False if there is none. */
bool sl_forwarded_client(const struct sl_identity *identity,
                         const struct sl_peer *peer,
                         const struct sl_header *headers, unsigned count,
                         struct sl_ip *ret);

#endif
