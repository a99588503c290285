/* policy.c -- a whole policy becomes what it says; asking it; its life. */
#include "policy/policy.h"

#include "fail.h"
#include "read.h"

static const char full[] =
    "sluice: 1\n"
    "env: prod\n"
    "enabled: true\n"
    "mode: enforce\n"
    "plans:\n"
    "  default: free\n"
    "  anonymous: free\n"
    "  unknown_plan: deny\n"
    "  free: {}\n"
    "  starter:  { aliases: [STARTER_MONTHLY, STARTER_YEARLY] }\n"
    "  business: { aliases: [BUSINESS_MONTHLY], overage: true }\n"
    "identity:\n"
    "  user: [header.X-User-Id]\n"
    "  org: [header.x-tenant-id, header.x-org]\n"
    "  device: [header.x-device]\n"
    "  plan: [header.x-plan]\n"
    "  role: [header.x-role]\n"
    "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n"
    "  ipv6_prefix: 56\n"
    "  forwarded: forwarded\n"
    "  anonymous: [ip, header.user-agent]\n"
    "limits:\n"
    "  ai-daily:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    missing: skip\n"
    "    rate: { free: 50/day, starter: 200/day, business: 1000/day }\n"
    "    deny: { message: \"Daily limit of {limit} exceeded.\" }\n"
    "  ai-minute:\n"
    "    kind: token-bucket\n"
    "    refill: interval\n"
    "    per: [org, user]\n"
    "    mode: shadow\n"
    "    missing: deny\n"
    "    rate: { free: 5/min burst 8, STARTER_MONTHLY: 15/min burst 6, "
    "business: unlimited }\n"
    "    candidate: 10/min\n"
    "    cost: 2\n"
    "    headers: [github]\n"
    "  transcription:\n"
    "    kind: quota\n"
    "    per: org\n"
    "    unit: minutes\n"
    "    zone: Europe/Berlin\n"
    "    anchor: 15\n"
    "    rate: { free: 120/month, starter: none, business: 10k/month }\n"
    "    on_store_failure: local\n"
    "    on_full: deny\n"
    "    lease: 15%\n"
    "    deny: { status: 402, message: \"Upgrade.\" }\n"
    "    key: \"rl:{env}:{name}:{scope}:{id}\"\n"
    "  minutes: { kind: quota, per: [], rate: 9/day, zone: Europe/Berlin }\n"
    "  by-ip: { kind: sliding-window, per: ip, rate: 10/10s }\n"
    "routes:\n"
    "  - match: GET /api/v1/ai/**\n"
    "    endpoint: ai\n"
    "    anonymous: pass\n"
    "    feature: assistant\n"
    "    roles: [member, admin]\n"
    "    limits: [ai-daily, ai-minute, transcription]\n"
    "    report: ai-minute\n"
    "    quota: transcription\n"
    "    headers: none\n"
    "    reset: full\n"
    "    on_store_failure: deny\n"
    "  - job: transcribe\n"
    "    limits: [transcription]\n"
    "  - match: /api/shares/:id\n"
    "    limits: [by-ip]\n"
    "default: [by-ip]\n"
    "features:\n"
    "  assistant: { enabled: true, message: \"Back soon.\", retry_after: 60s "
    "}\n"
    "  search: { enabled: false }\n"
    "headers: [x-ratelimit, kong]\n"
    "reset: next\n"
    "errors:\n"
    "  rate_limited: { status: 429, body: { code: RATE_LIMITED, message: "
    "\"{message}\", left: \"{remaining}\" } }\n"
    "  plan_limit: { status: 403 }\n"
    "server:\n"
    "  listen: { http: \"127.0.0.1:8080\", grpc: \"[::1]:81\", admin: "
    "\"unix:/run/x.sock\" }\n"
    "  store: \"memory:./sluice.state\"\n"
    "  usage: \"sqlite:./sluice.db\"\n"
    "  memory: 64MiB\n"
    "  deadline: 20ms\n"
    "  forward_auth: original\n"
    "  access_token: \"${ENV:TOKEN}\"\n"
    "  tls: { certificate: c.pem, key: k.pem, client_ca: ca.pem }\n"
    "  log: { level: info, format: auto }\n";

static const char *const variables[] = {"TOKEN", "t0k3n", "FEATURE_SEARCH",
                                        "on", NULL};

