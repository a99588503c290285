/* url_guard.h -- which URLs and addresses a webhook may be sent to.
 *
 * A customer chooses the URL, and sluiced calls it from inside of the
 * operator's network: without a guard it could be used to reach private
 * services (SSRF). Two checks:
 *
 *   the URL      when an endpoint is created: scheme, credentials, port, and an
 *                address, if it is written as one. A host that other programs
 *                read as an address in another notation is refused.
 *   the address  of each connection, after the name was resolved and before the
 *                connection is opened. What is checked is what is connected to,
 *                so a name that resolves to another address later (DNS
 *                rebinding) changes nothing.
 *
 * Only global unicast addresses are allowed, and networks that the operator
 * allows. Addresses of metadata services are always refused.
 *
 * Invariants. (test/unit/webhook/url_guard.c checks each by number.)
 *   (1) An address of a special range is refused in every notation.
 *   (2) A URL is accepted only if every reader sees the same host: no
 *       credentials, no blanks, backslashes or control characters, ASCII only.
 *   (3) `allow` opens ranges, and never a metadata service.
 */
#ifndef SL_WEBHOOK_URL_GUARD_H
#define SL_WEBHOOK_URL_GUARD_H

#include "base/buf.h"
#include "base/diag.h"
#include "base/ip.h"

#define SL_WEBHOOK_URL  2048 /* bytes of a URL at most */
#define SL_WEBHOOK_HOST 253

struct sl_url_rules {
    const struct sl_net *allow; /* special ranges that are allowed, too */
    unsigned allow_count;
    const unsigned *ports; /* besides 443 and 80 */
    unsigned port_count;
    bool insecure; /* http is allowed */
};

/* What a policy allows. They borrow from it. */
struct sl_webhooks_conf;
struct sl_url_rules sl_url_rules_of(const struct sl_webhooks_conf *conf);

struct sl_webhook_url {
    bool is_tls;
    struct sl_str host; /* a slice of the URL, without brackets */
    bool is_ip;         /* `ip` is the host */
    struct sl_ip ip;
    unsigned port;
};

/* Reads a URL, or refuses it with SLUICE_ECONF and a sentence. */
SL_MUST_USE int sl_url_guard_read(struct sl_str url,
                                  const struct sl_url_rules *rules,
                                  struct sl_webhook_url *ret,
                                  struct sl_diag *diag);

/* Appends the one spelling of a URL that was read: scheme and host in lower
 * case, without the default port and an empty query, with a path. URLs that are
 * one destination are equal then. SLUICE_ENOMEM. */
SL_MUST_USE int sl_url_canonical(struct sl_str url,
                                 const struct sl_webhook_url *parts,
                                 struct sl_buf *out);

/* May a connection to this address and port be opened? If not, the sentence is
 * in `diag`. */
SL_MUST_USE int sl_url_guard_address(const struct sl_ip *ip, unsigned port,
                                     const struct sl_url_rules *rules,
                                     struct sl_diag *diag);

/* Is the address in none of the ranges that are refused without rules? */
bool sl_url_guard_is_public(const struct sl_ip *ip);

#endif
