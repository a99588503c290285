/* java_limits.c -- limits and routes of Java libraries, and how they are
 * written. */
#include "cli/java_limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "core/limit.h"

/* ---- rates ---- */

/* Write "5/min burst 8", or "10/1500ms". False if the period cannot be whole
 * milliseconds with a whole count. */
static bool rate_text(uint64_t count, sl_ns period, uint64_t burst,
                      char out[80])
{
    static const struct {
        uint64_t ms;
        const char *one, *many;
    } units[] = {
        {86400000, "day",  "d" },
        {3600000,  "hour", "h" },
        {60000,    "min",  "m" },
        {1000,     "s",    "s" },
        {1,        "ms",   "ms"}
    };
    uint64_t length = (uint64_t)period / (uint64_t)SL_MS, n;
    char number[24] = "", tail[32] = "";
    size_t i = 0;

    if (period % SL_MS) { /* the least whole number of milliseconds */
        uint64_t a = (uint64_t)period, b = (uint64_t)SL_MS;

        while (b) { /* the greatest common divisor is left in a */
            uint64_t c = a % b;

            a = b;
            b = c;
        }
        n = (uint64_t)SL_MS / a;
        if (count > SL_SPRING_COUNT_MAX / n)
            return false;
        count *= n;
        length = (uint64_t)period / a;
    }
    while (length % units[i].ms)
        i++;
    n = length / units[i].ms;
    if (n > 1 || units[i].ms == 1)
        snprintf(number, sizeof(number), "%" PRIu64, n);
    if (burst > 0 && burst != count)
        snprintf(tail, sizeof(tail), " burst %" PRIu64, burst);
    snprintf(out, 80, "%" PRIu64 "/%s%s%s", count, number,
             n > 1 ? units[i].many : units[i].one, tail);
    return true;
}

/* ---- adding ---- */

struct sl_java_limit *sl_java_add(struct sl_spring *spring,
                                  struct sl_java *java,
                                  const struct sl_prop *prop, uint64_t count,
                                  sl_ns period, uint64_t burst)
{
    struct sl_java_limit *limit = &java->limits[java->limit_count];

    if (java->limit_count == SL_JAVA_MAX) {
        sl_spring_error(spring, prop->line,
                        "%s: there can be at most %d limits", prop->key,
                        SL_JAVA_MAX);
        return NULL;
    }
    *limit = (struct sl_java_limit){
        .kind = "token-bucket", .per = "[]", .from = prop->key};
    snprintf(limit->name, sizeof(limit->name), "bucket-%u",
             java->limit_count + 1);
    /* A count has 32 bits. */
    if (count * (uint64_t)SL_S / (uint64_t)period > SL_RATE_MAX) {
        sl_spring_error(spring, prop->line,
                        "%s: more than %" PRIu64
                        " in a second is the same as no limit; remove it",
                        prop->key, SL_RATE_MAX);
        return NULL;
    }
    if (!rate_text(count, period, burst, limit->rate)) {
        sl_spring_error(spring, prop->line,
                        "%s: %" PRIu64 " in %" PRIi64
                        " ns is no rate of whole milliseconds below 4 billion",
                        prop->key, count, period);
        return NULL;
    }
    java->limit_count++;
    return limit;
}

static bool is_name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Is the text the name of a job? */
static bool is_name(const char *s)
{
    if (!*s)
        return false;
    while (is_name_letter(*s))
        s++;
    return !*s;
}

/* Is the text a path, after optional methods, with * and ** as segments? */
static bool is_match(const char *s)
{
    if (*s != '/') {
        s += strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ,");
        if (*s++ != ' ')
            return false;
    }
    while (*s == '/') {
        const char *from = ++s;

        while (is_name_letter(*s) || (*s && strchr(".~%:*", *s)))
            s++;
        if (!memchr(from, '*', (size_t)(s - from)))
            continue;
        if (s - from == 2 && from[1] == '*')
            return !*s; /* ** is the last */
        if (s - from != 1)
            return false;
    }
    return !*s;
}

