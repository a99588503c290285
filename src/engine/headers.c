/* dialects.c -- the same numbers as different clients want to read them.
 *
 *     x-ratelimit  X-RateLimit-Limit: 5, -Remaining, -Reset (epoch seconds)
 *     ietf         RateLimit-Policy: "ai-minute";q=5;w=60;sluice-burst=8
 *                  RateLimit: "ai-minute";r=7;t=12     (draft 11)
 *     ietf-06      RateLimit-Limit, -Remaining, -Reset (seconds from now),
 *                  RateLimit-Policy: 5;w=60
 *     github       x-ratelimit-limit, -remaining, -used, -reset, -resource
 *     openai       x-ratelimit-limit-requests, -remaining-, -reset- (6m0s),
 *                  and the same for tokens
 *     kong         X-RateLimit-Limit-Minute, -Remaining-Minute,
 *                  RateLimit-Limit, -Remaining, -Reset (seconds from now)
 *
 * Where two dialects share a name they agree on its value, so the first one
 * speaks for both; RateLimit-Policy is ietf's where both want it.
 */
#include "engine/render/head.h"

#include "base/arith.h"

/* One limit, ready to be told in any dialect. */
struct telling {
    const struct sl_decision *decision;
    const struct sl_limit_view *shown;
    sl_ns reset_in; /* SL_NS_NONE for permits and levels */
};

static struct telling tell(const struct sl_decision *d,
                           const struct sl_limit_view *shown)
{
    return (struct telling){d, shown, sl_limit_view_reset_in(d, shown)};
}

static uint64_t reset_epoch(const struct telling *t)
{
    return sl_span_in(sl_ns_add_sat(t->decision->now, t->reset_in), SL_S);
}

/* ---- x-ratelimit ---- */

static void x_ratelimit(struct sl_header_writer *head, const struct telling *t)
{
    sl_headers_number(head, SL_STR("X-RateLimit-Limit"),
                      sl_limit_view_count(t->shown));
    sl_headers_number(head, SL_STR("X-RateLimit-Remaining"),
                      t->shown->answer.remaining);
    if (t->reset_in >= 0)
        sl_headers_number(head, SL_STR("X-RateLimit-Reset"), reset_epoch(t));
}

/* ---- ietf, and ietf-06 ---- */

/* The parameters of the draft: the only place that names them, for the next
 * draft may rename them. */
#define QUOTA            SL_STR(";q=")
#define QUOTA_UNIT       SL_STR(";qu=")
#define WINDOW           SL_STR(";w=") /* seconds */
#define REMAINING        SL_STR(";r=")
#define EFFECTIVE_WINDOW SL_STR(";t=")            /* seconds */
#define BURST            SL_STR(";sluice-burst=") /* ours */

static inline void add_parameter(struct sl_header_writer *head,
                                 struct sl_str name, uint64_t number)
{
    sl_headers_bytes(head, name);
    sl_headers_digits(head, number);
}

/* The window in seconds; 0 if it has none or none of a fixed length. */
static uint64_t window(const struct sl_limit *limit)
{
    if (!limit->calendar)
        return sl_span_in(limit->period, SL_S);
    switch (limit->cal.unit) {
    case SL_CALENDAR_DAY:
        return limit->cal.every * (uint64_t)(SL_DAY / SL_S);
    case SL_CALENDAR_WEEK:
        return limit->cal.every * (uint64_t)(SL_WEEK / SL_S);
    case SL_CALENDAR_MONTH:
        break;
    }
    return 0;
}

static void add_policy(struct sl_header_writer *head,
                       const struct sl_limit_view *shown)
{
    uint64_t w = window(shown->numbers);

    sl_headers_string(head, shown->rule->name);
    add_parameter(head, QUOTA, sl_limit_view_count(shown));
    if (w > 0)
        add_parameter(head, WINDOW, w);
    if (shown->numbers->kind == SL_PERMITS) {
        sl_headers_bytes(head, QUOTA_UNIT);
        sl_headers_bytes(head, SL_STR("\"concurrent-requests\""));
    }
    if (sl_limit_view_capacity(shown) != sl_limit_view_count(shown))
        add_parameter(head, BURST, sl_limit_view_capacity(shown));
}

/* Is it told of in RateLimit-Policy? Those that count are, unless they have
 * dialects of their own without it; and the one that RateLimit speaks of. */
static bool is_listed(const struct sl_decision *d, unsigned i)
{
    const struct sl_limit_view *shown = &d->shown[i];
    int own = shown->rule->dialects;

    if (!sl_limit_view_limited(shown))
        return false;
    if ((int)i == d->report)
        return true;
    return shown->mode == SL_MODE_ENFORCE && (own < 0 || own & SL_DIALECT_IETF);
}

