/* gateway.c -- the RequestRateLimiter of Spring Cloud Gateway.
 *
 *   routes[0].predicates[0]: Path=/api              a route
 *     .filters[0].name: RequestRateLimiter              a limit
 *     .filters[0].args.redis-rate-limiter.replenishRate: 10
 *
 * default-filters apply to all paths.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/java_limits.h"

#define NAME_BYTES  160
#define MATCH_BYTES 256

static const char limiter_name[] = "RequestRateLimiter";

/* A number of the limiter, below args; `preset` if it is not set. */
static const struct sl_prop *argument(const struct sl_spring *spring,
                                      const char *filter, const char *name)
{
    return sl_spring_find(spring, "%s.args.redis-rate-limiter.%s", filter,
                          name);
}

static uint64_t number(struct sl_spring *spring, const struct sl_prop *prop,
                       uint64_t preset)
{
    if (prop)
        sl_spring_number(spring, prop, &preset);
    return preset;
}

/* Is the filter a limiter? Its short form has no rate. */
static bool is_limiter(struct sl_spring *spring, const char *filter)
{
    const struct sl_prop *name = sl_spring_find(spring, "%s.name", filter);
    const struct sl_prop *brief = sl_spring_find(spring, "%s", filter);

    if (brief &&
        strncmp(brief->value, limiter_name, sizeof(limiter_name) - 1) == 0)
        sl_spring_error(spring, brief->line,
                        "%s: the short form of %s is not read; write name: and "
                        "args: with redis-rate-limiter.replenishRate",
                        brief->key, limiter_name);
    return name && strcmp(name->value, limiter_name) == 0;
}

/* The length of what stands before the routes or filters. */
static size_t base_len(const char *filter)
{
    const char *routes = strstr(filter, ".routes[");

    if (!routes)
        routes = strstr(filter, ".default-filters[");
    return routes ? (size_t)(routes - filter) : 0;
}

/* Arguments of a limiter that are not read. */
static void check_args(struct sl_spring *spring, const char *filter)
{
    static const char *const known[] = {"redis-rate-limiter.replenish-rate",
                                        "redis-rate-limiter.burst-capacity",
                                        "redis-rate-limiter.requested-tokens",
                                        "key-resolver",
                                        "deny-empty-key",
                                        "status-code"};
    char args[NAME_BYTES + 48];
    struct sl_str prefix;

    snprintf(args, sizeof(args), "%s.args.", filter);
    prefix = sl_str_c(args);
    for (const struct sl_prop *p = spring->props->first; p; p = p->next) {
        struct sl_str rest = sl_str_c(p->key);
        size_t i = 0;

        if (!sl_str_begins(rest, prefix))
            continue;
        rest = sl_str_from(rest, prefix.len);
        while (i < SL_LEN(known) && !sl_spring_same(rest, sl_str_c(known[i])))
            i++;
        if (sl_spring_same(rest, SL_STR("empty-key-status")))
            sl_spring_warn(spring, p->line,
                           "%s has no equivalent: a request without a key gets "
                           "401",
                           p->key);
        else if (i == SL_LEN(known))
            sl_spring_unknown(spring, p, rest, known, SL_LEN(known));
    }
}

/* Whose bucket it is: by default the principal, and without one the request is
 * denied. */
static void read_key(struct sl_spring *spring, struct sl_java *java,
                     const char *filter, struct sl_java_limit *limit)
{
    const struct sl_prop *resolver =
        sl_spring_find(spring, "%s.args.key-resolver", filter);
    const struct sl_prop *deny =
        sl_spring_find(spring, "%s.args.deny-empty-key", filter);
    bool denies = true;

    if (!deny)
        deny = sl_spring_find(spring,
                              "%.*s.filter.request-rate-limiter."
                              "deny-empty-key",
                              (int)base_len(filter), filter);

    snprintf(limit->per, sizeof(limit->per), "user");
    if (resolver)
        sl_java_per(spring, java, resolver, limit);
    if (deny)
        sl_spring_switch(spring, deny, &denies);
    if (strcmp(limit->per, "ip") != 0 && strcmp(limit->per, "[]") != 0)
        limit->missing = denies ? "deny" : "skip";
}

