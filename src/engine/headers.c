/* headers.c -- the headers of an answer.
 *
 * A new dialect is a row of `dialects` here, a bit SL_DIALECT_ in
 * policy/policy.h and a word of DIALECTS in policy/schema.def.
 *
 * The numbers of one limit, in the dialects that clients read:
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
 * Dialects that share a name agree on its value, so it is sent once; if ietf
 * and ietf-06 are both wanted, RateLimit-Policy is that of ietf.
 *
 * Then Retry-After, X-Org-Quota-Remaining, Idempotency-Replayed,
 * X-Sluice-Degraded, X-Sluice-Hold, X-Request-Id, Cache-Control,
 * WWW-Authenticate and Access-Control-Expose-Headers, as they apply.
 */
#include "base/arith.h"
#include "base/str.h"
#include "engine/render.h"
#include "identity/identity.h"

/* The largest integer of structured fields (RFC 9651); larger numbers are
 * shown as this. */
#define NUMBER_MAX UINT64_C(999999999999999)

/* The headers of one answer, while they are written. Values follow one another
 * in memory of a sufficient size; otherwise `full` is set and nothing is
 * written past the end. A name is sent once: the first one counts. */
struct writer {
    struct sl_out_header *list;
    unsigned count;
    uint64_t seen; /* bit_of() of each name */
    char *at, *end;
    bool full;
    bool plain; /* the present value, so far; see sl_out_header */
};

static inline void add_bytes(struct writer *head, struct sl_str bytes)
{
    if ((size_t)(head->end - head->at) < bytes.len) {
        head->full = true;
        return;
    }
    head->at = sl_str_put(head->at, bytes);
}

static inline void add_digits(struct writer *head, uint64_t number)
{
    if (head->end - head->at < SL_DIGITS) {
        head->full = true;
        return;
    }
    head->at += sl_digits(number < NUMBER_MAX ? number : NUMBER_MAX, head->at);
}

/* A bit for a name of at least three letters: the same for names that differ
 * only in case, and rarely for others. */
static inline uint64_t bit_of(struct sl_str name)
{
    unsigned letter = (unsigned char)name.at[name.len - 3] | 0x20U;

    return UINT64_C(1) << ((name.len + 5 * letter) & 63);
}

static bool has(const struct writer *head, struct sl_str name)
{
    for (unsigned i = 0; i < head->count; i++)
        if (sl_str_eq_nocase(head->list[i].name, name))
            return true;
    return false;
}

/* Begins a header; false if its name was sent already. `name` is borrowed. */
static inline bool begin(struct writer *head, struct sl_str name)
{
    uint64_t bit = bit_of(name);

    if ((head->seen & bit) && has(head, name))
        return false;
    if (head->count == SL_HEADERS) {
        head->full = true;
        return false;
    }
    head->seen |= bit;
    head->list[head->count].name = name;
    head->list[head->count].value.at = head->at;
    head->plain = true;
    return true;
}

static inline void end(struct writer *head)
{
    struct sl_out_header *header = &head->list[head->count++];

    header->value.len = (size_t)(head->at - header->value.at);
    header->plain = head->plain;
}

static inline void add_number(struct writer *head, struct sl_str name,
                              uint64_t number)
{
    if (!begin(head, name))
        return;
    add_digits(head, number);
    end(head);
}

/* ---- texts ---- */

static bool is_fit(char c, bool quoted)
{
    return c >= (quoted ? ' ' : '!') && c < 0x7f;
}

static bool is_plain_byte(char c)
{
    return is_fit(c, false) && c != '"' && c != '\\';
}

/* Are eight bytes plain? The sum of a byte's seven low bits with 1 reaches the
 * top bit only for 0x7f, with 0x5f for 0x21 and above, and with 0x7f for all
 * but 0, which a quote or a backslash becomes. */