TEST_WITH(general, const struct sl_policy *p)
{
    CASE("the top of the file");
    CHECK(is(p->env, "prod") && is(p->file, "test.yaml"));
    CHECK(p->enabled);
    CHECK_EQ(p->mode, SL_MODE_ENFORCE);
    CHECK_EQ(p->dialects, SL_DIALECT_X_RATELIMIT | SL_DIALECT_KONG);
    CHECK_EQ(p->reset, SL_RESET_NEXT);

    CASE("plans");
    CHECK_EQ(p->plans.count, 3);
    CHECK_EQ(p->plans.fallback, 0);
    CHECK_EQ(p->plans.anonymous, 0);
    CHECK(p->plans.deny_unknown);
    CHECK(is(p->plans.list[1].name, "starter"));
    CHECK_EQ(p->plans.list[1].alias_count, 2);
    CHECK(is(p->plans.list[1].aliases[1], "STARTER_YEARLY"));
    CHECK(!p->plans.list[1].overage && p->plans.list[2].overage);
}

TEST_WITH(identity, const struct sl_policy *p)
{
    const struct sl_identity *id = &p->identity;

    CASE("identity: scopes and their sources");
    CHECK_EQ(id->scope_count, SL_SCOPE_NAMED + 1);
    CHECK(is(id->scope_names[SL_SCOPE_USER], "user"));
    CHECK(is(id->scope_names[SL_SCOPE_ENDPOINT], "endpoint"));
    CHECK(is(id->scope_names[SL_SCOPE_NAMED], "device"));
    CHECK_EQ(id->scopes[SL_SCOPE_USER].count, 1);
    CHECK_EQ(id->scopes[SL_SCOPE_USER].list[0].kind, SL_SOURCE_HEADER);
    CHECK(is(id->scopes[SL_SCOPE_USER].list[0].name, "x-user-id"));
    CHECK_EQ(id->scopes[SL_SCOPE_ORG].count, 2);
    CHECK(is(id->scopes[SL_SCOPE_NAMED].list[0].name, "x-device"));
    CHECK(is(id->plan.list[0].name, "x-plan"));
    CHECK(is(id->role.list[0].name, "x-role"));

    CASE("identity: anonymous callers and proxies");
    CHECK_EQ(id->anonymous.count, 2);
    CHECK_EQ(id->anonymous.list[0].kind, SL_SOURCE_IP);
    CHECK(!id->anonymous_is_ip);
    CHECK_EQ(id->trusted_count, 2);
    CHECK_EQ(id->trusted[0].bits, 96 + 8);
    CHECK_EQ(id->trusted[1].bits, 128);
    CHECK_EQ(id->ipv6_prefix, 56);
    CHECK_EQ(id->forwarded, SL_FORWARDED_RFC7239);
}

TEST_WITH(buckets, const struct sl_policy *p)
{
    const struct sl_rule *daily = &p->rules[0], *minute = &p->rules[1];

    CASE("a bucket with a rate for each plan");
    CHECK(is(daily->name, "ai-daily"));
    CHECK_EQ(daily->place.line, 23);
    CHECK_EQ(daily->place.column, 3);
    CHECK_EQ(daily->kind, SL_BUCKET);
    CHECK_EQ(daily->per_count, 1);
    CHECK_EQ(daily->per[0], SL_SCOPE_USER);
    CHECK_EQ(daily->missing, SL_MISSING_SKIP);
    CHECK_EQ(daily->failure, SL_FAILURE_ALLOW);
    CHECK_EQ(daily->plans[1].form, SL_RATE_PER);
    CHECK_EQ(daily->plans[1].numbers.count, 200);
    CHECK_EQ(daily->plans[2].numbers.capacity, 1000);
    CHECK(daily->limited && !daily->has_candidate);
    CHECK_EQ(daily->strictest.count, 50);
    CHECK_EQ(daily->deny.status, 429);
    CHECK(is(daily->deny.code, "RATE_LIMITED"));
    CHECK_EQ(daily->deny.message.count, 3);
    CHECK_EQ(daily->cost, 1);
    CHECK_EQ(daily->dialects, -1);

    CASE("interval refill, shadow, a candidate, unlimited and by alias");
    CHECK_EQ(minute->kind, SL_INTERVAL);
    CHECK_EQ(minute->per_count, 2);
    CHECK_EQ(minute->per[0], SL_SCOPE_ORG);
    CHECK_EQ(minute->per[1], SL_SCOPE_USER);
    CHECK_EQ(minute->mode, SL_MODE_SHADOW);
    CHECK_EQ(minute->missing, SL_MISSING_DENY);
    CHECK_EQ(minute->cost, 2);
    CHECK_EQ(minute->dialects, SL_DIALECT_GITHUB);
    CHECK_EQ(minute->plans[1].numbers.count, 15);
    CHECK_EQ(minute->plans[2].form, SL_RATE_UNLIMITED);
    CHECK(minute->has_candidate);
    CHECK_EQ(minute->candidates[2].numbers.count, 10);
    CHECK_EQ(minute->candidate_strictest.capacity, 10);

    CASE("the strictest has the least of both, though of different plans");
    CHECK_EQ(minute->strictest.count, 5);
    CHECK_EQ(minute->strictest.capacity, 6);
    CHECK_EQ(minute->strictest.room, 6 * minute->strictest.token);
}