static struct sl_java_limit *
read_limiter(struct sl_spring *spring, struct sl_java *java, const char *filter)
{
    const struct sl_prop *rate = argument(spring, filter, "replenishRate");
    struct sl_java_limit *limit;
    uint64_t burst;

    if (!rate) {
        const struct sl_prop *name = sl_spring_find(spring, "%s.name", filter);

        sl_spring_error(spring, name->line,
                        "%s has no args.redis-rate-limiter.replenishRate; a "
                        "limiter that is set in code has to be written by hand",
                        filter);
        return NULL;
    }
    burst = number(spring, argument(spring, filter, "burstCapacity"), 1);
    limit =
        sl_java_add(spring, java, rate, number(spring, rate, 1), SL_S, burst);
    if (!limit)
        return NULL;
    limit->cost =
        number(spring, argument(spring, filter, "requestedTokens"), 0);
    limit->status = sl_java_status(
        spring, sl_spring_find(spring, "%s.args.status-code", filter));
    read_key(spring, java, filter, limit);
    check_args(spring, filter);
    return limit;
}

/* ---- routes ---- */

/* Append one pattern of Spring: {name} is :name, {*name} the rest. */
static bool put_pattern(struct sl_str s, char *out, size_t size)
{
    size_t len = strlen(out);

    while (s.len > 0 && len + 4 < size) {
        const char *end = memchr(s.at, '}', s.len);

        if (s.at[0] != '{') {
            if (strchr("?}\"", s.at[0]))
                return false;
            out[len++] = s.at[0];
            s = sl_str_from(s, 1);
            continue;
        }
        if (!end || memchr(s.at, ':', (size_t)(end - s.at)))
            return false; /* {name:regex} */
        if (s.at[1] == '*') {
            memcpy(out + len, "**", 3);
            return true;
        }
        out[len++] = ':';
        for (const char *c = s.at + 1; c < end && len + 4 < size; c++)
            out[len++] = *c;
        s = sl_str_from(s, (size_t)(end - s.at) + 1);
    }
    out[len] = '\0';
    return s.len == 0;
}

static bool has_predicate(const struct sl_spring *spring, const char *route,
                          unsigned i)
{
    return sl_spring_has(spring, "%s.predicates[%u]", route, i);
}

/* The predicate of this name, such as "Method=", or NULL. */
static const struct sl_prop *predicate(const struct sl_spring *spring,
                                       const char *route, const char *name)
{
    for (unsigned i = 0; has_predicate(spring, route, i); i++) {
        const struct sl_prop *p =
            sl_spring_find(spring, "%s.predicates[%u]", route, i);

        if (p && strncmp(p->value, name, strlen(name)) == 0)
            return p;
    }
    return NULL;
}

/* Tell of predicates that a route of a policy does not have. */
static void warn_others(struct sl_spring *spring, const char *route)
{
    for (unsigned i = 0; has_predicate(spring, route, i); i++) {
        const struct sl_prop *p =
            sl_spring_find(spring, "%s.predicates[%u]", route, i);
        const struct sl_prop *name =
            sl_spring_find(spring, "%s.predicates[%u].name", route, i);

        if (name && strcmp(name->value, "Path") == 0)
            sl_spring_error(spring, name->line,
                            "%s: write the predicate in its short form, "
                            "Path=/api/**",
                            name->key);
        else if (name || (p && strncmp(p->value, "Path=", 5) != 0 &&
                          strncmp(p->value, "Method=", 7) != 0))
            sl_spring_warn(
                spring, (p ? p : name)->line,
                "%s: \"%s\" is not in the policy; the limit applies "
                "to all requests of the path, unless you write `when`",
                (p ? p : name)->key, (p ? p : name)->value);
    }
}

