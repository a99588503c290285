/* spring.c -- the settings of two Java programs as a policy. */
#include "cli/spring.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

static const char head[] =
    "# Written by 'sluice import spring'. Edit it as needed.\n"
    "sluice: 1\n";

static const char tenant_identity[] =
    "\n"
    "identity:\n"
    "  org: [header.tenantid]   # names of headers have no case\n"
    "  user: [header.userid]\n"
    "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n";

static const char daily_limit[] = "  ai-daily:\n"
                                  "    kind: token-bucket\n"
                                  "    per: user\n"
                                  "    missing: skip\n";

static const char daily_tail[] =
    "    key: \"{user}:daily\"\n"
    "    deny:\n"
    "      message: \"Daily AI request limit of {limit} exceeded. Limit resets "
    "in 24 hours.\"\n";

static const char minute_limit[] = "  ai-minute:\n"
                                   "    kind: token-bucket\n"
                                   "    per: user\n"
                                   "    missing: skip\n";

static const char minute_tail[] =
    "    key: \"{user}:minute\"\n"
    "    deny:\n"
    "      message: \"Rate limit exceeded. Maximum {limit} AI requests per "
    "minute. Please try again shortly.\"\n";

static const char ai_route[] =
    "  - match: /api/v1/ai/**\n"
    "    endpoint: ai\n"
    "    anonymous: pass          # the application authenticates by itself\n"
    "    limits: [ai-daily, ai-minute]\n"
    "    report: ai-minute\n";

static const char ai_errors[] = "\n"
                                "errors:\n"
                                "  rate_limited:\n"
                                "    status: 429\n"
                                "    body:\n"
                                "      status: \"{status}\"\n"
                                "      error: Too Many Requests\n"
                                "      message: \"{message}\"\n"
                                "      timestamp: \"{now_iso}\"\n";

static const char tenant_limit[] = "  tenant:\n"
                                   "    kind: token-bucket\n"
                                   "    per: org\n"
                                   "    missing: deny\n";

static const char tenant_tail[] =
    "    key: \"ratelimit:tenant:{org}\"\n"
    "    deny:\n"
    "      message: \"Tenant rate limit exceeded. Retry after {retry_after} "
    "seconds\"\n";

static const char user_limit[] = "  user:\n"
                                 "    kind: token-bucket\n"
                                 "    per: [org, user]\n"
                                 "    missing: skip\n";

static const char user_tail[] =
    "    key: \"ratelimit:user:{org}:{user}\"\n"
    "    deny:\n"
    "      message: \"User rate limit exceeded. Retry after {retry_after} "
    "seconds\"\n";

static const char tenant_route[] = "  - match: /api/**\n"
                                   "    endpoint: api\n"
                                   "    limits: [tenant, user]\n";

static const char tenant_errors[] =
    "\n"
    "errors:\n"
    "  rate_limited:\n"
    "    status: 429\n"
    "    body:\n"
    "      error: Rate limit exceeded\n"
    "      message: \"{message}\"\n"
    "      retryAfterSeconds: \"{retry_after}\"\n";

static const char tail[] = "\n"
                           "default: []      # nothing else is limited\n"
                           "headers: [x-ratelimit]\n"
                           "reset: next\n";

/* Where it goes; behind the first failure nothing more does. */
struct writer {
    struct sl_buf *out;
    int err;
};

static void put(struct writer *w, const char *text)
{
    if (!w->err)
        w->err = sl_buf_add(w->out, sl_str_c(text));
}

static bool has_aliases(const char *tier)
{
    return strcmp(tier, "starter") == 0 || strcmp(tier, "pro") == 0 ||
           strcmp(tier, "business") == 0;
}

/* Names of plans. */
static void put_plan(struct writer *w, const struct sl_tier *t)
{
    char upper[sizeof(t->name)], line[160];

    for (size_t i = 0; i < sizeof(upper); i++)
        upper[i] = t->name[i] ? (char)(t->name[i] & ~0x20) : '\0';
    if (has_aliases(t->name))
        snprintf(line, sizeof(line),
                 "  %s: { aliases: [%s_MONTHLY, %s_YEARLY] }\n", t->name, upper,
                 upper);
    else
        snprintf(line, sizeof(line), "  %s: {}\n", t->name);
    put(w, line);
}

static void put_plans(struct writer *w, const struct sl_spring_tiers *tiers)
{
    put(w, tiers->enabled ? "enabled: true\n" : "enabled: false\n");
    put(w, "\nplans:\n  default: free\n  anonymous: free\n");
    for (unsigned i = 0; i < tiers->count; i++)
        put_plan(w, &tiers->list[i]);
}

static void put_rates(struct writer *w, const struct sl_spring_tiers *tiers,
                      bool daily)
{
    char line[160];

    put(w, "    rate:\n");
    for (unsigned i = 0; i < tiers->count; i++) {
        const struct sl_tier *t = &tiers->list[i];

        if (daily)
            snprintf(line, sizeof(line), "      %s: %" PRIu64 "/day\n", t->name,
                     t->daily_count);
        else
            snprintf(line, sizeof(line),
                     "      %s: %" PRIu64 "/min burst %" PRIu64 "\n", t->name,
                     t->rpm_count, t->burst_count);
        put(w, line);
    }
}

