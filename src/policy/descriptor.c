/* descriptor.c -- patterns of descriptors. */
#include "policy/descriptor.h"

#include <string.h>

/* ---- reading ---- */

static size_t key_length(struct sl_str text)
{
    size_t len = 0;

    while (len < text.len && text.at[len] != '=' && text.at[len] != '~')
        len++;
    return len;
}

int sl_descriptor_part_read(struct sl_str text, struct sl_descriptor_part *ret,
                            struct sl_diag *diag)
{
    size_t len = key_length(text);

    *ret = (struct sl_descriptor_part){.kind = SL_PART_REST};
    if (sl_str_eq(text, SL_STR("**")))
        return 0;
    if (len == 0)
        return sl_refuse(diag, SLUICE_ECONF,
                         "An entry needs a key. Write KEY, KEY=VALUE or **");
    ret->kind = SL_PART_ANY;
    ret->key = (struct sl_str){text.at, len};
    ret->value = sl_str_from(text, len + 1);
    if (memchr(ret->key.at, '*', len))
        return sl_refuse(diag, SLUICE_ECONF,
                         "A key must not contain *. Values can, as in KEY=a*");
    if (len == text.len)
        return 0;
    ret->shared = text.at[len] == '~';
    ret->kind = memchr(text.at + len, '*', text.len - len) ? SL_PART_LIKE
                                                           : SL_PART_EXACT;
    return 0;
}

/* ---- matching ---- */

static bool begins(struct sl_str text, struct sl_str with)
{
    return text.len >= with.len &&
           sl_str_eq((struct sl_str){text.at, with.len}, with);
}

/* The pattern up to its first star; `rest` is what is behind it. */
static struct sl_str take_literal(struct sl_str pattern, struct sl_str *rest)
{
    const char *star =
        pattern.len ? memchr(pattern.at, '*', pattern.len) : NULL;
    size_t len = star ? (size_t)(star - pattern.at) : pattern.len;

    *rest = sl_str_from(pattern, len + 1);
    return (struct sl_str){pattern.at, len};
}

static size_t literal_tail(struct sl_str pattern)
{
    size_t len = 0;

    while (len < pattern.len && pattern.at[pattern.len - 1 - len] != '*')
        len++;
    return len;
}

/* The ends must be there, and what is between stars in their order, each as
 * early as can be: later would leave less for those that follow. */
bool sl_value_is_like(struct sl_str pattern, struct sl_str value)
{
    size_t tail = literal_tail(pattern);
    struct sl_str end = sl_str_from(pattern, pattern.len - tail), piece;

    if (tail == pattern.len)
        return sl_str_eq(pattern, value);
    if (value.len < tail ||
        !sl_str_eq(sl_str_from(value, value.len - tail), end))
        return false;
    value.len -= tail;
    pattern.len -= tail; /* it ends in a star now */
    piece = take_literal(pattern, &pattern);
    if (!begins(value, piece))
        return false;
    value = sl_str_from(value, piece.len);
    while (pattern.len > 0) {
        piece = take_literal(pattern, &pattern);
        while (!begins(value, piece)) {
            if (value.len == 0)
                return false;
            value = sl_str_from(value, 1);
        }
        value = sl_str_from(value, piece.len);
    }
    return true;
}

static bool part_matches(const struct sl_descriptor_part *part,
                         const struct sl_descriptor_entry *entry)
{
    if (!sl_str_eq(part->key, entry->key))
        return false;
    switch (part->kind) {
    case SL_PART_EXACT:
        return sl_str_eq(part->value, entry->value);
    case SL_PART_LIKE:
        return sl_value_is_like(part->value, entry->value);
    case SL_PART_ANY:
    case SL_PART_REST:
        break;
    }
    return true;
}

bool sl_descriptor_matches(const struct sl_descriptor *pattern,
                           struct sl_str domain,
                           const struct sl_descriptor_entry *entries,
                           unsigned count)
{
    unsigned parts = pattern->count;
    bool rest = parts > 0 && pattern->parts[parts - 1].kind == SL_PART_REST;

    parts -= rest;
    if (rest ? count < parts : count != parts)
        return false;
    for (unsigned i = 0; i < parts; i++)
        if (!part_matches(&pattern->parts[i], &entries[i]))
            return false;
    return sl_str_eq(pattern->domain, domain);
}

/* ---- what is left open ---- */

static bool is_open(const struct sl_descriptor_part *part)
{
    return !part->shared &&
           (part->kind == SL_PART_LIKE || part->kind == SL_PART_ANY);
}

/* Append the value; a slash, which stands between two of them, and what would
 * be taken for an escape are escaped. */
static char *add_value(char *to, struct sl_str value)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.at[i];

        if (c != '/' && c != '%' && !(c == '-' && value.len == 1)) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    return to;
}

char *sl_descriptor_id(const struct sl_descriptor *pattern,
                       const struct sl_descriptor_entry *entries,
                       unsigned count, struct sl_arena *arena)
{
    bool first = true;
    size_t size = 2;
    char *id, *at;

    for (unsigned i = 0; i < count && i < pattern->count; i++)
        size += 3 * entries[i].value.len + 1;
    id = at = sl_arena_take(arena, size);
    if (!id)
        return NULL;
    for (unsigned i = 0; i < count && i < pattern->count; i++) {
        if (!is_open(&pattern->parts[i]))
            continue;
        if (!first)
            *at++ = '/';
        first = false;
        at = add_value(at, entries[i].value);
    }
    if (at == id)
        *at++ = '-';
    *at = '\0';
    return id;
}
