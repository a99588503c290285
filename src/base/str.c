/* str.c -- borrowed slices of bytes.
 *
 * The edit distance of two words finds suggestions for typos. Its table is
 * computed row by row; a swap of neighbours looks two rows back:
 *
 *              b[j-2]  b[j-1]  b[j]
 *     a[i-2]    swap
 *     a[i-1]           replace  delete
 *     a[i]             insert   ?
 */
#include "base/str.h"

#include <limits.h>
#include <string.h>

#define WORD_MAX 64 /* longer words get no suggestion */

int sl_str_int(size_t len)
{
    return len < INT_MAX ? (int)len : INT_MAX;
}

/* Not tolower(), which depends on the locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Eight bytes at once. A letter and its capital differ in the bit 0x20 alone;
 * so those that differ must differ in it, and be letters with it set. Of a
 * byte's seven low bits the sum with 0x1f reaches the top from 'a' on, that
 * with 0x05 from behind 'z'; no sum goes beyond its byte. */
static bool word_eq_nocase(uint64_t x, uint64_t y)
{
    uint64_t differ = x ^ y, low, letters;

    if (differ == 0)
        return true;
    low = (x | SL_EACH(0x20)) & SL_EACH(0x7f);
    letters = (low + SL_EACH(0x1f)) & ~(low + SL_EACH(0x05)) & ~x & SL_TOPS;
    return (differ & ~(letters >> 2)) == 0;
}

/* One to seven bytes, each at least once. */
static uint64_t load_few(const char *bytes, size_t len)
{
    uint32_t first, last;

    if (len < 4)
        return (unsigned char)bytes[0] |
               (uint64_t)(unsigned char)bytes[len / 2] << 8 |
               (uint64_t)(unsigned char)bytes[len - 1] << 16;
    memcpy(&first, bytes, 4);
    memcpy(&last, bytes + len - 4, 4);
    return first | (uint64_t)last << 32;
}

bool sl_bytes_eq_nocase(const char *a, const char *b, size_t len)
{
    if (len < 8)
        return len == 0 || word_eq_nocase(load_few(a, len), load_few(b, len));
    for (size_t i = 0; i + 8 < len; i += 8)
        if (!word_eq_nocase(sl_swar_load(a + i), sl_swar_load(b + i)))
            return false;
    return word_eq_nocase(sl_swar_load(a + len - 8), sl_swar_load(b + len - 8));
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct sl_str sl_str_trim(struct sl_str s)
{
    while (s.len > 0 && is_blank(s.at[0]))
        s = sl_str_from(s, 1);
    while (s.len > 0 && is_blank(s.at[s.len - 1]))
        s.len--;
    return s;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned sl_str_distance(struct sl_str a, struct sl_str b, unsigned most)
{
    unsigned rows[3][WORD_MAX + 1];
    unsigned *two = rows[0], *one = rows[1], *row = rows[2];

    if (a.len > WORD_MAX || b.len > WORD_MAX)
        return most + 1;
    for (unsigned j = 0; j <= b.len; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        unsigned *oldest = two;
        char p = lower(a.at[i - 1]);

        two = one;
        one = row;
        row = oldest;
        row[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            char q = lower(b.at[j - 1]);

            row[j] =
                least(one[j - 1] + (p != q), least(one[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && p == lower(b.at[j - 2]) &&
                q == lower(a.at[i - 2]))
                row[j] = least(row[j], two[j - 2] + 1);
        }
    }
    return least(row[b.len], most + 1);
}

/* How many edits still make a typo of a word with `len` letters. */
static unsigned forgiven(size_t len)
{
    if (len <= 4)
        return len > 1; /* a single letter replaced is another letter */
    return len <= 8 ? 2 : 3;
}

const char *sl_str_nearest(struct sl_str typo, const char *const *words,
                           size_t count)
{
    const char *best = NULL;
    unsigned best_distance = UINT_MAX;

    for (size_t i = 0; i < count; i++) {
        struct sl_str word = sl_str_c(words[i]);
        unsigned most = forgiven(word.len);
        unsigned distance = sl_str_distance(typo, word, most);

        if (distance <= most && distance < best_distance) {
            best = words[i];
            best_distance = distance;
        }
    }
    return best;
}

/* ---- RFC 4648, strictly. */

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
