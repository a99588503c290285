/* news.c -- what there is to say about a store elsewhere. */
#include "store/news.h"

#define TELL_AGAIN (10 * SL_S) /* of the same trouble */

void sl_herald_tell(const struct sl_herald *herald, enum sl_store_news news,
                    const char *sentence)
{
    if (herald->on_news && !herald->closing)
        herald->on_news(herald->ctx, news, sentence);
}

bool sl_herald_may(struct sl_herald *herald, int trouble, sl_ns now)
{
    if (herald->told_at > 0 && herald->told == trouble &&
        now - herald->told_at < TELL_AGAIN)
        return false;
    herald->told = trouble;
    herald->told_at = now;
    return true;
}

void sl_herald_note(const struct sl_herald *herald, struct sl_breaker *breaker,
                    bool good, bool *tries, sl_ns now, _Atomic bool *is_open)
{
    bool changed = sl_breaker_note(breaker, good, *tries, now);

    *tries = false;
    if (!changed)
        return;
    atomic_store(is_open, breaker->is_open);
    if (breaker->is_open)
        sl_herald_tell(herald, SL_NEWS_OPENED,
                       "too many takes fail; the circuit breaker is open, "
                       "takes fail at once except for occasional probes");
    else
        sl_herald_tell(herald, SL_NEWS_CLOSED, "the store answers again");
}
