/* props.c -- application.properties.
 *
 *   key=value   key: value   key value     # comment   ! comment
 *
 * A line that ends in a backslash goes on in the next one, whose blanks at the
 * beginning do not count. Elsewhere a backslash takes the meaning from the
 * character behind it, but for \t, \n, \r, \f and \uXXXX: UTF-16, of which
 * UTF-8 is made.
 */
#include "cli/spring/props.h"

#include <string.h>

#include "base/buf.h"

bool sl_props_line(struct sl_str *text, struct sl_str *ret)
{
    const char *end;
    size_t len;

    if (text->len == 0)
        return false;
    end = memchr(text->at, '\n', text->len);
    len = end ? (size_t)(end - text->at) : text->len;
    *ret = (struct sl_str){text->at, len};
    if (len > 0 && ret->at[len - 1] == '\r')
        ret->len--;
    *text = sl_str_from(*text, len + (end != NULL));
    return true;
}

int sl_props_add(struct sl_props *props, struct sl_str key, struct sl_str value,
                 unsigned line)
{
    struct sl_prop *p;
    char *copy = sl_arena_copy(props->arena, value);

    if (!copy)
        return SLUICE_ENOMEM;
    for (p = props->first; p; p = p->next)
        if (sl_str_eq(sl_str_c(p->key), key)) {
            p->value = copy;
            p->line = line;
            return 0;
        }
    if (props->count == SL_PROPS_COUNT)
        return SLUICE_EFULL;
    p = sl_arena_take(props->arena, sizeof(*p));
    if (!p)
        return SLUICE_ENOMEM;
    *p = (struct sl_prop){.value = copy, .line = line};
    p->key = sl_arena_copy(props->arena, key);
    if (!p->key)
        return SLUICE_ENOMEM;
    if (props->last)
        props->last->next = p;
    else
        props->first = p;
    props->last = p;
    props->count++;
    return 0;
}

/* ---- families ---- */

char sl_props_letter(struct sl_str s, size_t *at)
{
    while (*at < s.len && (s.at[*at] == '-' || s.at[*at] == '_'))
        ++*at;
    if (*at == s.len)
        return '\0';
    return s.at[*at] >= 'A' && s.at[*at] <= 'Z' ? (char)(s.at[(*at)++] | 0x20)
                                                : s.at[(*at)++];
}

/* Does one of the two stand below the other, or are they the same? */
static bool meet(struct sl_str key, struct sl_str family)
{
    size_t i = 0, k = 0;
    char a, b;

    do {
        a = sl_props_letter(key, &i);
        b = sl_props_letter(family, &k);
    } while (a == b && a);
    return (!a && (!b || b == '.')) || (!b && (a == '.' || a == '['));
}

bool sl_props_wants(const struct sl_props *props, struct sl_str key)
{
    const char *const *family = props->families;

    while (family && *family && !meet(key, sl_str_c(*family)))
        family++;
    return !family || *family;
}

struct sl_str sl_props_bare(struct sl_str text)
{
    return text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0
               ? sl_str_from(text, 3)
               : text;
}

/* ---- lines ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

static struct sl_str skip_blanks(struct sl_str s)
{
    while (s.len > 0 && is_blank(s.at[0]))
        s = sl_str_from(s, 1);
    return s;
}

/* An odd number of backslashes at the end. */
static bool goes_on(struct sl_str line)
{
    size_t n = 0;

    while (n < line.len && line.at[line.len - 1 - n] == '\\')
        n++;
    return n % 2 == 1;
}

/* Where the key ends: at a separator that no backslash stands before. */
static size_t key_end(struct sl_str s)
{
    size_t i = 0;

    while (i < s.len && s.at[i] != '=' && s.at[i] != ':' && !is_blank(s.at[i]))
        i += s.at[i] == '\\' && i + 1 < s.len ? 2 : 1;
    return i;
}

/* Blanks, at most one = or :, and blanks. */
static struct sl_str skip_separator(struct sl_str s)
{
    s = skip_blanks(s);
    if (s.len > 0 && (s.at[0] == '=' || s.at[0] == ':'))
        s = skip_blanks(sl_str_from(s, 1));
    return s;
}

/* ---- escapes ---- */

/* The four digits behind \u at the beginning of `s`; false if there are not
 * four. */
