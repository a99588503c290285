/* breaker.c -- the circuit breaker of a remote store: the states in remote.h.
 *
 * The deadline of a take is in remote.c; engine/outage.c decides what is
 * answered when a take has failed.
 */
#include "store/remote.h"

#define IN_ROW 5
#define MANY   20 /* in a second: fewer are too few to judge by share */
#define EVERY  (300 * SL_MS) /* between two probes */

bool sl_breaker_allows(struct sl_breaker *breaker, sl_ns now, bool *ret_probe)
{
    *ret_probe = false;
    if (!breaker->is_open)
        return true;
    if (breaker->probing || now < breaker->probe_at)
        return false;
    breaker->probing = *ret_probe = true;
    return true;
}

/* Counts within one second, then starts again. */
static void count(struct sl_breaker *breaker, bool good, sl_ns now)
{
    if (now - breaker->began >= SL_S) {
        breaker->began = now;
        breaker->good = breaker->bad = 0;
    }
    breaker->good += good;
    breaker->bad += !good;
    breaker->in_row = good ? 0 : breaker->in_row + 1;
}

static bool is_too_bad(const struct sl_breaker *breaker)
{
    return breaker->in_row >= IN_ROW || (breaker->good + breaker->bad >= MANY &&
                                         breaker->bad >= breaker->good);
}

bool sl_breaker_record(struct sl_breaker *breaker, bool good, bool probe,
                       sl_ns now)
{
    bool was_open = breaker->is_open;

    if (was_open && !probe)
        return false; /* sent before it opened; only the probe counts */
    count(breaker, good, now);
    if (was_open && good) {
        *breaker = (struct sl_breaker){.jitter = breaker->jitter, .began = now};
    } else if (was_open || (!good && is_too_bad(breaker))) {
        breaker->is_open = true;
        breaker->probing = false;
        breaker->probe_at = now + sl_jitter_span(&breaker->jitter, EVERY);
    }
    return was_open != breaker->is_open;
}

void sl_breaker_cancel(struct sl_breaker *breaker, bool probe)
{
    if (probe)
        breaker->probing = false;
}

sl_ns sl_breaker_probe_in(const struct sl_breaker *breaker, sl_ns now)
{
    if (!breaker->is_open || breaker->probe_at <= now)
        return 0;
    return breaker->probe_at - now;
}
