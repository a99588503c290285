/* spring.c -- the settings of Java programs as a policy. */
#include "cli/spring.h"

#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "cli/java_limits.h"
#include "cli/spring_read.h"

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
                        const struct sl_java *java, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    char span[32];

    put(&w, head);
    if (tiers->found)
        put_plans(&w, tiers);
    else if (java->disabled)
        put(&w, "enabled: false\n");
    put(&w, fluo->found         ? tenant_identity
            : java->scope_count ? "\nidentity:\n"
                                : "");
    sl_java_put_scopes(&w, java);
    put(&w, "\nlimits:\n");
    if (tiers->found)
        put_tier_limits(&w, tiers);
    if (fluo->found)
        sl_writer_addf(&w, TENANT_LIMITS, fluo->tenant, fluo->user);
    sl_java_put_limits(&w, java);
    put(&w, "\nroutes:\n");
    put(&w, tiers->found ? ai_route : "");
    put(&w, fluo->found ? tenant_route : "");
    sl_java_put_routes(&w, java);
    put(&w, tail);
    put(&w, tiers->found ? ai_errors : fluo->found ? tenant_errors : "");
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

const char *const sl_spring_families[] = {
    "rate-limit",
    "fluo.ratelimit",
    "bucket4j",
    "spring.cloud.gateway",
    "resilience4j.ratelimiter",
    "quarkus.redis.hosts",
    "quarkus.redis.timeout",
    NULL,
};

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

/* The tier of that name, added if it is new; NULL if there are too many or the
 * name is not valid for a plan. */
static struct tier *find_tier(struct tiers *tiers, struct sl_str name)
{
    struct tier *t;

    for (unsigned i = 0; i < tiers->count; i++)
        if (sl_spring_same(sl_str_c(tiers->list[i].name), name))
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
    struct sl_str name = sl_spring_step(&rest);
    struct tier *t = find_tier(tiers, name);

    if (!t) {
        sl_spring_error(spring, prop->line,
                        "%s: the name of a tier consists of letters, digits, - "
                        "and _, and there can be at most %d tiers",
                        prop->key, TIERS_MAX);
        return;
    }
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_spring_same(rest, sl_str_c(fields[i]))) {
            t->fields[i] = prop;
            return;
        }
    sl_spring_unknown(spring, prop, rest, fields, SL_LEN(fields));
}

static void read_prop(struct sl_spring *spring, const struct sl_prop *prop,
                      struct tiers *tiers)
{
    struct sl_str rest = sl_str_c(prop->key);
    struct sl_str first;

    if (!sl_spring_same(sl_spring_step(&rest), SL_STR("rate-limit")))
        return;
    tiers->found = true;
    first = sl_spring_step(&rest);
    if (sl_spring_same(first, SL_STR("enabled")) && rest.len == 0)
        sl_spring_switch(spring, prop, &tiers->enabled);
    else if (sl_spring_same(first, SL_STR("tiers")))
        read_tier(spring, prop, rest, tiers);
    else
        sl_spring_unknown(spring, prop, first, tops, SL_LEN(tops));
}

/* A missing field gets `preset`, with a message; without a preset (0) it is an
 * error. */
static void read_field(struct sl_spring *spring, const struct tier *t,
                       unsigned index, uint64_t preset, uint64_t *ret)
{
    if (t->fields[index]) {
        sl_spring_number(spring, t->fields[index], ret);
    } else if (preset == 0) {
        sl_spring_error(
            spring, 0,
            "rate-limit.tiers.%s has no %s; add the value that this plan "
            "includes",
            t->name, fields[index]);
    } else {
        *ret = preset;
        if (t->fields[0] || t->fields[1] || t->fields[2])
            sl_spring_warn(spring, 0,
                           "rate-limit.tiers.%s has no %s; %" PRIu64 " is used",
                           t->name, fields[index], preset);
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
            sl_spring_warn(spring, 0,
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

static void read_timeout(struct sl_spring *spring, const struct sl_prop *prop,
                         struct fluo *fluo)
{
    sl_ns span = 0;
    char words[32];

    if (!sl_spring_span(sl_spring_value(spring, prop), SL_S, &span) ||
        span <= 0) {
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
            !sl_spring_same((struct sl_str){key.at, family.len}, family))
            continue;
        ret->found = true;
        if (sl_spring_same(key, sl_str_c(known[0])))
            sl_spring_number(spring, p, &ret->tenant);
        else if (sl_spring_same(key, sl_str_c(known[1])))
            sl_spring_number(spring, p, &ret->user);
        else
            sl_spring_unknown(spring, p, key, known, SL_LEN(known));
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
    static struct sl_java java;
    struct tiers tiers;
    struct fluo fluo;

    read_tiers(spring, &tiers);
    read_fluo(spring, &fluo);
    sl_java_read(spring, &java);
    if (spring->errors)
        return SLUICE_ECONF;
    if (!tiers.found && !fluo.found && java.limit_count == 0)
        return SLUICE_ENOENT;
    return write_policy(&tiers, &fluo, &java, out);
}
