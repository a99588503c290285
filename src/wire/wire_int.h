/* wire_int.h -- bytes of HTTP/1.1: which are allowed where, for the reader and
 * the writer.
 */
#ifndef SL_WIRE_WIRE_INT_H
#define SL_WIRE_WIRE_INT_H

#include "base/sixteen.h"

/* Classes of bytes. */
enum {
    SL_HTTP1_TOKEN = 1,
    SL_HTTP1_URI = 2,  /* allowed in a target */
    SL_HTTP1_HOST = 4, /* allowed in a host name */
};

extern const uint8_t sl_http1_classes[256]; /* http1.c */

static inline bool sl_http1_is_class(char c, unsigned class)
{
    return sl_http1_classes[(uint8_t)c] & class;
}

/* ---- most bytes are usual ones: sixteen at once ---- */

/* Where a byte is not usual in its class: in a token, no letter, digit or
 * hyphen; in a target, not visible, or '#'. */
static inline sl_sixteen sl_http1_unusual(sl_sixteen v, unsigned class)
{
    if (class == SL_HTTP1_URI)
        return (sl_sixteen)((v - 0x21 > 0x5d) | (v == '#'));
    return (sl_sixteen)(((v | 0x20) - 'a' > 25) & (v - '0' > 9) & (v != '-'));
}

/* The same in a value: a control byte, tabs among them. */
static inline sl_sixteen sl_http1_control(sl_sixteen v)
{
    return (sl_sixteen)((v < 0x20) | (v == 0x7f));
}

/* The first position in [at, end) with a byte outside the class, or `end`. */
static inline size_t sl_http1_skip(const char *bytes, size_t at, size_t end,
                                   unsigned class)
{
    while (end - at >= 16) {
        size_t usual = sl_sixteen_first(
            sl_http1_unusual(sl_sixteen_load(bytes + at), class));

        at += usual;
        if (usual == 16)
            continue;
        if (!sl_http1_is_class(bytes[at], class))
            return at;
        at++;
    }
    while (at < end && sl_http1_is_class(bytes[at], class))
        at++;
    return at;
}

/* Is the byte allowed in a value? Control bytes are not, except tab. */
static inline bool sl_http1_is_value_byte(char c)
{
    return ((uint8_t)c >= 0x20 && c != 0x7f) || c == '\t';
}

/* The first position in [at, end) with a byte not allowed in a value, or
 * `end`. */
static inline size_t sl_http1_skip_text(const char *bytes, size_t at,
                                        size_t end)
{
    while (end - at >= 16) {
        size_t usual =
            sl_sixteen_first(sl_http1_control(sl_sixteen_load(bytes + at)));

        at += usual;
        if (usual == 16)
            continue;
        if (bytes[at] != '\t')
            return at;
        at++;
    }
    while (at < end && sl_http1_is_value_byte(bytes[at]))
        at++;
    return at;
}

/* Is the token `name` equal to `lower`, without case? `lower` has letters and
 * hyphens. Bit 5 turns capitals to lower case, and of all token bytes only the
 * hyphen becomes a hyphen. */
static inline bool sl_http1_is_named(struct sl_str name, struct sl_str lower)
{
    if (name.len != lower.len)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((name.at[i] | 0x20) != lower.at[i])
            return false;
    return true;
}

#endif