static bool is_plain_word(uint64_t word)
{
    uint64_t low = word & SL_EACH(0x7f);
    uint64_t plain = (low + SL_EACH(0x5f)) &
                     ((low ^ SL_EACH('"')) + SL_EACH(0x7f)) &
                     ((low ^ SL_EACH('\\')) + SL_EACH(0x7f));

    return ((word | (low + SL_EACH(1)) | ~plain) & SL_TOPS) == 0;
}

/* Is the text the same with and without quotes? Nearly all names are. */
static bool is_plain(struct sl_str text)
{
    size_t i = 0;

    if (text.len >= 8 && !is_plain_word(sl_swar_load(text.at + text.len - 8)))
        return false;
    for (; i + 8 < text.len; i += 8)
        if (!is_plain_word(sl_swar_load(text.at + i)))
            return false;
    if (text.len >= 8) /* the last word was checked first */
        return true;
    while (i < text.len && is_plain_byte(text.at[i]))
        i++;
    return i == text.len;
}

static void add_byte(struct writer *head, char c)
{
    add_bytes(head, (struct sl_str){&c, 1});
}

static void add_escaped(struct writer *head, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";

    add_byte(head, '%');
    add_byte(head, hex[c >> 4]);
    add_byte(head, hex[c & 15]);
}

/* Writes a text as it is if all its bytes are visible ASCII. Otherwise each
 * byte that is not, and each '%', becomes %xx. `quoted`: the inside of a String
 * of structured fields; a backslash precedes quotes and backslashes, and blanks
 * stay. */
static void clean(struct writer *head, struct sl_str text, bool quoted)
{
    bool fit = true;

    if (is_plain(text)) {
        add_bytes(head, text);
        return;
    }
    head->plain = false;
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

/* A String of structured fields. */
static void add_quoted(struct writer *head, struct sl_str text)
{
    head->plain = false;
    add_byte(head, '"');
    clean(head, text, true);
    add_byte(head, '"');
}

static void add_text(struct writer *head, struct sl_str name,
                     struct sl_str text)
{
    if (!begin(head, name))
        return;
    clean(head, text, false);
    end(head);
}

/* ---- dialects ---- */

/* One limit to be shown. */
struct source {
    const struct sl_decision *decision;
    const struct sl_limit_view *shown;
    sl_ns reset_in; /* SL_NS_NONE for permits and levels */
};

/* The parameters of the IETF draft. The next draft may rename them. */
#define QUOTA            SL_STR(";q=")
#define QUOTA_UNIT       SL_STR(";qu=")
#define WINDOW           SL_STR(";w=") /* seconds */
#define REMAINING        SL_STR(";r=")
#define EFFECTIVE_WINDOW SL_STR(";t=")            /* seconds */
#define BURST            SL_STR(";sluice-burst=") /* ours */

static inline void add_parameter(struct writer *head, struct sl_str name,
                                 uint64_t number)
{
    add_bytes(head, name);
    add_digits(head, number);
}

/* The window in seconds; 0 if it has no fixed length. */
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

static void add_item(struct writer *head, const struct sl_rule *rule,
                     const struct sl_limit *numbers, uint64_t count,
                     uint64_t capacity)
{
    uint64_t w = window(numbers);

    add_quoted(head, rule->name);
    add_parameter(head, QUOTA, count);
    if (w > 0)
        add_parameter(head, WINDOW, w);
    if (numbers->kind == SL_PERMITS) {
        add_bytes(head, QUOTA_UNIT);
        add_bytes(head, SL_STR("\"concurrent-requests\""));
    }
    if (capacity != count)
        add_parameter(head, BURST, capacity);
}

/* Are the numbers that are shown those of the plan? Overrides, and stores that
 * share a limit, have others. */
static bool are_usual(const struct sl_limit_view *shown)
{
    const struct sl_limit *usual = &shown->rule->plans[shown->plan].numbers;

    return shown->numbers == usual &&
           sl_limit_view_exact_count(shown) == usual->count &&
           sl_limit_view_exact_capacity(shown) == usual->capacity;
}

static void add_policy(struct writer *head, const struct sl_decision *d,
                       const struct sl_limit_view *shown)
{
    const struct sl_limit_texts *texts = sl_limit_texts_of(d, shown);

    head->plain = false;
    if (texts && texts->policy.len > 0 && are_usual(shown))
        add_bytes(head, texts->policy);
    else
        add_item(head, shown->rule, shown->numbers, sl_limit_view_count(shown),
                 sl_limit_view_capacity(shown));
}

/* Is the limit in RateLimit-Policy? The limit that RateLimit shows always is.
 * The other enforced limits are, unless their own dialects exclude it. */
static bool is_listed(const struct sl_decision *d, unsigned i)
{
    const struct sl_limit_view *shown = &d->shown[i];
    int own = shown->rule->dialects;

    if (!sl_limit_view_limited(shown) || shown->pays_for)
        return false;
    if ((int)i == d->report)
        return true;
    return shown->mode == SL_MODE_ENFORCE && (own < 0 || own & SL_DIALECT_IETF);
}

static void add_policies(struct writer *head, const struct sl_decision *d)
{
    bool first = true;

    if (!begin(head, SL_STR("RateLimit-Policy")))
        return;
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (!is_listed(d, i))
            continue;
        if (!first)
            add_bytes(head, SL_STR(", "));
        add_policy(head, d, &d->shown[i]);
        first = false;
    }
    end(head);
}

