/* retry.h -- when a webhook is sent again, and when its endpoint is disabled.
 *
 * A message has six attempts: the first, and one after each of the delays 5 s,
 * 30 s, 2 min, 10 min and 1 h, with a jitter of 20 % so that messages that
 * failed together do not return together.
 *
 *   answer                    the message            the endpoint
 *   2xx                       delivered              failures = 0
 *   410                       waits                  disabled
 *   429, 502, 504, time-out   next delay, or dead    slowed down
 *   any other                 next delay, or dead
 *
 * Redirects are failures: only the URL of the endpoint is called. Failures are
 * counted by attempts; 20 in a row disable the endpoint. Its messages wait, and
 * are sent when it is enabled again.
 *
 * Invariants. (test/unit/webhook/retry.c checks each by number.)
 *   (1) Without Retry-After the delay differs from the schedule by 20 % at
 *       most.
 *   (2) With Retry-After it is in [delay, 2 * delay], and Retry-After itself if
 *       that is in the range.
 *   (3) The sixth failure is the last.
 *   (4) An endpoint is disabled by the 20th failure in a row or by 410, and by
 *       nothing else.
 *   (5) Only 429, 502, 504 and time-outs slow an endpoint down: for no longer
 *       than the delay of the message, or a minute after the last attempt; for
 *       more than a minute only if Retry-After says so, and for an hour at
 *       most.
 */
#ifndef SL_WEBHOOK_RETRY_H
#define SL_WEBHOOK_RETRY_H

#include "base/str.h"

#define SL_WEBHOOK_ATTEMPTS 6
#define SL_WEBHOOK_FAILURES 20 /* in a row */

/* What came of one attempt. */
struct sl_attempt {
    int status;        /* of HTTP; 0: there was no answer */
    bool timed_out;    /* no complete answer in time */
    sl_ns retry_after; /* as the answer says, from now; SL_NS_NONE: nothing */
    unsigned before;   /* attempts of this message before it */
    unsigned failures; /* of the endpoint in a row before it */
    uint64_t random;   /* for the jitter */
};

enum sl_attempt_result {
    SL_ATTEMPT_DELIVERED,
    SL_ATTEMPT_RETRY,
    SL_ATTEMPT_DEAD,
};

struct sl_retry {
    enum sl_attempt_result result;
    sl_ns retry_in;      /* RETRY */
    sl_ns slow;          /* the endpoint gets nothing for so long; 0: it does */
    unsigned failures;   /* in a row, with this one */
    const char *disable; /* why the endpoint is disabled; NULL: it is not */
};

void sl_retry_judge(const struct sl_attempt *attempt, struct sl_retry *ret);

/* The delay before an attempt, without jitter: 0 for the first. */
sl_ns sl_retry_delay(unsigned before);

/* Reads Retry-After: seconds, or a date (RFC 9110). SL_NS_NONE if it is
 * neither. */
sl_ns sl_retry_after_read(struct sl_str text, sl_ns now);

/* "success", "redirect", "slow", "timeout", "gone", "error" or "unreachable":
 * the label of the metric. */
const char *sl_attempt_class(const struct sl_attempt *attempt);

#endif
