/* tokens.c -- what is remembered, what is forgotten, and who has to wait. */
#include "made.h"

#include <openssl/rand.h>

#include "fail.h"
#include "identity/token_verifier.h"

#define AT(seconds) (INT64_C(seconds) * SL_S)

static struct sl_jwks_current *keys;
static struct sl_tokens *tokens;
static enum sl_token_error why;

static struct sl_ip address(const char *text)
{
    struct sl_ip ip;

    if (!sl_ip_parse(sl_str_c(text), &ip))
        abort();
    return ip;
}

static const struct sl_token *ask(struct sl_str text, const char *from,
                                  sl_ns now)
{
    struct sl_ip ip = address(from);

    return tokens->calls->verify(tokens, text, &ip, now, &why);
}

/* The token of a user, good in [begins, expires). */
static struct sl_str token_of(unsigned user, unsigned begins, unsigned expires)
{
    char payload[128];

    snprintf(payload, sizeof(payload),
             "{\"sub\":\"user %u\",\"nbf\":%u,\"exp\":%u}", user, begins,
             expires);
    return made(HS256, payload);
}

static struct sl_str bad_token(void)
{
    struct sl_str token = token_of(1, 0, 1000);

    ((char *)token.at)[token.len - 2] ^= 1;
    return token;
}

static void put(const char *secret, const struct sl_token_rules *rules)
{
    struct sl_keyset *set = NULL;

    if (secret &&
        sl_keyset_secret(sl_str_c(secret), 0, &sl_alloc_libc, &set, NULL))
        abort();
    CHECK_EQ(sl_jwks_current_put(keys, set, rules), 0);
    sl_keyset_unref(set);
}

static void open_with(unsigned cached, unsigned bad)
{
    static const struct sl_token_rules rules;
    struct sl_tokens_options options = {
        .cached = cached, .bad_per_minute = bad, .alloc = &sl_alloc_libc};

    CHECK_EQ(sl_jwks_current_open(&sl_alloc_libc, &keys), 0);
    options.keys = keys;
    CHECK_EQ(sl_tokens_open(&options, &tokens, NULL), 0);
    put(made_secret, &rules);
}

static void done(void)
{
    sl_tokens_close(tokens);
    sl_jwks_current_close(keys);
}

TEST(remembered)
{
    const struct sl_tokens_stats *stats;
    const struct sl_token *token;

    CASE("a token is verified once, and remembered until it expires");
    open_with(0, 0);
    stats = sl_tokens_stats(tokens);
    for (unsigned i = 0; i < 3; i++) {
        token = ask(token_of(7, 100, 1000), "192.0.2.1", AT(200) + i);
        if (CHECK(token)) {
            CHECK(sl_str_eq(sl_token_claim(token, SL_STR("sub")),
                            SL_STR("user 7")));
            CHECK_EQ(token->expires, AT(1000));
            CHECK_EQ(token->begins, AT(100));
            CHECK_EQ(token->claim_count, 3);
        }
        CHECK_EQ(why, SL_TOKEN_GOOD);
        CHECK_EQ(stats->good, i + 1);
        CHECK_EQ(stats->cached, i);
    }
    CHECK(ask(token_of(7, 100, 1000), "192.0.2.1", AT(1000) - 1));
    CHECK_EQ(stats->cached, 3);
    CHECK(!ask(token_of(7, 100, 1000), "192.0.2.1", AT(1000)));
    CHECK_FAULT(why, SL_TOKEN_EXPIRED);
    CHECK_EQ(stats->bad[SL_TOKEN_EXPIRED], 1);

    CASE("nor before it begins, when the clock steps back");
    CHECK(ask(token_of(7, 100, 1000), "192.0.2.2", AT(200)));
    CHECK(!ask(token_of(7, 100, 1000), "192.0.2.2", AT(100) - 1));
    CHECK_FAULT(why, SL_TOKEN_NOT_YET);

    CASE("other tokens are other tokens");
    CHECK(ask(token_of(7, 100, 1000), "192.0.2.2", AT(200)));
    CHECK(!ask(bad_token(), "192.0.2.2", AT(200)));
    CHECK_FAULT(why, SL_TOKEN_SIGNATURE);
    token = ask(token_of(8, 100, 1000), "192.0.2.2", AT(200));
    CHECK(token &&
          sl_str_eq(sl_token_claim(token, SL_STR("sub")), SL_STR("user 8")));
    done();
}

