/* json.c -- JSON written, a piece at a time.
 *
 * Most bytes of most strings need nothing, so they are passed in runs: each
 * run is appended at once, and what stands between two runs is replaced.
 */
#include "wire/json_old.h"

#include <string.h>

#include "base/digits.h"
#include "wire/json.c"

#define REPLACEMENT SL_STR("\\ufffd")

/* The escape of an ASCII byte that is not plain; `room` holds it if need be. */
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

/* How many bytes the UTF-8 character at the beginning of `s` has; 0 if there
 * is none: overlong forms, surrogates and what lies beyond U+10FFFF are not
 * UTF-8. The second byte decides all of these. */
static size_t character(struct sl_str s)
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

/* Append what becomes of the first byte or character of `s`, which is not
 * plain; *used says how much of `s` that was. */
static int add_odd(struct sl_buf *out, struct sl_str s, size_t *used)
{
    unsigned char c = (unsigned char)s.at[0];
    char room[6];

    *used = 1;
    if (c < 0x80)
        return sl_buf_add(out, escape(c, room));
    if (character(s) == 0)
        return sl_buf_add(out, REPLACEMENT);
    *used = character(s);
    s.len = *used;
    /* Line ends in JavaScript, where JSON is often pasted into. */
    if (sl_str_eq(s, SL_STR("\xe2\x80\xa8")))
        return sl_buf_add(out, SL_STR("\\u2028"));
    if (sl_str_eq(s, SL_STR("\xe2\x80\xa9")))
        return sl_buf_add(out, SL_STR("\\u2029"));
    return sl_buf_add(out, s);
}

static int add_inside(struct sl_buf *out, struct sl_str text)
{
    while (text.len > 0) {
        size_t used = sl_json_run(text.at, text.len);
        int err;

        if (used > 0)
            err = sl_buf_add(out, (struct sl_str){text.at, used});
        else
            err = add_odd(out, text, &used);
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

/* A string of which no byte needs anything, as most are. */
static int add_plain(struct sl_buf *out, struct sl_str text)
{
    int err = sl_buf_reserve(out, text.len + 2);
    char *at;

    if (err)
        return err;
    at = out->bytes + out->len;
    at[0] = '"';
    if (text.len > 0)
        memcpy(at + 1, text.at, text.len);
    at[text.len + 1] = '"';
    out->len += text.len + 2;
    return 0;
}

int sl_json_string(struct sl_buf *out, struct sl_str text)
{
    size_t before = out->len;
    int err;

    if (sl_json_run(text.at, text.len) == text.len)
        return add_plain(out, text);
    err = sl_buf_add(out, SL_STR("\""));
    if (!err)
        err = add_inside(out, text);
    if (!err)
        err = sl_buf_add(out, SL_STR("\""));
    if (err)
        out->len = before;
    return err;
}

int sl_json_number(struct sl_buf *out, uint64_t number)
{
    char digits[SL_DIGITS];
    size_t len = sl_digits(number < SL_JSON_MAX ? number : SL_JSON_MAX, digits);

    return sl_buf_add(out, (struct sl_str){digits, len});
}
