/* backoff.c -- how long a denied client waits; see include/sluice_backoff.h.
 *
 * A wait has a fixed part and a random part after it.
 *
 *     |<------ the server's wait ------->|<--- up to step --->|
 *     |<------ or step ------>|<---- up to step ---->|
 *
 * step = base * 2^(denials so far), and half the cap at most, so that
 *
 *   (1) a wait without one from the server lies in [step, 2 step] and never
 *       exceeds the cap, and the random part keeps its width;
 *   (2) a wait from the server is never shortened;
 *   (3) every random part is equally likely, to one in 2^64.
 */
#include "base/arith.h"
#include "base/timestamp.h"
#include "lib/gate.h"
#include "sluice_backoff.h"

#define ATTEMPTS 6
#define BASE     (500 * SL_MS)
#define CAP      (30 * SL_S)
#define LONGEST  (15 * SL_MIN)

/* The border between seconds from now and seconds since 1970: 31 years, or
 * September 2001. From the second number on it would be milliseconds. */
#define EPOCH_BEGINS UINT64_C(1000000000)
#define EPOCH_ENDS   UINT64_C(100000000000)

/* No wait: the server sent no valid one. */
#define NO_WAIT ((sl_ns)-1)

int sluice_backoff_retries(int status)
{
    return status == 429 || status == 503;
}

/* Whole seconds; a fraction, which some servers send, is rounded up. Numbers
 * beyond 64 bits are UINT64_MAX. */
static bool read_seconds(struct sl_str text, uint64_t *ret)
{
    uint64_t n = 0;
    size_t i = 0;

    for (; i < text.len && text.at[i] >= '0' && text.at[i] <= '9'; i++)
        n = sl_add_sat(sl_mul_sat(n, 10), (uint64_t)(text.at[i] - '0'));
    if (i == 0)
        return false;
    if (i < text.len && text.at[i] == '.') {
        bool more = false;

        for (i++; i < text.len && text.at[i] >= '0' && text.at[i] <= '9'; i++)
            more |= text.at[i] != '0';
        n = sl_add_sat(n, more);
    }
    *ret = n;
    return i == text.len;
}

static sl_ns span_of(uint64_t seconds)
{
    return seconds <= SL_NS_MAX / SL_S ? (sl_ns)seconds * SL_S : SL_NS_MAX;
}

static sl_ns until(sl_ns at, sl_ns now)
{
    return at > now ? at - now : 0;
}

static sl_ns wait_by_retry_after(struct sl_str text, sl_ns now)
{
    uint64_t seconds;
    sl_ns at;

    if (read_seconds(text, &seconds))
        return span_of(seconds);
    return sl_httpdate_read(text, now, &at) ? until(at, now) : NO_WAIT;
}

static sl_ns wait_by_reset(struct sl_str text, sl_ns now)
{
    uint64_t seconds;

    if (!read_seconds(text, &seconds) || seconds >= EPOCH_ENDS)
        return NO_WAIT;
    if (seconds < EPOCH_BEGINS)
        return span_of(seconds);
    return until(span_of(seconds), now);
}

static sl_ns server_wait(const struct sluice_refusal *refusal, sl_ns now)
{
    sl_ns span =
        wait_by_retry_after(sl_str_trim(sl_str_c(refusal->retry_after)), now);

    if (span == NO_WAIT)
        span = wait_by_reset(sl_str_trim(sl_str_c(refusal->reset)), now);
    return span;
}

static sl_ns or_default(sl_ns value, sl_ns preset)
{
    return value ? value : preset;
}

static sl_ns step_of(const struct sluice_backoff *b)
{
    sl_ns step = or_default(b->base_ns, BASE),
          most = or_default(b->cap_ns, CAP) / 2;

    for (unsigned i = 0; i < b->refused && step < most; i++)
        step = sl_ns_add_sat(step, step);
    return step < most ? step : most; /* (1) */
}

/* A random number in [0, span]. (3) */
static sl_ns part_of(sl_ns span, uint64_t random)
{
    return (sl_ns)(((sl_u128)random * ((uint64_t)span + 1)) >> 64);
}

static int check(const struct sluice_backoff *b,
                 const struct sluice_refusal *refusal, int64_t now,
                 const int64_t *ret)
{
    if (!b || !refusal || !ret)
        return sl_diag_error(sluice_private_diag(), SLUICE_EINVAL, "%s is NULL",
                             !b         ? "backoff"
                             : !refusal ? "refusal"
                                        : "result");
    if (now < 0 || b->base_ns < 0 || b->cap_ns < 0 || b->longest_ns < 0)
        return sl_diag_error(sluice_private_diag(), SLUICE_EINVAL,
                             "a time in the backoff is negative");
    if (!sluice_backoff_retries(refusal->status))
        return sl_diag_error(
            sluice_private_diag(), SLUICE_EINVAL,
            "the server answered %d; only 429 and 503 are retried",
            refusal->status);
    return 0;
}

int sluice_backoff_next(struct sluice_backoff *b,
                        const struct sluice_refusal *refusal, int64_t now_ns,
                        uint64_t random, int64_t *ret_wait_ns)
{
    int err = check(b, refusal, now_ns, ret_wait_ns);
    sl_ns wait, step, longest;
    unsigned attempts;

    if (err)
        return err;
    attempts = b->attempts ? b->attempts : ATTEMPTS;
    if (b->refused >= attempts - 1)
        return sl_diag_error(
            sluice_private_diag(), SLUICE_EFULL,
            "the server answered %d to the last of %u attempts",
            refusal->status, attempts);
    wait = server_wait(refusal, now_ns);
    longest = or_default(b->longest_ns, LONGEST);
    if (wait > longest)
        return sl_diag_error(
            sluice_private_diag(), SLUICE_EFULL,
            "the server answered %d and asks to wait %lld s; the "
            "maximum wait is %lld s",
            refusal->status, (long long)(wait / SL_S),
            (long long)(longest / SL_S));
    step = step_of(b);
    if (wait <= 0) /* no wait, or one in the past */
        wait = step;
    *ret_wait_ns = sl_ns_add_sat(wait, part_of(step, random)); /* (2) */
    b->refused++;
    return 0;
}
