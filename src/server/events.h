/* events.h -- the event log, and batches of denials.
 *
 * Denials, policy changes, feature switches, resets and store outages are
 * events. An event has a number, a type and one line of JSON. The last
 * SL_EVENTS events are kept in a ring, so that a client can continue after a
 * lost connection. A slow reader loses the oldest events and receives their
 * count. Publishing never blocks. Each thread counts its denials while a client
 * listens; they are published in batches. Any thread publishes other events.
 *
 * Events contain names of callers. They are for operators only and go to the
 * admin listener alone. No event contains a token or a secret.
 *
 * Invariants. (test/unit/server/events.c checks them.)
 *   (1) Numbers rise by one and are never used twice. Numbers of another start
 *       of the daemon are recognised.
 *   (2) A reader sees each event once, in order, or receives the count of the
 *       lost events.
 *   (3) An event is JSON on one line, whatever its texts are.
 */
#ifndef SL_SERVER_EVENTS_H
#define SL_SERVER_EVENTS_H

#include "base/buf.h"
#include "engine/decision.h"

#define SL_EVENTS      512
#define SL_EVENT_BYTES 960 /* of JSON */
#define SL_EVENT_ID    48  /* bytes of the text of a number, with its NUL */

struct sl_events; /* opaque */

struct sl_event {
    uint64_t number;
    const char *type; /* "denial", "policy", ...: static */
    uint16_t len;
    char data[SL_EVENT_BYTES];
};

/* `now` identifies this start of the daemon. NULL `alloc` is libc's. */
SL_MUST_USE int sl_events_open(const struct sl_alloc *alloc, sl_ns now,
                               struct sl_events **ret);
void sl_events_close(struct sl_events *events); /* NULL is allowed */

/* Publish {"at":"...",MEMBERS}. `members` is JSON without braces. If it is too
 * long, the event has `"cut":true` instead. `type` is borrowed for ever. With
 * NULL `events` this does nothing. Any thread. */
void sl_events_publish(struct sl_events *events, const char *type, sl_ns now,
                       struct sl_str members);

/* Returns the number of the next event: the start for a new reader. */
uint64_t sl_events_end(struct sl_events *events);

/* Copy the event *number, or the oldest later event that is kept, and set
 * *number to the next one. `lost` is set to the number of skipped events.
 * Returns false if there is no such event yet. */
SL_MUST_USE bool sl_events_next(struct sl_events *events, uint64_t *number,
                                struct sl_event *ret, uint64_t *lost);

/* Print a number as text. Parsing returns the following number, or 0 (all kept
 * events) for a text of another start of the daemon. Returns false if it is not
 * the text of a number. */
void sl_events_print(const struct sl_events *events, uint64_t number,
                     char out[SL_EVENT_ID]);
SL_MUST_USE bool sl_events_parse(const struct sl_events *events,
                                 struct sl_str text, uint64_t *ret);

/* Set and read whether denials are counted: a client listens. Any thread. */
void sl_events_want(struct sl_events *events, bool wanted);
bool sl_events_wanted(const struct sl_events *events);

/* ---- denials of one thread, gathered until they are published ----
 *
 * Many denials must not become many events. A thread keeps one row with a count
 * for each denied key of a limit. Denials without a free row are counted as
 * `others`. The publisher takes the rows of all threads a few times a second
 * and publishes one event for each row. Nothing is gathered while no client
 * listens.
 */

#define SL_DENIALS     32 /* rows of one thread */
#define SL_DENIAL_TEXT 80 /* bytes of a name that are kept */

struct sl_denial {
    uint64_t fingerprint; /* of limit and key */
    uint64_t count;
    int status;
    bool blocked;   /* by the penalty of the limit, as of the last denial */
    sl_ns retry_in; /* of the last denial; or SL_NS_NONE */
    char limit[SL_DENIAL_TEXT], scope[SL_DENIAL_TEXT];
    char key[SL_DENIAL_TEXT], endpoint[SL_DENIAL_TEXT];
    char request_id[SL_DENIAL_TEXT]; /* of the first denial; all end in NUL */
};

struct sl_denial_batch; /* of one thread */

/* `events` is borrowed. NULL `alloc` is libc's. */
SL_MUST_USE int sl_denial_batch_open(const struct sl_alloc *alloc,
                                     const struct sl_events *events,
                                     struct sl_denial_batch **ret);
void sl_denial_batch_close(
    struct sl_denial_batch *denials); /* NULL is allowed */

/* Count a decision if it is a denial. Owner's thread only. Never fails. */
void sl_denial_batch_decision(struct sl_denial_batch *denials,
                              const struct sl_decision *d);

/* Take all rows and the number of denials without a row. Returns the number of
 * rows. Any thread. */
unsigned sl_denial_batch_take(struct sl_denial_batch *denials,
                              struct sl_denial rows[SL_DENIALS],
                              uint64_t *others);

/* Append the members of an event to `out`. SLUICE_ENOMEM, SLUICE_EFULL. */
SL_MUST_USE int sl_denial_write(const struct sl_denial *denial,
                                struct sl_buf *out);

#endif
