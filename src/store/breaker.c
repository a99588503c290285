/* breaker.c -- when to stop asking a store that does not answer. */
#include "store/breaker.h"

#define IN_ROW 5
#define MANY   20 /* in a second: fewer are no share */
#define EVERY  (300 * SL_MS)

bool sl_breaker_may(struct sl_breaker *breaker, sl_ns now, bool *ret_tries)
{
    *ret_tries = false;
    if (!breaker->is_open)
        return true;
    if (breaker->tries || now < breaker->try_at)
        return false;
    breaker->tries = *ret_tries = true;
    return true;
}

/* A second, then a new one. */
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

bool sl_breaker_note(struct sl_breaker *breaker, bool good, bool tried,
                     sl_ns now)
{
    bool was_open = breaker->is_open;

    if (was_open && !tried)
        return false; /* it was asked before; see what the one says that is */
    count(breaker, good, now);
    if (was_open && good) {
        *breaker = (struct sl_breaker){.dice = breaker->dice, .began = now};
    } else if (was_open || (!good && is_too_bad(breaker))) {
        breaker->is_open = true;
        breaker->tries = false;
        breaker->try_at = now + sl_jitter_span(&breaker->dice, EVERY);
    }
    return was_open != breaker->is_open;
}

void sl_breaker_forget(struct sl_breaker *breaker, bool tried)
{
    if (tried)
        breaker->tries = false;
}

sl_ns sl_breaker_tries_in(const struct sl_breaker *breaker, sl_ns now)
{
    if (!breaker->is_open || breaker->try_at <= now)
        return 0;
    return breaker->try_at - now;
}
