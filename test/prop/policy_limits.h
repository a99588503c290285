/* policy_limits.h -- random limits and routes, and the whole of a random
 * policy. */
#ifndef SL_PROP_POLICY_LIMITS_H
#define SL_PROP_POLICY_LIMITS_H

#include "policies.h"

/* ---- rates ---- */

/* One period in several spellings. */
struct period {
    const char *spellings[3];
    bool quota;      /* for quotas only */
    unsigned anchor; /* the largest; 0: follows no calendar */
    unsigned most;   /* of a count that is tried */
};

static const struct period periods[] = {
    {{"s", "1s", "1000ms"},          false, 0,  40},
    {{"1500ms", "1500ms", "1500ms"}, false, 0,  9 },
    {{"min", "60s", "1m"},           false, 0,  40},
    {{"90s", "90sec", "90000ms"},    false, 0,  9 },
    {{"h", "60min", "3600s"},        false, 0,  40},
    {{"24h", "1440m", "24hour"},     false, 0,  40},
    {{"36h", "2160min", "36hour"},   false, 0,  9 },
    {{"day", "1d", "day"},           true,  1,  40},
    {{"3d", "3day", "3d"},           true,  1,  40},
    {{"week", "1week", "week"},      true,  7,  40},
    {{"month", "1month", "month"},   true,  31, 40},
    {{"2month", "2month", "2month"}, true,  31, 40},
};

/* Buckets and windows count days too, and take them for 24 hours. */
static const struct period *random_period(struct maker *m, const char *kind)
{
    static const struct period day = {
        {"day", "24h", "1440min"},
        false, 0, 40
    };
    const struct period *period;

    do {
        period = &PICK(m, periods);
    } while (period->quota && strcmp(kind, "quota") != 0);
    return strcmp(kind, "quota") != 0 && maybe(m, 6) ? &day : period;
}

static const char *random_rate(struct maker *m, const char *kind,
                               const struct period *period)
{
    uint64_t count = 1 + rng_log(m->rng, period->most);
    bool plain = !strcmp(kind, "concurrency") || !strcmp(kind, "level");
    const char *more = !strcmp(kind, "token-bucket")   ? "burst"
                       : !strcmp(kind, "leaky-bucket") ? "queue"
                                                       : NULL;
    char out[80];
    size_t len;

    if (maybe(m, 8))
        return maybe(m, 2) ? "unlimited" : "none";
    len = (size_t)snprintf(out, sizeof(out), "%" PRIu64 "%s", count,
                           maybe(m, 12) ? "k" : "");
    if (!plain)
        len += (size_t)snprintf(out + len, sizeof(out) - len, "/%s",
                                PICK(m, period->spellings));
    if (!plain && more && maybe(m, 2))
        snprintf(out + len, sizeof(out) - len, " %s %" PRIu64, more,
                 rng_between(m->rng, 1, 50));
    return tree_copy(m->f, out);
}

/* One for all, or one for each plan. */
static void put_rates(struct maker *m, struct tree *limit, const char *key,
                      const char *kind, const struct period *period)
{
    struct tree *map;

    if (m->plan_count == 0 || maybe(m, 3)) {
        put_word(m, limit, key, random_rate(m, kind, period));
        return;
    }
    map = put_map(m, limit, key);
    for (unsigned i = 0; i < m->plan_count; i++)
        put_word(m, map, plan_name(m, i), random_rate(m, kind, period));
}

/* ---- limits ---- */

static void put_per(struct maker *m, struct tree *limit)
{
    if (maybe(m, 4)) /* the usual one */
        put_word(m, limit, "per", "user");
    else if (!maybe(m, 5))
        put_some(m, limit, "per", m->scopes, m->scope_count, 0);
}

static void put_deny(struct maker *m, struct tree *limit)
{
    static const char *const codes[] = {"TOO_MUCH", "no", "1.5", "a-b"};
    static const char *const statuses[] = {"429", "402", "403", "503"};
    struct tree *deny = put_map(m, limit, "deny");

    if (maybe(m, 2))
        put_word(m, deny, "status", PICK(m, statuses));
    else if (maybe(m, 4))
        put_number(m, deny, "status", 400, 599);
    if (maybe(m, 2))
        put_word(m, deny, "code", PICK(m, codes));
    if (maybe(m, 2))
        put_word(m, deny, "message", random_message(m));
}

