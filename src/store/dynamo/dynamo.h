/* dynamo.h -- the store in a table of DynamoDB, shared by many machines.
 *
 * A fixed window is counted by one conditional UpdateItem. Everything else is
 * read, judged here by core, and swapped if nobody came between; several rows
 * are written by one TransactWriteItems. Where an endpoint does not have that
 * (store->in_steps then), sets of several rows fail, or are taken in steps if
 * they may be (take->apart): pledged before, and healed by any daemon if this
 * one dies between two of them (pledge.h).
 *
 * Each loop has a seat: its own connections and what is on its way. A take must
 * be asked for on the loop's thread (take->loop).
 *
 * A take that is not answered by its deadline has failed: SLUICE_ESTORE. If it
 * turns out later that it was written, what it took is given back; if nobody
 * can tell, it is counted as uncertain. No write is sent twice unless a reply
 * proves that nothing has happened. When too many fail nobody is made to wait
 * any more (breaker.h), and who was refused is not asked for again within a
 * second (denials.h). Limits with a lease are decided here between two writes
 * (leases.h).
 *
 * Time is ours, corrected by what the server's Date says (skew.h).
 *
 * The secret of fingerprints lies in the table, put by whoever comes first;
 * until a loop has seen it all its takes fail. See redis.h.
 */
#ifndef SL_STORE_DYNAMO_DYNAMO_H
#define SL_STORE_DYNAMO_DYNAMO_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"
#include "store/dynamo/aws.h"
#include "store/remote.h"
#include "store/store.h"

/* ---- where a table of DynamoDB is: dynamodb://eu-west-1/jobseek-users
 *
 *   dynamodb://REGION[/TABLE][?endpoint=URL][&profile=SORT]
 *
 * Without a table it is "jobseek-users". `endpoint` is http://HOST:PORT or
 * https://HOST, where another than AWS's own is meant; `profile` is the sort
 * key of the items that say who has which plan: "PROFILE".
 */

struct sl_dynamo_url {
    struct sl_str region, table;
    const char *endpoint; /* a URL that ends in '/' */
    struct sl_str host;   /* as its header has it */
    struct sl_str profile;
};

/* Read one; texts live in `arena`. SLUICE_ECONF with a sentence. */
SL_MUST_USE int sl_dynamo_url_read(struct sl_str text, struct sl_arena *arena,
                                   struct sl_dynamo_url *ret,
                                   struct sl_diag *diag);

struct sl_dynamo_options {
    struct sl_dynamo_url where; /* its texts outlive the store, as those of */
    struct sl_aws_env env;      /* this one do */
    sl_ns deadline;             /* 0: 20 ms; a take's own may be sooner */
    bool own_now;               /* test builds: take->now is the time */
    unsigned in_flight_most;    /* of a loop; 0: 1024 */
    unsigned denials_most;      /* remembered, of a loop; 0: 1024 */
    bool no_denials;            /* ask DynamoDB each time */
    unsigned leases_most;       /* keys of a loop; 0: 4096 */
    bool no_leases;             /* whatever policies say */
    const struct sl_alloc *alloc;
    /* On the loop's thread; the sentence has no secrets and no full stop. The
     * same trouble is told again after ten seconds. Nothing of this store may
     * be called in there. */
    sl_store_event_f *on_news;
    void *ctx;
};

SL_MUST_USE int sl_dynamo_open(const struct sl_dynamo_options *options,
                               struct sl_store **ret, struct sl_diag *diag);

/* A seat for `loop`: before it runs, or on its thread. */
SL_MUST_USE int sl_dynamo_attach(struct sl_store *store, struct sl_loop *loop,
                                 struct sl_diag *diag);

/* Whatever is on its way fails. On the loop's thread, or when it has stopped;
 * not from within a take's done(). */
void sl_dynamo_detach(struct sl_store *store, struct sl_loop *loop);

/* What its loop has leased goes back, and nothing more is leased there. On the
 * loop's thread; `now` is used with own_now. */
void sl_dynamo_drain(struct sl_store *store, struct sl_loop *loop, sl_ns now);

/* Has every loop that is attached seen the secret? From any thread. */
bool sl_dynamo_is_ready(const struct sl_store *store);

/* What all seats have counted, those that are gone included. */
struct sl_dynamo_stats {
    uint64_t asked;      /* requests sent to DynamoDB */
    uint64_t taken;      /* takes answered in time */
    uint64_t late;       /* deadlines that passed */
    uint64_t failed;     /* refused, lost or not sent */
    uint64_t returned;   /* late, had succeeded, and were given back */
    uint64_t uncertain;  /* nobody can tell */
    uint64_t remembered; /* refused without asking */
    uint64_t unmet;      /* somebody came between; most were tried again */
    uint64_t throttled;  /* replies that say so */
    uint64_t spanning;   /* sets of several rows without transactions: failed */
    uint64_t leased;     /* takes decided by a lease, without asking */
    uint64_t lease_tokens; /* taken in advance */
    uint64_t lease_under;  /* of those, not spent and lost */
    unsigned under_way;    /* takes, and what is given back without one */
    unsigned up, ready, seats;
    bool open;   /* the breaker, of any seat */
    sl_ns ahead; /* of the server's clock, against ours; SL_NS_NONE */
};
void sl_dynamo_stats(const struct sl_store *store, struct sl_dynamo_stats *ret);

#endif
