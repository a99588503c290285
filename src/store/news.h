/* news.h -- what there is to say about a store elsewhere, for a log: each thing
 * once, and the same trouble not too often. Of one seat. */
#ifndef SL_STORE_NEWS_H
#define SL_STORE_NEWS_H

#include <stdatomic.h>

#include "store/breaker.h"

enum sl_store_news {
    SL_STORE_EVENT_UP,      /* it is there */
    SL_STORE_EVENT_DOWN,    /* it is not, and why */
    SL_STORE_EVENT_OPENED,  /* the breaker: nobody waits for it any more */
    SL_STORE_EVENT_CLOSED,  /* it answers again */
    SL_STORE_EVENT_TROUBLE, /* it answers with an error, and what that means */
    SL_STORE_EVENT_CHANGED, /* its marker */
};

/* The sentence has no secrets and no full stop. */
typedef void sl_store_event_f(void *ctx, enum sl_store_news news,
                              const char *sentence);

struct sl_store_log {
    sl_store_event_f *on_news; /* or NULL */
    void *ctx;
    bool closing;  /* nothing is told any more */
    int told;      /* which trouble, last... */
    sl_ns told_at; /* ...and when: steady; 0: none yet */
};

void sl_store_log_tell(const struct sl_store_log *herald,
                       enum sl_store_news news, const char *sentence);

/* Is that trouble to be told now? The same one is after ten seconds. */
SL_MUST_USE bool sl_store_log_may(struct sl_store_log *herald, int trouble,
                                  sl_ns now);

/* How a take has ended: tell the breaker, and of it. *tries is its take's. */
void sl_store_log_note(const struct sl_store_log *herald,
                       struct sl_breaker *breaker, bool good, bool *tries,
                       sl_ns now, _Atomic bool *is_open);

#endif
