/* fuzz_size.c -- numbers, counts and sizes.
 *
 *   (1) The whole text is read, or it is refused with a sentence and the
 *       output is untouched.
 *   (2) Every number is a count of the same value, and its digits are what it
 *       is written with.
 *   (3) A size in bytes is read as the number in it.
 *   (4) A NULL diag changes nothing.
 */
#include "fuzz.h"

#include <inttypes.h>

typedef int parse_f(struct sl_str text, uint64_t *ret, struct sl_diag *diag);

/* Read `text`; true if it was accepted. */
static bool reads(parse_f *parse, struct sl_str text, uint64_t *ret)
{
    struct sl_diag diag = {.line = 0};
    uint64_t n = 777, quiet = 777;
    int err = parse(text, &n, &diag);

    must_agree(err, &diag, text.len);
    MUST(!err || n == 777);                 /* (1) */
    MUST(parse(text, &quiet, NULL) == err); /* (4) */
    MUST(quiet == n);
    *ret = n;
    return err == 0;
}

void fuzz_size(struct sl_str text)
{
    uint64_t number, count, bytes, again;
    char written[32];

    if (reads(sl_parse_number, text, &number)) {
        int n = snprintf(written, sizeof(written), "%" PRIu64, number);

        MUST((size_t)n == text.len &&
             memcmp(written, text.at, text.len) == 0); /* (2) */
        MUST(reads(sl_parse_count, text, &count));
        MUST(count == number);
    }
    (void)reads(sl_parse_count, text, &count);
    if (reads(sl_parse_size, text, &bytes)) {
        snprintf(written, sizeof(written), "%" PRIu64 "B", bytes);
        MUST(reads(sl_parse_size, sl_str_c(written), &again));
        MUST(again == bytes); /* (3) */
    }
}
