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
};

static int refuse(struct tree *t, size_t at, const char *sentence)
{
    if (t->diag) {
        t->diag->line = t->line;
        t->diag->column = (unsigned)at + 1;
    }
    return sl_refuse(t->diag, SLUICE_ECONF, "%s", sentence);
}

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
                      "only plain values are read here; write each key on a "
                      "line of its own");
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
        return refuse(t, indent, "a list belongs below a key");
    if (rest.len == 0 || rest.at[0] == '-')
        return refuse(t, indent, "lists of plain values only are read here");
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

    if (end == s.len || end == 0)
        return refuse(t, indent, "this is no setting; write key: value");
    if (key.len > 2 && (key.at[0] == '"' || key.at[0] == '\''))
        key = (struct sl_str){key.at + 1, key.len - 2};
    len = extend(t, key_len(t), key, false);
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

    while (indent < line.len && line.at[indent] == ' ')
        indent++;
    s = sl_str_trim(sl_str_from(line, indent));
    if (s.len == 0 || s.at[0] == '#')
        return 0;
    if (line.at[indent] == '\t')
        return refuse(t, indent, "a tab; YAML is indented with spaces");
    if (memchr(s.at, '\0', s.len))
        return refuse(t, indent, "a NUL byte; this is no text");
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

int sl_props_read_yml(struct sl_str text, struct sl_props *props,
                      struct sl_diag *diag)
{
    struct tree t = {.props = props, .diag = diag};
    struct sl_str line;
    bool begun = false;
    int err = 0;

    while (!err && sl_props_line(&text, &line)) {
        t.line++;
        if (line.len >= 3 && memcmp(line.at, "---", 3) == 0) {
            if (begun)
                break;
            continue;
        }
        err = read_line(&t, line);
        begun = begun || props->first;
    }
    return err;
}
