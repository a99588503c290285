/* spring_read.c -- read the settings of a Java program, with messages. */
#include "cli/spring_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define KEY_BYTES 512

static void tell(struct sl_spring *spring, unsigned line, const char *fmt,
                 va_list args)
{
    char text[1024];

    vsnprintf(text, sizeof(text), fmt, args);
    spring->tell(spring->ctx, line, text);
}

void sl_spring_warn(struct sl_spring *spring, unsigned line, const char *fmt,
                    ...)
{
    va_list args;

    va_start(args, fmt);
    tell(spring, line, fmt, args);
    va_end(args);
}

void sl_spring_error(struct sl_spring *spring, unsigned line, const char *fmt,
                     ...)
{
    va_list args;

    va_start(args, fmt);
    tell(spring, line, fmt, args);
    va_end(args);
    spring->errors++;
}

bool sl_spring_same(struct sl_str a, struct sl_str b)
{
    size_t i = 0, k = 0;
    char c;

    do {
        c = sl_properties_letter(a, &i);
        if (c != sl_properties_letter(b, &k))
            return false;
    } while (c);
    return true;
}

struct sl_str sl_spring_step(struct sl_str *rest)
{
    const char *dot = rest->len ? memchr(rest->at, '.', rest->len) : NULL;
    struct sl_str first = {rest->at,
                           dot ? (size_t)(dot - rest->at) : rest->len};

    *rest = sl_str_from(*rest, first.len + (dot != NULL));
    return first;
}

struct sl_str sl_spring_value(struct sl_spring *spring,
                              const struct sl_prop *prop)
{
    struct sl_str value = sl_str_c(prop->value);
    const char *colon;

    if (value.len < 4 || memcmp(value.at, "${", 2) != 0 ||
        value.at[value.len - 1] != '}')
        return value;
    colon = strchr(prop->value, ':');
    if (!colon)
        return value;
    value = (struct sl_str){colon + 1,
                            (size_t)(value.at + value.len - 1 - (colon + 1))};
    sl_spring_warn(spring, prop->line,
                   "%s is read from the environment; its default %.*s is used",
                   prop->key, SL_STR_ARG(value));
    return value;
}

void sl_spring_number(struct sl_spring *spring, const struct sl_prop *prop,
                      uint64_t *ret)
{
    uint64_t n = 0;

    if (sl_parse_number(sl_spring_value(spring, prop), &n, NULL) || n == 0 ||
        n > SL_SPRING_COUNT_MAX)
        sl_spring_error(spring, prop->line,
                        "%s must be a whole number of at least 1, not \"%s\"",
                        prop->key, prop->value);
    else
        *ret = n;
}

void sl_spring_switch(struct sl_spring *spring, const struct sl_prop *prop,
                      bool *ret)
{
    static const char *const words[] = {"false", "true", "off", "on",
                                        "no",    "yes",  "0",   "1"};
    struct sl_str value = sl_spring_value(spring, prop);

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq_nocase(value, sl_str_c(words[i]))) {
            *ret = i % 2;
            return;
        }
    sl_spring_error(spring, prop->line, "%s must be true or false, not \"%s\"",
                    prop->key, prop->value);
}

bool sl_spring_span(struct sl_str text, sl_ns bare, sl_ns *ret)
{
    char lower[32];
    uint64_t number;

    if (sl_parse_number(text, &number, NULL) == 0 && number < 1000000000) {
        *ret = (sl_ns)number * bare;
        return true;
    }
    if (text.len > 2 && memcmp(text.at, "PT", 2) == 0)
        text = sl_str_from(text, 2);
    if (text.len >= sizeof(lower))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    text.at = lower;
    return sl_parse_duration(text, ret, NULL) == 0;
}

void sl_spring_unknown(struct sl_spring *spring, const struct sl_prop *prop,
                       struct sl_str name, const char *const *words,
                       size_t count)
{
    const char *near = sl_str_nearest(name, words, count);

    sl_spring_warn(spring, prop->line,
                   "%s is not a known setting and was ignored%s%s%s", prop->key,
                   near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "");
}

/* ---- by name ---- */

const struct sl_prop *sl_spring_find(const struct sl_spring *spring,
                                     const char *fmt, ...)
{
    const struct sl_prop *p = spring->props->first;
    char key[KEY_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(key, sizeof(key), fmt, args);
    va_end(args);
    while (p && !sl_spring_same(sl_str_c(p->key), sl_str_c(key)))
        p = p->next;
    return p;
}

/* Is the key this one, or below it? */
static bool is_below(struct sl_str key, struct sl_str name)
{
    size_t i = 0, k = 0;
    char a, b;

    do {
        a = sl_properties_letter(key, &i);
        b = sl_properties_letter(name, &k);
    } while (a == b && a);
    return !b && (!a || a == '.' || a == '[');
}

bool sl_spring_has(const struct sl_spring *spring, const char *fmt, ...)
{
    const struct sl_prop *p = spring->props->first;
    char key[KEY_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(key, sizeof(key), fmt, args);
    va_end(args);
    while (p && !is_below(sl_str_c(p->key), sl_str_c(key)))
        p = p->next;
    return p;
}
