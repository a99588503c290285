/* retry.c -- when a webhook is sent again. All times are durations in ns. */
#include "webhook/retry.h"

#include <stdio.h>
#include <time.h>

#include "base/parse.h"

static const sl_ns delays[SL_WEBHOOK_ATTEMPTS] = {
    0, 5 * SL_S, 30 * SL_S, 2 * SL_MIN, 10 * SL_MIN, SL_HOUR};

#define JITTER    5      /* a fifth more or less */
#define SLOW_MOST SL_MIN /* unless the answer says more */
#define AFTER_MAX (2 * SL_HOUR)

sl_ns sl_retry_delay(unsigned before)
{
    return before < SL_WEBHOOK_ATTEMPTS ? delays[before] : SL_NS_NONE;
}

static bool is_success(const struct sl_attempt *a)
{
    return !a->timed_out && a->status >= 200 && a->status < 300;
}

static bool is_slow(const struct sl_attempt *a)
{
    return a->timed_out || a->status == 429 || a->status == 502 ||
           a->status == 504;
}

const char *sl_attempt_class(const struct sl_attempt *a)
{
    if (is_success(a))
        return "success";
    if (a->timed_out)
        return "timeout";
    if (is_slow(a))
        return "slow";
    if (a->status == 410)
        return "gone";
    if (a->status / 100 == 3)
        return "redirect";
    return a->status > 0 ? "error" : "unreachable";
}

/* (1) (2) */
static sl_ns wait_for(const struct sl_attempt *a, sl_ns delay)
{
    sl_ns span = delay / JITTER;

    if (a->retry_after == SL_NS_NONE)
        return delay - span + (sl_ns)(a->random % (uint64_t)(2 * span + 1));
    if (a->retry_after <= delay)
        return delay;
    return a->retry_after < 2 * delay ? a->retry_after : 2 * delay;
}

/* How long the endpoint gets nothing: never longer than the message itself
 * waits. The last attempt has no delay. */
static sl_ns slow_for(const struct sl_attempt *a, const struct sl_retry *retry)
{
    bool again = retry->result == SL_ATTEMPT_RETRY;
    sl_ns most = again ? retry->retry_in : SLOW_MOST, span = SLOW_MOST;

    if (a->retry_after != SL_NS_NONE && a->retry_after > 0)
        span = a->retry_after < SL_HOUR ? a->retry_after : SL_HOUR;
    return span < most ? span : most;
}

void sl_retry_judge(const struct sl_attempt *a, struct sl_retry *ret)
{
    sl_ns delay = sl_retry_delay(a->before + 1);

    *ret = (struct sl_retry){.result = SL_ATTEMPT_DELIVERED};
    if (is_success(a))
        return;
    ret->failures = a->failures + 1;
    if (!a->timed_out && a->status == 410)
        ret->disable = "the endpoint answered 410 Gone";
    else if (ret->failures >= SL_WEBHOOK_FAILURES) /* (4) */
        ret->disable = "20 attempts in a row failed";
    if (delay == SL_NS_NONE) { /* (3) */
        ret->result = SL_ATTEMPT_DEAD;
    } else {
        ret->result = SL_ATTEMPT_RETRY;
        ret->retry_in = wait_for(a, delay);
    }
    if (is_slow(a)) /* (5) */
        ret->slow = slow_for(a, ret);
}

sl_ns sl_retry_after_read(struct sl_str text, sl_ns now)
{
    char copy[40];
    struct tm tm = {0};
    uint64_t seconds;
    const char *end;
    sl_ns at;

    text = sl_str_trim(text);
    if (text.len == 0 || text.len >= sizeof(copy))
        return SL_NS_NONE;
    if (!sl_parse_number(text, &seconds, NULL))
        return seconds < AFTER_MAX / SL_S ? (sl_ns)seconds * SL_S : AFTER_MAX;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    end = strptime(copy, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (!end || *end || tm.tm_year < 70 || tm.tm_year > 200)
        return SL_NS_NONE;
    at = (sl_ns)timegm(&tm) * SL_S;
    if (at <= now)
        return 0;
    return at - now < AFTER_MAX ? at - now : AFTER_MAX;
}
