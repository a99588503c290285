/* where.h -- where a table of DynamoDB is: dynamodb://eu-west-1/jobseek-users
 *
 *   dynamodb://REGION[/TABLE][?endpoint=URL][&profile=SORT]
 *
 * Without a table it is "jobseek-users". `endpoint` is http://HOST:PORT or
 * https://HOST, where another than AWS's own is meant; `profile` is the sort
 * key of the items that say who has which plan: "PROFILE".
 */
#ifndef SL_DYNAMO_WHERE_H
#define SL_DYNAMO_WHERE_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"

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

#endif
