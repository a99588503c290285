/* yml.c -- application.yml, as far as such files go.
 *
 *   rate-limit:
 *     tiers:
 *       free: { not: read }       refused: write it in lines of its own
 *       starter:
 *         daily-limit: 200        rate-limit.tiers.starter.daily-limit
 *     list:
 *       - one                     rate-limit.list[0]
 *
 * A line's indentation says below which of the keys above it stands. Only the
 * first document of a file is read; the others are for profiles.
 *
 * A key of no family that is asked for is passed over with all that belongs to
 * it: the lines that are indented further, the items of a list that are not,
 * and what a bracket or a quote holds open.
 */
#include <stdio.h>
#include <string.h>

#include "cli/spring/props.h"

#define KEY_BYTES 512

struct level {
    size_t indent;
    size_t len;     /* of the key up to here */
    unsigned items; /* of a list below it, so far */
};

struct tree {
    struct sl_props *props;
    struct sl_diag *diag;
    struct level levels[SL_PROPS_DEPTH];
    unsigned depth;
    char key[KEY_BYTES];
    unsigned line;
    bool begun; /* there was something in this document */

    bool passing;       /* over a key that nobody asks for */
    size_t pass_indent; /* of that key */
    bool open;          /* it has a bracket or a quote that is not closed */
    unsigned brackets;
    char quote; /* or NUL */
};

static int refuse(struct tree *t, size_t at, const char *sentence)
{
    if (t->diag) {
        t->diag->line = t->line;
        t->diag->column = (unsigned)at + 1;
    }
    return sl_refuse(t->diag, SLUICE_ECONF, "%s", sentence);
}

/* ---- passing over ---- */

/* '' inside '...' is one of them. */
static bool is_doubled(struct sl_str s, size_t i)
{
    return s.at[i] == '\'' && i + 1 < s.len && s.at[i + 1] == '\'';
}

/* Does what is open end on this line? */
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

/* Pass over the key at `indent`; `rest` stands behind it. */
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

/* An item of a list, or a part of a mapping that is written with ? and :. */
static bool is_part(struct sl_str s)
{
    return strchr("-?:", s.at[0]) && (s.len == 1 || s.at[1] == ' ');
}

/* Does the line belong to what is passed over? `s` is without its blanks. */
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

/* The key so far: that of the innermost level. */
static size_t key_len(const struct tree *t)
{
    return t->depth ? t->levels[t->depth - 1].len : 0;
}

/* A value without quotes and without a comment behind it. */
static int read_value(struct tree *t, struct sl_str s, size_t at,
                      struct sl_str *ret)
{
    char first = s.at[0];
    const char *end;

    if (first == '"' || first == '\'') {
        end = memchr(s.at + 1, first, s.len - 1);
        if (!end)
            return refuse(t, at, "the quote is not closed on this line");
        *ret = (struct sl_str){s.at + 1, (size_t)(end - s.at) - 1};
        return 0;
    }
    if (strchr("{[&*|>!%@`", first))
        return refuse(t, at,
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

/* Put `step` behind the first `len` bytes of the key. Returns the new length,
 * or 0 if it is too long. */
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
    return sl_props_add(t->props, (struct sl_str){t->key, len}, value, t->line);
}

/* "- value" */
static int read_item(struct tree *t, struct sl_str s, size_t indent)
{
    struct level *level = t->depth ? &t->levels[t->depth - 1] : NULL;
    struct sl_str rest = sl_str_trim(sl_str_from(s, 1));
    char number[16];
    size_t len;

    if (!level)
        return refuse(t, indent, "a list must be below a key");
    if (rest.len == 0 || rest.at[0] == '-')
        return refuse(t, indent,
                      "only lists of plain values are supported here");
    snprintf(number, sizeof(number), "%u", level->items++);
    len = extend(t, key_len(t), sl_str_c(number), true);
    if (!len)
        return refuse(t, indent, "the key is too long");
    return add_value(t, len, rest, indent + 2);
}

/* Where the colon behind a key stands, or s.len. */
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
        return refuse(t, indent,
                      "this line is not a setting; write key: value");
    if (key.len > 2 && (key.at[0] == '"' || key.at[0] == '\''))
        key = (struct sl_str){key.at + 1, key.len - 2};
    len = extend(t, key_len(t), key, false);
    if (!sl_props_wants(t->props, sl_str_c(t->key)))
        return pass_over(t, indent, rest);
    if (!len)
        return refuse(t, indent, "the key is too long");
    if (rest.len > 0 && rest.at[0] != '#')
        return add_value(t, len, rest, indent + end + 2);
    if (t->depth == SL_PROPS_DEPTH)
        return refuse(t, indent, "the keys are nested too deeply");
    t->levels[t->depth++] = (struct level){.indent = indent, .len = len};
    return 0;
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
        return refuse(t, indent, "tab found; indent YAML with spaces");
    if (memchr(s.at, '\0', s.len))
        return refuse(t, indent, "NUL byte found; the file must be text");
    if (s.at[0] == '-' && (s.len == 1 || s.at[1] == ' ')) {
        /* An item may stand below its key without being indented. */
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

int sl_props_read_yml(struct sl_str text, struct sl_props *props,
                      struct sl_diag *diag)
{
    struct tree t = {.props = props, .diag = diag};
    struct sl_str line;
    int err = 0;

    text = sl_props_bare(text);
    while (!err && sl_props_line(&text, &line)) {
        t.line++;
        if (is_mark(line, "---") || is_mark(line, "...")) {
            if (t.begun)
                break;
        } else if (t.begun || !is_mark(line, "%YA")) { /* %YAML 1.2 */
            err = read_line(&t, line);
        }
    }
    return err;
}
