/* key.c -- what a limit's state is called, in the table and in a store. */
#include "policy/key.h"

#include <stdlib.h>

#include "base/hash.h"
#include "check.h"
#include "fail.h"
#include "keys.h"
#include "row.h"

static const struct sl_hash_key secret = {1, 2};
static struct sl_key_context context;

/* ---- the table ---- */

TEST(bytes)
{
    static const struct sl_key_value one[] = {
        {{"user", 4}, {"ann", 3}}
    };
    static const struct sl_key_value two[] = {
        {{"org", 3},  {"a\0", 2}},
        {{"user", 4}, {NULL, 0} }
    };
    static char big[100000];
    struct sl_key_value values[SL_PER_MAX];
    char out[SL_KEY_MAX], other[SL_KEY_MAX], scope[255];
    size_t len;

    CASE("scope and value, each with its length");
    len = sl_key_bytes(one, 1, &secret, out);
    CHECK_EQ(len, 10);
    CHECK(memcmp(out, "\4user\3\0ann", 10) == 0);

    CASE("several, and nothing, are binary safe");
    len = sl_key_bytes(two, 2, &secret, out);
    CHECK_EQ(len, 15);
    CHECK(memcmp(out, "\3org\2\0a\0\4user\0\0", 15) == 0);
    CHECK_EQ(sl_key_bytes(NULL, 0, &secret, out), 0);

    CASE("the longest there can be fits");
    memset(scope, 's', sizeof(scope));
    for (unsigned i = 0; i < SL_PER_MAX; i++)
        values[i] = (struct sl_key_value){
            {scope, sizeof(scope)},
            {big,   SL_VALUE_MAX }
        };
    len = sl_key_bytes(values, SL_PER_MAX, &secret, out);
    CHECK_EQ(len, SL_PER_MAX * (1 + 255 + 2 + SL_VALUE_MAX));
    CHECK(len <= SL_KEY_MAX);

    CASE("longer values go in by their fingerprint");
    for (unsigned i = 0; i < SL_PER_MAX; i++)
        values[i].value.len = sizeof(big);
    len = sl_key_bytes(values, SL_PER_MAX, &secret, out);
    CHECK_EQ(len, SL_PER_MAX * (1 + 255 + 26));
    big[99999] = 1;
    CHECK_EQ(sl_key_bytes(values, SL_PER_MAX, &secret, other), len);
    CHECK(memcmp(out, other, len) != 0);
    big[99999] = 0;
    sl_key_bytes(values, SL_PER_MAX, &(struct sl_hash_key){3, 4}, other);
    CHECK(memcmp(out, other, len) != 0);
    sl_key_bytes(values, SL_PER_MAX, &secret, other);
    CHECK(memcmp(out, other, len) == 0);
    values[0].value.len--;
    sl_key_bytes(values, SL_PER_MAX, &secret, other);
    CHECK(memcmp(out, other, len) != 0);
}

/* ---- names ---- */

/* The name, valid until the next call. "scope=value scope=value" are the
 * values. */
static const char *name_of(const char *text, const char *pairs)
{
    static char out[8192], copy[4096];
    struct sl_key_template key = template(text);
    struct sl_key_value values[SL_PER_MAX];
    unsigned count = 0;
    struct sl_buf buf;

    snprintf(copy, sizeof(copy), "%s", pairs);
    for (char *at = copy; *at; count++) {
        size_t scope = strcspn(at, "="), len = strcspn(at + scope + 1, " ");

        values[count] = (struct sl_key_value){
            {at,             scope},
            {at + scope + 1, len  }
        };
        at += scope + 1 + len;
        at += *at == ' ';
    }
    sl_buf_init(&buf, sizeof(out), &sl_alloc_libc);
    CHECK_EQ(sl_key_name(&key, &context, values, count, &buf), 0);
    snprintf(out, sizeof(out), "%.*s", SL_STR_ARG(sl_buf_str(&buf)));
    sl_buf_done(&buf);
    return out;
}

