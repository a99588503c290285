/* reply.h -- what DynamoDB answers: what became of a request, and the rows that
 * it tells of.
 *
 * Pure: texts are handed in. What a stranger may have put into the table is
 * passed over, or said to be strange; it never counts as a number of ours.
 */
#ifndef SL_REPLY_H
#define SL_REPLY_H

#include "store/dynamo/row.h"

/* The first few prove that nothing has happened. */
enum sl_dynamo_status {
    SL_DYNAMO_ANSWERED, /* as asked */
    SL_UNMET,          /* a condition was not met, or somebody else was there */
    SL_THROTTLED,      /* too much is asked of the table */
    SL_SKEWED,         /* our clock is too far from theirs */
    SL_FORBIDDEN,      /* the keys are not good, or not for this */
    SL_NO_TABLE,       /* or it is being made */
    SL_NO_TRANSACTION, /* the endpoint does not know that operation */
    SL_REFUSED,        /* our request is not understood */
    SL_UNSENT,         /* it was never sent */
    SL_UNSURE,         /* nobody knows whether it has happened */
};

#define SL_REPLY_WHY 200

/* Words like "ThrottlingException" for logs, and what it means; "" if there is
 * none. */
const char *sl_dynamo_status_sentence(enum sl_dynamo_status answered);

/* Read a reply: `status` of HTTP and its body. Fills in those of `rows` that
 * it tells of (there, cell), and marks the others as not there. `now` is what
 * windows are seen at. *ret_told if the reply says what the rows are: then they
 * need not be read. `why` has the server's own words. */
enum sl_dynamo_status sl_dynamo_reply_read(int status, struct sl_str body,
                                           struct sl_row *rows, unsigned count,
                                           sl_ns now, bool *ret_told,
                                           char why[SL_REPLY_WHY]);

/* One text attribute of an item that is asked for by GetItem: into `out`, cut
 * if it is longer. False if there is no such item, or none of that name. */
struct sl_dynamo_text {
    const char *name;
    char *out;
    size_t size;
    bool there;
};

/* GetItem's item: its text attributes. *ret_there says if there is an item. */
enum sl_dynamo_status sl_dynamo_texts(int status, struct sl_str body,
                                      struct sl_dynamo_text *texts,
                                      unsigned count, bool *ret_there,
                                      char why[SL_REPLY_WHY]);

#endif
