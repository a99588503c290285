/* base64.c -- RFC 4648, strictly. */
#include "base/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789+/";

/* What a letter stands for, or -1; `last` are the two that alphabets differ
 * in. */
static int value_of(char c, const char last[2])
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == last[0])
        return 62;
    return c == last[1] ? 63 : -1;
}

/* Letters without padding. */
static bool decode(struct sl_str text, const char last[2], uint8_t *out,
                   size_t *ret_len)
{
    unsigned bits = 0, held = 0; /* `held` low bits of `bits` are not out yet */
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        int value = value_of(text.at[i], last);

        if (value < 0)
            return false;
        bits = (bits << 6 | (unsigned)value) & 0xfff;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[len++] = (uint8_t)(bits >> held);
        }
    }
    if (bits & ((1u << held) - 1))
        return false; /* bits that stand for nothing */
    *ret_len = len;
    return true;
}

static size_t count_padding(struct sl_str text)
{
    size_t count = 0;

    while (count < 2 && count < text.len &&
           text.at[text.len - 1 - count] == '=')
        count++;
    return count;
}

bool sl_base64_decode(struct sl_str text, uint8_t *out, size_t *ret_len)
{
    if (text.len % 4 != 0)
        return false;
    text.len -= count_padding(text);
    return decode(text, "+/", out, ret_len);
}

bool sl_base64url_decode(struct sl_str text, uint8_t *out, size_t *ret_len)
{
    return text.len % 4 != 1 && decode(text, "-_", out, ret_len);
}

void sl_base64_encode(struct sl_str bytes, char *out)
{
    size_t i = 0;

    for (; i < bytes.len; i += 3) {
        size_t here = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t bits = 0;

        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < here ? (uint8_t)bytes.at[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            *out++ = k <= here ? letters[bits >> (18 - 6 * k) & 63] : '=';
    }
}
