/* fuzz_rate.c -- rates.
 *
 *   (1) The whole text is read, or it is refused with a sentence and the
 *       output is untouched.
 *   (2) What is read makes sense: a period is never 0, a burst or a queue is
 *       there or is 0, and a form has only its own fields.
 *   (3) Written again in its shortest form, it is read as the same.
 *   (4) A NULL diag changes nothing.
 */
#include "fuzz.h"

#include <inttypes.h>

static void must_make_sense(const struct sl_rate *rate)
{
    MUST(rate->form <= SL_RATE_NONE);
    MUST(rate->has_burst || rate->burst == 0);
    MUST(rate->has_queue || rate->queue == 0);
    MUST(!(rate->has_burst && rate->has_queue));
    if (rate->form == SL_RATE_PER) {
        MUST(rate->every > 0);
        MUST(rate->unit <= SL_UNIT_MONTH);
        return;
    }
    MUST(rate->every == 0);
    MUST(!rate->has_burst && !rate->has_queue);
    MUST(rate->form == SL_RATE_PLAIN || rate->count == 0);
}

static void write_rate(const struct sl_rate *rate, char *out, size_t size)
{
    int n = snprintf(out, size, "%" PRIu64, rate->count);

    if (rate->form == SL_RATE_PER)
        n += snprintf(out + n, size - (size_t)n, "/%" PRIu64 "%s", rate->every,
                      sl_unit_name(rate->unit));
    if (rate->has_burst)
        n +=
            snprintf(out + n, size - (size_t)n, " burst %" PRIu64, rate->burst);
    if (rate->has_queue)
        n +=
            snprintf(out + n, size - (size_t)n, " queue %" PRIu64, rate->queue);
    if (rate->form == SL_RATE_UNLIMITED)
        n = snprintf(out, size, "unlimited");
    if (rate->form == SL_RATE_NONE)
        n = snprintf(out, size, "none");
    MUST(n > 0 && (size_t)n < size);
}

static bool same(const struct sl_rate *a, const struct sl_rate *b)
{
    return a->form == b->form && a->count == b->count && a->every == b->every &&
           a->unit == b->unit && a->has_burst == b->has_burst &&
           a->has_queue == b->has_queue && a->burst == b->burst &&
           a->queue == b->queue;
}

void fuzz_rate(struct sl_str text)
{
    struct sl_diag diag = {.line = 0};
    struct sl_rate rate = {.count = 77, .every = 78, .burst = 79};
    struct sl_rate untouched = rate, again = rate;
    char shortest[128];
    int err = sl_parse_rate(text, &rate, &diag);

    must_agree(err, &diag, text.len);
    MUST(sl_parse_rate(text, &again, NULL) == err); /* (4) */
    MUST(same(&again, &rate));
    if (err) {
        MUST(same(&rate, &untouched)); /* (1) */
        return;
    }
    must_make_sense(&rate); /* (2) */
    write_rate(&rate, shortest, sizeof(shortest));
    again = untouched;
    MUST(sl_parse_rate(sl_str_c(shortest), &again, NULL) == 0);
    MUST(same(&again, &rate)); /* (3) */
}