TEST_WITH(quota, const struct sl_policy *p)
{
    const struct sl_rule *rule = &p->rules[2];
    const struct sl_plan_limit *business = &rule->plans[2];

    CASE("a quota by the month of a zone");
    CHECK_EQ(rule->kind, SL_QUOTA);
    CHECK(is(rule->unit, "minutes") && is(rule->zone_name, "Europe/Berlin"));
    CHECK_EQ(rule->failure, SL_FAILURE_LOCAL);
    CHECK_EQ(rule->on_full, SL_FULL_DENY);
    CHECK_EQ(rule->lease, 15);
    CHECK_EQ(rule->options.anchor, 15);
    CHECK(rule->options.zone && rule->options.zone->count > 100);
    CHECK(business->numbers.calendar);
    CHECK_EQ(business->numbers.cal.unit, SL_CALENDAR_MONTH);
    CHECK_EQ(business->numbers.cal.anchor, 15);
    CHECK(business->numbers.cal.zone == rule->options.zone);
    CHECK_EQ(rule->plans[1].form, SL_RATE_NONE);
    CHECK_EQ(rule->deny.status, 402);
    CHECK(is(rule->deny.code, "PLAN_LIMIT_EXCEEDED"));
    CHECK(is(rule->key_text, "rl:{env}:{name}:{scope}:{id}"));
    CHECK(rule->key.count > 0 && p->rules[0].key.count > 0);

    CASE("a zone is read once");
    CHECK(p->rules[3].options.zone == rule->options.zone);

    CASE("overage: the same without a ceiling");
    CHECK(!rule->plans[0].overage && business->overage);
    CHECK_EQ(business->numbers.count, 10000);
    CHECK_EQ(business->open.count, business->numbers.count);
    CHECK_EQ(business->open.capacity, SL_AMOUNT_MAX);
    CHECK_EQ(business->open.cal.anchor, 15);
    CHECK_EQ(sl_limit_shape(&business->open),
             sl_limit_shape(&business->numbers));
}

TEST_WITH(routes, const struct sl_policy *p)
{
    const struct sl_route *ai = &p->routes[0], *job = &p->routes[1];
    char room[32];
    struct sl_path path;

    CASE("a route with everything");
    CHECK_EQ(p->route_count, 3);
    CHECK(is(ai->text, "GET /api/v1/ai/**") && is(ai->endpoint, "ai"));
    CHECK_EQ(ai->anonymous, SL_ANONYMOUS_PASS);
    CHECK_EQ(ai->feature, 0);
    CHECK_EQ(ai->role_count, 2);
    CHECK(is(ai->roles[1], "admin"));
    CHECK_EQ(ai->rule_count, 3);
    CHECK(ai->rules[0] == &p->rules[0] && ai->rules[2] == &p->rules[2]);
    CHECK_EQ(ai->report, 1);
    CHECK_EQ(ai->quota, 2);
    CHECK_EQ(ai->dialects, 0);
    CHECK_EQ(ai->reset, SL_RESET_FULL);
    CHECK_EQ(ai->failure, SL_FAILURE_DENY);

    CASE("a job, and what is not written");
    CHECK(job->is_job && is(job->job, "transcribe"));
    CHECK(is(job->text, "job transcribe") && is(job->endpoint, "transcribe"));
    CHECK_EQ(job->anonymous, SL_ANONYMOUS_LIMIT);
    CHECK_EQ(job->feature, SL_NO_FEATURE);
    CHECK_EQ(job->role_count, 0);
    CHECK_EQ(job->report, -1);
    CHECK_EQ(job->quota, -1);
    CHECK_EQ(job->failure, -1);
    CHECK_EQ(job->dialects, p->dialects);
    CHECK_EQ(job->reset, SL_RESET_NEXT);
    CHECK(is(p->routes[2].endpoint, "api-shares-_id"));

    CASE("default");
    CHECK(is(p->fallback.text, "default") &&
          is(p->fallback.endpoint, "default"));
    CHECK_EQ(p->fallback.rule_count, 1);
    CHECK(p->fallback.rules[0] == &p->rules[4]);

    CASE("the tree knows routes by their index");
    sl_path_read(SL_STR("/api/shares/7"), room, &path);
    CHECK_EQ(sl_routes_find(p->tree, SL_METHOD_GET, &path, 0), 2);
    sl_path_read(SL_STR("/transcribe"), room, &path);
    CHECK_EQ(sl_routes_find(p->tree, SL_METHOD_GET, &path, 0), SL_NO_ROUTE);
}