TEST(names)
{
    static const struct {
        const char *why, *key, *values, *want;
    } rows[] = {
        ROW("the default", SL_KEY_DEFAULT, "user=ann",
            "sluice:prod:session:user:ann"),
        ROW("per endpoint and organisation", "rl:{env}:{endpoint}:{scope}:{id}",
            "org=c2b3", "rl:prod:assistant_query:org:c2b3"),
        ROW("per endpoint and address", "rl:{env}:{endpoint}:{scope}:{id}",
            "ip=203.0.113.5", "rl:prod:assistant_query:ip:203.0.113.5"),
        ROW("per tenant", "ratelimit:tenant:{org}", "org=acme",
            "ratelimit:tenant:acme"),
        ROW("per user of a tenant", "ratelimit:user:{org}:{user}",
            "org=acme user=7", "ratelimit:user:acme:7"),
        ROW("the order is the template's", "{user}/{org}", "org=acme user=7",
            "7/acme"),
        ROW("by type, a user", "{name}:{user_type}:{id}", "user=7",
            "session:user:7"),
        ROW("by type, a visitor", "{name}:{user_type}:{id}", "anon=5f2c",
            "session:anon:5f2c"),
        ROW("with the window", "{name}:{user_type}:{id}#{window_start}",
            "user=7", "session:user:7#1700000000000"),
        ROW("a word behind", "{user}:minute", "user=7", "7:minute"),
        ROW("two scopes", "{scope}={id}", "org=a user=b", "org:user=a:b"),
        ROW("one for all", SL_KEY_DEFAULT, "", "sluice:prod:session:all:"),
        ROW("an address in a user's place", "{scope}:{org}:{user}",
            "org=a ip=1.2.3.4", "org:ip:a:1.2.3.4"),
        ROW("a fingerprint in a user's place", "{scope}:{ip}:{user}",
            "ip=1.2.3.4 anon=5f", "ip:anon:1.2.3.4:5f"),
        ROW("the endpoint of the value", "{endpoint}:{user}",
            "endpoint=e user=u", "e:u"),
        ROW("braces", "{{{user}}}:x", "user=u", "{u}:x"),
        ROW("UUIDs stay", "{id}", "user=123e4567-e89b-12d3-a456-426614174000",
            "123e4567-e89b-12d3-a456-426614174000"),
        ROW("e-mails stay", "{id}", "user=Ann_B.~c@example.com",
            "Ann_B.~c@example.com"),
        ROW("IPv6 does not", "{id}", "ip=2001:db8::/64",
            "2001%3Adb8%3A%3A%2F64"),
        ROW("separators do not", "{id}", "user=a:b{c}%|", "a%3Ab%7Bc%7D%25%7C"),
        ROW("nor what is not ASCII", "{id}", "user=\xc3\xa4\xff\x7f\r\n",
            "%C3%A4%FF%7F%0D%0A"),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_STR(name_of(rows[i].key, rows[i].values), rows[i].want);
    }
}

TEST(all_bytes)
{
    struct sl_key_template key = template("{id}");
    unsigned plain = 0, escaped = 0;

    CASE("each byte stays or is three");
    for (unsigned c = 0; c < 256; c++) {
        char byte = (char)c, want[4];
        struct sl_key_value value = {
            {"user", 4},
            {&byte,  1}
        };
        struct sl_buf buf;
        bool stays = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                            "yz0123456789-_.@~",
                            byte) &&
                     c;

        sl_buf_init(&buf, 8, &sl_alloc_libc);
        CHECK_EQ(sl_key_name(&key, &context, &value, 1, &buf), 0);
        snprintf(want, sizeof(want), stays ? "%c" : "%%%02X", c);
        CHECK(sl_str_eq(sl_buf_str(&buf), sl_str_c(want)));
        plain += buf.len == 1;
        escaped += buf.len == 3;
        sl_buf_done(&buf);
    }
    CHECK_EQ(plain, 67);
    CHECK_EQ(escaped, 256 - 67);
}

