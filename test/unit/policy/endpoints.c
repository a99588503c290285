/* endpoints.c -- the names of endpoints without a name. */
#include "policy/policy.h"

#include "fail.h"
#include "read.h"

#define V "sluice: 1\n"

#define ENDPOINT(match, endpoint)                                              \
    {                                                                          \
        match, endpoint                                                        \
    }

TEST(endpoints)
{
    static const struct {
        const char *match, *endpoint;
    } rows[] = {
        ENDPOINT("/api/v1/ai/**", "api-v1-ai"),
        ENDPOINT("GET,POST /api/search", "api-search"),
        ENDPOINT("/a/*/b/:id", "a-_-b-_id"),
        ENDPOINT("/:id", "any_id"),
        ENDPOINT("/*/**", "any_"),
        ENDPOINT("/", "root"),
        ENDPOINT("/**", "all"),
        ENDPOINT("/_next/.well-known/a%20b", "next-.well-known-a-b"),
        ENDPOINT("/%C3%A4", "all"),
        ENDPOINT(
            "/0123456789/0123456789/0123456789/0123456789/0123456789/"
            "0123456789",
            "0123456789-0123456789-0123456789-0123456789-0123456789-012345678"),
    };

    CASE("endpoints without a name");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_policy *p;
        char text[256];

        snprintf(text, sizeof(text), V "routes: [{ match: \"%s\" }]\n",
                 rows[i].match);
        p = read_policy(text);
        if (!p)
            continue;
        CHECK(is(p->routes[0].endpoint, rows[i].endpoint));
        sl_policy_unref(p);
    }
}

/* Routes without an endpoint, and the endpoints that they get, in order. */
TEST(told_apart)
{
#define LONG "/12345678901234567890123456789/12345678901234567890123456789"
    static const struct {
        const char *why, *matches[4], *endpoints[4];
    } rows[] = {
        {"a name is no word",
         {"GET /api/items/:id", "POST /api/items/id"},
         {"api-items-_id", "api-items-id"}                               },
        {"one path, two methods",
         {"GET /a/b", "POST /a/B", "PUT /a-b"},
         {"a-b", "a-B", "a-b-2"}                                         },
        {"one path and all below it, by other methods",
         {"GET /a/**", "POST /a"},
         {"a", "a"}                                                      },
        {"and by the same",
         {"GET /a", "GET /a/**", "POST /a"},
         {"a", "a-2", "a"}                                               },
        {"three of a kind, and two that are the same",
         {"/a-b", "/a/b", "GET /a+b", "POST /a+b"},
         {"a-b", "a-b-2", "a-b-3", "a-b-3"}                              },
        {"a word that looks like a name",
         {"/a/_id", "/a/:id"},
         {"a-_id", "a-_id-2"}                                            },
        {"a number that is taken",
         {"/a-b", "/a/b/2", "/a/b"},
         {"a-b", "a-b-2", "a-b-3"}                                       },
        {"nothing that could be in a name",
         {"/%C3%A4", "/%C3%A5", "/**"},
         {"all", "all-2", "all-3"}                                       },
        {"names that are cut",
         {LONG "/abcde", LONG "/abcdef", LONG "/abcd"},
         {"12345678901234567890123456789-12345678901234567890123456789-abcd",
          "12345678901234567890123456789-1234567890123456789012345678-2",
          "12345678901234567890123456789-1234567890123456789012345678-3"}},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char text[1024] = V "routes:\n";
        struct sl_policy *p;
        size_t len = strlen(text);

        CASE(rows[i].why);
        for (unsigned j = 0; j < 4 && rows[i].matches[j]; j++)
            len +=
                (size_t)snprintf(text + len, sizeof(text) - len,
                                 "  - { match: \"%s\" }\n", rows[i].matches[j]);
        p = read_policy(text);
        for (unsigned j = 0; p && j < 4 && rows[i].matches[j]; j++)
            CHECK(is(p->routes[j].endpoint, rows[i].endpoints[j]));
        sl_policy_unref(p);
    }
#undef LONG
}

TEST(written_endpoints)
{
    struct sl_policy *p =
        read_policy(V "routes:\n"
                      "  - { match: /a-b }\n"
                      "  - { match: /a/b, endpoint: a-b }\n"
                      "  - { job: a-b }\n"
                      "  - { match: GET /a+b }\n"
                      "  - { match: GET /a=b, endpoint: a-b-3 }\n"
                      "  - { match: GET /a~b }\n"
                      "  - { match: POST /a=b }\n");

    CASE("what was written stays");
    if (!p)
        return;
    CHECK(is(p->routes[0].endpoint, "a-b"));
    CHECK(is(p->routes[1].endpoint, "a-b"));
    CHECK(is(p->routes[2].endpoint, "a-b"));
    CASE("and what is made gives way to it, unless it is the same");
    CHECK(is(p->routes[3].endpoint, "a-b-2"));
    CHECK(is(p->routes[4].endpoint, "a-b-3"));
    CHECK(is(p->routes[5].endpoint, "a-b-4"));
    CHECK(is(p->routes[6].endpoint, "a-b-3"));
    sl_policy_unref(p);
}

/* Names that need numbers, with the nth allocation failing. */
TEST(memory)
{
    int err = SLUICE_ENOMEM;

    CASE("without memory: ENOMEM, no leak");
    for (unsigned n = 1; err && n < 500; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_policy_options options = {.alloc = &alloc};
        struct sl_policy *policy = NULL;
        struct sl_report report;

        sl_report_init(&report, "test.yaml",
                       SL_STR(V "routes: [{ match: /a-b }, { match: /a/b }]\n"),
                       &alloc);
        err = sl_policy_read(&report, &options, &policy);
        CHECK_EQ(err, n <= f.calls ? SLUICE_ENOMEM : 0);
        sl_policy_unref(policy);
        sl_report_done(&report);
        fail_check(&f);
    }
    CHECK_EQ(err, 0);
}

CHECK_MAIN()
