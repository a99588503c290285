/* head.c -- headers, but for the dialects.
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
#include "engine/render/head.h"

#include "base/word.h"
#include "identity/identity.h"

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
    if (d->untouched)
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
