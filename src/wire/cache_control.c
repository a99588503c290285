/* cache_control.c -- how long an answer may be kept.
 *
 *     Cache-Control: public, max-age=600, ext="a, max-age=1"
 *
 * Quotes hide commas. What is not a number of seconds is passed over; one that
 * is too large is the largest.
 */
#include "wire/cache_control.h"

#include <string.h>

#define LIFE_MOST (10 * 365 * 86400 * SL_S)

/* Cut the first directive off. False if there is none left. */
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

/* The value of `name=VALUE`, without quotes; false if it is another one. */
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