TEST(leeway)
{
    struct sl_token_rules rules = {.leeway = AT(30)};

    CASE("the leeway counts for what is remembered");
    open_with(0, 0);
    put(made_secret, &rules);
    CHECK(ask(token_of(1, 100, 200), "192.0.2.1", AT(70)));
    CHECK(ask(token_of(1, 100, 200), "192.0.2.1", AT(230) - 1));
    CHECK(ask(token_of(1, 100, 200), "192.0.2.1", AT(70)));
    CHECK_EQ(sl_tokens_stats(tokens)->cached, 2);
    CHECK(!ask(token_of(1, 100, 200), "192.0.2.1", AT(70) - 1));
    CHECK(!ask(token_of(1, 100, 200), "192.0.2.1", AT(230)));
    done();
}

TEST(forgotten)
{
    struct sl_token_rules strict = {.issuer = SL_STR("https://id/")};
    static const struct sl_token_rules rules;

    CASE("other keys or rules, and all is forgotten");
    open_with(0, 0);
    CHECK(ask(token_of(1, 0, 1000), "192.0.2.1", AT(1)));
    put("another secret, which is also as long as it must be", &rules);
    CHECK(!ask(token_of(1, 0, 1000), "192.0.2.1", AT(1)));
    CHECK_FAULT(why, SL_TOKEN_SIGNATURE);
    put(made_secret, &rules);
    CHECK(ask(token_of(1, 0, 1000), "192.0.2.1", AT(1)));
    put(made_secret, &strict);
    CHECK(!ask(token_of(1, 0, 1000), "192.0.2.1", AT(1)));
    CHECK_FAULT(why, SL_TOKEN_ISSUER);

    CASE("without keys no token is valid, and keys are requested");
    put(NULL, &rules);
    CHECK(!sl_jwks_current_refresh_requested(keys));
    CHECK(!ask(token_of(1, 0, 1000), "192.0.2.1", AT(1)));
    CHECK_FAULT(why, SL_TOKEN_NO_KEYS);
    CHECK(sl_jwks_current_refresh_requested(keys));
    CHECK(!sl_jwks_current_refresh_requested(keys));
    done();
}

TEST(unknown)
{
    static const struct sl_token_rules rules;
    struct sl_keyset *set = NULL;

    CASE("a missing key is requested, and no address is limited");
    open_with(0, 3);
    CHECK_EQ(sl_keyset_read(
                 SL_STR("{\"kty\":\"oct\",\"kid\":\"old\",\"k\":"
                        "\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY\"}"),
                 SL_ALG_HMAC, &sl_alloc_libc, &set, NULL),
             0);
    CHECK_EQ(sl_jwks_current_put(keys, set, &rules), 0);
    sl_keyset_unref(set);
    for (unsigned i = 0; i < 100; i++) {
        CHECK(!ask(made("{\"alg\":\"HS256\",\"kid\":\"new\"}", "{\"exp\":9}"),
                   "192.0.2.1", AT(1)));
        CHECK_FAULT(why, SL_TOKEN_NO_KEY);
        CHECK(sl_jwks_current_refresh_requested(keys));
    }
    done();
}

/* How many bad tokens of an address are verified until the address is blocked.
 */
static unsigned looked_at(const char *from, sl_ns now)
{
    for (unsigned i = 0; i < 1000; i++) {
        ask(bad_token(), from, now);
        if (why == SL_TOKEN_HELD_BACK)
            return i;
        CHECK_FAULT(why, SL_TOKEN_SIGNATURE);
    }
    return 1000;
}