static void add_ietf(struct writer *head, const struct source *s)
{
    const struct sl_answer *a = &s->shown->answer;
    sl_ns in = a->reset_in;

    add_policies(head, s->decision);
    if (!begin(head, SL_STR("RateLimit")))
        return;
    /* Retry-After must not be earlier than the end of `t`. */
    if (!s->shown->allowed && a->retry_in >= 0)
        in = a->retry_in;
    add_quoted(head, s->shown->rule->name);
    add_parameter(head, REMAINING, sl_limit_view_remaining(s->shown));
    if (in >= 0)
        add_parameter(head, EFFECTIVE_WINDOW, sl_span_in(in, SL_S));
    end(head);
}

static void add_ietf_06_policy(struct writer *head, const struct source *s)
{
    uint64_t w = window(s->shown->numbers);

    if (!begin(head, SL_STR("RateLimit-Policy")))
        return;
    add_digits(head, sl_limit_view_count(s->shown));
    if (w > 0)
        add_parameter(head, WINDOW, w);
    end(head);
}

static void add_github_resource(struct writer *head, const struct source *s)
{
    add_text(head, SL_STR("x-ratelimit-resource"), s->shown->rule->name);
}

/* Kong has names for these periods only; -1: another one. */
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

static void add_kong_window(struct writer *head, const struct source *s)
{
    static const char *const names[][2] = {
        {"X-RateLimit-Limit-Second", "X-RateLimit-Remaining-Second"},
        {"X-RateLimit-Limit-Minute", "X-RateLimit-Remaining-Minute"},
        {"X-RateLimit-Limit-Hour",   "X-RateLimit-Remaining-Hour"  },
        {"X-RateLimit-Limit-Day",    "X-RateLimit-Remaining-Day"   },
        {"X-RateLimit-Limit-Month",  "X-RateLimit-Remaining-Month" },
    };
    int period = kong_period(s->shown->numbers);

    if (period < 0)
        return;
    add_number(head, sl_str_c(names[period][0]), sl_limit_view_count(s->shown));
    add_number(head, sl_str_c(names[period][1]),
               sl_limit_view_remaining(s->shown));
}

static bool is_tokens(const struct sl_limit_view *shown)
{
    struct sl_str unit = shown->rule->unit;

    for (size_t i = 0; i + 5 <= unit.len; i++)
        if (sl_str_eq_nocase((struct sl_str){unit.at + i, 5}, SL_STR("token")))
            return true;
    return false;
}

