/* events.h -- what has happened, for those who listen.
 *
 * Refusals, other policies, switches, resets, phases without the store: each
 * is an event with a number, a type and one line of JSON. The last SL_EVENTS
 * are kept, in a ring of fixed size, so that a listener who was cut off goes
 * on where he was. Whoever reads too slowly is overtaken by the ring, and told
 * how many he has lost; nobody ever waits for him.
 *
 * Refusals are counted by each thread for itself while somebody listens, and
 * told in bundles: see events/denials.h. Everything else is rare, and is
 * published by whoever does it, from any thread.
 *
 * Names of callers are in events, and events are for operators only: they go
 * to the admin listener and nowhere else. No event has a token or a secret.
 *
 * Invariants. (test/unit/doors/events.c checks them.)
 *   (1) Numbers rise by one and are never used twice; those of another start
 *       of the daemon are told from ours.
 *   (2) A reader sees each event once, in order, or is told that it is lost.
 *   (3) What is published is JSON on one line, whatever its texts were.
 */
#ifndef SL_SERVER_EVENTS_H
#define SL_SERVER_EVENTS_H

#include "base/buf.h"
#include "engine/decision.h"

#define SL_EVENTS      512
#define SL_EVENT_BYTES 960 /* of JSON */
#define SL_EVENT_ID    48  /* of the text of a number, with its NUL */

struct sl_events; /* opaque */

struct sl_event {
    uint64_t number;
    const char *type; /* "denial", "policy", ...: for ever */
    uint16_t len;
    char data[SL_EVENT_BYTES];
};

/* `now` tells this start of the daemon from others. NULL `alloc` is libc's. */
SL_MUST_USE int sl_events_open(const struct sl_alloc *alloc, sl_ns now,
                               struct sl_events **ret);
void sl_events_close(struct sl_events *events); /* NULL is allowed */

/* Something has happened at `now`: {"at":"...",MEMBERS}. `members` is JSON
 * without its braces; if it is too long, `"cut":true` stands in its place.
 * `type` is borrowed for ever. NULL `events` is allowed: then nobody is told.
 * Any thread. */
void sl_events_publish(struct sl_events *events, const char *type, sl_ns now,
                       struct sl_str members);

/* Behind the last one: where a reader begins who wants what comes. */
uint64_t sl_events_end(struct sl_events *events);

/* Copy the event at *number, or the first one behind it that is still there;
 * *number is then the one behind. `lost` gets how many were skipped. False if
 * there is none yet. */
SL_MUST_USE bool sl_events_next(struct sl_events *events, uint64_t *number,
                                struct sl_event *ret, uint64_t *lost);

/* The text of a number, and back: the number behind it. A text of another
 * start of the daemon is the beginning of all that there is. False if it is no
 * such text. */
void sl_events_print(const struct sl_events *events, uint64_t number,
                     char out[SL_EVENT_ID]);
SL_MUST_USE bool sl_events_parse(const struct sl_events *events,
                                 struct sl_str text, uint64_t *ret);

/* Is it worth counting refusals? Any thread. */
void sl_events_want(struct sl_events *events, bool wanted);
bool sl_events_wanted(const struct sl_events *events);

/* ---- refusals of one thread, gathered until they are told.
 *
 * A flood of refusals must not become a flood of events. So a thread keeps one
 * row for each key of a limit that was refused, and counts; what finds no row
 * is counted as `others`. Some times a second whoever tells takes all rows of
 * all threads away, and publishes each as one event. While nobody listens
 * nothing is gathered.
 */

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
