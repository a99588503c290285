/* bucket4j.c -- the filters of bucket4j-spring-boot-starter.
 *
 *   bucket4j.filters[0].url: /api/.*                     a route
 *     .rate-limits[0].cache-key: getRemoteAddr()         per
 *       .bandwidths[0]: capacity, time, unit             a limit
 *
 * All bandwidths of a request are taken or none, as there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/java_limits.h"

#define NAME_BYTES 128

/* The names of settings at every level. */
static const char *const known[] = {
    "enabled",
    "cache-to-use",
    "cache-name",
    "url",
    "id",
    "http-methods",
    "filter-order",
    "filter-method",
    "http-content-type",
    "http-response-body",
    "http-status-code",
    "hide-http-response-headers",
    "strategy",
    "cache-key",
    "expression",
    "execute-condition",
    "skip-condition",
    "execute-predicates",
    "skip-predicates",
    "post-execute-condition",
    "num-tokens",
    "capacity",
    "refill-capacity",
    "time",
    "unit",
    "initial-capacity",
    "refill-speed",
    "fixed-refill-interval",
    "fixed-refill-interval-unit",
    "tokens-inheritance-strategy",
    "filter-config-caching-enabled",
    "filter-config-cache-name",
    "major-version",
    "minor-version",
};

/* Settings that have no equivalent, and what to write instead. */
static const char *const without[] = {
    "cache-to-use: the daemon has the state; to share it between daemons, "
    "write server: { store: \"redis://...\" }",
    "http-response-body: write the body of denials below errors: rate_limited",
    "http-content-type: write the body of denials below errors: rate_limited",
    "execute-condition: the limit applies to all requests of its route; write "
    "`when` at the limit, or let the application not check the others",
    "skip-condition: the limit applies to all requests of its route; write "
    "`exempt` at the route, or let the application not check the others",
    "execute-predicates: the limit applies to all requests of its route; write "
    "`when` at the limit",
    "skip-predicates: the limit applies to all requests of its route; write "
    "`exempt` at the route",
    "hide-http-response-headers: write `headers: []` to send none",
    "filter-order: the application asks where its middleware stands",
    "tokens-inheritance-strategy: what was used stays when a policy changes",
    "post-execute-condition: a hold that is settled or released after the "
    "response does this",
    "initial-capacity: a bucket starts full",
    "fixed-refill-interval: kind: fixed-window is aligned to the clock",
};

/* The last name of a key, without an index. */
static struct sl_str leaf(const char *key)
{
    const char *dot = strrchr(key, '.');
    struct sl_str name = sl_str_c(dot ? dot + 1 : key);
    const char *bracket = memchr(name.at, '[', name.len);

    if (bracket)
        name.len = (size_t)(bracket - name.at);
    return name;
}

/* Report a setting that has no equivalent. */
static void check_equivalent(struct sl_spring *spring,
                             const struct sl_prop *prop, struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(without); i++) {
        const char *colon = strchr(without[i], ':');

        if (sl_spring_same(name, (struct sl_str){without[i],
                                                 (size_t)(colon - without[i])}))
            sl_spring_warn(spring, prop->line, "%s has no equivalent%s",
                           prop->key, colon);
    }
}

/* Is it a setting about something other than limits, or of a method? */
static bool is_apart(struct sl_spring *spring, const struct sl_prop *p)
{
    static const char metrics[] =
        "is not read: /metrics of the daemon counts by limit";
    static const struct {
        const char *part, *why;
    } parts[] = {
        {"http-response-headers.",
         "has no equivalent: headers of denials are those of the policy, see "
         "`headers`"                      },
        {".methods[",
         "is not read: @RateLimiting methods are not requests; write a route "
         "with `job`"                     },
        {".metrics.",              metrics},
        {"default-metric-tags",    metrics},
        {"-predicates[",           NULL   },
    };

    for (size_t i = 0; i < SL_LEN(parts); i++) {
        if (!strstr(p->key, parts[i].part))
            continue;
        if (parts[i].why)
            sl_spring_warn(spring, p->line, "%s %s", p->key, parts[i].why);
        else /* also those with a name and args */
            check_equivalent(spring, p,
                             strstr(p->key, "skip-predicates")
                                 ? SL_STR("skip-predicates")
                                 : SL_STR("execute-predicates"));
        return true;
    }
    return false;
}