TEST(held_back)
{
    CASE("20 bad ones at once, then one a second");
    open_with(0, 0);
    CHECK(ask(token_of(1, 0, 1000), "192.0.2.1", AT(1)));
    CHECK_EQ(looked_at("192.0.2.1", AT(1)), 20);
    CHECK_EQ(looked_at("192.0.2.1", AT(2) - 1), 0);
    CHECK_EQ(looked_at("192.0.2.1", AT(2)), 1);
    CHECK_EQ(looked_at("192.0.2.1", AT(5)), 3);
    CHECK_EQ(looked_at("192.0.2.1", AT(500)), 20);

    CASE("what is remembered goes on, what is new waits");
    CHECK(ask(token_of(1, 0, 1000), "192.0.2.1", AT(500)));
    CHECK(!ask(token_of(2, 0, 1000), "192.0.2.1", AT(500)));
    CHECK_FAULT(why, SL_TOKEN_HELD_BACK);
    CHECK(ask(token_of(2, 0, 1000), "192.0.2.1", AT(501)));

    CASE("other addresses do not wait");
    CHECK(ask(token_of(3, 0, 1000), "192.0.2.2", AT(500)));
    CHECK_EQ(looked_at("192.0.2.2", AT(500)), 20);

    CASE("IPv6 by /64, mapped addresses as IPv4");
    CHECK_EQ(looked_at("2001:db8::1", AT(600)), 20);
    CHECK_EQ(looked_at("2001:db8::ffff:2", AT(600)), 0);
    CHECK_EQ(looked_at("2001:db8:0:1::1", AT(600)), 20);
    CHECK_EQ(looked_at("192.0.2.9", AT(600)), 20);
    CHECK_EQ(looked_at("::ffff:192.0.2.9", AT(600)), 0);

    CASE("a clock that steps back locks no address out for long");
    CHECK_EQ(looked_at("192.0.2.9", AT(100)), 0);
    CHECK_EQ(looked_at("192.0.2.9", AT(121)), 20);

    CASE("without an address there is no limit");
    for (unsigned i = 0; i < 100; i++) {
        tokens->calls->verify(tokens, bad_token(), NULL, AT(600), &why);
        CHECK_FAULT(why, SL_TOKEN_SIGNATURE);
    }
    done();
}

TEST(cheap)
{
    static const struct sl_token_rules rules = {.algorithms = SL_ALG_HS256};

    CASE("what cost no check of a signature is not limiterd");
    open_with(0, 3);
    put(made_secret, &rules);
    for (unsigned i = 0; i < 100; i++) {
        CHECK(!ask(SL_STR("some-other-cookie"), "192.0.2.1", AT(1)));
        CHECK_FAULT(why, SL_TOKEN_MALFORMED);
        CHECK(!ask(made("{\"alg\":\"none\"}", "{}"), "192.0.2.1", AT(1)));
        CHECK_FAULT(why, SL_TOKEN_ALGORITHM);
    }
    CASE("an expired one did");
    CHECK(!ask(token_of(1, 0, 1), "192.0.2.1", AT(1)));
    CHECK_FAULT(why, SL_TOKEN_EXPIRED);
    CHECK(!ask(token_of(1, 0, 1), "192.0.2.1", AT(1)));
    CHECK_FAULT(why, SL_TOKEN_HELD_BACK);
    CHECK_EQ(sl_tokens_stats(tokens)->bad[SL_TOKEN_HELD_BACK], 1);
    CASE("a token that is too long is not even hashed");
    CHECK(!ask((struct sl_str){made_secret, SL_TOKEN_BYTES + 1}, "192.0.2.1",
               AT(1)));
    CHECK_FAULT(why, SL_TOKEN_TOO_LARGE);
    done();
}

/* ---- the parts ---- */

static struct sl_digest digest_of(unsigned n)
{
    struct sl_digest digest = {{0}};

