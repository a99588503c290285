/* where.h -- where a Redis is: redis://user:password@host:6379/0
 *
 *   redis://HOST[:PORT][/DATABASE]            one server; port 6379
 *   rediss://...                              by TLS
 *   redis+unix:///PATH[?db=N]                 through a unix socket
 *   redis+cluster://HOST[:PORT][,HOST...]     some of a cluster's nodes
 *   rediss+cluster://...
 *   redis+sentinel://HOST[:PORT][,HOST...]/MASTER[/DATABASE]; port 26379
 *
 * Options behind a '?': `ca`, `cert` and `key` are PEM files for TLS, `db` the
 * database, `sentinel_user` and `sentinel_password` for the sentinels. A user
 * and a password stand before an '@', with %xx for what has a meaning there.
 */
#ifndef SL_WHERE_H
#define SL_WHERE_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"

#define SL_REDIS_HOSTS 16

struct sl_redis_host {
    const char *name; /* a name or an address; a path of a unix socket */
    unsigned port;    /* 0: a unix socket */
};

struct sl_redis_url {
    enum sl_redis_kind {
        SL_REDIS_ONE,
        SL_REDIS_CLUSTER,
        SL_REDIS_SENTINEL,
    } kind;
    bool tls;
    struct sl_str user, password;
    struct sl_str sentinel_user, sentinel_password;
    struct sl_redis_host hosts[SL_REDIS_HOSTS];
    unsigned host_count;
    const char *master; /* SENTINEL: of which name */
    unsigned database;
    const char *ca, *cert, *key; /* or NULL */
};

/* Read one; texts live in `arena`. SLUICE_ECONF with a sentence that shows no
 * password. */
SL_MUST_USE int sl_redis_url_read(struct sl_str text, struct sl_arena *arena,
                                  struct sl_redis_url *ret,
                                  struct sl_diag *diag);

#endif
