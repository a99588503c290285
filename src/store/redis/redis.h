/* redis.h -- the store in Redis, shared by many machines.
 *
 * Every take is one command and one round trip: a script takes the set where
 * the cells are, by the server's clock. All takes of one loop turn are sent
 * together. Nothing is sent twice unless it is certain that the first attempt
 * did nothing. Deadlines, refunds, denials and leases: store/remote.h.
 *
 * The secret. Callers without a name are known by a fingerprint under
 * store->secret, which must be the same for all daemons that share a Redis. It
 * is stored under "sluice:secret" by the first daemon. Until a client has read
 * it, all takes of its loop fail: their names may be wrong. A secret that was
 * read is kept, and is written again if Redis loses it.
 *
 * The epoch. "sluice:epoch" is a random number. If it has gone or changed, the
 * data was flushed, restored from an old copy, or is another server's:
 * `epochs` counts that.
 */
#ifndef SL_STORE_REDIS_REDIS_H
#define SL_STORE_REDIS_REDIS_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"
#include "net/loop.h"
#include "store/remote.h"
#include "store/store.h"

/* ---- where a Redis is: redis://user:password@host:6379/0
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

struct sl_redis_options {
    struct sl_redis_url where; /* its texts outlive the store */
    struct sl_remote_options remote;
    sl_ns look_every; /* how often the epoch is read; 0: 5 s */
};

/* Opens a remote store (store/remote.h). */
SL_MUST_USE int sl_redis_open(const struct sl_redis_options *options,
                              struct sl_store **ret, struct sl_diag *diag);

#endif
