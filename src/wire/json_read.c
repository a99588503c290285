/* json_read.c -- JSON read from front to back, a piece at a time. */
#include "wire/json_read.h"

#include <string.h>

#include "wire/json_scan.h"

static bool fail(struct sl_json_reader *r, const char *why)
{
    if (!r->why)
        r->why = why;
    return false;
}

void sl_json_begin(struct sl_json_reader *r, struct sl_str text,
                   struct sl_arena *arena)
{
    *r = (struct sl_json_reader){.text = text, .arena = arena};
}

/* The byte at the place, or NUL at the end; NUL itself is good nowhere. */
static char here(const struct sl_json_reader *r)
{
    return r->at < r->text.len ? r->text.at[r->at] : '\0';
}

static char skip_blanks(struct sl_json_reader *r)
{
    char c = here(r);

    while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        r->at++;
        c = here(r);
    }
    return c;
}

enum sl_json_kind sl_json_peek(struct sl_json_reader *r)
{
    char c = skip_blanks(r);

    if (r->why)
        return SL_JSON_BAD;
    switch (c) {
    case '{':
        return SL_JSON_OBJECT;
    case '[':
        return SL_JSON_ARRAY;
    case '"':
        return SL_JSON_STRING;
    case 't':
    case 'f':
        return SL_JSON_BOOL;
    case 'n':
        return SL_JSON_NULL;
    default:
        if (c == '-' || (c >= '0' && c <= '9'))
            return SL_JSON_NUMBER;
        fail(r, r->at < r->text.len ? "a value is expected here"
                                    : "the text ends too early");
        return SL_JSON_BAD;
    }
}

const char *sl_json_kind_name(enum sl_json_kind kind)
{
    static const char *const names[] = {
        [SL_JSON_BAD] = "nothing",      [SL_JSON_NULL] = "null",
        [SL_JSON_BOOL] = "a boolean",   [SL_JSON_NUMBER] = "a number",
        [SL_JSON_STRING] = "a string",  [SL_JSON_ARRAY] = "an array",
        [SL_JSON_OBJECT] = "an object",
    };

    return names[kind];
}

bool sl_json_null(struct sl_json_reader *r)
{
    if (sl_json_peek(r) != SL_JSON_NULL)
        return false;
    if (r->text.len - r->at < 4 || memcmp(r->text.at + r->at, "null", 4) != 0)
        return fail(r, "a value is expected here");
    r->at += 4;
    return true;
}

bool sl_json_bool(struct sl_json_reader *r, bool *ret)
{
    struct sl_str rest, word;
    bool on;

    if (sl_json_peek(r) != SL_JSON_BOOL)
        return false;
    rest = sl_str_from(r->text, r->at);
    SL_HOLDS(rest.at);
    on = rest.at[0] == 't';
    word = on ? SL_STR("true") : SL_STR("false");
    if (rest.len < word.len || memcmp(rest.at, word.at, word.len) != 0)
        return fail(r, "a value is expected here");
    r->at += word.len;
    *ret = on;
    return true;
}

bool sl_json_whole(struct sl_json_reader *r, uint64_t *ret)
{
    uint64_t n = 0;
    size_t at;
    char c;

    if (sl_json_peek(r) != SL_JSON_NUMBER)
        return false;
    at = r->at;
    for (; r->at < r->text.len; r->at++) {
        c = r->text.at[r->at];
        if (c < '0' || c > '9')
            break;
        n = n * 10 + (uint64_t)(c - '0');
        if (n > SL_JSON_MAX)
            return fail(r,
                        "the number is above the maximum of 9007199254740991");
    }
    c = here(r);
    if (r->at == at || c == '.' || c == 'e' || c == 'E')
        return fail(r, "a whole number without a sign is expected here");
    if (r->text.at[at] == '0' && r->at > at + 1)
        return fail(r, "a number must not have leading zeros");
    *ret = n;
    return true;
}

/* ---- brackets ---- */

bool sl_json_enter(struct sl_json_reader *r, char bracket)
{
    if (skip_blanks(r) != bracket || r->why)
        return false;
    r->at++;
    r->first = true;
    return true;
}

/* Pass what stands between two of a list. */
static bool go_on(struct sl_json_reader *r, char close, const char *why)
{
    char c = skip_blanks(r);
    bool first = r->first;

    r->first = false;
    if (r->why)
        return false;
    if (c == close) {
        r->at++;
        return false;
    }
    if (first)
        return true;
    if (c != ',')
        return fail(r, why);
    r->at++;
    return true;
}

bool sl_json_item(struct sl_json_reader *r)
{
    return go_on(r, ']', "a comma or a closing bracket is expected here");
}

bool sl_json_member(struct sl_json_reader *r, struct sl_str *name)
{
    if (!go_on(r, '}', "a comma or a closing brace is expected here"))
        return false;
    if (skip_blanks(r) != '"')
        return fail(r,
                    "the name of a member in double quotes is expected here");
    if (!sl_json_text(r, name))
        return false;
    if (skip_blanks(r) != ':')
        return fail(r, "a colon is expected after the name of a member");
    r->at++;
    return true;
}

