/* dynamo.h -- the store in a table of DynamoDB, shared by many machines.
 *
 * A fixed window is counted by one conditional UpdateItem. All other kinds are
 * read, judged here by core, and written if no other program has written in
 * between. Several rows are written by one TransactWriteItems. Some endpoints
 * do not have it (then store->in_steps): a set of several rows is a journaled
 * write there. Any daemon completes or undoes the journals of a daemon that
 * died.
 *
 * No write is sent twice unless a reply proves that the first one did nothing.
 * Deadlines, refunds, denials and leases: store/remote.h.
 *
 * Time is ours, corrected by the Date header of the server.
 *
 * The secret of fingerprints is in the table, written by the first daemon.
 * Until a client has read it, all takes of its loop fail. See redis.h.
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
    struct sl_dynamo_url where; /* its texts and those of `env` outlive the
                                 * store */
    struct sl_aws_env env;
    struct sl_remote_options remote;
};

/* Opens a remote store (store/remote.h). It has no holds. */
SL_MUST_USE int sl_dynamo_open(const struct sl_dynamo_options *options,
                               struct sl_store **ret, struct sl_diag *diag);

#endif
