/* tokens.c -- `identity: jwt` as the engine and the daemon find it. */
#include "policy/policy.h"

#include "read.h"

TEST(sources)
{
    struct sl_policy *p =
        read_policy("sluice: 1\n"
                    "identity:\n"
                    "  user: [jwt.sub, header.X-User, cookie.User]\n"
                    "  role: jwt.realm.role\n"
                    "  device: [\"jwt.https://id.example/device\"]\n"
                    "  jwt: { jwks: \"file:./keys.json\" }\n");
    const struct sl_source *user, *device;

    CASE("claims, headers and cookies");
    if (!p)
        return;
    user = p->identity.scopes[SL_SCOPE_USER].list;
    device = p->identity.scopes[SL_SCOPE_NAMED].list;
    CHECK_EQ(p->identity.scopes[SL_SCOPE_USER].count, 3);
    CHECK_EQ(user[0].kind, SL_SOURCE_JWT);
    CHECK(is(user[0].name, "sub"));
    CHECK_EQ(user[1].kind, SL_SOURCE_HEADER);
    CHECK(is(user[1].name, "x-user"));
    CHECK_EQ(user[2].kind, SL_SOURCE_COOKIE);
    CHECK(is(user[2].name, "User"));
    CHECK(is(p->identity.role.list[0].name, "realm.role"));
    CHECK(is(device[0].name, "https://id.example/device"));
    sl_policy_unref(p);
}

TEST(all_keys)
{
    struct sl_policy *p = read_policy(
        "sluice: 1\n"
        "identity:\n"
        "  user: jwt.sub\n"
        "  jwt: { from: [cookie.Session, header.X-Token], leeway: 5m,\n"
        "         algorithms: [ES256, RS256], jwks: \"file:./keys.json\",\n"
        "         issuer: me, audience: [a, b], expiry: optional, stale: 2h "
        "}\n");
    const struct sl_jwt *jwt;

    CASE("every key");
    if (!p)
        return;
    jwt = &p->identity.jwt;
    CHECK(jwt->written && jwt->expiry_optional);
    CHECK_EQ(jwt->from.count, 2);
    CHECK_EQ(jwt->from.list[0].kind, SL_SOURCE_COOKIE);
    CHECK(is(jwt->from.list[0].name, "Session"));
    CHECK(is(jwt->from.list[1].name, "x-token"));
    CHECK_EQ(jwt->algorithms, 1 << 0 | 1 << 6);
    CHECK(is(jwt->jwks, "file:./keys.json"));
    CHECK(is(jwt->issuer, "me"));
    CHECK_EQ(jwt->audience_count, 2);
    CHECK(is(jwt->audiences[1], "b"));
    CHECK_EQ(jwt->leeway, 300 * SL_S);
    CHECK_EQ(jwt->stale, 7200 * SL_S);
    CHECK_EQ(jwt->secret.len, 0);
    sl_policy_unref(p);
}

TEST(presets)
{
    struct sl_policy *none = read_policy("sluice: 1\n");
    struct sl_policy *p =
        read_policy("sluice: 1\n"
                    "identity: { user: jwt.sub, jwt: { secret: "
                    "0123456789abcdef0123456789abcdef } }\n");
    const struct sl_jwt *jwt;

    CASE("without the section no token is believed");
    CHECK(none && !none->identity.jwt.written);
    CASE("what is not written");
    if (p) {
        jwt = &p->identity.jwt;
        CHECK_EQ(jwt->from.count, 1);
        CHECK_EQ(jwt->from.list[0].kind, SL_SOURCE_HEADER);
        CHECK(is(jwt->from.list[0].name, "authorization"));
        CHECK_EQ(jwt->algorithms, 7 << 10);
        CHECK_EQ(jwt->secret.len, 32);
        CHECK_EQ(jwt->issuer.len, 0);
        CHECK_EQ(jwt->audience_count, 0);
        CHECK_EQ(jwt->leeway, 30 * SL_S);
        CHECK_EQ(jwt->stale, 86400 * SL_S);
        CHECK(!jwt->expiry_optional);
    }
    sl_policy_unref(p);
    sl_policy_unref(none);
}

/* Which places of keys are taken; test/bad has those that are not. */
TEST(places)
{
    static const char *const rows[] = {
        "file:/etc/keys.json",           "https://id.example",
        "https://id.example:8443/a?b=c", "https://[2001:db8::1]/keys",
        "http://127.0.0.1:8090/keys",    "http://127.1.2.3/keys",
        "http://localhost:1/keys",       "http://[::1]:8090/keys",
    };

    CASE("places of keys");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char text[256];
        struct sl_policy *p;

        snprintf(text, sizeof(text),
                 "sluice: 1\nidentity: { user: jwt.sub, jwt: { jwks: \"%s\" "
                 "} }\n",
                 rows[i]);
        p = read_policy(text);
        CHECK(p && is(p->identity.jwt.jwks, rows[i]));
        sl_policy_unref(p);
    }
}

CHECK_MAIN()
