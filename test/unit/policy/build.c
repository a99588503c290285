/* build.c -- what is not written, what combines, and how much is too much. */
#include "policy/policy_int.h"

#include <stdlib.h>

#include "base/clock.h"
#include "read.h"

#define V   "sluice: 1\n"
#define ONE "limits: { a: { kind: token-bucket, per: user, rate: 5/min } }\n"

TEST(presets)
{
    struct sl_policy *p;

    CASE("an empty policy lets everything pass");
    p = read_policy(V);
    if (!p)
        return;
    CHECK(is(p->env, "default") && p->enabled);
    CHECK_EQ(p->mode, SL_MODE_ENFORCE);
    CHECK_EQ(p->dialects, SL_DIALECT_X_RATELIMIT | SL_DIALECT_IETF);
    CHECK_EQ(p->rule_count, 0);
    CHECK_EQ(p->route_count, 0);
    CHECK_EQ(p->fallback.rule_count, 0);
    CHECK_EQ(p->identity.anonymous.count, 1);
    CHECK(p->identity.anonymous_is_ip);
    CHECK_EQ(p->identity.ipv6_prefix, 64);
    CHECK_EQ(p->identity.forwarded, SL_FORWARDED_X_FOR);
    CHECK_EQ(p->identity.trusted_count, 0);
    CHECK(!p->server.has_listen);
    CHECK_EQ(p->server.deadline, 0);

    CASE("without plans there is one");
    CHECK_EQ(p->plans.count, 1);
    CHECK(is(p->plans.list[0].name, "default"));
    CHECK_EQ(sl_policy_plan(p, SL_STR("Default")), 0);
    CHECK(!p->plans.deny_unknown);
    sl_policy_unref(p);
}

#define PLANS(why, text, fallback, anonymous)                                  \
    {                                                                          \
        why, text, fallback, anonymous                                         \
    }

TEST(plans)
{
    static const struct {
        const char *why, *text;
        unsigned fallback, anonymous;
    } rows[] = {
        PLANS("free is the default if none is written",
              V "plans: { pro: {}, Free: {} }\n", 1, 1),
        PLANS("anonymous follows default",
              V "plans: { default: b, a: {}, b: {} }\n", 1, 1),
        PLANS(
            "both may be aliases",
            V
            "plans: { default: BEE, anonymous: a, a: {}, b: { aliases: [bee] } "
            "}\n",
            1, 0),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_policy *p;

        CASE(rows[i].why);
        p = read_policy(rows[i].text);
        if (!p)
            continue;
        CHECK_EQ(p->plans.fallback, rows[i].fallback);
        CHECK_EQ(p->plans.anonymous, rows[i].anonymous);
        sl_policy_unref(p);
    }
}

#define LIMIT(why, limit, kind, failure, capacity)                             \
    {                                                                          \
        why, limit, kind, failure, capacity                                    \
    }

TEST(limits)
{
    static const struct {
        const char *why, *limit;
        enum sl_kind kind;
        enum sl_failure failure;
        uint64_t capacity;
    } rows[] = {
        LIMIT("a bucket fails open", "kind: token-bucket, rate: 5/min",
              SL_BUCKET, SL_FAILURE_ALLOW, 5),
        LIMIT("a leaky bucket too", "kind: leaky-bucket, rate: 5/10s queue 2",
              SL_LEAKY, SL_FAILURE_ALLOW, 3),
        LIMIT("a fixed window too", "kind: fixed-window, rate: 5/min", SL_FIXED,
              SL_FAILURE_ALLOW, 5),
        LIMIT("a sliding window too", "kind: sliding-window, rate: 5/min",
              SL_SLIDING, SL_FAILURE_ALLOW, 5),
        LIMIT("a quota fails closed", "kind: quota, rate: 5/month", SL_QUOTA,
              SL_FAILURE_DENY, 5),
        LIMIT("permits too", "kind: concurrency, rate: 5", SL_PERMITS,
              SL_FAILURE_DENY, 5),
        LIMIT("a level too", "kind: level, rate: 5k", SL_LEVEL, SL_FAILURE_DENY,
              5000),
        LIMIT("unless it is written",
              "kind: level, rate: 5, on_store_failure: allow", SL_LEVEL,
              SL_FAILURE_ALLOW, 5),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_policy *p;
        char text[256];

        CASE(rows[i].why);
        snprintf(text, sizeof(text),
                 "sluice: 1\nlimits: { a: { per: [], %s } }\n", rows[i].limit);
        p = read_policy(text);
        if (!p)
            continue;
        CHECK_EQ(p->rules[0].kind, rows[i].kind);
        CHECK_EQ(p->rules[0].failure, rows[i].failure);
        CHECK_EQ(p->rules[0].strictest.capacity, rows[i].capacity);
        CHECK_EQ(p->rules[0].per_count, 0);
        CHECK_EQ(p->rules[0].missing, SL_MISSING_ANONYMOUS);
        CHECK(is(p->rules[0].key_text, SL_KEY_DEFAULT));
        sl_policy_unref(p);
    }
}