static void add_policies(struct sl_header_writer *head,
                         const struct sl_decision *d)
{
    bool first = true;

    if (!sl_headers_begin(head, SL_STR("RateLimit-Policy")))
        return;
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (!is_listed(d, i))
            continue;
        if (!first)
            sl_headers_bytes(head, SL_STR(", "));
        add_policy(head, &d->shown[i]);
        first = false;
    }
    sl_headers_end(head);
}

static void ietf(struct sl_header_writer *head, const struct telling *t)
{
    const struct sl_answer *a = &t->shown->answer;
    sl_ns in = a->reset_in;

    add_policies(head, t->decision);
    if (!sl_headers_begin(head, SL_STR("RateLimit")))
        return;
    /* Retry-After must not be earlier than the end of `t`. */
    if (!t->shown->allowed && a->retry_in >= 0)
        in = a->retry_in;
    sl_headers_string(head, t->shown->rule->name);
    add_parameter(head, REMAINING, a->remaining);
    if (in >= 0)
        add_parameter(head, EFFECTIVE_WINDOW, sl_span_in(in, SL_S));
    sl_headers_end(head);
}

/* What ietf-06 and kong share. */
static void add_triple(struct sl_header_writer *head, const struct telling *t)
{
    sl_headers_number(head, SL_STR("RateLimit-Limit"),
                      sl_limit_view_count(t->shown));
    sl_headers_number(head, SL_STR("RateLimit-Remaining"),
                      t->shown->answer.remaining);
    if (t->reset_in >= 0)
        sl_headers_number(head, SL_STR("RateLimit-Reset"),
                          sl_span_in(t->reset_in, SL_S));
}

static void ietf_06(struct sl_header_writer *head, const struct telling *t)
{
    uint64_t w = window(t->shown->numbers);

    add_triple(head, t);
    if (!sl_headers_begin(head, SL_STR("RateLimit-Policy")))
        return;
    sl_headers_digits(head, sl_limit_view_count(t->shown));
    if (w > 0)
        add_parameter(head, WINDOW, w);
    sl_headers_end(head);
}

/* ---- github ---- */

static void github(struct sl_header_writer *head, const struct telling *t)
{
    uint64_t remaining = t->shown->answer.remaining;

    sl_headers_number(head, SL_STR("x-ratelimit-limit"),
                      sl_limit_view_count(t->shown));
    sl_headers_number(head, SL_STR("x-ratelimit-remaining"), remaining);
    sl_headers_number(
        head, SL_STR("x-ratelimit-used"),
        sl_sub_floor(sl_limit_view_capacity(t->shown), remaining));
    if (t->reset_in >= 0)
        sl_headers_number(head, SL_STR("x-ratelimit-reset"), reset_epoch(t));
    if (!sl_headers_begin(head, SL_STR("x-ratelimit-resource")))
        return;
    sl_headers_clean(head, t->shown->rule->name);
    sl_headers_end(head);
}

/* ---- openai ---- */

static bool is_tokens(const struct sl_limit_view *shown)
{
    struct sl_str unit = shown->rule->unit;

    for (size_t i = 0; i + 5 <= unit.len; i++)
        if (sl_str_eq_nocase((struct sl_str){unit.at + i, 5}, SL_STR("token")))
            return true;
    return false;
}

/* The one of a kind that is told of: the reported one, else the first. */
static const struct sl_limit_view *find_kind(const struct sl_decision *d,
                                             bool tokens)
{
    if (is_tokens(&d->shown[d->report]) == tokens)
        return &d->shown[d->report];
    for (unsigned i = 0; i < d->shown_count; i++)
        if (sl_limit_view_answered(&d->shown[i]) &&
            d->shown[i].mode == SL_MODE_ENFORCE &&
            is_tokens(&d->shown[i]) == tokens)
            return &d->shown[i];
    return NULL;
}

/* Seconds below a minute: "6s", "8.64s"; `ms` < 60,000. */
static void add_seconds(struct sl_header_writer *head, uint64_t ms)
{
    char fraction[4] = ".";
    size_t len = 4;

    sl_headers_digits(head, ms / 1000);
    sl_digits_padded(ms % 1000, 3, fraction + 1);
    while (len > 1 && fraction[len - 1] == '0')
        len--;
    if (len > 1)
        sl_headers_bytes(head, (struct sl_str){fraction, len});
    sl_headers_bytes(head, SL_STR("s"));
}

/* As Go prints durations, exact to the millisecond: 12ms, 6s, 6m0s, 1h0m0s. */
static void add_go_span(struct sl_header_writer *head, sl_ns span)
{
    uint64_t ms = sl_span_in(span, SL_MS), minutes = ms / 60000;

    if (ms > 0 && ms < 1000) {
        sl_headers_digits(head, ms);
        sl_headers_bytes(head, SL_STR("ms"));
        return;
    }
    if (minutes >= 60) {
        sl_headers_digits(head, minutes / 60);
        sl_headers_bytes(head, SL_STR("h"));
    }
    if (minutes > 0) {
        sl_headers_digits(head, minutes % 60);
        sl_headers_bytes(head, SL_STR("m"));
    }
    add_seconds(head, ms % 60000);
}

