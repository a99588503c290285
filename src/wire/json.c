/* json_scan.h -- bytes of strings that need nothing; for this room only.
 *
 * What is read and what is written is nearly all of this kind, and a word of it
 * is passed at once.
 */
#ifndef SL_JSON_SCAN_H
#define SL_JSON_SCAN_H

#include "base/word.h"

static inline bool sl_json_is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Mark those of eight bytes that are not plain. Of a byte's seven low bits the
 * sum with 1 reaches the top only from 0x7f, with 0x60 from 0x20 on, and with
 * 0x7f from all but 0, which is what a quote or a backslash becomes. */
static inline uint64_t sl_json_odd(uint64_t word)
{
    uint64_t low = word & SL_EACH(0x7f);
    uint64_t plain = (low + SL_EACH(0x60)) &
                     ((low ^ SL_EACH('"')) + SL_EACH(0x7f)) &
                     ((low ^ SL_EACH('\\')) + SL_EACH(0x7f));

    return (word | (low + SL_EACH(1)) | ~plain) & SL_TOPS;
}

/* How many bytes at the beginning are plain, of four to seven: as a word of
 * the first four and the last four, which may be the same. */
static inline size_t sl_json_run_short(const char *bytes, size_t len)
{
    char both[8];
    uint64_t odd;
    size_t first;

    memcpy(both, bytes, 4);
    memcpy(both + 4, bytes + len - 4, 4);
    odd = sl_json_odd(sl_swar_load(both));
    if (odd == 0)
        return len;
    first = sl_swar_first(odd);
    return first < 4 ? first : len - 8 + first;
}

/* How many bytes at the beginning are plain. */
static inline size_t sl_json_run(const char *bytes, size_t len)
{
    size_t at = 0;
    uint64_t odd;

    for (; len - at >= 8; at += 8) {
        odd = sl_json_odd(sl_swar_load(bytes + at));
        if (odd)
            return at + sl_swar_first(odd);
    }
    if (len >= 8) { /* what is before `at` was plain */
        odd = sl_json_odd(sl_swar_load(bytes + len - 8));
        return odd ? len - 8 + sl_swar_first(odd) : len;
    }
    if (len >= 4)
        return sl_json_run_short(bytes, len);
    while (at < len && sl_json_is_plain(bytes[at]))
        at++;
    return at;
}

#endif