TEST(unlimited)
{
    struct sl_policy *p;
    struct sl_plan_limit limit;
    struct sl_diag diag = {0};

    CASE("a limit without numbers is known not to have any");
    p = read_policy(
        V "limits: { a: { kind: level, per: org, rate: unlimited } }\n");
    if (!p)
        return;
    CHECK(!p->rules[0].limited);
    CHECK_EQ(p->rules[0].plans[0].form, SL_RATE_UNLIMITED);

    CASE("and can't be overridden by some");
    CHECK_EQ(sl_rule_rate(&p->rules[0], SL_STR("5"), &limit, &diag),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "Limit \"a\" has no rate in any plan, so 5 has "
                             "no period to match");
    CHECK_EQ(sl_rule_rate(&p->rules[0], SL_STR("none"), &limit, NULL), 0);
    sl_policy_unref(p);
}

TEST(modes)
{
    static const char *const words[] = {"enforce", "shadow", "off"};

    CASE("off wins over shadow, shadow over enforce");
    for (int of_policy = 0; of_policy < 3; of_policy++)
        for (int of_limit = 0; of_limit < 3; of_limit++) {
            struct sl_policy *p;
            char text[256];

            snprintf(text, sizeof(text),
                     V
                     "mode: %s\nlimits: { a: { kind: level, per: org, rate: 5, "
                     "mode: %s } }\n",
                     words[of_policy], words[of_limit]);
            p = read_policy(text);
            if (!p)
                continue;
            CHECK_EQ(p->rules[0].mode,
                     of_policy > of_limit ? of_policy : of_limit);
            sl_policy_unref(p);
        }
}

TEST(codes)
{
    static const struct {
        int status;
        const char *code;
    } rows[] = {
        {400, "DENIED"             },
        {401, "UNAUTHORIZED"       },
        {402, "PLAN_LIMIT_EXCEEDED"},
        {403, "FORBIDDEN"          },
        {409, "CONFLICT"           },
        {429, "RATE_LIMITED"       },
        {503, "UNAVAILABLE"        },
        {599, "DENIED"             },
    };

    CASE("a status has its code");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_policy *p;
        char text[256];

        snprintf(text, sizeof(text),
                 V "limits: { a: { kind: level, per: org, rate: 5, deny: { "
                   "status: %d } } }\n",
                 rows[i].status);
        p = read_policy(text);
        if (!p)
            continue;
        CHECK_EQ(p->rules[0].deny.status, rows[i].status);
        CHECK(is(p->rules[0].deny.code, rows[i].code));
        sl_policy_unref(p);
    }
}

TEST(features)
{
    static const struct {
        const char *value;
        bool file, want;
    } rows[] = {
        {"false", true,  false},
        {"OFF",   true,  false},
        {"0",     true,  false},
        {"true",  false, true },
        {"on",    false, true },
        {"1",     false, true },
        {NULL,    false, false},
        {NULL,    true,  true },
    };

    CASE("the environment goes before the file");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const char *env[] = {rows[i].value ? "FEATURE_AI_SEARCH_V2" : "OTHER",
                             rows[i].value ? rows[i].value : "off", NULL};
        struct sl_policy *p;
        char text[128];

        snprintf(text, sizeof(text),
                 V "features: { ai-search.v2: { enabled: %s } }\n",
                 rows[i].file ? "true" : "false");
        p = read_with(text, env);
        if (!p)
            continue;
        CHECK_EQ(p->features[0].enabled, rows[i].want);
        sl_policy_unref(p);
    }
}