static void openai_kind(struct sl_header_writer *head,
                        const struct sl_decision *d, bool tokens)
{
    const struct sl_limit_view *shown = find_kind(d, tokens);
    struct telling t;

    if (!shown)
        return;
    t = tell(d, shown);
    sl_headers_number(head,
                      tokens ? SL_STR("x-ratelimit-limit-tokens")
                             : SL_STR("x-ratelimit-limit-requests"),
                      sl_limit_view_count(shown));
    sl_headers_number(head,
                      tokens ? SL_STR("x-ratelimit-remaining-tokens")
                             : SL_STR("x-ratelimit-remaining-requests"),
                      shown->answer.remaining);
    if (t.reset_in < 0 ||
        !sl_headers_begin(head, tokens ? SL_STR("x-ratelimit-reset-tokens")
                                       : SL_STR("x-ratelimit-reset-requests")))
        return;
    add_go_span(head, t.reset_in);
    sl_headers_end(head);
}

static void openai(struct sl_header_writer *head, const struct telling *t)
{
    openai_kind(head, t->decision, false);
    openai_kind(head, t->decision, true);
}

/* ---- kong ---- */

/* Kong has a name for these periods and for no others. */
static int kong_period(const struct sl_limit *limit)
{
    static const sl_ns lengths[] = {SL_S, SL_MIN, SL_HOUR, SL_DAY};

    if (limit->calendar && limit->cal.every == 1) {
        if (limit->cal.unit == SL_CALENDAR_DAY)
            return 3;
        return limit->cal.unit == SL_CALENDAR_MONTH ? 4 : -1;
    }
    for (int i = 0; i < (int)SL_LEN(lengths); i++)
        if (!limit->calendar && limit->period == lengths[i])
            return i;
    return -1;
}

static void kong(struct sl_header_writer *head, const struct telling *t)
{
    static const char *const limits[] = {
        "X-RateLimit-Limit-Second", "X-RateLimit-Limit-Minute",
        "X-RateLimit-Limit-Hour", "X-RateLimit-Limit-Day",
        "X-RateLimit-Limit-Month"};
    static const char *const remainings[] = {
        "X-RateLimit-Remaining-Second", "X-RateLimit-Remaining-Minute",
        "X-RateLimit-Remaining-Hour", "X-RateLimit-Remaining-Day",
        "X-RateLimit-Remaining-Month"};
    int period = kong_period(t->shown->numbers);

    if (period >= 0) {
        sl_headers_number(head, sl_str_c(limits[period]),
                          sl_limit_view_count(t->shown));
        sl_headers_number(head, sl_str_c(remainings[period]),
                          t->shown->answer.remaining);
    }
    add_triple(head, t);
}

/* ---- all of them ---- */

static const struct {
    int bit;
    unsigned fields; /* at most */
    void (*write)(struct sl_header_writer *head, const struct telling *t);
} dialects[] = {
    {SL_DIALECT_X_RATELIMIT, 3, x_ratelimit},
    {SL_DIALECT_IETF,        2, ietf       },
    {SL_DIALECT_IETF_06,     4, ietf_06    },
    {SL_DIALECT_GITHUB,      5, github     },
    {SL_DIALECT_OPENAI,      6, openai     },
    {SL_DIALECT_KONG,        5, kong       },
};

/* Those of the reported limit, else of the route; none if there are no numbers.
 */
static int wanted(const struct sl_decision *d)
{
    const struct sl_limit_view *shown;

    if (d->report < 0 || !sl_limit_view_answered(&d->shown[d->report]))
        return 0;
    shown = &d->shown[d->report];
    return shown->rule->dialects >= 0 ? shown->rule->dialects
                                      : d->route->dialects;
}

unsigned sl_dialect_fields(const struct sl_decision *decision)
{
    int bits = wanted(decision);
    unsigned fields = 0;

    for (size_t i = 0; i < SL_LEN(dialects); i++)
        if (bits & dialects[i].bit)
            fields += dialects[i].fields;
    return fields;
}

void sl_headers_dialects(struct sl_header_writer *head,
                         const struct sl_decision *d)
{
    int bits = wanted(d);
    struct telling t;

    if (bits == 0)
        return;
    t = tell(d, &d->shown[d->report]);
    for (size_t i = 0; i < SL_LEN(dialects); i++)
        if (bits & dialects[i].bit)
            dialects[i].write(head, &t);
}