static void check_names(struct sl_spring *spring)
{
    for (const struct sl_prop *p = spring->props->first; p; p = p->next) {
        struct sl_str rest = sl_str_c(p->key), name = leaf(p->key);
        size_t i = 0;

        if (!sl_spring_same(sl_spring_step(&rest), SL_STR("bucket4j")) ||
            is_apart(spring, p))
            continue;
        while (i < SL_LEN(known) && !sl_spring_same(name, sl_str_c(known[i])))
            i++;
        if (i == SL_LEN(known))
            sl_spring_unknown(spring, p, name, known, SL_LEN(known));
        check_equivalent(spring, p, name);
    }
}

/* ---- paths ---- */

/* Take a text from the start of *s. */
static bool take(struct sl_str *s, const char *text)
{
    size_t len = strlen(text);

    if (s->len < len || memcmp(s->at, text, len) != 0)
        return false;
    *s = sl_str_from(*s, len);
    return true;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '~';
}

/* One segment of a regular expression, after its slash, as one of a path.
 * Returns false if it has no equivalent. */
static bool read_segment(struct sl_str *s, struct sl_writer *w)
{
    static const char *const any[] = {"[^/]+", "[^/]*",  "\\w+",
                                      "\\d+",  "[0-9]+", "[a-z]+"};
    bool written = false;

    for (size_t i = 0; i < SL_LEN(any); i++)
        if (take(s, any[i])) {
            sl_writer_add(w, SL_STR("*"));
            return s->len == 0 || s->at[0] == '/';
        }
    while (s->len > 0 && s->at[0] != '/' &&
           !(written && sl_str_eq(*s, SL_STR(".*")))) {
        bool repeats =
            s->at[0] == '.' && s->len > 1 && strchr("*+?{", s->at[1]);

        if (s->at[0] == '\\' && s->len > 1 && !is_plain(s->at[1]))
            *s = sl_str_from(*s, 1);
        else if (repeats || (!is_plain(s->at[0]) && s->at[0] != '.'))
            return false;
        sl_writer_add(w, (struct sl_str){s->at, 1});
        *s = sl_str_from(*s, 1);
        written = true;
    }
    return true;
}

/* Copies a regular expression without ^ and $, and without the brackets of
 * "(/hello).*". Returns false if it is too long. */
static bool unwrap(struct sl_str url, struct sl_buf *out)
{
    const char *end;
    struct sl_writer w = {.out = out};

    take(&url, "^");
    if (url.len > 0 && url.at[url.len - 1] == '$')
        url.len--;
    end = url.len > 0 && url.at[0] == '(' ? memchr(url.at, ')', url.len) : NULL;
    if (end && strcspn(url.at + 1, "(|)?") == (size_t)(end - url.at) - 1) {
        sl_writer_add(&w,
                      (struct sl_str){url.at + 1, (size_t)(end - url.at) - 1});
        url = sl_str_from(url, (size_t)(end - url.at) + 1);
    }
    sl_writer_add(&w, url);
    return w.err == 0;
}

/* The path of a regular expression. *wider: it takes more than the path, and
 * what is below it. */
static bool path_of(struct sl_str url, struct sl_writer *w, bool *wider)
{
    *wider = false;
    if (sl_str_eq(url, SL_STR(".*"))) {
        sl_writer_add(w, SL_STR("/**"));
        return true;
    }
    if (url.len == 0 || url.at[0] != '/')
        return false;
    while (url.len > 0) {
        if (sl_str_eq(url, SL_STR("/.*")) || sl_str_eq(url, SL_STR("/.+")) ||
            sl_str_eq(url, SL_STR("(/.*)?")) ||
            sl_str_eq(url, SL_STR("/(.*)"))) {
            sl_writer_add(w, SL_STR("/**"));
            return true;
        }
        sl_writer_add(w, SL_STR("/"));
        if (!take(&url, "/") || !read_segment(&url, w))
            return false;
        *wider = sl_str_eq(url, SL_STR(".*"));
        if (*wider) {
            sl_writer_add(w, SL_STR("/**"));
            return true;
        }
    }
    return true;
}

/* The path of a filter; nothing after an error. */
static void read_url(struct sl_spring *spring, const struct sl_prop *p,
                     struct sl_writer *w)
{
    struct sl_buf url;
    bool wider = false, good;