/* Does the route match by path and method alone? */
static bool is_plain(const struct sl_spring *spring, const char *route)
{
    for (unsigned i = 0; has_predicate(spring, route, i); i++) {
        const struct sl_prop *p =
            sl_spring_find(spring, "%s.predicates[%u]", route, i);

        if (sl_spring_find(spring, "%s.predicates[%u].name", route, i) ||
            (p && strncmp(p->value, "Path=", 5) != 0 &&
             strncmp(p->value, "Method=", 7) != 0))
            return false;
    }
    return true;
}

/* A route of the gateway with its limiters. */
struct gateway_route {
    char key[NAME_BYTES];
    bool is_default; /* default-filters: for all routes */
    struct sl_java_limit *limits[4];
    unsigned count;
};

/* Add one path. The gateway takes the first route that matches, a policy the
 * one that matches most. */
static void put_path(struct sl_spring *spring, struct sl_java *java,
                     const struct gateway_route *of, const struct sl_prop *prop,
                     const char *match)
{
    const struct sl_java_route *taker = sl_java_taker(java, match);
    struct sl_java_route *route;

    if (taker && !of->is_default) {
        if (of->count > 0)
            sl_spring_warn(spring, prop->line,
                           "%s: requests of %s are taken by %s, a route before "
                           "it; it is left out",
                           prop->key, match, taker->match);
        return;
    }
    route = sl_java_route(spring, java, prop, match, false, of->limits[0]);
    for (unsigned i = 1; route && i < of->count; i++)
        sl_java_route(spring, java, prop, match, false, of->limits[i]);
    if (route && !of->is_default && is_plain(spring, of->key))
        route->first = true;
}

/* Add each path of a route. */
static void put_routes(struct sl_spring *spring, struct sl_java *java,
                       const struct gateway_route *of)
{
    const struct sl_prop *path = predicate(spring, of->key, "Path=");
    const struct sl_prop *method = predicate(spring, of->key, "Method=");
    struct sl_str rest =
        path ? sl_str_from(sl_str_c(path->value), 5) : SL_STR("/**");

    while (rest.len > 0) {
        const char *comma = memchr(rest.at, ',', rest.len);
        struct sl_str one = {rest.at,
                             comma ? (size_t)(comma - rest.at) : rest.len};
        char match[MATCH_BYTES] = "";

        rest = sl_str_from(rest, one.len + (comma != NULL));
        one = sl_str_trim(one);
        if (method)
            snprintf(match, sizeof(match), "%.64s ", method->value + 7);
        if (one.len > 0 && one.at[0] == '/' &&
            put_pattern(one, match, sizeof(match)))
            put_path(spring, java, of, path ? path : spring->props->first,
                     match);
        else if (of->count > 0)
            sl_spring_error(spring, path->line,
                            "%s: \"%.*s\" is no path with *, **, or {name}; "
                            "write its route by hand",
                            path->key, SL_STR_ARG(one));
    }
}

/* The limiters in a list of filters. */
static void read_filters(struct sl_spring *spring, struct sl_java *java,
                         const char *list, struct gateway_route *ret)
{
    char filter[NAME_BYTES + 32];
    bool told = false;

    for (unsigned i = 0; i < SL_JAVA_MAX; i++) {
        struct sl_java_limit *limit;

        snprintf(filter, sizeof(filter), "%s.%s[%u]", ret->key, list, i);
        if (!sl_spring_has(spring, "%s", filter))
            break;
        if (!is_limiter(spring, filter))
            continue;
        java->found = true;
        if (!told)
            warn_others(spring, ret->key);
        told = true;
        limit = read_limiter(spring, java, filter);
        if (!limit)
            continue;
        limit->alone = !ret->is_default;
        if (ret->count == SL_LEN(ret->limits))
            sl_spring_error(spring, 0, "%s has more than %zu limiters",
                            ret->key, SL_LEN(ret->limits));
        else
            ret->limits[ret->count++] = limit;
    }
}