struct sl_java_route *sl_java_route(struct sl_spring *spring,
                                    struct sl_java *java,
                                    const struct sl_prop *prop,
                                    const char *match, bool job,
                                    const struct sl_java_limit *limit)
{
    uint64_t bit = limit ? UINT64_C(1) << (limit - java->limits) : 0;
    struct sl_java_route *route = java->routes;

    if (job ? !is_name(match) : !is_match(match)) {
        sl_spring_error(spring, prop->line,
                        "%s: \"%s\" is no %s of a policy; write its route by "
                        "hand",
                        prop->key, match, job ? "name" : "path");
        return NULL;
    }
    while (route < java->routes + java->route_count &&
           (route->job != job || strcmp(route->match, match) != 0))
        route++;
    if (route == java->routes + SL_JAVA_ROUTES ||
        strlen(match) >= sizeof(route->match)) {
        sl_spring_error(spring, prop->line,
                        "%s: there can be at most %d routes, and a path has "
                        "fewer than %zu letters",
                        prop->key, SL_JAVA_ROUTES, sizeof(route->match));
        return NULL;
    }
    if (route == java->routes + java->route_count) {
        *route = (struct sl_java_route){.job = job};
        memcpy(route->match, match, strlen(match) + 1);
        java->route_count++;
    }
    route->limits |= bit;
    route->wide |= !limit || limit->alone ? 0 : bit;
    return route;
}

/* ---- whose bucket it is ---- */

/* The header in getHeader('X-Key') or headers['X-Key'], or an empty text. */
static struct sl_str header_of(struct sl_str text)
{
    static const char *const calls[] = {"header(", "header[", "headers["};
    struct sl_str none = {"", 0};

    for (size_t i = 0; i < SL_LEN(calls); i++)
        for (size_t at = 0; at + strlen(calls[i]) < text.len; at++) {
            struct sl_str rest = sl_str_from(text, at);
            struct sl_str part = {rest.at, strlen(calls[i])};
            const char *end;

            if (!sl_str_eq_nocase(part, sl_str_c(calls[i])))
                continue;
            rest = sl_str_from(rest, part.len);
            if (rest.len < 3 || (rest.at[0] != '\'' && rest.at[0] != '"'))
                continue;
            end = memchr(rest.at + 1, rest.at[0], rest.len - 1);
            return end ? (struct sl_str){rest.at + 1,
                                         (size_t)(end - rest.at) - 1}
                       : none;
        }
    return none;
}

/* Use the scope of a header, added if it is new. */
static bool use_header(struct sl_java *java, struct sl_str header,
                       struct sl_java_limit *limit)
{
    struct sl_java_scope *scope = &java->scopes[java->scope_count];

    if (header.len == 0 || header.len >= sizeof(scope->name) ||
        java->scope_count == SL_JAVA_MAX)
        return false;
    for (size_t i = 0; i < header.len; i++) {
        char c = header.at[i];
        bool upper = c >= 'A' && c <= 'Z';

        if (!upper && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
            c != '-')
            return false;
        scope->header[i] = upper ? (char)(c | 0x20) : c;
        scope->name[i] = c == '-' ? '_' : scope->header[i];
    }
    scope->header[header.len] = scope->name[header.len] = '\0';
    memcpy(limit->per, scope->name, sizeof(limit->per));
    for (unsigned i = 0; i < java->scope_count; i++)
        if (strcmp(java->scopes[i].name, scope->name) == 0)
            return true;
    java->scope_count++;
    return true;
}

/* Does the text contain the word, without case? */
static bool has(struct sl_str text, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= text.len; i++)
        if (sl_str_eq_nocase((struct sl_str){text.at + i, len}, sl_str_c(word)))
            return true;
    return false;
}

/* A text in quotes, without code. */
static bool is_literal(struct sl_str text)
{
    char quote = text.len > 1 ? text.at[0] : '\0';

    return (quote == '\'' || quote == '"') &&
           memchr(text.at + 1, quote, text.len - 1) == text.at + text.len - 1;
}

/* What the words of an expression count by, or NULL; *others: by more. */
static const char *per_by_words(struct sl_str text, bool *others)
{
    static const struct {
        const char *word, *per;
    } words[] = {
        {"remoteaddr", "ip"  },
        {"ipaddr",     "ip"  },
        {"ipkey",      "ip"  },
        {"hostaddr",   "ip"  },
        {"@ip",        "ip"  },
        {"clientip",   "ip"  },
        {"tenant",     "org" },
        {"org",        "org" },
        {"principal",  "user"},
        {"user",       "user"}
    };
    const char *found = NULL;

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (has(text, words[i].word)) {
            *others = *others || (found && found != words[i].per);
            found = found ? found : words[i].per;
        }
    if (has(text, "session")) {
        *others = found != NULL;
        return found;
    }
    /* username() ?: getRemoteAddr(): without a user, by address */
    if (*others && has(text, "?") && has(text, "user") && !has(text, "org") &&
        !has(text, "tenant")) {
        *others = false;
        return "user";
    }
    return found;
}

