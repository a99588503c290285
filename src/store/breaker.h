/* breaker.h -- when to stop asking a store that does not answer.
 *
 *     CLOSED --FAILURES in a row, or half of many--> OPEN
 *        ^                                            |
 *        +-------- one that tried has succeeded ------+
 *
 * While it is open nobody is made to wait: takes fail at once, but for one now
 * and then that tries. The next one is not let through before that has ended,
 * and the time between them is jittered, so that many daemons do not try at
 * one instant.
 *
 * Pure: time is handed in.
 */
#ifndef SL_BREAKER_H
#define SL_BREAKER_H

#include "base/base.h"
#include "store/dice.h"

struct sl_breaker {
    struct sl_jitter dice;
    bool is_open;
    bool tries;      /* one is on its way */
    sl_ns try_at;    /* OPEN: when the next one may */
    unsigned in_row; /* failures */
    sl_ns began;     /* of the second that is counted */
    unsigned good, bad;
};

/* May one be asked now? If it is one that tries, *ret_tries says so, and its
 * end must be noted. */
bool sl_breaker_may(struct sl_breaker *breaker, sl_ns now, bool *ret_tries);

/* How one has ended. True if that has opened or closed it. */
bool sl_breaker_note(struct sl_breaker *breaker, bool good, bool tried,
                     sl_ns now);

/* It ended without having been asked. */
void sl_breaker_forget(struct sl_breaker *breaker, bool tried);

/* Until the next one may try; 0 when it is closed. */
sl_ns sl_breaker_tries_in(const struct sl_breaker *breaker, sl_ns now);

#endif