static void put_tier_limits(struct writer *w,
                            const struct sl_spring_tiers *tiers)
{
    put(w, daily_limit);
    put_rates(w, tiers, true);
    put(w, daily_tail);
    put(w, minute_limit);
    put_rates(w, tiers, false);
    put(w, minute_tail);
}

static void put_rpm(struct writer *w, uint64_t rpm)
{
    char line[64];

    snprintf(line, sizeof(line), "    rate: %" PRIu64 "/min\n", rpm);
    put(w, line);
}

static void put_fluo_limits(struct writer *w, const struct sl_spring_fluo *fluo)
{
    put(w, tenant_limit);
    put_rpm(w, fluo->tenant);
    put(w, tenant_tail);
    put(w, user_limit);
    put_rpm(w, fluo->user);
    put(w, user_tail);
}

static void put_server(struct writer *w, const struct sl_spring_fluo *fluo)
{
    char span[32];

    if (fluo->store.len > 0 || fluo->deadline > 0)
        put(w, "\nserver:\n");
    if (!w->err && fluo->store.len > 0)
        w->err =
            sl_buf_addf(w->out, "  store: \"%.*s\"\n", SL_STR_ARG(fluo->store));
    if (!w->err && fluo->deadline > 0)
        w->err = sl_buf_addf(w->out, "  deadline: %s\n",
                             sl_format_duration(fluo->deadline, span));
}

int sl_spring_policy(const struct sl_spring_tiers *tiers,
                     const struct sl_spring_fluo *fluo, struct sl_buf *out)
{
    struct writer w = {.out = out};

    put(&w, head);
    if (tiers->there)
        put_plans(&w, tiers);
    if (fluo->there)
        put(&w, tenant_identity);
    put(&w, "\nlimits:\n");
    if (tiers->there)
        put_tier_limits(&w, tiers);
    if (fluo->there)
        put_fluo_limits(&w, fluo);
    put(&w, "\nroutes:\n");
    if (tiers->there)
        put(&w, ai_route);
    if (fluo->there)
        put(&w, tenant_route);
    put(&w, tail);
    put(&w, tiers->there ? ai_errors : tenant_errors);
    put_server(&w, fluo);
    return w.err;
}

/* ---- rate-limit.*: tiers ----
 *
 * The original has a built-in free tier: 5 a minute, a burst of 8, 50 a day. A
 * paid tier that is not configured there silently becomes free; here it is
 * reported. A tier that is configured in part is refused.
 */

#define FREE_RPM   5
#define FREE_BURST 8
#define FREE_DAILY 50

static const char *const paid[] = {"starter", "pro", "business"};

static const char *const fields[] = {"requests-per-minute", "burst-capacity",
                                     "daily-limit"};

static const char *const tops[] = {"enabled", "tiers"};

/* The part of a key up to the next dot; *rest is the text after it. */
static struct sl_str step(struct sl_str *rest)
{
    const char *dot = rest->len ? memchr(rest->at, '.', rest->len) : NULL;
    struct sl_str first = {rest->at,
                           dot ? (size_t)(dot - rest->at) : rest->len};

    *rest = sl_str_from(*rest, first.len + (dot != NULL));
    return first;
}

static void unknown(struct sl_spring *spring, const struct sl_prop *prop,
                    struct sl_str name, const char *const *words, size_t count)
{
    const char *near = sl_str_nearest(name, words, count);

    if (near)
        sl_spring_warn(
            spring, prop->line,
            "%s is not a known setting and was ignored; did you mean %s?",
            prop->key, near);
    else
        sl_spring_warn(spring, prop->line,
                       "%s is not a known setting and was ignored", prop->key);
}

/* The tier of that name, added if it is new; NULL if there are too many or the
 * name is not valid for a plan. */
static struct sl_tier *find_tier(struct sl_spring_tiers *tiers,
                                 struct sl_str name)
{
    struct sl_tier *t;

    for (unsigned i = 0; i < tiers->count; i++)
        if (sl_spring_same(sl_str_c(tiers->list[i].name), name))
            return &tiers->list[i];
    if (tiers->count == SL_SPRING_TIERS || name.len == 0 ||
        name.len >= sizeof(t->name))
        return NULL;
    t = &tiers->list[tiers->count];
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool upper = c >= 'A' && c <= 'Z';

        if (!upper && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
            c != '-' && c != '_')
            return NULL;
        t->name[i] = upper ? (char)(c | 0x20) : c;
    }
    tiers->count++;
    return t;
}

/* tiers.NAME.FIELD */
static void read_tier(struct sl_spring *spring, const struct sl_prop *prop,
                      struct sl_str rest, struct sl_spring_tiers *tiers)
{
    struct sl_str name = step(&rest);
    struct sl_tier *t = find_tier(tiers, name);
    const struct sl_prop **slots[3];

