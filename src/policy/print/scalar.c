/* scalar.c -- texts as YAML, with as few quotes as are safe.
 *
 * Our own reader takes every scalar for a text, but others don't, and the
 * print is for them too: what could be a number, a boolean, a date or nothing
 * to any reader of YAML is put in quotes.
 */
#include <string.h>

#include "policy/print/printer.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- without quotes ---- */

/* What some version of YAML takes for something else than a text. */
static bool is_reserved(struct sl_str text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq_nocase(text, sl_str_c(words[i])))
            return true;
    return false;
}

/* May the byte at `i`, which is not the first, stand without quotes? */
static bool is_safe(struct sl_str text, size_t i, bool flow)
{
    char c = text.at[i];
    char next = (char)(i + 1 < text.len ? text.at[i + 1] : ' ');

    if (c == ' ') /* not two, and not in the end */
        return next != ' ';
    if (c == ':')
        return !flow && next != ' ';
    return is_letter(c) || is_digit(c) ||
           (c != '\0' && strchr(flow ? "_./-@+" : "_./-@+,*", c));
}

static bool is_plain(struct sl_str text, bool flow)
{
    if (text.len == 0 || is_reserved(text))
        return false;
    if (!is_letter(text.at[0]) && text.at[0] != '/' &&
        (text.len == 1 || text.at[0] != '.' || text.at[1] != '/'))
        return false;
    for (size_t i = 1; i < text.len; i++)
        if (!is_safe(text, i, flow))
            return false;
    return true;
}

/* ---- in quotes ---- */

/* A character that has to be escaped: its length, and what it becomes. Those
 * beyond ASCII are line ends to some readers, or refused as they are. */
static size_t find_escape(struct sl_str rest, char out[8])
{
    static const struct {
        struct sl_str raw;
        const char *escape;
    } all[] = {
        {{"\"", 1},           "\\\""   },
        {{"\\", 1},           "\\\\"   },
        {{"\n", 1},           "\\n"    },
        {{"\r", 1},           "\\r"    },
        {{"\t", 1},           "\\t"    },
        {{"\xe2\x80\xa8", 3}, "\\u2028"},
        {{"\xe2\x80\xa9", 3}, "\\u2029"},
        {{"\xef\xbb\xbf", 3}, "\\ufeff"},
        {{"\xef\xbf\xbe", 3}, "\\ufffe"},
        {{"\xef\xbf\xbf", 3}, "\\uffff"},
    };
    const unsigned char *c = (const unsigned char *)rest.at;

    if (c[0] >= 0x20 && c[0] < 0x7f && c[0] != '"' && c[0] != '\\')
        return 0;
    for (size_t i = 0; i < SL_LEN(all); i++)
        if (rest.len >= all[i].raw.len &&
            memcmp(rest.at, all[i].raw.at, all[i].raw.len) == 0) {
            memcpy(out, all[i].escape, strlen(all[i].escape) + 1);
            return all[i].raw.len;
        }
    if (rest.len < 2 || c[0] != 0xc2 || c[1] > 0x9f)
        return 0;
    memcpy(out, c[1] > 0x8f ? "\\u009" : "\\u008", 6);
    out[5] = "0123456789abcdef"[c[1] & 15];
    out[6] = '\0';
    return 2;
}

/* The text in quotes. If it is a `value`, a "${" in it means itself; keys have
 * nothing replaced. */
static int add_quoted(struct sl_buf *out, struct sl_str text, bool value)
{
    int err = sl_buf_add(out, SL_STR("\""));
    char escape[8];

    for (size_t i = 0, len = 1; i < text.len && !err; i += len) {
        struct sl_str rest = sl_str_from(text, i);
        size_t escaped = find_escape(rest, escape);

        len = escaped ? escaped : 1;
        if (escaped)
            err = sl_buf_add(out, sl_str_c(escape));
        else if (value && rest.len > 1 && memcmp(rest.at, "${", 2) == 0)
            err = sl_buf_add(out, SL_STR("$$"));
        else
            err = sl_buf_add(out, (struct sl_str){rest.at, 1});
    }
    return err ? err : sl_buf_add(out, SL_STR("\""));
}

int sl_print_scalar(struct sl_buf *out, struct sl_str text, bool flow)
{
    return is_plain(text, flow) ? sl_buf_add(out, text)
                                : add_quoted(out, text, true);
}

int sl_print_key(struct sl_buf *out, struct sl_str key)
{
    return is_plain(key, true) ? sl_buf_add(out, key)
                               : add_quoted(out, key, false);
}

int sl_print_written(struct sl_buf *out, struct sl_str written)
{
    return add_quoted(out, written, false);
}

/* ---- bodies ---- */

/* A number, true or false: without quotes it is no text to a body. Whatever
 * else has only such bytes may stay as it was, too. */
static bool is_bare(const struct sl_yaml_node *node)
{
    struct sl_str text = node->text;

    if (node->quoted)
        return false;
    if (sl_str_eq(text, SL_STR("true")) || sl_str_eq(text, SL_STR("false")))
        return true;
    if (text.at[0] == '-')
        text = sl_str_from(text, 1);
    if (text.len == 0 || !is_digit(text.at[0]))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!is_digit(text.at[i]) && text.at[i] != '.')
            return false;
    return true;
}

static int print_leaf(struct sl_buf *out, const struct sl_yaml_node *node)
{
    if (node->kind == SL_NODE_EMPTY)
        return sl_buf_add(out, SL_STR("null"));
    if (node->substituted)
        return sl_print_written(out, node->written);
    return is_bare(node) ? sl_buf_add(out, node->text)
                         : sl_print_scalar(out, node->text, true);
}

/* `key: ` of a child of a map. */
static int print_member(struct sl_buf *out, const struct sl_yaml_node *child)
{
    /* A long key is one only if it is said to be. */
    int err = child->key.len > 128 ? sl_buf_add(out, SL_STR("? ")) : 0;

    if (!err)
        err = sl_print_key(out, child->key);
    return err ? err : sl_buf_add(out, SL_STR(": "));
}

int sl_print_body(struct sl_buf *out, const struct sl_yaml_node *node)
{
    bool map = node->kind == SL_NODE_MAP;
    int err;

    if (!map && node->kind != SL_NODE_LIST)
        return print_leaf(out, node);
    if (!node->child)
        return sl_buf_add(out, map ? SL_STR("{}") : SL_STR("[]"));
    err = sl_buf_add(out, map ? SL_STR("{ ") : SL_STR("["));
    for (const struct sl_yaml_node *c = node->child; c && !err; c = c->next) {
        if (c != node->child)
            err = sl_buf_add(out, SL_STR(", "));
        if (!err && map)
            err = print_member(out, c);
        if (!err)
            err = sl_print_body(out, c); /* SL_YAML_DEPTH deep at most */
    }
    return err ? err : sl_buf_add(out, map ? SL_STR(" }") : SL_STR("]"));
}
