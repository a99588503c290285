/* read.h -- policies for tests, from their text. */
#ifndef SL_TEST_READ_H
#define SL_TEST_READ_H

#include "check.h"
#include "policy/policy.h"

/* Variables as NAME, VALUE, ..., NULL. */
static inline const char *env_of(void *ctx, const char *name)
{
    const char *const *pair = ctx;

    for (; pair && pair[0]; pair += 2)
        if (strcmp(pair[0], name) == 0)
            return pair[1];
    return NULL;
}

/* Read `text`; NULL after printing what is wrong with it. */
static inline struct sl_policy *read_with(const char *text,
                                          const char *const *env)
{
    struct sl_policy_options options = {
        .substitute = {.env = env_of, .ctx = (void *)(uintptr_t)env}
    };
    struct sl_policy *policy = NULL;
    struct sl_report report;
    struct sl_buf out;

    sl_report_init(&report, "test.yaml", sl_str_c(text), &sl_alloc_libc);
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    if (!CHECK_EQ(sl_policy_read(&report, &options, &policy), 0) &&
        sl_report_print(&report, &out) == 0)
        printf("# %.*s\n", SL_STR_ARG(sl_buf_str(&out)));
    sl_buf_done(&out);
    sl_report_done(&report);
    return policy;
}

static inline struct sl_policy *read_policy(const char *text)
{
    return read_with(text, NULL);
}

/* Read what must be refused; the first error's sentence goes to `out`. */
static inline void read_bad(const char *text, size_t len, char out[256])
{
    struct sl_policy *policy = NULL;
    struct sl_report report;

    sl_report_init(&report, "test.yaml", (struct sl_str){text, len},
                   &sl_alloc_libc);
    out[0] = '\0';
    CHECK_EQ(sl_policy_read(&report, NULL, &policy), SLUICE_ECONF);
    CHECK(policy == NULL);
    for (unsigned i = report.kept; i-- > 0;)
        if (!report.problems[i].warning)
            memcpy(out, report.problems[i].diag.sentence, 256);
    sl_report_done(&report);
}

static inline bool is(struct sl_str got, const char *want)
{
    if (sl_str_eq(got, sl_str_c(want)))
        return true;
    printf("# got \"%.*s\", want \"%s\"\n", SL_STR_ARG(got), want);
    return false;
}

#endif