/* A name, or a unit with a scale. */
static void put_unit(struct maker *m, struct tree *limit, const char *kind)
{
    static const char *const units[] = {"minutes", "", "true", "AI: tokens"};
    struct tree *unit;

    if (!maybe(m, 3))
        return;
    if (!strcmp(kind, "concurrency") || !strcmp(kind, "leaky-bucket") ||
        maybe(m, 2)) {
        put_word(m, limit, "unit", PICK(m, units));
        return;
    }
    unit = put_map(m, limit, "unit");
    put_word(m, unit, "name", PICK(m, units));
    put_number(m, unit, "of", 2, 60);
    put_word(m, unit, "reports", PICK(m, units));
}

static void put_words(struct maker *m, struct tree *limit)
{
    static const char *const missing[] = {"anonymous", "skip", "deny"};
    static const char *const modes[] = {"enforce", "enforce", "shadow", "off"};
    static const char *const failures[] = {"allow", "deny", "local"};

    if (maybe(m, 2))
        put_word(m, limit, "missing", PICK(m, missing));
    if (maybe(m, 3))
        put_word(m, limit, "mode", PICK(m, modes));
    if (maybe(m, 3))
        put_word(m, limit, "on_store_failure", PICK(m, failures));
    if (maybe(m, 3))
        put_word(m, limit, "on_full", maybe(m, 2) ? "deny" : "allow");
    if (maybe(m, 4))
        put_number(m, limit, "cost", 1, 4);
    if (maybe(m, 4))
        make_headers(m, limit);
    if (maybe(m, 2))
        put_deny(m, limit);
}

static void put_key(struct maker *m, struct tree *limit, const char *kind)
{
    static const char *const keys[] = {
        "rl:{env}:{name}:{scope}:{id}", "{name}|{scope}|{id}",
        "sluice:{env}:{name}:{scope}:{id}", "{{{env}}}:{name}:{scope}:{id}"};
    bool window = !strcmp(kind, "fixed-window") && maybe(m, 2);

    if (maybe(m, 2))
        put_word(m, limit, "key",
                 window ? "w:{name}:{window_start}:{scope}:{id}"
                        : PICK(m, keys));
}

static void put_calendar(struct maker *m, struct tree *limit,
                         const struct period *period)
{
    static const char *const zones[] = {"UTC", "Europe/Berlin",
                                        "America/New_York"};

    if (period->anchor == 0)
        return;
    if (maybe(m, 2))
        put_word(m, limit, "zone", PICK(m, zones));
    if (maybe(m, 2))
        put_number(m, limit, "anchor", 1, period->anchor);
}

static void make_limit(struct maker *m, struct tree *limits,
                       struct made_limit *made)
{
    static const char *const kinds[] = {
        "token-bucket", "token-bucket",   "leaky-bucket",
        "fixed-window", "sliding-window", "quota",
        "quota",        "concurrency",    "level"};
    const char *kind = PICK(m, kinds);
    const struct period *period = random_period(m, kind);
    struct tree *limit = put_map(m, limits, made->name);

    made->kind = kind;
    put_word(m, limit, "kind", kind);
    if (!strcmp(kind, "token-bucket") && maybe(m, 2))
        put_word(m, limit, "refill", maybe(m, 2) ? "interval" : "continuous");
    put_per(m, limit);
    put_rates(m, limit, "rate", kind, period);
    if (maybe(m, 4))
        put_rates(m, limit, "candidate", kind, period);
    if (!strcmp(kind, "quota"))
        put_calendar(m, limit, period);
    put_words(m, limit);
    put_unit(m, limit, kind);
    if ((!strcmp(kind, "token-bucket") || !strcmp(kind, "quota")) &&
        maybe(m, 4))
        put_word(m, limit, "lease", maybe(m, 2) ? "7%" : "100%");
    put_key(m, limit, kind);
}

/* A limit by address that no caller gets round. */
static void make_guard(struct maker *m, struct tree *limits)
{
    struct tree *limit = put_map(m, limits, "guard");

    m->limits[m->limit_count++] =
        (struct made_limit){.name = "guard", .kind = "fixed-window"};
    put_word(m, limit, "kind", "fixed-window");
    put_word(m, limit, "per", "ip");
    put_word(m, limit, "rate", "30/min");
    if (maybe(m, 2))
        return;
    put_word(m, limit, "credits", "pool");
    limit = put_map(m, limits, "pool");
    put_word(m, limit, "kind", "quota");
    put_some(m, limit, "per", (const char *const[]){"ip"}, 1, 1);
    put_word(m, limit, "rate", "5/day");
}