TEST(long_names)
{
    struct sl_key_template key = template("a:{id}");
    static char big[2000];
    struct sl_key_value value = {
        {"user", 4           },
        {big,    SL_VALUE_MAX}
    };
    struct sl_buf buf, other;

    memset(big, 'x', sizeof(big));
    sl_buf_init(&buf, 4096, &sl_alloc_libc);
    sl_buf_init(&other, 4096, &sl_alloc_libc);
    CASE("up to SL_VALUE_MAX a value is written out");
    CHECK_EQ(sl_key_name(&key, &context, &value, 1, &buf), 0);
    CHECK_EQ(buf.len, 2 + SL_VALUE_MAX);

    CASE("beyond it, its length and fingerprint, as no value looks");
    sl_buf_clear(&buf);
    value.value.len = 2000;
    CHECK_EQ(sl_key_name(&key, &context, &value, 1, &buf), 0);
    CHECK_EQ(buf.len, 2 + 7 + 32);
    CHECK(memcmp(buf.bytes, "a:%~2000~", 9) == 0);
    big[1999] = 'y';
    CHECK_EQ(sl_key_name(&key, &context, &value, 1, &other), 0);
    CHECK_EQ(other.len, buf.len);
    CHECK(!sl_str_eq(sl_buf_str(&buf), sl_buf_str(&other)));
    sl_buf_done(&buf);
    sl_buf_done(&other);
}

/* ---- failures ---- */

static const struct sl_key_value two_values[] = {
    {{"org", 3},  {"acme", 4}   },
    {{"user", 4}, {"a:b:c:d", 7}}
};

TEST(full)
{
    struct sl_key_template key = template("x:{scope}:{id}:{window_start}");
    size_t want = strlen("beforex:org:user:acme:a%3Ab%3Ac%3Ad:1700000000000");

    CASE("a name that does not fit leaves the buffer as it was");
    for (size_t ceiling = 6; ceiling <= want; ceiling++) {
        struct fail f = {0};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf buf;
        int err;

        sl_buf_init(&buf, ceiling, &alloc);
        CHECK_EQ(sl_buf_add(&buf, SL_STR("before")), 0);
        err = sl_key_name(&key, &context, two_values, 2, &buf);
        CHECK_EQ(err, ceiling < want ? SLUICE_EFULL : 0);
        CHECK_EQ(buf.len, ceiling < want ? 6 : want);
        sl_buf_check(&buf);
        sl_buf_done(&buf);
        fail_check(&f);
    }
}

TEST(failures)
{
    struct sl_key_template key = template("x:{scope}:{id}:{window_start}");
    struct sl_key_template read = {.count = 77};
    int err = SLUICE_ENOMEM;
    unsigned n;

    CASE("without memory for a template: an error, nothing changed");
    for (n = 1; err; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_arena small;

        sl_arena_init(&small, 64 * 1024, &alloc);
        err = sl_key_template_read(SL_STR("{org}:{user}:and:some:more:bytes:so:"
                                          "that:there:is:another:block:taken:"
                                          "for:them:because:they:are:many:aa"),
                                   &small, &read, NULL);
        CHECK(err ? err == SLUICE_ENOMEM && read.count == 77 : read.count == 4);
        sl_arena_done(&small);
        fail_check(&f);
    }
    CHECK(n > 2);

    CASE("without memory for a name, too");
    err = SLUICE_ENOMEM;
    for (n = 1; err; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf buf;

        sl_buf_init(&buf, 4096, &alloc);
        err = sl_key_name(&key, &context, two_values, 2, &buf);
        CHECK(err ? err == SLUICE_ENOMEM && buf.len == 0 : buf.len == 43);
        sl_buf_done(&buf);
        fail_check(&f);
    }
    CHECK(n > 2);
}

int main(void)
{
    sl_arena_init(&arena, 1024 * 1024, &sl_alloc_libc);
    context = key_context();
    RUN_TESTS();
    sl_arena_done(&arena);
    return CHECK_DONE();
}
