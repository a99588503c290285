/* headers.c -- the same numbers as different clients want to read them.
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
#include "base/arith.h"
#include "base/str.h"
#include "engine/render.h"
#include "identity/identity.h"

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

/* ---- headers, but for the dialects.
 *
 *     X-RateLimit-...            the dialects (dialects.c)
 *     Retry-After                refused, and time will help
 *     X-Org-Quota-Remaining      a quota is among the limits
 *     Idempotency-Replayed       the same was asked before
 *     X-Sluice-Degraded          decided without the store
 *     X-Sluice-Hold              what was taken is held by this name
 *     X-Request-Id
 *     Cache-Control              a refusal is nobody else's answer
 *     WWW-Authenticate           nobody is known, and a token would tell
 *     Access-Control-Expose-...  what scripts in browsers may read: all of it
 */

/* A number and its header's name in the list of those exposed. */
#define FIELD_ROOM ((size_t)56)

/* `"";q=;w=;sluice-burst=;qu="concurrent-requests", ` with three numbers. */
#define POLICY_ROOM ((size_t)120)

/* `Bearer error="invalid_token", error_description=""` and a sentence. */
#define CHALLENGE_ROOM ((size_t)256)

bool sl_headers_has(const struct sl_header_writer *head, struct sl_str name)
{
    for (unsigned i = 0; i < head->count; i++)
        if (sl_str_eq_nocase(head->list[i].name, name))
            return true;
    return false;
}

static void add_text(struct sl_header_writer *head, struct sl_str name,
                     struct sl_str text)
{
    if (!sl_headers_begin(head, name))
        return;
    sl_headers_clean(head, text);
    sl_headers_end(head);
}

static bool is_fit(char c, bool quoted)
{
    return c >= (quoted ? ' ' : '!') && c < 0x7f;
}

static bool is_plain_byte(char c)
{
    return is_fit(c, false) && c != '"' && c != '\\';
}

/* Are eight bytes plain? Of a byte's seven low bits the sum with 1 reaches the
 * top only from 0x7f, with 0x5f from 0x21 on, and with 0x7f from all but 0,
 * which is what a quote or a backslash becomes. */
static bool is_plain_word(uint64_t word)
{
    uint64_t low = word & SL_EACH(0x7f);
    uint64_t plain = (low + SL_EACH(0x5f)) &
                     ((low ^ SL_EACH('"')) + SL_EACH(0x7f)) &
                     ((low ^ SL_EACH('\\')) + SL_EACH(0x7f));

    return ((word | (low + SL_EACH(1)) | ~plain) & SL_TOPS) == 0;
}

/* Does it stand for itself, in quotes or without? Nearly all names do. */
static bool is_plain(struct sl_str text)
{
    size_t i = 0;

    if (text.len >= 8 && !is_plain_word(sl_swar_load(text.at + text.len - 8)))
        return false;
    for (; i + 8 < text.len; i += 8)
        if (!is_plain_word(sl_swar_load(text.at + i)))
            return false;
    if (text.len >= 8) /* the rest was looked at first */
        return true;
    while (i < text.len && is_plain_byte(text.at[i]))
        i++;
    return i == text.len;
}

static void add_byte(struct sl_header_writer *head, char c)
{
    sl_headers_bytes(head, (struct sl_str){&c, 1});
}

static void add_escaped(struct sl_header_writer *head, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";

    add_byte(head, '%');
    add_byte(head, hex[c >> 4]);
    add_byte(head, hex[c & 15]);
}

static void clean(struct sl_header_writer *head, struct sl_str text,
                  bool quoted)
{
    bool fit = true;

    if (is_plain(text)) {
        sl_headers_bytes(head, text);
        return;
    }
    for (size_t i = 0; i < text.len; i++)
        fit &= is_fit(text.at[i], quoted);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (quoted && (c == '"' || c == '\\'))
            add_byte(head, '\\');
        if (is_fit(c, quoted) && (fit || c != '%'))
            add_byte(head, c);
        else
            add_escaped(head, (unsigned char)c);
    }
}

void sl_headers_clean(struct sl_header_writer *head, struct sl_str text)
{
    clean(head, text, false);
}

void sl_headers_string(struct sl_header_writer *head, struct sl_str text)
{
    add_byte(head, '"');
    clean(head, text, true);
    add_byte(head, '"');
}

/* Names joined by commas, and which: one answer of a thread after another has
 * the same. */
struct exposed {
    unsigned count;
    const char *names[SL_HEADERS];
    size_t len;
    char text[1024];
};

static bool is_for(const struct exposed *exposed,
                   const struct sl_header_writer *head)
{
    if (exposed->count != head->count)
        return false;
    for (unsigned i = 0; i < head->count; i++)
        if (exposed->names[i] != head->list[i].name.at)
            return false;
    return true;
}

