/* resilience4j.c -- the rate limiters of Resilience4j.
 *
 *   resilience4j.ratelimiter.instances.NAME.limit-for-period: 10
 *     .limit-refresh-period: 1s
 *
 * Each is a job with a fixed window, one for all callers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/java_limits.h"

#define BASE       "resilience4j.ratelimiter."
#define NAME_BYTES 48

#define DEFAULT_LIMIT  50 /* of the library */
#define DEFAULT_PERIOD 500

static const char *const known[] = {"limit-for-period",
                                    "limit-refresh-period",
                                    "timeout-duration",
                                    "base-config",
                                    "register-health-indicator",
                                    "event-consumer-buffer-size",
                                    "subscribe-for-events",
                                    "allow-health-indicator-to-fail",
                                    "writable-stack-trace-enabled",
                                    "drain-permissions-on-result"};

/* A setting of an instance, else of its base, else of the default. */
static const struct sl_prop *setting(const struct sl_spring *spring,
                                     const char *name, const char *field)
{
    const struct sl_prop *p =
        sl_spring_find(spring, BASE "instances.%s.%s", name, field);
    const struct sl_prop *base =
        sl_spring_find(spring, BASE "instances.%s.base-config", name);

    if (!p && base)
        p = sl_spring_find(spring, BASE "configs.%s.%s", base->value, field);
    return p ? p : sl_spring_find(spring, BASE "configs.default.%s", field);
}

static void read_instance(struct sl_spring *spring, struct sl_java *java,
                          const struct sl_prop *first, const char *name)
{
    const struct sl_prop *limit = setting(spring, name, "limit-for-period");
    const struct sl_prop *period =
        setting(spring, name, "limit-refresh-period");
    const struct sl_prop *wait = setting(spring, name, "timeout-duration");
    const struct sl_prop *base;
    struct sl_java_limit *made;
    uint64_t count = DEFAULT_LIMIT;
    sl_ns length = DEFAULT_PERIOD, span;

    if (limit)
        sl_spring_number(spring, limit, &count);
    if (period &&
        (!sl_spring_span(sl_spring_value(spring, period), SL_MS, &length) ||
         length <= 0)) {
        sl_spring_error(spring, period->line,
                        "%s: \"%s\" is not a duration; write one like 1s",
                        period->key, period->value);
        return;
    }
    made = sl_java_add(spring, java, limit ? limit : first, count, length, 0);
    if (!made)
        return;
    made->kind = "fixed-window";
    sl_java_route(spring, java, first, name, true, made); /* checks the name */
    snprintf(made->name, sizeof(made->name), "%s", name);
    if (!wait || !sl_spring_span(sl_spring_value(spring, wait), SL_MS, &span) ||
        span != 0)
        sl_spring_warn(spring, (wait ? wait : first)->line,
                       "%s%s: a call waited for its turn; here it is denied "
                       "with the time to wait. kind: leaky-bucket with a queue "
                       "lets calls wait",
                       wait ? wait->key : name,
                       wait ? "" : ": timeout-duration is 5s if it is not set");
    base = sl_spring_find(spring, BASE "instances.%s.base-config", name);
    if (base && !sl_spring_has(spring, BASE "configs.%s", base->value))
        sl_spring_error(spring, base->line, "%s: there is no configs.%s",
                        base->key, base->value);
    if (length % SL_MS)
        sl_spring_warn(spring, (period ? period : first)->line,
                       "%s: the period is no whole number of milliseconds; the "
                       "window is longer and has more calls: %s",
                       name, made->rate);
}

void sl_resilience4j_read(struct sl_spring *spring, struct sl_java *ret)
{
    char name[NAME_BYTES], last[NAME_BYTES] = "";

    for (const struct sl_prop *p = spring->props->first; p; p = p->next) {
        struct sl_str rest = sl_str_c(p->key), part;
        unsigned i = 0;

        if (!sl_spring_same(sl_spring_step(&rest), SL_STR("resilience4j")) ||
            !sl_spring_same(sl_spring_step(&rest), SL_STR("ratelimiter")))
            continue;
        ret->found = true;
        part = sl_spring_step(&rest);
        if (!sl_spring_same(part, SL_STR("instances"))) {
            if (!sl_spring_same(part, SL_STR("configs")))
                sl_spring_warn(spring, p->line,
                               "%s is not read: only instances and configs are",
                               p->key);
            continue;
        }
        part = sl_spring_step(&rest);
        while (i < SL_LEN(known) && !sl_spring_same(rest, sl_str_c(known[i])))
            i++;
        if (i == SL_LEN(known))
            sl_spring_unknown(spring, p, rest, known, SL_LEN(known));
        if (part.len >= sizeof(name)) {
            sl_spring_error(spring, p->line, "%s: the name is too long",
                            p->key);
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", SL_STR_ARG(part));
        for (i = 0; i < ret->route_count; i++)
            if (ret->routes[i].job && strcmp(ret->routes[i].match, name) == 0)
                break;
        if (i == ret->route_count && strcmp(name, last) != 0)
            read_instance(spring, ret, p, name);
        snprintf(last, sizeof(last), "%s", name);
    }
}