static void make_limits(struct maker *m, struct tree *top)
{
    static const char *const names[] = {"api", "ai-minute", "null",
                                        "7",   "Quota.1",   "off"};
    unsigned count = (unsigned)rng_below(m->rng, MOST + 1);
    struct tree *limits;

    if (count == 0 && !m->guarded && maybe(m, 2))
        return;
    limits = put_map(m, top, "limits");
    if (m->guarded)
        make_guard(m, limits);
    for (unsigned i = 0; i < count; i++) {
        struct made_limit *made = &m->limits[m->limit_count++];

        made->name = names[i];
        make_limit(m, limits, made);
    }
}

/* ---- routes ---- */

/* Some of the limits; the first and the first quota of them, if any. */
static void put_limits(struct maker *m, struct tree *map, const char *key,
                       const char **first, const char **quota)
{
    struct tree *list = put_list(m, map, key);
    bool guard = m->guarded;

    for (unsigned i = 0; i < m->limit_count; i++) {
        const struct made_limit *made = &m->limits[i];

        if (i == 0 ? !guard && maybe(m, 2) : maybe(m, 2))
            continue;
        (void)tree_put(m->f, list, NULL, tree_word(m->f, made->name));
        if (!*first || maybe(m, 2))
            *first = made->name;
        if (!strcmp(made->kind, "quota"))
            *quota = made->name;
    }
}

static const char *random_pattern(struct maker *m)
{
    static const char *const methods[] = {
        "", "", "GET ", "get,POST  ", "DELETE ", "OPTIONS,PUT "};
    static const char *const segments[] = {"/a",   "/b",     "/API", "/*",
                                           "/:id", "/a%20b", "/x.y"};
    unsigned count = (unsigned)rng_below(m->rng, 4);
    size_t len;
    char out[80];

    len = (size_t)snprintf(out, sizeof(out), "%s", PICK(m, methods));
    for (unsigned i = 0; i < count; i++)
        len += (size_t)snprintf(out + len, 16, "%s", PICK(m, segments));
    if (maybe(m, 3))
        len += (size_t)snprintf(out + len, 8, "/**");
    else if (count == 0)
        snprintf(out + len, 8, "/");
    return tree_copy(m->f, out);
}

/* A pattern that no earlier one covers, or NULL after a few tries. */
static const char *find_pattern(struct maker *m)
{
    struct sl_pattern *fresh = &m->patterns[m->pattern_count];

    for (unsigned tries = 0; tries < 10; tries++) {
        const char *text = random_pattern(m);
        bool covered = false;

        if (sl_pattern_read(sl_str_c(text), &m->f->arena, fresh, NULL))
            abort();
        for (unsigned i = 0; i < m->pattern_count; i++)
            covered |= sl_pattern_covers(&m->patterns[i], fresh);
        if (!covered) {
            m->pattern_count++;
            return text;
        }
    }
    return NULL;
}

static void put_target(struct maker *m, struct tree *route, unsigned i)
{
    static const char *const jobs[MOST] = {"embed", "null", "5", "x", "y", "z"};
    const char *pattern = maybe(m, 4) ? NULL : find_pattern(m);

    put_word(m, route, pattern ? "match" : "job", pattern ? pattern : jobs[i]);
}

static void put_conditions(struct maker *m, struct tree *map, const char *key)
{
    static const char *const values[] = {"x", "h1", "pro*", "*", "null"};
    static const char *const nets[] = {"10.0.0.0/8", "203.0.113.5",
                                       "2001:db8::/32 192.0.2.1"};
    static const char *const of[] = {"header.x-plan", "header.X~ODD!", "user",
                                     "org",           "role",          "ip",
                                     "method"};
    unsigned items = 1 + (unsigned)rng_below(m->rng, 2);
    struct tree *list = put_list(m, map, key);

    for (unsigned i = 0; i < items; i++) {
        struct tree *item = put_map(m, list, NULL);
        const char *what = PICK(m, of), *other = PICK(m, of);

        put_word(m, item, what,
                 !strcmp(what, "ip")       ? PICK(m, nets)
                 : !strcmp(what, "method") ? "GET"
                                           : PICK(m, values));
        if (strcmp(what, other) != 0 && strcmp(other, "ip") != 0 && maybe(m, 3))
            put_some(m, item, other, values, SL_LEN(values), 1);
    }
}

