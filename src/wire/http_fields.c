/* http_fields.c -- the fields Forwarded (RFC 7239) and Cache-Control.
 *
 *     element = [ pair ] *( ";" [ pair ] )
 *     pair    = token "=" ( token | quoted-string )
 *     node    = ( IPv4 | "[" IPv6 "]" | "unknown" | "_" name ) [ ":" port ]
 *     port    = 1*5DIGIT | "_" name
 */
#include "wire/http_fields.h"

#include <string.h>

/* ---- Forwarded: splitting ---- */

/* Is there an odd number of backslashes before `at`? */
static bool is_escaped(struct sl_str list, size_t at)
{
    size_t from = at;

    while (from > 0 && list.at[from - 1] == '\\')
        from--;
    return (at - from) % 2 == 1;
}

struct sl_str sl_forwarded_cut(struct sl_str *list)
{
    size_t at = list->len;
    bool quoted = false;
    struct sl_str element;

    while (at > 0 && (quoted || list->at[at - 1] != ',')) {
        at--;
        if (list->at[at] == '"' && !(quoted && is_escaped(*list, at)))
            quoted = !quoted;
    }
    element = sl_str_trim(sl_str_from(*list, at));
    list->len = at > 0 ? at - 1 : 0;
    return element;
}

/* ---- Forwarded: an element ---- */

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

static bool is_token(char c)
{
    return is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Remove `len` bytes from *text and return them. */
static struct sl_str pass(struct sl_str *text, size_t len)
{
    struct sl_str passed = {text->at, len};

    *text = sl_str_from(*text, len);
    return passed;
}

static bool pass_char(struct sl_str *text, char c)
{
    if (text->len == 0 || text->at[0] != c)
        return false;
    pass(text, 1);
    return true;
}

static struct sl_str pass_token(struct sl_str *text)
{
    size_t len = 0;

    while (len < text->len && is_token(text->at[len]))
        len++;
    return pass(text, len);
}

/* The text in quotes, with its backslashes. Begins after the first quote. */
static bool pass_quoted(struct sl_str *text, struct sl_str *ret)
{
    size_t len = 0;

    while (len < text->len && text->at[len] != '"') {
        unsigned char c = (unsigned char)text->at[len];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
        len += c == '\\' ? 2 : 1;
    }
    if (len >= text->len)
        return false;
    *ret = pass(text, len);
    pass(text, 1);
    return true;
}

static bool pass_pair(struct sl_str *text, struct sl_str *name,
                      struct sl_str *value)
{
    *name = pass_token(text);
    if (name->len == 0 || !pass_char(text, '='))
        return false;
    if (pass_char(text, '"'))
        return pass_quoted(text, value);
    *value = pass_token(text);
    return value->len > 0;
}

/* ---- Forwarded: a node ---- */

static bool is_hidden_name(struct sl_str text)
{
    for (size_t i = 1; i < text.len; i++)
        if (!is_alnum(text.at[i]) && !strchr("._-", text.at[i]))
            return false;
    return text.len > 1 && text.at[0] == '_';
}

/* ":4711", ":_name" or "". */
static bool is_port(struct sl_str text)
{
    if (text.len == 0)
        return true;
    if (!pass_char(&text, ':') || text.len == 0)
        return false;
    if (is_hidden_name(text))
        return true;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    return text.len <= 5;
}

/* Check the grammar first, because the address parser accepts more: ports,
 * zones, IPv6 without brackets. A backslash is refused: an address needs no
 * escapes. */
static bool read_node(struct sl_str node, struct sl_ip *ret)
{
    bool v6 = node.len > 0 && node.at[0] == '[';
    const char *end =
        node.len > 0 ? memchr(node.at, v6 ? ']' : ':', node.len) : NULL;
    struct sl_str address = node;

    if (v6 && !end)
        return false;
    if (end)
        address.len = (size_t)(end - node.at) + v6;
    if (!is_port(sl_str_from(node, address.len)) ||
        (v6 && memchr(address.at, '%', address.len)))
        return false;
    return sl_ip_parse(address, ret);
}

bool sl_forwarded_for(struct sl_str element, struct sl_ip *ret)
{
    struct sl_str name, value, node = {NULL, 0};
    bool found = false;

    while (element.len > 0) {
        if (pass_char(&element, ';'))
            continue;
        if (!pass_pair(&element, &name, &value))
            return false;
        if (element.len > 0 && element.at[0] != ';')
            return false;
        if (!sl_str_eq_nocase(name, SL_STR("for")))
            continue;
        if (found)
            return false;
        found = true;
        node = value;
    }
    return found && read_node(node, ret);
}

/* ---- Cache-Control ----
 *
 *     Cache-Control: public, max-age=600, ext="a, max-age=1"
 *
 * Commas in quotes do not separate. An invalid number of seconds is ignored; a
 * number that is too large is the maximum.
 */

#define LIFE_MOST (10 * 365 * 86400 * SL_S)

/* Remove the first directive. False if there is none. */
static bool cut(struct sl_str *field, struct sl_str *ret)
{
    bool quoted = false;
    size_t len = 0;

    if (field->len == 0)
        return false;
    while (len < field->len && (quoted || field->at[len] != ',')) {
        if (quoted && field->at[len] == '\\' && len + 1 < field->len)
            len++;
        else if (field->at[len] == '"')
            quoted = !quoted;
        len++;
    }
    *ret = sl_str_trim((struct sl_str){field->at, len});
    *field = sl_str_from(*field, len + 1);
    return true;
}

/* The value of `name=VALUE` without quotes; false for another name. */
static bool value_of(struct sl_str directive, struct sl_str name,
                     struct sl_str *ret)
{
    struct sl_str word = {directive.at, name.len};

    if (directive.len <= name.len || directive.at[name.len] != '=' ||
        !sl_str_eq_nocase(word, name))
        return false;
    *ret = sl_str_from(directive, name.len + 1);
    if (ret->len >= 2 && ret->at[0] == '"' && ret->at[ret->len - 1] == '"')
        *ret = (struct sl_str){ret->at + 1, ret->len - 2};
    return true;
}

static sl_ns read_seconds(struct sl_str text)
{
    sl_ns life = 0;

    if (text.len == 0)
        return SL_NS_NONE;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return SL_NS_NONE;
        if (life < LIFE_MOST)
            life = life * 10 + (text.at[i] - '0') * SL_S;
    }
    return life < LIFE_MOST ? life : LIFE_MOST;
}

static sl_ns life_of(struct sl_str directive)
{
    struct sl_str value;

    if (sl_str_eq_nocase(directive, SL_STR("no-store")) ||
        sl_str_eq_nocase(directive, SL_STR("no-cache")))
        return 0;
    if (value_of(directive, SL_STR("max-age"), &value))
        return read_seconds(value);
    return SL_NS_NONE;
}

sl_ns sl_cache_control_life(struct sl_str field)
{
    struct sl_str directive;
    sl_ns life = SL_NS_NONE;

    while (cut(&field, &directive)) {
        sl_ns one = life_of(directive);

        if (one != SL_NS_NONE && (life == SL_NS_NONE || one < life))
            life = one;
    }
    return life;
}
