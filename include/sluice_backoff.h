/* sluice_backoff.h -- when a client of a limited service retries.
 *
 * A client that gets 429 or 503 waits before it retries: as long as the server
 * says, else twice as long each time, plus a random part.
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
 * - Only 429 and 503 are retried, and a call is made at most 6 times.
 * - Retry-After is used, as seconds or as a date (all three forms of HTTP).
 * Without it X-RateLimit-Reset: below 1,000,000,000 it is seconds from now, up
 * to 99,999,999,999 it is seconds since 1970. A random part of the n-th wait
 * below is added, so that clients denied together do not return together.
 * - Without either, or if it is invalid or in the past, the n-th wait is 500
 * ms, 1 s, 2 s, 4 s, ... and a random part of the same length; at most 30 s in
 * all.
 * - If the server asks for more than 15 minutes, the call fails at once. The
 *   sentence has the time.
 *
 * Ownership  All arguments are borrowed for the length of the call.
 * Threads    One struct sluice_backoff serves one call at a time.
 * Time       Nothing here sleeps, reads a clock or makes random numbers: they
 * are arguments. Nanoseconds; instants since 1970. Errors     As in sluice.h: a
 * failed call changes nothing.
 *
 * Retry a call that changes something with the same Idempotency-Key each time,
 * or it may happen twice.
 */
#ifndef SLUICE_BACKOFF_H
#define SLUICE_BACKOFF_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call with all its attempts. Begin with zeros, which are defaults. */
struct sluice_backoff {
    unsigned attempts;  /* at most; 0 is 6 */
    unsigned refused;   /* attempts denied so far */
    int64_t base_ns;    /* the first wait; 0 is 500 ms */
    int64_t cap_ns;     /* the longest wait without the server; 0 is 30 s */
    int64_t longest_ns; /* the longest wait for the server; 0 is 15 minutes */
};

/* The server's answer. */
struct sluice_refusal {
    int status;
    const char *retry_after; /* the value of Retry-After, or NULL */
    const char *reset;       /* the value of X-RateLimit-Reset, or NULL */
};

/* 1 for 429 and 503, which are retried; else 0. */
int sluice_backoff_retries(int status);

/* The time to wait before the next attempt. `random` is any random number.
 * SLUICE_EFULL: do not retry again. SLUICE_EINVAL: the status is not retried.
 */
int sluice_backoff_next(struct sluice_backoff *backoff,
                        const struct sluice_refusal *refusal, int64_t now_ns,
                        uint64_t random, int64_t *ret_wait_ns);

#ifdef __cplusplus
}
#endif

#endif
