/* identify.h -- who is asking.
 *
 * What the caller says himself goes before all else. Claims of a token that was
 * verified are believed of everybody, headers and cookies only of those who
 * may speak for others. Whoever is not known is told apart
 * by where he comes from: `anonymous` in the policy.
 */
#ifndef SL_IDENTIFY_H
#define SL_IDENTIFY_H

#include "engine/known.h"
#include "engine/request.h"

struct sl_caller {
    struct sl_str values[SL_SCOPES]; /* by scope; empty: not known. That of
                                      * ip is empty until it is asked for */
    struct sl_str plan, role;
    const struct sl_str *roles; /* of the registry, if it gave `role` */
    unsigned role_count;
    bool plan_ended;   /* the registry's: then it is the default */
    bool unregistered; /* named, and nothing tells his plan: nobody whom the
                        * registry knows, if there is one */
    bool anonymous;    /* no name of any scope is known */
    struct sl_str anonymous_id; /* made on first need; see below */
    bool has_ip;                /* values[SL_SCOPE_IP] is an address */
    char ip[SL_IP_TEXT + 5];    /* canonical, with the prefix of IPv6 */
    char fingerprint[33];
};

/* An address as limits know it: canonical, IPv6 by the policy's prefix, in
 * `out`; "unknown" if it is none. */
struct sl_str sl_identify_ip(const struct sl_policy *policy, struct sl_str text,
                             char out[SL_IP_TEXT + 5]);

void sl_identify(const struct sl_policy *policy, const struct sl_request *facts,
                 const struct sl_auth_info *known, struct sl_caller *ret);

/* The caller's address, in one notation; "unknown" if he has none. Read when it
 * is first asked for: who has a name is seldom told by his address. */
struct sl_str sl_caller_ip(struct sl_caller *caller,
                           const struct sl_policy *policy,
                           const struct sl_request *facts);

/* The scope and the value by which an unknown caller is told apart: his
 * address, or a fingerprint under `secret` of what the policy lists. Whoever
 * shows nothing at all shares one allowance with all the others. */
struct sl_key_value sl_caller_anonymous(struct sl_caller *caller,
                                        const struct sl_policy *policy,
                                        const struct sl_request *facts,
                                        const struct sl_hash_key *secret);

/* What stands in for a name that the caller lacks: as above for callers without
 * any name, else the address. */
struct sl_key_value sl_caller_stand_in(struct sl_caller *caller,
                                       const struct sl_policy *policy,
                                       const struct sl_request *facts,
                                       const struct sl_hash_key *secret);

#endif
