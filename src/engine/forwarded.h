/* forwarded.h -- whose request it is that a proxy hands on.
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
#ifndef SL_FORWARDED_H
#define SL_FORWARDED_H

#include "engine/request.h"

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
