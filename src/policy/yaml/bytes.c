/* bytes.c -- is it plain text?
 *
 * Characters are decoded one by one and judged by their number. A megabyte
 * takes a few milliseconds.
 */
#include "policy/yaml/bytes.h"

#include <stdio.h>

#define BAD UINT32_MAX

/* How many bytes a character has that begins with `c`; 0 if none does. */
static size_t length_of(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
}

/* The character at `p`, of which `left` (> 0) bytes are there, and its length;
 * BAD if it is none: cut, longer than needed, half of a pair, too large. */
static uint32_t decode(const unsigned char *p, size_t left, size_t *len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;

    *len = length_of(p[0]);
    if (*len == 0 || *len > left)
        return BAD;
    if (*len == 1)
        return p[0];
    code = p[0] & (0xffu >> (*len + 1));
    for (size_t i = 1; i < *len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return BAD;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least[*len] || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff))
        return BAD;
    return code;
}

static enum sl_utf8_error judge(uint32_t code, bool newline_behind)
{
    if (code == 0)
        return SL_FAULT_NUL;
    if (code == BAD)
        return SL_FAULT_UTF8;
    if (code == '\t' || code == '\n')
        return SL_FAULT_NONE;
    if (code == '\r')
        return newline_behind ? SL_FAULT_NONE : SL_FAULT_RETURN;
    if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        return SL_FAULT_CONTROL;
    return code == 0xfeff ? SL_FAULT_MARK : SL_FAULT_NONE;
}

struct sl_utf8_fault sl_utf8_check(struct sl_str text)
{
    const unsigned char *p = (const unsigned char *)text.at;
    size_t len;

    for (size_t i = 0; i < text.len; i += len) {
        uint32_t code = decode(p + i, text.len - i, &len);
        bool newline = i + 1 < text.len && p[i + 1] == '\n';
        enum sl_utf8_error fault = judge(code, newline);

        if (fault)
            return (struct sl_utf8_fault){fault, i, code == BAD ? p[i] : code};
    }
    return (struct sl_utf8_fault){SL_FAULT_NONE, text.len, 0};
}

const char *sl_utf8_words(const struct sl_utf8_fault *bad, char out[64])
{
    static const char *const forms[] = {
        [SL_FAULT_NONE] = "nothing",
        [SL_FAULT_NUL] = "a NUL byte",
        [SL_FAULT_UTF8] = "the byte 0x%02X, which is not UTF-8",
        [SL_FAULT_CONTROL] = "the control character U+%04X",
        [SL_FAULT_RETURN] = "a carriage return without a newline",
        [SL_FAULT_MARK] = "a byte order mark (U+%04X)",
    };

    /* style: the formats are those above, and each takes one number or none */
    snprintf(out, 64, forms[bad->fault], bad->code);
    return out;
}
