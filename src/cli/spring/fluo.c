/* fluo.c -- fluo.ratelimit.* and the Redis settings beside it. */
#include <string.h>

#include "base/parse.h"
#include "cli/spring/spring.h"

#define TENANT_RPM 1000
#define USER_RPM   100

/* A caller that waits for a decision longer than this has noticed. */
#define SLOW (100 * SL_MS)

static const char *const known[] = {
    "fluo.ratelimit.tenant.requests-per-minute",
    "fluo.ratelimit.user.requests-per-minute",
};

static bool under(const char *key, const char *prefix)
{
    size_t len = strlen(prefix);

    return strlen(key) >= len &&
           sl_spring_same((struct sl_str){key, len}, sl_str_c(prefix));
}

static void read_limit(struct sl_spring *spring, const struct sl_prop *prop,
                       struct sl_fluo *fluo)
{
    const char *near;

    fluo->there = true;
    if (sl_spring_same(sl_str_c(prop->key), sl_str_c(known[0]))) {
        sl_spring_count(spring, prop, &fluo->tenant);
    } else if (sl_spring_same(sl_str_c(prop->key), sl_str_c(known[1]))) {
        sl_spring_count(spring, prop, &fluo->user);
    } else {
        near = sl_str_nearest(sl_str_c(prop->key), known, SL_LEN(known));
        sl_spring_warn(spring, prop->line,
                       "%s is not a known setting and was ignored%s%s%s",
                       prop->key, near ? "; did you mean " : "",
                       near ? near : "", near ? "?" : "");
    }
}

static void read_hosts(struct sl_spring *spring, const struct sl_prop *prop,
                       struct sl_fluo *fluo)
{
    struct sl_str value = sl_spring_value(spring, prop);
    const char *comma = value.len ? memchr(value.at, ',', value.len) : NULL;

    if (comma) {
        sl_spring_warn(spring, prop->line,
                       "%s names several hosts; only the first is used",
                       prop->key);
        value.len = (size_t)(comma - value.at);
    }
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] <= ' ' || value.at[i] > '~' || value.at[i] == '"' ||
            value.at[i] == '\\' || value.at[i] == '$') {
            sl_spring_error(spring, prop->line,
                            "%s: \"%s\" is not an address; write one like "
                            "redis://localhost:6379",
                            prop->key, prop->value);
            return;
        }
    fluo->store = value;
}

/* "2s", "2S", "PT2S", or a number of seconds. */
static bool read_span(struct sl_str text, sl_ns *ret)
{
    char lower[32];
    uint64_t seconds;

    if (sl_parse_number(text, &seconds, NULL) == 0 && seconds < 1000000) {
        *ret = (sl_ns)seconds * SL_S;
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

static void read_timeout(struct sl_spring *spring, const struct sl_prop *prop,
                         struct sl_fluo *fluo)
{
    sl_ns span = 0;
    char words[32];

    if (!read_span(sl_spring_value(spring, prop), &span) || span <= 0) {
        sl_spring_error(spring, prop->line,
                        "%s: \"%s\" is not a duration; write one like 20ms",
                        prop->key, prop->value);
        return;
    }
    fluo->deadline = span;
    if (span > SLOW)
        sl_spring_warn(spring, prop->line,
                       "%s: every request waits up to %s when Redis does not "
                       "answer; 20ms is a common deadline",
                       prop->key, sl_format_duration(span, words));
}

void sl_fluo_read(struct sl_spring *spring, struct sl_fluo *ret)
{
    const struct sl_prop *p;

    *ret = (struct sl_fluo){.tenant = TENANT_RPM, .user = USER_RPM};
    for (p = spring->props->first; p; p = p->next)
        if (under(p->key, "fluo.ratelimit."))
            read_limit(spring, p, ret);
    for (p = spring->props->first; p && ret->there; p = p->next) {
        if (strcmp(p->key, "quarkus.redis.hosts") == 0)
            read_hosts(spring, p, ret);
        if (strcmp(p->key, "quarkus.redis.timeout") == 0)
            read_timeout(spring, p, ret);
    }
}
