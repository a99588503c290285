/* write.c -- what was read, as a policy. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/spring/spring.h"

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

/* The names under which such plans are sold. */
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

static void put_plans(struct writer *w, const struct sl_tiers *tiers)
{
    put(w, tiers->enabled ? "enabled: true\n" : "enabled: false\n");
    put(w, "\nplans:\n  default: free\n  anonymous: free\n");
    for (unsigned i = 0; i < tiers->count; i++)
        put_plan(w, &tiers->list[i]);
}

static void put_rates(struct writer *w, const struct sl_tiers *tiers,
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

static void put_tier_limits(struct writer *w, const struct sl_tiers *tiers)
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

static void put_fluo_limits(struct writer *w, const struct sl_fluo *fluo)
{
    put(w, tenant_limit);
    put_rpm(w, fluo->tenant);
    put(w, tenant_tail);
    put(w, user_limit);
    put_rpm(w, fluo->user);
    put(w, user_tail);
}

static void put_server(struct writer *w, const struct sl_fluo *fluo)
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

int sl_spring_policy(const struct sl_tiers *tiers, const struct sl_fluo *fluo,
                     struct sl_buf *out)
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