/* OpenAI shows one limit of requests and one of tokens: the reported limit,
 * else the first. NULL if there is none. */
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
static void add_seconds(struct writer *head, uint64_t ms)
{
    char fraction[4] = ".";
    size_t len = 4;

    add_digits(head, ms / 1000);
    sl_digits_padded(ms % 1000, 3, fraction + 1);
    while (len > 1 && fraction[len - 1] == '0')
        len--;
    if (len > 1)
        add_bytes(head, (struct sl_str){fraction, len});
    add_bytes(head, SL_STR("s"));
}

/* As Go prints durations, exact to the millisecond: 12ms, 6s, 6m0s, 1h0m0s. */
static void add_go_span(struct writer *head, sl_ns span)
{
    uint64_t ms = sl_span_in(span, SL_MS), minutes = ms / 60000;

    if (ms > 0 && ms < 1000) {
        add_digits(head, ms);
        add_bytes(head, SL_STR("ms"));
        return;
    }
    if (minutes >= 60) {
        add_digits(head, minutes / 60);
        add_bytes(head, SL_STR("h"));
    }
    if (minutes > 0) {
        add_digits(head, minutes % 60);
        add_bytes(head, SL_STR("m"));
    }
    add_seconds(head, ms % 60000);
}

/* A dialect is a few numbers under its own names, in this order, and headers
 * before or after them. */
struct dialect {
    int bit;
    unsigned fields; /* at most */
    enum { EPOCH, SECONDS, GO } reset_form;
    enum { REPORTED, REQUESTS, TOKENS } source;
    struct sl_str limit, remaining, used, reset; /* "": not sent */
    void (*before)(struct writer *head, const struct source *s); /* or NULL */
    void (*after)(struct writer *head, const struct source *s);  /* or NULL */
};

/* The names of limit, remaining and reset. */
#define NAMES(limit_, remaining_, reset_)                                      \
    .limit = {limit_, sizeof(limit_) - 1},                                     \
    .remaining = {remaining_, sizeof(remaining_) - 1},                         \
    .reset = {reset_, sizeof(reset_) - 1}

