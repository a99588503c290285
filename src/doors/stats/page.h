/* page.h -- a page of metrics, a piece at a time.
 *
 * The first failure stays and everything after it is left out, so that whoever
 * prints asks once, at the end.
 */
#ifndef SL_PAGE_H
#define SL_PAGE_H

#include "doors/stats/inside.h"

struct sl_page {
    struct sl_buf *out;
    bool open_metrics;
    int err;
};

void sl_page_add(struct sl_page *page, const char *text);

/* Up to 255 bytes. */
void sl_page_addf(struct sl_page *page, const char *fmt, ...) SL_PRINTF(2, 3);

/* `{name="value"` for the first label (before is '{'), `,name="value"` for
 * others. The value is escaped. */
void sl_page_label(struct sl_page *page, char before, const char *name,
                   struct sl_str value);

/* A blank, the number and the end of the line. */
void sl_page_number(struct sl_page *page, uint64_t number);

/* The same for nanoseconds as seconds, exactly. */
void sl_page_seconds(struct sl_page *page, uint64_t ns);

/* What is known of the keys of tokens, if there are any, and how much work is
 * waiting. now.c */
enum { SL_JWKS_KEYS, SL_JWKS_AGE, SL_JWKS_ENDS, SL_BACKLOG_DEPTHS };
void sl_page_asked(struct sl_page *page, const char *name, unsigned which,
                   const struct sl_stats_now *now);

/* Of a store that is shared: a number, SL_SHARED_CLOCK, or several with a
 * label. now.c */
enum {
    SL_SHARED_CLOCK = SL_SHARED_NUMBERS,
    SL_SHARED_TAKES,
    SL_SHARED_REDIRECTS,
};
void sl_page_shared(struct sl_page *page, const char *name, unsigned which,
                    const struct sl_stats_shared *shared);

/* What became of holds, and of what was asked upstream. held.c */
enum { SL_PAGE_HOLDS, SL_PAGE_UPSTREAM, SL_PAGE_TURNS, SL_PAGE_WAITS };
void sl_page_held(struct sl_page *page, const char *name, unsigned which,
                  struct sl_stats *const *all, unsigned count);

/* All lines of a histogram with one label: `values` are each bucket's own
 * count, +Inf's behind the `count` bounds, and then the sum in ns. */
void sl_page_histogram(struct sl_page *page, const char *name,
                       const char *label, struct sl_str value,
                       const uint64_t *values, const struct sl_bound *bounds,
                       unsigned count);

#endif
