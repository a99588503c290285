/* redis.h -- the store in a Redis, shared by many machines.
 *
 * Every take is one command and one round trip: the script takes the set where
 * the cells are, by the server's clock. All takes of a turn go out together.
 *
 * Each loop has a seat: its own connections and what is on its way. A take must
 * be asked for on the loop's thread (take->loop).
 *
 * A take that is not answered by its deadline has failed: SLUICE_ESTORE. If it
 * turns out later that it succeeded, what it took is given back; if nobody can
 * tell, it is counted as uncertain. Nothing is sent twice unless it is certain
 * that it did not happen the first time. When too many fail nobody is made to
 * wait any more (breaker.h), and who was refused is not asked for again within
 * a second (denials.h).
 *
 * The secret. Callers without a name are known by a fingerprint under
 * store->secret, which must be the same for all who share a Redis: it lies
 * there, under "sluice:secret", put by whoever comes first. Until a loop has
 * seen it all takes of that loop fail: their names may be wrong.
 * sl_redis_is_ready() says when that is over. A secret that is seen is kept,
 * whatever happens in Redis, and put there again if it is lost.
 *
 * The marker. "sluice:epoch" is a number that nobody else has made. If it has
 * gone or changed, somebody has flushed the data, restored an old copy, or put
 * another server in its place: `epochs` counts that.
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
    sl_ns deadline;            /* 0: 20 ms; a take's own may be sooner */
    bool own_now;              /* test builds: take->now is the time */
    unsigned in_flight_most;   /* of a loop; 0: 8192 */
    unsigned denials_most;     /* remembered, of a loop; 0: 1024 */
    bool no_denials;           /* ask Redis each time */
    unsigned leases_most;      /* keys, of a loop; 0: 4096 */
    bool no_leases;            /* nothing is taken in advance */
    sl_ns look_every;          /* at the marker; 0: 5 s */
    const struct sl_alloc *alloc;
    /* On the loop's thread; the sentence has no secrets and no full stop. The
     * same trouble is told again after ten seconds. Nothing of this store may
     * be called in there. */
    sl_store_event_f *on_news;
    void *ctx;
};

SL_MUST_USE int sl_redis_open(const struct sl_redis_options *options,
                              struct sl_store **ret, struct sl_diag *diag);

/* A seat for `loop`: before it runs, or on its thread. */
SL_MUST_USE int sl_redis_attach(struct sl_store *store, struct sl_loop *loop,
                                struct sl_diag *diag);

/* Whatever is on its way fails. On the loop's thread, or when it has stopped;
 * not from within a take's done(). */
void sl_redis_detach(struct sl_store *store, struct sl_loop *loop);

/* Give all leases of this loop back, and take no more. On its thread. `now` is
 * needed with own_now alone. */
void sl_redis_drain(struct sl_store *store, struct sl_loop *loop, sl_ns now);

/* Has every loop that is attached seen the secret? From any thread. */
bool sl_redis_is_ready(const struct sl_store *store);

/* When a take that has failed may be worth another try: the next attempt to
 * reach the server or to ask it; 0: at once. On the loop's thread. */
sl_ns sl_redis_retry_in(const struct sl_store *store,
                        const struct sl_loop *loop);

/* What all seats have counted, those that are gone included. */
struct sl_redis_stats {
    uint64_t taken;      /* answered in time */
    uint64_t late;       /* deadlines that passed */
    uint64_t failed;     /* refused, lost or not sent */
    uint64_t returned;   /* late, had succeeded, and were given back */
    uint64_t uncertain;  /* nobody can tell */
    uint64_t strange;    /* values that were none of ours */
    uint64_t repaired;   /* the server did not know the script */
    uint64_t remembered; /* refused without asking */
    uint64_t spanning;   /* sets in several slots of a cluster: all failed */
    uint64_t redirected; /* sent on to another node of a cluster */
    uint64_t storms;     /* sent on too often: failed */
    uint64_t epochs;     /* changes of the marker */
    uint64_t leased;     /* takes that leases have answered */
    /* Tokens: taken in advance; spent of leases that Redis no longer knew; not
     * spent, and lost. See leases.h. */
    uint64_t lease_tokens, lease_over, lease_under;
    unsigned up, ready, seats;
    bool open;   /* the breaker, of any seat */
    sl_ns ahead; /* of the server's clock, against ours; SL_NS_NONE */
};
void sl_redis_stats(const struct sl_store *store, struct sl_redis_stats *ret);

#endif
