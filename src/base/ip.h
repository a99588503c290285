/* ip.h -- IP addresses by their bits, whatever their notation.
 *
 * Every address is sixteen bytes; IPv4 is kept as ::ffff:a.b.c.d, so that the
 * mapped and the plain spelling are one address. Nothing is ever decided by
 * how an address was written.
 */
#ifndef SL_BASE_IP_H
#define SL_BASE_IP_H

#include "base/str.h"

#define SL_IP_TEXT  46               /* the longest address, with its NUL */
#define SL_NET_TEXT (SL_IP_TEXT + 4) /* with a prefix length */

struct sl_ip {
    uint8_t bytes[16];
};

/* The addresses whose first `bits` are those of `ip`; IPv4 belongs only to
 * networks of IPv4: ::/0 does not have it. */
struct sl_net {
    struct sl_ip ip;
    unsigned bits; /* 0 .. 128; IPv4 networks have 96 and more */
};

/* Read "203.0.113.5", "2001:db8::1", "::ffff:203.0.113.5", "[::1]",
 * "fe80::1%eth0" (the zone is dropped). Also with a port behind it
 * ("203.0.113.5:443", "[::1]:443"), as proxies write. IPv4 is four decimal
 * numbers without leading zeros: nothing octal, hex or short. False if it is
 * none of these; then *ret is untouched. */
SL_MUST_USE bool sl_ip_parse(struct sl_str text, struct sl_ip *ret);

/* Is it an IPv4 address as sl_ip_print() writes it? */
bool sl_ip_is_plain_v4(struct sl_str text);

bool sl_ip_is_v4(const struct sl_ip *ip);

/* The IPv4 address inside 64:ff9b::/96 (NAT64, RFC 6052); other addresses are
 * returned as they are. To tell callers apart, not to trust them. */
struct sl_ip sl_ip_untranslated(const struct sl_ip *ip);

/* The address with all but the first `v6_prefix` bits cleared if it is IPv6;
 * IPv4 is kept whole. */
struct sl_ip sl_ip_prefix(const struct sl_ip *ip, unsigned v6_prefix);

/* The canonical text (RFC 5952), NUL-terminated. Returns its length. */
size_t sl_ip_print(const struct sl_ip *ip, char out[SL_IP_TEXT]);

/* Read "10.0.0.0/8", "2001:db8::/32", or an address, which is a network of
 * itself. False if it is none, or if bits behind the prefix are set. */
SL_MUST_USE bool sl_net_parse(struct sl_str text, struct sl_net *ret);

/* The network of `bits` that the address is in. */
struct sl_net sl_net_of(const struct sl_ip *ip, unsigned bits);

/* The canonical text: "203.0.113.7", "203.0.113.0/24", "2001:db8::1/128". IPv6
 * always has its length. Returns the length of the text. */
size_t sl_net_print(const struct sl_net *net, char out[SL_NET_TEXT]);

bool sl_net_has(const struct sl_net *net, const struct sl_ip *ip);

#endif