    /* Few chains, so that they are long. */
    digest.bytes[0] = (uint8_t)(n % 3);
    memcpy(digest.bytes + 8, &n, sizeof(n));
    return digest;
}

static void keep(struct sl_map *cache, unsigned n, size_t bytes)
{
    static char text[100000];
    struct sl_digest digest = digest_of(n);
    struct sl_token token = {.claim_count = 1, .expires = n};

    token.claims[0] = (struct sl_claim){
        SL_STR("x"), {text, bytes}
    };
    sl_token_cache_add(cache, &digest, &token, 0, 100);
    sl_map_check(cache);
}

static bool has(struct sl_map *cache, unsigned n, sl_ns now)
{
    struct sl_digest digest = digest_of(n);
    struct sl_token token;
    bool found = sl_token_cache_find(cache, &digest, now, &token);

    sl_map_check(cache);
    CHECK(!found || token.expires == n);
    return found;
}

TEST(cache)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_map cache;

    CASE("the one asked for longest ago gives way");
    CHECK_EQ(sl_token_cache_init(&cache, 4, &alloc), 0);
    for (unsigned i = 0; i < 4; i++)
        keep(&cache, i, 10);
    CHECK(has(&cache, 0, 50));
    keep(&cache, 4, 10);
    CHECK(!has(&cache, 1, 50));
    CHECK(has(&cache, 0, 50) && has(&cache, 2, 50) && has(&cache, 3, 50));
    CHECK_EQ(cache.count, 4);

    CASE("its time has an end, which is not in it");
    CHECK(has(&cache, 0, 99));
    CHECK(!has(&cache, 0, 100));
    CHECK(!has(&cache, 2, -1));
    CHECK_EQ(cache.count, 2);

    CASE("bytes are bounded, too");
    for (unsigned i = 10; i < 14; i++)
        keep(&cache, i, 3000);
    CHECK_EQ(cache.count, 2);
    keep(&cache, 20, 50000);
    CHECK_EQ(cache.count, 1);
    CHECK(has(&cache, 20, 1));
    keep(&cache, 21, 1);
    CHECK_EQ(cache.count, 1);
    CHECK(has(&cache, 21, 1));

    CASE("without memory nothing is kept, and nothing lost");
    f.nth = f.calls + 1;
    keep(&cache, 22, 1);
    CHECK(!has(&cache, 22, 1));
    CHECK(has(&cache, 21, 1));
    sl_map_clear(&cache);
    sl_map_check(&cache);
    CHECK(!has(&cache, 21, 1));
    keep(&cache, 23, 1);
    sl_map_done(&cache);
    fail_check(&f);
}

/* Far more addresses than places. */
TEST(many_addresses)
{
    struct sl_bad_token limiter;
    struct sl_ip ip = address("10.0.0.0"), one = address("192.0.2.1");
    unsigned held = 0;

    CASE("many addresses do not evict one that is blocked");
    CHECK_EQ(sl_bad_token_init(&limiter, 60, &sl_alloc_libc), 0);
    for (unsigned i = 0; i < 20; i++)
        sl_bad_token_count(&limiter, &one, AT(1));
    CHECK(sl_bad_token_denies(&limiter, &one, AT(1)));
    for (unsigned i = 0; i < 100000; i++) {
        ip.bytes[13] = (uint8_t)(i >> 16);
        ip.bytes[14] = (uint8_t)(i >> 8);
        ip.bytes[15] = (uint8_t)i;
        held += sl_bad_token_denies(&limiter, &ip, AT(1));
        sl_bad_token_count(&limiter, &ip, AT(1));
    }
    CHECK(sl_bad_token_denies(&limiter, &one, AT(1)));
    CHECK_EQ(held, 0);
    CHECK(!sl_bad_token_denies(&limiter, &one, AT(2)));
    sl_bad_token_done(&limiter);
    sl_bad_token_done(&limiter);
}

CHECK_MAIN()
