/* usage_token.c -- tokens of the usage page: what is written is read; anything
 * else is refused. */
#include "identity/usage_token.h"

#include "check.h"

static const uint8_t key[SL_USAGE_TOKEN_KEY] =
    "0123456789abcdef0123456789abcde";

static struct sl_buf token;
static struct sl_arena arena;
static struct sl_usage_claims got;

static void set_up(void)
{
    sl_buf_init(&token, 3 * SL_USAGE_TOKEN_MOST, &sl_alloc_libc);
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
}

static void tear_down(void)
{
    sl_buf_done(&token);
    sl_arena_done(&arena);
}

static void write_token(struct sl_str org, sl_ns expires)
{
    struct sl_usage_claims claims = {
        .org = org,
        .name = SL_STR("Acme \"Inc\""),
        .upgrade_url = SL_STR("https://app.example/?a=b&c"),
        .expires = expires,
    };

    sl_buf_clear(&token);
    CHECK_EQ(sl_usage_token_write(key, &claims, &token), 0);
}

static enum sl_usage_token_fault read_at(struct sl_str text, sl_ns now)
{
    return sl_usage_token_read(key, text, now, &arena, &got);
}

TEST(good)
{
    struct sl_usage_claims bare = {.org = SL_STR("a"), .expires = SL_S};
    static const char org[] = "<script>\xF0\x9F\x98\x80\xD8\xA7";

    set_up();
    CASE("a token says what was put into it");
    write_token(sl_str_c(org), 100 * SL_S);
    CHECK_EQ(read_at(sl_buf_str(&token), 99 * SL_S), SL_USAGE_TOKEN_GOOD);
    CHECK(sl_str_eq(got.org, sl_str_c(org)));
    CHECK(sl_str_eq(got.name, SL_STR("Acme \"Inc\"")));
    CHECK(sl_str_eq(got.upgrade_url, SL_STR("https://app.example/?a=b&c")));
    CHECK_EQ(got.expires, 100 * SL_S);

    CASE("until it expires, to the nanosecond");
    CHECK_EQ(read_at(sl_buf_str(&token), 100 * SL_S - 1), SL_USAGE_TOKEN_GOOD);
    CHECK_EQ(read_at(sl_buf_str(&token), 100 * SL_S), SL_USAGE_TOKEN_EXPIRED);

    CASE("what is missing is empty");
    sl_buf_clear(&token);
    CHECK_EQ(sl_usage_token_write(key, &bare, &token), 0);
    CHECK_EQ(read_at(sl_buf_str(&token), 0), SL_USAGE_TOKEN_GOOD);
    CHECK_EQ(got.name.len + got.upgrade_url.len, 0);
    tear_down();
}

TEST(forged)
{
    uint8_t other[SL_USAGE_TOKEN_KEY];
    unsigned wrong = 0;
    char kept;

    set_up();
    write_token(SL_STR("acme"), 100 * SL_S);
    CASE("every change of a letter is noticed");
    for (size_t i = 0; i < token.len; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            kept = token.bytes[i];
            token.bytes[i] = (char)(kept ^ 1 << bit);
            wrong += read_at(sl_buf_str(&token), 0) == SL_USAGE_TOKEN_WRONG;
            token.bytes[i] = kept;
        }
    CHECK_EQ(wrong, 8 * token.len);

    CASE("so is every shorter or longer one");
    wrong = 0;
    for (size_t len = 0; len < token.len; len++)
        wrong += read_at((struct sl_str){token.bytes, len}, 0) ==
                 SL_USAGE_TOKEN_WRONG;
    CHECK_EQ(wrong, token.len);
    CHECK_EQ(sl_buf_add(&token, SL_STR("A")), 0);
    CHECK_EQ(read_at(sl_buf_str(&token), 0), SL_USAGE_TOKEN_WRONG);
    token.len--;

    CASE("another key does not verify it");
    memcpy(other, key, sizeof(other));
    other[31] ^= 1;
    CHECK_EQ(sl_usage_token_read(other, sl_buf_str(&token), 0, &arena, &got),
             SL_USAGE_TOKEN_WRONG);

    CASE("the signature of one token is not that of another");
    CHECK_EQ(sl_buf_add(&token, SL_STR("")), 0);
    {
        char first[SL_USAGE_TOKEN_MOST], mixed[2 * SL_USAGE_TOKEN_MOST];
        const char *dot;

        snprintf(first, sizeof(first), "%.*s", SL_STR_ARG(sl_buf_str(&token)));
        write_token(SL_STR("zeta"), 100 * SL_S);
        dot = strrchr(first, '.');
        snprintf(mixed, sizeof(mixed), "%.*s%s",
                 (int)((const char *)memrchr(token.bytes, '.', token.len) -
                       token.bytes),
                 token.bytes, dot);
        CHECK_EQ(read_at(sl_str_c(mixed), 0), SL_USAGE_TOKEN_WRONG);
    }

    CASE("texts that are no tokens");
    CHECK_EQ(read_at(SL_STR(""), 0), SL_USAGE_TOKEN_WRONG);
    CHECK_EQ(read_at(SL_STR("slu1."), 0), SL_USAGE_TOKEN_WRONG);
    CHECK_EQ(read_at(SL_STR("slu1.."), 0), SL_USAGE_TOKEN_WRONG);
    CHECK_EQ(read_at(SL_STR("slu1.e30."), 0), SL_USAGE_TOKEN_WRONG);
    CHECK_EQ(read_at(SL_STR("a.b.c"), 0), SL_USAGE_TOKEN_WRONG);
    tear_down();
}

TEST(form)
{
    CASE("the form is known without a key");
    CHECK(sl_usage_token_has_form(SL_STR("slu1.e30.AA")));
    CHECK(!sl_usage_token_has_form(SL_STR("")));
    CHECK(!sl_usage_token_has_form(SL_STR("slu1.e30.")));
    CHECK(!sl_usage_token_has_form(SL_STR("slu1.e30")));
    CHECK(!sl_usage_token_has_form(SL_STR("a.b.c")));
}

TEST(large)
{
    static char name[SL_USAGE_TOKEN_MOST];
    struct sl_usage_claims claims = {.org = SL_STR("a"), .expires = SL_S};
    struct sl_buf small;

    set_up();
    CASE("a token that is too long is not made");
    memset(name, 'n', sizeof(name));
    claims.name = (struct sl_str){name, 3 * SL_USAGE_TOKEN_MOST / 4};
    CHECK_EQ(sl_usage_token_write(key, &claims, &token), SLUICE_EINVAL);
    claims.name.len = sizeof(name);
    CHECK_EQ(sl_usage_token_write(key, &claims, &token), SLUICE_EINVAL);
    CHECK_EQ(token.len, 0);

    CASE("nor is it read");
    claims.name.len = SL_USAGE_TOKEN_MOST / 2;
    CHECK_EQ(sl_usage_token_write(key, &claims, &token), 0);
    CHECK_EQ(read_at(sl_buf_str(&token), 0), SL_USAGE_TOKEN_GOOD);
    CHECK_EQ(read_at((struct sl_str){name, sizeof(name)}, 0),
             SL_USAGE_TOKEN_WRONG);

    CASE("without room nothing is left of it");
    sl_buf_init(&small, 40, &sl_alloc_libc);
    CHECK(sl_usage_token_write(key, &claims, &small) != 0);
    CHECK_EQ(small.len, 0);
    sl_buf_done(&small);
    tear_down();
}

CHECK_MAIN()
