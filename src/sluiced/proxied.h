/* proxied.h -- doors that balancers stand before: `proxy_protocol`.
 */
#ifndef SL_PROXIED_H
#define SL_PROXIED_H

#include "net/preface.h"

struct sl_door_kind;
struct sl_proxied;
struct sl_stand;
struct sl_worker;

/* Let the connections of a stand begin with whom they are for: stand->proxied.
 */
SL_MUST_USE int sl_proxied_open(struct sl_worker *worker,
                                const struct sl_door_kind *kind,
                                struct sl_stand *stand);

/* NULL is allowed, here and below. */
void sl_proxied_close(struct sl_proxied *proxied);

/* An sl_accept_f whose ctx is the sl_proxied. */
void sl_proxied_accept(void *ctx, int fd, const struct sl_address *peer);

/* How many connections have not said it yet. */
unsigned sl_proxied_count(const struct sl_proxied *proxied);

#endif