/* Are these accepted without a word? */
TEST(quiet)
{
    static const char *const rows[][2] = {
        {"a route that takes all needs no default",
         V ONE "routes: [{ match: /**, limits: [a] }]\n"                 },
        {"a fingerprint beside an address",
         V "identity: { anonymous: [ip, header.user-agent] }\nlimits:\n"
           "  a: { kind: token-bucket, per: user, rate: 5/min }\n"
           "  b: { kind: token-bucket, per: ip, rate: 50/min }\n"
           "default: [a, b]\n"                                           },
        {"nor where anonymous callers don't come",
         V "identity: { anonymous: [ip, header.user-agent] }\n" ONE
           "routes: [{ match: /**, limits: [a], anonymous: deny }]\n"    },
        {"nor where what is missing is skipped",               V
         "identity: { anonymous: [header.user-agent] }\nlimits:\n"
         "  a: { kind: token-bucket, per: user, rate: 5/min, missing: skip }\n"
         "default: [a]\n"},
        {"a policy in the shadow needs a guard in the shadow",
         V "mode: shadow\nidentity: { anonymous: [ip, header.user-agent] }\n"
           "limits:\n"
           "  a: { kind: token-bucket, per: user, rate: 5/min }\n"
           "  b: { kind: token-bucket, per: ip, rate: 50/min }\n"
           "default: [a, b]\n"                                           },
        {"narrow before wide",
         V ONE "routes: [{ match: /api/a, limits: [a] }, { match: "
               "/**, limits: [a] }]\n"                                   },
        {"an endpoint in the key of a limit that has one",
         V "limits: { a: { kind: token-bucket, per: user, rate: 5/min, key: "
           "\"rl:{env}:{endpoint}:{scope}:{id}\" } }\ndefault: [a]\n"    },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_policy *policy = NULL;
        struct sl_report report;

        CASE(rows[i][0]);
        sl_report_init(&report, "test.yaml", sl_str_c(rows[i][1]),
                       &sl_alloc_libc);
        CHECK_EQ(sl_policy_read(&report, NULL, &policy), 0);
        CHECK_EQ(report.warnings, 0);
        if (report.kept)
            printf("# %s\n", report.problems[0].diag.sentence);
        sl_report_done(&report);
        sl_policy_unref(policy);
    }
}

/* A text of `count` lines like `line`, which has one %u, behind `head`. */
static char *repeat(const char *head, const char *line, unsigned count)
{
    size_t size = strlen(head) + count * (strlen(line) + 8) + 1, at;
    char *text = malloc(size);

    if (!text)
        abort();
    at = (size_t)snprintf(text, size, "%s", head);
    for (unsigned i = 0; i < count; i++) {
        const char *mark = strchr(line, '%');

        at += (size_t)snprintf(text + at, size - at, "%.*s%u%s",
                               (int)(mark - line), line, i, mark + 1);
    }
    return text;
}

/* How long a policy of a thousand limits takes, each key with so many bytes in
 * the middle. */
static sl_ns time_of_keys(size_t middle)
{
    char line[512], filler[240] = "";
    struct sl_policy *p;
    char *text;
    sl_ns from, took;

    memset(filler, 'a', middle);
    snprintf(line, sizeof(line),
             " l%%: { kind: quota, per: user, rate: 5/day, missing: skip, "
             "key: \"{user}%s{name}\" }\n",
             filler);
    text = repeat(V "limits:\n", line, 1000);
    from = sl_clock_wall();
    p = read_policy(text);
    took = sl_clock_wall() - from;
    CHECK(p != NULL);
    sl_policy_unref(p);
    free(text);
    return took;
}