TEST_WITH(rest, const struct sl_policy *p)
{
    const struct sl_server_conf *server = &p->server;

    CASE("features, of the file and of the environment");
    CHECK_EQ(p->feature_count, 2);
    CHECK(is(p->features[0].name, "assistant") && p->features[0].enabled);
    CHECK_EQ(p->features[0].retry_after, 60 * SL_S);
    CHECK_EQ(p->features[0].message.count, 1);
    CHECK(p->features[1].enabled);
    CHECK_EQ(p->features[1].retry_after, SL_NS_NONE);

    CASE("errors");
    CHECK_EQ(p->errors[SL_ERROR_RATE_LIMITED].status, 429);
    CHECK(p->errors[SL_ERROR_RATE_LIMITED].has_body);
    CHECK(p->errors[SL_ERROR_RATE_LIMITED].body.count >= 4);
    CHECK_EQ(p->errors[SL_ERROR_PLAN_LIMIT].status, 403);
    CHECK(!p->errors[SL_ERROR_PLAN_LIMIT].has_body);
    CHECK_EQ(p->errors[SL_ERROR_CONFLICT].status, 0);

    CASE("server");
    CHECK(server->has_listen && is(server->http, "127.0.0.1:8080"));
    CHECK(is(server->admin, "unix:/run/x.sock") &&
          is(server->grpc, "[::1]:81"));
    CHECK(is(server->store, "memory:./sluice.state"));
    CHECK(is(server->usage, "sqlite:./sluice.db"));
    CHECK_EQ(server->memory, 64 << 20);
    CHECK_EQ(server->deadline, 20 * SL_MS);
    CHECK(is(server->forward_auth, "original"));
    CHECK(is(server->access_token, "t0k3n") && is(server->admin_token, ""));
    CHECK(is(server->tls_certificate, "c.pem") && is(server->tls_key, "k.pem"));
    CHECK(is(server->tls_client_ca, "ca.pem"));
    CHECK(is(server->log_level, "info") && is(server->log_format, "auto"));
}

TEST_WITH(lookups, const struct sl_policy *p)
{
    CASE("plans are found without case and by alias");
    CHECK_EQ(sl_policy_plan(p, SL_STR("FREE")), 0);
    CHECK_EQ(sl_policy_plan(p, SL_STR("starter_Yearly")), 1);
    CHECK_EQ(sl_policy_plan(p, SL_STR("business")), 2);
    CHECK_EQ(sl_policy_plan(p, SL_STR("gold")), -1);
    CHECK_EQ(sl_policy_plan(p, SL_STR("")), -1);

    CASE("all others exactly");
    CHECK_EQ(sl_policy_rule(p, SL_STR("by-ip")), 4);
    CHECK_EQ(sl_policy_rule(p, SL_STR("By-IP")), -1);
    CHECK_EQ(sl_policy_feature(p, SL_STR("search")), 1);
    CHECK_EQ(sl_policy_feature(p, SL_STR("Search")), -1);
    CHECK_EQ(sl_policy_job(p, SL_STR("transcribe"), 0), 1);
    CHECK_EQ(sl_policy_job(p, SL_STR("mail"), 0), -1);
}