static const struct dialect
    ietf =
        {
            .bit = SL_DIALECT_IETF, .fields = 2, .after = add_ietf
},
    x_ratelimit = {.bit = SL_DIALECT_X_RATELIMIT,
                   .fields = 3,
                   NAMES("X-RateLimit-Limit", "X-RateLimit-Remaining",
                         "X-RateLimit-Reset")},
    ietf_06 = {.bit = SL_DIALECT_IETF_06,
               .fields = 4,
               .reset_form = SECONDS,
               NAMES("RateLimit-Limit", "RateLimit-Remaining",
                     "RateLimit-Reset"),
               .after = add_ietf_06_policy},
    github = {.bit = SL_DIALECT_GITHUB,
              .fields = 5,
              .used = {"x-ratelimit-used", 16},
              NAMES("x-ratelimit-limit", "x-ratelimit-remaining",
                    "x-ratelimit-reset"),
              .after = add_github_resource},
    openai_requests = {.bit = SL_DIALECT_OPENAI,
                       .fields = 3,
                       .reset_form = GO,
                       .source = REQUESTS,
                       NAMES("x-ratelimit-limit-requests",
                             "x-ratelimit-remaining-requests",
                             "x-ratelimit-reset-requests")},
    openai_tokens = {.bit = SL_DIALECT_OPENAI,
                     .fields = 3,
                     .reset_form = GO,
                     .source = TOKENS,
                     NAMES("x-ratelimit-limit-tokens",
                           "x-ratelimit-remaining-tokens",
                           "x-ratelimit-reset-tokens")},
    kong = {.bit = SL_DIALECT_KONG,
            .fields = 5,
            .reset_form = SECONDS,
            NAMES("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
            .before = add_kong_window};

static const struct dialect *const dialects[] = {
    &x_ratelimit,     &ietf,          &ietf_06, &github,
    &openai_requests, &openai_tokens, &kong,
};

static void add_numbers(struct writer *head, const struct dialect *dialect,
                        const struct source *s)
{
    uint64_t remaining = sl_limit_view_remaining(s->shown);
    sl_ns at = sl_ns_add_sat(s->decision->now, s->reset_in);

    add_number(head, dialect->limit, sl_limit_view_count(s->shown));
    add_number(head, dialect->remaining, remaining);
    if (dialect->used.len > 0)
        add_number(head, dialect->used,
                   sl_sub_floor(sl_limit_view_capacity(s->shown), remaining));
    if (s->reset_in < 0 || !begin(head, dialect->reset))
        return;
    if (dialect->reset_form == GO)
        add_go_span(head, s->reset_in);
    else
        add_digits(
            head,
            sl_span_in(dialect->reset_form == EPOCH ? at : s->reset_in, SL_S));
    end(head);
}

/* The dialects of the reported limit, else of the route; 0 if there are no
 * numbers. */
static int wanted(const struct sl_decision *d)
{
    const struct sl_limit_view *shown;

    if (d->report < 0 || !sl_limit_view_answered(&d->shown[d->report]))
        return 0;
    shown = &d->shown[d->report];
    return shown->rule->dialects >= 0 ? shown->rule->dialects
                                      : d->route->dialects;
}

static void add_dialects(struct writer *head, const struct sl_decision *d,
                         int bits)
{
    for (size_t i = 0; i < SL_LEN(dialects); i++) {
        const struct dialect *dialect = dialects[i];
        struct source s = {.decision = d};

        if (!(bits & dialect->bit))
            continue;
        s.shown = dialect->source == REPORTED
                      ? &d->shown[d->report]
                      : find_kind(d, dialect->source == TOKENS);
        if (!s.shown)
            continue;
        s.reset_in = sl_limit_view_reset_in(d, s.shown);
        if (dialect->before)
            dialect->before(head, &s);
        if (dialect->limit.len > 0)
            add_numbers(head, dialect, &s);
        if (dialect->after)
            dialect->after(head, &s);
    }
}

/* ---- Access-Control-Expose-Headers ---- */

/* The last list of a thread, which is usually the next one, too. Names are
 * literals: a name is compared by its address. */
struct exposed {
    unsigned count;
    const char *names[SL_HEADERS];
    size_t len;
    char text[1024];
};

static bool is_for(const struct exposed *exposed, const struct writer *head)
{
    if (exposed->count != head->count)
        return false;
    for (unsigned i = 0; i < head->count; i++)
        if (exposed->names[i] != head->list[i].name.at)
            return false;
    return true;
}

/* A list that is too long is not kept. */
static void keep_exposed(struct exposed *exposed, const struct writer *head,
                         unsigned count, struct sl_str text)
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

static void join_names(struct writer *head, unsigned count)
{
    bool first = true;

    for (unsigned i = 0; i < count; i++) {
        if (sl_str_eq(head->list[i].name, SL_STR("Cache-Control")))
            continue;
        if (!first)
            add_bytes(head, SL_STR(", "));
        add_bytes(head, head->list[i].name);
        first = false;
    }
}

/* Browsers hide headers that are not listed here, except Cache-Control. */
static void add_exposed(struct writer *head)
{
    static _Thread_local struct exposed last;
    unsigned count = head->count;
    bool known = is_for(&last, head);
    const char *start = head->at;

    if (!begin(head, SL_STR("Access-Control-Expose-Headers")))
        return;
    if (known)
        add_bytes(head, (struct sl_str){last.text, last.len});
    else
        join_names(head, count);
    if (!known && !head->full)
        keep_exposed(&last, head, count,
                     (struct sl_str){start, (size_t)(head->at - start)});
    if (head->at > start)
        end(head);
}

/* ---- the headers of a decision ---- */

/* A number and its header's name in Access-Control-Expose-Headers. */
#define FIELD_ROOM ((size_t)56)

/* `"";q=;w=;sluice-burst=;qu="concurrent-requests", ` with three numbers. */
#define POLICY_ROOM ((size_t)120)

/* `Bearer error="invalid_token", error_description=""` and a sentence. */
#define CHALLENGE_ROOM ((size_t)256)

/* Bytes that the values need at most. Each byte of a name may become three, in
 * three headers. */
static size_t room_for(const struct sl_decision *d, int dialect_bits)
{
    size_t fields = 8, room = 3 * strlen(d->request_id);

    for (size_t i = 0; i < SL_LEN(dialects); i++)
        if (dialect_bits & dialects[i]->bit)
            fields += dialects[i]->fields;
    if (d->policy->identity.jwt.written)
        room += FIELD_ROOM + CHALLENGE_ROOM;
    for (unsigned i = 0; i < d->shown_count; i++)
        room += POLICY_ROOM + 9 * d->shown[i].rule->name.len;
    return room + fields * FIELD_ROOM;
}

/* Is the token itself wrong? Not if it could not be verified. */
static bool is_invalid(enum sl_token_error fault)
{
    return fault != SL_TOKEN_GOOD && fault != SL_TOKEN_NO_KEYS &&
           fault != SL_TOKEN_HELD_BACK && fault != SL_TOKEN_NO_MEMORY;
}

/* RFC 6750, 3. A description has neither quotes nor escapes. */
static void add_challenge(struct writer *head, const struct sl_decision *d)
{
    const char *text = sl_token_error_sentence(d->token_fault);

    if (d->status != 401 || !d->policy->identity.jwt.written ||
        !begin(head, SL_STR("WWW-Authenticate")))
        return;
    add_bytes(head, SL_STR("Bearer"));
    if (is_invalid(d->token_fault)) {
        head->plain = false;
        add_bytes(head, SL_STR(" error=\"invalid_token\", "
                               "error_description=\""));
        for (; *text; text++)
            add_byte(head, *text == '"' ? '\'' : *text);
        add_byte(head, '"');
    }
    end(head);
}

static void add_headers(struct writer *head, const struct sl_decision *d,
                        int dialect_bits)
{
    sl_ns retry_in = sl_decision_retry_in(d);

    if (d->replayed)
        add_text(head, SL_STR("Idempotency-Replayed"), SL_STR("true"));
    if (d->not_limited)
        return;
    add_dialects(head, d, dialect_bits);
    if (retry_in >= 0)
        add_number(head, SL_STR("Retry-After"), sl_retry_seconds(retry_in));
    if (d->quota >= 0 && sl_limit_view_answered(&d->shown[d->quota]))
        add_number(head, SL_STR("X-Org-Quota-Remaining"),
                   sl_limit_view_remaining(&d->shown[d->quota]));
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

int sl_render_policy(const struct sl_rule *rule, const struct sl_limit *numbers,
                     struct sl_arena *arena, struct sl_str *ret)
{
    size_t room = POLICY_ROOM + 3 * rule->name.len;
    struct writer head = {.at = sl_arena_take(arena, room)};
    const char *begin = head.at;

    if (!begin)
        return SLUICE_ENOMEM;
    head.end = head.at + room;
    add_item(&head, rule, numbers, sl_rule_down(rule, numbers->count),
             sl_rule_down(rule, numbers->capacity));
    if (head.full)
        return SLUICE_EFULL;
    *ret = (struct sl_str){begin, (size_t)(head.at - begin)};
    return 0;
}

int sl_render_headers(const struct sl_decision *decision,
                      struct sl_arena *arena, struct sl_rendered *ret)
{
    int bits = wanted(decision);
    size_t room = room_for(decision, bits);
    struct writer head = {.list = ret->headers};

    head.at = sl_arena_take(arena, room);
    if (!head.at)
        return SLUICE_ENOMEM;
    head.end = head.at + room;
    add_headers(&head, decision, bits);
    ret->header_count = head.count;
    return head.full ? SLUICE_EFULL : 0;
}
