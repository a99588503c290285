/* request.h -- what is known of a request before anybody decides.
 *
 * Everything is borrowed from whoever asks. An empty slice means: not known.
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

/* A rate for one limit instead of the plan's. */
struct sl_override {
    struct sl_str limit;
    struct sl_str rate;
};

struct sl_request {
    /* One of: a request, named work, or one limit by its name. */
    struct sl_str method, path;
    struct sl_str job;
    struct sl_str limit, key; /* `take LIMIT KEY`: KEY is the value of its last
                               * `per`, and of all others too */
    const struct sl_str
        *keys; /* instead of KEY: one for each `per`, in order */
    unsigned key_count;
    const struct sl_str *key_scopes; /* and what each is, where that is not the
                                      * rule's own `per`: "anon"; or NULL */

    /* Who, as far as the caller says so. */
    struct sl_str user, org, plan, role, ip;

    const struct sl_header *headers;
    unsigned header_count;
    bool trusted; /* may headers say who it is? */

    const struct sl_override *overrides;
    unsigned override_count;

    bool has_cost;
    uint64_t cost;               /* for every limit; 0 looks */
    const struct sl_cost *costs; /* for one limit each; they go first */
    unsigned cost_count;
    sl_ns wait; /* how long it may wait for its turn; 0: as the route says, and
                 * SL_NS_NONE: not at all */
    sl_ns hold; /* how long what is taken is held; 0: as the limits want it */

    /* From those who describe a request by attributes: the descriptors of
     * Envoy. Scopes named under `identity` are read from them, too. */
    struct sl_str domain;
    const struct sl_descriptor_entry *entries;
    unsigned entry_count;
    struct sl_fixed_rate { /* count 0 lets nothing pass; period 0: none */
        uint64_t count;
        sl_ns period;
    } imposed;      /* numbers for all limits of that period */
    bool give_back; /* the cost is given back instead of taken */
    bool insist;    /* what fixed windows and quotas refuse they count, too */
    bool charge;    /* the cost was used already: it counts, whatever the
                     * limits say, and nothing is refused */
    bool metered;   /* quotas and levels are asked without a ceiling: what was
                     * used beyond it is told, too */

    bool has_body; /* it came along; perhaps it is empty */
    struct sl_str body;
    struct sl_str idempotency_key; /* of whoever may ask: a repeat of the same
                                    * question is answered as the first */
    unsigned idempotency_index;    /* which one of those that share the key */

    struct sl_str request_id;
    sl_ns deadline; /* steady; 0: the engine's own */
    sl_ns now;
};

/* The value of a header, or an empty slice. Names compare without case. */
struct sl_str sl_request_header(const struct sl_request *request,
                                struct sl_str name);

/* The same, for what says who it is: empty, too, if it is there twice, since
 * then nobody can tell which one is meant. */
struct sl_str sl_request_single(const struct sl_request *request,
                                struct sl_str name);

/* The value of a cookie, and how many of that name there are; the last counts,
 * for those who don't care. */
struct sl_str sl_request_cookie(const struct sl_request *request,
                                struct sl_str name, unsigned *count);

/* The text of the token that came with the request, from the first source of
 * `identity: jwt` that has one; empty if none has. MALFORMED if that source has
 * two, or nothing behind the word Bearer. */
enum sl_token_error sl_request_token(const struct sl_policy *policy,
                                     const struct sl_request *request,
                                     struct sl_str *ret);

/* Is the header one that a decision by this policy may look at? All others can
 * be left out of the facts. */
bool sl_request_wanted(const struct sl_policy *policy, struct sl_str header);

/* SLUICE_ENOENT, with what was meant, if a cost or an override is for a limit
 * that the policy does not have at all. One of another route is all right. */
SL_MUST_USE int sl_request_check(const struct sl_policy *policy,
                                 const struct sl_request *request,
                                 struct sl_diag *diag);

/* ---- whose request it is that a proxy hands on.
 *
 * Each proxy appends to X-Forwarded-For (or to Forwarded, if the policy says
 * so; never both) the address it was called from. So the list is read from the
 * right, where our own proxy wrote: as long as those who
 * wrote are trusted, the one they name is believed, and the first who is not
 * trusted is the client. Whatever stands to the left of him he may have made
 * up.
 *
 *     X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2      peer 10.0.0.1
 *                      made up  the client   trusted        trusted
 */

/* Where a request comes from: an address, or a unix socket, which has none. */
struct sl_peer {
    struct sl_ip ip;
    bool has_ip;
    bool is_unix;
};

/* May the peer speak for others? Those of `trusted_proxies` may; if the policy
 * names none, those on loopback; and whoever can open a unix socket, for which
 * a policy has no word. */
bool sl_peer_trusted(const struct sl_identity *identity,
                     const struct sl_peer *peer);

/* The same of an address that was found to be a client's: then it is the proxy
 * itself, which has named nobody. */
bool sl_ip_trusted(const struct sl_identity *identity, const struct sl_ip *ip);

/* The client's address, walking the fields of `headers` that the policy names
 * (in the order in which they came; several are one list) if the peer is
 * trusted. What is no address ends the walk at the last good one. False if
 * there is none at all: a unix socket, and nobody named. */
bool sl_forwarded_client(const struct sl_identity *identity,
                         const struct sl_peer *peer,
                         const struct sl_header *headers, unsigned count,
                         struct sl_ip *ret);

#endif
