/* refusal.h -- rows of texts that must be read or refused, to the letter. */
#ifndef SL_TEST_REFUSAL_H
#define SL_TEST_REFUSAL_H

#include "base/parse.h"
#include "check.h"

/* What a refusal must look like. */
struct refusal {
    const char *why, *text;
    size_t at;
    const char *sentence, *hint;
};

/* Parsers of other things are wrapped, so that one check serves them all. */
typedef int parse_f(struct sl_str text, uint64_t *ret, struct sl_diag *diag);

static inline void check_accepted(parse_f *parse, const char *text,
                                  uint64_t want)
{
    struct sl_diag diag = {.line = 0};
    uint64_t got = 12345;

    CHECK_EQ(parse(sl_str_c(text), &got, &diag), 0);
    CHECK_STR(diag.sentence, "");
    CHECK(got == want);
    CHECK_EQ(parse(sl_str_c(text), &got, NULL), 0);
}

static inline void check_refused(parse_f *parse, const struct refusal *rows,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sl_str text = sl_str_c(rows[i].text);
        struct sl_diag diag = {.line = 0};
        uint64_t got = 12345;

        CASE(rows[i].why);
        CHECK_EQ(parse(text, &got, &diag), SLUICE_ECONF);
        CHECK_EQ(parse(text, &got, NULL), SLUICE_ECONF);
        CHECK(got == 12345);
        CHECK_STR(diag.sentence, rows[i].sentence);
        CHECK_EQ(diag.at, rows[i].at);
        CHECK_STR(diag.hint, rows[i].hint);
        if (diag.hint[0]) /* it is worth nothing if it is refused in turn */
            CHECK_EQ(parse(sl_str_c(diag.hint), &got, NULL), 0);
    }
}

#endif
