/* properties.c -- read application.properties and application.yml.
 *
 *   key=value   key: value   key value     # comment   ! comment
 *
 * A backslash at the end of a line continues it; the next line's leading blanks
 * do not count. Elsewhere a backslash quotes the next character, except in \t,
 * \n, \r, \f and \uXXXX, which is UTF-16.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/spring.h"

/* The next line of *text, without its end; false after the last. */
static bool next_line(struct sl_str *text, struct sl_str *ret)
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

/* The text without its byte order mark. */
static struct sl_str without_mark(struct sl_str text)
{
    bool marked = text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0;

    return sl_str_from(text, marked ? 3 : 0);
}

int sl_properties_add(struct sl_properties *props, struct sl_str key,
                      struct sl_str value, unsigned line)
{
    struct sl_prop **at = &props->first, *p;
    char *copy = sl_arena_copy(props->arena, value);

    while (*at && !sl_str_eq(sl_str_c((*at)->key), key))
        at = &(*at)->next;
    p = *at;
    if (!p) {
        if (props->count == SL_PROPERTIES_COUNT)
            return SLUICE_EFULL;
        p = sl_arena_take(props->arena, sizeof(*p));
        if (!p)
            return SLUICE_ENOMEM;
        *p = (struct sl_prop){.key = sl_arena_copy(props->arena, key)};
        if (!p->key)
            return SLUICE_ENOMEM;
        *at = p;
        props->count++;
    }
    p->value = copy;
    p->line = line;
    return copy ? 0 : SLUICE_ENOMEM;
}

char sl_properties_letter(struct sl_str s, size_t *at)
{
    while (*at < s.len && (s.at[*at] == '-' || s.at[*at] == '_'))
        ++*at;
    if (*at == s.len)
        return '\0';
    return s.at[*at] >= 'A' && s.at[*at] <= 'Z' ? (char)(s.at[(*at)++] | 0x20)
                                                : s.at[(*at)++];
}

/* Are the keys equal, or is one below the other? */
static bool meet(struct sl_str key, struct sl_str family)
{
    size_t i = 0, k = 0;
    char a, b;

    do {
        a = sl_properties_letter(key, &i);
        b = sl_properties_letter(family, &k);
    } while (a == b && a);
    return (!a && (!b || b == '.')) || (!b && (a == '.' || a == '['));
}

/* Is the key in a wanted family, or the parent of such a key? */
static bool is_wanted(const struct sl_properties *props, struct sl_str key)
{
    const char *const *family = props->families;

    while (family && *family && !meet(key, sl_str_c(*family)))
        family++;
    return !family || *family;
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

/* Does the line end in an odd number of backslashes? */
static bool goes_on(struct sl_str line)
{
    size_t n = 0;

    while (n < line.len && line.at[line.len - 1 - n] == '\\')
        n++;
    return n % 2 == 1;
}

/* The end of the key: at a separator without a backslash before it. */
static size_t key_end(struct sl_str s)
{
    size_t i = 0;

    while (i < s.len && s.at[i] != '=' && s.at[i] != ':' && !is_blank(s.at[i]))
        i += s.at[i] == '\\' && i + 1 < s.len ? 2 : 1;
    return i;
}

/* Skip blanks, at most one = or :, and blanks. */
static struct sl_str skip_separator(struct sl_str s)
{
    s = skip_blanks(s);
    if (s.len > 0 && (s.at[0] == '=' || s.at[0] == ':'))
        s = skip_blanks(sl_str_from(s, 1));
    return s;
}

/* ---- escapes ---- */

/* Read the four digits after \u at the start of `s`; false if there are
 * fewer. */
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

/* Read one \uXXXX, or the two of a surrogate pair. Returns the number of bytes
 * read; 0 if it is not a valid character. */
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

/* Write UTF-8, which is never longer than the escape. Returns its length. */
static size_t put_character(uint32_t c, char *out)
{
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = len; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[len] | c);
    return len;
}

/* Remove the backslashes; `out` has s.len bytes. False for an invalid \u. */
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

