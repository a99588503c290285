/* cluster_slots.c -- which value of a limit says where it lies in a cluster. */
#include "policy/policy.h"

#include "read.h"

/* The scope that the rule called `name` is tagged by, or "". */
static const char *tag_of(const struct sl_policy *policy, const char *name)
{
    int index = sl_policy_rule(policy, sl_str_c(name));
    const struct sl_rule *rule = &policy->rules[index];

    return rule->tag > 0
               ? policy->identity.scope_names[rule->per[rule->tag - 1]].at
               : "";
}

#define GUARD "fresh, guard: x"

#define LIMITS                                                                 \
    "sluice: 1\n"                                                              \
    "limits:\n"                                                                \
    "  user: { kind: fixed-window, per: user, rate: 5/min }\n"                 \
    "  both: { kind: fixed-window, per: [org, user], rate: 5/min }\n"          \
    "  tenant: { kind: fixed-window, per: org, rate: 5/min }\n"                \
    "  alone: { kind: fixed-window, per: [org, user], rate: 5/min }\n"         \
    "  all: { kind: fixed-window, per: [], rate: 5/min }\n"                    \
    "  ip: { kind: fixed-window, per: ip, rate: 5/min }\n"                     \
    "  off: { kind: fixed-window, per: ip, rate: 5/min, mode: off }\n"

static const char policy[] =
    LIMITS "routes:\n"
           "  - { match: /both, limits: [tenant, both] }\n"
           "  - { match: /alone, limits: [alone] }\n"
           "  - { match: /all, limits: [all] }\n"
           "  - { match: /apart, limits: [ip, user, both], atomic: false }\n"
           "default: [user]\n";

TEST(choice)
{
    struct sl_policy *p = read_policy(policy);
    struct sl_source_pos place;

    if (!p)
        return;
    CASE("limits of a route have the value that all of them have");
    CHECK_STR(tag_of(p, "tenant"), "org");
    CHECK_STR(tag_of(p, "both"), "org");
    CASE("one that is taken alone lies by user, so that they spread");
    CHECK_STR(tag_of(p, "alone"), "user");
    CHECK_STR(tag_of(p, "user"), "user");
    CHECK_STR(tag_of(p, "ip"), "ip");
    CHECK_STR(tag_of(p, "all"), "");
    CASE("`atomic: false` joins no other, and may span");
    CHECK_EQ(sl_slots_check(p, &place, NULL), 0);
    CHECK(p->routes[3].apart && !p->routes[0].apart);
    sl_policy_unref(p);
}

/* Each route, which joins what those before it have joined. */
TEST(routes)
{
    static const struct {
        const char *what, *routes, *sign_in;
        bool good;
    } rows[] = {
        {"one value in common",     "[tenant, both]",       "fresh", true },
        {"none",                    "[tenant, user]",       "fresh", false},
        {"none in all three",       "[both, tenant, user]", "fresh", false},
        {"one for all and another", "[all, user]",          "fresh", false},
        {"switched off counts not", "[user, off]",          "fresh", true },
        {"carried to a name",       "[user]",               "carry", false},
        {"one that no name says",   "[ip]",                 "fresh", true },
        {"a guard alone",           "[]",                   GUARD,   true },
        {"a guard and a limit",     "[user]",               GUARD,   false},
    };
    char text[2048];

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_diag diag = {.line = 0};
        struct sl_source_pos place = {0};
        struct sl_policy *p;

        CASE(rows[i].what);
        snprintf(text, sizeof(text),
                 LIMITS "default: []\n"
                        "routes: [{ match: /x, limits: %s, sign_in: %s }]\n",
                 rows[i].routes, rows[i].sign_in);
        p = read_policy(text);
        if (!p)
            continue;
        CHECK_EQ(sl_slots_check(p, &place, &diag),
                 rows[i].good ? 0 : SLUICE_ECONF);
        if (!rows[i].good)
            CHECK(place.line == 11 && diag.sentence[0]);
        sl_policy_unref(p);
    }
}

/* (route 1: org), (route 2: user) can't both have `both`. */
TEST(chain)
{
    static const char text[] =
        LIMITS "default: []\n"
               "routes:\n"
               "  - { match: /a, limits: [tenant, both] }\n"
               "  - { match: /b, limits: [user, both] }\n";
    struct sl_policy *p = read_policy(text);
    struct sl_diag diag = {.line = 0};
    struct sl_source_pos place = {0};

    CASE("a limit lies in one place, whatever routes take it");
    if (!p)
        return;
    CHECK_EQ(sl_slots_check(p, &place, &diag), SLUICE_ECONF);
    CHECK_EQ(place.line, 13);
    CHECK(strstr(diag.sentence, "\"user\" and \"both\""));
    sl_policy_unref(p);
}

TEST(urls)
{
    CASE("which stores are clusters");
    CHECK(sl_slots_wanted(SL_STR("redis+cluster://h:7000")));
    CHECK(sl_slots_wanted(SL_STR("rediss+cluster://h")));
    CHECK(!sl_slots_wanted(SL_STR("redis://h")));
    CHECK(!sl_slots_wanted(SL_STR("redis+cluster:")));
    CHECK(!sl_slots_wanted(SL_STR("")));
}

CHECK_MAIN()