void sl_java_per(struct sl_spring *spring, struct sl_java *java,
                 const struct sl_prop *prop, struct sl_java_limit *limit)
{
    struct sl_str text = sl_spring_value(spring, prop);
    const char *per;
    bool others = false;
    uint64_t number;

    if (sl_parse_number(text, &number, NULL) == 0 || is_literal(text))
        return; /* a constant: one bucket for all */
    per = per_by_words(text, &others);
    if (use_header(java, header_of(text), limit)) {
        others = has(text, "+") || has(text, "?");
    } else {
        others = others || (per && has(text, "+"));
        snprintf(limit->per, sizeof(limit->per), "%s", per ? per : "user");
    }
    if (others)
        sl_spring_warn(spring, prop->line,
                       "%s: \"%s\" has several parts; %s counts by %s alone: "
                       "change `per`, for example to [ip, user]",
                       prop->key, prop->value, limit->name, limit->per);
    else if (strcmp(limit->per, "user") == 0 && !per)
        sl_spring_warn(spring, prop->line,
                       "%s: \"%s\" is code of the application; %s counts per "
                       "user: give the value of that code as the user of a "
                       "check, or change `per`",
                       prop->key, prop->value, limit->name);
}

/* The status of denials: TOO_MANY_REQUESTS or a number. 0 is not set. */
uint64_t sl_java_status(struct sl_spring *spring, const struct sl_prop *p)
{
    static const struct {
        const char *name;
        uint64_t status;
    } names[] = {
        {"TOO_MANY_REQUESTS",   429},
        {"SERVICE_UNAVAILABLE", 503},
        {"FORBIDDEN",           403},
        {"PAYMENT_REQUIRED",    402}
    };
    uint64_t status = 0;

    if (!p)
        return 0;
    for (size_t i = 0; i < SL_LEN(names); i++)
        if (sl_str_eq_nocase(sl_str_c(p->value), sl_str_c(names[i].name)))
            return names[i].status;
    if (sl_parse_number(sl_spring_value(spring, p), &status, NULL) ||
        status < 400 || status > 599)
        sl_spring_error(spring, p->line,
                        "%s: \"%s\" is no status of a denial; write 429",
                        p->key, p->value);
    return status;
}

/* ---- writing ---- */

void sl_java_put_scopes(struct sl_writer *w, const struct sl_java *java)
{
    for (unsigned i = 0; i < java->scope_count; i++)
        sl_writer_addf(w, "  %s: [header.%s]\n", java->scopes[i].name,
                       java->scopes[i].header);
}

/* Is the key fit for a comment? It may have any characters. */
static bool is_printable(const char *key)
{
    while (*key >= ' ' && *key <= '~')
        key++;
    return !*key;
}

void sl_java_put_limits(struct sl_writer *w, const struct sl_java *java)
{
    uint64_t used = 0;

    for (unsigned i = 0; i < java->route_count; i++)
        used |= java->routes[i].limits;
    for (const struct sl_java_limit *l = java->limits;
         l < java->limits + java->limit_count; l++) {
        if (!(used >> (l - java->limits) & 1))
            continue; /* its routes were left out */
        sl_writer_addf(w,
                       "  %s:   # %s\n    kind: %s\n    per: %s\n"
                       "    rate: %s\n",
                       l->name, is_printable(l->from) ? l->from : "imported",
                       l->kind, l->per, l->rate);
        if (l->missing)
            sl_writer_addf(w, "    missing: %s\n", l->missing);
        if (l->interval)
            sl_writer_add(w, SL_STR("    refill: interval\n"));
        if (l->cost > 1)
            sl_writer_addf(w, "    cost: %" PRIu64 "\n", l->cost);
        if (l->status && l->status != 429)
            sl_writer_addf(w, "    deny: { status: %" PRIu64 " }\n", l->status);
    }
}

/* The path after the methods. */
static struct sl_str path_of(const struct sl_java_route *route)
{
    const char *slash = strchr(route->match, '/');

