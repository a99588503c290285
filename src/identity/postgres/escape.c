/* escape.c -- any bytes as a text of PostgreSQL, and back. */
#include "identity/postgres/escape.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "wire/pb.h"

#define ESC '\x1b'

static bool has(struct sl_str text, char c)
{
    return text.len > 0 && memchr(text.at, c, text.len);
}

/* Bytes of the character at `at`; 0 if it must be escaped. */
static size_t clean_len(struct sl_str text, size_t at)
{
    if (text.at[at] == '\0' || text.at[at] == ESC)
        return 0;
    for (size_t len = 1; len <= 4 && len <= text.len - at; len++)
        if (sl_pb_is_utf8((struct sl_str){text.at + at, len}))
            return len;
    return 0;
}

static size_t add_escape(char *out, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";

    out[0] = ESC;
    out[1] = digits[byte >> 4];
    out[2] = digits[byte & 15];
    return 3;
}

static bool escape(struct sl_arena *arena, struct sl_str text,
                   struct sl_str *ret)
{
    char *out = sl_arena_take(arena, 3 * text.len);
    size_t len = 0;

    if (!out)
        return false;
    for (size_t at = 0, clean; at < text.len; at += clean ? clean : 1) {
        clean = clean_len(text, at);
        if (clean)
            memcpy(out + len, text.at + at, clean);
        len +=
            clean ? clean : add_escape(out + len, (unsigned char)text.at[at]);
    }
    *ret = (struct sl_str){out, len};
    return true;
}

static bool shorten(struct sl_arena *arena, struct sl_str text,
                    struct sl_str *ret)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    char *out = sl_arena_take(arena, 2 + 2 * sizeof(digest) + 1);

    if (!out ||
        !EVP_Digest(text.at, text.len, digest, &size, EVP_sha256(), NULL))
        return false;
    out[0] = ESC;
    out[1] = '#';
    for (unsigned i = 0; i < size; i++)
        snprintf(out + 2 + 2 * (size_t)i, 3, "%02x", digest[i]);
    *ret = (struct sl_str){out, 2 + 2 * (size_t)size};
    return true;
}

bool sl_pg_escape(struct sl_arena *arena, struct sl_str text, bool is_id,
                  struct sl_str *ret)
{
    struct sl_str out = text;

    if ((!sl_pb_is_utf8(text) || has(text, '\0') || has(text, ESC)) &&
        !escape(arena, text, &out))
        return false;
    if (is_id && out.len > SL_PG_ID)
        return shorten(arena, text, ret);
    *ret = out;
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool sl_pg_unescape(struct sl_arena *arena, struct sl_str text,
                    struct sl_str *ret)
{
    size_t len = 0;
    char *out;

    *ret = text;
    if (!has(text, ESC))
        return true;
    out = sl_arena_take(arena, text.len);
    if (!out)
        return false;
    for (size_t at = 0; at < text.len; at++) {
        int high = -1, low = -1;

        if (text.at[at] == ESC && text.len - at > 2) {
            high = digit(text.at[at + 1]);
            low = digit(text.at[at + 2]);
        }
        out[len++] = text.at[at];
        if (high < 0 || low < 0) /* of a name that was shortened */
            continue;
        out[len - 1] = (char)(16 * high + low);
        at += 2;
    }
    *ret = (struct sl_str){out, len};
    return true;
}
