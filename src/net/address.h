/* address.h -- where to listen: "127.0.0.1:8080", "[::1]:8080", "*:8080",
 * "unix:/run/sluice/http.sock".
 */
#ifndef SL_NET_ADDRESS_H
#define SL_NET_ADDRESS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/diag.h"
#include "base/ip.h"

struct sl_address {
    struct sockaddr_storage bytes;
    socklen_t len;
    char text[128]; /* as written; "": not read from text */
};

/* Reads numeric addresses, `*` (all of IPv6 and IPv4; "[::]" is IPv6 alone) and
 * `localhost` (127.0.0.1). Names are not looked up. */
SL_MUST_USE int sl_address_parse(struct sl_str text, struct sl_address *ret,
                                 struct sl_diag *diag);

bool sl_address_is_unix(const struct sl_address *address);

/* The IP address; false for unix sockets, and then *ret is untouched. */
bool sl_address_ip(const struct sl_address *address, struct sl_ip *ret);

/* The port; 0 for unix sockets. */
unsigned sl_address_port(const struct sl_address *address);

/* Is it a loopback address or a unix socket? */
bool sl_address_is_local(const struct sl_address *address);

/* "127.0.0.1:8080" or "unix:/path"; after listening on port 0 the real one. */
void sl_address_print(const struct sl_address *address, char *out, size_t size);

#endif
