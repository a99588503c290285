/* props.c -- application.properties.
 *
 *   key=value   key: value   key value     # comment   ! comment
 *
 * A line that ends in a backslash goes on in the next one, whose blanks at the
 * beginning do not count. Elsewhere a backslash takes the meaning from the
 * character behind it; \t, \n and \uXXXX for ASCII are read, others of those
 * have no place in a number or an address and stay as they are.
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

/* Take the backslashes out, in place of nothing: `out` has s.len bytes. */
static struct sl_str unescape(struct sl_str s, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];

        if (c == '\\' && i + 1 < s.len) {
            c = s.at[++i];
            c = c == 't' ? '\t' : c == 'n' ? '\n' : c;
        }
        out[len++] = c;
    }
    return (struct sl_str){out, len};
}

static int read_pair(struct sl_props *props, struct sl_str s, unsigned line,
                     struct sl_diag *diag)
{
    size_t end = key_end(s);
    struct sl_str key = {s.at, end};
    struct sl_str value = sl_str_trim(skip_separator(sl_str_from(s, end)));
    char *room = sl_arena_take(props->arena, s.len + 1);

    if (!room)
        return SLUICE_ENOMEM;
    key = unescape(key, room);
    value = unescape(value, room + key.len);
    if (key.len == 0 || memchr(s.at, '\0', s.len)) {
        if (diag) {
            diag->line = line;
            diag->column = 1;
        }
        return sl_refuse(diag, SLUICE_ECONF,
                         "this is no setting; write key=value");
    }
    return sl_props_add(props, key, value, line);
}

int sl_props_read(struct sl_str text, struct sl_props *props,
                  struct sl_diag *diag)
{
    struct sl_str line;
    struct sl_buf whole; /* a line with those that it goes on in */
    unsigned number = 0, first = 0;
    int err = 0;

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
