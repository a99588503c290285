/* spring.c -- the settings of two Java programs as a policy. */
#include "cli/spring.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

#define TIERS_MAX 32

struct tier {
    char name[32];
    const struct sl_prop *fields[3]; /* by row of `fields` */
    uint64_t rpm, burst, daily;
};

struct tiers {
    bool found, enabled;
    struct tier list[TIERS_MAX];
    unsigned count;
};

struct fluo {
    bool found;
    uint64_t tenant, user;
    struct sl_str store;
    sl_ns deadline; /* 0: not set */
};

/* ---- writing the policy ---- */

static const char head[] =
    "# Written by 'sluice import spring'. Edit it as needed.\n"
    "sluice: 1\n";

static const char tenant_identity[] =
    "\n"
    "identity:\n"
    "  org: [header.tenantid]   # names of headers have no case\n"
    "  user: [header.userid]\n"
    "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n";

/* A limit of the tiers: its name, before its rates, and the text after them. */
static const char tier_limit[] = "  ai-%s:\n"
                                 "    kind: token-bucket\n"
                                 "    per: user\n"
                                 "    missing: skip\n"
                                 "    on_store_failure: allow\n"
                                 "    rate:\n";

static const char tier_limit_tail[] = "    key: \"{user}:%s\"\n"
                                      "    deny:\n"
                                      "      message: \"%s\"\n";

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

/* With the requests per minute of a tenant and of a user. */
#define TENANT_LIMITS                                                          \
    "  tenant:\n"                                                              \
    "    kind: token-bucket\n"                                                 \
    "    per: org\n"                                                           \
    "    missing: deny\n"                                                      \
    "    rate: %" PRIu64 "/min\n"                                              \
    "    key: \"ratelimit:tenant:{org}\"\n"                                    \
    "    on_store_failure: local\n"                                            \
    "    deny:\n"                                                              \
    "      message: \"Tenant rate limit exceeded. Retry after "                \
    "{retry_after} seconds\"\n"                                                \
    "  user:\n"                                                                \
    "    kind: token-bucket\n"                                                 \
    "    per: [org, user]\n"                                                   \
    "    missing: skip\n"                                                      \
    "    rate: %" PRIu64 "/min\n"                                              \
    "    key: \"ratelimit:user:{org}:{user}\"\n"                               \
    "    on_store_failure: local\n"                                            \
    "    deny:\n"                                                              \
    "      message: \"User rate limit exceeded. Retry after "                  \
    "{retry_after} seconds\"\n"

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

static const char *const paid[] = {"starter", "pro", "business"};

static void put(struct sl_writer *w, const char *text)
{
    sl_writer_add(w, sl_str_c(text));
}

static void put_plans(struct sl_writer *w, const struct tiers *tiers)
{
    sl_writer_addf(w,
                   "enabled: %s\n\nplans:\n  default: free\n"
                   "  anonymous: free\n",
                   tiers->enabled ? "true" : "false");
    for (unsigned i = 0; i < tiers->count; i++) {
        const char *name = tiers->list[i].name;
        char upper[sizeof(tiers->list[i].name)];
        bool aliases = false;

        for (size_t k = 0; k < SL_LEN(paid); k++)
            aliases = aliases || strcmp(name, paid[k]) == 0;
        for (size_t k = 0; k < sizeof(upper); k++)
            upper[k] = name[k] ? (char)(name[k] & ~0x20) : '\0';
        if (aliases)
            sl_writer_addf(w, "  %s: { aliases: [%s_MONTHLY, %s_YEARLY] }\n",
                           name, upper, upper);
        else
            sl_writer_addf(w, "  %s: {}\n", name);
    }
}

static void put_tier_limits(struct sl_writer *w, const struct tiers *tiers)
{
    sl_writer_addf(w, tier_limit, "daily");
    for (const struct tier *t = tiers->list; t < tiers->list + tiers->count;
         t++)
        sl_writer_addf(w, "      %s: %" PRIu64 "/day\n", t->name, t->daily);
    sl_writer_addf(w, tier_limit_tail, "daily",
                   "Daily AI request limit of {limit} exceeded. Limit resets "
                   "in 24 hours.");
    sl_writer_addf(w, tier_limit, "minute");
    for (const struct tier *t = tiers->list; t < tiers->list + tiers->count;
         t++)
        sl_writer_addf(w, "      %s: %" PRIu64 "/min burst %" PRIu64 "\n",
                       t->name, t->rpm, t->burst);
    sl_writer_addf(w, tier_limit_tail, "minute",
                   "Rate limit exceeded. Maximum {limit} AI requests per "
                   "minute. Please try again shortly.");
}

