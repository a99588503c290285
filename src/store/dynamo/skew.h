/* skew.h -- how far a server's clock is from ours, by its Date.
 *
 * A Date has whole seconds: one of S says that the server's clock was in
 * [S, S + 1) at some instant between sending and receiving. Each reply narrows
 * the span that the difference may lie in; one that does not fit any more
 * means that a clock was set, and begins anew.
 *
 *     ours      sent |-----------| received
 *     theirs         [S, S + 1)
 *     difference     (S - received, S + 1 - sent)
 *
 * The correction is the least that fits: none at all between clocks that agree
 * to a second. Pure.
 */
#ifndef SL_SKEW_H
#define SL_SKEW_H

#include "base/str.h"

struct sl_skew {
    bool known;
    sl_ns least, most; /* theirs minus ours lies between */
};

/* "Sun, 15 Nov 2026 13:46:24 GMT" as whole seconds; SLUICE_ECONF. */
SL_MUST_USE int sl_date_read(struct sl_str text, sl_ns *ret);

/* A reply said `date`; `sent` and `received` are by our clock. */
void sl_skew_note(struct sl_skew *skew, sl_ns date, sl_ns sent, sl_ns received);

/* What to add to our time. */
sl_ns sl_skew_of(const struct sl_skew *skew);

#endif
