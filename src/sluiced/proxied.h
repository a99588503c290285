/* proxied.h -- doors that balancers stand before: `proxy_protocol`.
 */
#ifndef SL_PROXY_LISTENERS_H
#define SL_PROXY_LISTENERS_H

#include "net/proxy_protocol.h"

struct sl_protocol;
struct sl_proxy_listeners;
struct sl_listener_worker;
struct sl_worker;

/* Let the connections of a stand begin with whom they are for: stand->proxied.
 */
SL_MUST_USE int sl_proxy_listeners_open(struct sl_worker *worker,
                                        const struct sl_protocol *kind,
                                        struct sl_listener_worker *stand);

/* NULL is allowed, here and below. */
void sl_proxy_listeners_close(struct sl_proxy_listeners *proxied);

/* An sl_accept_f whose ctx is the sl_proxy_listeners. */
void sl_proxy_listeners_accept(void *ctx, int fd,
                               const struct sl_address *peer);

/* How many connections have not said it yet. */
unsigned sl_proxy_listeners_count(const struct sl_proxy_listeners *proxied);

#endif
