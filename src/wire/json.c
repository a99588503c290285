/* json.c -- JSON is read and written.
 *
 * Most bytes of strings need no escape, so sixteen are checked at once.
 */
#include "wire/json.h"

#include <string.h>

#include "base/sixteen.h"
#include "base/timestamp.h"

typedef signed char signed_sixteen __attribute__((vector_size(16)));

/* The bytes that are not plain: control bytes, quotes, backslashes, and all
 * that is not ASCII. As signed numbers, the last are below a blank. */
static inline sl_sixteen find_odd(sl_sixteen bytes)
{
    signed_sixteen v = (signed_sixteen)bytes;

    return (sl_sixteen)((v < 0x20) | (v == 0x7f) | (v == '"') | (v == '\\'));
}

/* The number of plain bytes at the start. */
static inline size_t sl_json_run(const char *bytes, size_t len)
{
    size_t at = 0, run = 16;

    for (; len - at >= 16 && run == 16; at += run)
        run = sl_sixteen_first(find_odd(sl_sixteen_load(bytes + at)));
    if (run == 16 && len > at) /* the NULs behind the text are odd */
        at += sl_sixteen_first(
            find_odd(sl_sixteen_load_few(bytes + at, len - at)));
    return at;
}

/* ---- reading ---- */

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

/* The next byte, or NUL at the end. A NUL in the text is invalid everywhere. */
static char here(const struct sl_json_reader *r)
{
    return r->at < r->text.len ? r->text.at[r->at] : '\0';
}