static int refuse(struct sl_diag *diag, unsigned line, size_t at,
                  const char *sentence)
{
    if (diag) {
        diag->line = line;
        diag->column = (unsigned)at + 1;
    }
    return sl_diag_error(diag, SLUICE_ECONF, "%s", sentence);
}

static int read_pair(struct sl_properties *props, struct sl_str s,
                     unsigned line, struct sl_diag *diag)
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
        return refuse(diag, line, 0,
                      "this line is not a setting; write key=value");
    if (!unescape(key, room, &key))
        return refuse(diag, line, 0, bad_escape);
    if (!is_wanted(props, key))
        return 0;
    if (!unescape(value, room + key.len, &value))
        return refuse(diag, line, 0, bad_escape);
    return sl_properties_add(props, key, value, line);
}

int sl_properties_read(struct sl_str text, struct sl_properties *props,
                       struct sl_diag *diag)
{
    struct sl_str line;
    struct sl_buf whole; /* a line with its continuations */
    unsigned number = 0, first = 0;
    int err = 0;

    text = without_mark(text);
    sl_buf_init(&whole, SL_PROPERTIES_BYTES, props->arena->alloc);
    while (!err && next_line(&text, &line)) {
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

/* ---- application.yml, the subset that such files use ----
 *
 *   rate-limit:
 *     tiers:
 *       free: { not: read }       refused: flow style is not read
 *       starter:
 *         daily-limit: 200        rate-limit.tiers.starter.daily-limit
 *     list:
 *       - one                     rate-limit.list[0]
 *
 * The indentation of a line gives its parent key. Only the first document is
 * read; the others are for profiles.
 *
 * A key outside the wanted families is skipped with everything that belongs to
 * it: lines that are indented further, list items at the same indentation, and
 * text inside open brackets or quotes.
 */

#define KEY_BYTES 512

struct level {
    size_t indent;
    size_t len;     /* of the key so far */
    unsigned items; /* of list items so far */
};

struct tree {
    struct sl_properties *props;
    struct sl_diag *diag;
    struct level levels[SL_PROPERTIES_DEPTH];
    unsigned depth;
    char key[KEY_BYTES];
    unsigned line;
    bool begun; /* the document is not empty */

    bool passing;       /* inside a key that is not wanted */
    size_t pass_indent; /* of that key */
    bool open;          /* a bracket or a quote is open */
    unsigned brackets;
    char quote; /* or NUL */
};

/* ---- skipping ---- */

/* '' inside '...' is a quote. */
static bool is_doubled(struct sl_str s, size_t i)
{
    return s.at[i] == '\'' && i + 1 < s.len && s.at[i + 1] == '\'';
}

/* Does the open bracket or quote end on this line? */
static void scan_open(struct tree *t, struct sl_str s)
{
    for (size_t i = 0; i < s.len && t->open; i++) {
        char c = s.at[i];

        if (t->quote) {
            if (t->quote == '"' ? c == '\\' : is_doubled(s, i))
                i++;
            else if (c == t->quote)
                t->quote = '\0';
        } else if (c == '"' || c == '\'') {
            t->quote = c;
        } else if (c == '[' || c == '{') {
            t->brackets++;
        } else if (t->brackets > 0 && (c == ']' || c == '}')) {
            t->brackets--;
        } else if (c == '#' && i > 0 && s.at[i - 1] == ' ') {
            break;
        }
        t->open = t->quote || t->brackets > 0;
    }
}

/* Skip the key at `indent`; `rest` is the text after it. */
static int pass_over(struct tree *t, size_t indent, struct sl_str rest)
{
    t->passing = true;
    t->pass_indent = indent;
    while (rest.len > 0 && (rest.at[0] == '&' || rest.at[0] == '!')) {
        const char *blank = memchr(rest.at, ' ', rest.len); /* &anchor !tag */

        rest = blank ? sl_str_trim((struct sl_str){
                           blank, rest.len - (size_t)(blank - rest.at)})
                     : sl_str_from(rest, rest.len);
    }
    t->brackets = 0;
    t->quote = '\0';
    t->open = rest.len > 0 && strchr("[{\"'", rest.at[0]);
    scan_open(t, rest);
    return 0;
}

/* A list item, or a mapping entry with ? and :. */
static bool is_part(struct sl_str s)
{
    return strchr("-?:", s.at[0]) && (s.len == 1 || s.at[1] == ' ');
}

/* Does the line belong to the skipped key? `s` has no leading blanks. */
static bool passes(struct tree *t, struct sl_str s, size_t indent)
{
    if (t->open) {
        scan_open(t, s);
        return true;
    }
    if (t->passing && s.len > 0 && s.at[0] != '#')
        t->passing =
            indent > t->pass_indent || (indent == t->pass_indent && is_part(s));
    return t->passing;
}

/* ---- reading ---- */

/* The text between quotes. In '...' two quotes are one; in "..." a backslash
 * quotes \ " and /, and other escapes are refused. */
static int read_quoted(struct tree *t, struct sl_str s, size_t at,
                       struct sl_str *ret)
{
    char quote = s.at[0];
    char *room = sl_arena_take(t->props->arena, s.len);
    struct sl_str rest;
    size_t i, len = 0;

    if (!room)
        return SLUICE_ENOMEM;
    for (i = 1; i < s.len && (s.at[i] != quote || is_doubled(s, i)); i++) {
        bool escape = quote == '"' && s.at[i] == '\\';

        if (escape && (i + 1 == s.len || !strchr("\\\"/", s.at[i + 1])))
            return refuse(t->diag, t->line, at + i,
                          "this escape is not read; write its character");
        i += escape || (quote == '\'' && is_doubled(s, i));
        room[len++] = s.at[i];
    }
    if (i == s.len)
        return refuse(t->diag, t->line, at,
                      "the quote is not closed on this line");
    rest = sl_str_trim(sl_str_from(s, i + 1));
    if (rest.len > 0 && rest.at[0] != '#')
        return refuse(t->diag, t->line, at + i + 1,
                      "there is more after the closing quote; quote the whole "
                      "value");
    *ret = (struct sl_str){room, len};
    return 0;
}

/* A value without its quotes and its comment. */
static int read_value(struct tree *t, struct sl_str s, size_t at,
                      struct sl_str *ret)
{
    char first = s.at[0];

    if (first == '"' || first == '\'')
        return read_quoted(t, s, at, ret);
    if (strchr("{[&*|>!%@`", first))
        return refuse(t->diag, t->line, at,
                      "only plain values are supported here; write each key on "
                      "its own line");
    for (size_t i = 1; i < s.len; i++)
        if (s.at[i] == '#' && (s.at[i - 1] == ' ' || s.at[i - 1] == '\t')) {
            s.len = i;
            break;
        }
    *ret = sl_str_trim(s);
    return 0;
}

/* Append `step` to the first `len` bytes of the key. Returns the new length, or
 * 0 if it is too long. */
static size_t extend(struct tree *t, size_t len, struct sl_str step, bool item)
{
    int n = snprintf(t->key + len, sizeof(t->key) - len,
                     item ? "%s[%.*s]" : "%s%.*s", len && !item ? "." : "",
                     SL_STR_ARG(step));

    return n > 0 && (size_t)n < sizeof(t->key) - len ? len + (size_t)n : 0;
}

static int add_value(struct tree *t, size_t len, struct sl_str rest, size_t at)
{
    struct sl_str value;
    int err = read_value(t, rest, at, &value);

    if (err)
        return err;
    return sl_properties_add(t->props, (struct sl_str){t->key, len}, value,
                             t->line);
}

static int push(struct tree *t, size_t indent, size_t len)
{
    if (t->depth == SL_PROPERTIES_DEPTH)
        return refuse(t->diag, t->line, indent,
                      "the keys are nested too deeply");
    t->levels[t->depth++] = (struct level){.indent = indent, .len = len};
    return 0;
}

/* The position of the colon after a key, or s.len. */
static size_t colon(struct sl_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] == ':' &&
            (i + 1 == s.len || s.at[i + 1] == ' ' || s.at[i + 1] == '\t'))
            return i;
    return s.len;
}