TEST_WITH(overrides, const struct sl_policy *p)
{
    const struct sl_rule *minute = &p->rules[1], *quota = &p->rules[2];
    struct sl_plan_limit limit = {.form = SL_RATE_NONE};
    struct sl_diag diag = {0};

    CASE("another rate, in the same period");
    CHECK_EQ(sl_rule_rate(minute, SL_STR("99/min burst 7"), &limit, &diag), 0);
    CHECK_EQ(limit.form, SL_RATE_PER);
    CHECK_EQ(limit.numbers.kind, SL_INTERVAL);
    CHECK_EQ(limit.numbers.count, 99);
    CHECK_EQ(limit.numbers.capacity, 7);
    CHECK_EQ(sl_rule_rate(minute, SL_STR("99/60s"), &limit, &diag), 0);
    CHECK_EQ(sl_rule_rate(quota, SL_STR("5M/month"), &limit, &diag), 0);
    CHECK_EQ(limit.numbers.cal.anchor, 15);
    CHECK(limit.numbers.cal.zone == quota->options.zone);
    CHECK(!limit.overage);
    CHECK_EQ(limit.open.capacity, SL_AMOUNT_MAX);

    CASE("or one of the two words");
    CHECK_EQ(sl_rule_rate(minute, SL_STR("unlimited"), &limit, &diag), 0);
    CHECK_EQ(limit.form, SL_RATE_UNLIMITED);
    CHECK_EQ(sl_rule_rate(minute, SL_STR("none"), &limit, &diag), 0);
    CHECK_EQ(limit.form, SL_RATE_NONE);

    CASE("another period would start afresh");
    limit.form = SL_RATE_UNLIMITED;
    CHECK_EQ(sl_rule_rate(minute, SL_STR("9/s"), &limit, &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence, "The period of 9/s differs from the plans of "
                             "limit \"ai-minute\". The usage would be lost");
    CHECK_EQ(sl_rule_rate(quota, SL_STR("9/day"), &limit, NULL), SLUICE_ECONF);

    CASE("what is no rate is refused; the output is untouched");
    CHECK_EQ(sl_rule_rate(minute, SL_STR("fast"), &limit, &diag), SLUICE_ECONF);
    CHECK_EQ(sl_rule_rate(minute, SL_STR("0/min"), &limit, NULL), SLUICE_ECONF);
    CHECK_EQ(limit.form, SL_RATE_UNLIMITED);
}

/* The nth allocation fails, for every n until the call succeeds. */
static void test_memory(void)
{
    struct sl_policy_options options = {
        .substitute = {.env = env_of, .ctx = (void *)(uintptr_t)variables}
    };
    int err = SLUICE_ENOMEM;

    CASE("with the nth allocation failing: ENOMEM, untouched, no leak");
    for (unsigned n = 1; err && n < 500; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_policy *policy = NULL;
        struct sl_report report;

        options.alloc = &alloc;
        sl_report_init(&report, "test.yaml", sl_str_c(full), &alloc);
        err = sl_policy_read(&report, &options, &policy);
        CHECK_EQ(err, n <= f.calls ? SLUICE_ENOMEM : 0);
        CHECK(err ? policy == NULL : policy != NULL);
        CHECK(err == 0 || n > 0);
        sl_policy_unref(policy);
        sl_report_done(&report);
        fail_check(&f);
        if (!err)
            CHECK(n > 10);
    }
    CHECK_EQ(err, 0);
}

/* The same for a file that is refused: ENOMEM or ECONF, never 0. */
static void test_memory_refused(void)
{
    static const char bad[] = "plans: { default: fre, free: {} }\n"
                              "limits:\n"
                              "  a: { kind: quota, per: usr, rate: 5/dy, "
                              "zone: Nowhere }\n"
                              "routes: [{ match: x, limits: [b] }]\n";
    int err = SLUICE_ENOMEM;

    CASE("likewise when there are problems to keep");
    for (unsigned n = 1; err == SLUICE_ENOMEM && n < 500; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_policy_options options = {.alloc = &alloc};
        struct sl_policy *policy = NULL;
        struct sl_report report;

        sl_report_init(&report, "test.yaml", sl_str_c(bad), &alloc);
        err = sl_policy_read(&report, &options, &policy);
        CHECK_EQ(err, n <= f.calls ? SLUICE_ENOMEM : SLUICE_ECONF);
        CHECK(policy == NULL);
        sl_report_done(&report);
        fail_check(&f);
    }
    CHECK_EQ(err, SLUICE_ECONF);
}

static void test_life(void)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_policy_options options = {.alloc = &alloc};
    struct sl_policy *policy = NULL;
    struct sl_report report;

    CASE("the last user frees it");
    sl_report_init(&report, NULL, SL_STR("sluice: 1\n"), &alloc);
    CHECK_EQ(sl_policy_read(&report, &options, &policy), 0);
    sl_report_done(&report);
    if (!policy)
        return;
    CHECK(sl_policy_ref(policy) == policy);
    sl_policy_unref(policy);
    CHECK(f.pieces > 0);
    CHECK_EQ(policy->plans.count, 1);
    sl_policy_unref(policy);
    fail_check(&f);
    CHECK(sl_policy_ref(NULL) == NULL);
    sl_policy_unref(NULL);
}

int main(void)
{
    struct sl_policy *p;

    CASE("the whole policy is read");
    p = read_with(full, variables);
    if (!p)
        return CHECK_DONE();
    RUN_TESTS_WITH(p);
    sl_policy_unref(p);
    test_memory();
    test_memory_refused();
    test_life();
    return CHECK_DONE();
}
