/* keys.c -- the keys in force: who holds them keeps them, who asks sees the
 * newest. */
#include "made.h"

#include <pthread.h>

#include "fail.h"
#include "identity/jwt.h"

TEST(none)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    static const struct sl_token_rules rules;
    struct sl_jwks_current *keys = NULL, *none = NULL;
    struct sl_jwks_held held;
    uint64_t version;

    CASE("at first there are none");
    CHECK_EQ(sl_jwks_current_open(&alloc, &keys), 0);
    version = sl_jwks_current_version(keys);
    CHECK(version != 0);
    sl_jwks_current_hold(keys, &held);
    CHECK(!held.set);
    CHECK_EQ(held.rules->leeway, 0);
    CHECK_EQ(held.version, version);
    sl_jwks_current_release(&held);
    sl_jwks_current_release(&held);

    CASE("without memory nothing changes");
    f.nth = f.calls + 1;
    CHECK_EQ(sl_jwks_current_put(keys, NULL, &rules), SLUICE_ENOMEM);
    CHECK_EQ(sl_jwks_current_version(keys), version);
    f.nth = f.calls + 1;
    CHECK_EQ(sl_jwks_current_open(&alloc, &none), SLUICE_ENOMEM);
    CHECK(!none);
    sl_jwks_current_close(keys);
    sl_jwks_current_close(NULL);
    fail_check(&f);
}

TEST(put)
{
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    char issuer[] = "https://id/", audience[] = "api";
    struct sl_str audiences[] = {
        {audience, 3},
        SL_STR("")
    };
    struct sl_token_rules rules = {.issuer = sl_str_c(issuer),
                                   .audiences = audiences,
                                   .audience_count = 2,
                                   .leeway = 5};
    struct sl_keyset *set = made_set(0);
    struct sl_jwks_held first, second;
    struct sl_jwks_current *keys = NULL;
    uint64_t version;

    CASE("what is put is copied or counted");
    CHECK_EQ(sl_jwks_current_open(&alloc, &keys), 0);
    version = sl_jwks_current_version(keys);
    CHECK_EQ(sl_jwks_current_put(keys, set, &rules), 0);
    CHECK(sl_jwks_current_version(keys) != version);
    memset(issuer, 'x', sizeof(issuer) - 1);
    memset(audience, 'x', sizeof(audience) - 1);
    sl_jwks_current_hold(keys, &first);
    CHECK(first.set == set);
    CHECK_EQ(first.version, sl_jwks_current_version(keys));
    CHECK(sl_str_eq(first.rules->issuer, SL_STR("https://id/")));
    CHECK_EQ(first.rules->audience_count, 2);
    CHECK(sl_str_eq(first.rules->audiences[0], SL_STR("api")));
    CHECK_EQ(first.rules->audiences[1].len, 0);
    CHECK_EQ(first.rules->leeway, 5);

    CASE("who holds the old ones keeps them");
    rules.leeway = 6;
    CHECK_EQ(sl_jwks_current_put(keys, NULL, &rules), 0);
    sl_jwks_current_hold(keys, &second);
    CHECK(!second.set && first.set == set);
    CHECK(second.version != first.version);
    CHECK_EQ(second.rules->leeway, 6);
    CHECK_EQ(first.rules->leeway, 5);

    sl_keyset_unref(set);
    sl_jwks_current_close(keys);
    CHECK_EQ(sl_keyset_count(first.set), 1);
    sl_jwks_current_release(&first);
    sl_jwks_current_release(&second);
    fail_check(&f);
}

TEST(wish)
{
    struct sl_jwks_current *keys = NULL;

    CASE("one wish at a time");
    CHECK_EQ(sl_jwks_current_open(&sl_alloc_libc, &keys), 0);
    CHECK(!sl_jwks_current_refresh_requested(keys));
    for (unsigned i = 0; i < 1000; i++)
        sl_jwks_current_request_refresh(keys);
    CHECK(sl_jwks_current_refresh_requested(keys));
    CHECK(!sl_jwks_current_refresh_requested(keys));
    sl_jwks_current_close(keys);
}

/* ---- threads ---- */

#define ROUNDS 2000

static struct sl_jwks_current *shared;
static atomic_bool over;

/* What is held belongs together: the leeway is the version's. */
static void *on_reader(void *ctx)
{
    unsigned *torn = ctx;
    uint64_t last = 0;

    while (!atomic_load(&over)) {
        struct sl_jwks_held held;

        sl_jwks_current_hold(shared, &held);
        if (held.version < last ||
            (held.set && held.rules->leeway != (sl_ns)held.version))
            (*torn)++;
        last = held.version;
        sl_jwks_current_request_refresh(shared);
        sl_jwks_current_release(&held);
    }
    return NULL;
}

TEST(threads)
{
    struct sl_keyset *set = made_set(0);
    unsigned torn[3] = {0};
    pthread_t threads[3];

    CASE("many hold while one puts");
    CHECK_EQ(sl_jwks_current_open(&sl_alloc_libc, &shared), 0);
    for (unsigned i = 0; i < SL_LEN(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, on_reader, &torn[i]), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sl_token_rules rules = {
            .leeway = (sl_ns)sl_jwks_current_version(shared) + 1};

        CHECK_EQ(sl_jwks_current_put(shared, set, &rules), 0);
        sl_jwks_current_refresh_requested(shared);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < SL_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(torn[i], 0);
    }
    sl_jwks_current_close(shared);
    sl_keyset_unref(set);
}

CHECK_MAIN()
