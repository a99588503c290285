/* fields.h -- reading headers as a strict client would, for test/prop/render.c.
 *
 * Structured fields (RFC 9651) as far as ours go: a List of Strings, each with
 * parameters that are Integers or Strings. And the %xx of names that are no
 * ASCII.
 */
#ifndef SL_PROP_FIELDS_H
#define SL_PROP_FIELDS_H

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct parameter {
    char name[32];
    char text[64]; /* of a String */
    uint64_t number;
    bool is_text;
};

struct item {
    char *name; /* unescaped; malloced */
    size_t len;
    struct parameter parameters[8];
    unsigned count;
};

static inline bool fields_pass(struct sl_str *rest, char c)
{
    if (rest->len == 0 || rest->at[0] != c)
        return false;
    *rest = sl_str_from(*rest, 1);
    return true;
}

/* Into `out`, which has room for `size`; false if it is no String. */
static inline bool fields_string(struct sl_str *rest, char *out, size_t size,
                                 size_t *len)
{
    *len = 0;
    if (!fields_pass(rest, '"'))
        return false;
    while (rest->len > 0 && rest->at[0] != '"') {
        bool escaped = fields_pass(rest, '\\');
        char c = rest->len > 0 ? rest->at[0] : '\0';

        if (c < 0x20 || c > 0x7e || (escaped && c != '"' && c != '\\') ||
            *len == size)
            return false;
        out[(*len)++] = c;
        *rest = sl_str_from(*rest, 1);
    }
    return fields_pass(rest, '"');
}

/* At most fifteen digits. */
static inline bool fields_integer(struct sl_str *rest, uint64_t *ret)
{
    unsigned digits = 0;

    for (*ret = 0; rest->len > 0 && rest->at[0] >= '0' && rest->at[0] <= '9';
         digits++) {
        *ret = *ret * 10 + (uint64_t)(rest->at[0] - '0');
        *rest = sl_str_from(*rest, 1);
    }
    return digits > 0 && digits <= 15;
}

static inline bool fields_parameter(struct sl_str *rest, struct parameter *ret)
{
    size_t len = 0;

    memset(ret, 0, sizeof(*ret));
    while (rest->len > 0 && rest->at[0] != '=' && len + 1 < sizeof(ret->name)) {
        char c = rest->at[0];

        if (!((c >= 'a' && c <= 'z') || (len > 0 && c == '-')))
            return false;
        ret->name[len++] = c;
        *rest = sl_str_from(*rest, 1);
    }
    if (!fields_pass(rest, '='))
        return false;
    if (rest->len > 0 && rest->at[0] == '"') {
        ret->is_text = true;
        return fields_string(rest, ret->text, sizeof(ret->text) - 1, &len);
    }
    return fields_integer(rest, &ret->number);
}

/* One item; give its name back with free(). */
static inline bool fields_item(struct sl_str *rest, struct item *ret)
{
    ret->count = 0;
    ret->name = malloc(rest->len + 1);
    if (!ret->name || !fields_string(rest, ret->name, rest->len, &ret->len))
        return false;
    while (fields_pass(rest, ';'))
        if (ret->count == SL_LEN(ret->parameters) ||
            !fields_parameter(rest, &ret->parameters[ret->count++]))
            return false;
    return true;
}

static inline const struct parameter *fields_get(const struct item *item,
                                                 const char *name)
{
    for (unsigned i = 0; i < item->count; i++)
        if (strcmp(item->parameters[i].name, name) == 0)
            return &item->parameters[i];
    return NULL;
}

static inline int fields_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Does `value` stand for `name`? Byte by byte if all bytes of the name may
 * stand in a header (`least` to '~'), else with %xx for those that may not. */
static inline bool fields_means(struct sl_str value, struct sl_str name,
                                char least)
{
    bool plain = true;
    size_t at = 0;

    for (size_t i = 0; i < name.len; i++)
        plain &= name.at[i] >= least && name.at[i] <= '~';
    if (plain)
        return sl_str_eq(value, name);
    for (size_t i = 0; i < name.len; i++, at++) {
        char c = at < value.len ? value.at[at] : '\0';

        if (c == '%' && at + 2 < value.len) {
            c = (char)(fields_hex(value.at[at + 1]) << 4 |
                       fields_hex(value.at[at + 2]));
            at += 2;
        }
        if (at >= value.len || c != name.at[i])
            return false;
    }
    return at == value.len;
}

#endif
