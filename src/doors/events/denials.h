/* denials.h -- refusals of one thread, gathered until they are told.
 *
 * A flood of refusals must not become a flood of events. So a thread keeps one
 * row for each key of a limit that was refused, and counts; what finds no row
 * is counted as `others`. Some times a second whoever tells takes all rows of
 * all threads away, and publishes each as one event. While nobody listens
 * nothing is gathered.
 */
#ifndef SL_DENIALS_H
#define SL_DENIALS_H

#include "engine/decision.h"
#include "server/events.h"

#define SL_DENIALS     32 /* rows of one thread */
#define SL_DENIAL_TEXT 80 /* bytes of a name that are kept */

struct sl_denial {
    uint64_t print; /* a fingerprint of limit and key */
    uint64_t count;
    int status;
    sl_ns retry_in; /* of the last one; SL_NS_NONE */
    char limit[SL_DENIAL_TEXT], scope[SL_DENIAL_TEXT];
    char key[SL_DENIAL_TEXT], endpoint[SL_DENIAL_TEXT];
    char request_id[SL_DENIAL_TEXT]; /* of the first one; all end in NUL */
};

struct sl_denial_batch; /* of one thread */

/* `events` is borrowed. NULL `alloc` is libc's. */
SL_MUST_USE int sl_denial_batch_open(const struct sl_alloc *alloc,
                                     const struct sl_events *events,
                                     struct sl_denial_batch **ret);
void sl_denial_batch_close(
    struct sl_denial_batch *denials); /* NULL is allowed */

/* A decision was made. The owner's thread only; it never fails. */
void sl_denial_batch_decision(struct sl_denial_batch *denials,
                              const struct sl_decision *d);

/* Take all rows, and how many refusals had none. Returns how many rows there
 * are. Any thread. */
unsigned sl_denial_batch_take(struct sl_denial_batch *denials,
                              struct sl_denial rows[SL_DENIALS],
                              uint64_t *others);

/* Append the members of an event to `out`. SLUICE_ENOMEM, SLUICE_EFULL. */
SL_MUST_USE int sl_denial_write(const struct sl_denial *denial,
                                struct sl_buf *out);

#endif