static int write_policy(const struct tiers *tiers, const struct fluo *fluo,
                        struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    char span[32];

    put(&w, head);
    if (tiers->found)
        put_plans(&w, tiers);
    put(&w, fluo->found ? tenant_identity : "");
    put(&w, "\nlimits:\n");
    if (tiers->found)
        put_tier_limits(&w, tiers);
    if (fluo->found)
        sl_writer_addf(&w, TENANT_LIMITS, fluo->tenant, fluo->user);
    put(&w, "\nroutes:\n");
    put(&w, tiers->found ? ai_route : "");
    put(&w, fluo->found ? tenant_route : "");
    put(&w, tail);
    put(&w, tiers->found ? ai_errors : tenant_errors);
    if (fluo->store.len > 0 || fluo->deadline > 0)
        put(&w, "\nserver:\n");
    if (fluo->store.len > 0)
        sl_writer_addf(&w, "  store: \"%.*s\"\n", SL_STR_ARG(fluo->store));
    if (fluo->deadline > 0)
        sl_writer_addf(&w, "  deadline: %s\n",
                       sl_format_duration(fluo->deadline, span));
    return w.err;
}

/* ---- reading settings ---- */

#define COUNT_MAX UINT64_C(4000000000) /* the maximum of a bucket, rounded */

/* Report a message about `line`. */
static void warn(struct sl_spring *spring, unsigned line, const char *fmt, ...)
    SL_PRINTF(3, 4);

static void warn(struct sl_spring *spring, unsigned line, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    spring->tell(spring->ctx, line, text);
}

#define error(spring, ...) (warn(spring, __VA_ARGS__), (void)(spring)->errors++)

const char *const sl_spring_families[] = {
    "rate-limit",
    "fluo.ratelimit",
    "quarkus.redis.hosts",
    "quarkus.redis.timeout",
    NULL,
};

/* Compare names as Java does: requestsPerMinute, requests_per_minute and
 * requests-per-minute are equal. */
static bool same(struct sl_str a, struct sl_str b)
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

/* Replace ${NAME:default} by its default, with a message. */
static struct sl_str value_of(struct sl_spring *spring,
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
    warn(spring, prop->line,
         "%s is read from the environment; its default %.*s is used", prop->key,
         SL_STR_ARG(value));
    return value;
}

/* Read a count of at least 1, or report why not. */
static void read_number(struct sl_spring *spring, const struct sl_prop *prop,
                        uint64_t *ret)
{
    uint64_t n = 0;

    if (sl_parse_number(value_of(spring, prop), &n, NULL) || n == 0 ||
        n > COUNT_MAX)
        error(spring, prop->line,
              "%s must be a whole number of at least 1, not \"%s\"", prop->key,
              prop->value);
    else
        *ret = n;
}

/* Read true or false, as Java does. */
static void read_switch(struct sl_spring *spring, const struct sl_prop *prop,
                        bool *ret)
{
    static const char *const words[] = {"false", "true", "off", "on",
                                        "no",    "yes",  "0",   "1"};
    struct sl_str value = value_of(spring, prop);

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq_nocase(value, sl_str_c(words[i]))) {
            *ret = i % 2;
            return;
        }
    error(spring, prop->line, "%s must be true or false, not \"%s\"", prop->key,
          prop->value);
}

static void unknown(struct sl_spring *spring, const struct sl_prop *prop,
                    struct sl_str name, const char *const *words, size_t count)
{
    const char *near = sl_str_nearest(name, words, count);

    warn(spring, prop->line, "%s is not a known setting and was ignored%s%s%s",
         prop->key, near ? "; did you mean " : "", near ? near : "",
         near ? "?" : "");
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

/* The tier of that name, added if it is new; NULL if there are too many or the
 * name is not valid for a plan. */
static struct tier *find_tier(struct tiers *tiers, struct sl_str name)
{
    struct tier *t;

    for (unsigned i = 0; i < tiers->count; i++)
        if (same(sl_str_c(tiers->list[i].name), name))
            return &tiers->list[i];
    if (tiers->count == TIERS_MAX || name.len == 0 ||
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
                      struct sl_str rest, struct tiers *tiers)
{
    struct sl_str name = step(&rest);
    struct tier *t = find_tier(tiers, name);

    if (!t) {
        error(spring, prop->line,
              "%s: the name of a tier consists of letters, digits, - "
              "and _, and there can be at most %d tiers",
              prop->key, TIERS_MAX);
        return;
    }
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (same(rest, sl_str_c(fields[i]))) {
            t->fields[i] = prop;
            return;
        }
    unknown(spring, prop, rest, fields, SL_LEN(fields));
}

static void read_prop(struct sl_spring *spring, const struct sl_prop *prop,
                      struct tiers *tiers)
{
    struct sl_str rest = sl_str_c(prop->key);
    struct sl_str first;