bool sl_json_end(struct sl_json_reader *r)
{
    skip_blanks(r);
    if (r->why)
        return false;
    return r->at == r->text.len ||
           fail(r, "there is something after the value");
}

/* ---- strings ---- */

/* The length of the UTF-8 sequence at `s`, of which `left` bytes are there; 0
 * if it is none. Shortest forms only, and no surrogates. */
static size_t sequence(const unsigned char *s, size_t left)
{
    static const unsigned char least[] = {0, 0, 0, 0xa0, 0x90};
    static const unsigned char most[] = {0, 0, 0, 0x9f, 0x8f};
    size_t len = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (len == 0 || s[0] > 0xf4 || left < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 || s[0] == 0xf0) && s[1] < least[len])
        return 0;
    if ((s[0] == 0xed || s[0] == 0xf4) && s[1] > most[len])
        return 0;
    return len;
}

static bool read_hex(struct sl_json_reader *r, uint32_t *ret)
{
    uint32_t n = 0;

    if (r->text.len - r->at < 4)
        return fail(r, "the text ends too early");
    for (int i = 0; i < 4; i++) {
        char c = r->text.at[r->at];

        if (c >= '0' && c <= '9')
            n = n << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            n = n << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return fail(r, "four hexadecimal digits are expected after \\u");
        r->at++;
    }
    *ret = n;
    return true;
}

/* Behind "\u": one character, or both halves of one. */
static bool read_code(struct sl_json_reader *r, uint32_t *ret)
{
    uint32_t low;

    if (!read_hex(r, ret))
        return false;
    if (*ret == 0)
        return fail(r, "a string must not contain NUL");
    if (*ret < 0xd800 || *ret > 0xdfff)
        return true;
    if (*ret > 0xdbff || r->text.len - r->at < 2 || r->text.at[r->at] != '\\' ||
        r->text.at[r->at + 1] != 'u')
        return fail(r, "incomplete surrogate pair");
    r->at += 2;
    if (!read_hex(r, &low))
        return false;
    if (low < 0xdc00 || low > 0xdfff)
        return fail(r, "incomplete surrogate pair");
    *ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static char *put_code(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 63));
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    }
    return out;
}

/* At a backslash. */
static bool read_escape(struct sl_json_reader *r, char **out)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char *found;
    uint32_t code;
    char c;

    r->at++;
    c = here(r);
    found = c ? strchr(names, c) : NULL;
    if (found) {
        r->at++;
        *(*out)++ = bytes[found - names];
        return true;
    }
    if (c != 'u')
        return fail(r, "a backslash must be followed by one of \"\\/bfnrtu");
    r->at++;
    if (!read_code(r, &code))
        return false;
    *out = put_code(*out, code);
    return true;
}

/* Pass bytes that stand for themselves, up to a quote or a backslash. */
static bool pass_plain(struct sl_json_reader *r)
{
    const unsigned char *s = (const unsigned char *)r->text.at;
    size_t at = r->at, end = r->text.len, len;

    for (;; at += len) {
        at += sl_json_run(r->text.at + at, end - at);
        len = 1;
        if (at == end || s[at] == '"' || s[at] == '\\')
            break;
        if (s[at] >= 0x20 && s[at] < 0x80)
            continue;
        len = s[at] < 0x80 ? 0 : sequence(s + at, end - at);
        if (len == 0) {
            r->at = at;
            return fail(r, s[at] < 0x20
                               ? "control character in a string; escape it"
                               : "invalid UTF-8");
        }
    }
    r->at = at;
    return at < end || fail(r, "the text ends too early");
}

/* How far the string goes at most, from the place on: to its quote. */
static size_t measure(const struct sl_json_reader *r)
{
    size_t at = r->at;

    while (at < r->text.len && r->text.at[at] != '"')
        at += r->text.at[at] == '\\' ? 2 : 1;
    return (at < r->text.len ? at : r->text.len) - r->at;
}

/* From the first backslash on. What is decoded is never longer than what was
 * written. */
static bool decode(struct sl_json_reader *r, size_t from, struct sl_str *ret)
{
    size_t begin = from;
    char *room, *out;

    room = out = sl_arena_take(r->arena, r->at - from + measure(r) + 1);
    if (!room) {
        r->no_memory = true;
        return fail(r, "out of memory");
    }
    for (;;) {
        memcpy(out, r->text.at + begin, r->at - begin);
        out += r->at - begin;
        if (here(r) == '"')
            break;
        if (!read_escape(r, &out))
            return false;
        begin = r->at;
        if (!pass_plain(r))
            return false;
    }
    *out = '\0';
    *ret = (struct sl_str){room, (size_t)(out - room)};
    r->at++;
    return true;
}

bool sl_json_text(struct sl_json_reader *r, struct sl_str *ret)
{
    size_t from;

    if (sl_json_peek(r) != SL_JSON_STRING)
        return false;
    from = ++r->at;
    if (!pass_plain(r))
        return false;
    if (r->text.at[r->at] == '\\')
        return decode(r, from, ret);
    *ret = (struct sl_str){r->text.at + from, r->at - from};
    r->at++;
    return true;
}