/* "key: value" or "key:" */
static int read_key(struct tree *t, struct sl_str s, size_t indent)
{
    size_t end = colon(s);
    struct sl_str key = {s.at, end};
    struct sl_str rest = sl_str_trim(sl_str_from(s, end + 1));
    size_t len;

    if (t->props->families && t->depth == 0 && is_part(s))
        return pass_over(t, indent, rest);
    if (end == s.len || end == 0)
        return refuse(t->diag, t->line, indent,
                      "this line is not a setting; write key: value");
    if (key.len > 2 && (key.at[0] == '"' || key.at[0] == '\''))
        key = (struct sl_str){key.at + 1, key.len - 2};
    len = extend(t, t->depth ? t->levels[t->depth - 1].len : 0, key, false);
    if (!is_wanted(t->props, sl_str_c(t->key)))
        return pass_over(t, indent, rest);
    if (!len)
        return refuse(t->diag, t->line, indent, "the key is too long");
    if (rest.len > 0 && rest.at[0] != '#')
        return add_value(t, len, rest, indent + end + 2);
    return push(t, indent, len);
}

/* "- value", or "- key: value" of a list of maps. */
static int read_item(struct tree *t, struct sl_str s, size_t indent)
{
    struct level *level = t->depth ? &t->levels[t->depth - 1] : NULL;
    struct sl_str rest = sl_str_trim(sl_str_from(s, 1));
    size_t inner = indent + s.len - rest.len; /* of its first key */
    char number[16];
    size_t len;
    int err;

    if (!level)
        return refuse(t->diag, t->line, indent, "a list must be below a key");
    if (rest.len == 0 || rest.at[0] == '-')
        return refuse(t->diag, t->line, indent,
                      "only lists of plain values and of keys are supported "
                      "here; write the first key of an item after its dash");
    snprintf(number, sizeof(number), "%u", level->items++);
    len = extend(t, level->len, sl_str_c(number), true);
    if (!len)
        return refuse(t->diag, t->line, indent, "the key is too long");
    if (strchr("\"'{[&*|>!%@`", rest.at[0]) || colon(rest) == rest.len)
        return add_value(t, len, rest, inner);
    err = push(t, inner - 1, len); /* its keys are indented further */
    return err ? err : read_key(t, rest, inner);
}

