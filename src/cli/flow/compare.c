/* compare.c -- what an act was answered, against what was expected.
 *
 * The numbers of an answer are those of the limit that refused, or, when it
 * was allowed, of the limit that the headers show. Where an answer has no such
 * number, it is "none".
 */
#include "cli/flow/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

struct answer {
    const struct sluice_decision *decision;
    const struct sl_flow_counts *tally;
    struct sluice_shown shown; /* of the limit that counts */
    bool has_numbers;
    struct sl_arena *arena;
};

/* Which limit's numbers count: an index, or -1. */
static int which(const struct sluice_decision *decision)
{
    const char *by = sluice_decision_by(decision);
    size_t count = sluice_decision_limits(decision);

    for (size_t i = 0; by[0] && i < count; i++)
        if (strcmp(sluice_decision_limit(decision, i).name, by) == 0)
            return (int)i;
    return sluice_decision_report(decision);
}

static const char *copy(struct sl_arena *arena, const char *text)
{
    return sl_arena_copy(arena, sl_str_c(text));
}

static const char *number_text(const struct answer *a, uint64_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    return copy(a->arena, text);
}

static const char *span_text(const struct answer *a, int64_t span)
{
    char text[32];

    return copy(a->arena, sl_format_duration(span, text));
}

/* Numbers and spans: is it as expected, and how is it written? */
static bool number_is(const struct answer *a, const struct sl_expect *e,
                      bool there, uint64_t number, const char **ret_got)
{
    *ret_got = there ? number_text(a, number) : "none";
    return e->none ? !there : there && number == e->number;
}

static bool span_is(const struct answer *a, const struct sl_expect *e,
                    bool there, int64_t span, const char **ret_got)
{
    there = there && span >= 0;
    *ret_got = there ? span_text(a, span) : "none";
    return e->none ? !there : there && span == e->span;
}

static bool outcome_is(const struct answer *a, const struct sl_expect *e,
                       const char **ret_got)
{
    bool allowed = sluice_decision_allowed(a->decision);
    bool never = sluice_decision_never(a->decision);

    *ret_got = allowed ? "allow" : never ? "never" : "deny";
    if (strcmp(e->want, "never") == 0)
        return never && !allowed;
    /* What never passes is denied too. */
    return allowed == (strcmp(e->want, "deny") != 0);
}

static const char *header_value(const struct sluice_decision *decision,
                                const char *name)
{
    const char *type = sluice_decision_content_type(decision);
    size_t count = sluice_decision_headers(decision);

    for (size_t i = 0; i < count; i++) {
        struct sluice_header h = sluice_decision_header(decision, i);

        if (sl_str_eq_nocase(sl_str_c(h.name), sl_str_c(name)))
            return h.value;
    }
    /* It belongs to the body and goes out with the headers. */
    if (sl_str_eq_nocase(sl_str_c(name), SL_STR("Content-Type")) && type[0])
        return type;
    return NULL;
}

static bool text_is(const struct answer *a, const struct sl_expect *e,
                    const char *text, const char **ret_got)
{
    if (!text) {
        *ret_got = "none";
        return strcmp(e->want, "none") == 0;
    }
    *ret_got = copy(a->arena, text);
    return strcmp(e->want, text) == 0;
}

static bool body_is(const struct answer *a, const struct sl_expect *e,
                    const char **ret_got)
{
    const char *body = sluice_decision_body(a->decision);
    int err = 0;
    const char *field = sl_flow_body_field(body, e->name, a->arena, &err);

    if (err) {
        *ret_got = NULL;
        return false;
    }
    return text_is(a, e, field, ret_got);
}

/* Is one field as expected? *ret_got is what it is; NULL without memory. */
static bool is_right(const struct answer *a, const struct sl_expect *e,
                     const char **ret_got)
{
    const struct sluice_decision *d = a->decision;
    const char *by = sluice_decision_by(d);
    uint64_t quota = sluice_decision_quota(d);

    switch (e->field) {
    case SL_FIELD_OUTCOME:
        return outcome_is(a, e, ret_got);
    case SL_FIELD_STATUS:
        return number_is(a, e, true, (uint64_t)sluice_decision_status(d),
                         ret_got);
    case SL_FIELD_BY:
        return text_is(a, e, by[0] ? by : NULL, ret_got);
    case SL_FIELD_LIMIT:
        return number_is(a, e, a->has_numbers, a->shown.limit, ret_got);
    case SL_FIELD_REMAINING:
        return number_is(a, e, a->has_numbers, a->shown.remaining, ret_got);
    case SL_FIELD_RETRY:
        return span_is(a, e, true, sluice_decision_retry_in_ns(d), ret_got);
    case SL_FIELD_RESET:
        return span_is(a, e, a->has_numbers, a->shown.reset_in_ns, ret_got);
    case SL_FIELD_WAIT:
        return span_is(a, e, a->has_numbers, a->shown.wait_ns, ret_got);
    case SL_FIELD_QUOTA:
        return number_is(a, e, quota != UINT64_MAX, quota, ret_got);
    case SL_FIELD_ALLOWED:
        return number_is(a, e, true, a->tally->allowed, ret_got);
    case SL_FIELD_DENIED:
        return number_is(a, e, true, a->tally->denied, ret_got);
    case SL_FIELD_HEADER:
        return text_is(a, e, header_value(d, e->name), ret_got);
    case SL_FIELD_BODY:
        return body_is(a, e, ret_got);
    }
    return false;
}

int sl_compare(const struct sl_flow_act *act,
               const struct sl_flow_counts *tally,
               const struct sluice_decision *decision, struct sl_arena *arena,
               struct sl_flow_mismatch **ret)
{
    struct answer a = {.decision = decision, .tally = tally, .arena = arena};
    int index = which(decision);

    if (index >= 0) {
        a.shown = sluice_decision_limit(decision, (size_t)index);
        a.has_numbers = a.shown.limited;
    }
    for (size_t i = 0; i < act->expect_count; i++) {
        const struct sl_expect *e = &act->expects[i];
        struct sl_flow_mismatch *miss;
        const char *got = "";

        if (is_right(&a, e, &got))
            continue;
        miss = sl_arena_take(arena, sizeof(*miss));
        if (!miss || !got)
            return SLUICE_ENOMEM;
        *miss = (struct sl_flow_mismatch){
            .label = e->label, .want = e->want, .got = got};
        *ret = miss;
        ret = &miss->next;
    }
    return 0;
}