/* There are half a million pairs of keys, and each has to be told from the
 * other. A comparison that walks through both takes hundreds of times as long
 * for long keys as for short ones. */
TEST(many_keys)
{
    sl_ns shorter, longer;

    CASE("a thousand long keys are told apart as quickly as short ones");
    shorter = time_of_keys(1);
    longer = time_of_keys(239);
    CHECK(longer < 30 * shorter);
}

#define MOST(why, head, line, most, sentence)                                  \
    {                                                                          \
        why, head, line, most, sentence                                        \
    }

TEST(ceilings)
{
    static const struct {
        const char *why, *head, *line;
        unsigned most;
        const char *sentence;
    } rows[] = {
        MOST("plans", V "plans:\n default: p0\n", " p%: {}\n", SL_PLANS_MAX,
             "Too many plans. The maximum is 256 plans, and 4096 names with "
             "all aliases"),
        MOST("limits", V "limits:\n",
             " l%: { kind: level, per: org, rate: 5 }\n", 1024,
             "1025 limits, candidates and penalties are too many. The maximum "
             "is 1024"),
        MOST("features", V "features:\n", " f%: {}\n", SL_FEATURES_MAX,
             "1025 features are too many. The maximum is 1024"),
        MOST("routes", V "routes:\n", " - { match: /r% }\n", SL_ROUTES_MAX,
             "10001 routes are too many. The maximum is 10000"),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char *text = repeat(rows[i].head, rows[i].line, rows[i].most);
        char sentence[256];
        struct sl_policy *p;

        CASE(rows[i].why);
        p = read_policy(text);
        CHECK(p != NULL);
        sl_policy_unref(p);
        free(text);
        text = repeat(rows[i].head, rows[i].line, rows[i].most + 1);
        read_bad(text, strlen(text), sentence);
        CHECK_STR(sentence, rows[i].sentence);
        free(text);
    }
}

/* Names, in order and found again. */
TEST(names)
{
    static const char *const words[] = {"b", "a", "C", "aa", "c"};
    struct sl_arena arena;
    struct sl_names names;
    struct sl_build b = {0};

    CASE("names are found exactly, or without case");
    sl_arena_init(&arena, 4096, &sl_alloc_libc);
    for (int nocase = 0; nocase < 2; nocase++) {
        if (!CHECK(sl_names_init(&names, &b, &arena, 5, nocase)))
            continue;
        for (unsigned i = 0; i < 5; i++)
            sl_names_add(&names, sl_str_c(words[i]), i,
                         (struct sl_source_pos){i + 1, 1});
        sl_names_add(&names, SL_STR("no room"), 9,
                     (struct sl_source_pos){0, 0});
        sl_names_close(&names);
        for (unsigned i = 0; i < 4; i++)
            CHECK_EQ(sl_names_find(&names, sl_str_c(words[i])), i);
        CHECK_EQ(sl_names_find(&names, SL_STR("c")), nocase ? 2 : 4);
        CHECK_EQ(sl_names_find(&names, SL_STR("AA")), nocase ? 3 : -1);
        CHECK_EQ(sl_names_find(&names, SL_STR("no room")), -1);
        CHECK_EQ(sl_names_again(&names, 4), nocase);
        CHECK(!sl_names_again(&names, 0) && !sl_names_again(&names, 1));
        CHECK(sl_names_begin(&names, SL_STR("a")));
        CHECK(sl_names_begin(&names, SL_STR("aa")));
        CHECK(sl_names_begin(&names, SL_STR("")));
        CHECK_EQ(sl_names_begin(&names, SL_STR("A")), nocase);
        CHECK(!sl_names_begin(&names, SL_STR("a-")));
        CHECK(!sl_names_begin(&names, SL_STR("aaa")));
        CHECK(!sl_names_begin(&names, SL_STR("z")));
    }
    sl_arena_done(&arena);

    CASE("no names, no answer");
    names = (struct sl_names){.count = 0};
    sl_names_close(&names);
    CHECK_EQ(sl_names_find(&names, SL_STR("a")), -1);
}

CHECK_MAIN()