static void put_cost(struct maker *m, struct tree *route, const char *limit)
{
    static const char *const costs[] = {"2",
                                        "1k",
                                        "header.x-plan default 3",
                                        "header.user-agent",
                                        "body./n~1m default 4",
                                        "size",
                                        "size/1KiB default 2"};

    if (maybe(m, 2))
        put_word(m, route, "cost", PICK(m, costs));
    else
        put_word(m, put_map(m, route, "cost"), limit, PICK(m, costs));
}

static void make_route(struct maker *m, struct tree *routes, unsigned i)
{
    static const char *const anonymous[] = {"limit", "pass", "deny"};
    static const char *const failures[] = {"allow", "deny", "local"};
    static const char *const roles[] = {"member", "admin", "null"};
    static const char *const ends[] = {"end", "null", "1"};
    const char *report = NULL, *quota = NULL, *without = PICK(m, anonymous);
    struct tree *route = put_map(m, routes, NULL);
    bool roles_count = maybe(m, 4);

    put_target(m, route, i);
    if (maybe(m, 2))
        put_limits(m, route, "limits", &report, &quota);
    if (maybe(m, 3))
        put_word(m, route, "endpoint", PICK(m, ends));
    if (maybe(m, 3) && !(roles_count && without == anonymous[1]))
        put_word(m, route, "anonymous", without);
    if (maybe(m, 4))
        put_word(m, route, "sign_in", "fresh");
    if (m->feature_count > 0 && maybe(m, 3))
        put_word(m, route, "feature",
                 m->features[rng_below(m->rng, m->feature_count)]);
    if (roles_count)
        put_some(m, route, "roles", roles, SL_LEN(roles), 1);
    if (report && maybe(m, 3))
        put_word(m, route, "report", report);
    if (report && maybe(m, 3))
        put_cost(m, route, report);
    if (maybe(m, 4))
        put_conditions(m, route, "when");
    if (maybe(m, 4))
        put_conditions(m, route, "exempt");
    if (quota && maybe(m, 2))
        put_word(m, route, "quota", quota);
    if (maybe(m, 4))
        make_headers(m, route);
    if (maybe(m, 4))
        put_word(m, route, "reset", maybe(m, 2) ? "next" : "full");
    if (maybe(m, 4))
        put_word(m, route, "on_store_failure", PICK(m, failures));
}

static void make_routes(struct maker *m, struct tree *top)
{
    unsigned count = (unsigned)rng_below(m->rng, MOST + 1);
    const char *report = NULL, *quota = NULL;
    struct tree *routes;

    if (count > 0 || maybe(m, 2)) {
        routes = put_list(m, top, "routes");
        for (unsigned i = 0; i < count; i++)
            make_route(m, routes, i);
    }
    if (maybe(m, 2))
        put_limits(m, top, "default", &report, &quota);
}

/* ---- all of it ---- */

static struct tree *make_policy(struct forest *f)
{
    static const char *const envs[] = {"prod", "null", "2026-01-01"};
    struct maker m = {.f = f, .rng = &f->rng};
    struct tree *top = tree_new(f, TREE_MAP, NULL);

    (void)tree_put(f, top, "sluice", tree_new(f, TREE_BARE, "1"));
    if (maybe(&m, 2))
        put_word(&m, top, "env", PICK(&m, envs));
    if (maybe(&m, 4))
        put_bool(&m, top, "enabled", !maybe(&m, 4));
    if (maybe(&m, 4))
        put_word(&m, top, "mode", maybe(&m, 3) ? "shadow" : "enforce");
    if (maybe(&m, 2))
        make_headers(&m, top);
    if (maybe(&m, 3))
        put_word(&m, top, "reset", maybe(&m, 2) ? "next" : "full");
    make_plans(&m, top);
    make_identity(&m, top);
    make_features(&m, top);
    make_limits(&m, top);
    make_routes(&m, top);
    make_errors(&m, top);
    make_metrics(&m, top);
    make_server(&m, top);
    return top;
}

#endif
