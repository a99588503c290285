/* spring.c -- settings of two Java programs as a policy. */
#include "cli/spring/spring.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define COUNT_MAX UINT64_C(4000000000) /* what a bucket can hold, roundly */

static void say(struct sl_spring *spring, unsigned line, const char *fmt,
                va_list args) SL_PRINTF(3, 0);

static void say(struct sl_spring *spring, unsigned line, const char *fmt,
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
    say(spring, line, fmt, args);
    va_end(args);
}

void sl_spring_error(struct sl_spring *spring, unsigned line, const char *fmt,
                     ...)
{
    va_list args;

    va_start(args, fmt);
    say(spring, line, fmt, args);
    va_end(args);
    spring->errors++;
}

const char *const sl_spring_families[] = {
    "rate-limit",
    "fluo.ratelimit",
    "quarkus.redis.hosts",
    "quarkus.redis.timeout",
    NULL,
};

bool sl_spring_same(struct sl_str a, struct sl_str b)
{
    size_t i = 0, k = 0;
    char c;

    do {
        c = sl_props_letter(a, &i);
        if (c != sl_props_letter(b, &k))
            return false;
    } while (c);
    return true;
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

bool sl_spring_count(struct sl_spring *spring, const struct sl_prop *prop,
                     uint64_t *ret)
{
    struct sl_str value = sl_spring_value(spring, prop);
    uint64_t n = 0;

    if (sl_parse_number(value, &n, NULL) || n == 0 || n > COUNT_MAX) {
        sl_spring_error(spring, prop->line,
                        "%s must be a whole number of at least 1, not \"%s\"",
                        prop->key, prop->value);
        return false;
    }
    *ret = n;
    return true;
}

bool sl_spring_switch(struct sl_spring *spring, const struct sl_prop *prop,
                      bool *ret)
{
    static const struct {
        const char *word;
        bool on;
    } words[] = {
        {"true",  true },
        {"on",    true },
        {"yes",   true },
        {"1",     true },
        {"false", false},
        {"off",   false},
        {"no",    false},
        {"0",     false},
    };
    struct sl_str value = sl_spring_value(spring, prop);

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq_nocase(value, sl_str_c(words[i].word))) {
            *ret = words[i].on;
            return true;
        }
    sl_spring_error(spring, prop->line, "%s must be true or false, not \"%s\"",
                    prop->key, prop->value);
    return false;
}

int sl_spring_write(struct sl_spring *spring, struct sl_buf *out)
{
    struct sl_tiers tiers;
    struct sl_fluo fluo;

    sl_tiers_read(spring, &tiers);
    sl_fluo_read(spring, &fluo);
    if (spring->errors)
        return SLUICE_ECONF;
    if (!tiers.there && !fluo.there)
        return SLUICE_ENOENT;
    return sl_spring_policy(&tiers, &fluo, out);
}