static char skip_blanks(struct sl_json_reader *r)
{
    char c = here(r);

    if (c > ' ') /* as in texts that programs write */
        return c;
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

/* Skip the comma between two items. */
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

/* At the quote. */
static bool read_string(struct sl_json_reader *r, struct sl_str *ret);

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
    if (!read_string(r, name))
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

size_t sl_json_utf8(struct sl_str s)
{
    const unsigned char *p = (const unsigned char *)s.at;
    unsigned char low = 0x80, high = 0xbf;
    size_t len = p[0] < 0xc2   ? 0
                 : p[0] < 0xe0 ? 2
                 : p[0] < 0xf0 ? 3
                 : p[0] < 0xf5 ? 4
                               : 0;

    if (len == 0 || len > s.len)
        return 0;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

static bool read_hex(struct sl_json_reader *r, uint32_t *ret)
{
    uint32_t n = 0;

    if (r->text.len - r->at < 4)
        return fail(r, "the text ends too early");
    for (int i = 0; i < 4; i++) {
        int digit = sl_hex_value(r->text.at[r->at]);

        if (digit < 0)
            return fail(r, "four hexadecimal digits are expected after \\u");
        n = n << 4 | (uint32_t)digit;
        r->at++;
    }
    *ret = n;
    return true;
}

/* After "\u": one character, or a surrogate pair. */
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

/* Skip unescaped bytes, up to a quote or a backslash. */
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
        len = s[at] < 0x80 ? 0 : sl_json_utf8(sl_str_from(r->text, at));
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

/* The maximum length of the string: up to its quote. */
static size_t measure(const struct sl_json_reader *r)
{
    size_t at = r->at;

    while (at < r->text.len && r->text.at[at] != '"')
        at += r->text.at[at] == '\\' ? 2 : 1;
    return (at < r->text.len ? at : r->text.len) - r->at;
}

/* Decode from the first backslash on. The result is never longer than the
 * text. */
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

/* Most strings are one run of plain bytes. */
static bool read_string(struct sl_json_reader *r, struct sl_str *ret)
{
    size_t from = ++r->at;

    r->at += sl_json_run(r->text.at + from, r->text.len - from);
    if (here(r) != '"' && !pass_plain(r))
        return false;
    if (r->text.at[r->at] == '\\')
        return decode(r, from, ret);
    *ret = (struct sl_str){r->text.at + from, r->at - from};
    r->at++;
    return true;
}

bool sl_json_text(struct sl_json_reader *r, struct sl_str *ret)
{
    if (skip_blanks(r) == '"' && !r->why)
        return read_string(r, ret);
    sl_json_peek(r); /* it says what is wrong */
    return false;
}

/* ---- writing ----
 *
 * Runs of plain bytes are appended at once; the bytes between them are
 * replaced.
 */

/* Longer texts need not have room for the longest escapes. */
#define SHORT_TEXT ((size_t)1024)

#define REPLACEMENT SL_STR("\\ufffd")

/* The escape of an ASCII byte that is not plain; `room` is for its text. */
static struct sl_str escape(unsigned char c, char room[6])
{
    static const char hex[] = "0123456789abcdef";

    switch (c) {
    case '"':
        return SL_STR("\\\"");
    case '\\':
        return SL_STR("\\\\");
    case '\b':
        return SL_STR("\\b");
    case '\f':
        return SL_STR("\\f");
    case '\n':
        return SL_STR("\\n");
    case '\r':
        return SL_STR("\\r");
    case '\t':
        return SL_STR("\\t");
    }
    room[0] = '\\';
    room[1] = 'u';
    room[2] = room[3] = '0';
    room[4] = hex[c >> 4];
    room[5] = hex[c & 15];
    return (struct sl_str){room, 6};
}

/* What the first byte or character of `s`, which is not plain, becomes; *used
 * is its length. `room` is for the text of at most six bytes. */
static struct sl_str replace_odd(struct sl_str s, char room[6], size_t *used)
{
    unsigned char c = (unsigned char)s.at[0];

    *used = 1;
    if (c < 0x80)
        return escape(c, room);
    s.len = sl_json_utf8(s);
    if (s.len == 0)
        return REPLACEMENT;
    *used = s.len;
    /* Line ends of JavaScript, because JSON is often embedded in scripts. */
    if (sl_str_eq(s, SL_STR("\xe2\x80\xa8")))
        return SL_STR("\\u2028");
    if (sl_str_eq(s, SL_STR("\xe2\x80\xa9")))
        return SL_STR("\\u2029");
    return s;
}

static int add_inside(struct sl_buf *out, struct sl_str text)
{
    char room[6];

    while (text.len > 0) {
        size_t used = sl_json_run(text.at, text.len);
        struct sl_str as = {text.at, used};
        int err;

        if (used == 0)
            as = replace_odd(text, room, &used);
        err = sl_buf_add(out, as);
        if (err)
            return err;
        text = sl_str_from(text, used);
    }
    return 0;
}

int sl_json_inside(struct sl_buf *out, struct sl_str text)
{
    size_t before = out->len;
    int err = add_inside(out, text);

    if (err)
        out->len = before;
    return err;
}

/* Copies the plain bytes at the start, and returns their number. Sixteen more
 * bytes may be written. */
static inline size_t put_run(char *to, const char *bytes, size_t len)
{
    size_t at = 0, run = 16;
    sl_sixteen v;

    for (; len - at >= 16 && run == 16; at += run) {
        v = sl_sixteen_load(bytes + at);
        sl_sixteen_store(v, to + at);
        run = sl_sixteen_first(find_odd(v));
    }
    if (run == 16 && len > at) { /* the NULs behind the text are odd */
        v = sl_sixteen_load_few(bytes + at, len - at);
        sl_sixteen_store(v, to + at);
        at += sl_sixteen_first(find_odd(v));
    }
    return at;
}

char *sl_json_put_string(char *to, struct sl_str text)
{
    char room[6];
    struct sl_str as;
    size_t used;

    *to++ = '"';
    for (;;) {
        used = put_run(to, text.at, text.len);
        to += used;
        text.len -= used;
        if (text.len == 0)
            break;
        SL_HOLDS(text.at);
        text.at += used;
        used = 1;
        if (text.at[0] == '"' || text.at[0] == '\\') {
            *to++ = '\\';
            *to++ = text.at[0];
        } else {
            as = replace_odd(text, room, &used);
            memcpy(to, as.at, as.len);
            to += as.len;
        }
        text.at += used;
        text.len -= used;
    }
    *to++ = '"';
    return to;
}

/* In pieces, in a buffer that may have to grow. */
static int add_string(struct sl_buf *out, struct sl_str text)
{
    size_t before = out->len;
    int err = sl_buf_add(out, SL_STR("\""));

    if (!err)
        err = add_inside(out, text);
    if (!err)
        err = sl_buf_add(out, SL_STR("\""));
    if (err)
        out->len = before;
    return err;
}

int sl_json_string(struct sl_buf *out, struct sl_str text)
{
    if (text.len > SHORT_TEXT || out->size - out->len < SL_JSON_ROOM(text.len))
        return add_string(out, text);
    out->len =
        (size_t)(sl_json_put_string(out->bytes + out->len, text) - out->bytes);
    return 0;
}

int sl_json_number(struct sl_buf *out, uint64_t number)
{
    int err = sl_buf_reserve(out, SL_DIGITS);

    if (!err)
        out->len = (size_t)(sl_json_put_number(out->bytes + out->len, number) -
                            out->bytes);
    return err;
}

/* ---- on a writer ---- */

static void put_comma(struct sl_writer *w)
{
    const struct sl_buf *out = w->out;

    if (out->len == 0)
        return;
    switch (out->bytes[out->len - 1]) {
    case '{':
    case '[':
    case ':':
    case ',':
    case '\n':
        return;
    }
    sl_writer_add(w, SL_STR(","));
}

void sl_json_open(struct sl_writer *w, char bracket)
{
    put_comma(w);
    sl_writer_add(w, (struct sl_str){&bracket, 1});
}

void sl_json_close(struct sl_writer *w, char bracket)
{
    sl_writer_add(w, (struct sl_str){&bracket, 1});
}

void sl_json_key(struct sl_writer *w, struct sl_str name)
{
    sl_json_str(w, name);
    sl_writer_add(w, SL_STR(":"));
}

void sl_json_str(struct sl_writer *w, struct sl_str text)
{
    put_comma(w);
    if (!w->err)
        w->err = sl_json_string(w->out, text);
}

void sl_json_uint(struct sl_writer *w, uint64_t number)
{
    put_comma(w);
    if (!w->err)
        w->err = sl_json_number(w->out, number);
}

void sl_json_int(struct sl_writer *w, int64_t number)
{
    if (number >= 0) {
        sl_json_uint(w, (uint64_t)number);
        return;
    }
    put_comma(w);
    sl_writer_add(w, SL_STR("-"));
    if (!w->err)
        w->err = sl_json_number(w->out, -(uint64_t)number);
}

void sl_json_flag(struct sl_writer *w, bool flag)
{
    sl_json_raw(w, flag ? SL_STR("true") : SL_STR("false"));
}

void sl_json_nothing(struct sl_writer *w)
{
    sl_json_raw(w, SL_STR("null"));
}

void sl_json_raw(struct sl_writer *w, struct sl_str json)
{
    put_comma(w);
    sl_writer_add(w, json);
}

void sl_json_member_str(struct sl_writer *w, const char *name,
                        struct sl_str text)
{
    sl_json_key(w, sl_str_c(name));
    sl_json_str(w, text);
}

void sl_json_member_text(struct sl_writer *w, const char *name,
                         const char *text)
{
    if (text)
        sl_json_member_str(w, name, sl_str_c(text));
}

void sl_json_member_time(struct sl_writer *w, const char *name, sl_ns at)
{
    char text[SL_TIMESTAMP_TEXT];

    sl_json_key(w, sl_str_c(name));
    if (at == SL_NS_NONE) {
        sl_json_nothing(w);
        return;
    }
    sl_timestamp_print(at, at % SL_S != 0, text);
    sl_json_str(w, sl_str_c(text));
}