    return sl_str_c(slash ? slash : route->match);
}

/* The segment at the start of a path without its slash; *rest is what follows.
 */
static struct sl_str segment(struct sl_str *rest)
{
    struct sl_str s = sl_str_from(*rest, 1);
    const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;

    s.len = slash ? (size_t)(slash - s.at) : s.len;
    *rest = sl_str_from(*rest, s.len + 1);
    return s;
}

static bool covers_path(struct sl_str wide, struct sl_str narrow)
{
    while (wide.len > 0) {
        struct sl_str a = segment(&wide), b;

        if (sl_str_eq(a, SL_STR("**")))
            return true;
        if (narrow.len == 0)
            return false;
        b = segment(&narrow);
        if (sl_str_eq(b, SL_STR("**")) ||
            (!sl_str_eq(a, b) && !sl_str_eq(a, SL_STR("*")) &&
             (a.len == 0 || a.at[0] != ':')))
            return false;
    }
    return narrow.len == 0;
}

/* Does `wide` match all that `narrow` matches? Filters are then asked both; a
 * policy, as a gateway, takes the first that matches. */
static bool covers(const struct sl_java_route *wide,
                   const struct sl_java_route *narrow)
{
    struct sl_str a = path_of(wide), b = path_of(narrow);
    size_t methods = (size_t)(a.at - wide->match);

    if (wide == narrow || wide->job || narrow->job ||
        (methods > 0 && strncmp(wide->match, narrow->match, methods) != 0))
        return false;
    return covers_path(a, b);
}

const struct sl_java_route *sl_java_taker(const struct sl_java *java,
                                          const char *match)
{
    struct sl_java_route one = {.job = false};

    snprintf(one.match, sizeof(one.match), "%s", match);
    for (unsigned i = 0; i < java->route_count; i++)
        if (java->routes[i].first &&
            (strcmp(java->routes[i].match, match) == 0 ||
             covers(&java->routes[i], &one)))
            return &java->routes[i];
    return NULL;
}

/* The limits of a route, with those of the routes that cover it. */
static uint64_t all_limits(const struct sl_java *java,
                           const struct sl_java_route *route)
{
    uint64_t limits = route->limits;

    for (unsigned i = 0; i < java->route_count; i++)
        if (covers(&java->routes[i], route))
            limits |= java->routes[i].wide;
    return limits;
}

/* A route without limits matters if another one would take its requests. */
static bool is_needed(const struct sl_java *java,
                      const struct sl_java_route *route)
{
    if (all_limits(java, route))
        return true;
    for (unsigned i = 0; i < java->route_count; i++)
        if (java->routes[i].limits && covers(&java->routes[i], route))
            return true;
    return false;
}

static void put_route(struct sl_writer *w, const struct sl_java *java,
                      const struct sl_java_route *route)
{
    uint64_t limits = all_limits(java, route);
    const char *before = "";

    if (!is_needed(java, route))
        return;
    sl_writer_addf(w, "  - %s: %s\n    limits: [", route->job ? "job" : "match",
                   route->match);
    for (unsigned i = 0; i < java->limit_count; i++)
        if (limits >> i & 1) {
            sl_writer_addf(w, "%s%s", before, java->limits[i].name);
            before = ", ";
        }
    sl_writer_add(w, SL_STR("]\n"));
}

void sl_java_put_routes(struct sl_writer *w, const struct sl_java *java)
{
    bool written[SL_JAVA_ROUTES] = {false};

    /* A route comes after all that it covers. */
    for (unsigned n = 0; n < java->route_count; n++)
        for (unsigned i = 0; i < java->route_count; i++) {
            unsigned k = 0;

            if (written[i])
                continue;
            while (k < java->route_count &&
                   (written[k] || !covers(&java->routes[i], &java->routes[k]) ||
                    covers(&java->routes[k], &java->routes[i])))
                k++;
            if (k < java->route_count)
                continue;
            put_route(w, java, &java->routes[i]);
            written[i] = true;
            break;
        }
}

void sl_java_read(struct sl_spring *spring, struct sl_java *ret)
{
    *ret = (struct sl_java){.found = false};
    sl_bucket4j_read(spring, ret);
    sl_gateway_read(spring, ret);
    sl_resilience4j_read(spring, ret);
}