/* Settings of the limiter that are not at a route. */
static void check_defaults(struct sl_spring *spring, const char *base)
{
    static const char *const parts[] = {"redis-rate-limiter.",
                                        "filter.request-rate-limiter."};
    char name[NAME_BYTES];

    for (size_t i = 0; i < SL_LEN(parts); i++) {
        snprintf(name, sizeof(name), "%s.%s", base, parts[i]);
        for (const struct sl_prop *p = spring->props->first; p; p = p->next)
            if (strncmp(p->key, name, strlen(name)) == 0 &&
                !strstr(p->key, "deny-empty-key") &&
                !strstr(p->key, "limiter.enabled"))
                sl_spring_warn(spring, p->line,
                               "%s is not read; write it at the filter of a "
                               "route, below args",
                               p->key);
    }
}

/* The order of a route: those with a smaller one are asked first. */
static long order_of(const struct sl_spring *spring, const char *base,
                     unsigned i)
{
    const struct sl_prop *prop =
        sl_spring_find(spring, "%s.routes[%u].order", base, i);

    return prop ? strtol(prop->value, NULL, 10) : 0;
}

/* A route without a limiter, which matches by more than path and method. */
static void warn_unlimited(struct sl_spring *spring, const char *base,
                           unsigned i)
{
    char route[NAME_BYTES];
    const struct sl_prop *p;

    snprintf(route, sizeof(route), "%s.routes[%u]", base, i);
    p = sl_spring_find(spring, "%s.predicates[0]", route);
    sl_spring_warn(spring, p ? p->line : 0,
                   "%s has no limiter, and predicates that are not in the "
                   "policy: its requests take the limits of their path, unless "
                   "you write `when`",
                   route);
}

/* Read the routes in the order in which the gateway asks them. */
static void read_routes(struct sl_spring *spring, struct sl_java *ret,
                        const char *base)
{
    unsigned at[SL_JAVA_ROUTES], unread[SL_JAVA_ROUTES];
    unsigned count = 0, others = 0;

    while (count < SL_JAVA_ROUTES &&
           sl_spring_has(spring, "%s.routes[%u]", base, count)) {
        unsigned k = count++;

        for (; k > 0 && order_of(spring, base, at[k - 1]) >
                            order_of(spring, base, count - 1);
             k--)
            at[k] = at[k - 1];
        at[k] = count - 1;
    }
    if (sl_spring_has(spring, "%s.routes[%u]", base, SL_JAVA_ROUTES))
        sl_spring_error(spring, 0, "%s has more than %u routes", base,
                        SL_JAVA_ROUTES);
    for (unsigned i = 0; i < count; i++) {
        struct gateway_route route = {.count = 0};

        snprintf(route.key, sizeof(route.key), "%s.routes[%u]", base, at[i]);
        read_filters(spring, ret, "filters", &route);
        if (route.count > 0 || is_plain(spring, route.key))
            put_routes(spring, ret, &route);
        else
            unread[others++] = at[i];
    }
    for (unsigned i = 0; i < others && ret->found; i++)
        warn_unlimited(spring, base, unread[i]);
}

/* Is the gateway, or its limiter, switched off? */
static bool is_off(struct sl_spring *spring, const char *base)
{
    static const char *const parts[] = {"enabled",
                                        "filter.request-rate-limiter.enabled"};
    bool on = true;

    for (size_t i = 0; i < SL_LEN(parts) && on; i++) {
        const struct sl_prop *prop =
            sl_spring_find(spring, "%s.%s", base, parts[i]);

        if (prop)
            sl_spring_switch(spring, prop, &on);
    }
    return !on;
}

void sl_gateway_read(struct sl_spring *spring, struct sl_java *ret)
{
    static const char *const bases[] = {"spring.cloud.gateway",
                                        "spring.cloud.gateway.server.webflux"};

    for (size_t k = 0; k < SL_LEN(bases); k++) {
        struct gateway_route all = {.is_default = true};

        read_routes(spring, ret, bases[k]);
        snprintf(all.key, sizeof(all.key), "%s", bases[k]);
        read_filters(spring, ret, "default-filters", &all);
        if (all.count > 0)
            put_routes(spring, ret, &all);
        if (!ret->found)
            continue;
        check_defaults(spring, bases[k]);
        ret->disabled = ret->disabled || is_off(spring, bases[k]);
    }
}