    if (!same(step(&rest), SL_STR("rate-limit")))
        return;
    tiers->found = true;
    first = step(&rest);
    if (same(first, SL_STR("enabled")) && rest.len == 0)
        read_switch(spring, prop, &tiers->enabled);
    else if (same(first, SL_STR("tiers")))
        read_tier(spring, prop, rest, tiers);
    else
        unknown(spring, prop, first, tops, SL_LEN(tops));
}

/* A missing field gets `preset`, with a message; without a preset (0) it is an
 * error. */
static void read_field(struct sl_spring *spring, const struct tier *t,
                       unsigned index, uint64_t preset, uint64_t *ret)
{
    if (t->fields[index]) {
        read_number(spring, t->fields[index], ret);
    } else if (preset == 0) {
        error(spring, 0,
              "rate-limit.tiers.%s has no %s; add the value that this plan "
              "includes",
              t->name, fields[index]);
    } else {
        *ret = preset;
        if (t->fields[0] || t->fields[1] || t->fields[2])
            warn(spring, 0,
                 "rate-limit.tiers.%s has no %s; %" PRIu64 " is used", t->name,
                 fields[index], preset);
    }
}

static void complete(struct sl_spring *spring, struct tier *t)
{
    bool is_free = strcmp(t->name, "free") == 0;

    read_field(spring, t, 0, is_free ? FREE_RPM : 0, &t->rpm);
    read_field(spring, t, 1, is_free ? FREE_BURST : t->rpm, &t->burst);
    read_field(spring, t, 2, is_free ? FREE_DAILY : 0, &t->daily);
}

static void read_tiers(struct sl_spring *spring, struct tiers *ret)
{
    *ret = (struct tiers){.enabled = true};
    find_tier(ret, SL_STR("free")); /* always present, and first */
    for (const struct sl_prop *p = spring->props->first; p; p = p->next)
        read_prop(spring, p, ret);
    if (!ret->found)
        return;
    for (unsigned i = 0; i < ret->count; i++)
        complete(spring, &ret->list[i]);
    for (size_t i = 0; i < SL_LEN(paid); i++) {
        unsigned k = 0;

        while (k < ret->count && strcmp(ret->list[k].name, paid[i]) != 0)
            k++;
        if (k == ret->count)
            warn(spring, 0,
                 "rate-limit.tiers.%s is missing, so customers on "
                 "that plan would get the limits of free; add the "
                 "tier, or write unknown_plan: deny below plans",
                 paid[i]);
    }
}

/* ---- fluo.ratelimit.* and the Redis settings ---- */

#define TENANT_RPM 1000
#define USER_RPM   100

/* A longer timeout would delay callers noticeably. */
#define SLOW (100 * SL_MS)

static void read_hosts(struct sl_spring *spring, const struct sl_prop *prop,
                       struct fluo *fluo)
{
    struct sl_str value = value_of(spring, prop);
    const char *comma = value.len ? memchr(value.at, ',', value.len) : NULL;

    if (comma) {
        warn(spring, prop->line,
             "%s names several hosts; only the first is used", prop->key);
        value.len = (size_t)(comma - value.at);
    }
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] <= ' ' || value.at[i] > '~' || value.at[i] == '"' ||
            value.at[i] == '\\' || value.at[i] == '$') {
            error(spring, prop->line,
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
                         struct fluo *fluo)
{
    sl_ns span = 0;
    char words[32];

    if (!read_span(value_of(spring, prop), &span) || span <= 0) {
        error(spring, prop->line,
              "%s: \"%s\" is not a duration; write one like 20ms", prop->key,
              prop->value);
        return;
    }
    fluo->deadline = span;
    if (span > SLOW)
        warn(spring, prop->line,
             "%s: every request waits up to %s when Redis does not "
             "answer; 20ms is a common deadline",
             prop->key, sl_format_duration(span, words));
}

static void read_fluo(struct sl_spring *spring, struct fluo *ret)
{
    static const char *const known[] = {
        "fluo.ratelimit.tenant.requests-per-minute",
        "fluo.ratelimit.user.requests-per-minute",
    };
    static const struct sl_str family = {"fluo.ratelimit.", 15};
    const struct sl_prop *p;

    *ret = (struct fluo){.tenant = TENANT_RPM, .user = USER_RPM};
    for (p = spring->props->first; p; p = p->next) {
        struct sl_str key = sl_str_c(p->key);

        if (key.len < family.len ||
            !same((struct sl_str){key.at, family.len}, family))
            continue;
        ret->found = true;
        if (same(key, sl_str_c(known[0])))
            read_number(spring, p, &ret->tenant);
        else if (same(key, sl_str_c(known[1])))
            read_number(spring, p, &ret->user);
        else
            unknown(spring, p, key, known, SL_LEN(known));
    }
    for (p = spring->props->first; p && ret->found; p = p->next) {
        if (strcmp(p->key, "quarkus.redis.hosts") == 0)
            read_hosts(spring, p, ret);
        if (strcmp(p->key, "quarkus.redis.timeout") == 0)
            read_timeout(spring, p, ret);
    }
}

int sl_spring_write(struct sl_spring *spring, struct sl_buf *out)
{
    struct tiers tiers;
    struct fluo fluo;

    read_tiers(spring, &tiers);
    read_fluo(spring, &fluo);
    if (spring->errors)
        return SLUICE_ECONF;
    if (!tiers.found && !fluo.found)
        return SLUICE_ENOENT;
    return write_policy(&tiers, &fluo, out);
}
