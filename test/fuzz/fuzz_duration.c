/* fuzz_duration.c -- durations, read and written.
 *
 *   (1) The whole text is read, or it is refused with a sentence and the
 *       output is untouched.
 *   (2) What is read is never negative.
 *   (3) What sl_format_duration() makes of it is read back as the same.
 *   (4) A NULL diag changes nothing.
 *   (5) Any eight bytes taken as a span survive (3) as well.
 */
#include "fuzz.h"

static void must_return(sl_ns span)
{
    char text[32];
    sl_ns again = -7;

    MUST(sl_format_duration(span, text) == text);
    MUST(strlen(text) < sizeof(text));
    MUST(sl_parse_duration(sl_str_c(text), &again, NULL) == 0);
    MUST(again == span); /* (3) */
}

void fuzz_duration(struct sl_str text)
{
    struct sl_diag diag = {.line = 0};
    sl_ns span = -7, quiet = -7;
    int err = sl_parse_duration(text, &span, &diag);

    must_agree(err, &diag, text.len);
    MUST(err ? span == -7 : span >= 0);                 /* (1) (2) */
    MUST(sl_parse_duration(text, &quiet, NULL) == err); /* (4) */
    MUST(quiet == span);
    if (!err)
        must_return(span);
    if (text.len >= sizeof(span)) { /* (5) */
        memcpy(&span, text.at, sizeof(span));
        must_return(span < 0 ? ~span : span);
    }
}