    if (!t) {
        sl_spring_error(spring, prop->line,
                        "%s: the name of a tier consists of letters, digits, - "
                        "and _, and there can be at most %d tiers",
                        prop->key, SL_SPRING_TIERS);
        return;
    }
    slots[0] = &t->rpm;
    slots[1] = &t->burst;
    slots[2] = &t->daily;
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_spring_same(rest, sl_str_c(fields[i]))) {
            *slots[i] = prop;
            return;
        }
    unknown(spring, prop, rest, fields, SL_LEN(fields));
}

static void read_prop(struct sl_spring *spring, const struct sl_prop *prop,
                      struct sl_spring_tiers *tiers)
{
    struct sl_str rest = sl_str_c(prop->key);
    struct sl_str first;

    if (!sl_spring_same(step(&rest), SL_STR("rate-limit")))
        return;
    tiers->there = true;
    first = step(&rest);
    if (sl_spring_same(first, SL_STR("enabled")) && rest.len == 0)
        sl_spring_switch(spring, prop, &tiers->enabled);
    else if (sl_spring_same(first, SL_STR("tiers")))
        read_tier(spring, prop, rest, tiers);
    else
        unknown(spring, prop, first, tops, SL_LEN(tops));
}

/* A missing field gets `preset`, with a message; without a preset (0) it is an
 * error. */
static void read_count(struct sl_spring *spring, const struct sl_tier *t,
                       const struct sl_prop *prop, const char *field,
                       uint64_t preset, uint64_t *ret)
{
    if (prop) {
        sl_spring_count(spring, prop, ret);
        return;
    }
    if (preset == 0) {
        sl_spring_error(spring, 0,
                        "rate-limit.tiers.%s has no %s; add the value that "
                        "this plan includes",
                        t->name, field);
        return;
    }
    *ret = preset;
    if (t->rpm || t->burst || t->daily)
        sl_spring_warn(spring, 0, "rate-limit.tiers.%s has no %s; %llu is used",
                       t->name, field, (unsigned long long)preset);
}

static void complete(struct sl_spring *spring, struct sl_tier *t)
{
    bool is_free = strcmp(t->name, "free") == 0;

    read_count(spring, t, t->rpm, fields[0], is_free ? FREE_RPM : 0,
               &t->rpm_count);
    read_count(spring, t, t->burst, fields[1],
               is_free ? FREE_BURST : t->rpm_count, &t->burst_count);
    read_count(spring, t, t->daily, fields[2], is_free ? FREE_DAILY : 0,
               &t->daily_count);
}

static bool has_tier(const struct sl_spring_tiers *tiers, const char *name)
{
    for (unsigned i = 0; i < tiers->count; i++)
        if (strcmp(tiers->list[i].name, name) == 0)
            return true;
    return false;
}

void sl_spring_tiers_read(struct sl_spring *spring, struct sl_spring_tiers *ret)
{
    *ret = (struct sl_spring_tiers){.enabled = true};
    find_tier(ret, SL_STR("free")); /* always present, and first */
    for (const struct sl_prop *p = spring->props->first; p; p = p->next)
        read_prop(spring, p, ret);
    if (!ret->there)
        return;
    for (unsigned i = 0; i < ret->count; i++)
        complete(spring, &ret->list[i]);
    for (size_t i = 0; i < SL_LEN(paid); i++)
        if (!has_tier(ret, paid[i]))
            sl_spring_warn(spring, 0,
                           "rate-limit.tiers.%s is missing, so customers on "
                           "that plan would get the limits of free; add the "
                           "tier, or write unknown_plan: deny below plans",
                           paid[i]);
}

/* ---- reading settings ---- */

#define COUNT_MAX UINT64_C(4000000000) /* the maximum of a bucket, rounded */

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
        c = sl_properties_letter(a, &i);
        if (c != sl_properties_letter(b, &k))
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
    struct sl_spring_tiers tiers;
    struct sl_spring_fluo fluo;

    sl_spring_tiers_read(spring, &tiers);
    sl_spring_fluo_read(spring, &fluo);
    if (spring->errors)
        return SLUICE_ECONF;
    if (!tiers.there && !fluo.there)
        return SLUICE_ENOENT;
    return sl_spring_policy(&tiers, &fluo, out);
}

/* ---- fluo.ratelimit.* and the Redis settings ---- */

#define TENANT_RPM 1000
#define USER_RPM   100

/* A longer timeout would delay callers noticeably. */
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
                       struct sl_spring_fluo *fluo)
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
                       struct sl_spring_fluo *fluo)
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
                         struct sl_spring_fluo *fluo)
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

void sl_spring_fluo_read(struct sl_spring *spring, struct sl_spring_fluo *ret)
{
    const struct sl_prop *p;

    *ret = (struct sl_spring_fluo){.tenant = TENANT_RPM, .user = USER_RPM};
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