    sl_buf_init(&url, 1024, &sl_alloc_libc);
    good = unwrap(sl_spring_value(spring, p), &url) &&
           path_of(sl_buf_str(&url), w, &wider);
    if (!good) {
        sl_spring_error(spring, p->line,
                        "%s: the regular expression \"%s\" is no pattern of "
                        "paths; write one such as /api/.* or /api/[^/]+/x, or "
                        "remove the filter and write its route by hand",
                        p->key, p->value);
        sl_buf_clear(w->out);
    } else if (wider) {
        sl_spring_warn(spring, p->line,
                       "%s takes longer names, too; the route takes the path "
                       "and what is below it",
                       p->key);
    }
    sl_buf_done(&url);
}

/* Write "GET,POST /api/x" of a filter; nothing after an error. */
static void read_match(struct sl_spring *spring, unsigned filter,
                       const struct sl_prop *first, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    const struct sl_prop *p;
    const char *comma = "";

    for (unsigned i = 0; i < SL_JAVA_MAX; i++) {
        p = sl_spring_find(spring, "bucket4j.filters[%u].http-methods[%u]",
                           filter, i);
        if (!p)
            break;
        sl_writer_addf(&w, "%s%s", comma, p->value);
        comma = ",";
    }
    if (*comma)
        sl_writer_add(&w, SL_STR(" "));
    p = sl_spring_find(spring, "bucket4j.filters[%u].url", filter);
    if (!p)
        sl_writer_add(&w, SL_STR("/**"));
    else
        read_url(spring, p, &w);
    if (w.err || (out->len > 0 && sl_buf_add(out, (struct sl_str){"", 1})))
        sl_spring_error(spring, first->line, "%s: the path is too long",
                        first->key);
}

/* ---- bandwidths ---- */

static bool read_unit(struct sl_str text, sl_ns *ret)
{
    static const struct {
        const char *name;
        sl_ns length;
    } units[] = {
        {"nanos",     1            },
        {"micros",    1000         },
        {"millis",    SL_MS        },
        {"seconds",   SL_S         },
        {"minutes",   60 * SL_S    },
        {"hours",     3600 * SL_S  },
        {"half_days", 43200 * SL_S },
        {"days",      86400 * SL_S },
        {"weeks",     604800 * SL_S}
    };

    for (size_t i = 0; i < SL_LEN(units); i++)
        if (sl_str_eq_nocase(text, sl_str_c(units[i].name))) {
            *ret = units[i].length;
            return true;
        }
    return false;
}

/* The number of a setting; `preset` if it is not set. */
static uint64_t number(struct sl_spring *spring, const struct sl_prop *prop,
                       uint64_t preset)
{
    if (prop)
        sl_spring_number(spring, prop, &preset);
    return preset;
}

/* Does the bucket refill at once at the end of an interval? */
static bool is_interval(struct sl_spring *spring, const struct sl_prop *speed)
{
    struct sl_str value = sl_spring_value(spring, speed);
    bool interval = sl_str_eq_nocase(value, SL_STR("interval"));

    if (!interval && !sl_str_eq_nocase(value, SL_STR("greedy")))
        sl_spring_error(spring, speed->line,
                        "%s must be greedy or interval, not \"%s\"; for an "
                        "interval of the clock write a limit of kind: "
                        "fixed-window by hand",
                        speed->key, speed->value);
    return interval;
}

/* A limit of a bandwidth; NULL with a message. */
static struct sl_java_limit *
read_bandwidth(struct sl_spring *spring, struct sl_java *java, const char *name)
{
    const struct sl_prop *capacity =
        sl_spring_find(spring, "%s.capacity", name);
    const struct sl_prop *time = sl_spring_find(spring, "%s.time", name);
    const struct sl_prop *unit = sl_spring_find(spring, "%s.unit", name);
    const struct sl_prop *speed =
        sl_spring_find(spring, "%s.refill-speed", name);
    struct sl_java_limit *limit;
    uint64_t burst, count, periods;
    sl_ns length;

    if (!capacity || !time || !unit) {
        sl_spring_error(spring, 0, "%s has no %s", name,
                        !capacity ? "capacity"
                        : !time   ? "time"
                                  : "unit");
        return NULL;
    }
    if (!read_unit(sl_spring_value(spring, unit), &length)) {
        sl_spring_error(
            spring, unit->line,
            "%s: \"%s\" has no fixed length; write seconds, minutes, "
            "hours or days",
            unit->key, unit->value);
        return NULL;
    }
    burst = number(spring, capacity, 1);
    count = number(spring, sl_spring_find(spring, "%s.refill-capacity", name),
                   burst);
    periods = number(spring, time, 1);
    if (periods > (uint64_t)(INT64_MAX / length)) {
        sl_spring_error(spring, time->line, "%s is too long", time->key);
        return NULL;
    }
    limit = sl_java_add(spring, java, capacity, count, (sl_ns)periods * length,
                        burst);
    if (limit && speed)
        limit->interval = is_interval(spring, speed);
    return limit;
}

