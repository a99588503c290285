/* quoted.c -- what a string in single quotes says.
 *
 * libfyaml 0.7.12 finds where such a string ends, but when there are more than
 * eight doubled quotes in it, its text may come out wrong, and memory is lost.
 * The rules are few: two quotes are one, and a line end with the blanks around
 * it is a blank, or, where blank lines follow, as many line ends as those.
 */
#include "policy/yaml/reader.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The end of the string whose first byte is at `from`. */
static size_t find_end(struct sl_str text, size_t from)
{
    size_t at = from;

    for (; at < text.len; at++) {
        if (text.at[at] != '\'')
            continue;
        if (at + 1 >= text.len || text.at[at + 1] != '\'')
            return at;
        at++;
    }
    return text.len;
}

/* Pass the line ends at *at and the blanks behind them; returns how many. */
static unsigned pass_lines(struct sl_str text, size_t *at)
{
    unsigned lines = 0;

    for (; *at < text.len; (*at)++) {
        if (text.at[*at] == '\n')
            lines++;
        else if (!is_blank(text.at[*at]))
            break;
    }
    return lines;
}

/* Write what `text` says to `out`, which is never longer; returns its length.
 */
static size_t unfold(struct sl_str text, char *out)
{
    size_t len = 0;

    for (size_t at = 0; at < text.len;) {
        if (text.at[at] == '\n') {
            unsigned lines = pass_lines(text, &at);

            while (len > 0 && is_blank(out[len - 1]))
                len--;
            if (lines == 1)
                out[len++] = ' ';
            for (; lines > 1; lines--)
                out[len++] = '\n';
            continue;
        }
        out[len++] = text.at[at];
        at += text.at[at] == '\'' ? 2 : 1;
    }
    return len;
}

bool sl_reader_single(struct sl_reader *r, size_t from, struct sl_str *ret)
{
    struct sl_str text = {r->text.at + from, find_end(r->text, from) - from};
    char *out = sl_arena_take(r->arena, text.len + 1);
    size_t len;

    if (!out)
        return false;
    len = unfold(text, out);
    out[len] = '\0';
    *ret = (struct sl_str){out, len};
    return true;
}
