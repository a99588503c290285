/* page.h -- a page of metrics, a piece at a time.
 *
 * The first failure stays and everything after it is left out, so that whoever
 * prints asks once, at the end.
 */
#ifndef SL_METRICS_WRITE_H
#define SL_METRICS_WRITE_H

#include "server/metrics_int.h"

struct sl_metrics_write {
    struct sl_buf *out;
    bool open_metrics;
    int err;
};

void sl_metrics_write_add(struct sl_metrics_write *page, const char *text);

/* Up to 255 bytes. */
void sl_metrics_write_addf(struct sl_metrics_write *page, const char *fmt, ...)
    SL_PRINTF(2, 3);

/* `{name="value"` for the first label (before is '{'), `,name="value"` for
 * others. The value is escaped. */
void sl_metrics_write_label(struct sl_metrics_write *page, char before,
                            const char *name, struct sl_str value);

/* A blank, the number and the end of the line. */
void sl_metrics_write_number(struct sl_metrics_write *page, uint64_t number);

/* The same for nanoseconds as seconds, exactly. */
void sl_metrics_write_seconds(struct sl_metrics_write *page, uint64_t ns);

/* What is known of the keys of tokens, if there are any, and how much work is
 * waiting. now.c */
enum { SL_JWKS_KEYS, SL_JWKS_AGE, SL_JWKS_ENDS, SL_BACKLOG_DEPTHS };
void sl_metrics_write_asked(struct sl_metrics_write *page, const char *name,
                            unsigned which, const struct sl_metrics_now *now);

/* Of a store that is shared: a number, SL_STORE_NUM_CLOCK, or several with a
 * label. now.c */
enum {
    SL_STORE_NUM_CLOCK = SL_STORE_NUM_NUMBERS,
    SL_STORE_NUM_TAKES,
    SL_STORE_NUM_REDIRECTS,
};
void sl_metrics_write_shared(struct sl_metrics_write *page, const char *name,
                             unsigned which,
                             const struct sl_metrics_shared *shared);

/* What became of holds, and of what was asked upstream. held.c */
enum {
    SL_METRICS_WRITE_HOLDS,
    SL_METRICS_WRITE_UPSTREAM,
    SL_METRICS_WRITE_TURNS,
    SL_METRICS_WRITE_WAITS
};
void sl_metrics_write_held(struct sl_metrics_write *page, const char *name,
                           unsigned which, struct sl_metrics *const *all,
                           unsigned count);

/* All lines of a histogram with one label: `values` are each bucket's own
 * count, +Inf's behind the `count` bounds, and then the sum in ns. */
void sl_metrics_write_histogram(struct sl_metrics_write *page, const char *name,
                                const char *label, struct sl_str value,
                                const uint64_t *values,
                                const struct sl_bound *bounds, unsigned count);

#endif
