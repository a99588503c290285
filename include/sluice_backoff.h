/* sluice_backoff.h -- how a client of a limited service comes back.
 *
 * The other half of a limit: who is refused with 429 or 503 waits before he
 * asks again, as long as the server says, else twice as long each time, and
 * never in step with the others.
 *
 *     struct sluice_backoff backoff = {0};
 *
 *     for (;;) {
 *         struct sluice_refusal refusal = call_the_server();
 *         int64_t wait_ns;
 *
 *         if (!sluice_backoff_retries(refusal.status))
 *             break;
 *         if (sluice_backoff_next(&backoff, &refusal, now_ns(), random_bits(),
 *                                 &wait_ns))
 *             errx(1, "%s", sluice_why());
 *         sleep_ns(wait_ns);
 *     }
 *
 * The rules
 * - Only 429 and 503 are asked again, and a call is made at most 6 times.
 * - Retry-After counts, as seconds or as a date (all three forms of HTTP);
 *   without it X-RateLimit-Reset: below 1,000,000,000 it is seconds from now,
 *   up to 99,999,999,999 it is seconds since 1970. To what the server says a
 *   random part of the n-th wait below is added, so that those who were refused
 *   together do not return together.
 * - Without either, or if it is no such number or date, or lies behind now: the
 *   n-th wait is 500 ms, 1 s, 2 s, 4 s, ... and a random part of the same
 * again; 30 s at most, the random part included.
 * - A server that asks for more than 15 minutes is given up at once, and the
 *   sentence says what it asked for: nobody waits a day for a call.
 *
 * Ownership  Everything is yours and is borrowed for the length of the call.
 * Threads    One struct sluice_backoff serves one call at a time.
 * Time       Nothing here sleeps, reads a clock or makes up a number: time and
 *            chance are arguments. Nanoseconds; instants since 1970.
 * Errors     As in sluice.h: a failed call changes nothing.
 *
 * A call that changes something is asked again with the same Idempotency-Key
 * each time, or it may happen twice.
 */
#ifndef SLUICE_BACKOFF_H
#define SLUICE_BACKOFF_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call with all its attempts. Begin with zeros, which are good defaults. */
struct sluice_backoff {
    unsigned attempts;  /* at most; 0 is 6 */
    unsigned refused;   /* of them so far; counted here */
    int64_t base_ns;    /* the first wait; 0 is 500 ms */
    int64_t cap_ns;     /* no wait of our own is longer; 0 is 30 s */
    int64_t longest_ns; /* no server is waited for longer; 0 is 15 minutes */
};

/* What the server answered. */
struct sluice_refusal {
    int status;
    const char *retry_after; /* the value of Retry-After, or NULL */
    const char *reset;       /* the value of X-RateLimit-Reset, or NULL */
};

/* Is a call that was answered with this status to be made again? 1 for 429 and
 * 503, else 0. */
int sluice_backoff_retries(int status);

/* How long to wait before the next attempt. `random` is any 64 bits of chance.
 * Fails with SLUICE_EFULL if there is to be no other attempt, and with
 * SLUICE_EINVAL if the status is not one that is asked again. */
int sluice_backoff_next(struct sluice_backoff *backoff,
                        const struct sluice_refusal *refusal, int64_t now_ns,
                        uint64_t random, int64_t *ret_wait_ns);

#ifdef __cplusplus
}
#endif

#endif