static bool read_unit(struct sl_str s, uint32_t *ret)
{
    *ret = 0;
    if (s.len < 6 || s.at[0] != '\\' || s.at[1] != 'u')
        return false;
    for (size_t i = 2; i < 6; i++) {
        char c = (char)(s.at[i] | 0x20);
        bool digit = c >= '0' && c <= '9';

        if (!digit && !(c >= 'a' && c <= 'f'))
            return false;
        *ret = *ret << 4 | (uint32_t)(digit ? c - '0' : c - 'a' + 10);
    }
    return true;
}

/* Read the character of one \uXXXX, or of the two that make a pair. Returns
 * how many bytes of `s` it took; 0 if it is none that a text can have. */
static size_t read_character(struct sl_str s, uint32_t *ret)
{
    uint32_t high, low;

    if (!read_unit(s, &high) || high == 0)
        return 0;
    *ret = high;
    if (high < 0xd800 || high > 0xdfff)
        return 6;
    if (high > 0xdbff || !read_unit(sl_str_from(s, 6), &low) || low < 0xdc00 ||
        low > 0xdfff)
        return 0;
    *ret = 0x10000 + ((high - 0xd800) << 10 | (low - 0xdc00));
    return 12;
}

/* As UTF-8, which is never longer than the escape. Returns its length. */
static size_t put_character(uint32_t c, char *out)
{
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = len; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[len] | c);
    return len;
}

/* Take the backslashes out: `out` has s.len bytes. False if a \u is wrong. */
static bool unescape(struct sl_str s, char *out, struct sl_str *ret)
{
    static const char letters[] = "tnrf", meant[] = "\t\n\r\f";
    size_t len = 0;

    for (size_t i = 0; i < s.len; i++) {
        const char *at;
        uint32_t c;
        size_t used;

        if (s.at[i] != '\\' || i + 1 == s.len) {
            out[len++] = s.at[i];
            continue;
        }
        if (s.at[i + 1] == 'u') {
            used = read_character(sl_str_from(s, i), &c);
            if (used == 0)
                return false;
            len += put_character(c, out + len);
            i += used - 1;
            continue;
        }
        at = memchr(letters, s.at[++i], sizeof(letters) - 1);
        out[len++] = at ? meant[at - letters] : s.at[i];
    }
    *ret = (struct sl_str){out, len};
    return true;
}

static int refuse(struct sl_diag *diag, unsigned line, const char *sentence)
{
    if (diag) {
        diag->line = line;
        diag->column = 1;
    }
    return sl_refuse(diag, SLUICE_ECONF, "%s", sentence);
}

static int read_pair(struct sl_props *props, struct sl_str s, unsigned line,
                     struct sl_diag *diag)
{
    static const char bad_escape[] =
        "\\u must be followed by the four hexadecimal digits of a character, "
        "like \\u00e9";
    size_t end = key_end(s);
    struct sl_str key = {s.at, end};
    struct sl_str value = sl_str_trim(skip_separator(sl_str_from(s, end)));
    char *room = sl_arena_take(props->arena, s.len + 1);

    if (!room)
        return SLUICE_ENOMEM;
    if (end == 0 || memchr(s.at, '\0', s.len))
        return refuse(diag, line,
                      "this line is not a setting; write key=value");
    if (!unescape(key, room, &key))
        return refuse(diag, line, bad_escape);
    if (!sl_props_wants(props, key))
        return 0;
    if (!unescape(value, room + key.len, &value))
        return refuse(diag, line, bad_escape);
    return sl_props_add(props, key, value, line);
}

int sl_props_read(struct sl_str text, struct sl_props *props,
                  struct sl_diag *diag)
{
    struct sl_str line;
    struct sl_buf whole; /* a line with those that it goes on in */
    unsigned number = 0, first = 0;
    int err = 0;

    text = sl_props_bare(text);
    sl_buf_init(&whole, SL_PROPS_BYTES, props->arena->alloc);
    while (!err && sl_props_line(&text, &line)) {
        bool more;

        number++;
        line = skip_blanks(line);
        if (whole.len == 0) {
            first = number;
            if (line.len == 0 || line.at[0] == '#' || line.at[0] == '!')
                continue;
        }
        more = goes_on(line);
        err = sl_buf_add(&whole, (struct sl_str){line.at, line.len - more});
        if (err || (more && text.len > 0))
            continue;
        if (whole.len > 0)
            err = read_pair(props, sl_buf_str(&whole), first, diag);
        sl_buf_clear(&whole);
    }
    sl_buf_done(&whole);
    return err;
}