/* The bandwidths of one rate limit. */
static void read_rate_limit(struct sl_spring *spring, struct sl_java *java,
                            unsigned filter, unsigned index, const char *match)
{
    char name[NAME_BYTES], bandwidth[NAME_BYTES + 32];
    const struct sl_prop *key, *tokens;
    uint64_t status = sl_java_status(
        spring, sl_spring_find(spring, "bucket4j.filters[%u].http-status-code",
                               filter));

    snprintf(name, sizeof(name), "bucket4j.filters[%u].rate-limits[%u]", filter,
             index);
    key = sl_spring_find(spring, "%s.cache-key", name);
    if (!key)
        key = sl_spring_find(spring, "%s.expression", name);
    tokens = sl_spring_find(spring, "%s.num-tokens", name);
    for (unsigned i = 0; i < SL_JAVA_MAX; i++) {
        struct sl_java_limit *limit;

        snprintf(bandwidth, sizeof(bandwidth), "%s.bandwidths[%u]", name, i);
        if (!sl_spring_has(spring, "%s", bandwidth))
            break;
        limit = read_bandwidth(spring, java, bandwidth);
        if (!limit)
            continue;
        if (key)
            sl_java_per(spring, java, key, limit);
        limit->status = status;
        limit->cost = number(spring, tokens, 0);
        sl_java_route(spring, java,
                      sl_spring_find(spring, "%s.capacity", bandwidth), match,
                      false, limit);
    }
}

static void read_filter(struct sl_spring *spring, struct sl_java *java,
                        unsigned filter)
{
    const struct sl_prop *strategy =
        sl_spring_find(spring, "bucket4j.filters[%u].strategy", filter);
    const struct sl_prop *first = spring->props->first;
    struct sl_buf match;
    unsigned i = 0;

    sl_buf_init(&match, 1024, &sl_alloc_libc);
    read_match(spring, filter, first, &match);
    while (match.len > 0 && i < SL_JAVA_MAX &&
           sl_spring_has(spring, "bucket4j.filters[%u].rate-limits[%u]", filter,
                         i))
        read_rate_limit(spring, java, filter, i++, match.bytes);
    sl_buf_done(&match);
    if (i > 1 && !(strategy &&
                   sl_str_eq_nocase(sl_str_c(strategy->value), SL_STR("all"))))
        sl_spring_warn(spring, strategy ? strategy->line : 0,
                       "bucket4j.filters[%u] takes only the first of its rate "
                       "limits whose condition holds; here all are taken: "
                       "remove those that should not be",
                       filter);
}

static bool is_enabled(struct sl_spring *spring)
{
    const struct sl_prop *enabled = sl_spring_find(spring, "bucket4j.enabled");
    bool ret = true;

    if (enabled)
        sl_spring_switch(spring, enabled, &ret);
    return ret;
}

void sl_bucket4j_read(struct sl_spring *spring, struct sl_java *ret)
{
    if (!sl_spring_has(spring, "bucket4j"))
        return;
    ret->found = true;
    check_names(spring);
    ret->disabled = !is_enabled(spring);
    for (unsigned i = 0;
         i < SL_JAVA_MAX && sl_spring_has(spring, "bucket4j.filters[%u]", i);
         i++)
        read_filter(spring, ret, i);
    if (ret->limit_count == 0 && spring->errors == 0)
        sl_spring_error(spring, 0,
                        "bucket4j has no filters with bandwidths; filters that "
                        "are kept in a cache or set in code are not in this "
                        "file");
}