/* The names of literals live as long as the program, so that a name is told by
 * where it is. Without room the list is not kept. */
static void keep_exposed(struct exposed *exposed,
                         const struct sl_header_writer *head, unsigned count,
                         struct sl_str text)
{
    if (text.len > sizeof(exposed->text))
        return;
    exposed->count = count;
    for (unsigned i = 0; i < count; i++)
        exposed->names[i] = head->list[i].name.at;
    exposed->len = text.len;
    if (text.len > 0)
        memcpy(exposed->text, text.at, text.len);
}

static void join_names(struct sl_header_writer *head, unsigned count)
{
    bool first = true;

    for (unsigned i = 0; i < count; i++) {
        if (sl_str_eq(head->list[i].name, SL_STR("Cache-Control")))
            continue;
        if (!first)
            sl_headers_bytes(head, SL_STR(", "));
        sl_headers_bytes(head, head->list[i].name);
        first = false;
    }
}

/* Browsers hide what is not named here, but for a few of which we send only
 * Cache-Control. */
static void add_exposed(struct sl_header_writer *head)
{
    static _Thread_local struct exposed last;
    unsigned count = head->count;
    bool known = is_for(&last, head);
    const char *start = head->at;

    if (!sl_headers_begin(head, SL_STR("Access-Control-Expose-Headers")))
        return;
    if (known)
        sl_headers_bytes(head, (struct sl_str){last.text, last.len});
    else
        join_names(head, count);
    if (!known && !head->full)
        keep_exposed(&last, head, count,
                     (struct sl_str){start, (size_t)(head->at - start)});
    if (head->at > start)
        sl_headers_end(head);
}

/* Of a name each byte may become three, in three headers. */
size_t sl_headers_room(const struct sl_decision *decision)
{
    size_t fields = 8 + sl_dialect_fields(decision);
    size_t room = fields * FIELD_ROOM + 3 * strlen(decision->request_id);

    if (decision->policy->identity.jwt.written)
        room += FIELD_ROOM + CHALLENGE_ROOM;
    for (unsigned i = 0; i < decision->shown_count; i++)
        room += POLICY_ROOM + 9 * decision->shown[i].rule->name.len;
    return room;
}

static void add_quota(struct sl_header_writer *head,
                      const struct sl_decision *d)
{
    if (d->quota >= 0 && sl_limit_view_answered(&d->shown[d->quota]))
        sl_headers_number(head, SL_STR("X-Org-Quota-Remaining"),
                          d->shown[d->quota].answer.remaining);
}

/* Is it the token itself that is wrong, and not that we can't tell? */
static bool is_invalid(enum sl_token_error fault)
{
    return fault != SL_TOKEN_GOOD && fault != SL_TOKEN_NO_KEYS &&
           fault != SL_TOKEN_HELD_BACK && fault != SL_TOKEN_NO_MEMORY;
}

/* A description has neither quotes nor escapes. */
static void add_description(struct sl_header_writer *head, struct sl_str text)
{
    for (size_t i = 0; i < text.len; i++)
        add_byte(head, text.at[i] == '"' ? '\'' : text.at[i]);
}

/* RFC 6750, 3. */
static void add_challenge(struct sl_header_writer *head,
                          const struct sl_decision *d)
{
    if (d->status != 401 || !d->policy->identity.jwt.written ||
        !sl_headers_begin(head, SL_STR("WWW-Authenticate")))
        return;
    sl_headers_bytes(head, SL_STR("Bearer"));
    if (is_invalid(d->token_fault)) {
        sl_headers_bytes(head, SL_STR(" error=\"invalid_token\", "
                                      "error_description=\""));
        add_description(head,
                        sl_str_c(sl_token_error_sentence(d->token_fault)));
        add_byte(head, '"');
    }
    sl_headers_end(head);
}

void sl_headers_write(struct sl_header_writer *head,
                      const struct sl_decision *d)
{
    sl_ns retry_in = sl_decision_retry_in(d);

    if (d->replayed)
        add_text(head, SL_STR("Idempotency-Replayed"), SL_STR("true"));
    if (d->not_limited)
        return;
    sl_headers_dialects(head, d);
    if (retry_in >= 0)
        sl_headers_number(head, SL_STR("Retry-After"),
                          sl_retry_seconds(retry_in));
    add_quota(head, d);
    if (d->degraded)
        add_text(head, SL_STR("X-Sluice-Degraded"), SL_STR("store"));
    if (d->hold[0])
        add_text(head, SL_STR("X-Sluice-Hold"), sl_str_c(d->hold));
    if (d->request_id[0])
        add_text(head, SL_STR("X-Request-Id"), sl_str_c(d->request_id));
    if (!d->allowed)
        add_text(head, SL_STR("Cache-Control"), SL_STR("no-store"));
    add_challenge(head, d);
    add_exposed(head);
}