static int read_line(struct tree *t, struct sl_str line)
{
    size_t indent = 0;
    struct sl_str s;
    bool tab;

    while (indent < line.len && line.at[indent] == ' ')
        indent++;
    s = sl_str_trim(sl_str_from(line, indent));
    tab = indent < line.len && line.at[indent] == '\t';
    if (passes(t, s, tab ? SIZE_MAX : indent) || s.len == 0 || s.at[0] == '#')
        return 0;
    t->begun = true;
    if (tab)
        return refuse(t->diag, t->line, indent,
                      "tab found; indent YAML with spaces");
    if (memchr(s.at, '\0', s.len))
        return refuse(t->diag, t->line, indent,
                      "NUL byte found; the file must be text");
    if (s.at[0] == '-' && (s.len == 1 || s.at[1] == ' ')) {
        /* A list item may have the same indentation as its key. */
        while (t->depth && t->levels[t->depth - 1].indent > indent)
            t->depth--;
        return read_item(t, s, indent);
    }
    while (t->depth && t->levels[t->depth - 1].indent >= indent)
        t->depth--;
    return read_key(t, s, indent);
}

static bool is_mark(struct sl_str line, const char *mark)
{
    return line.len >= 3 && memcmp(line.at, mark, 3) == 0;
}

int sl_properties_read_yml(struct sl_str text, struct sl_properties *props,
                           struct sl_diag *diag)
{
    struct tree t = {.props = props, .diag = diag};
    struct sl_str line;
    int err = 0;

    text = without_mark(text);
    while (!err && next_line(&text, &line)) {
        t.line++;
        if (is_mark(line, "---") || is_mark(line, "...")) {
            if (t.begun) {
                props->more = text.len > 0 ? t.line : 0;
                break;
            }
        } else if (t.begun || !is_mark(line, "%YA")) { /* %YAML 1.2 */
            err = read_line(&t, line);
        }
    }
    return err;
}
